//! The core's real decisions, asked the way the engine asks them.
//!
//! Each [`Op`] is one conditional write of the engine: the same functions of `wilco-core`, called with the same arguments.
//! Where a [`Mutation`] breaks a rule, it is broken here or in the shell around them, never in the core.

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use wilco_core::commit::{self, Claimant, Next, Quoted};
use wilco_core::journal::{EntryKind, sha256_hex};
use wilco_core::prepare::{self, Intake, Standing};
use wilco_core::recovery::{self, Fate, Owners, Step};
use wilco_core::settle::{self, Executed, News, Pace};
use wilco_core::{
    Act, ActId, Change, Contract, Expect, Handoff, Reason, Refusal, Stage, Timestamp, cancel, lines,
};

use crate::mutation::Mutation;
use crate::store::{Kept, Line, Shelf, Wrote, rb_id};
use crate::words::{self, Messenger, Owner, PRINCIPAL, THREAD, TICK_S, Tick, at};

/// What an execution or a lookup said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heard {
    Executed,
    Accepted,
    Rejected,
    NotSent { late: bool },
    CallUnknown,
    Absent { asked_at: Tick },
    LookupUnknown,
}

/// How a caller confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    Yes,
    No,
    WithoutDigest,
    WithoutLine,
}

/// What a commit brings: the statement its caller knows, and how it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quote {
    pub caller: u8,
    pub statement: Line,
    pub attempt: u8,
    pub how: How,
}

/// One conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    State,
    Bury,
    Expire,
    Claim(Quote, Owner),
    Decline(Quote),
    Cancel,
    Record(Heard, Messenger),
    TakeOver { from: Messenger, me: Owner, over: bool },
    Vouch(Owner),
    Reclaim(Messenger),
}

/// What commit does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Todo {
    Answer,
    Join,
    Decline,
    Claim,
    Refuse,
}

/// What the engine is configured with, in ticks.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The counterparty's contract.
    pub contract: Contract,
    /// How long a statement can be confirmed.
    pub statement: Tick,
    /// When the handoff ends.
    pub end: Tick,
    /// When a claim's deadline is, after it.
    pub deadline: Tick,
    /// How long a claim must be seen unmoved before it is taken over.
    pub allowance: Tick,
}

/// The decisions, each made once.
pub struct Decisions {
    pub shelf: Shelf,
    pub setting: Setting,
    pub mutation: Option<Mutation>,
    profiles: rw1::Profiles,
    handoff: Handoff,
    writes: RwLock<HashMap<(Kept, Kept, Op, Tick), Wrote>>,
    todos: RwLock<HashMap<(Kept, Quote), Todo>>,
    threads: RwLock<HashMap<(Kept, Tick), bool>>,
}

impl Decisions {
    pub fn new(setting: Setting, mutation: Option<Mutation>) -> Decisions {
        let profiles = rw1::Profiles::builtin();
        let line = words::handoff(setting.end);
        let intake = prepare::intake(
            &profiles,
            &line,
            &|agent| agent == "scheduler",
            &["payer".to_owned()],
        );
        let Ok(Intake::Take(handoff)) = intake else {
            panic!("the model's handoff is one to take: {intake:?}");
        };
        Decisions {
            shelf: Shelf::new(),
            setting,
            mutation,
            profiles,
            handoff,
            writes: RwLock::default(),
            todos: RwLock::default(),
            threads: RwLock::default(),
        }
    }

    pub fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Makes `op` of the row as it was `read`, and writes it over what is held now.
    pub fn write(&self, read: Kept, on: Kept, op: Op, now: Tick) -> Wrote {
        remembered(&self.writes, (read, on, op, now), || {
            let before = self.shelf.get(read);
            match self.change(before.0.act.as_ref(), op, at(now)) {
                Ok(Some(change)) => self
                    .shelf
                    .write(read, on, change, !self.is(Mutation::ForgetVersions)),
                Ok(None) => Wrote::Nothing,
                Err(_) => Wrote::Refused,
            }
        })
    }

    /// What commit does with what its caller quotes.
    pub fn todo(&self, kept: Kept, quote: Quote) -> Todo {
        remembered(&self.todos, (kept, quote), || {
            let held = self.shelf.get(kept);
            let Some(act) = &held.0.act else {
                return Todo::Refuse;
            };
            match self.decided(act, quote) {
                Ok(Next::Answer) => Todo::Answer,
                Ok(Next::Join) => Todo::Join,
                Ok(Next::Decline(_)) => Todo::Decline,
                Ok(Next::Claim(_)) => Todo::Claim,
                Err(_) => Todo::Refuse,
            }
        })
    }

