//! What daemons do: claim and send, write down what they heard, look round, take over, send again.

use wilco_core::State;
use wilco_core::recovery::{Fate, Step};

use crate::counterparty::{Word, answer};
use crate::decisions::{Heard, Op};
use crate::mutation::Mutation;
use crate::shell::{House, Turn};
use crate::state::{Broken, Call, CallStep, Event, Hand, Moment, Task};
use crate::store::{Kept, Wrote};
use crate::words::{Messenger, TICK_S, Tick, at};

impl House {
    pub fn daemon_events(&self, m: &Moment, daemon: usize, events: &mut Vec<Event>) {
        let name = u8::try_from(daemon).expect("two daemons");
        let d = &m.daemons[daemon];
        if !d.up {
            events.push(Event::Restart { daemon: name });
            return;
        }
        let facts = self.facts(m);
        match &d.hand {
            Hand::Free => {
                let due = facts.due_at.is_some_and(|due| due <= at(m.now));
                if due || (d.fresh && facts.is_claimed()) {
                    events.push(Event::Look { daemon: name });
                }
            }
            Hand::Claiming { .. } | Hand::Recording { .. } => {
                events.push(Event::Step { daemon: name });
                if m.lost_commits_left > 0 {
                    events.push(Event::StepUnheard { daemon: name });
                }
            }
            Hand::Call(Call {
                step: CallStep::Sent { answer: None },
                ..
            }) => events.push(Event::Lose { daemon: name }),
            Hand::Call(Call {
                step: CallStep::Permitted,
                ..
            })
            | Hand::Again { .. } => events.push(Event::Step { daemon: name }),
            // That an answer is lost after the bytes landed comes to the same as that the call gave up before.
            Hand::Call(Call {
                step: CallStep::Sent { answer: Some(_) },
                ..
            }) => events.push(Event::Step { daemon: name }),
            Hand::Call(_) => {
                events.push(Event::Step { daemon: name });
                events.push(Event::Lose { daemon: name });
            }
            Hand::Looking { .. } => {
                events.push(Event::Step { daemon: name });
                if m.lost_lookups_left > 0 {
                    events.push(Event::Lose { daemon: name });
                }
            }
        }
        // The death of a daemon that has nothing to do with the act changes nothing but its name.
        let concerned = d.hand != Hand::Free
            || facts.holder.is_some_and(|holder| holder.owner == d.me)
            || (0..2).any(|c| m.callers[c].task != Task::Idle && self.daemon_of(m, c) == Some(daemon));
        if m.crashes_left > 0 && self.crashing[daemon] && concerned {
            events.push(Event::Crash { daemon: name });
        }
    }

    pub fn step(&self, m: &mut Moment, daemon: usize, heard_back: bool) {
        match m.daemons[daemon].hand.clone() {
            Hand::Free => {}
            Hand::Claiming {
                caller,
                read,
                read_at,
            } => self.claim(m, daemon, usize::from(caller), (read, read_at), heard_back),
            Hand::Call(call) => self.call(m, daemon, call),
            Hand::Looking { from, asked_at } => {
                let heard = m.counterparty.found(&self.decisions.setting.contract, asked_at);
                m.daemons[daemon].hand = Hand::Recording { from, heard };
            }
            Hand::Recording { from, heard } => self.record(m, daemon, from, heard, heard_back),
            Hand::Again { from } => self.send_again(m, daemon, from),
        }
    }

    fn claim(&self, m: &mut Moment, daemon: usize, caller: usize, read: (Kept, u8), heard_back: bool) {
        let (read, read_at) = read;
        let quote = self.quote(m, caller).expect("a commit is in hand");
        let now = if self.decisions.is(Mutation::ClockBeforeTheLock) {
            read_at
        } else {
            m.now
        };
        let op = Op::Claim(quote, m.daemons[daemon].me);
        let wrote = self.decisions.write(read, m.kept, op, now);
        m.daemons[daemon].hand = Hand::Free;
        m.callers[caller].task = Task::Idle;
        let Wrote::Advanced(kept) = wrote else {
            if wrote != Wrote::Stale {
                self.tell_refused(m, caller);
            }
            return;
        };
        let (before, after) = (self.facts(m), self.decisions.shelf.facts(kept));
        let claimed = after.state == Some(State::Executing);
        if !self.decisions.is(Mutation::DropTheClaim) || !claimed {
            self.advance(m, kept);
        }
        if !claimed {
            self.turns.take(Turn::LateYes);
            return self.tell_refused(m, caller);
        }
        self.judge_claim(m, &before, quote);
        if !heard_back {
            // Written, and the daemon does not know it: it answers that it could not be, and sends nothing.
            m.seen.unvouched[daemon] = true;
            return crate::shell::next_request(m, caller);
        }
        m.callers[caller].task = Task::Waiting;
        m.daemons[daemon].hand = Hand::Call(Call {
            claimed: kept,
            from: after.holder.expect("claimed"),
            step: CallStep::Permitted,
        });
    }

