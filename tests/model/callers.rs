//! The verbs as callers see them: prepare, commit and cancel, and what they are answered.

use wilco_core::State;
use wilco_core::prepare::Standing;

use crate::decisions::{How, Op, Quote, Todo};
use crate::mutation::Mutation;
use crate::shell::{House, Turn, next_request};
use crate::state::{Ask, Broken, Event, Hand, Moment, Task};
use crate::store::{Facts, Line, Wrote};
use crate::words::at;

/// What a caller is told.
enum Said {
    Readback { line: Line, attempt: u8 },
    Closing { line: Line, state: State },
    Acknowledged(Line),
    Refused,
}

impl House {
    pub fn caller_events(&self, m: &Moment, caller: usize, events: &mut Vec<Event>) {
        let Some(daemon) = self.daemon_of(m, caller) else {
            return;
        };
        if !m.daemons[daemon].up {
            return;
        }
        let name = u8::try_from(caller).expect("two callers");
        match m.callers[caller].task {
            Task::Idle if self.may_ask(m, caller, daemon) => {
                events.push(Event::Ask {
                    caller: name,
                    lost: false,
                });
                if self.lossy && matches!(self.asked(m, caller), Some(Ask::Prepare)) {
                    events.push(Event::Ask {
                        caller: name,
                        lost: true,
                    });
                }
            }
            Task::Idle | Task::Claiming => {}
            Task::Cancelling { .. } => events.push(Event::Write { caller: name }),
            Task::Waiting | Task::WaitingToCancel => {
                let facts = self.facts(m);
                if facts.is_final() || facts.state == Some(State::Lapsed) {
                    events.push(Event::Answer { caller: name });
                } else {
                    events.push(Event::GiveUp { caller: name });
                }
            }
        }
    }

    /// A commit that would claim waits while its daemon has the act in hand.
    fn may_ask(&self, m: &Moment, caller: usize, daemon: usize) -> bool {
        match self.quote(m, caller) {
            Some(quote) if self.todo(m, quote) == Todo::Claim => m.daemons[daemon].hand == Hand::Free,
            _ => true,
        }
    }

    /// Both callers have prepared at the first instant.
    pub fn begin_stated(&self, m: &mut Moment) {
        for caller in 0..2 {
            self.prepare(m, caller, false);
            m.callers[caller].at = 0;
        }
    }

    pub fn ask(&self, m: &mut Moment, caller: usize, lost: bool) {
        match self.asked(m, caller) {
            Some(Ask::Prepare) => self.prepare(m, caller, lost),
            Some(Ask::Commit(_)) => self.commit(m, caller),
            Some(Ask::Cancel) => self.cancel(m, caller),
            None => {}
        }
    }

    fn prepare(&self, m: &mut Moment, caller: usize, lost: bool) {
        let facts = self.facts(m);
        if self.decisions.is(Mutation::ExpiryBeforeReplay)
            && facts.state.is_some()
            && at(m.now) >= facts.limit
        {
            self.tell(m, caller, Said::Refused, lost);
            return next_request(m, caller);
        }
        self.expire_if_due(m);
        let op = match self.facts(m).state {
            None => Some(Op::State),
            Some(_) => match self.decisions.standing(m.kept) {
                Standing::Statement | Standing::Closed => None,
                Standing::Tombstone => Some(Op::Bury),
                Standing::Again => Some(Op::State),
            },
        };
        let said = match op.map(|op| self.decisions.write(m.kept, m.kept, op, m.now)) {
            None => self.as_it_stands(m),
            Some(Wrote::Advanced(kept)) => {
                self.advance(m, kept);
                m.counterparty.placed_at = m.now;
                self.as_it_stands(m)
            }
            Some(_) => Said::Refused,
        };
        self.tell(m, caller, said, lost);
        next_request(m, caller);
    }

    /// What prepare answers for an act as it stands.
    fn as_it_stands(&self, m: &Moment) -> Said {
        let facts = self.facts(m);
        match (facts.closing, facts.state, facts.statement) {
            (Some(line), Some(state), _) => Said::Closing { line, state },
            (None, _, Some(line)) => Said::Readback {
                line,
                attempt: u8::try_from(facts.attempt).expect("few attempts"),
            },
            _ => Said::Refused,
        }
    }

