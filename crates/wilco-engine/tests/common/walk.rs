//! Every path an act can take, walked: from each situation that is new, every step that can be taken there.
//!
//! After every step the thread must pass the thread check as of the clock, the lines must be lines, the journals'
//! chains whole, and the states true by the bank's own book. [`walk`] returns every thread it saw, so that other
//! people's `check_thread` can be asked about the same ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use wilco_core::{Act, ActId, State};
use wilco_engine::{CommitRequest, Prepared};
use wilco_store::{Filter, Keeper};

use super::*;

/// Something that happens to the handoff in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// It is handed over, or handed over again.
    Prepare,
    /// It is handed over, and the tool resolves another account.
    PrepareHeld,
    /// It is handed over, and the tool does not do that.
    PrepareRefused,
    /// It is handed over in words nobody knows.
    PrepareUnknown,
    /// The sender withdraws it, whether it was seen or not.
    Cancel,
    /// The sender withdraws it from another agent than it goes to.
    CancelElsewhere,
    /// The statement's time runs out.
    StatementEnds,
    /// The handoff's time runs out.
    HandoffEnds,
    Decline,
    /// A yes after the statement's end.
    LateYes,
    CommitLands,
    CommitLandsOther,
    CommitUnheard,
    CommitLost,
    CommitAccepted,
    CommitRejected,
    CommitPanics,
    /// The process dies while the call is under way, before it lands.
    DiesWhileExecuting,
    /// What was sent has landed, and a lookup finds it.
    Found,
    /// Lookups find nothing, for as long as it takes.
    Absent,
    /// A person settles it, truthfully.
    PersonSettles,
    /// The same handoff under a new id, naming the statement.
    Reissue,
    /// The same handoff under a new id, naming the old one.
    ReissueNamingHandoff,
    /// What was done is to be taken back.
    Undo,
    Restart,
}

impl Step {
    const ALL: [Step; 25] = [
        Step::Prepare,
        Step::PrepareHeld,
        Step::PrepareRefused,
        Step::PrepareUnknown,
        Step::Cancel,
        Step::CancelElsewhere,
        Step::StatementEnds,
        Step::HandoffEnds,
        Step::Decline,
        Step::LateYes,
        Step::CommitLands,
        Step::CommitLandsOther,
        Step::CommitUnheard,
        Step::CommitLost,
        Step::CommitAccepted,
        Step::CommitRejected,
        Step::CommitPanics,
        Step::DiesWhileExecuting,
        Step::Found,
        Step::Absent,
        Step::PersonSettles,
        Step::Reissue,
        Step::ReissueNamingHandoff,
        Step::Undo,
        Step::Restart,
    ];

    /// Whether it can happen to an act that stands like this; `None`: there is none yet.
    fn can_follow(self, stands: Option<Stands>) -> bool {
        use Step as S;
        let Some(act) = stands else {
            return matches!(
                self,
                S::Prepare | S::PrepareHeld | S::PrepareRefused | S::PrepareUnknown | S::Cancel
            );
        };
        match self {
            S::Prepare | S::Cancel | S::Restart => true,
            S::PrepareUnknown | S::CancelElsewhere => act.tombstone,
            S::PrepareHeld => act.state == State::Lapsed,
            S::PrepareRefused => false,
            S::StatementEnds | S::Decline | S::LateYes => act.state == State::Prepared,
            S::HandoffEnds => !act.state.is_final(),
            S::CommitLands
            | S::CommitLandsOther
            | S::CommitUnheard
            | S::CommitLost
            | S::CommitAccepted
            | S::CommitRejected
            | S::CommitPanics
            | S::DiesWhileExecuting => act.state == State::Prepared,
            S::Found | S::Absent => matches!(act.state, State::Executing | State::InDoubt),
            S::PersonSettles => act.state == State::InDoubt,
            S::Reissue => act.stated,
            S::ReissueNamingHandoff => !act.tombstone,
            S::Undo => act.state == State::Done,
        }
    }
}

/// How the act in hand stands, as far as it decides what can happen to it.
#[derive(Debug, Clone, Copy)]
struct Stands {
    state: State,
    tombstone: bool,
    stated: bool,
}

impl Stands {
    fn of(act: &Act) -> Stands {
        Stands {
            state: act.state(),
            tombstone: act.is_tombstone(),
            stated: act.offer().is_some(),
        }
    }
}

