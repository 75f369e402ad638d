//! The shell around the decisions, small enough to explore: two daemons on one store, two callers, one counterparty.
//!
//! It mirrors the engine's order of steps. What the engine does as one optimistic loop (read the row, decide, write on
//! condition that the row has not moved, else begin again) is one step here: a try that lost changes nothing, and one that
//! won decided on the row as it was when it was written. Where something happens between the reading and the writing that
//! the rest depends on (a claim, a cancel, a lookup) they are two steps. A pause is a step that comes later; a crash is one
//! that never comes.

use std::sync::atomic::{AtomicU32, Ordering};

use stateright::{Model, Property};
use wilco_core::State;

use crate::counterparty::Word;
use crate::decisions::Decisions;
use crate::mutation::Mutation;
use crate::rules;
use crate::state::{Ask, Broken, Event, Hand, Moment, Task};
use crate::store::Kept;
use crate::words::Tick;

/// What is explored.
pub struct House {
    pub decisions: Decisions,
    /// What each caller asks, in order, and of which daemon.
    pub scripts: [Vec<(Ask, u8)>; 2],
    /// The last instant.
    pub horizon: Tick,
    /// What the counterparty may do about an act it does not know.
    pub words: Vec<Word>,
    /// Which daemons may crash, and how often altogether.
    pub crashing: [bool; 2],
    pub crashes: u8,
    /// How many writes may go through unheard.
    pub lost_commits: u8,
    /// How many lookups may stay unanswered.
    pub lost_lookups: u8,
    /// Whether it begins with the handoff stated and both callers knowing the statement.
    pub stated: bool,
    /// Whether answers to callers may get lost.
    pub lossy: bool,
    /// Turns this exploration has taken.
    pub turns: Turns,
}

/// Turns worth taking: a model that never takes one says nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    TakenFromTheDead,
    TakenFromTheSilent,
    Vouched,
    SentAgain,
    StaleNews,
    Replayed,
    LandedLate,
    RefusedLate,
    ClosedByLookup,
    LateYes,
    CancelledFirst,
    CancelLost,
    Lapsed,
    RepreparedAndDone,
    Contradicted,
}

/// Which turns were taken.
#[derive(Default)]
pub struct Turns(AtomicU32);

impl Turns {
    pub fn take(&self, turn: Turn) {
        self.0.fetch_or(1 << turn as u32, Ordering::Relaxed);
    }

    pub fn taken(&self, turn: Turn) -> bool {
        self.0.load(Ordering::Relaxed) & (1 << turn as u32) != 0
    }
}

impl Model for House {
    type State = Moment;
    type Action = Event;

    fn init_states(&self) -> Vec<Moment> {
        let mut first = Moment::first(self.crashes, self.lost_commits, self.lost_lookups);
        if self.stated {
            self.begin_stated(&mut first);
        }
        vec![first]
    }

    fn actions(&self, m: &Moment, events: &mut Vec<Event>) {
        if self.is_over(m) {
            return;
        }
        if m.now < self.horizon {
            events.push(Event::Tick);
        }
        for caller in 0..2 {
            self.caller_events(m, caller, events);
        }
        for daemon in 0..2 {
            self.daemon_events(m, daemon, events);
        }
        let contract = &self.decisions.setting.contract;
        for nth in 0..m.counterparty.flight.len() {
            let nth8 = u8::try_from(nth).expect("few are under way");
            // Two that left together for the same call are the same.
            if nth > 0 && m.counterparty.flight[nth] == m.counterparty.flight[nth - 1] {
                continue;
            }
            match m.counterparty.replayed(contract, m.now) {
                Some(fresh) => events.push(Event::Land { nth: nth8, fresh }),
                None => events.extend(self.words.iter().map(|&fresh| Event::Land { nth: nth8, fresh })),
            }
        }
        if m.counterparty.is_pending() {
            events.extend([Event::Finish(Word::Executed), Event::Finish(Word::Rejected)]);
        }
    }