    fn commit(&self, m: &mut Moment, caller: usize) {
        let Some(quote) = self.quote(m, caller) else {
            // It knows no statement, so it has nothing to confirm.
            return next_request(m, caller);
        };
        let facts = self.facts(m);
        if self.decisions.is(Mutation::ExpiryBeforeReplay) && at(m.now) >= facts.expires_at {
            self.tell(m, caller, Said::Refused, false);
            return next_request(m, caller);
        }
        match self.todo(m, quote) {
            Todo::Answer => self.answer(m, caller),
            Todo::Join => m.callers[caller].task = Task::Waiting,
            Todo::Decline => {
                let op = Op::Decline(quote);
                if let Wrote::Advanced(kept) = self.decisions.write(m.kept, m.kept, op, m.now) {
                    self.advance(m, kept);
                }
                next_request(m, caller);
            }
            Todo::Claim => {
                let daemon = self.daemon_of(m, caller).expect("it asked one");
                // Only the mutant that judges by it keeps when the row was read.
                let read_at = if self.decisions.is(Mutation::ClockBeforeTheLock) {
                    m.now
                } else {
                    0
                };
                m.daemons[daemon].hand = Hand::Claiming {
                    caller: quote.caller,
                    read: m.kept,
                    read_at,
                };
                m.callers[caller].task = Task::Claiming;
            }
            Todo::Refuse => {
                let said = match (facts.closing, facts.state) {
                    (Some(line), Some(state)) => Said::Closing { line, state },
                    _ => Said::Refused,
                };
                self.tell(m, caller, said, false);
                next_request(m, caller);
            }
        }
    }

    fn cancel(&self, m: &mut Moment, caller: usize) {
        let held = self.decisions.shelf.get(m.kept);
        if held.0.ids.iter().any(|id| id == "scheduler-9") {
            // It arrived before: it waits for the same truth.
            m.callers[caller].task = Task::WaitingToCancel;
            return;
        }
        self.expire_if_due(m);
        m.callers[caller].task = Task::Cancelling { read: m.kept };
    }

    pub fn write_cancel(&self, m: &mut Moment, caller: usize) {
        let Task::Cancelling { read } = m.callers[caller].task else {
            return;
        };
        let wrote = self.decisions.write(read, m.kept, Op::Cancel, m.now);
        let Wrote::Advanced(kept) = wrote else {
            m.callers[caller].task = Task::Idle;
            return;
        };
        if self.decisions.is(Mutation::ForgetTheTombstone) && self.facts(m).state.is_none() {
            m.seen.told_undone = true;
            return next_request(m, caller);
        }
        match self.facts(m).state {
            None => self.turns.take(Turn::CancelledFirst),
            Some(State::Done) => self.turns.take(Turn::CancelLost),
            _ => {}
        }
        m.callers[caller].task = Task::WaitingToCancel;
        self.advance(m, kept);
        if self.facts(m).is_final() {
            self.answer(m, caller);
        }
    }

    /// Tells a caller how the act was closed.
    pub fn answer(&self, m: &mut Moment, caller: usize) {
        let facts = self.facts(m);
        let said = match (facts.state, facts.closing) {
            (Some(state), Some(line)) if state == State::Done || !self.is_cancelling(m, caller) => {
                Said::Closing { line, state }
            }
            (Some(_), Some(line)) => {
                Said::Acknowledged(self.decisions.acknowledgement(m.kept).unwrap_or(line))
            }
            _ => Said::Refused,
        };
        self.tell(m, caller, said, false);
        next_request(m, caller);
    }

    fn is_cancelling(&self, m: &Moment, caller: usize) -> bool {
        self.asked(m, caller) == Some(Ask::Cancel)
    }

