//! One connection through the proxy, from its first byte to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Break, Conversation, State, Turn};

/// How long a client that said something may go on saying it before we call the turn complete.
const PAUSE: Duration = Duration::from_millis(50);
/// How long anybody is waited for: a client that never gives up, a server that never answers.
const AT_MOST: Duration = Duration::from_secs(90);
/// How long a server may take to answer what is said to it a second time.
const REPEATED: Duration = Duration::from_secs(5);
/// How many bytes of an answer come one by one, and in about how many pieces the rest.
const SINGLY: usize = 24;
/// The time between two pieces: long enough for a reader to see the first without the second.
const BETWEEN_PIECES: Duration = Duration::from_millis(2);
/// The largest turn that is written down, in bytes.
const WRITTEN_DOWN: usize = 16 * 1024 * 1024;

/// Which side spoke.
enum Heard {
    Client(usize),
    Server(usize),
}

struct Line {
    client: TcpStream,
    server: TcpStream,
    state: Arc<State>,
    target: SocketAddr,
    era: u64,
    /// Which connection of its era.
    number: usize,
    /// Which turn.
    turn: usize,
    /// Bytes of the client's in this turn.
    said: usize,
    /// Whether the server has answered in this turn.
    answered: bool,
}

/// Counts a connection that is being broken, until it is over.
struct Broken(Arc<State>);

impl Broken {
    fn begin(state: &Arc<State>) -> Broken {
        state.broken.send_modify(|n| *n += 1);
        Broken(state.clone())
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        self.0.broken.send_modify(|n| *n = n.saturating_sub(1));
    }
}

