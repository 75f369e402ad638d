//! One house: a bank, a daemon that dies again and again, and callers who do not give up.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use wilco_api::v1::State;
use wilco_failpoint::{CLOCK_VARIABLE, VARIABLE};
use wilco_tests::lab::{CONSENTS, PAYMENTS};
use wilco_tests::postgres::{Database, server};
use wilco_tests::{Daemon, PATIENCE, Setup, Wire};

use crate::chance::Chance;
use crate::desk::Desk;
use crate::judge;
use crate::plan::{Kill, Plan};
use crate::play;
use crate::tally::{Broken, Tally};

/// How many callers a house has.
const CALLERS: u64 = 4;

/// The window in which an order can still land after its last byte. No knob may delay one longer.
const SETTLE_WINDOW: Duration = Duration::from_secs(1);

/// What may go wrong where nothing moves yet.
const CONSENT_FAULTS: [&str; 7] = [
    "drop-before",
    "drop-after-accept",
    "5xx-after-accept",
    "slow",
    "late",
    "refuse",
    "not-found-then-found",
];

/// How long an armed place is waited for before the daemon is killed where it stands.
const REACH: Duration = Duration::from_secs(3);

/// How long a statement and a handoff stay open in a hasty house, whose clock jumps between two runs.
const STATEMENT_S: u64 = 60;
const HANDOFF_AGE_S: u64 = 3_600;

/// How far the clock jumps before texts are erased: what is erased must be a day old.
const TWO_DAYS_S: u64 = 172_800;

/// Lives one house from its first start to its judgement.
pub async fn live(name: &str, seed: u64, number: u64, plan: Plan, tally: &Tally) {
    let mut setup = Setup::quick()
        .failing()
        .lab_apart()
        .log("warn")
        .set("adapters.bank.settle_window_s", "1")
        .set("adapters.bank.timeout_s", "5")
        .set("recovery.lookup_pause_max_ms", "400");
    if plan.hasty {
        setup = setup
            .set("acts.handoff_age_s", &HANDOFF_AGE_S.to_string())
            .set("acts.statement_ttl_s", &STATEMENT_S.to_string());
    }
    let database = plan.shared.then(database);
    if let Some(database) = &database {
        setup = setup
            .arg("--database-url")
            .arg(database.url())
            .set("acts.execution_deadline_s", "2")
            .set("recovery.takeover_after_s", "1")
            .set("recovery.poll_interval_ms", "50");
    }
    let mut daemon = Daemon::start_with(setup.clone()).await;
    let neighbour = match &database {
        Some(_) => {
            let key = daemon.data().join("token.key");
            let setup = setup
                .lab_at(daemon.lab().url())
                .set("store.token_key_file", &format!("{key:?}"));
            Some(Daemon::start_with(setup).await)
        }
        None => None,
    };
    let desk = Rc::new(Desk::new(&daemon, neighbour.as_ref()));
    let mut house = House {
        name: name.to_owned(),
        chance: Chance::of(seed, number),
        lagged: false,
        plan,
        daemon,
        _neighbour: neighbour,
        _database: database,
        desk,
        tally,
        clock_ahead_s: 0,
    };
    house.live().await;
}

/// A database of a house's own, on the server the tests share.
fn database() -> Database {
    let database = server().and_then(|server| Database::create(&server));
    database.unwrap_or_else(|why| panic!("{why}"))
}

struct House<'a> {
    name: String,
    chance: Chance,
    /// Whether its bank has shown its one lagging read.
    lagged: bool,
    plan: Plan,
    daemon: Daemon,
    _neighbour: Option<Daemon>,
    // Removed after the daemons.
    _database: Option<Database>,
    desk: Rc<Desk>,
    tally: &'a Tally,
    /// How far ahead of the machine's the daemon's clock runs. It never goes back.
    clock_ahead_s: u64,
}