    /// Those whose commit waits at `daemon` hear at once what the counterparty said: only in the mutant.
    pub fn tell_before_the_write(&self, m: &mut Moment, daemon: usize) {
        for caller in 0..2 {
            if m.callers[caller].task == Task::Waiting && self.daemon_of(m, caller) == Some(daemon) {
                let line = self.decisions.shelf.line_number("RW1 DN");
                let state = State::Done;
                self.tell(m, caller, Said::Closing { line, state }, false);
                next_request(m, caller);
            }
        }
    }

    /// A commit was refused, or came too late.
    pub fn tell_refused(&self, m: &mut Moment, caller: usize) {
        self.tell(m, caller, Said::Refused, false);
        next_request(m, caller);
    }

    fn tell(&self, m: &mut Moment, caller: usize, said: Said, lost: bool) {
        let facts = self.facts(m);
        let same = match said {
            Said::Readback { line, attempt } => {
                if !lost {
                    m.callers[caller].knows = Some((line, attempt));
                }
                let none_closed = m.seen.closing.is_none();
                let slot = m.seen.readbacks.get_mut(usize::from(attempt) - 1);
                none_closed && slot.is_none_or(|slot| self.as_first(slot, line))
            }
            Said::Closing { line, state } => {
                if state == State::Done {
                    if (facts.state, facts.closing) != (Some(State::Done), Some(line)) {
                        m.seen.broken.note(Broken::TOLD_EARLY);
                    }
                } else {
                    m.seen.told_undone = true;
                }
                self.as_first(&mut m.seen.closing, line)
            }
            Said::Acknowledged(line) => {
                m.seen.told_undone = true;
                self.as_first(&mut m.seen.acknowledged, line)
            }
            // A refusal is no answer to what was answered before.
            Said::Refused => {
                let asks_again = self.asked(m, caller) == Some(Ask::Prepare) && stands(&facts, m);
                m.seen.closing.is_none() && !asks_again
            }
        };
        if !same {
            m.seen.broken.note(Broken::OTHER_ANSWER);
        }
    }

    fn as_first(&self, first: &mut Option<Line>, line: Line) -> bool {
        if first.is_some() {
            self.turns.take(Turn::Replayed);
        }
        *first.get_or_insert(line) == line
    }

    fn expire_if_due(&self, m: &mut Moment) {
        if let Wrote::Advanced(kept) = self.decisions.write(m.kept, m.kept, Op::Expire, m.now) {
            self.advance(m, kept);
        }
    }

    pub fn facts(&self, m: &Moment) -> Facts {
        self.decisions.shelf.facts(m.kept)
    }

    fn todo(&self, m: &Moment, quote: Quote) -> Todo {
        self.decisions.todo(m.kept, quote)
    }

    pub fn asked(&self, m: &Moment, caller: usize) -> Option<Ask> {
        let script = &self.scripts[caller];
        script.get(usize::from(m.callers[caller].at)).map(|(ask, _)| *ask)
    }

    /// What a caller's commit quotes.
    pub fn quote(&self, m: &Moment, caller: usize) -> Option<Quote> {
        let Some(Ask::Commit(how)) = self.asked(m, caller) else {
            return None;
        };
        let (statement, attempt) = m.callers[caller].knows?;
        Some(Quote {
            caller: u8::try_from(caller).expect("two callers"),
            statement,
            attempt,
            how,
        })
    }

    /// Whether this yes is one to the statement as it stands, in time: judged apart from the core.
    pub fn judge_claim(&self, m: &mut Moment, before: &Facts, quote: Quote) {
        if quote.how != How::Yes || before.statement != Some(quote.statement) {
            m.seen.broken.note(Broken::UNCONFIRMED);
        }
        if at(m.now) >= before.expires_at || at(m.now) >= before.limit {
            m.seen.broken.note(Broken::LATE_YES);
        }
    }
}

/// Whether the act stands with a readback that was given before.
fn stands(facts: &Facts, m: &Moment) -> bool {
    let live = matches!(
        facts.state,
        Some(State::Prepared | State::Held | State::Executing | State::InDoubt)
    );
    let attempt = usize::try_from(facts.attempt).unwrap_or(0);
    live && attempt > 0 && m.seen.readbacks.get(attempt - 1).is_some_and(Option::is_some)
}
