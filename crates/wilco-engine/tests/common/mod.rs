//! A house to tell stories in: an engine on a keeper in memory, a bank that does as it is told, a clock moved by hand
//! and chance that is seeded.
//!
//! With `WILCO_STORIES_ON=sqlite` the same houses stand on SQLite, each in a folder of its own; it takes minutes then.
//!
//! The bank's own book ([`Bank::sendings`], [`Bank::landed`]) is the judge of what happened, never the engine's word.

#![allow(dead_code)] // each test target uses a part of it

mod bank;
mod keeper;
pub mod walk;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use bank::{Bank, Call, Resolve};
pub use keeper::{Fault, FaultyKeeper};
use wilco_core::token::TokenKey;
use wilco_core::{Act, ActId, Clock, Refusal, State, Timestamp};
use wilco_engine::{
    ActRef, Caller, CancelRequest, Cancelled, Chance, CommitRequest, Committed, Config, Engine, Needs, Parts,
    PrepareRequest, Prepared, Role, SettleRequest, Settled, StartError,
};
use wilco_store::{MemoryKeeper, SqliteKeeper, SqliteOptions};

/// 2026-10-02T12:00:00Z.
pub const NOON: Timestamp = Timestamp(1_790_942_400_000_000);

/// How long a story waits for what must come; only a hang ever takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A clock that moves when told.
pub struct HandClock(AtomicI64);

impl HandClock {
    pub fn new() -> Arc<HandClock> {
        Arc::new(HandClock(AtomicI64::new(NOON.0)))
    }

    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }

    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Chance by seed (SplitMix64).
pub struct Seeded(AtomicU64);

impl Seeded {
    pub fn new(seed: u64) -> Arc<Seeded> {
        Arc::new(Seeded(AtomicU64::new(seed)))
    }