/// A thread as it was seen after a path's last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The steps that led there.
    pub path: Vec<Step>,
    /// The clock, `YYYYMMDDTHHMMZ`.
    pub now: String,
    /// The thread's lines in order.
    pub lines: Vec<String>,
    /// The handoffs that are truthfully orphaned: executing or in doubt past their end.
    pub orphaned: Vec<String>,
}

/// What a walk saw.
#[derive(Debug, Default)]
pub struct Walked {
    pub seen: Vec<Seen>,
    /// How often each step was taken, and from which states.
    pub edges: BTreeMap<(State, Step), u32>,
    pub states: BTreeSet<State>,
}

impl Walked {
    /// One JSON object a line: `path`, `now`, `lines`, `orphaned`. Threads that are the same at the same time stand
    /// there once.
    pub fn to_json_lines(&self) -> String {
        let mut told = BTreeSet::new();
        let mut out = String::new();
        for seen in &self.seen {
            if !told.insert((&seen.now, &seen.lines)) {
                continue;
            }
            let path: Vec<String> = seen.path.iter().map(|s| format!("{s:?}")).collect();
            let row = serde_json::json!({
                "path": path.join(" "), "now": seen.now, "lines": seen.lines, "orphaned": seen.orphaned,
            });
            out.push_str(&row.to_string());
            out.push('\n');
        }
        out
    }
}

/// Walks every situation that can be reached in at most `depth` steps, and every step from each of them.
///
/// # Panics
/// When anything that must hold after a step does not; the path is in the message.
pub fn walk(depth: usize) -> Walked {
    let mut walked = Walked::default();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut frontier: Vec<(Vec<Step>, Option<Stands>)> = vec![(Vec::new(), None)];
    for _ in 0..depth {
        let mut work: Vec<(Vec<Step>, Option<State>)> = Vec::new();
        for (path, stands) in frontier.drain(..) {
            for step in Step::ALL.into_iter().filter(|step| step.can_follow(stands)) {
                let path = path.iter().copied().chain([step]).collect();
                work.push((path, stands.map(|s| s.state)));
            }
        }
        let mut ends = follow_all(&work);
        ends.sort_by(|a, b| a.seen.path.cmp(&b.seen.path));
        for end in ends {
            walked.states.insert(end.to.state);
            if let (Some(from), Some(step)) = (end.from, end.seen.path.last()) {
                *walked.edges.entry((from, *step)).or_default() += 1;
            }
            if known.insert(end.situation) {
                frontier.push((end.seen.path.clone(), Some(end.to)));
            }
            walked.seen.push(end.seen);
        }
    }
    walked
}

/// Follows every path in a house and a runtime of its own, a few at a time.
fn follow_all(work: &[(Vec<Step>, Option<State>)]) -> Vec<End> {
    const WALKERS: usize = 4;
    let next = AtomicUsize::new(0);
    let ends = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WALKERS {
            scope.spawn(|| {
                while let Some((path, from)) = work.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_time()
                        .build()
                        .expect("a runtime");
                    let end = runtime.block_on(follow(path, *from));
                    locked(&ends).push(end);
                }
            });
        }
    });
    ends.into_inner().expect("no walker panicked")
}

struct End {
    seen: Seen,
    from: Option<State>,
    to: Stands,
    /// What matters about where it ended: two paths to the same situation are continued once.
    situation: String,
}

/// Takes the steps of a path, and looks at what is true after the last.
async fn follow(path: &[Step], from: Option<State>) -> End {
    let mut walker = Walker::new().await;
    for (n, step) in path.iter().enumerate() {
        walker.path = path[..=n].to_vec();
        walker.take(*step).await;
    }
    let act = walker
        .act()
        .await
        .unwrap_or_else(|| panic!("{path:?}: no act in hand"));
    End {
        seen: walker.look().await,
        from,
        to: Stands::of(&act),
        situation: walker.situation().await,
    }
}

struct Walker {
    house: House,
    path: Vec<Step>,
    /// The last number given to a message of the sender's.
    messages: u32,
    /// The handoff in hand.
    line: String,
    act_id: Option<ActId>,
    prepared: Option<Prepared>,
    restarts: u32,
}

const THREAD: &str = "scheduler";

impl Walker {
    async fn new() -> Walker {
        let mut plan = Plan::new();
        plan.config.recovery_interval = Duration::from_millis(1);
        let house = plan.build().await;
        // Lookups find what a step says, when it says so.
        house.bank().silent.store(true, Ordering::SeqCst);
        Walker {
            house,
            path: Vec::new(),
            messages: 1,
            line: fresh(1, "20261002T1230Z"),
            act_id: None,
            prepared: None,
            restarts: 0,
        }
    }

