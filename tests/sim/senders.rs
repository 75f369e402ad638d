//! The senders: each has a thread of its own and works through a few handoffs there, changing its mind now and then,
//! asking again until it hears something, and asking once more after that.

use std::sync::Arc;
use std::time::Duration;

use wilco_core::{Act, Reason, State};
use wilco_engine::{Caller, CancelRequest, CommitRequest, PrepareRequest, Prepared};

use crate::chance::Chance;
use crate::daemons::Sim;
use crate::net::{Answer, Ask, Heard, id_of, sender};
use crate::plan::{MOVING_PAYEE, PAYEES};

/// How often a sender asks again before it gives up.
const PATIENCE: u32 = 40;

/// Every so many milliseconds those with like handoffs hand them over at once.
const BELL_MS: u128 = 100_000;

/// How one handoff is meant to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Prepared and confirmed.
    Straight,
    /// Confirmed at two daemons at once.
    Twice,
    /// Cancelled before it is handed over.
    CancelFirst,
    /// Cancelled once it is stated.
    CancelStated,
    /// Cancelled while it is executed.
    CancelRunning,
    /// Cancelled after it is done.
    CancelLate,
    /// Declined, and sometimes handed over again.
    Decline,
    /// Confirmed too late, then again.
    TooLate,
    /// Replaced by another handoff.
    Supersede,
    /// Left alone.
    Abandon,
}

/// One sender in its thread.
pub struct Sender {
    sim: Arc<Sim>,
    chance: Chance,
    caller: Caller,
    agent: &'static str,
    thread: String,
    /// The number of its next message.
    next: u32,
}

/// A handoff as the sender has it.
struct Handoff {
    line: String,
    id: String,
    item: String,
    /// Somebody else pays the same invoice.
    shared: bool,
}

impl Sender {
    pub fn new(sim: &Arc<Sim>, n: usize, agent: &'static str) -> Sender {
        Sender {
            sim: Arc::clone(sim),
            chance: Chance::of(sim.plan.seed, &format!("{agent} {n}")),
            caller: sender(agent),
            agent,
            thread: format!("t{n:04}"),
            next: 1,
        }
    }

    /// Works through its handoffs.
    pub async fn work(mut self) {
        let start_ms = self.chance.between(0, self.sim.plan.span_s * 1000);
        tokio::time::sleep(Duration::from_millis(start_ms)).await;
        let handoffs = self.chance.between(1, 4);
        for _ in 0..handoffs {
            let handoff = self.handoff(None);
            let done = self.one(handoff).await;
            if let Some(done) = done
                && done.handoff.ask == "PAY"
                && self.chance.thousandths(350)
            {
                self.undo(&done).await;
            }
            self.rest(1, 60_000).await;
        }
    }

    /// One handoff from beginning to end. Answers with the act if it was done.
    async fn one(&mut self, handoff: Handoff) -> Option<Act> {
        let way = self.way();
        self.sim
            .log
            .say(&format!("{} {} goes {way:?}", self.thread, handoff.id));
        if way == Way::CancelFirst && self.cancel(&handoff).await {
            self.buried(&handoff).await;
            return None;
        }
        if handoff.shared && self.chance.thousandths(500) {
            // At the same instant as everybody else with such a one.
            self.until_the_next_bell().await;
        }
        if way == Way::Twice {
            self.besides(Ask::Prepare(self.a_prepare(&handoff)));
        }
        let stated = self.prepare(&handoff).await?;
        if handoff.shared && self.chance.thousandths(600) {
            // Meanwhile its twin may be let go on.
            self.rest(1, 200_000).await;
        }
        let done = match way {
            Way::Straight | Way::CancelFirst => self.confirm(&handoff, stated, false).await,
            Way::Twice => self.confirm(&handoff, stated, true).await,
            Way::CancelStated => {
                self.cancel(&handoff).await;
                // And a confirmation that was on its way.
                self.confirm(&handoff, stated, false).await
            }
            Way::CancelRunning => {
                let cancel = self.a_cancel(&handoff);
                let (sim, caller, mut chance) = (
                    Arc::clone(&self.sim),
                    self.caller.clone(),
                    Chance::new(self.chance.number()),
                );
                let later = Duration::from_millis(self.chance.between(0, 4_000));
                let cancelling = tokio::spawn(async move {
                    tokio::time::sleep(later).await;
                    until_heard(&sim, &mut chance, &caller, Ask::Cancel(cancel)).await
                });
                let done = self.confirm(&handoff, stated, false).await;
                drop(cancelling.await);
                done
            }
            Way::CancelLate => {
                let done = self.confirm(&handoff, stated, false).await;
                self.rest(1, 30_000).await;
                self.cancel(&handoff).await;
                done
            }
            Way::Decline => {
                self.decline(&handoff, stated).await;
                if self.chance.thousandths(500) {
                    let again = self.prepare(&handoff).await?;
                    self.confirm(&handoff, again, false).await
                } else {
                    None
                }
            }
            Way::TooLate => {
                self.rest(240_000, 420_000).await;
                self.confirm(&handoff, stated, false).await
            }
            Way::Supersede => {
                let rb = id_of(&stated.statement).to_owned();
                let next = self.handoff((!rb.is_empty()).then_some(rb.as_str()));
                let newer = self.prepare(&next).await;
                if self.chance.thousandths(300) {
                    self.confirm(&handoff, stated, false).await;
                }
                self.confirm(&next, newer?, false).await
            }
            Way::Abandon => None,
        };
        if self.chance.thousandths(300) {
            // Handed over once more, as if nothing had been heard.
            let ask = Ask::Prepare(self.a_prepare(&handoff));
            self.sim.ask(&mut self.chance, &self.caller.clone(), ask).await;
        }
        done
    }