    /// How the handoff stands to the row that holds its id.
    pub fn standing(&self, kept: Kept) -> Standing {
        let held = self.shelf.get(kept);
        let act = held.0.act.as_ref().expect("asked only where there is one");
        prepare::standing(&self.profiles, act, &self.handoff.line).expect("the same bytes every time")
    }

    /// What recovery does about the row, and whether it had to look how long it has watched it.
    pub fn plan(&self, kept: Kept, me: Owner, silent: bool, now: Tick) -> (Option<Step>, bool) {
        let held = self.shelf.get(kept);
        let Some(act) = &held.0.act else {
            return (None, false);
        };
        let watched = AtomicBool::new(false);
        let look = |_: &Act| {
            watched.store(true, Ordering::Relaxed);
            silent
        };
        let name = me.name();
        let in_flight = std::collections::HashSet::new();
        let owners = Owners {
            me: &name,
            in_flight: &in_flight,
            others_are_dead: false,
            // No folder of the model has a double.
            since: wilco_core::Timestamp::MAX,
            doubled: false,
            silent: &look,
        };
        let step = recovery::plan(std::slice::from_ref(act), &owners, at(now))
            .into_iter()
            .next();
        (step, watched.into_inner())
    }

    pub fn may_resend(&self, kept: Kept, now: Tick) -> bool {
        let held = self.shelf.get(kept);
        let act = held.0.act.as_ref();
        act.is_some_and(|act| recovery::may_resend(act, &self.resend_contract(), at(now)))
    }

    /// Whether the permit of this claim lets its bytes leave now. It asks for the claim's deadline too, and a process can stand
    /// still between that question and the byte: no rule may rest on it, so here it is never reached.
    pub fn may_send(&self, claimed: Kept, now: Tick) -> bool {
        let held = self.shelf.get(claimed);
        let mut act = held.0.act.clone().expect("a claimed row");
        if let wilco_core::Stage::Executing(execution) | wilco_core::Stage::InDoubt(execution) =
            &mut act.stage
        {
            execution.claim.deadline = execution.claim.not_after;
        }
        let durable = wilco_core::Durable::attest(std::slice::from_ref(&act));
        let permit = wilco_adapter::Permit::from_claim(&act, &durable, std::sync::Arc::new(Fixed(at(now))));
        permit.expect("a claim yields its permit").may_send().is_ok()
    }

    /// Whether the thread, as it would be read now, passes the check. What is due is expired before it is read, and an act
    /// that is claimed and not closed past its limit is truthfully orphaned.
    pub fn thread_is_sound(&self, kept: Kept, now: Tick) -> bool {
        remembered(&self.threads, (kept, now), || {
            let read = match self.write(kept, kept, Op::Expire, now) {
                Wrote::Advanced(expired) => expired,
                _ => kept,
            };
            let claimed = self.shelf.facts(read).is_claimed();
            let held = self.shelf.get(read);
            let checked = rw1::check_thread(&self.profiles, None, &held.0.lines, Some(&at(now).to_rw1()));
            checked
                .problems
                .iter()
                .all(|p| p.code == rw1::Code::Orphaned && claimed)
        })
    }

    /// The answer to the cancel, from the journal.
    pub fn acknowledgement(&self, kept: Kept) -> Option<Line> {
        let held = self.shelf.get(kept);
        let all = held.0.lines.iter().chain(&held.0.outside);
        let mut answers = all.filter(|l| l.starts_with("RW1 AN ") && l.contains(" re=scheduler-9 "));
        answers.next().map(|line| self.shelf.line_number(line))
    }