    fn next_state(&self, last: &Moment, event: Event) -> Option<Moment> {
        let mut m = last.clone();
        match event {
            Event::Tick => {
                m.now += 1;
                m.counterparty.tick(&self.decisions.setting.contract, m.now);
            }
            Event::Ask { caller, lost } => self.ask(&mut m, usize::from(caller), lost),
            Event::Write { caller } => self.write_cancel(&mut m, usize::from(caller)),
            Event::Answer { caller } => self.answer(&mut m, usize::from(caller)),
            Event::GiveUp { caller } => next_request(&mut m, usize::from(caller)),
            Event::Look { daemon } => self.look(&mut m, usize::from(daemon)),
            Event::Step { daemon } => self.step(&mut m, usize::from(daemon), true),
            Event::StepUnheard { daemon } => {
                m.lost_commits_left -= 1;
                self.step(&mut m, usize::from(daemon), false);
            }
            Event::Lose { daemon } => self.lose(&mut m, usize::from(daemon)),
            Event::Land { nth, fresh } => self.land(&mut m, usize::from(nth), fresh),
            Event::Finish(word) => m.counterparty.finish(word),
            Event::Crash { daemon } => self.crash(&mut m, usize::from(daemon)),
            Event::Restart { daemon } => {
                let daemon = &mut m.daemons[usize::from(daemon)];
                daemon.up = true;
                daemon.me.boot += 1;
                daemon.fresh = true;
            }
        }
        (m != *last).then_some(m)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::all()
    }
}

impl House {
    /// The row is another now. Whoever read it before writes on a condition that no longer holds: nothing comes of it, and
    /// it begins again.
    pub fn advance(&self, m: &mut Moment, kept: Kept) {
        let (before, after) = (
            self.decisions.shelf.facts(m.kept),
            self.decisions.shelf.facts(kept),
        );
        m.kept = kept;
        let moved = (before.state, before.closing) != (after.state, after.closing);
        if before.is_final() && !before.tombstone && moved {
            m.seen.broken.note(Broken::REOPENED);
        }
        if after.is_claimed() {
            m.seen.claimed = true;
        }
        if before.state == Some(State::InDoubt) && after.state == Some(State::Failed) {
            self.turns.take(Turn::ClosedByLookup);
        }
        if after.state == Some(State::Lapsed) {
            self.turns.take(Turn::Lapsed);
        }
        if after.state == Some(State::Done) && after.attempt > 1 {
            self.turns.take(Turn::RepreparedAndDone);
        }
        for daemon in &mut m.daemons {
            daemon.watching = None;
        }
        if self.decisions.is(Mutation::ForgetVersions) {
            return;
        }
        for daemon in &mut m.daemons {
            if let Hand::Claiming { caller, read, .. } = daemon.hand
                && read != kept
            {
                daemon.hand = Hand::Free;
                m.callers[usize::from(caller)].task = Task::Idle;
            }
        }
        for caller in &mut m.callers {
            if matches!(caller.task, Task::Cancelling { read } if read != kept) {
                caller.task = Task::Idle;
            }
        }
    }

    /// Whether nothing is left to happen but time.
    fn is_over(&self, m: &Moment) -> bool {
        let asked = (0..2).all(|caller| self.asked(m, caller).is_none());
        let idle = m.daemons.iter().all(|d| d.hand == Hand::Free);
        asked && idle && m.counterparty.flight.is_empty() && self.facts(m).is_final()
    }

    /// The daemon that does a caller's present request.
    pub fn daemon_of(&self, m: &Moment, caller: usize) -> Option<usize> {
        let script = &self.scripts[caller];
        script
            .get(usize::from(m.callers[caller].at))
            .map(|(_, daemon)| usize::from(*daemon))
    }

    fn land(&self, m: &mut Moment, nth: usize, fresh: Word) {
        let contract = &self.decisions.setting.contract;
        if m.counterparty.flight[nth].left_at < m.now {
            self.turns.take(Turn::LandedLate);
        }
        if m.counterparty.replayed(contract, m.now) == Some(Word::Unfit) {
            self.turns.take(Turn::RefusedLate);
        }
        let (call, word) = m.counterparty.land(contract, m.now, nth, fresh);
        for daemon in &mut m.daemons {
            if let Hand::Call(waiting) = &mut daemon.hand
                && waiting.from == call
                && let crate::state::CallStep::Sent { answer } = &mut waiting.step
            {
                *answer = Some(word);
            }
        }
    }

    fn crash(&self, m: &mut Moment, daemon: usize) {
        m.crashes_left -= 1;
        for caller in 0..2 {
            if m.callers[caller].task != Task::Idle && self.daemon_of(m, caller) == Some(daemon) {
                next_request(m, caller);
            }
        }
        let hand = &m.daemons[daemon].hand;
        m.seen.unvouched[daemon] |=
            !matches!(hand, Hand::Free | Hand::Claiming { .. } | Hand::Looking { .. });
        let daemon = &mut m.daemons[daemon];
        daemon.up = false;
        daemon.fresh = false;
        daemon.hand = Hand::Free;
        daemon.watching = None;
    }
}

/// The caller goes on to its next request.
pub fn next_request(m: &mut Moment, caller: usize) {
    m.callers[caller].at += 1;
    m.callers[caller].task = Task::Idle;
}
