//! A bank to practise on: it is not one.
//!
//! The lab is a counterparty on loopback that speaks UK Open Banking payment initiation 3.1 and 4.0 over HTTP and keeps a
//! double-entry book of its own, in its own SQLite file. It exists so that a newcomer needs no bank, and so that
//! tests have a judge who shares nothing with the daemon: what the daemon *did* is what stands in this book.
//!
//! What lives here: the bank's rules, its book, its payee register, and knobs that make it fail the way real
//! counterparties do (see `README.md`). What never lives here: anything of the daemon's, and any address beyond
//! loopback.
//!
//! ```text
//! listen   connections that can be dropped for real
//!   http   routes, headers, faults, pages
//!     bank   one request, carried out to its end
//!       book   one transaction per decision, durable before it is answered
//! ```
//!
//! `obie`, `values`, `names` and `clock` are pure, or nearly so.

mod bank;
mod book;
mod clock;
mod fault;
mod http;
mod listen;
mod names;
mod obie;
mod seed;
mod values;

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use book::{BOOK_FILE, BookError, LOCK_FILE, Refusal};
pub use http::{NOTICE, NOTICE_HEADER};
pub use obie::signature::Signing;
pub use seed::{OwnAccount, Payee, World};

use bank::Bank;
use book::Book;
use clock::Clock;
use fault::FaultBoard;
use listen::{DropSwitch, LabListener};
use obie::signature::Known;

/// The token a client must send unless [`LabOptions::token`] says otherwise. No secret: the lab holds no money.
pub const DEFAULT_TOKEN: &str = "lab-token";

/// How long [`Lab::stop`] waits for running answers.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How to run a lab.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// Folder of the bank's book; created where it does not exist.
    pub data: PathBuf,
    /// A loopback address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The date the bank shows, for ever; none follows the clock (UTC).
    pub today: Option<time::Date>,
    /// A person must authorise each consent (`Links.Authorise`).
    pub manual: bool,
    /// Seconds a payment stays `Pending`; 0 settles at once.
    pub settle_after_s: u64,
    /// The bearer token that clients must send.
    pub token: String,
    /// Whose message signatures to ask for; none asks for no signature. Needs the feature `jws`.
    pub signing: Option<Signing>,
    /// What a new book starts with; an existing book is left as it is.
    pub world: World,
}

impl LabOptions {
    /// A lab that follows the clock, authorises consents and settles payments at once.
    pub fn new(data: impl Into<PathBuf>, listen: SocketAddr) -> Self {
        Self {
            data: data.into(),
            listen,
            today: None,
            manual: false,
            settle_after_s: 0,
            token: DEFAULT_TOKEN.into(),
            signing: None,
            world: World::default(),
        }
    }
}