/// Carries one connection to its end. Errors of either side end it: that is what lines do.
pub(super) async fn carry(client: TcpStream, state: Arc<State>) {
    let (target, era, number) = {
        let mut inner = state.inner();
        inner.conversations.push(Conversation {
            turns: vec![Turn::default()],
        });
        (inner.target, inner.era, inner.conversations.len() - 1)
    };
    let Ok(server) = TcpStream::connect(target).await else {
        // Nobody is there: the client finds its connection reset.
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let line = Line {
        client,
        server,
        state,
        target,
        era,
        number,
        turn: 0,
        said: 0,
        answered: false,
    };
    // Either side hanging up in the middle of something is part of the game.
    let _ = line.run().await;
}

impl Line {
    async fn run(mut self) -> io::Result<()> {
        let mut repeat = None;
        let ended = self.pass_on(&mut repeat).await;
        if repeat.is_some() {
            self.say_again().await?;
        }
        ended
    }

    /// Passes everything on until either side is gone, or something is to be broken.
    async fn pass_on(&mut self, repeat: &mut Option<Broken>) -> io::Result<()> {
        let mut from_client = vec![0; 64 * 1024];
        let mut from_server = vec![0; 64 * 1024];
        let mut client_ended = false;
        loop {
            let heard = tokio::select! {
                n = self.client.read(&mut from_client), if !client_ended => Heard::Client(n?),
                n = self.server.read(&mut from_server) => Heard::Server(n?),
            };
            match heard {
                Heard::Client(0) => {
                    client_ended = true;
                    self.server.shutdown().await?;
                }
                Heard::Client(n) => {
                    let bytes = &from_client[..n];
                    self.client_spoke(bytes);
                    match self.armed() {
                        Some(Break::Duplicate) => {
                            repeat.get_or_insert_with(|| Broken::begin(&self.state));
                            self.server.write_all(bytes).await?;
                        }
                        None | Some(Break::Pause | Break::Dribble) => self.server.write_all(bytes).await?,
                        Some(how) => return self.break_saying(how, bytes).await,
                    }
                }
                Heard::Server(0) => {
                    return self.client.shutdown().await;
                }
                Heard::Server(n) => {
                    self.server_spoke(n);
                    match self.armed() {
                        Some(Break::Pause) => {
                            let broken = Broken::begin(&self.state);
                            self.await_release().await;
                            drop(broken);
                            self.client.write_all(&from_server[..n]).await?;
                        }
                        Some(Break::Dribble) => self.dribble(&from_server[..n]).await?,
                        Some(Break::Duplicate) | None => self.client.write_all(&from_server[..n]).await?,
                        Some(how) => return self.break_reply(how, &from_server[..n]).await,
                    }
                }
            }
        }
    }

    /// The client has said something in a turn that is to be broken.
    async fn break_saying(&mut self, how: Break, first: &[u8]) -> io::Result<()> {
        let _broken = Broken::begin(&self.state);
        match how {
            Break::CutBefore => {}
            Break::CutMiddle(at) => {
                let mut passed = first.len().min(at);
                self.server.write_all(&first[..passed]).await?;
                let mut bytes = vec![0; 64 * 1024];
                while passed < at {
                    let Ok(n @ 1..) = timeout(PAUSE, self.client.read(&mut bytes)).await? else {
                        break;
                    };
                    let n = n.min(at - passed);
                    self.server.write_all(&bytes[..n]).await?;
                    passed += n;
                }
                self.server.flush().await?;
            }
            Break::CutAfter => {
                self.server.write_all(first).await?;
                self.pass_on_the_rest().await?;
            }
            Break::Late => {
                let mut kept = first.to_vec();
                // Until it gives up, by closing or by a reset.
                let _ = timeout(AT_MOST, self.client.read_to_end(&mut kept)).await;
                self.await_release().await;
                self.server.write_all(&kept).await?;
                self.await_answer(AT_MOST).await;
            }
            Break::CutReply | Break::CutInReply | Break::Hold | Break::Garbage(_) => {
                self.server.write_all(first).await?;
                return self.until_reply(how).await;
            }
            Break::Duplicate | Break::Pause | Break::Dribble => {}
        }
        Ok(())
    }

    /// Passes on what the client still says, until the server answers, and breaks that answer.
    async fn until_reply(&mut self, how: Break) -> io::Result<()> {
        let mut from_client = vec![0; 64 * 1024];
        let mut from_server = vec![0; 64 * 1024];
        loop {
            tokio::select! {
                n = self.client.read(&mut from_client) => match n {
                    Ok(n @ 1..) => self.server.write_all(&from_client[..n]).await?,
                    // It gave up before there was an answer.
                    _ => return Ok(()),
                },
                n = self.server.read(&mut from_server) => {
                    let n = n.unwrap_or(0);
                    return self.spoil(how, &from_server[..n]).await;
                }
            }
        }
    }

    /// The server has answered in a turn that is to be broken, in which the client said nothing.
    async fn break_reply(&mut self, how: Break, answer: &[u8]) -> io::Result<()> {
        let _broken = Broken::begin(&self.state);
        self.spoil(how, answer).await
    }

    async fn spoil(&mut self, how: Break, answer: &[u8]) -> io::Result<()> {
        match how {
            Break::CutInReply => self.client.write_all(&answer[..answer.len() / 2]).await?,
            Break::Garbage(bytes) => {
                self.client.write_all(&bytes).await?;
                self.client.shutdown().await?;
                // The client reads it, and hangs up or not.
                self.await_client_end(PAUSE * 20).await;
            }
            Break::Hold | Break::Late => self.await_client_end(AT_MOST).await,
            _ => {}
        }
        Ok(())
    }

    /// Passes on what the client says until it pauses or the server begins to answer.
    async fn pass_on_the_rest(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            tokio::select! {
                n = self.client.read(&mut bytes) => match n {
                    Ok(n @ 1..) => self.server.write_all(&bytes[..n]).await?,
                    _ => return Ok(()),
                },
                readable = self.server.readable() => return readable,
                () = tokio::time::sleep(PAUSE) => return Ok(()),
            }
        }
    }

    /// Waits until the client closes; what it says meanwhile goes nowhere.
    async fn await_client_end(&mut self, at_most: Duration) {
        let mut bytes = vec![0; 4096];
        let end = async { while let Ok(1..) = self.client.read(&mut bytes).await {} };
        let _ = timeout(at_most, end).await;
    }

    /// Passes an answer on in pieces: the first bytes one by one, then more at a time, so that it ends.
    async fn dribble(&mut self, answer: &[u8]) -> io::Result<()> {
        let (first, rest) = answer.split_at(answer.len().min(SINGLY));
        let pieces = first.chunks(1).chain(rest.chunks((rest.len() / SINGLY).max(1)));
        for piece in pieces {
            self.client.write_all(piece).await?;
            tokio::time::sleep(BETWEEN_PIECES).await;
        }
        Ok(())
    }

    /// Waits until what is kept back may go.
    async fn await_release(&self) {
        let mut released = self.state.released.subscribe();
        let _ = timeout(AT_MOST, released.wait_for(|r| *r)).await;
    }

    /// Waits until the server has begun to answer, or has hung up.
    async fn await_answer(&mut self, at_most: Duration) {
        let mut bytes = vec![0; 4096];
        let _ = timeout(at_most, self.server.read(&mut bytes)).await;
    }

    /// Says everything again on a connection of its own, each turn once the last was answered.
    async fn say_again(&self) -> io::Result<()> {
        let turns = {
            let inner = self.state.inner();
            let same_era = inner.era == self.era;
            let ours = inner.conversations.get(self.number).filter(|_| same_era);
            ours.map(|c| c.turns.clone()).unwrap_or_default()
        };
        let mut server = TcpStream::connect(self.target).await?;
        let mut bytes = vec![0; 64 * 1024];
        for turn in turns {
            server.write_all(&turn.said).await?;
            if turn.answered > 0 && !matches!(timeout(REPEATED, server.read(&mut bytes)).await, Ok(Ok(1..))) {
                break;
            }
        }
        Ok(())
    }

    /// What is armed for this very turn; it counts as met.
    fn armed(&self) -> Option<Break> {
        let mut inner = self.state.inner();
        let (connection, turn, how) = inner.armed.clone()?;
        if inner.era != self.era || connection != self.number || turn != self.turn {
            return None;
        }
        inner.hit = true;
        Some(how)
    }

    fn client_spoke(&mut self, bytes: &[u8]) {
        if self.answered {
            self.turn += 1;
            self.said = 0;
            self.answered = false;
        }
        self.said += bytes.len();
        let room = self.said <= WRITTEN_DOWN;
        self.written_down(|turn| {
            if room {
                turn.said.extend_from_slice(bytes);
            }
        });
    }

    fn server_spoke(&mut self, n: usize) {
        self.answered = true;
        self.written_down(|turn| turn.answered += n);
    }

    fn written_down(&self, change: impl FnOnce(&mut Turn)) {
        let mut inner = self.state.inner();
        if inner.era != self.era {
            return;
        }
        if let Some(conversation) = inner.conversations.get_mut(self.number) {
            while conversation.turns.len() <= self.turn {
                conversation.turns.push(Turn::default());
            }
            if let Some(turn) = conversation.turns.get_mut(self.turn) {
                change(turn);
            }
        }
    }
}
