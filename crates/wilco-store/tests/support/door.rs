//! A door in front of a server's Unix socket: what goes through it can be held up in either direction, or cut off.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::support::Folder;

const SOCKET: &str = ".s.PGSQL.5432";

/// What the door lets through.
#[derive(Debug, Clone, Copy)]
struct Ways {
    questions: bool,
    answers: bool,
    /// Connections of earlier rounds are cut.
    round: u64,
}

/// The door. Dropping it cuts everything.
pub struct Door {
    folder: Folder,
    ways: watch::Sender<Ways>,
    doorman: JoinHandle<()>,
}

impl Door {
    /// A door in front of the server whose socket lies in this folder.
    pub fn to(server: &Path) -> Door {
        let folder = Folder::new();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
        let ways = watch::Sender::new(Ways {
            questions: true,
            answers: true,
            round: 0,
        });
        let doorman = tokio::spawn(serve(listener, server.join(SOCKET), ways.clone()));
        Door {
            folder,
            ways,
            doorman,
        }
    }

    /// The folder with the door's socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// From now on no question reaches the server, and nobody notices.
    pub fn hold_questions(&self) {
        self.ways.send_modify(|w| w.questions = false);
    }

    /// From now on no answer comes back, and nobody notices.
    pub fn hold_answers(&self) {
        self.ways.send_modify(|w| w.answers = false);
    }

    /// Cuts off the client of every connection there is, while the server's side of them stays as it is and notices
    /// nothing; new connections go through.
    pub fn cut(&self) {
        self.ways.send_modify(|w| {
            w.questions = true;
            w.answers = true;
            w.round += 1;
        });
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.doorman.abort();
    }
}

async fn serve(listener: UnixListener, server: PathBuf, ways: watch::Sender<Ways>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(there) = UnixStream::connect(&server).await else {
            continue;
        };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = there.into_split();
        let questions = pass(from_client, to_server, ways.subscribe(), |w| w.questions);
        let answers = pass(from_server, to_client, ways.subscribe(), |w| w.answers);
        tokio::spawn(async move {
            // Both ways give their ends back only when they were cut: the client's are dropped then, the server's kept.
            if let (Some(asked), Some(answered)) = tokio::join!(questions, answers) {
                let _server = (asked.1, answered.0);
                drop((asked.0, answered.1));
                std::future::pending::<()>().await;
            }
        });
    }
}

/// Passes on what comes while its way is open. Answers both ends when it was cut, and nothing when one of them closed.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut ways: watch::Receiver<Ways>,
    open: impl Fn(&Ways) -> bool,
) -> Option<(OwnedReadHalf, OwnedWriteHalf)> {
    let round = ways.borrow().round;
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut bytes) => read.ok()?,
            cut = ways.wait_for(|w| w.round != round) => {
                drop(cut.ok()?);
                return Some((from, to));
            }
        };
        if read == 0 {
            return None;
        }
        let now = *ways.wait_for(|w| open(w) || w.round != round).await.ok()?;
        if now.round != round {
            return Some((from, to));
        }
        to.write_all(bytes.get(..read)?).await.ok()?;
    }
}