impl House<'_> {
    async fn live(&mut self) {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let chance = Chance::of(self.chance.number(), caller);
                spawn_local(play::play(Rc::clone(&self.desk), caller, chance))
            })
            .collect();
        for kill in self.plan.kills.clone() {
            self.turn_knobs().await;
            self.let_time_pass(kill);
            self.strike(kill, Duration::ZERO).await;
        }
        if !self.plan.operator.is_empty() {
            self.bank_without_answers().await;
        }
        self.desk.close();
        self.daemon.bank().well_again().await;
        self.in_peace().await;
        for caller in callers {
            if let Err(error) = caller.await {
                self.broke(Broken::Lost(format!("a caller came to a bad end: {error}")));
            }
        }
        self.until_nothing_is_open().await;
        judge::judge(&self.name, &self.daemon, &self.desk, self.tally).await;
        if !self.plan.purge.is_empty() {
            self.erase().await;
            judge::still_so(&self.name, &self.daemon, &self.desk, self.tally).await;
        }
        for what in self.desk.complaints() {
            self.broke(Broken::Other(what));
        }
    }

    /// Starts the daemon and has it die, by `kill` or, where that does not happen in time, by ours.
    async fn strike(&mut self, kill: Kill, at_least: Duration) {
        let order = match kill {
            Kill::At(point, times) => format!("{point}=kill@{times}"),
            _ => String::new(),
        };
        self.launch(&order);
        let started = Instant::now();
        let mut booked = None;
        let mut answers_since = None;
        let (status, reached) = loop {
            if let Some(status) = self.daemon.process().ended() {
                break (status, true);
            }
            if answers_since.is_none() && self.daemon.answers() {
                answers_since = Some(Instant::now());
                self.desk.open(Some(self.daemon.url()));
                if kill == Kill::Booked {
                    self.daemon.bank().fault(PAYMENTS, "slow", 1, 0.4).await;
                    booked = Some(self.daemon.bank().book().await.payments().len());
                }
            }
            let up = answers_since.map(|since| since.elapsed());
            let mine = match kill {
                Kill::Starting(after) => (started.elapsed() >= after).then_some(true),
                Kill::After(after) => up.filter(|up| *up >= after).map(|_| true),
                Kill::At(..) => up.filter(|up| *up >= REACH.max(at_least)).map(|_| false),
                Kill::Booked => match (booked, up) {
                    (Some(before), _) if self.daemon.bank().book().await.payments().len() > before => {
                        Some(true)
                    }
                    (_, Some(up)) if up >= REACH => Some(false),
                    _ => None,
                },
            };
            if let Some(reached) = mine {
                self.daemon.kill();
                let status = self.daemon.process().ended().unwrap_or_default();
                break (status, reached);
            }
            assert!(
                started.elapsed() < PATIENCE,
                "the daemon neither answers nor ends:\n{}",
                self.daemon.log()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        self.desk.open(None);
        self.count(status, kill, reached);
    }

    fn count(&self, status: ExitStatus, kill: Kill, reached: bool) {
        if status.signal() != Some(9) {
            self.broke(Broken::Other(format!(
                "the daemon ended with {status}:\n{}",
                tail(&self.daemon.log())
            )));
            return;
        }
        self.tally.killed(match (reached, kill) {
            (true, Kill::At(point, _)) => point,
            (true, Kill::After(_)) => "(some moment)",
            (true, Kill::Starting(_)) => "(while starting)",
            (true, Kill::Booked) => "(booked, not yet answered)",
            (false, _) => "(some moment: the place was not come to in time)",
        });
        if !reached && std::env::var_os("WILCO_CRASH_LOG").is_some() {
            println!("{}: not reached: {kill:?}", self.name);
        }
    }

    fn launch(&mut self, order: &str) {
        let clock = self.daemon.data().join("clock-ahead");
        write(&clock, &self.clock_ahead_s.to_string());
        self.daemon
            .relaunch(&[(VARIABLE, order), (CLOCK_VARIABLE, &clock.display().to_string())]);
    }

    /// Starts the daemon with nothing armed, and waits until it answers.
    async fn in_peace(&mut self) {
        self.launch("");
        let started = Instant::now();
        while !self.daemon.answers() {
            if let Some(status) = self.daemon.process().ended() {
                panic!(
                    "the daemon ended with {status} instead of serving:\n{}",
                    tail(&self.daemon.log())
                );
            }
            assert!(
                started.elapsed() < PATIENCE,
                "the daemon does not answer:\n{}",
                tail(&self.daemon.log())
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.desk.open(Some(self.daemon.url()));
    }

    /// In a hasty house statements run out while nobody serves, and before a death by expiry the handoffs do. Its bank has
    /// no order on the way meanwhile that a jump could overtake.
    fn let_time_pass(&mut self, kill: Kill) {
        if !self.plan.hasty {
            return;
        }
        let expires = matches!(kill, Kill::At(point, _) if point.starts_with("expire."));
        if expires {
            self.clock_ahead_s += HANDOFF_AGE_S + STATEMENT_S;
        } else if self.chance.percent(50) {
            self.clock_ahead_s += 2 * STATEMENT_S;
        }
    }

    /// What the bank does to the next requests.
    async fn turn_knobs(&mut self) {
        if !self.plan.faulty || self.chance.percent(30) {
            return;
        }
        let bank = self.daemon.bank();
        let times = u32::try_from(self.chance.between(1, 3)).unwrap_or(1);
        let fraction =
            |chance: &mut Chance, most: f64| most * f64::from(chance.between(1, 100) as u32) / 100.0;
        let knob = self.chance.between(0, 11);
        if std::env::var_os("WILCO_CRASH_LOG").is_some() {
            println!("{}: knob {knob} times {times}", self.name);
        }
        match knob {
            0 => bank.fault(PAYMENTS, "drop-before", times, 0.0).await,
            1 => bank.fault(PAYMENTS, "drop-after-accept", times, 0.0).await,
            2 => bank.fault(PAYMENTS, "5xx-after-accept", times, 0.0).await,
            3 => {
                bank.fault(PAYMENTS, "slow", times, fraction(&mut self.chance, 0.3))
                    .await
            }
            4 | 5 if self.plan.late => {
                let most = SETTLE_WINDOW.as_secs_f64() * 0.6;
                bank.fault(PAYMENTS, "late", times, fraction(&mut self.chance, most))
                    .await;
            }
            6 => bank.fault(PAYMENTS, "refuse", 1, 0.0).await,
            7 => {
                let wrong = self.chance.one(&["wrong-amount", "wrong-account"]);
                bank.fault(PAYMENTS, wrong, 1, 0.0).await;
            }
            8 if !self.plan.late && !self.lagged => {
                self.lagged = true;
                bank.fault(PAYMENTS, "not-found-then-found", 1, 0.0).await;
            }
            9 | 10 => {
                let fault = self.chance.one(&CONSENT_FAULTS);
                bank.fault(CONSENTS, fault, times, fraction(&mut self.chance, 0.3))
                    .await;
            }
            _ => self.daemon.lab().restart().await,
        }
    }

    /// The bank takes orders it loses or carries out late, and then answers no more questions: a person must say what
    /// became of them, by the bank's own book. The daemon dies while they do.
    async fn bank_without_answers(&mut self) {
        self.in_peace().await;
        let bank = self.daemon.bank();
        bank.fault(PAYMENTS, "drop-before", 2, 0.0).await;
        if self.plan.late {
            bank.fault(PAYMENTS, "late", 2, 0.4).await;
        }
        let token = self.daemon.data().join("bank.token");
        let in_doubt = self.in_doubt(3).await;
        write(&token, "another-token\n");
        // What was on its way has landed by now, and every window has passed.
        tokio::time::sleep(SETTLE_WINDOW * 2).await;
        let book = bank.book().await;
        let settled = spawn_local({
            let desk = Rc::clone(&self.desk);
            async move {
                for (act_id, reference) in in_doubt {
                    let done = book
                        .payments()
                        .iter()
                        .any(|p| p["instruction_id"] == reference.as_str());
                    settle(&desk, &act_id, done).await;
                }
            }
        });
        for kill in self.plan.operator.clone() {
            self.strike(kill, SETTLE_WINDOW * 2).await;
        }
        self.in_peace().await;
        if let Err(error) = settled.await {
            self.broke(Broken::Other(format!("the operator came to a bad end: {error}")));
        }
        write(&token, "lab-token\n");
    }

    /// Waits a little for so many acts in doubt; returns their ids and references.
    async fn in_doubt(&self, want: usize) -> Vec<(String, String)> {
        let deadline = Instant::now() + Duration::from_secs(3);
        loop {
            let listed = self
                .desk
                .ask("duty", Wire::Grpc, "acts in doubt", async |caller| {
                    caller.acts(&[State::InDoubt]).await
                })
                .await;
            let acts = listed.map(|l| l.acts).unwrap_or_default();
            if acts.len() >= want || Instant::now() > deadline {
                return acts.into_iter().map(|a| (a.act_id, a.reference)).collect();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Every claimed act must end: the bank is well and answers.
    async fn until_nothing_is_open(&mut self) {
        let open = [State::Executing, State::InDoubt];
        let deadline = Instant::now() + PATIENCE;
        loop {
            let listed = self
                .desk
                .ask("duty", Wire::Grpc, "open acts", async |caller| {
                    caller.acts(&open).await
                })
                .await;
            match listed {
                Ok(listed) if listed.acts.is_empty() => return,
                Ok(listed) if Instant::now() > deadline => {
                    for act in listed.acts {
                        self.broke(Broken::Lost(format!("never settled: {act:?}")));
                    }
                    return;
                }
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(refused) => panic!("acts cannot be listed: {refused:?}"),
            }
        }
    }

    /// Two days later the texts of everything closed are erased, while the daemon dies.
    async fn erase(&mut self) {
        self.clock_ahead_s += TWO_DAYS_S;
        let desk = Rc::clone(&self.desk);
        let erased = spawn_local(async move {
            loop {
                let asked = desk
                    .ask("duty", Wire::Grpc, "purge", async |caller| {
                        caller.purge(86_400).await
                    })
                    .await;
                match asked {
                    Ok(reply) if !reply.more => return,
                    Ok(_) => {}
                    Err(refused) => panic!("purge was refused: {refused:?}"),
                }
            }
        });
        for kill in self.plan.purge.clone() {
            self.strike(kill, Duration::ZERO).await;
        }
        self.in_peace().await;
        if let Err(error) = erased.await {
            self.broke(Broken::Other(format!("erasing came to a bad end: {error}")));
        }
    }

    fn broke(&self, what: Broken) {
        self.tally.broke(&self.name, what);
    }
}

/// Says what the bank's book shows, until the daemon has taken it or found out by itself.
async fn settle(desk: &Desk, act_id: &str, done: bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = desk
            .ask("duty", Wire::Grpc, "settle", async |caller| {
                caller
                    .settle(act_id, done, "the bank's own book, read by the one on duty")
                    .await
            })
            .await;
        match said {
            Ok(_) => return,
            // Closed already: by this word before its answer was lost, or by the bank's.
            Err(refused) if refused.reason == "REFUSED" && !refused.text.contains("until") => return,
            Err(refused) if Instant::now() > deadline => panic!("{act_id} takes no word: {refused:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// The end of a log.
fn tail(log: &str) -> &str {
    let from = log.len().saturating_sub(3_000);
    let from = (from..log.len())
        .find(|at| log.is_char_boundary(*at))
        .unwrap_or(log.len());
    &log[from..]
}
