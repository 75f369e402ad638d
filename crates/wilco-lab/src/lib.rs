//! Counterparties to practise on: a bank that is not one, a vendor table, a mail drop, a git remote and a release folder.
//!
//! The bank speaks UK Open Banking payment initiation 3.1 and 4.0 over HTTP and keeps a double-entry book of its own; the others
//! are what they are elsewhere: a SQLite file, an SMTP server, a bare repository, a folder. They exist so that a newcomer
//! needs none of the real ones, and so that tests have a judge who shares nothing with the daemon: what the daemon *did*
//! is what stands in each counterparty's own record.
//!
//! What lives here: their rules, their records, and knobs that make them fail the way real counterparties do (see
//! `README.md`). What never lives here: anything of the daemon's, and any address beyond loopback. One more counterparty
//! is a module of its own with its record and its faults, a line in `knob` and `counterparties`, and a section of
//! `admin`'s page.
//!
//! ```text
//! listen   connections that can be dropped for real
//!   http   routes, headers, faults, pages
//!     bank   one request, carried out to its end
//!       book   one transaction per decision, durable before it is answered
//! vendors, mail, git, releases   the others
//!   knob, counterparties, admin   what a fault is called, whose it is, and the page
//! ```
//!
//! `obie`, `values`, `names`, `knob` and `clock` are pure, or nearly so.

mod admin;
mod bank;
mod board;
mod book;
mod clock;
mod counterparties;
mod fault;
mod git;
mod http;
mod knob;
mod listen;
mod mail;
mod names;
mod obie;
mod releases;
mod seed;
mod shots;
mod values;
mod vendors;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use book::{BOOK_FILE, BookError, LOCK_FILE, Refusal};
pub use counterparties::ArmError;
pub use git::{GIT_FOLDER, GIT_RECORD, GIT_REPOSITORY};
pub use http::{NOTICE, NOTICE_HEADER};
pub use knob::{Counterparty, FaultProblem, FaultSpec};
pub use mail::{MAIL_FOLDER, MAIL_RECORD, MailOptions, Record as MailRecord};
pub use obie::signature::Signing;
pub use releases::{ARTEFACTS_FOLDER, LIVE_FOLDER, RELEASES_FOLDER, TARGET};
pub use seed::{OwnAccount, Payee, World};
pub use vendors::VENDORS_FILE;

use admin::Office;
use bank::Bank;
use book::Book;
use clock::Clock;
use counterparties::Counterparties;
use fault::FaultBoard;
use git::GitRemote;
use listen::{DropSwitch, LabListener};
use mail::MailDrop;
use obie::signature::Known;
use releases::Releases;
use vendors::Vendors;

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
    /// What a new book and a new vendor table start with; existing ones are left as they are.
    pub world: World,
    /// Whether there is a vendor table.
    pub vendors: bool,
    /// The mail drop, if there is to be one.
    pub mail: Option<MailOptions>,
    /// Whether there is a git remote. Where the program git does not run there is none, and the lab starts anyway.
    pub git: bool,
    /// Whether there is a release folder.
    pub releases: bool,
    /// What is armed from the start.
    pub faults: Vec<FaultSpec>,
}

