//! The store all daemons of a run share, and a daemon's handle on it.
//!
//! It keeps what it has committed and nothing else: a write whose COMMIT had not returned when its daemon died stands
//! or does not, and an answer may be that nobody knows. Each handle passes its daemon's [`Gate`], so that a frozen
//! process hears nothing and a dead one never again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use wilco_core::journal::Row;
use wilco_core::write::Decide;
use wilco_core::{Act, ActId, State, Timestamp, Written};
use wilco_store::{Counters, Filter, Keeper, MemoryKeeper, Page, Purged, StoreError, ThreadLine};

use crate::chance::Shared;
use crate::gate::{Gate, Motion};
use crate::judge::Judge;
use crate::log::Log;
use crate::mutants::{self, Mutant};
use crate::perils::Perils;

/// The store's own side.
pub struct Store {
    pub kept: MemoryKeeper,
    judge: Arc<Judge>,
    log: Arc<Log>,
    chance: Shared,
    perils: Arc<Perils>,
    mutant: Option<Mutant>,
    troubled: AtomicBool,
    calm: AtomicBool,
    /// Whether its machine is down, and how often it went down: what was not flushed by then is gone.
    down: AtomicBool,
    falls: AtomicU64,
    counted: Counted,
}

/// What the store answered, to be held against its own counters.
#[derive(Debug, Default)]
pub struct Counted {
    pub writes: AtomicU64,
    pub refused: AtomicU64,
}

/// What becomes of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is decided, committed and answered.
    Well,
    /// The connection fails before anything was decided.
    Down,
    /// The queue is full.
    Busy,
    /// Its COMMIT's answer is lost; the write stands.
    UnknownStands,
    /// Its COMMIT's answer is lost; the write does not stand.
    UnknownLost,
    /// Its COMMIT's answer is lost, and the write stands only some time after that was said.
    UnknownLate,
}

impl Store {
    pub fn new(
        kept: MemoryKeeper,
        judge: Arc<Judge>,
        log: Arc<Log>,
        chance: Shared,
        perils: Arc<Perils>,
        mutant: Option<Mutant>,
    ) -> Store {
        Store {
            kept,
            judge,
            log,
            chance,
            perils,
            mutant,
            troubled: AtomicBool::new(false),
            calm: AtomicBool::new(false),
            down: AtomicBool::new(false),
            falls: AtomicU64::new(0),
            counted: Counted::default(),
        }
    }