    fn change(&self, act: Option<&Act>, op: Op, now: Timestamp) -> Result<Option<Change>, Refusal> {
        let Some(act) = act else {
            return match op {
                Op::State => self.stated(self.blank(now), Expect::Absent, now).map(Some),
                Op::Cancel => {
                    cancel::tombstone(&self.profiles, self.blank(now), &self.cancel(), PRINCIPAL, now)
                        .map(Some)
                }
                _ => Ok(None),
            };
        };
        match op {
            Op::State => self
                .stated(act.clone(), Expect::Version(act.version), now)
                .map(Some),
            Op::Bury => {
                let buried = cancel::handoff_after_tombstone(
                    &self.profiles,
                    act,
                    &self.handoff,
                    false,
                    PRINCIPAL,
                    now,
                );
                buried.map(Some)
            }
            Op::Expire => recovery::expiry(&self.profiles, act, now),
            Op::Claim(quote, me) => {
                let (Ok(Next::Claim(yes)), Stage::Prepared(offer)) = (self.decided(act, quote), &act.stage)
                else {
                    return Ok(None);
                };
                let claimant = Claimant {
                    owner: me.name(),
                    principal: PRINCIPAL.to_owned(),
                    deadline_s: seconds(self.setting.deadline),
                };
                Ok(Some(commit::claim(act, offer, &yes, &claimant, now)))
            }
            Op::Decline(quote) => {
                let (Ok(Next::Decline(no)), Stage::Prepared(offer)) = (self.decided(act, quote), &act.stage)
                else {
                    return Ok(None);
                };
                Ok(Some(commit::decline(act, offer, &no, PRINCIPAL)))
            }
            Op::Cancel => {
                let cancel = self.cancel();
                cancel::fits(act, &cancel)?;
                let effect = cancel::decide(&self.profiles, act, &cancel, true, PRINCIPAL, now)?;
                let (cancel::Effect::Write(change) | cancel::Effect::WriteAndWait(change)) = effect;
                let mut change = *change;
                if self.is(Mutation::CancelEntersAtOnce) {
                    for entry in &mut change.entries {
                        entry.kind = EntryKind::Line;
                    }
                }
                Ok(Some(change))
            }
            Op::Record(heard, from) => self.recorded(act, heard, from, now),
            Op::TakeOver { from, me, over } => {
                let fate = if over { Fate::Over } else { Fate::Silent };
                Ok(recovery::take_over(act, &from.bearer(), &me.name(), fate, now))
            }
            Op::Vouch(me) => Ok(recovery::vouch(act, &me.name(), now)),
            Op::Reclaim(from) => {
                let deadline_s = seconds(self.setting.deadline);
                let contract = self.resend_contract();
                Ok(recovery::reclaim(act, &contract, &from.bearer(), deadline_s, now))
            }
        }
    }

    fn stated(&self, act: Act, expect: Expect, now: Timestamp) -> Result<Change, Refusal> {
        let refused = |act: Act| {
            let text = "its end has passed";
            prepare::refused(
                &self.profiles,
                act,
                expect,
                "EXPIRED",
                text,
                false,
                PRINCIPAL,
                now,
            )
        };
        if now >= act.limit {
            return refused(act);
        }
        let exec = self
            .profiles
            .get(&self.handoff.profile)
            .and_then(|p| p.exec(&self.handoff.ask))
            .expect("the model's ask executes");
        let frozen = prepare::freeze(
            words::resolved(),
            exec,
            "model",
            (&self.setting.contract, &words::carried()),
            "",
            act.limit,
        );
        let Some(end) = prepare::statement_end(now, seconds(self.setting.statement), frozen.not_after) else {
            return match expect {
                Expect::Absent => refused(act),
                Expect::Version(_) => Err(Refusal::new(Reason::Expired, "it cannot be stated again")),
            };
        };
        let mut next = act;
        let rb = lines::next_id(&mut next);
        let offer = prepare::state(&self.profiles, &next, &rb, frozen, now, end, Vec::new())?;
        Ok(prepare::stated(next, expect, offer, PRINCIPAL))
    }

    fn recorded(
        &self,
        act: &Act,
        heard: Heard,
        from: Messenger,
        now: Timestamp,
    ) -> Result<Option<Change>, Refusal> {
        let news = news(heard);
        let mut bearer = from.bearer();
        if self.is(Mutation::SkipTheFence)
            && let Some(execution) = act.execution()
        {
            bearer = settle::Bearer::of(&execution.claim);
        }
        if !bearer.holds(act) {
            return Ok(Some(settle::evidence(act, &news, &bearer, now)));
        }
        let mut contract = self.setting.contract.clone();
        let mut act = act.clone();
        if let (Heard::Absent { asked_at }, Stage::Executing(e) | Stage::InDoubt(e)) = (heard, &mut act.stage)
            && self.is(Mutation::OneLookupProves)
        {
            contract.settle_window_s = 0;
            e.progress.absent_at.push(at(asked_at));
        }
        let pace = Pace {
            first_s: i64::from(TICK_S),
            longest_s: i64::from(TICK_S),
            escalate_after: u32::MAX,
        };
        settle::settle(&self.profiles, &act, &news, &contract, pace, now)
    }