impl LabOptions {
    /// A bank alone, which follows the clock, authorises consents and settles payments at once.
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
            vendors: false,
            mail: None,
            git: false,
            releases: false,
            faults: Vec::new(),
        }
    }

    /// All counterparties, the mail drop listening at `mail`.
    #[must_use]
    pub fn with_everybody(self, mail: SocketAddr) -> Self {
        Self {
            vendors: true,
            mail: Some(MailOptions::new(mail)),
            git: true,
            releases: true,
            ..self
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
    /// The vendor table could not be opened or seeded.
    #[error("the vendor table {} cannot be opened: move the file away, or choose another folder", path.display())]
    Vendors {
        /// Which file.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// A fault could not be armed.
    #[error("fault {fault} cannot be armed")]
    Fault {
        /// Which one.
        fault: FaultSpec,
        /// Why not.
        source: ArmError,
    },
    /// The page's forms could not be guarded.
    #[error("the operating system gives no randomness")]
    NoRandomness,
}

/// A running lab. Dropping it stops it too, without waiting.
#[derive(Debug)]
pub struct Lab {
    addr: SocketAddr,
    all: Arc<Counterparties>,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
    mail_server: Option<JoinHandle<()>>,
}

/// Opens every counterparty, binds, and serves in the background; returns once requests are answered.
pub async fn start(options: LabOptions) -> Result<Lab, LabError> {
    check(&options)?;
    let signing = signing(options.signing.clone())?;
    let (tcp, addr) = bind(options.listen).await?;
    let mail_tcp = match &options.mail {
        Some(mail) => Some((bind(mail.listen).await?.0, mail.clone())),
        None => None,
    };

    let opening = Clock::new(options.today, 0).stamp().shown;
    // First of all: it locks the folder, so that no other lab is at the others' files.
    let book = Book::open(&options.data, &options.world, &opening).await?;
    let clock = Clock::new(options.today, book.clock_offset_s().await?);
    let (stop, stopping) = watch::channel(false);
    let bank = Arc::new(Bank {
        book,
        clock,
        faults: FaultBoard::default(),
        token: options.token.clone(),
        manual: options.manual,
        settle_after_s: options.settle_after_s,
        signing,
        addr,
        stopping: stopping.clone(),
    });
    let (vendors, git, releases) = tokio::join!(
        open_vendors(&options),
        open_git(&options),
        open_releases(&options)
    );
    let (git, git_problem) = git;
    let (mail, mail_server) = match mail_tcp {
        Some((tcp, mail)) => {
            let (mail, server) =
                MailDrop::start(tcp, &options.data, mail, options.token.clone(), stopping.clone()).map_err(
                    |source| LabError::Folder {
                        path: options.data.join(MAIL_FOLDER),
                        source,
                    },
                )?;
            (Some(mail), Some(server))
        }
        None => (None, None),
    };
    let all = Arc::new(Counterparties {
        bank: Arc::clone(&bank),
        vendors: vendors?,
        mail,
        git,
        git_problem,
        releases: releases?,
    });
    for fault in &options.faults {
        let failed = |source| LabError::Fault {
            fault: *fault,
            source,
        };
        all.arm(fault).await.map_err(failed)?;
    }
    let office = Arc::new(Office {
        all: Arc::clone(&all),
        page_token: admin::page_token().ok_or(LabError::NoRandomness)?,
    });
    let service =
        http::router(bank, admin::router(office)).into_make_service_with_connect_info::<DropSwitch>();
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
    let lab = Lab {
        addr,
        all,
        stop,
        server,
        mail_server,
    };
    tracing::warn!(
        page = %format!("{}/lab/", lab.url()),
        mail = lab.mail_addr().map(tracing::field::display),
        git = lab.git_url(),
        data = %options.data.display(),
        "the lab is up: THIS IS NOT A BANK, no real money moves, no mail is sent on"
    );
    Ok(lab)
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

    /// Where the mail drop speaks SMTP, if there is one.
    pub fn mail_addr(&self) -> Option<SocketAddr> {
        self.all.mail.as_ref().map(MailDrop::addr)
    }

    /// The last `count` lines of the mail drop's record, newest first; none without a mail drop.
    ///
    /// # Errors
    /// The record cannot be read.
    pub async fn mails(&self, count: usize) -> io::Result<Vec<MailRecord>> {
        match &self.all.mail {
            Some(mail) => mail.records(None, count).await,
            None => Ok(Vec::new()),
        }
    }

    /// The mail drop's Maildir, if there is one.
    pub fn maildir(&self) -> Option<&Path> {
        self.all.mail.as_ref().map(MailDrop::maildir)
    }

    /// The vendor table's SQLite file, absolute, if there is one.
    pub fn vendors_path(&self) -> Option<&Path> {
        self.all.vendors.as_ref().map(Vendors::path)
    }

    /// The git remote's URL (`file://...`), if there is one.
    pub fn git_url(&self) -> Option<String> {
        self.all.git.as_ref().map(GitRemote::url)
    }

    /// The same repository as an absolute path.
    pub fn git_path(&self) -> Option<PathBuf> {
        self.all.git.as_ref().map(GitRemote::repository)
    }

    /// Why there is no git remote though one was asked for.
    pub fn git_problem(&self) -> Option<&str> {
        self.all.git_problem.as_deref()
    }

    /// The release folder, absolute, if there is one.
    pub fn releases_path(&self) -> Option<&Path> {
        self.all.releases.as_ref().map(Releases::path)
    }

    /// The program that says how a target of the release folder does, if there is such a folder.
    pub fn releases_health(&self) -> Option<PathBuf> {
        self.all.releases.as_ref().map(Releases::health)
    }

    /// Arms a fault, as `POST /lab/faults` does.
    pub async fn arm(&self, fault: &FaultSpec) -> Result<(), ArmError> {
        self.all.arm(fault).await
    }

    /// Disarms every fault, everywhere, as `DELETE /lab/faults` does.
    pub async fn clear_faults(&self) -> Result<(), ArmError> {
        self.all.clear().await
    }

    /// Stops listening, lets running answers end within five seconds (waiting `slow` ones are dropped, `late`
    /// ones not yet carried out never are), and closes the book, so that the folder can be used again.
    pub async fn stop(mut self) {
        // No receiver left means that the servers are down already.
        let _ = self.stop.send(true);
        if let Some(vendors) = &self.all.vendors {
            vendors.unlock().await;
        }
        let servers = [Some(&mut self.server), self.mail_server.as_mut()];
        let grace = tokio::time::Instant::now() + STOP_GRACE;
        for server in servers.into_iter().flatten() {
            if tokio::time::timeout_at(grace, &mut *server).await.is_err() {
                server.abort();
            }
        }
        self.all.bank.book.close().await;
    }
}

async fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), LabError> {
    let failed = |source| LabError::Bind { listen, source };
    let tcp = TcpListener::bind(listen).await.map_err(failed)?;
    let addr = tcp.local_addr().map_err(failed)?;
    Ok((tcp, addr))
}

async fn open_vendors(options: &LabOptions) -> Result<Option<Vendors>, LabError> {
    if !options.vendors {
        return Ok(None);
    }
    let opened = Vendors::open(&options.data, &options.world.payees).await;
    opened.map(Some).map_err(|source| LabError::Vendors {
        path: options.data.join(VENDORS_FILE),
        source,
    })
}

/// The git remote, or why there is none though one was asked for.
async fn open_git(options: &LabOptions) -> (Option<GitRemote>, Option<String>) {
    if !options.git {
        return (None, None);
    }
    match GitRemote::open(&options.data).await {
        Ok(git) => (Some(git), None),
        Err(error) => {
            let problem = error.to_string();
            tracing::warn!(problem, "the lab has no git remote");
            (None, Some(problem))
        }
    }
}

async fn open_releases(options: &LabOptions) -> Result<Option<Releases>, LabError> {
    if !options.releases {
        return Ok(None);
    }
    let data = options.data.clone();
    let opened = tokio::task::spawn_blocking(move || Releases::open(&data)).await;
    let opened = opened.map_err(io::Error::other).and_then(|opened| opened);
    opened.map(Some).map_err(|source| LabError::Folder {
        path: options.data.join(RELEASES_FOLDER),
        source,
    })
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
    let mail = options.mail.as_ref().map(|mail| mail.listen);
    for listen in [Some(options.listen), mail].into_iter().flatten() {
        if !listen.ip().is_loopback() {
            return Err(LabError::NotLoopback { listen });
        }
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
