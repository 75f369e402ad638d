//! The engine itself: what it holds, how it starts, how it stops, and the tools every verb uses.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wilco_adapter::Served;
use wilco_core::token::{Token, TokenKey};
use wilco_core::write::Taken;
use wilco_core::{Act, ActId, Change, Clock, Contract, Frozen, Reason, Refusal, Stage, Timestamp, Written};
use wilco_store::{Keeper, StoreError};

use crate::api::{
    AdapterStatus, Caller, CancelRequest, Cancelled, CommitRequest, Committed, Config, Counts, Parts,
    PrepareRequest, Prepared, Purged, Released, SettleRequest, Settled, StartError,
};
use crate::needs::Needs;
use crate::running::Running;
use crate::slot::Slot;
use crate::watch::Watch;

/// Carries out the verbs. One per process; cheap to share.
pub struct Engine {
    pub(crate) keeper: Arc<dyn Keeper>,
    pub(crate) profiles: rw1::Profiles,
    pub(crate) config: Config,
    pub(crate) owner: String,
    /// When this run began, on the store's clock.
    pub(crate) since: Timestamp,
    /// Whether another daemon is known to run on a copy of this one's folder.
    pub(crate) doubled: AtomicBool,
    pub(crate) running: Running,
    pub(crate) stats: Stats,
    pub(crate) watch: Watch,
    adapters: Vec<Slot>,
    keys: Vec<TokenKey>,
    chance: Arc<dyn crate::Chance>,
    tasks: TaskTracker,
    stopping: CancellationToken,
    grace_over: CancellationToken,
    draining: AtomicBool,
}

/// Counts since start.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) mismatches: AtomicU64,
    pub(crate) contradictions: AtomicU64,
    pub(crate) takeovers: AtomicU64,
    pub(crate) resends: AtomicU64,
    pub(crate) lookups: AtomicU64,
}

impl Engine {
    /// Starts: checks that everything open can still be served, takes over what an earlier run left claimed, and
    /// begins to look round in the background.
    ///
    /// # Errors
    /// The store does not answer, the settings make no sense, or open acts need what is no longer configured.
    pub async fn start(parts: Parts) -> Result<Arc<Engine>, StartError> {
        Engine::start_after(parts, None).await
    }