    fn call(&self, m: &mut Moment, daemon: usize, call: Call) {
        let facts = self.decisions.shelf.facts(call.claimed);
        let step = match call.step {
            CallStep::Permitted => {
                let unchecked = self.decisions.is(Mutation::SendAfterTheLastMoment);
                if !unchecked && !self.decisions.may_send(call.claimed, m.now) {
                    return self.heard(m, daemon, &call, Heard::NotSent { late: true });
                }
                if at(m.now) >= facts.not_after {
                    m.seen.broken.note(Broken::SENT_LATE);
                }
                CallStep::Checked
            }
            CallStep::Checked => {
                if !m.seen.claimed {
                    m.seen.broken.note(Broken::SENT_UNCLAIMED);
                }
                m.counterparty.send(m.now, call.from);
                CallStep::Sent { answer: None }
            }
            CallStep::Sent { answer: Some(word) } => {
                if word == Word::Executed && self.decisions.is(Mutation::AnswerBeforeTheWrite) {
                    self.tell_before_the_write(m, daemon);
                }
                return self.heard(m, daemon, &call, answer(word));
            }
            CallStep::Sent { answer: None } => return,
        };
        m.daemons[daemon].hand = Hand::Call(Call { step, ..call });
    }

    /// A call or lookup ends without an answer.
    pub fn lose(&self, m: &mut Moment, daemon: usize) {
        match m.daemons[daemon].hand.clone() {
            Hand::Call(call) => {
                let heard = match call.step {
                    // It could not be sent: no connection.
                    CallStep::Permitted | CallStep::Checked => Heard::NotSent { late: false },
                    CallStep::Sent { .. } => Heard::CallUnknown,
                };
                self.heard(m, daemon, &call, heard);
            }
            Hand::Looking { from, .. } => {
                m.lost_lookups_left -= 1;
                let heard = Heard::LookupUnknown;
                m.daemons[daemon].hand = Hand::Recording { from, heard };
            }
            Hand::Free | Hand::Claiming { .. } | Hand::Recording { .. } | Hand::Again { .. } => {}
        }
    }

    /// A call's end, as the engine reads it: an answer speaks for its own sending alone.
    fn heard(&self, m: &mut Moment, daemon: usize, call: &Call, heard: Heard) {
        let others_open = self.decisions.shelf.facts(call.claimed).others_open
            && !self.decisions.is(Mutation::RefusalSpeaksForAll);
        let heard = match heard {
            Heard::Rejected | Heard::NotSent { .. } if others_open => Heard::CallUnknown,
            other => other,
        };
        let from = call.from;
        m.daemons[daemon].hand = Hand::Recording { from, heard };
    }

    fn record(&self, m: &mut Moment, daemon: usize, from: Messenger, heard: Heard, heard_back: bool) {
        let heard_as = match heard {
            Heard::Absent { .. } if self.decisions.is(Mutation::AskedWhenAnswered) => {
                Heard::Absent { asked_at: m.now }
            }
            Heard::Absent { .. } if self.decisions.is(Mutation::ForgetTheLookups) => Heard::LookupUnknown,
            Heard::Accepted if self.decisions.is(Mutation::AcceptedIsDone) => Heard::Executed,
            other => other,
        };
        let op = Op::Record(heard_as, from);
        let Wrote::Advanced(kept) = self.decisions.write(m.kept, m.kept, op, m.now) else {
            assert!(
                self.decisions.mutation.is_some(),
                "news about an act can always be written"
            );
            m.daemons[daemon].hand = Hand::Free;
            return;
        };
        let before = self.facts(m);
        let held = before.holder == Some(from);
        self.advance(m, kept);
        let after = self.facts(m);
        if held {
            self.note_lookup(m, heard);
        } else {
            self.turns.take(Turn::StaleNews);
            let moved = before.holder != after.holder
                || before.state != after.state
                || before.closing != after.closing;
            if moved {
                m.seen.broken.note(Broken::STALE_EPOCH);
            }
            if before.state == Some(State::Failed) && heard == Heard::Executed {
                self.turns.take(Turn::Contradicted);
            }
        }
        if !heard_back {
            return;
        }
        m.daemons[daemon].hand = Hand::Free;
        note_over(m);
        let again = matches!(heard, Heard::Absent { .. })
            && after.holder == Some(from)
            && self.decisions.may_resend(kept, m.now);
        if again {
            m.daemons[daemon].hand = Hand::Again { from };
        }
    }

