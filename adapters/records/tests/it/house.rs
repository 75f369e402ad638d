//! A database of one's own with a vendor table, an adapter on it, and the judge's own way to read it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adapter_records::{ACTS_TABLE, CALLBACKS_TABLE, RecordsAdapter, RecordsConfig, VENDOR_TABLE};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use wilco_adapter::kit::{self, Still};
use wilco_adapter::{Adapter, Found, Job, Outcome, Report, ResolveError, Undone};
use wilco_core::{Clock, Frozen, Timestamp};

#[cfg(feature = "postgres-tests")]
#[path = "../../../../tests/harness/postgres.rs"]
pub mod cluster;

pub const OLD: &str = "40-12-88/61102911";
pub const NEW: &str = "40-12-88/61102938";
pub const OTHER: &str = "20-00-00/55779911";
pub const EXEC: [&str; 5] = ["sup", "acct", "eff", "apref", "prev"];

/// Where the table is.
pub enum Place {
    Sqlite,
    #[cfg(feature = "postgres-tests")]
    Postgres(cluster::Database),
}

/// A vendor table with two suppliers in it.
pub struct House {
    pub place: Place,
    pub folder: Folder,
    pub clock: Arc<Still>,
    pub config: RecordsConfig,
}

impl House {
    pub fn sqlite() -> House {
        let folder = Folder::new();
        let path = folder.0.join("vendors.sqlite");
        drop(Connection::open(&path).unwrap_or_else(|e| panic!("{e}")));
        let config = RecordsConfig {
            path,
            ..RecordsConfig::default()
        };
        House::furnished(Place::Sqlite, folder, config)
    }

    #[cfg(feature = "postgres-tests")]
    pub fn postgres() -> House {
        let server = cluster::server().unwrap_or_else(|why| panic!("{why}"));
        let database = cluster::Database::create(&server).unwrap_or_else(|why| panic!("{why}"));
        let folder = Folder::new();
        let config = RecordsConfig {
            database: "postgres".to_owned(),
            database_url_file: Some(folder.write("url", &database.url())),
            ..RecordsConfig::default()
        };
        House::furnished(Place::Postgres(database), folder, config)
    }

    fn furnished(place: Place, folder: Folder, mut config: RecordsConfig) -> House {
        config.timeout_s = 2;
        let house = House {
            place,
            folder,
            // In the past by the database's own clock too, which call-backs may not be ahead of.
            clock: Still::at(at("20251002T0900Z")),
            config,
        };
        for sql in [VENDOR_TABLE, ACTS_TABLE, CALLBACKS_TABLE] {
            house.sql(sql);
        }
        house.sql(&format!(
            "INSERT INTO vendor (sup, name, acct, eff, phone, apref) VALUES \
             ('marlow', 'Marlow Supplies Ltd', '{OLD}', '20250101', '020 7946 0011', 'FD-0001'), \
             ('tate', 'Tate & Sons', '{OTHER}', '20250101', NULL, NULL)"
        ));
        house
    }

    /// The same house with another configuration.
    pub fn with(mut self, change: impl FnOnce(&mut RecordsConfig)) -> House {
        change(&mut self.config);
        self
    }

    pub fn is_sqlite(&self) -> bool {
        matches!(self.place, Place::Sqlite)
    }

