//! `wilcod serve`: from a folder to a running daemon, and back.
//!
//! ```text
//! lock the folder           who holds it owns everything in it, and is its house's only living owner
//!   open the store          in the folder, or in a database that several daemons share
//!   configuration, keys     written at the first start
//!     the port              taken before anything is begun
//!       the lab             where an adapter points at it
//!         the engine        recovers what the last run left
//!           run.json        from here on scripts find us
//! ```

use std::fs::DirBuilder;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::middleware;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wilco_core::{Clock, Timestamp};
use wilco_engine::{Engine, Parts};
use wilco_lab::Lab;
use wilco_store::sqlite::lock::FolderLock;
use wilco_store::{Keeper, StoreError};

use crate::app::App;
use crate::config::{self, Config, ConfigError};
use crate::database::{self, DatabaseUrl, UrlError};
use crate::grpc::{self, Health};
use crate::house::{self, HouseError};
use crate::http::{self, Limits};
use crate::identity::Identity;
use crate::keys::{self, KeysError};
use crate::lab::Wanted;
use crate::port::{self, PortError};
use crate::profiles::{self, ProfilesError};
use crate::random::{Ids, NoRandomness};
use crate::store::{self, Opened};
use crate::{adapters, lab, protocol, run_file, served};

/// What `wilcod serve` was told.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The data folder.
    pub data: PathBuf,
    /// The address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// A configuration elsewhere than in the data folder.
    pub config: Option<PathBuf>,
    /// The database that keeps the acts, instead of the configured one or the data folder.
    pub database: Option<DatabaseUrl>,
    /// A folder of profiles (`<name>.json`) instead of the built-in ones.
    pub profiles: Option<PathBuf>,
    /// Serve although open acts need what is no longer configured.
    pub orphan: bool,
    /// An operator has seen that the clock was set back.
    pub accept_clock: bool,
    /// How long running acts get to end; `None` for the configured time.
    pub grace: Option<Duration>,
}

impl ServeOptions {
    /// A daemon on a folder, on a free loopback port.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>) -> ServeOptions {
        ServeOptions {
            data: data.into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            config: None,
            database: None,
            profiles: None,
            orphan: false,
            accept_clock: false,
            grace: None,
        }
    }
}

