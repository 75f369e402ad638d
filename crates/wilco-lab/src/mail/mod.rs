//! The mail drop: an SMTP server on loopback that sends nothing on. What it takes it stores, and keeps a record of.
//!
//! ```text
//! session   one dialogue, and the faults that meet it
//!   lines     lines with their limits
//!   command   one line, read (pure)
//!   store     the Maildir and the record
//! ```

mod command;
mod lines;
mod session;
mod store;

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use time::OffsetDateTime;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::{JoinHandle, JoinSet},
};

pub use store::{MAIL_FOLDER, MAIL_RECORD, Record};

use crate::board::Board;
use session::Session;
use store::{MailStore, Message};

/// How many clients are spoken to at once.
const SESSIONS_MAX: usize = 64;

/// How to run the mail drop.
#[derive(Debug, Clone)]
pub struct MailOptions {
    /// A loopback address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The largest message that is taken, as `SIZE` says (RFC 1870).
    pub message_bytes_max: u64,
    /// How long a client may be silent.
    pub idle: Duration,
    /// How long a message may take from `DATA` to the dot.
    pub message_time: Duration,
}

impl MailOptions {
    /// Messages up to 10 MiB; a minute of silence; five for a message.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            message_bytes_max: 10 * 1024 * 1024,
            idle: Duration::from_secs(60),
            message_time: Duration::from_secs(300),
        }
    }
}

/// What may go wrong with the mail drop. The README's table says what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailFault {
    /// Line closed at RCPT.
    DropBefore,
    /// Line closed at the dot, nothing stored.
    DropAtDot,
    /// Stored; line closed without a reply to the dot.
    DropAfterAccept,
    /// 550 at RCPT.
    Refuse,
    /// 554 at the dot.
    RefuseData,
    /// 450 at RCPT.
    Tempfail,
    /// 451 at the dot.
    TempfailData,
    /// Stored at once, answered later.
    Slow,
    /// Line closed at the dot, stored later.
    Late,
}

impl MailFault {
    /// Every fault, in the order the README lists them.
    pub const ALL: [Self; 9] = [
        Self::DropBefore,
        Self::DropAtDot,
        Self::DropAfterAccept,
        Self::Refuse,
        Self::RefuseData,
        Self::Tempfail,
        Self::TempfailData,
        Self::Slow,
        Self::Late,
    ];

    /// Its name in `POST /lab/faults` and `--fault`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::DropBefore => "drop-before",
            Self::DropAtDot => "drop-at-dot",
            Self::DropAfterAccept => "drop-after-accept",
            Self::Refuse => "refuse",
            Self::RefuseData => "refuse-data",
            Self::Tempfail => "tempfail",
            Self::TempfailData => "tempfail-data",
            Self::Slow => "slow",
            Self::Late => "late",
        }
    }

    const fn meets_recipient(self) -> bool {
        matches!(self, Self::DropBefore | Self::Refuse | Self::Tempfail)
    }

    const fn meets_dot(self) -> bool {
        !self.meets_recipient()
    }
}

/// A running mail drop.
#[derive(Debug)]
pub struct MailDrop {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

/// What every dialogue shares.
#[derive(Debug)]
struct Shared {
    options: MailOptions,
    token: String,
    store: Arc<MailStore>,
    faults: Board<MailFault>,
    stopping: watch::Receiver<bool>,
}

impl MailDrop {
    /// Opens the store and serves a bound socket in the background, until the lab stops and running dialogues have ended.
    /// `token` is the password of `AUTH PLAIN`.
    pub fn start(
        tcp: TcpListener,
        folder: &Path,
        options: MailOptions,
        token: String,
        stopping: watch::Receiver<bool>,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let addr = tcp.local_addr()?;
        let shared = Arc::new(Shared {
            options,
            token,
            store: Arc::new(MailStore::open(folder)?),
            faults: Board::default(),
            stopping,
        });
        let server = tokio::spawn(serve(tcp, Arc::clone(&shared)));
        Ok((Self { addr, shared }, server))
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its Maildir.
    pub fn maildir(&self) -> &Path {
        self.shared.store.maildir()
    }

    /// Its record.
    pub fn record(&self) -> &Path {
        self.shared.store.record()
    }

    /// Its armed faults.
    pub fn faults(&self) -> &Board<MailFault> {
        &self.shared.faults
    }

    /// The last `count` messages, newest first; only those with this `Message-ID`, where one is given.
    pub async fn records(&self, message_id: Option<String>, count: usize) -> io::Result<Vec<Record>> {
        let store = Arc::clone(&self.shared.store);
        let read = move || store.records(message_id.as_deref(), count);
        tokio::task::spawn_blocking(read)
            .await
            .map_err(io::Error::other)?
    }
}

impl Shared {
    async fn deliver(self: Arc<Self>, message: Message) -> io::Result<Record> {
        let store = Arc::clone(&self.store);
        let write = move || store.deliver(&message, OffsetDateTime::now_utc());
        tokio::task::spawn_blocking(write)
            .await
            .map_err(io::Error::other)?
    }

    async fn deliver_later(self: Arc<Self>, message: Message, delay: Duration) {
        if self.wait(delay).await.is_err() {
            return;
        }
        if let Err(error) = self.deliver(message).await {
            tracing::error!(%error, "the lab could not store a late mail");
        }
    }

    /// Waits, unless the lab stops first.
    async fn wait(&self, delay: Duration) -> Result<(), Stopped> {
        let mut stopping = self.stopping.clone();
        tokio::select! {
            // An error means that the lab is gone: stop as well.
            _ = stopping.wait_for(|stop| *stop) => Err(Stopped),
            () = tokio::time::sleep(delay) => Ok(()),
        }
    }
}

/// The lab stopped before the time was over.
struct Stopped;

async fn serve(tcp: TcpListener, shared: Arc<Shared>) {
    let room = Arc::new(Semaphore::new(SESSIONS_MAX));
    let mut stopping = shared.stopping.clone();
    let mut sessions = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => break,
            accepted = tcp.accept() => accepted,
        };
        while sessions.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => match Arc::clone(&room).try_acquire_owned() {
                Ok(permit) => {
                    let session = Session::new(stream, Arc::clone(&shared));
                    sessions.spawn(async move {
                        session.run().await;
                        drop(permit);
                    });
                }
                Err(_) => turn_away(&stream),
            },
            Err(error) => {
                // Out of file handles, or a client gone before it was accepted: both pass.
                tracing::debug!(%error, "a mail connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    while sessions.join_next().await.is_some() {}
}

fn turn_away(stream: &TcpStream) {
    // It fits into the socket's buffer; where it does not, closing says the same.
    let _ = stream.try_write(b"421 4.7.0 too many connections\r\n");
}

/// A new queue id.
fn queue_id() -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    // The time and some of the chance: short enough to be read out.
    let (time, rest) = id.split_at_checked(12).unwrap_or((&id, ""));
    let chance = rest.get(rest.len().saturating_sub(8)..).unwrap_or("");
    format!("{time}{chance}").to_ascii_uppercase()
}
