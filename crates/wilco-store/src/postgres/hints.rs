//! Hints from daemon to daemon that an act was written, so that nobody has to wait for the next look.
//!
//! Only hints: what is sent while a listener's connection is down is lost, and nothing depends on one. They are told after
//! the write, on a connection of their own, many at once. Told inside it, they would make all writes wait for each other,
//! since Postgres puts the commits of transactions that notify in a row, each with its flush.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use wilco_core::ActId;

use super::conns::{Conns, Line};
use super::sql;

/// How many hints may wait to be told; more are dropped.
const WAITING: usize = 4_096;

/// How long hints are gathered before they are told.
const GATHER: Duration = Duration::from_millis(10);

/// The most ids told at once: a payload is shorter than 8,000 bytes.
const AT_ONCE: usize = 200;

/// How long to wait after the connection could not be made.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells, and listens once somebody asks.
pub(super) struct Hints {
    conns: Arc<Conns>,
    waiting: mpsc::Sender<ActId>,
    /// The server's name for the connection that tells: its own hints are not heard.
    ours: Arc<AtomicI64>,
    heard: Mutex<Option<broadcast::Sender<ActId>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Hints {
    /// Ready to tell; connects with the first hint.
    pub(super) fn new(conns: Arc<Conns>) -> Hints {
        let (waiting, told) = mpsc::channel(WAITING);
        let ours = Arc::new(AtomicI64::new(-1));
        let teller = tokio::spawn(tell(Arc::clone(&conns), told, Arc::clone(&ours)));
        Hints {
            conns,
            waiting,
            ours,
            heard: Mutex::new(None),
            tasks: Mutex::new(vec![teller]),
        }
    }

    /// These acts were written.
    pub(super) fn tell(&self, acts: impl Iterator<Item = ActId>) {
        for act in acts {
            // A hint that finds no room is one less.
            let _ = self.waiting.try_send(act);
        }
    }

    /// What other daemons tell from now on.
    pub(super) fn heard(&self) -> broadcast::Receiver<ActId> {
        let mut heard = super::locked(&self.heard);
        if let Some(sender) = heard.as_ref() {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(WAITING);
        *heard = Some(sender.clone());
        let listener = tokio::spawn(listen(Arc::clone(&self.conns), sender, Arc::clone(&self.ours)));
        super::locked(&self.tasks).push(listener);
        receiver
    }

    /// Tells and hears no more.
    pub(super) fn close(&self) {
        super::locked(&self.tasks).drain(..).for_each(|task| task.abort());
        super::locked(&self.heard).take();
    }
}

async fn tell(conns: Arc<Conns>, mut waiting: mpsc::Receiver<ActId>, ours: Arc<AtomicI64>) {
    let mut line: Option<Line> = None;
    while let Some(first) = waiting.recv().await {
        tokio::time::sleep(GATHER).await;
        let mut acts = vec![first.to_string()];
        while acts.len() < AT_ONCE
            && let Ok(act) = waiting.try_recv()
        {
            acts.push(act.to_string());
        }
        acts.dedup();
        let mut open = match line.take() {
            Some(line) => line,
            None => match conns.connect(None).await {
                Ok(line) => line,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        ours.store(open.name.pid, Ordering::Release);
        let told = sqlx::query(sql::TELL)
            .bind(acts.join(","))
            .execute(&mut open.db)
            .await;
        match told {
            Ok(_) => line = Some(open),
            Err(error) => tracing::debug!(%error, "hints to other daemons were lost"),
        }
    }
}

async fn listen(conns: Arc<Conns>, heard: broadcast::Sender<ActId>, ours: Arc<AtomicI64>) {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(conns.options());
    loop {
        if let Err(error) = hear(&pool, &heard, &ours).await {
            tracing::debug!(%error, "hints from other daemons cannot be heard");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn hear(
    pool: &sqlx::PgPool,
    heard: &broadcast::Sender<ActId>,
    ours: &AtomicI64,
) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(sql::CHANNEL).await?;
    loop {
        let told = listener.recv().await?;
        if i64::from(told.process_id()) == ours.load(Ordering::Acquire) {
            continue;
        }
        for act in told.payload().split(',').filter_map(|id| id.parse().ok()) {
            // Nobody listening is no fault.
            drop(heard.send(act));
        }
    }
}