    /// An adapter that remembers nothing.
    pub fn adapter(&self) -> RecordsAdapter {
        RecordsAdapter::new(&self.config, self.clock.clone()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// What a statement of the judge's answers: a row a line, its columns with bars between.
    pub fn try_sql(&self, sql: &str) -> Result<String, String> {
        match &self.place {
            Place::Sqlite => asked(&self.config.path, sql).map_err(|e| e.to_string()),
            #[cfg(feature = "postgres-tests")]
            Place::Postgres(database) => cluster::sql(&database.url(), sql),
        }
    }

    pub fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// The account on file.
    pub fn account(&self, sup: &str) -> String {
        self.sql(&format!("SELECT acct FROM vendor WHERE sup = '{sup}'"))
    }

    /// How many changes the acts table has.
    pub fn acts(&self) -> usize {
        self.sql("SELECT count(*) FROM wilco_acts")
            .parse()
            .unwrap_or_else(|e| panic!("a number: {e}"))
    }

    pub async fn prepare(&self, job: &Job) -> Frozen {
        let adapter = self.adapter();
        let resolved = adapter.resolve(job).await.unwrap_or_else(|e| panic!("{e}"));
        kit::frozen_of(job, resolved, &adapter.describe())
    }

    /// Why a job cannot be prepared: the code and the words.
    pub async fn refusal(&self, job: &Job) -> (&'static str, String) {
        match self.adapter().resolve(job).await {
            Err(ResolveError::Refused { why, text }) => (why, text),
            other => panic!("not refused: {other:?}"),
        }
    }

    pub async fn execute(&self, job: &Job, frozen: &Frozen) -> Outcome {
        self.execute_by(job, frozen, self.clock.clone()).await
    }

    pub async fn execute_by(&self, job: &Job, frozen: &Frozen, clock: Arc<dyn Clock>) -> Outcome {
        let permit = kit::permit(job, frozen, clock);
        self.adapter().execute(permit, frozen).await
    }

    pub async fn lookup(&self, job: &Job, frozen: &Frozen) -> Found {
        self.adapter().lookup(job.act_id, frozen, job.now, None).await
    }

    pub fn undo_of(&self, job: &Job, frozen: &Frozen, report: &Report) -> Job {
        let mut undo = kit::job(
            self.clock.now(),
            "pay",
            "UNDO",
            &job.item,
            &[("apref", "FD-0931")],
            &EXEC,
        );
        undo.undo = Some(Undone {
            act_id: job.act_id,
            ask: job.ask.clone(),
            frozen: frozen.clone(),
            executed: report.values.clone(),
            receipt: report.receipt.clone(),
        });
        undo
    }
}

/// Asks the file by a connection of the judge's own.
pub fn asked(path: &std::path::Path, sql: &str) -> rusqlite::Result<String> {
    let db = Connection::open(path)?;
    db.busy_timeout(std::time::Duration::from_secs(10))?;
    if !sql.trim_start().to_ascii_uppercase().starts_with("SELECT") {
        db.execute_batch(sql)?;
        return Ok(String::new());
    }
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query(())?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let column = |n| match row.get_ref(n) {
            Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            Ok(ValueRef::Integer(n)) => n.to_string(),
            _ => String::new(),
        };
        lines.push((0..columns).map(column).collect::<Vec<_>>().join("|"));
    }
    Ok(lines.join("\n"))
}

/// The seed's change of bank details.
pub fn change(house: &House) -> Job {
    change_to(house, "marlow", NEW)
}

pub fn change_to(house: &House, sup: &str, acct: &str) -> Job {
    let slots = [
        ("sup", sup),
        ("acct", acct),
        ("eff", "20251005"),
        ("apref", "FD-0930"),
    ];
    kit::job(
        house.clock.now(),
        "pay",
        "CHGBANK",
        &format!("sup:{sup}"),
        &slots,
        &EXEC,
    )
}

/// The same job with one slot another, or, for an empty value, missing.
pub fn but(mut job: Job, slot: &str, value: &str) -> Job {
    job.slots.retain(|(k, _)| k != slot);
    if !value.is_empty() {
        job.slots.push((slot.to_owned(), value.to_owned()));
    }
    job
}

pub fn done(outcome: Outcome) -> Report {
    match outcome {
        Outcome::Executed(report) => report,
        other => panic!("not executed: {other:?}"),
    }
}

pub fn rejected(outcome: Outcome) -> String {
    match outcome {
        Outcome::Rejected(text) => text,
        other => panic!("not rejected: {other:?}"),
    }
}

pub fn not_sent(outcome: Outcome) -> String {
    match outcome {
        Outcome::NotSent(text) => text,
        other => panic!("not held back: {other:?}"),
    }
}

pub fn value<'a>(report: &'a Report, slot: &str) -> Option<&'a str> {
    report
        .values
        .iter()
        .find(|(k, _)| k == slot)
        .map(|(_, v)| v.as_str())
}

pub fn at(text: &str) -> Timestamp {
    Timestamp::from_rw1(text).unwrap_or_else(|| panic!("a time: {text}"))
}

/// A folder of one's own, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let n = NEXT.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("wilco-records-test-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Folder(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is litter, not a failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A clock for permits that does something when it is asked for the n-th time, from 1: the first time is right after
/// BEGIN, the second right before COMMIT.
pub struct Asked<F> {
    pub clock: Arc<Still>,
    pub times: AtomicU64,
    pub then: F,
}

impl<F: Fn(u64) + Send + Sync + 'static> Asked<F> {
    pub fn clock(clock: Arc<Still>, then: F) -> Arc<dyn Clock> {
        Arc::new(Asked {
            clock,
            times: AtomicU64::new(0),
            then,
        })
    }
}

impl<F: Fn(u64) + Send + Sync> Clock for Asked<F> {
    fn now(&self) -> Timestamp {
        (self.then)(self.times.fetch_add(1, Ordering::SeqCst) + 1);
        self.clock.now()
    }
}