    fn number(&mut self) -> u32 {
        self.messages += 1;
        self.messages
    }

    async fn act(&self) -> Option<Act> {
        match self.act_id {
            Some(id) => Some(self.house.act(id).await),
            None => None,
        }
    }

    fn id(&self) -> ActId {
        self.act_id
            .unwrap_or_else(|| panic!("{:?}: no act in hand", self.path))
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Prepare => self.prepare().await,
            Step::PrepareHeld => {
                self.house
                    .bank()
                    .next_resolve(Resolve::With("acct", "40-12-88/61102983"));
                self.prepare().await;
            }
            Step::PrepareRefused => {
                self.house.bank().next_resolve(Resolve::Refuses("PERM"));
                self.prepare().await;
            }
            Step::PrepareUnknown => {
                self.line = self.line.replace("ask=PAY", "ask=GIVE");
                self.prepare().await;
            }
            Step::Cancel => self.cancel("payer").await,
            Step::CancelElsewhere => self.cancel("auditor").await,
            Step::StatementEnds => {
                self.house.clock().advance(360);
                self.reach(&[State::Lapsed, State::Failed]).await;
            }
            Step::HandoffEnds => self.handoff_ends().await,
            Step::Decline => {
                let n = self.number();
                self.answer("N", n, None).await;
            }
            Step::LateYes => {
                let ends = self.act().await.and_then(|a| a.offer().map(|o| o.expires_at));
                self.house.clock().set(ends.unwrap_or(NOON));
                let n = self.number();
                let request = self.request("Y", n);
                assert!(self.house.try_commit(request).await.is_err(), "{:?}", self.path);
            }
            Step::CommitLands => self.commit(Call::Lands, State::Done).await,
            Step::CommitLandsOther => self.commit(Call::LandsWith("amt", "5100.00"), State::Done).await,
            Step::CommitUnheard => self.commit(Call::LandsUnheard, State::InDoubt).await,
            Step::CommitLost => self.commit(Call::Lost, State::InDoubt).await,
            Step::CommitAccepted => self.commit(Call::Accepted, State::Executing).await,
            Step::CommitRejected => self.commit(Call::Rejected, State::Failed).await,
            Step::CommitPanics => self.commit(Call::Panics, State::InDoubt).await,
            Step::DiesWhileExecuting => {
                self.house.bank().shut();
                let before = locked(&self.house.bank().executes).len();
                let n = self.number();
                self.answer("Y", n, Some(Duration::ZERO)).await;
                let called =
                    eventually(async || (locked(&self.house.bank().executes).len() > before).then_some(()));
                assert!(called.await.is_some(), "{:?}", self.path);
                self.house.bank().leave_waiting();
                self.restart().await;
                self.reach(&[State::InDoubt]).await;
            }
            Step::Found => {
                if self.house.bank().landed(self.id()) == 0 {
                    let act = self.house.act(self.id()).await;
                    let frozen = act.offer().map(|o| o.frozen.clone());
                    self.house
                        .bank()
                        .land(self.id(), &frozen.unwrap_or_else(|| panic!("{:?}", self.path)));
                }
                self.ask_the_bank(&[State::Done]).await;
            }
            Step::Absent => {
                let act = self.house.act(self.id()).await;
                let theirs = act.execution().is_some_and(|e| e.progress.accepted);
                let landed = self.house.bank().landed(self.id()) > 0;
                self.ask_the_bank(match (landed, theirs) {
                    (true, _) => &[State::Done],
                    // What they said they have cannot be absent.
                    (false, true) => &[State::InDoubt],
                    (false, false) => &[State::Failed],
                })
                .await;
            }
            Step::PersonSettles => {
                self.house.clock().advance(120);
                let landed = self.house.bank().landed(self.id()) > 0;
                let settled = self.house.settle(self.id(), landed).await;
                assert!(settled.is_ok(), "{:?}: {settled:?}", self.path);
            }
            Step::Reissue => {
                let rb = self.act().await.and_then(|a| a.offer().map(|o| o.rb_id.clone()));
                self.next(&format!(" re={}", rb.unwrap_or_default())).await;
            }
            Step::ReissueNamingHandoff => {
                let id = self.act().await.map(|a| a.handoff.id);
                self.next(&format!(" re={}", id.unwrap_or_default())).await;
            }
            Step::Undo => {
                let closed = self.act().await.and_then(|a| a.closed().cloned());
                let dn = closed.map(|c| c.line).unwrap_or_default();
                let n = self.number();
                let value = |slot: &str| {
                    let found = dn
                        .split(' ')
                        .find_map(|t| t.strip_prefix(slot)?.strip_prefix('='));
                    found.unwrap_or_default().to_owned()
                };
                self.line = fresh(n, &self.in_half_an_hour())
                    .replace("ask=PAY", &format!("ask=UNDO ctx={}", id_of(&dn)))
                    .replace("amt=5400.00", &format!("amt={}", value("amt")));
                self.act_id = None;
                self.prepare().await;
            }
            Step::Restart => self.restart().await,
        }
    }

    async fn prepare(&mut self) {
        let prepared = self.house.try_prepare(&self.line).await;
        let prepared = prepared.unwrap_or_else(|r| panic!("{:?}: {r:?}", self.path));
        self.act_id = Some(prepared.act.act_id);
        self.prepared = Some(prepared);
    }

    async fn next(&mut self, re: &str) {
        let n = self.number();
        self.line = fresh(n, &self.in_half_an_hour()).replace(" from=", &format!("{re} from="));
        self.act_id = None;
        self.prepare().await;
    }

    fn in_half_an_hour(&self) -> String {
        self.house.keeper().now().plus_seconds(1_800).to_rw1()
    }

    async fn cancel(&mut self, to: &str) {
        let n = self.number();
        let line = cx(n, &id_of(&self.line)).replace("to=payer", &format!("to={to}"));
        let cancelled = self.house.cancel_within(&line, Some(Duration::ZERO)).await;
        let cancelled = cancelled.unwrap_or_else(|r| panic!("{:?}: {r:?}", self.path));
        self.act_id = Some(cancelled.act.act_id);
    }

    fn request(&self, val: &str, n: u32) -> CommitRequest {
        let prepared = self.prepared.as_ref();
        let prepared = prepared.unwrap_or_else(|| panic!("{:?}: nothing prepared", self.path));
        answer(prepared, &format!("scheduler-{n}"), val)
    }

    async fn answer(&mut self, val: &str, n: u32, wait: Option<Duration>) {
        let request = CommitRequest {
            wait,
            ..self.request(val, n)
        };
        let answered = self.house.try_commit(request).await;
        assert!(answered.is_ok(), "{:?}: {answered:?}", self.path);
    }

    async fn commit(&mut self, call: Call, state: State) {
        let accepted = matches!(call, Call::Accepted);
        self.house.bank().next(call);
        let n = self.number();
        self.answer("Y", n, Some(Duration::ZERO)).await;
        self.reach(&[state]).await;
        if accepted {
            let theirs = eventually(async || {
                let act = self.house.act(self.id()).await;
                act.execution().is_some_and(|e| e.progress.accepted).then_some(())
            });
            assert!(theirs.await.is_some(), "{:?}", self.path);
        }
    }

    async fn handoff_ends(&mut self) {
        let act = self.house.act(self.id()).await;
        self.house.clock().set(act.limit.max(self.house.keeper().now()));
        if act.execution().is_none() {
            self.reach(&[State::Failed]).await;
        }
    }

    async fn restart(&mut self) {
        self.restarts += 1;
        self.house.restart().await;
    }

    /// Lookups are answered from the bank's book until the act stands like this.
    async fn ask_the_bank(&mut self, wanted: &[State]) {
        self.house.bank().silent.store(false, Ordering::SeqCst);
        let there = eventually(async || {
            self.house.clock().advance(31);
            tokio::time::sleep(Duration::from_millis(2)).await;
            let state = self.house.state(self.id()).await;
            wanted.contains(&state).then_some(())
        });
        let there = there.await;
        self.house.bank().silent.store(true, Ordering::SeqCst);
        assert!(there.is_some(), "{:?}: never {wanted:?}", self.path);
    }

    async fn reach(&self, wanted: &[State]) {
        let there = eventually(async || wanted.contains(&self.house.state(self.id()).await).then_some(()));
        assert!(there.await.is_some(), "{:?}: never {wanted:?}", self.path);
    }

    /// Everything that must hold now.
    async fn look(&self) -> Seen {
        let path = &self.path;
        let (lines, _) = self.house.thread(THREAD).await;
        let now = self.house.keeper().now();
        let acts = self.acts().await;
        let orphaned: Vec<String> = acts
            .iter()
            .filter(|a| a.execution().is_some() && now >= a.limit)
            .map(|a| a.handoff.id.clone())
            .collect();
        let profiles = self.house.engine.profiles();
        let checked = rw1::check_thread(profiles, None, &lines, Some(&now.to_rw1()));
        for problem in &checked.problems {
            let truthful = problem.code == rw1::Code::Orphaned
                && orphaned
                    .iter()
                    .any(|id| problem.text.starts_with(&format!("{id}:")));
            assert!(truthful, "{path:?}: {}\n{lines:#?}", problem.text);
        }
        assert_eq!(checked.problems.len(), orphaned.len(), "{path:?}: {lines:#?}");
        for line in &lines {
            let strict = rw1::parse_strict(profiles, None, line);
            assert!(strict.is_ok(), "{path:?}: {line}: {strict:?}");
            assert!(!line.contains("x_tok="), "{path:?}: {line}");
        }
        for act in &acts {
            self.look_at(act).await;
        }
        Seen {
            path: path.clone(),
            now: now.to_rw1(),
            lines,
            orphaned,
        }
    }

    async fn look_at(&self, act: &Act) {
        let (path, bank) = (&self.path, self.house.bank());
        // Lookups go on meanwhile: act and journal of one moment are what must fit.
        let whole = eventually(async || {
            let act = self.house.act(act.act_id).await;
            let journal = self
                .house
                .engine
                .journal(&duty(), act.act_id)
                .await
                .expect("a journal");
            let of_one_moment = journal.last().map_or(0, |r| r.seq) == act.seq;
            of_one_moment.then(|| wilco_core::journal::first_break(&act, &journal))
        });
        assert_eq!(whole.await, Some(None), "{path:?}: the chain is broken");
        let (sent, landed) = (bank.sendings(act.act_id), bank.landed(act.act_id));
        assert!(
            sent <= 1 && landed <= 1,
            "{path:?}: sent {sent} times, landed {landed} times"
        );
        match act.state() {
            State::Done => assert_eq!(landed, 1, "{path:?}: done, and the bank has nothing"),
            State::Failed | State::Cancelled | State::Refused => {
                assert_eq!(landed, 0, "{path:?}: {:?}, and the bank has done it", act.state());
            }
            State::Prepared | State::Held | State::Lapsed => assert_eq!((sent, landed), (0, 0), "{path:?}"),
            State::Executing | State::InDoubt => {}
        }
        assert!(
            act.state().is_final() || act.due_at().is_some(),
            "{path:?}: nobody looks at it again"
        );
        if act.state().is_final() && !act.is_tombstone() {
            assert_eq!(act.waiting, [], "{path:?}: a cancel was never answered");
        }
        // The same handoff, the same answer.
        if act.state().is_final() && !act.is_tombstone() {
            let again = self.house.prepare(&act.handoff.line).await;
            assert!(again.replayed, "{path:?}");
            assert_eq!(Some(&again.reply), act.closed().map(|c| &c.line), "{path:?}");
        }
    }

    async fn acts(&self) -> Vec<Act> {
        let filter = Filter {
            thread: Some(THREAD.into()),
            ..Filter::default()
        };
        let page = self.house.engine.acts(&duty(), filter).await.expect("a list");
        page.items
    }

    async fn situation(&self) -> String {
        let now = self.house.keeper().now();
        let of = |act: &Act| {
            let closed = act.closed();
            format!(
                "{}{}{} attempt {} waiting {} undo {} over {} {:?} {}",
                act.state().as_str(),
                if act.is_tombstone() { " (tombstone)" } else { "" },
                if Some(act.act_id) == self.act_id {
                    " in hand"
                } else {
                    ""
                },
                act.attempt.min(2),
                act.waiting.len().min(2),
                act.undo_of.is_some(),
                now >= act.limit,
                closed.map(|c| (c.verdict, c.superseded, c.claim.is_some())),
                act.execution().is_some_and(|e| e.progress.accepted),
            )
        };
        let acts: Vec<String> = self.acts().await.iter().map(of).collect();
        format!("{} restarted {}", acts.join("; "), self.restarts.min(1))
    }
}

/// The seed's payment, open until `exp`.
fn fresh(n: u32, exp: &str) -> String {
    ho(n).replace("rb=exec", &format!("rb=exec exp={exp}"))
}