    /// The contract resending goes by.
    fn resend_contract(&self) -> Contract {
        let mut contract = self.setting.contract.clone();
        if self.is(Mutation::ResendWithoutIdentity) {
            contract.identity = wilco_core::contract::Identity::Enforced;
        }
        if self.is(Mutation::TrustAForgottenKey) {
            contract.late_send = wilco_core::contract::LateSend::RefusedAfter(0);
        }
        contract
    }

    fn decided(&self, act: &Act, quote: Quote) -> Result<Next, Refusal> {
        let mut statement = self.shelf.line(quote.statement);
        let mut how = quote.how;
        let mut attempt = u32::from(quote.attempt);
        if self.is(Mutation::BareTokenPays)
            && how != How::No
            && let Some(offer) = act.offer()
        {
            (statement, how, attempt) = (offer.statement.clone(), How::Yes, offer.attempt);
        }
        let digest = match how {
            How::WithoutDigest => String::new(),
            _ => sha256_hex(statement.as_bytes()),
        };
        let confirmation = match how {
            How::WithoutLine => String::new(),
            _ => words::confirmation(usize::from(quote.caller), rb_id(&statement), how != How::No),
        };
        let quoted = Quoted {
            attempt,
            statement_sha256: &digest,
            confirmation: &confirmation,
        };
        commit::decide(&self.profiles, act, quoted)
    }

    fn cancel(&self) -> cancel::Cancel {
        cancel::intake(
            &self.profiles,
            words::CANCEL,
            &|agent| agent == "scheduler",
            &["payer".to_owned()],
        )
        .expect("the model's cancel is one to take")
    }

    /// A new act before anything is known about it but its handoff.
    fn blank(&self, now: Timestamp) -> Act {
        let age_s = 24 * 60 * 60;
        Act {
            act_id: ActId::new(at(0), [9; 10]),
            version: 0,
            thread: THREAD.to_owned(),
            handoff: self.handoff.clone(),
            principal: PRINCIPAL.to_owned(),
            created_at: at(0),
            updated_at: at(0),
            seq: 0,
            head: String::new(),
            lines: 0,
            long_ids: false,
            attempt: 0,
            tokens: Vec::new(),
            limit: prepare::limit_of(&self.profiles, &self.handoff, now, age_s),
            undo_of: None,
            likeness: None,
            waiting: Vec::new(),
            released_by: None,
            stage: Stage::Refused(prepare::closed(String::new(), String::new(), now, None)),
        }
    }
}

/// The news in the core's words.
fn news(heard: Heard) -> News {
    let executed = || Executed {
        values: words::shown(),
        receipt: None,
        status: String::new(),
        provisional: false,
    };
    match heard {
        Heard::Executed => News::Executed(executed()),
        Heard::Accepted => News::Accepted(executed()),
        Heard::Rejected => News::Refused("refused".to_owned()),
        Heard::NotSent { late } => News::NotDone {
            why: if late { "EXPIRED" } else { "ERR" },
            text: "not sent".to_owned(),
        },
        Heard::CallUnknown => News::CallUnknown("no answer".to_owned()),
        Heard::Absent { asked_at } => News::LookupAbsent {
            asked_at: at(asked_at),
            text: "unknown".to_owned(),
        },
        Heard::LookupUnknown => News::LookupUnknown("no answer".to_owned()),
    }
}

/// A clock that stands still.
struct Fixed(Timestamp);

impl wilco_core::Clock for Fixed {
    fn now(&self) -> Timestamp {
        self.0
    }
}

fn seconds(ticks: Tick) -> i64 {
    i64::from(ticks) * i64::from(TICK_S)
}

fn remembered<K, V>(memory: &RwLock<HashMap<K, V>>, key: K, make: impl FnOnce() -> V) -> V
where
    K: Eq + std::hash::Hash,
    V: Copy,
{
    if let Some(value) = memory.read().expect("no panic while held").get(&key) {
        return *value;
    }
    let value = make();
    memory.write().expect("no panic while held").insert(key, value);
    value
}