/// Why a lab did not start.
#[derive(Debug, Error)]
pub enum LabError {
    /// Somebody else could reach it.
    #[error("the lab listens on loopback only, and {listen} is not: use 127.0.0.1 or [::1]")]
    NotLoopback {
        /// The address asked for.
        listen: SocketAddr,
    },
    /// The address is taken or not ours.
    #[error("the lab cannot listen on {listen}: choose another port, or 0 for a free one")]
    Bind {
        /// The address asked for.
        listen: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The folder or lock file could not be made.
    #[error("the lab cannot use {}", path.display())]
    Folder {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another lab runs on the same folder.
    #[error("another lab is using {}: stop it, or choose another folder", path.display())]
    InUse {
        /// Which folder.
        path: PathBuf,
    },
    /// SQLite would not promise durability.
    #[error(
        "the book's file does not keep what it is told (journal_mode {journal}, synchronous {synchronous}; wal and 2 are needed): choose a local disk"
    )]
    NotDurable {
        /// Read back from SQLite.
        journal: String,
        /// Read back from SQLite.
        synchronous: i64,
    },
    /// The book was written by another version of the lab.
    #[error("{} has book version {found}, this lab knows {known}: use another folder", path.display())]
    BookVersion {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// Options that no bank could run with.
    #[error("option {option}: {problem}")]
    Option {
        /// Which one.
        option: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The book could not be opened or seeded.
    #[error(transparent)]
    Book(#[from] BookError),
}

/// A running lab. Dropping it stops it too, without waiting.
#[derive(Debug)]
pub struct Lab {
    addr: SocketAddr,
    bank: Arc<Bank>,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

/// Opens the book, binds, and serves in the background; returns once requests are answered.
pub async fn start(options: LabOptions) -> Result<Lab, LabError> {
    check(&options)?;
    let signing = signing(options.signing)?;
    let socket_failed = |source| LabError::Bind {
        listen: options.listen,
        source,
    };
    let tcp = TcpListener::bind(options.listen).await.map_err(socket_failed)?;
    let addr = tcp.local_addr().map_err(socket_failed)?;

    let opening = Clock::new(options.today, 0).stamp().shown;
    let book = Book::open(&options.data, &options.world, &opening).await?;
    let clock = Clock::new(options.today, book.clock_offset_s().await?);
    let (stop, stopping) = watch::channel(false);
    let bank = Arc::new(Bank {
        book,
        clock,
        faults: FaultBoard::default(),
        token: options.token,
        manual: options.manual,
        settle_after_s: options.settle_after_s,
        signing,
        addr,
        stopping: stopping.clone(),
    });
    let service = http::router(Arc::clone(&bank)).into_make_service_with_connect_info::<DropSwitch>();
    let mut stopped = stopping;
    let server = tokio::spawn(async move {
        let serving = axum::serve(LabListener::new(tcp), service).with_graceful_shutdown(async move {
            // An error means that the Lab is gone: stop as well.
            let _ = stopped.wait_for(|stop| *stop).await;
        });
        if let Err(error) = serving.await {
            tracing::error!(%error, "the lab stopped serving");
        }
    });
    tracing::warn!(url = %format!("http://{addr}"), data = %options.data.display(), "lab bank is up: THIS IS NOT A BANK, no real money moves");
    Ok(Lab {
        addr,
        bank,
        stop,
        server,
    })
}

impl Lab {
    /// Base URL, for example `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops listening, lets running answers end within five seconds (waiting `slow` ones are dropped, `late`
    /// ones not yet carried out never are), and closes the book, so that the folder can be used again.
    pub async fn stop(mut self) {
        // No receiver left means that the server is down already.
        let _ = self.stop.send(true);
        if tokio::time::timeout(STOP_GRACE, &mut self.server).await.is_err() {
            self.server.abort();
        }
        self.bank.book.close().await;
    }
}

/// The signer's key, read.
fn signing(wanted: Option<Signing>) -> Result<Option<Known>, LabError> {
    let Some(wanted) = wanted else { return Ok(None) };
    #[cfg(feature = "jws")]
    return match obie::signature::RingKey::from_pem(&wanted.public_key) {
        Some(key) => Ok(Some(Known {
            signing: wanted,
            key: Box::new(key),
        })),
        None => Err(LabError::Option {
            option: "signing.public_key",
            problem: "must be an RSA public key in PEM, from BEGIN PUBLIC KEY to END PUBLIC KEY",
        }),
    };
    #[cfg(not(feature = "jws"))]
    {
        drop(wanted);
        Err(LabError::Option {
            option: "signing",
            problem: "needs a build with the feature `jws` of the crate wilco-lab",
        })
    }
}

fn check(options: &LabOptions) -> Result<(), LabError> {
    if !options.listen.ip().is_loopback() {
        return Err(LabError::NotLoopback {
            listen: options.listen,
        });
    }
    let problem = |option, problem| Err(LabError::Option { option, problem });
    if options.token.is_empty() || options.token.trim() != options.token {
        return problem("token", "must not be empty or begin or end with a space");
    }
    let account =
        |text: &str| values::AccountNo::from_text(text).is_ok_and(|account| account.to_string() == text);
    if options.world.own.is_empty() {
        return problem("world.own", "must name at least one account that can pay");
    }
    let accounts = options.world.own.iter().map(|own| &own.account);
    let accounts = accounts.chain(options.world.payees.iter().map(|payee| &payee.account));
    if !accounts
        .chain(options.world.strangers.iter().map(|(_, account)| account))
        .all(|text| account(text))
    {
        return problem("world", "every account must look like 40-12-88/61102938");
    }
    Ok(())
}