    /// Keeps, apart from the core, whether lookups have shown enough since the act was quiet.
    fn note_lookup(&self, m: &mut Moment, heard: Heard) {
        if let (Heard::Absent { asked_at }, Some(quiet)) = (heard, m.seen.quiet_from)
            && asked_at >= quiet
        {
            let window = self.decisions.setting.contract.settle_window_s / TICK_S;
            let window = Tick::try_from(window).expect("few ticks");
            let first = *m.seen.first_absent.get_or_insert(asked_at);
            m.seen.absence_due |= asked_at >= first + window && asked_at >= quiet + window;
        }
    }

    fn send_again(&self, m: &mut Moment, daemon: usize, from: Messenger) {
        m.daemons[daemon].hand = Hand::Free;
        if let Wrote::Advanced(kept) = self.decisions.write(m.kept, m.kept, Op::Reclaim(from), m.now) {
            self.turns.take(Turn::SentAgain);
            self.advance(m, kept);
            m.seen.quiet_from = None;
            m.seen.first_absent = None;
            m.daemons[daemon].hand = Hand::Call(Call {
                claimed: kept,
                from: self.facts(m).holder.expect("claimed again"),
                step: CallStep::Permitted,
            });
        }
    }

    /// A round of recovery.
    pub fn look(&self, m: &mut Moment, daemon: usize) {
        let d = &mut m.daemons[daemon];
        d.fresh = false;
        let allowance = self.decisions.setting.allowance;
        let silent = d.watching.is_some_and(|since| m.now - since >= allowance);
        let (step, watched) = self.decisions.plan(m.kept, d.me, silent, m.now);
        if watched {
            d.watching.get_or_insert(m.now);
        }
        match step {
            // Looking at a close again changes no state: it can only call a person.
            None | Some(Step::Leave(_) | Step::Audit(_)) => {}
            Some(Step::Watch(_)) => {
                let op = Op::Vouch(m.daemons[daemon].me);
                if let Wrote::Advanced(kept) = self.decisions.write(m.kept, m.kept, op, m.now) {
                    self.turns.take(Turn::Vouched);
                    m.seen.unvouched[daemon] = false;
                    self.advance(m, kept);
                    note_over(m);
                }
            }
            Some(Step::Expire(_)) => {
                if let Wrote::Advanced(kept) = self.decisions.write(m.kept, m.kept, Op::Expire, m.now) {
                    self.advance(m, kept);
                }
            }
            Some(Step::TakeOver(_, fate)) => self.take_over(m, daemon, fate),
            Some(Step::LookUp(_)) => self.find_out(m, daemon),
        }
    }

    fn take_over(&self, m: &mut Moment, daemon: usize, fate: Fate) {
        let from = self.facts(m).holder.expect("only a claimed act is taken over");
        let me = m.daemons[daemon].me;
        let over = fate == Fate::Over || self.decisions.is(Mutation::SilentIsDead);
        let op = Op::TakeOver { from, me, over };
        let Wrote::Advanced(kept) = self.decisions.write(m.kept, m.kept, op, m.now) else {
            return;
        };
        self.advance(m, kept);
        match fate {
            Fate::Over => self.turns.take(Turn::TakenFromTheDead),
            Fate::Silent => self.turns.take(Turn::TakenFromTheSilent),
        }
        // Whichever of its own calls the daemon had lost: it runs none now.
        m.seen.unvouched[daemon] = false;
        note_over(m);
        self.find_out(m, daemon);
    }

    /// Settles with what an earlier owner reported, or asks the counterparty.
    fn find_out(&self, m: &mut Moment, daemon: usize) {
        let facts = self.facts(m);
        let from = facts.holder.expect("only a claimed act is looked up");
        m.daemons[daemon].hand = if facts.heard {
            let heard = Heard::Executed;
            Hand::Recording { from, heard }
        } else {
            let asked_at = m.now;
            Hand::Looking { from, asked_at }
        };
    }
}

/// Notes, apart from the core, since when every call is over and that was written.
fn note_over(m: &mut Moment) {
    let busy = m.daemons.iter().any(|d| match &d.hand {
        Hand::Call(_) | Hand::Again { .. } => true,
        Hand::Recording { heard, .. } => !matches!(heard, Heard::Absent { .. } | Heard::LookupUnknown),
        Hand::Free | Hand::Claiming { .. } | Hand::Looking { .. } => false,
    });
    if !busy && m.seen.unvouched == [false; 2] {
        m.seen.quiet_from.get_or_insert(m.now);
    }
}
