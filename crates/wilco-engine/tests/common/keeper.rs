//! A keeper that fails where the story says so, and one that can die while another lives on with the same rows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;
use wilco_core::journal::Row;
use wilco_core::write::{Decide, Written};
use wilco_core::{Act, ActId, State, Timestamp};
use wilco_store::{Counters, Filter, Keeper, Page, Purged, StoreError, ThreadLine};

use super::locked;

/// A write that fails: the next so many that would leave an act in this state.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub state: State,
    pub times: u32,
    /// Whether it was written all the same before the error.
    pub written: bool,
}

pub struct FaultyKeeper {
    inner: Arc<dyn Keeper>,
    dead: AtomicBool,
    fault: Arc<Mutex<Option<Fault>>>,
    /// Every write takes so long before it is decided, in milliseconds.
    pub slow_ms: AtomicU64,
    /// What was written, for whoever listens; nobody is told where it is `None`.
    hints: Option<broadcast::Sender<ActId>>,
}

impl FaultyKeeper {
    pub fn new(inner: Arc<dyn Keeper>) -> Arc<FaultyKeeper> {
        FaultyKeeper::with(inner, None)
    }

    /// One whose processes hear of each other's writes.
    pub fn hinting(inner: Arc<dyn Keeper>) -> Arc<FaultyKeeper> {
        FaultyKeeper::with(inner, Some(broadcast::Sender::new(16)))
    }

    fn with(inner: Arc<dyn Keeper>, hints: Option<broadcast::Sender<ActId>>) -> Arc<FaultyKeeper> {
        Arc::new(FaultyKeeper {
            inner,
            dead: AtomicBool::new(false),
            fault: Arc::default(),
            slow_ms: AtomicU64::new(0),
            hints,
        })
    }

    /// The same rows under another process.
    pub fn successor(&self) -> Arc<FaultyKeeper> {
        FaultyKeeper::with(self.inner.clone(), self.hints.clone())
    }

    /// The process is killed: nothing it does reaches the store any more.
    pub fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    pub fn fail(&self, fault: Fault) {
        *locked(&self.fault) = Some(fault);
    }

    pub fn heal(&self) {
        *locked(&self.fault) = None;
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.dead.load(Ordering::SeqCst) {
            return Err(StoreError::Down("this process is dead".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Keeper for FaultyKeeper {
    async fn write(&self, decide: Decide) -> Result<Written, StoreError> {
        self.alive()?;
        tokio::task::yield_now().await;
        match self.slow_ms.load(Ordering::SeqCst) {
            0 => {}
            ms => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
        let (fault, failed) = (Arc::clone(&self.fault), Arc::new(AtomicBool::new(false)));
        let hit = Arc::clone(&failed);
        let written = self
            .inner
            .write(Box::new(move |now| {
                let changes = decide(now);
                let mut fault = locked(&fault);
                let Some(told) = fault.as_mut().filter(|f| f.times > 0) else {
                    return changes;
                };
                if !changes.iter().any(|c| c.act.state() == told.state) {
                    return changes;
                }
                told.times -= 1;
                hit.store(true, Ordering::SeqCst);
                if told.written { changes } else { Vec::new() }
            }))
            .await?;
        if failed.load(Ordering::SeqCst) {
            return Err(StoreError::Unknown("the disk said no".into()));
        }
        if let (Some(hints), Written::Advanced { acts, .. }) = (&self.hints, &written) {
            for act in acts {
                // Nobody may be listening.
                let _ = hints.send(act.act_id);
            }
        }
        Ok(written)
    }

    async fn act(&self, id: ActId) -> Result<Option<Act>, StoreError> {
        self.alive()?;
        self.inner.act(id).await
    }

    async fn act_by_handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError> {
        self.alive()?;
        let found = self.inner.act_by_handoff(thread, handoff_id).await;
        // Others run between a read and what is made of it.
        tokio::task::yield_now().await;
        found
    }

    async fn act_by_message(
        &self,
        thread: &str,
        message_id: &str,
    ) -> Result<Option<(Act, Option<String>)>, StoreError> {
        self.alive()?;
        self.inner.act_by_message(thread, message_id).await
    }

    async fn act_undoing(&self, of: ActId) -> Result<Option<Act>, StoreError> {
        self.alive()?;
        self.inner.act_undoing(of).await
    }

    async fn acts(&self, filter: &Filter) -> Result<Page<Act>, StoreError> {
        self.alive()?;
        self.inner.acts(filter).await
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Act>, StoreError> {
        self.alive()?;
        self.inner.due(now, limit).await
    }

    async fn claimed(&self) -> Result<Vec<Act>, StoreError> {
        self.alive()?;
        self.inner.claimed().await
    }

    async fn due_in_thread(&self, thread: &str, now: Timestamp) -> Result<Vec<Act>, StoreError> {
        self.alive()?;
        self.inner.due_in_thread(thread, now).await
    }

    async fn thread(
        &self,
        thread: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<ThreadLine>, StoreError> {
        self.alive()?;
        self.inner.thread(thread, after, limit).await
    }

    async fn journal(&self, id: ActId) -> Result<Vec<Row>, StoreError> {
        self.alive()?;
        self.inner.journal(id).await
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>, StoreError> {
        self.alive()?;
        self.inner.counts().await
    }

    async fn purge(&self, older_than: Timestamp, limit: u32) -> Result<Purged, StoreError> {
        self.alive()?;
        self.inner.purge(older_than, limit).await
    }

    fn changes(&self) -> Option<broadcast::Receiver<ActId>> {
        self.hints.as_ref().map(broadcast::Sender::subscribe)
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn clock_behind_s(&self) -> i64 {
        self.inner.clock_behind_s()
    }

    fn acknowledge_clock(&self) {
        self.inner.acknowledge_clock();
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn healthy(&self) -> bool {
        !self.dead.load(Ordering::SeqCst) && self.inner.healthy()
    }

    async fn close(&self) {
        // The rows outlive the process.
        self.die();
    }
}