    /// Starts as [`Engine::start`], but looks for what open acts need only if something of `had` is missing: what every
    /// daemon that wrote to the store before this start could serve.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub async fn start_after(parts: Parts, had: Option<&Needs>) -> Result<Arc<Engine>, StartError> {
        check(&parts)?;
        let mut owner = [0u8; 8];
        parts.chance.fill(&mut owner);
        let places = usize::try_from(parts.config.concurrency.max(1)).unwrap_or(1);
        let house = Arc::new(Semaphore::new(places));
        let since = parts.keeper.now();
        let engine = Arc::new(Engine {
            since,
            doubled: AtomicBool::new(false),
            adapters: parts
                .adapters
                .into_iter()
                .map(|adapter| Slot::new(adapter, Arc::clone(&house)))
                .collect(),
            keeper: parts.keeper,
            profiles: parts.profiles,
            keys: parts.token_keys,
            chance: parts.chance,
            owner: format!(
                "{}.{}",
                parts.config.house,
                owner.iter().map(|b| format!("{b:02x}")).collect::<String>()
            ),
            watch: Watch::new(parts.config.takeover_allowance),
            config: parts.config,
            running: Running::default(),
            stats: Stats::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            grace_over: CancellationToken::new(),
            draining: AtomicBool::new(false),
        });
        engine.check_orphans(had).await?;
        let left = engine.keeper.claimed().await?;
        let looking_round = Arc::clone(&engine);
        // In the background: a counterparty that does not answer must not keep the daemon from starting.
        engine.tasks.spawn(async move {
            crate::recover::left_claimed(&looking_round, &left);
            crate::recover::forever(&looking_round).await;
        });
        for place in 0..engine.adapters.len() {
            let asking = Arc::clone(&engine);
            engine.tasks.spawn(async move {
                let stopping = asking.stopping.cancelled();
                if let Some(slot) = asking.adapters.get(place) {
                    slot.ask_how_it_does(asking.config.health_interval, stopping)
                        .await;
                }
            });
        }
        if let Some(changes) = engine.keeper.changes() {
            let waking = Arc::clone(&engine);
            engine
                .tasks
                .spawn(async move { wake_on_hints(&waking, changes).await });
        }
        Ok(engine)
    }

    /// Resolves, freezes and states a handoff.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn prepare(
        self: &Arc<Self>,
        caller: &Caller,
        request: PrepareRequest,
    ) -> Result<Prepared, Refusal> {
        let (engine, caller) = (Arc::clone(self), caller.clone());
        self.in_a_task(async move { crate::prepare::prepare(&engine, &caller, request).await })
            .await
    }

    /// Executes a confirmed statement.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn commit(
        self: &Arc<Self>,
        caller: &Caller,
        request: CommitRequest,
    ) -> Result<Committed, Refusal> {
        let (engine, caller) = (Arc::clone(self), caller.clone());
        self.in_a_task(async move { crate::commit::commit(&engine, &caller, request).await })
            .await
    }

    /// Withdraws a handoff.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn cancel(
        self: &Arc<Self>,
        caller: &Caller,
        request: CancelRequest,
    ) -> Result<Cancelled, Refusal> {
        let (engine, caller) = (Arc::clone(self), caller.clone());
        self.in_a_task(async move { crate::cancel::cancel(&engine, &caller, request).await })
            .await
    }

    /// Takes an operator's word on an act in doubt.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn settle(
        self: &Arc<Self>,
        caller: &Caller,
        request: SettleRequest,
    ) -> Result<Settled, Refusal> {
        let (engine, caller) = (Arc::clone(self), caller.clone());
        self.in_a_task(async move { crate::settle::settle(&engine, &caller, request).await })
            .await
    }

    /// Lets a handoff that is held as a likely twin go on, and states it again.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn release(self: &Arc<Self>, caller: &Caller, act_id: ActId) -> Result<Released, Refusal> {
        let (engine, caller) = (Arc::clone(self), caller.clone());
        self.in_a_task(async move { crate::release::release(&engine, &caller, act_id).await })
            .await
    }

    /// Erases the texts of acts that were closed more than `older_than_s` seconds ago, for a few seconds; asked again, it
    /// goes on.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn purge(self: &Arc<Self>, caller: &Caller, older_than_s: u64) -> Result<Purged, Refusal> {
        let (engine, caller) = (Arc::clone(self), caller.clone());
        self.in_a_task(async move { crate::purge::purge(&engine, &caller, older_than_s).await })
            .await
    }

    /// Tries a configured adapter at its counterparty, with a handoff to look at if one is given. Moves nothing and stores
    /// nothing; what resolving puts in place is withdrawn as well as it can be.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn check(
        self: &Arc<Self>,
        caller: &Caller,
        adapter: String,
        sample: Option<String>,
    ) -> Result<wilco_adapter::kit::Findings, Refusal> {
        let (engine, caller) = (Arc::clone(self), caller.clone());
        self.in_a_task(
            async move { crate::check::check(&engine, &caller, &adapter, sample.as_deref()).await },
        )
        .await
    }

    /// The adapters as they stand.
    #[must_use]
    pub fn adapters(&self) -> Vec<AdapterStatus> {
        self.adapters.iter().map(Slot::status).collect()
    }

    /// Figures for `/metrics`.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        let states = self.keeper.counts().await?.into_iter().collect();
        let claimed = self.keeper.claimed().await?;
        let escalated = claimed
            .iter()
            .filter(|a| a.execution().is_some_and(|e| e.progress.escalated))
            .count();
        Ok(Counts {
            states,
            mismatches: self.stats.mismatches.load(Ordering::Relaxed),
            contradictions: self.stats.contradictions.load(Ordering::Relaxed),
            takeovers: self.stats.takeovers.load(Ordering::Relaxed),
            resends: self.stats.resends.load(Ordering::Relaxed),
            lookups: self.stats.lookups.load(Ordering::Relaxed),
            escalated: u64::try_from(escalated).unwrap_or(u64::MAX),
            running: u64::try_from(self.running.len()).unwrap_or(u64::MAX),
        })
    }

    /// What the store has done since it was opened.
    #[must_use]
    pub fn store_counters(&self) -> wilco_store::Counters {
        self.keeper.counters()
    }

    /// The profiles in force.
    #[must_use]
    pub fn profiles(&self) -> &rw1::Profiles {
        &self.profiles
    }

    /// Whether new work is taken.
    ///
    /// # Errors
    /// Why not, in words for operators.
    pub fn ready(&self) -> Result<(), String> {
        if self.draining.load(Ordering::SeqCst) {
            return Err("stopping: no new work is taken".to_owned());
        }
        if self.keeper.healthy() {
            return Ok(());
        }
        if let Some(why) = self.keeper.trouble() {
            return Err(why);
        }
        match self.keeper.clock_behind_s() {
            0 => Err("the store does not take writes".to_owned()),
            s => Err(format!(
                "the clock is {s} s behind the highest time written; set it right, or start with \
                 --accept-clock to count on from there"
            )),
        }
    }

    /// Takes no new work and waits for what runs, at most `grace`. What has not ended then stays claimed and is
    /// looked up by the next start. Returns how many executions were left.
    pub async fn drain(&self, grace: Duration) -> usize {
        self.draining.store(true, Ordering::SeqCst);
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                left = self.running.len(),
                "stopping before every execution ended; the next start looks them up"
            );
            self.grace_over.cancel();
        }
        let left = self.running.len();
        self.keeper.close().await;
        left
    }

    /// The ids of the server keys that are loaded.
    pub(crate) fn token_key_ids(&self) -> BTreeSet<String> {
        self.keys.iter().map(|key| key.id.clone()).collect()
    }

    // ---- tools for the verbs

    /// Runs a verb in a task of its own: the server drops a handler when its caller hangs up, and that must change
    /// nothing.
    async fn in_a_task<T: Send + 'static>(
        &self,
        verb: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        if let Err(why) = self.ready() {
            let reason = if self.draining.load(Ordering::SeqCst) {
                Reason::Halted
            } else {
                Reason::StoreDown
            };
            return Err(Refusal::new(reason, why).retry_after(5));
        }
        self.tasks.spawn(verb).await.unwrap_or_else(|e| {
            tracing::error!(error = %e, "a verb's task ended without an answer");
            Err(Refusal::new(
                Reason::StoreDown,
                "the request ended without an answer; ask again",
            )
            .retry_after(1))
        })
    }

    /// Spawns work that outlives its caller and that a drain waits for.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// Fires when the daemon is stopping.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Fires when a stopping daemon waits no longer for what runs.
    pub(crate) fn grace_over(&self) -> &CancellationToken {
        &self.grace_over
    }

    /// Writes what `decide` returns, at the store's own instant. An error of the decision writes nothing.
    pub(crate) async fn write(
        &self,
        decide: impl Fn(Timestamp) -> Result<Vec<Change>, Refusal> + Send + Sync + 'static,
    ) -> Result<Written, Refusal> {
        let failed: Arc<Mutex<Option<Refusal>>> = Arc::default();
        let seen = Arc::clone(&failed);
        let written = self
            .keeper
            .write(Box::new(move |now| {
                // The store may decide again after undoing a try: only the last decision counts.
                let (changes, refusal) = match decide(now) {
                    Ok(changes) => (changes, None),
                    Err(refusal) => (Vec::new(), Some(refusal)),
                };
                *lock(&seen) = refusal;
                changes
            }))
            .await
            .map_err(store_refusal)?;
        let refusal = lock(&failed).take();
        match refusal {
            Some(refusal) => Err(refusal),
            None => {
                if let Written::Advanced { acts, .. } = &written {
                    for act in acts {
                        self.running.changed(act);
                    }
                }
                Ok(written)
            }
        }
    }

    /// Writes a change of `act` that issues a line of ours: under a long id where its short one is taken by another
    /// line of the thread. Never answers that a message id is taken.
    pub(crate) async fn write_line(
        &self,
        act: &Act,
        decide: impl Fn(&Act, Timestamp) -> Result<Option<Change>, Refusal> + Clone + Send + Sync + 'static,
    ) -> Result<Written, Refusal> {
        for long_ids in [act.long_ids, true] {
            let (mut before, decide) = (act.clone(), decide.clone());
            before.long_ids = long_ids;
            let written = self
                .write(move |now| Ok(decide(&before, now)?.into_iter().collect()))
                .await?;
            if !matches!(written, Written::Taken(Taken::Message { .. })) {
                return Ok(written);
            }
        }
        let text = "no message id is free in this thread for the line that answers; use another thread";
        Err(Refusal::new(Reason::Busy, text).retry_after(1))
    }

    /// The act as it stands after what is due has been expired.
    pub(crate) async fn expire_if_due(&self, act: Act) -> Result<Act, Refusal> {
        if wilco_core::recovery::expires(&act, self.keeper.now()).is_none() {
            return Ok(act);
        }
        let (id, profiles) = (act.act_id, self.profiles.clone());
        wilco_failpoint::reach!("expire.deciding");
        let written = self
            .write_line(&act, move |before, now| {
                wilco_core::recovery::expiry(&profiles, before, now)
            })
            .await?;
        wilco_failpoint::reach!("expire.written");
        match written {
            Written::Advanced { mut acts, .. } => {
                self.release_if_abandoned(&acts);
                match acts.pop() {
                    Some(act) => Ok(act),
                    // It was not due after all.
                    None => self.reload(id).await,
                }
            }
            // Somebody else moved it: read it.
            _ => self.reload(id).await,
        }
    }

    pub(crate) async fn reload(&self, id: ActId) -> Result<Act, Refusal> {
        let act = self.keeper.act(id).await.map_err(store_refusal)?;
        act.ok_or_else(|| Refusal::new(Reason::UnknownAct, "no such act"))
    }

    /// Withdraws what prepare put in place at the counterparty, for acts that closed unclaimed. Best effort.
    pub(crate) fn release_if_abandoned(&self, acts: &[Act]) {
        for act in acts {
            let abandoned = match &act.stage {
                Stage::Lapsed(offer, _) => Some(offer),
                Stage::Failed(c) | Stage::Cancelled(c) | Stage::Refused(c) if c.claim.is_none() => {
                    c.offer.as_ref()
                }
                _ => None,
            };
            if let Some(offer) = abandoned.filter(|o| o.frozen.placed.is_some()) {
                self.withdraw(act.act_id, offer.frozen.clone());
            }
        }
    }

    pub(crate) fn withdraw(&self, act_id: ActId, frozen: Frozen) {
        if let Some(slot) = self.slot_named(&frozen.adapter) {
            let adapter = Arc::clone(&slot.adapter);
            self.tasks
                .spawn(async move { adapter.release(act_id, &frozen).await });
        }
    }

    pub(crate) fn slot_named(&self, name: &str) -> Option<&Slot> {
        self.adapters.iter().find(|s| s.description.name == name)
    }

    /// The adapter that serves an ask, with what it serves.
    pub(crate) fn slot_for(&self, profile: &str, ask: &str) -> Option<(&Slot, &Served)> {
        self.adapters
            .iter()
            .find_map(|slot| slot.serves(profile, ask).map(|served| (slot, served)))
    }

    /// The adapter of this name, if it takes back what it did under this profile.
    pub(crate) fn slot_undoing(&self, profile: &str, adapter: &str) -> Option<&Slot> {
        self.slot_named(adapter)
            .filter(|slot| slot.serves(profile, "UNDO").is_some())
    }

    /// The contract recovery may rely on: the narrower of the frozen and the current one.
    pub(crate) fn contract_for(&self, act: &Act, frozen: &Frozen) -> Contract {
        let current = self
            .slot_named(&frozen.adapter)
            .and_then(|slot| slot.serves(&act.handoff.profile, &act.handoff.ask))
            .map(|served| &served.contract);
        current.map_or_else(|| frozen.contract.clone(), |c| frozen.contract.narrower(c))
    }

    /// The token of an attempt: a new one under the first key, an old one under the key its record names.
    pub(crate) fn token(&self, act: &Act, attempt: u32) -> Result<Token, Refusal> {
        let record = act.tokens.iter().find(|t| t.attempt == attempt);
        let key = match record {
            Some(record) => self.keys.iter().find(|k| k.id == record.key_id),
            None => self.keys.first(),
        };
        let key = key.ok_or_else(|| {
            Refusal::new(
                Reason::StoreDown,
                "the server key this act's token was made with is not loaded",
            )
        })?;
        Ok(Token::derive(key, act.act_id, attempt))
    }

    pub(crate) fn key_id(&self) -> Result<&str, Refusal> {
        let key = self.keys.first();
        key.map(|k| k.id.as_str())
            .ok_or_else(|| Refusal::new(Reason::StoreDown, "no server key is loaded"))
    }

    pub(crate) fn new_act_id(&self, at: Timestamp) -> ActId {
        let mut random = [0u8; 10];
        self.chance.fill(&mut random);
        ActId::new(at, random)
    }

    pub(crate) fn wait(&self, asked: Option<Duration>) -> Duration {
        asked
            .unwrap_or(self.config.default_wait)
            .min(self.config.max_wait)
    }
}