    /// Its machine loses power, or comes back. What stood on its disk stands; what was on its way there is gone, and
    /// nobody is told which was which.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
        self.falls.fetch_add(u64::from(down), Ordering::SeqCst);
    }

    /// Notes the writes of a purge.
    pub fn counted_purge(&self, writes: u64) {
        self.counted.writes.fetch_add(writes, Ordering::SeqCst);
    }

    /// What it answered so far.
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    /// A daemon's handle.
    pub fn handle(self: &Arc<Self>, process: &str, gate: Arc<Gate>) -> Handle {
        Handle {
            store: Arc::clone(self),
            process: process.to_owned(),
            gate,
            closed: AtomicBool::new(false),
        }
    }

    /// From now on much goes wrong, or little.
    pub fn set_troubled(&self, troubled: bool) {
        self.troubled.store(troubled, Ordering::SeqCst);
    }

    /// From now on nothing goes wrong.
    pub fn set_calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    fn fate(&self) -> Fate {
        if self.calm.load(Ordering::SeqCst) {
            return Fate::Well;
        }
        let odds = if self.troubled.load(Ordering::SeqCst) {
            400
        } else {
            15
        };
        let fates = [
            Fate::Down,
            Fate::Busy,
            Fate::UnknownStands,
            Fate::UnknownLost,
            Fate::UnknownLate,
        ];
        self.chance.draw(|c| {
            if c.thousandths(odds) {
                *c.one(&fates)
            } else {
                Fate::Well
            }
        })
    }

    /// The way there or back.
    async fn travel(&self) {
        let millis = self.chance.draw(|c| match c.between(0, 99) {
            0..=59 => 0,
            60..=97 => c.between(1, 8),
            _ => c.between(10, 400),
        });
        if millis > 0 {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }

    fn read_fails(&self) -> bool {
        if self.down.load(Ordering::SeqCst) {
            return true;
        }
        let calm = self.calm.load(Ordering::SeqCst);
        let odds = if self.troubled.load(Ordering::SeqCst) {
            300
        } else {
            3
        };
        !calm && self.chance.draw(|c| c.thousandths(odds))
    }

    /// Commits a write and shows it to the judge. `believed`: whether its daemon will hear that it stands.
    async fn commit(&self, process: &str, decide: Decide, believed: bool) -> Result<Written, StoreError> {
        let (written, stands) = match self.mutant {
            None => (self.kept.write(decide).await, true),
            Some(mutant) => {
                let strikes = self.chance.draw(|c| c.thousandths(50));
                mutants::write(mutant, &self.kept, decide, strikes).await
            }
        };
        match &written {
            Ok(Written::Advanced { .. }) if !stands => {
                self.log.say(&format!("{process} write lost, and answered"));
            }
            Ok(Written::Advanced { acts, .. }) => {
                let wrote = u64::from(!acts.is_empty());
                self.counted.writes.fetch_add(wrote, Ordering::SeqCst);
                self.judge.wrote(process, acts, believed);
            }
            Ok(Written::Stale { act_id, .. }) => {
                self.counted.refused.fetch_add(1, Ordering::SeqCst);
                self.log.say(&format!("{process} write stale {act_id}"));
            }
            Ok(Written::Taken(what)) => {
                self.counted.refused.fetch_add(1, Ordering::SeqCst);
                self.log.say(&format!("{process} write taken {}", taken(what)));
            }
            Err(error) => self.log.say(&format!("{process} write failed: {error}")),
        }
        written
    }
}

fn taken(what: &wilco_core::write::Taken) -> String {
    use wilco_core::write::Taken;
    match what {
        Taken::Handoff(act) => format!("handoff {}", act.act_id),
        Taken::Message { message_id } => format!("message {message_id}"),
        Taken::Twin(act) => format!("twin {}", act.act_id),
        Taken::Undo { of } => format!("undo of {of}"),
    }
}

/// One daemon's handle on the store.
pub struct Handle {
    store: Arc<Store>,
    process: String,
    gate: Arc<Gate>,
    closed: AtomicBool,
}

impl Handle {
    /// Before a question leaves.
    async fn ask(&self) -> Result<&MemoryKeeper, StoreError> {
        self.gate.pass().await;
        if self.closed.load(Ordering::SeqCst) {
            return Err(StoreError::Down("closed".to_owned()));
        }
        self.store.travel().await;
        if self.store.read_fails() {
            self.gate.pass().await;
            return Err(StoreError::Down("connection lost".to_owned()));
        }
        Ok(&self.store.kept)
    }

    /// Once its answer has come.
    async fn hear<T>(&self, answer: T) -> T {
        self.store.travel().await;
        self.gate.pass().await;
        answer
    }
}

