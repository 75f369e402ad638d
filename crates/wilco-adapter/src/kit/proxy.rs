//! A line to a counterparty that can be broken at any turn of the conversation.
//!
//! A *turn* is what the client says until the server answers, with that answer. A server that speaks first (SMTP, IMAP)
//! has a turn 0 in which the client says nothing. The proxy knows no protocol: it counts changes of direction.
//!
//! ```text
//! client -> | CutBefore | first half | CutMiddle | second half | CutAfter | -> server acts
//!        <- |  CutReply, Hold, Pause, Garbage  |  first half |  CutInReply | <-
//! ```

mod line;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 128;

/// What happens to a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Break {
    /// Both sides are cut off before any byte of the client's reaches the server.
    CutBefore,
    /// Cut off once so many bytes of the client's have reached the server.
    CutMiddle(usize),
    /// Cut off once everything the client said has reached the server, without waiting for an answer.
    CutAfter,
    /// Cut off once the server has begun to answer; the client hears none of it.
    CutReply,
    /// Cut off in the middle of the answer's first bytes.
    CutInReply,
    /// The answer is kept back until the client gives up.
    Hold,
    /// What the client said is kept back until it gives up and [`FaultProxy::release`] is called; then it is delivered.
    Late,
    /// The answer is kept back until [`FaultProxy::release`] is called; then all goes well.
    Pause,
    /// These bytes instead of the answer, and the end.
    Garbage(Vec<u8>),
    /// All goes well, but the answer comes in pieces as small as can be, as networks may deliver it.
    Dribble,
    /// All goes well; afterwards the server hears the client's whole conversation again on a second connection.
    Duplicate,
}

/// One connection, as it went by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// Its turns.
    pub turns: Vec<Turn>,
}

/// What was said in one turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// What the client said.
    pub said: Vec<u8>,
    /// How many bytes the server answered.
    pub answered: usize,
}

/// A TCP listener on loopback that passes everything on to a counterparty, and breaks what it is told to.
pub struct FaultProxy {
    addr: SocketAddr,
    state: Arc<State>,
    orders: mpsc::Sender<(bool, oneshot::Sender<()>)>,
    accepting: JoinHandle<()>,
    /// Bound, and never listening: keeps the port ours while connections are refused.
    _keeps_the_port: TcpSocket,
}

struct State {
    /// How many connections are being broken right now.
    broken: watch::Sender<usize>,
    /// Whether what is kept back may go.
    released: watch::Sender<bool>,
    inner: Mutex<Inner>,
}

struct Inner {
    target: SocketAddr,
    armed: Option<(usize, usize, Break)>,
    hit: bool,
    conversations: Vec<Conversation>,
    /// Counts [`FaultProxy::begin`]: what older connections say is not written down.
    era: u64,
}

impl FaultProxy {
    /// A line to `target`, on a free port of loopback.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn to(target: SocketAddr) -> io::Result<FaultProxy> {
        let keeps_the_port = socket_at(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let addr = keeps_the_port.local_addr()?;
        let listener = socket_at(addr)?.listen(BACKLOG)?;
        let state = Arc::new(State {
            broken: watch::Sender::new(0),
            released: watch::Sender::new(false),
            inner: Mutex::new(Inner {
                target,
                armed: None,
                hit: false,
                conversations: Vec::new(),
                era: 0,
            }),
        });
        let (orders, ordered) = mpsc::channel(8);
        let accepting = tokio::spawn(accept(listener, addr, state.clone(), ordered));
        Ok(FaultProxy {
            addr,
            state,
            orders,
            accepting,
            _keeps_the_port: keeps_the_port,
        })
    }

    /// Where it listens: what the adapter is configured with.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From now on connections lead to `target`.
    pub fn aim(&self, target: SocketAddr) {
        self.state.inner().target = target;
    }

    /// With `true` connections are refused, and those that stand are cut off; with `false` they are taken again. In force
    /// when it returns.
    pub async fn refuse(&self, refusing: bool) {
        let (done, wait) = oneshot::channel();
        // Both ends live as long as this proxy; a runtime that is shutting down has nobody left to refuse.
        if self.orders.send((refusing, done)).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// Forgets what went by and what was armed. Connections and turns are counted from here, each from 0.
    pub fn begin(&self) {
        let mut inner = self.state.inner();
        inner.armed = None;
        inner.hit = false;
        inner.conversations.clear();
        inner.era += 1;
        self.state.released.send_replace(false);
    }

    /// Breaks a turn of a connection made after the last [`FaultProxy::begin`], once.
    pub fn arm(&self, connection: usize, turn: usize, how: Break) {
        let mut inner = self.state.inner();
        inner.armed = Some((connection, turn, how));
        inner.hit = false;
    }

    /// Nothing more is to be broken; what is being broken goes on.
    pub fn disarm(&self) {
        self.state.inner().armed = None;
    }

    /// Lets go what is kept back ([`Break::Late`], [`Break::Pause`]), now and until the next [`FaultProxy::begin`].
    pub fn release(&self) {
        self.state.released.send_replace(true);
    }

    /// Whether what was armed has happened.
    #[must_use]
    pub fn hit(&self) -> bool {
        self.state.inner().hit
    }

    /// What went by on connections made after the last [`FaultProxy::begin`].
    #[must_use]
    pub fn conversations(&self) -> Vec<Conversation> {
        self.state.inner().conversations.clone()
    }

    /// Returns when no connection is being broken any more: what was kept back has been delivered, what was to be said
    /// twice has been said.
    pub async fn quiet(&self) {
        // The sender lives in our own state.
        let _ = self.state.broken.subscribe().wait_for(|n| *n == 0).await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Each change is whole before the lock is let go.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bound socket that shares its port with others of ours: one keeps the port, one listens.
fn socket_at(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

/// Takes connections until the proxy is dropped; its lines end with it.
async fn accept(
    listener: TcpListener,
    addr: SocketAddr,
    state: Arc<State>,
    mut ordered: mpsc::Receiver<(bool, oneshot::Sender<()>)>,
) {
    let mut listener = Some(listener);
    let mut lines = JoinSet::new();
    loop {
        let taken = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = ordered.recv() => {
                let Some((refusing, done)) = order else { return };
                if refusing {
                    listener = None;
                    lines.shutdown().await;
                    state.broken.send_replace(0);
                } else if listener.is_none() {
                    listener = socket_at(addr).and_then(|s| s.listen(BACKLOG)).ok();
                }
                // Whoever ordered it may have stopped waiting.
                let _ = done.send(());
            }
            Some(_) = lines.join_next(), if !lines.is_empty() => {}
            Ok((client, _)) = taken => {
                lines.spawn(line::carry(client, state.clone()));
            }
        }
    }
}