/// Wakes who waits for an act that another daemon changed. A hint that is lost costs a little time: whoever waits looks at
/// the row every so often anyhow.
async fn wake_on_hints(engine: &Engine, mut changes: broadcast::Receiver<ActId>) {
    loop {
        let hint = tokio::select! {
            biased;
            () = engine.stopping.cancelled() => return,
            hint = changes.recv() => hint,
        };
        match hint {
            Ok(act_id) => engine.running.hinted(act_id),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// The store's clock as a [`Clock`].
pub(crate) struct StoreClock(pub(crate) Arc<dyn Keeper>);

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// Acts whose task holds the lock never panic while holding it, so a poisoned lock still holds a sound value.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What a caller hears when the store cannot answer.
pub(crate) fn store_refusal(error: StoreError) -> Refusal {
    match error {
        StoreError::Busy => {
            Refusal::new(Reason::Busy, "too many writes are waiting; try again").retry_after(1)
        }
        StoreError::PageToken => Refusal::malformed("page_token", error.to_string()),
        other => {
            tracing::error!(error = %other, "the store could not answer");
            Refusal::new(Reason::StoreDown, format!("{other}; ask again for the truth")).retry_after(2)
        }
    }
}

fn check(parts: &Parts) -> Result<(), StartError> {
    if parts.token_keys.is_empty() {
        return Err(StartError::Config(
            "no server key for tokens: one is needed".to_owned(),
        ));
    }
    let mut served: HashMap<(String, String), String> = HashMap::new();
    for adapter in &parts.adapters {
        let description = adapter.describe();
        // Each takes back what it did itself.
        for s in description.serves.iter().filter(|s| s.ask != "UNDO") {
            let pair = (s.profile.clone(), s.ask.clone());
            if let Some(other) = served.insert(pair, description.name.clone()) {
                let text = format!(
                    "adapters {other} and {} both serve {} {}: configure one of them",
                    description.name, s.profile, s.ask
                );
                return Err(StartError::Config(text));
            }
        }
    }
    Ok(())
}