/// Why the daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder cannot be used.
    #[error("{} cannot be used as data folder: {source}", path.display())]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store refuses; the folder may be in use.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An adapter's section is wrong.
    #[error("{0}")]
    Adapter(String),
    /// A profile is wrong.
    #[error(transparent)]
    Profiles(#[from] ProfilesError),
    /// The database's URL is not to be had.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The folder has no name.
    #[error(transparent)]
    House(#[from] HouseError),
    /// The keys are wrong.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] crate::files::FileError),
    /// No randomness.
    #[error(transparent)]
    Random(#[from] NoRandomness),
    /// The port cannot be had.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The lab does not start.
    #[error("the lab does not start: {0}")]
    Lab(#[from] lab::StartError),
    /// The engine refuses.
    #[error(transparent)]
    Engine(#[from] wilco_engine::StartError),
    /// The descriptors built in are unusable.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A running daemon.
pub struct Running {
    /// Base URL, for example `http://127.0.0.1:40123`.
    pub url: String,
    /// The lab's, if one was started.
    pub lab_url: Option<String>,
    data: PathBuf,
    app: Arc<App>,
    keeper: Arc<dyn Keeper>,
    lock: Option<Arc<FolderLock>>,
    lab: Option<Lab>,
    health: JoinHandle<()>,
    server: JoinHandle<()>,
    close: watch::Sender<bool>,
    grace: Duration,
}

/// Starts a daemon; returns once it answers.
///
/// # Errors
/// [`StartError`]: one sentence naming what is wrong and what to do.
pub async fn start(options: ServeOptions) -> Result<Running, StartError> {
    // Refused before the folder is touched: this is the mistake a first start makes.
    if !options.listen.ip().is_loopback() {
        return Err(PortError::NotLoopback(options.listen).into());
    }
    let data = folder(&options.data)?;
    let settings = config::peek(&data, options.config.as_deref())?.store;
    let url = match &options.database {
        Some(url) => Some(url.clone()),
        None => database::url(&data, &settings)?,
    };
    let opened = store::open(&data, url.as_ref(), &settings, Arc::new(SystemClock)).await?;
    let keeper = Arc::clone(&opened.keeper);
    // The folder is ours from here on; a run.json still there is from a daemon that was killed.
    run_file::remove(&data);
    accept_clock(keeper.as_ref(), options.accept_clock);
    match start_on(&options, &data, opened, &database::name_of(url.as_ref())).await {
        Ok(running) => Ok(running),
        Err(error) => {
            keeper.close().await;
            Err(error)
        }
    }
}

/// Tells the operator of a clock that was set back, or takes their word that this is right.
fn accept_clock(keeper: &dyn Keeper, accepted: bool) {
    // The store bridges a small step by itself.
    const TOLD_FROM_S: i64 = 60;
    let behind_s = keeper.clock_behind_s();
    if behind_s <= TOLD_FROM_S {
        return;
    }
    if accepted {
        keeper.acknowledge_clock();
        tracing::warn!(
            behind_s,
            "the clock is behind the highest time written; an operator accepts it, time counts on from there"
        );
    } else {
        tracing::error!(
            behind_s,
            "the clock is behind the highest time written, and nothing is written until it has caught up: set it right, or \
             start with --accept-clock"
        );
    }
}

/// `store` names what was opened, for the folder's own notes.
async fn start_on(
    options: &ServeOptions,
    data: &Path,
    opened: Opened,
    store: &str,
) -> Result<Running, StartError> {
    let Opened { keeper, alone, lock } = opened;
    let house = house::of(data)?;
    let config = config::load(data, options.config.as_deref())?;
    let profiles = profiles::load(options.profiles.as_deref())?;
    let identity = Identity::new(keys::principals(data)?);
    let token_keys = keys::token_keys(data, &config.store.token_key_file)?;
    let (listener, address) = port::bind(options.listen).await?;
    let url = format!("http://{address}");

    let wanted = adapters::wanted(&config.adapters);
    let lab = if wanted == Wanted::default() {
        None
    } else {
        Some(lab::start(data, &config.lab, wanted).await?)
    };
    let lab_url = lab.as_ref().map(Lab::url);
    let clock: Arc<dyn Clock> = Arc::new(StoreClock(Arc::clone(&keeper)));
    let adapters =
        adapters::make(&config.adapters, data, lab.as_ref(), &clock).map_err(StartError::Adapter)?;
    let parts = Parts {
        keeper: Arc::clone(&keeper),
        adapters,
        profiles: profiles.clone(),
        token_keys: token_keys.keys.clone(),
        chance: Arc::new(Ids::new()?),
        config: config.engine(house, alone, options.orphan),
    };
    let before = served::read(data, store)?;
    let engine = Engine::start_after(parts, before.as_ref()).await?;
    // Not before: the engine refuses to start where open acts need a key that is not there.
    token_keys.keep()?;
    // Before anything can be prepared that needs it.
    served::write(data, store, &engine.serves(), before.as_ref(), options.orphan)?;
    let app = Arc::new(App::new(engine, identity, Arc::new(profiles)));
    let (router, health) = router(&app, &config)?;
    health.tell().await;

    let (close, closing) = watch::channel(false);
    let connections_max = usize_from(config.server.connections_max);
    let server = tokio::spawn(port::serve(listener, router, connections_max, closing));
    run_file::write(data, &url, lab_url.as_deref())?;
    tracing::info!(url, lab_url, data = %data.display(), "wilcod is ready");
    Ok(Running {
        url,
        lab_url,
        data: data.to_owned(),
        app,
        keeper,
        lock,
        lab,
        health: tokio::spawn(health.keep_telling()),
        server,
        close,
        grace: options
            .grace
            .unwrap_or(Duration::from_secs(u64::from(config.server.grace_s))),
    })
}

impl Running {
    /// How long running acts get to end.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Stops in order: no new work; running acts end within the grace or are left to the next start; connections
    /// close; the lab and the store close. With acts left, the folder stays locked until the process ends.
    pub async fn stop(self) {
        self.app.drain();
        tracing::info!(grace_s = self.grace.as_secs(), "stopping: no new work is taken");
        let left = self.app.engine.drain(self.grace).await;
        if left > 0 {
            tracing::warn!(left, "acts were still running: the next start looks them up");
        }
        run_file::remove(&self.data);
        // No receiver left means that the server is down already.
        let _ = self.close.send(true);
        if let Err(error) = self.server.await {
            tracing::error!(%error, "the server did not end well");
        }
        self.health.abort();
        if let Some(lab) = self.lab {
            lab.stop().await;
        }
        self.keeper.close().await;
        if left > 0 {
            // Their bytes may still leave, until the process ends: so long no other run may call this one dead.
            std::mem::forget(self.lock);
            tracing::info!("stopped; the folder stays locked until this process ends");
            return;
        }
        // The last thing to go: from here on another run on this folder may call this one dead.
        drop(self.lock);
        tracing::info!("stopped");
    }
}

/// Everything behind the port.
fn router(app: &Arc<App>, config: &Config) -> Result<(Router, Health), StartError> {
    let bytes_max = usize_from(config.server.request_bytes_max);
    let time_max = u64::from(config.server.request_time_s) + u64::from(config.acts.wait_max_s);
    let limits = Limits::new(
        Arc::clone(app),
        usize_from(config.server.requests_max),
        u64::from(config.server.request_bytes_max),
        Duration::from_secs(u64::from(config.server.body_time_s)),
        Duration::from_secs(time_max),
    );
    let (grpc, health) = grpc::router(app, bytes_max)?;
    let router = grpc
        .fallback(http::nothing_here)
        .merge(http::router(Arc::clone(app), bytes_max))
        .merge(protocol::router(Arc::clone(&app.profiles)))
        .method_not_allowed_fallback(http::other_method)
        .layer(axum::extract::DefaultBodyLimit::max(bytes_max))
        .layer(middleware::from_fn_with_state(limits, http::limited));
    Ok((router, health))
}

fn folder(path: &Path) -> Result<PathBuf, StartError> {
    let failed = |source| StartError::Folder {
        path: path.to_owned(),
        source,
    };
    // What others paid to whom is nobody's business: a new folder is its owner's alone.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    let path = path.canonicalize().map_err(failed)?;
    // Told here in one sentence, before a database library tells it in its own words.
    let probe = path.join(".writable");
    std::fs::write(&probe, b"").map_err(failed)?;
    std::fs::remove_file(&probe).map_err(failed)?;
    Ok(path)
}

fn usize_from(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The machine's clock.
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let micros = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_micros());
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        #[cfg(feature = "failpoints")]
        let micros = micros.saturating_add(wilco_failpoint::armed::clock_ahead_us());
        Timestamp(micros)
    }
}

/// The store's clock, which never runs backwards: adapters and permits go by it.
struct StoreClock(Arc<dyn Keeper>);

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}
