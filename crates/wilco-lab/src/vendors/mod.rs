//! The vendor table: one SQLite file that others write as well, with a history that its own triggers keep.
//!
//! There is no server here. The lab makes the file, looks at it, and turns its knobs; whoever changes a vendor does it
//! with SQL on the file itself.

mod report;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sqlx::{
    Connection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::{
    sync::{Mutex, oneshot},
    task::JoinHandle,
};

use crate::seed::Payee;

/// The table's file inside the lab's folder.
pub const VENDORS_FILE: &str = "vendors.sqlite";

const SCHEMA: &str = include_str!("schema.sql");

/// What may go wrong with the vendor table. The README's table says what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VendorFault {
    /// Nobody else can write for so long.
    Lock,
    /// Every change is refused by a trigger.
    Refuse,
    /// A change is carried out with another account.
    WrongAccount,
}

impl VendorFault {
    /// Every fault, in the order the README lists them.
    pub const ALL: [Self; 3] = [Self::Lock, Self::Refuse, Self::WrongAccount];

    /// Its name in `POST /lab/faults` and `--fault`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Refuse => "refuse",
            Self::WrongAccount => "wrong-account",
        }
    }
}

/// The vendor table. Its connections live for one call each: nothing of ours stands in anybody's way between them.
#[derive(Debug)]
pub struct Vendors {
    path: PathBuf,
    locked: Mutex<Option<Locked>>,
}

/// The lock knob while it is on.
#[derive(Debug)]
struct Locked {
    until: Instant,
    open: oneshot::Sender<()>,
    holder: JoinHandle<()>,
}

/// An armed knob: what, how often (none: as long as it lasts), for how long still (none: until cleared).
pub type ArmedVendor = (VendorFault, Option<u32>, Option<Duration>);

impl Vendors {
    /// Opens the table in `folder`, made and filled with `payees` where there is none; no knob is armed.
    pub async fn open(folder: &Path, payees: &[Payee]) -> Result<Self, sqlx::Error> {
        let path = std::path::absolute(folder)?.join(VENDORS_FILE);
        let mut conn = connect(&path).await?;
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut conn).await?;
        sqlx::raw_sql(SCHEMA).execute(&mut conn).await?;
        sqlx::raw_sql("DELETE FROM lab_knob").execute(&mut conn).await?;
        let known: i64 = sqlx::query_scalar("SELECT count(*) FROM vendor_history")
            .fetch_one(&mut conn)
            .await?;
        if known == 0 {
            for (at, payee) in payees.iter().enumerate() {
                sqlx::query("INSERT INTO vendor (sup, name, acct, phone) VALUES (?, ?, ?, ?)")
                    .bind(&payee.sup)
                    .bind(&payee.name)
                    .bind(&payee.account)
                    // Of the block that is set aside for drama: it rings nowhere.
                    .bind(format!("+44 20 7946 0{:03}", at % 1000))
                    .execute(&mut conn)
                    .await?;
            }
        }
        sqlx::raw_sql("COMMIT").execute(&mut conn).await?;
        conn.close().await?;
        Ok(Self {
            path,
            locked: Mutex::default(),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Arms a knob; it works from now on. `times` counts for `wrong-account` only, `lasting` (none: until cleared) for
    /// the others; a lock that is to last until cleared is held for a second.
    pub async fn arm(
        &self,
        fault: VendorFault,
        times: u32,
        lasting: Option<Duration>,
    ) -> Result<(), sqlx::Error> {
        if fault == VendorFault::Lock {
            return self.lock(lasting.unwrap_or(Duration::from_secs(1))).await;
        }
        let days = lasting.map(|lasting| lasting.as_secs_f64() / 86_400.0);
        let (times, days) = match fault {
            VendorFault::WrongAccount => (Some(times), None),
            _ => (None, days),
        };
        let mut conn = connect(&self.path).await?;
        sqlx::query("INSERT INTO lab_knob (fault, times, until) VALUES (?, ?, julianday('now') + ?)")
            .bind(fault.word())
            .bind(times)
            .bind(days)
            .execute(&mut conn)
            .await?;
        conn.close().await
    }

    /// What is armed.
    pub async fn armed(&self) -> Result<Vec<ArmedVendor>, sqlx::Error> {
        let mut armed = Vec::new();
        if let Some(locked) = self.locked.lock().await.as_ref() {
            let left = locked.until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                armed.push((VendorFault::Lock, None, Some(left)));
            }
        }
        let mut conn = connect(&self.path).await?;
        let rows: Vec<(String, Option<u32>, Option<f64>)> = sqlx::query_as(
            "SELECT fault, times, (until - julianday('now')) * 86400.0 FROM lab_knob \
             WHERE until IS NULL OR until > julianday('now') ORDER BY seq",
        )
        .fetch_all(&mut conn)
        .await?;
        conn.close().await?;
        for (word, times, left) in rows {
            if let Some(fault) = VendorFault::ALL.into_iter().find(|fault| fault.word() == word) {
                let left = left.and_then(|left| Duration::try_from_secs_f64(left).ok());
                armed.push((fault, times, left));
            }
        }
        Ok(armed)
    }

    /// Disarms everything; others can write once it returns.
    pub async fn clear(&self) -> Result<(), sqlx::Error> {
        self.unlock().await;
        let mut conn = connect(&self.path).await?;
        sqlx::raw_sql("DELETE FROM lab_knob").execute(&mut conn).await?;
        conn.close().await
    }

    /// Ends the lock, if there is one.
    pub async fn unlock(&self) {
        if let Some(locked) = self.locked.lock().await.take() {
            end(locked).await;
        }
    }

    async fn lock(&self, lasting: Duration) -> Result<(), sqlx::Error> {
        let mut seat = self.locked.lock().await;
        if let Some(before) = seat.take() {
            end(before).await;
        }
        let mut conn = connect(&self.path).await?;
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut conn).await?;
        let (open, opened) = oneshot::channel();
        let holder = tokio::spawn(async move {
            // Told to, or the lab gone: either way it ends.
            let _ = tokio::time::timeout(lasting, opened).await;
            let ended = sqlx::raw_sql("ROLLBACK").execute(&mut conn).await;
            if let Err(error) = ended {
                tracing::warn!(%error, "the lab's lock on the vendor table ended badly");
            }
            let _ = conn.close().await;
        });
        *seat = Some(Locked {
            until: Instant::now() + lasting,
            open,
            holder,
        });
        Ok(())
    }
}

async fn end(locked: Locked) {
    // A holder that is gone already has no lock.
    let _ = locked.open.send(());
    let _ = locked.holder.await;
}

async fn connect(path: &Path) -> Result<SqliteConnection, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // Ours are the seed and the knobs, which need not outlive a power cut. Who changes a vendor decides for itself.
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(Duration::from_secs(5));
    SqliteConnection::connect_with(&options).await
}
