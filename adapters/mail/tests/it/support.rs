//! A folder of one's own, a clock that stands, jobs, and the permit of a claimed act.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use adapter_mail::{MailAdapter, MailConfig};
use wilco_adapter::kit;
use wilco_adapter::{Adapter, Job, Outcome, Permit, ResolveError};
use wilco_core::{ActId, Clock, Frozen, Resolved, Timestamp};

/// Time that moves only when a test moves it.
pub struct Still(pub AtomicI64);

impl Still {
    pub fn new() -> Arc<Still> {
        Arc::new(Still(AtomicI64::new(start().0)))
    }

    pub fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

pub fn start() -> Timestamp {
    Timestamp::from_rw1("20261002T0905Z").expect("an instant")
}

/// A folder of one's own, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let name = format!("wilco-mail-test-{}-{}", std::process::id(), next());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Folder(path)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is an empty-handed test's litter, not a failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An adapter, its clock and its folder.
pub struct Scene {
    pub mail: MailAdapter,
    pub clock: Arc<Still>,
    pub config: MailConfig,
    pub folder: Folder,
}

impl Scene {
    /// One without configuration but for where its data is.
    pub fn maildir() -> Scene {
        Scene::with("", |_| {})
    }

    /// One that hands mail to a server on this port. `more` are lines of `[adapters.mail.smtp]`.
    pub fn smtp(port: u16, more: &str) -> Scene {
        Scene::with(&smtp_table(port, more), |_| {})
    }

    pub fn with(table: &str, change: impl FnOnce(&mut MailConfig)) -> Scene {
        let folder = Folder::new();
        let mut config = MailConfig::from_toml(table)
            .unwrap_or_else(|e| panic!("{e}"))
            .in_folder(&folder.0);
        change(&mut config);
        let clock = Still::new();
        let mail = MailAdapter::new(&config, clock.clone()).unwrap_or_else(|e| panic!("{e}"));
        Scene {
            mail,
            clock,
            config,
            folder,
        }
    }

    /// The adapter as a new process would have it.
    pub fn restart(&mut self) {
        self.mail = MailAdapter::new(&self.config, self.clock.clone()).unwrap_or_else(|e| panic!("{e}"));
    }

    pub async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        self.mail.resolve(job).await
    }

    pub async fn prepare(&self, job: &Job) -> Frozen {
        let resolved = self.resolve(job).await.unwrap_or_else(|e| panic!("{e}"));
        kit::frozen_of(job, resolved, &self.mail.describe())
    }

    pub async fn execute(&self, job: &Job, frozen: &Frozen) -> Outcome {
        self.mail.execute(self.permit(job, frozen), frozen).await
    }

    pub fn permit(&self, job: &Job, frozen: &Frozen) -> Permit {
        kit::permit(job, frozen, self.clock.clone())
    }
}

pub fn smtp_table(port: u16, more: &str) -> String {
    format!(
        "transport = \"smtp\"\nfrom = \"pay@acme.example\"\nfrom_name = \"Acme Accounts\"\n\
         [smtp]\nhost = \"127.0.0.1\"\nport = {port}\n{more}"
    )
}

pub fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// A remittance advice, as a job with an id of its own.
pub fn remittance() -> Job {
    job(
        "pay",
        "inv:MD-2026-057",
        &[
            ("sup", "marlow"),
            ("addr", "ar@marlow.example"),
            ("amt", "5400.00"),
            ("cur", "GBP"),
            ("paid", "20261002"),
            ("ref", "MD-2026-057"),
        ],
        &["sup", "addr", "amt", "cur", "paid", "ref"],
    )
}

/// A mail of any other kind.
pub fn note() -> Job {
    job(
        "mail",
        "mail:order-4711",
        &[
            ("addr", "anna@customer.example"),
            ("subj", "Your_order_4711"),
            ("txt", "Dear_Anna,%0A%0Ait_is_on_its_way."),
            ("apref", "COM-0114"),
        ],
        &["addr", "tpl", "subj", "txt", "att", "apref"],
    )
}

fn job(profile: &str, item: &str, slots: &[(&str, &str)], exec: &[&str]) -> Job {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&next().to_be_bytes());
    random[0] = u8::try_from(std::process::id() % 256).unwrap_or_default();
    Job {
        act_id: ActId::new(start(), random),
        attempt: 1,
        profile: profile.to_owned(),
        ask: "SEND".to_owned(),
        item: item.to_owned(),
        slots: slots
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        exec: exec.iter().map(|s| (*s).to_owned()).collect(),
        undo: None,
        now: start(),
    }
}

/// The same job with one slot another, new, or, for an empty value, missing.
pub fn but(mut job: Job, slot: &str, value: &str) -> Job {
    job.slots.retain(|(k, _)| k != slot);
    if !value.is_empty() {
        job.slots.push((slot.to_owned(), value.to_owned()));
    }
    job
}

/// The words of an outcome that is not a success.
pub fn words(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Rejected(text) | Outcome::NotSent(text) | Outcome::Unknown(text) => text,
        Outcome::Executed(report) | Outcome::Accepted(report) => &report.status,
    }
}