    pub fn draw(&self) -> u64 {
        let mut z = self
            .0
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Chance for Seeded {
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// What a house is built of; change it before building.
pub struct Plan {
    pub clock: Arc<HandClock>,
    pub keeper: Arc<FaultyKeeper>,
    pub banks: Vec<Arc<Bank>>,
    pub config: Config,
    pub keys: Vec<TokenKey>,
    pub seed: u64,
}

impl Plan {
    pub fn new() -> Plan {
        let clock = HandClock::new();
        let memory = MemoryKeeper::new(clock.clone());
        Plan {
            keeper: FaultyKeeper::new(Arc::new(memory)),
            clock,
            banks: vec![Bank::new("bank")],
            config: config(),
            keys: vec![key(1)],
            seed: 1,
        }
    }

    pub async fn try_build(mut self) -> Result<House, StartError> {
        let folder = match std::env::var("WILCO_STORIES_ON") {
            Ok(on) if on == "sqlite" => Some(self.on_sqlite().await),
            _ => None,
        };
        let mut house = House {
            engine: start(&self, self.seed, None).await?,
            plan: self,
            starts: 1,
            _folder: folder,
        };
        house.plan.seed += 1;
        Ok(house)
    }

    async fn on_sqlite(&mut self) -> Folder {
        static HOUSES: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "wilco-story-{}-{}",
            std::process::id(),
            HOUSES.fetch_add(1, Ordering::SeqCst)
        );
        let folder = Folder(std::env::temp_dir().join(name));
        let options = SqliteOptions::new(&folder.0, self.clock.clone());
        let keeper = SqliteKeeper::open(options).await.expect("SQLite opens");
        self.keeper = FaultyKeeper::new(Arc::new(keeper));
        folder
    }

    pub async fn build(self) -> House {
        self.try_build().await.expect("the engine starts")
    }
}

pub fn key(n: u8) -> TokenKey {
    TokenKey {
        id: format!("k{n}"),
        secret: [n; 32],
    }
}

pub fn config() -> Config {
    Config {
        agents: vec!["payer".into(), "auditor".into()],
        statement_ttl: Duration::from_secs(300),
        handoff_age: Duration::from_secs(86_400),
        default_wait: PATIENCE,
        max_wait: PATIENCE,
        execution_deadline: Duration::from_secs(30),
        recovery_interval: Duration::from_millis(3),
        lookup_pause: Duration::from_secs(2),
        lookup_pause_max: Duration::from_secs(60),
        lookups_before_escalation: 5,
        concurrency: 256,
        sole_owner: true,
        house: String::new(),
        takeover_allowance: Duration::from_secs(30),
        health_interval: Duration::from_secs(10),
        poll_interval: Duration::from_millis(100),
        orphan: false,
    }
}

async fn start(plan: &Plan, seed: u64, had: Option<&Needs>) -> Result<Arc<Engine>, StartError> {
    let parts = Parts {
        keeper: plan.keeper.clone(),
        adapters: plan.banks.iter().map(|b| b.clone() as _).collect(),
        profiles: rw1::Profiles::builtin(),
        token_keys: plan.keys.clone(),
        chance: Seeded::new(seed),
        config: plan.config.clone(),
    };
    Engine::start_after(parts, had).await
}

/// Two daemons on one store and one counterparty, each on a folder of its own: the first is named `there`, the second
/// `here`.
pub async fn two_houses(plan: Plan) -> (House, House) {
    let there = in_house(plan, "there").build().await;
    let here = there.neighbour("here").await;
    (there, here)
}

/// A daemon that shares its store with others.
pub fn in_house(mut plan: Plan, name: &str) -> Plan {
    plan.config.sole_owner = false;
    plan.config.house = name.into();
    // Virtual time passes in steps as long as the shortest pause: no shorter ones than needed.
    plan.config.recovery_interval = Duration::from_millis(200);
    plan
}

/// A private folder, gone with its house.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// An engine and what stands around it.
pub struct House {
    pub engine: Arc<Engine>,
    pub plan: Plan,
    starts: u64,
    _folder: Option<Folder>,
}

pub async fn house() -> House {
    Plan::new().build().await
}

pub fn sender(name: &str) -> Caller {
    Caller {
        name: name.into(),
        roles: vec![Role::Sender],
        speaks_for: vec![name.into()],
    }
}

pub fn with_role(name: &str, role: Role) -> Caller {
    Caller {
        name: name.into(),
        roles: vec![role],
        speaks_for: vec![],
    }
}

pub fn scheduler() -> Caller {
    sender("scheduler")
}

pub fn duty() -> Caller {
    with_role("duty", Role::Operator)
}

/// The seed's payment under another number.
pub fn ho(n: u32) -> String {
    ho_of("scheduler", n)
}

pub fn ho_of(from: &str, n: u32) -> String {
    let item = item_of(from, n);
    format!(
        "RW1 HO {from}-{n} from={from} to=payer item={item} ask=PAY p=pay rb=exec sup=marlow amt=5400.00 \
         cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929"
    )
}

/// Each handoff pays another invoice: the same one twice would be held as a likely twin.
fn item_of(from: &str, n: u32) -> String {
    match (from, n) {
        ("scheduler", 1) => "inv:MD-2026-057".to_owned(),
        _ => format!("inv:MD-2026-057-{from}-{n}"),
    }
}

/// An `ask=UNDO` of the act that `dn` closed.
pub fn undo(n: u32, dn: &str) -> String {
    ho(n).replace("ask=PAY", &format!("ask=UNDO ctx={dn}"))
}

pub fn cx(n: u32, re: &str) -> String {
    let (from, number) = re.rsplit_once('-').unwrap_or(("scheduler", "1"));
    let item = item_of(from, number.parse().unwrap_or(1));
    format!("RW1 CX scheduler-{n} re={re} from=scheduler to=payer item={item} p=pay why=REVOKED")
}

/// The message id of a line.
pub fn id_of(line: &str) -> String {
    line.split(' ').nth(2).unwrap_or_default().to_owned()
}

/// The sender's yes to a statement, as message `scheduler-<n>`.
pub fn yes(prepared: &Prepared, n: u32) -> CommitRequest {
    answer(prepared, &format!("scheduler-{n}"), "Y")
}

pub fn no(prepared: &Prepared, n: u32) -> CommitRequest {
    answer(prepared, &format!("scheduler-{n}"), "N")
}

fn answer(prepared: &Prepared, id: &str, val: &str) -> CommitRequest {
    let handoff = &prepared.act.handoff;
    let rb = id_of(&prepared.statement);
    let (from, to) = (&handoff.sender, &handoff.receiver);
    CommitRequest {
        token: prepared.token.clone(),
        statement_sha256: prepared.statement_sha256.clone(),
        confirmation: format!("RW1 AN {id} re={rb} from={from} to={to} p=pay val={val}"),
        wait: None,
    }
}

impl House {
    pub fn bank(&self) -> &Arc<Bank> {
        &self.plan.banks[0]
    }

    pub fn clock(&self) -> &HandClock {
        &self.plan.clock
    }

    pub fn keeper(&self) -> &Arc<FaultyKeeper> {
        &self.plan.keeper
    }

    /// Another daemon on the same store, with its own connection to the same counterparty.
    pub async fn neighbour(&self, name: &str) -> House {
        let plan = Plan {
            clock: self.plan.clock.clone(),
            keeper: self.plan.keeper.successor(),
            banks: self.plan.banks.iter().map(|b| b.beside()).collect(),
            config: self.plan.config.clone(),
            keys: self.plan.keys.clone(),
            seed: self.plan.seed * 7 + 1,
        };
        in_house(plan, name).build().await
    }

    /// A new process on the same store. What the old one still runs can write nothing any more.
    pub async fn restart(&mut self) {
        self.try_restart().await.expect("the engine starts again");
    }

    pub async fn try_restart(&mut self) -> Result<(), StartError> {
        self.try_restart_after(None).await
    }

    /// A restart that remembers what it could serve before.
    pub async fn try_restart_after(&mut self, had: Option<&Needs>) -> Result<(), StartError> {
        let survivor = self.plan.keeper.successor();
        self.plan.keeper.die();
        self.plan.keeper = survivor;
        self.starts += 1;
        self.engine = start(&self.plan, self.plan.seed * 1_000 + self.starts, had).await?;
        Ok(())
    }

    // ---- the verbs, as the scheduler in its own thread

    pub async fn prepare(&self, line: &str) -> Prepared {
        self.try_prepare(line).await.expect("prepared")
    }

    pub async fn try_prepare(&self, line: &str) -> Result<Prepared, Refusal> {
        self.prepare_as(&scheduler(), "", line).await
    }

    pub async fn prepare_as(&self, caller: &Caller, thread: &str, line: &str) -> Result<Prepared, Refusal> {
        let request = PrepareRequest {
            thread: thread.into(),
            ho: line.into(),
            record: None,
        };
        self.engine.prepare(caller, request).await
    }

    pub async fn commit(&self, request: CommitRequest) -> Committed {
        self.try_commit(request).await.expect("committed")
    }

    pub async fn try_commit(&self, request: CommitRequest) -> Result<Committed, Refusal> {
        self.engine.commit(&scheduler(), request).await
    }

    pub async fn cancel(&self, line: &str) -> Cancelled {
        self.try_cancel(line).await.expect("cancelled")
    }

    pub async fn try_cancel(&self, line: &str) -> Result<Cancelled, Refusal> {
        self.cancel_within(line, None).await
    }

    pub async fn cancel_within(&self, line: &str, wait: Option<Duration>) -> Result<Cancelled, Refusal> {
        let request = CancelRequest {
            thread: String::new(),
            cx: line.into(),
            wait,
        };
        self.engine.cancel(&scheduler(), request).await
    }

    pub async fn settle(&self, act_id: ActId, done: bool) -> Result<Settled, Refusal> {
        // Who says that it came to nothing must name the order that was asked about.
        let act = self.act(act_id).await;
        let name = act
            .execution()
            .and_then(|e| e.progress.receipt.clone().or(e.offer.frozen.placed.clone()));
        let evidence = format!(
            "seen in the bank's own screen by duty: {}",
            name.unwrap_or_else(|| act_id.to_string())
        );
        let request = SettleRequest {
            act_id,
            done,
            evidence,
            owner_dead: false,
        };
        self.engine.settle(&duty(), request).await
    }

    pub async fn act(&self, id: ActId) -> Act {
        self.engine.act(&duty(), &ActRef::Id(id)).await.expect("the act")
    }

    pub async fn state(&self, id: ActId) -> State {
        self.act(id).await.state()
    }

    /// Waits until recovery (or whoever) has brought the act to `state`.
    pub async fn until(&self, id: ActId, state: State) -> Act {
        let mut last = None;
        let reached = eventually(async || {
            let act = self.act(id).await;
            let there = act.state() == state;
            last = Some(act.state());
            there.then_some(act)
        })
        .await;
        reached.unwrap_or_else(|| panic!("expected {state:?}, still {last:?}"))
    }

    /// The lines of the scheduler's thread.
    pub async fn lines(&self) -> Vec<String> {
        self.thread("scheduler").await.0
    }

    /// A thread's lines, and what the thread check says against it.
    pub async fn thread(&self, thread: &str) -> (Vec<String>, Vec<String>) {
        let view = self
            .engine
            .thread(&duty(), thread, None)
            .await
            .expect("the thread");
        let problems = view.problems.into_iter().map(|p| p.text).collect();
        (view.lines, problems)
    }

    pub async fn assert_thread_is_sound(&self) {
        let (lines, problems) = self.thread("scheduler").await;
        assert_eq!(problems, [] as [String; 0], "{lines:#?}");
        for line in &lines {
            let strict = rw1::parse_strict(self.engine.profiles(), None, line);
            assert!(strict.is_ok(), "{line}: {strict:?}");
        }
    }
}

/// Asks until there is an answer; `None` when there never was one.
pub async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let give_up = tokio::time::Instant::now() + PATIENCE;
    while tokio::time::Instant::now() < give_up {
        if let Some(answer) = ask().await {
            return Some(answer);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    None
}

/// Lets everything that can run have run, several times over: for asserting that something does *not* happen.
pub async fn settle_down() {
    tokio::time::sleep(Duration::from_millis(60)).await;
}

/// A list that several tasks write to.
pub type Shared<T> = Mutex<Vec<T>>;

pub fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