#[async_trait]
impl Keeper for Handle {
    async fn write(&self, decide: Decide) -> Result<Written, StoreError> {
        self.gate.pass().await;
        if self.closed.load(Ordering::SeqCst) {
            return Err(StoreError::Down("closed".to_owned()));
        }
        let mut fate = self.store.fate();
        if self.store.down.load(Ordering::SeqCst) {
            fate = Fate::Down;
        }
        let falls = self.store.falls.load(Ordering::SeqCst);
        let (answer, heard) = oneshot::channel();
        let (store, gate, process) = (
            Arc::clone(&self.store),
            Arc::clone(&self.gate),
            self.process.clone(),
        );
        // The store's own side: it goes on when the daemon does not.
        tokio::spawn(async move {
            store.travel().await;
            if gate.motion() == Motion::Dead && store.chance.draw(|c| c.thousandths(500)) {
                store.log.say(&format!("{process} write lost with its process"));
                return;
            }
            if fate != Fate::Well {
                store.log.say(&format!("{process} write {fate:?}"));
            }
            let unknown = || StoreError::Unknown("the connection was lost during COMMIT".to_owned());
            let fell = || store.falls.load(Ordering::SeqCst) != falls;
            let said = match fate {
                _ if fell() => {
                    store
                        .log
                        .say(&format!("{process} write lost with the store's memory"));
                    Err(unknown())
                }
                Fate::Well => store.commit(&process, decide, true).await,
                Fate::Down => Err(StoreError::Down("connection refused".to_owned())),
                Fate::Busy => Err(StoreError::Busy),
                Fate::UnknownLost => Err(unknown()),
                Fate::UnknownStands => {
                    drop(store.commit(&process, decide, false).await);
                    Err(unknown())
                }
                Fate::UnknownLate => {
                    drop(answer.send(Err(unknown())));
                    let millis = store.chance.draw(|c| c.between(1, 3_000));
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    if fell() {
                        return;
                    }
                    drop(store.commit(&process, decide, false).await);
                    return;
                }
            };
            store
                .perils
                .meet(&process, &gate, "before it hears of its write", 6);
            store.travel().await;
            // It stands, and the connection that was to say so is gone.
            let said = if fell() && said.is_ok() {
                Err(unknown())
            } else {
                said
            };
            drop(answer.send(said));
        });
        let Ok(said) = heard.await else {
            // Lost with its process: nobody is left to hear.
            return std::future::pending().await;
        };
        self.store
            .perils
            .meet(&self.process, &self.gate, "after it heard of its write", 4);
        self.gate.pass().await;
        said
    }

    async fn act(&self, id: ActId) -> Result<Option<Act>, StoreError> {
        let answer = self.ask().await?.act(id).await;
        self.hear(answer).await
    }

    async fn act_by_handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError> {
        let answer = self.ask().await?.act_by_handoff(thread, handoff_id).await;
        self.hear(answer).await
    }

    async fn act_by_message(
        &self,
        thread: &str,
        message_id: &str,
    ) -> Result<Option<(Act, Option<String>)>, StoreError> {
        let answer = self.ask().await?.act_by_message(thread, message_id).await;
        self.hear(answer).await
    }

    async fn act_undoing(&self, of: ActId) -> Result<Option<Act>, StoreError> {
        let answer = self.ask().await?.act_undoing(of).await;
        self.hear(answer).await
    }

    async fn acts(&self, filter: &Filter) -> Result<Page<Act>, StoreError> {
        let answer = self.ask().await?.acts(filter).await;
        self.hear(answer).await
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Act>, StoreError> {
        let answer = self.ask().await?.due(now, limit).await;
        self.hear(answer).await
    }

    async fn claimed(&self) -> Result<Vec<Act>, StoreError> {
        let answer = self.ask().await?.claimed().await;
        self.hear(answer).await
    }

    async fn due_in_thread(&self, thread: &str, now: Timestamp) -> Result<Vec<Act>, StoreError> {
        let answer = self.ask().await?.due_in_thread(thread, now).await;
        self.hear(answer).await
    }

    async fn thread(
        &self,
        thread: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<ThreadLine>, StoreError> {
        let answer = self.ask().await?.thread(thread, after, limit).await;
        self.hear(answer).await
    }

    async fn journal(&self, id: ActId) -> Result<Vec<Row>, StoreError> {
        let answer = self.ask().await?.journal(id).await;
        self.hear(answer).await
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>, StoreError> {
        let answer = self.ask().await?.counts().await;
        self.hear(answer).await
    }

    async fn purge(&self, older_than: Timestamp, limit: u32) -> Result<Purged, StoreError> {
        let answer = self.ask().await?.purge(older_than, limit).await;
        self.hear(answer).await
    }

    fn now(&self) -> Timestamp {
        self.store.kept.now()
    }

    fn clock_behind_s(&self) -> i64 {
        self.store.kept.clock_behind_s()
    }

    fn acknowledge_clock(&self) {
        self.store.kept.acknowledge_clock();
    }

    fn counters(&self) -> Counters {
        self.store.kept.counters()
    }

    fn healthy(&self) -> bool {
        !self.closed.load(Ordering::SeqCst) && self.store.kept.healthy()
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}