    /// Asks one daemon something and does not wait for the answer.
    fn besides(&mut self, ask: Ask) {
        let seat = self.chance.below(self.sim.plan.daemons);
        let mut chance = Chance::new(self.chance.number());
        let (sim, caller) = (Arc::clone(&self.sim), self.caller.clone());
        tokio::spawn(async move { sim.ask_at(&mut chance, seat, &caller, ask).await });
    }

    /// Waits for a moment that many senders wait for.
    async fn until_the_next_bell(&self) {
        let past_ms = self.sim.log.passed_ms() % BELL_MS;
        let left_ms = u64::try_from(BELL_MS - past_ms).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(left_ms)).await;
    }

    /// Reverses what was done, now and then by two handoffs at once: one of them may.
    async fn undo(&mut self, done: &Act) {
        if self.chance.thousandths(200)
            && let Some(other) = self.an_undo(done)
        {
            self.besides(Ask::Prepare(self.a_prepare(&other)));
        }
        let Some(handoff) = self.an_undo(done) else { return };
        if let Some(stated) = self.prepare(&handoff).await {
            let twice = self.chance.thousandths(200);
            self.confirm(&handoff, stated, twice).await;
        }
    }

    fn an_undo(&mut self, done: &Act) -> Option<Handoff> {
        let closed = done.closed()?;
        let id = self.id();
        let of = |slot: &str| slot_of(&closed.line, slot).unwrap_or_default();
        let line = format!(
            "RW1 HO {id} from={} to=payer item={} ask=UNDO p=pay rb=exec ctx={} sup={} amt={} cur=GBP kind=GROSS acct={} \
             paid={} ref={} apref=FD-0929",
            self.agent,
            done.handoff.item,
            closed.line_id,
            of("sup"),
            of("amt"),
            of("acct"),
            of("paid"),
            of("ref"),
        );
        Some(Handoff {
            line,
            id,
            item: done.handoff.item.clone(),
            shared: false,
        })
    }

    // ---- lines

    fn id(&mut self) -> String {
        let id = format!("{}-{}", self.agent, self.next);
        self.next += 1;
        id
    }

    fn way(&mut self) -> Way {
        match self.chance.between(0, 99) {
            0..=49 => Way::Straight,
            50..=57 => Way::Twice,
            58..=61 => Way::CancelFirst,
            62..=67 => Way::CancelStated,
            68..=77 => Way::CancelRunning,
            78..=81 => Way::CancelLate,
            82..=85 => Way::Decline,
            86..=90 => Way::TooLate,
            91..=96 => Way::Supersede,
            _ => Way::Abandon,
        }
    }

    fn handoff(&mut self, re: Option<&str>) -> Handoff {
        let id = self.id();
        let re = re.map(|re| format!(" re={re}")).unwrap_or_default();
        if re.is_empty() && self.chance.thousandths(60) {
            let item = format!("sup:{}", MOVING_PAYEE.0);
            let line = format!(
                "RW1 HO {id} from={} to=payer item={item} ask=CHGBANK p=pay rb=exec sup={} acct=30-30-30/{:08} \
                 eff=20261002 apref=FD-0930",
                self.agent,
                MOVING_PAYEE.0,
                self.chance.between(0, 99_999_999),
            );
            return Handoff {
                line,
                id,
                item,
                shared: false,
            };
        }
        // A few pay the same invoice as somebody else: likely twins.
        let twin = self.chance.thousandths(120);
        let (item, amount, payee) = if twin {
            let n = self.chance.between(1, self.sim.plan.threads as u64 / 10 + 1);
            (format!("inv:SHARED-{n}"), 10_000 + n, PAYEES[0])
        } else {
            let item = format!("inv:{}-{id}", self.thread);
            (item, self.chance.between(1, 999_999), *self.chance.one(&PAYEES))
        };
        // A few have the account wrong: the register's is stated, and nobody can confirm that.
        let account = if self.chance.thousandths(25) {
            "40-12-88/61102983"
        } else {
            payee.1
        };
        let mut line = format!(
            "RW1 HO {id}{re} from={} to=payer item={item} ask=PAY p=pay rb=exec sup={} amt={}.{:02} cur=GBP kind=GROSS \
             acct={account} paid=20261002 ref={}-{} apref=FD-0929",
            self.agent,
            payee.0,
            amount / 100,
            amount % 100,
            self.thread.to_uppercase(),
            self.next,
        );
        if self.chance.thousandths(250) {
            let minutes = i64::try_from(self.chance.between(2, 20)).unwrap_or(2);
            let exp = wilco_store::Keeper::now(&self.sim.store.kept)
                .plus_seconds(minutes * 60)
                .to_rw1();
            line.push_str(&format!(" exp={exp}"));
        }
        Handoff {
            line,
            id,
            item,
            shared: twin,
        }
    }

    fn a_prepare(&self, handoff: &Handoff) -> PrepareRequest {
        PrepareRequest {
            thread: self.thread.clone(),
            ho: handoff.line.clone(),
            record: None,
        }
    }

    fn a_cancel(&mut self, handoff: &Handoff) -> CancelRequest {
        let id = self.id();
        CancelRequest {
            thread: self.thread.clone(),
            cx: format!(
                "RW1 CX {id} re={} from={} to=payer item={} why=REVOKED p=pay",
                handoff.id, self.agent, handoff.item
            ),
            wait: Some(Duration::from_secs(self.chance.between(0, 20))),
        }
    }

    /// The answer to a statement.
    fn a_commit(&mut self, stated: &Prepared, val: &str) -> CommitRequest {
        let id = self.id();
        CommitRequest {
            token: stated.token.clone(),
            statement_sha256: stated.statement_sha256.clone(),
            confirmation: format!(
                "RW1 AN {id} re={} from={} to=payer val={val} p=pay",
                id_of(&stated.statement),
                self.agent
            ),
            wait: Some(Duration::from_secs(self.chance.between(0, 25))),
        }
    }

    // ---- asking until something is heard

    /// The statement of a handoff, once it is heard; `None` where there is none to confirm.
    async fn prepare(&mut self, handoff: &Handoff) -> Option<Box<Prepared>> {
        let ask = Ask::Prepare(self.a_prepare(handoff));
        match until_heard(&self.sim, &mut self.chance, &self.caller, ask).await {
            Heard::Answer(Answer::Prepared(prepared)) => (!prepared.token.is_empty()).then_some(prepared),
            Heard::Refused(refusal) => {
                // Its time ran out between two tries, or between two statements.
                let expected = [Reason::Expired, Reason::Lapsed];
                self.expect(handoff, "prepare", refusal.reason, &expected, &refusal.text);
                None
            }
            _ => None,
        }
    }

    /// Hands over what was cancelled before it came: it is refused, or, where the cancel was not heard, taken.
    async fn buried(&mut self, handoff: &Handoff) {
        let ask = Ask::Prepare(self.a_prepare(handoff));
        let heard = until_heard(&self.sim, &mut self.chance, &self.caller, ask).await;
        let as_it_should = match &heard {
            Heard::Answer(Answer::Prepared(p)) => p.token.is_empty() && p.reply.contains(" why=REVOKED "),
            Heard::Answer(_) | Heard::Refused(_) => false,
            Heard::Nothing => true,
        };
        if !as_it_should {
            let names = [format!("{} {}", self.thread, handoff.id)];
            let text = format!("cancelled before it came, it was answered {heard:?}");
            self.sim.judge.broken(&names, text);
        }
    }

    /// Withdraws a handoff. Whether that was answered.
    async fn cancel(&mut self, handoff: &Handoff) -> bool {
        let cancel = Ask::Cancel(self.a_cancel(handoff));
        let heard = until_heard(&self.sim, &mut self.chance, &self.caller, cancel).await;
        if let Heard::Refused(refusal) = &heard {
            self.expect(handoff, "cancel", refusal.reason, &[], &refusal.text);
        }
        matches!(heard, Heard::Answer(_))
    }

    async fn decline(&mut self, handoff: &Handoff, stated: Box<Prepared>) {
        let no = Ask::Commit(self.a_commit(&stated, "N"));
        let heard = until_heard(&self.sim, &mut self.chance, &self.caller, no).await;
        if let Heard::Refused(refusal) = heard {
            self.expect_closed(handoff, refusal.reason, &refusal.text);
        }
    }

    /// Confirms a statement, again where it lapsed before, until the truth is heard. Answers with the act if it was
    /// done.
    async fn confirm(&mut self, handoff: &Handoff, stated: Box<Prepared>, twice: bool) -> Option<Act> {
        let mut stated = stated;
        for _ in 0..4 {
            self.rest(1, 3_000).await;
            let commit = self.a_commit(&stated, "Y");
            if twice {
                self.besides(Ask::Commit(commit.clone()));
            }
            let heard = until_heard(&self.sim, &mut self.chance, &self.caller, Ask::Commit(commit)).await;
            match heard {
                Heard::Answer(Answer::Committed(answer)) => {
                    return (answer.act.state() == State::Done).then_some(answer.act);
                }
                Heard::Refused(refusal)
                    if matches!(
                        refusal.reason,
                        Reason::Expired | Reason::Lapsed | Reason::DigestStale
                    ) =>
                {
                    stated = self.prepare(handoff).await?;
                }
                Heard::Refused(refusal) if refusal.reason == Reason::Held && handoff.shared => {
                    // Somebody may release it.
                    self.rest(5_000, 90_000).await;
                    stated = self.prepare(handoff).await?;
                }
                Heard::Refused(refusal) => {
                    self.expect_closed(handoff, refusal.reason, &refusal.text);
                    return None;
                }
                _ => return None,
            }
        }
        None
    }

    fn expect_closed(&self, handoff: &Handoff, reason: Reason, text: &str) {
        let expected = [
            Reason::Cancelled,
            Reason::Refused,
            Reason::Superseded,
            Reason::Held,
            Reason::Lapsed,
            Reason::Expired,
            Reason::DigestStale,
        ];
        self.expect(handoff, "commit", reason, &expected, text);
    }

    /// Notes a refusal that nothing this sender does explains.
    fn expect(&self, handoff: &Handoff, verb: &str, reason: Reason, expected: &[Reason], text: &str) {
        if !expected.contains(&reason) {
            let text = format!("{verb} refused with {}: {text}", reason.as_str());
            let names = [format!("{} {}", self.thread, handoff.id)];
            self.sim.judge.broken(&names, text);
        }
    }

    async fn rest(&mut self, least_ms: u64, most_ms: u64) {
        let millis = self.chance.between(least_ms, most_ms);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Asks the same thing again, at whichever daemon, until there is an answer that is one.
async fn until_heard(sim: &Arc<Sim>, chance: &mut Chance, caller: &Caller, ask: Ask) -> Heard {
    for _ in 0..PATIENCE {
        let heard = sim.ask(chance, caller, ask.clone()).await;
        let pause_ms = match &heard {
            Heard::Nothing => chance.between(100, 4_000),
            Heard::Refused(refusal) => match refusal.reason {
                Reason::Busy | Reason::StoreDown | Reason::AdapterDown | Reason::Halted => {
                    chance.between(500, 6_000)
                }
                _ => return heard,
            },
            Heard::Answer(Answer::Committed(answer)) if !closed_enough(answer.act.state()) => {
                chance.between(500, 20_000)
            }
            Heard::Answer(_) => return heard,
        };
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
    Heard::Nothing
}

fn closed_enough(state: State) -> bool {
    state.is_final() || state == State::Lapsed
}

fn slot_of<'a>(line: &'a str, slot: &str) -> Option<&'a str> {
    line.split(' ')
        .find_map(|word| word.strip_prefix(slot)?.strip_prefix('='))
}
