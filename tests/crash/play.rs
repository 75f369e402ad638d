//! A stubborn caller: plays one handoff after the other, each in its own way, and holds the daemon to every word.

use std::rc::Rc;
use std::time::Duration;

use wilco_api::v1::{self, State};
use wilco_tests::caller::yes;
use wilco_tests::{Payment, Refused, Wire, cancel_line, decline};

use crate::chance::Chance;
use crate::desk::{Desk, Told};

/// The ways to play a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Prepare and confirm.
    Pay,
    /// Prepare twice at once, over both wires, then confirm.
    PrepareTwice,
    /// Confirm twice at once, over both wires.
    ConfirmTwice,
    /// Confirm and cancel at once.
    Race,
    /// Cancel, then confirm.
    CancelFirst,
    /// Decline, prepare again, confirm.
    Decline,
    /// Cancel before there is anything to cancel, then prepare.
    Tombstone,
    /// Prepare and leave.
    Leave,
}

const WAYS: [Way; 14] = [
    Way::Pay,
    Way::Pay,
    Way::Pay,
    Way::Pay,
    Way::PrepareTwice,
    Way::ConfirmTwice,
    Way::ConfirmTwice,
    Way::Race,
    Way::Race,
    Way::CancelFirst,
    Way::Decline,
    Way::Decline,
    Way::Tombstone,
    Way::Leave,
];

/// How many handoffs share a thread.
const THREAD: u32 = 6;

/// How often a handoff whose statement ran out is stated again.
const STATEMENTS: u32 = 4;

/// Plays until the desk closes.
pub async fn play(desk: Rc<Desk>, caller: u64, mut chance: Chance) {
    let mut played = 0;
    while !desk.closed() {
        let number = desk.number();
        let mut payment = Payment::number(number);
        payment.amt = format!("{}.{:02}", chance.between(1, 900), chance.between(0, 99));
        let mut hand = Hand {
            desk: &desk,
            wire: chance.one(&[Wire::Grpc, Wire::Json]),
            said: 0,
            told: Told {
                payment,
                thread: format!("talk-{caller}-{}", played / THREAD),
                statements: Default::default(),
                close: None,
                accepted: false,
            },
        };
        hand.play(chance.one(&WAYS), &mut chance).await;
        desk.keep(hand.told);
        played += 1;
    }
}

/// One handoff in its caller's hands.
struct Hand<'a> {
    desk: &'a Desk,
    wire: Wire,
    /// How many lines were said beside the handoff: each has an id of its own.
    said: u32,
    told: Told,
}

impl Hand<'_> {
    async fn play(&mut self, way: Way, chance: &mut Chance) {
        match way {
            Way::Leave => drop(self.prepare().await),
            Way::Tombstone => {
                let (cx, wire) = (self.cx(), self.wire);
                self.cancel(&cx, wire).await;
                if self.prepare().await.is_some() {
                    self.complain("a handoff was stated after its cancel was acknowledged");
                }
            }
            Way::CancelFirst => {
                let Some(prepared) = self.prepare().await else {
                    return;
                };
                let (cx, wire) = (self.cx(), self.wire);
                self.cancel(&cx, wire).await;
                let an = self.id();
                self.confirm(&prepared, &an).await;
                self.again(chance).await;
            }
            Way::Decline => {
                let Some(prepared) = self.prepare().await else {
                    return;
                };
                self.decline(&prepared).await;
                self.pay(way, chance).await;
            }
            _ => self.pay(way, chance).await,
        }
    }

    /// Prepares and confirms until it is closed, or cannot be any more.
    async fn pay(&mut self, way: Way, chance: &mut Chance) {
        for _ in 0..STATEMENTS {
            let prepared = match way {
                Way::PrepareTwice => self.prepare_twice().await,
                _ => self.prepare().await,
            };
            let Some(prepared) = prepared else { break };
            if chance.percent(20) {
                tokio::time::sleep(Duration::from_millis(chance.between(0, 60))).await;
            }
            match way {
                Way::ConfirmTwice => self.confirm_twice(&prepared).await,
                Way::Race => self.race(&prepared, chance).await,
                _ => {
                    let an = self.id();
                    self.confirm(&prepared, &an).await;
                }
            }
            if self.told.close.is_some() {
                break;
            }
        }
        self.again(chance).await;
    }

    /// Asks again for what is closed: the same bytes.
    async fn again(&mut self, chance: &mut Chance) {
        if self.told.close.is_some() && chance.percent(40) && self.prepare().await.is_some() {
            self.complain("a closed handoff was stated again");
        }
    }

    /// `None` where the handoff is closed.
    async fn prepare(&mut self) -> Option<v1::PrepareReply> {
        let (thread, ho) = (self.told.thread.clone(), self.told.payment.ho());
        let asked = self
            .desk
            .ask("scheduler", self.wire, "prepare", async |caller| {
                caller.prepare_in(&thread, &ho).await
            })
            .await;
        self.stated(asked)
    }

    async fn prepare_twice(&mut self) -> Option<v1::PrepareReply> {
        let (thread, ho, desk) = (self.told.thread.clone(), self.told.payment.ho(), self.desk);
        let one = async |wire| {
            desk.ask("scheduler", wire, "prepare", async |caller| {
                caller.prepare_in(&thread, &ho).await
            })
            .await
        };
        let (first, second) = tokio::join!(one(Wire::Grpc), one(Wire::Json));
        let (first, second) = (self.stated(first), self.stated(second));
        first.and(second)
    }

    fn stated(&mut self, asked: Result<v1::PrepareReply, Box<Refused>>) -> Option<v1::PrepareReply> {
        let prepared = match asked {
            Ok(prepared) => prepared,
            Err(refused) => {
                // Its time ran out while it was being stated, or confirmation of payee did not answer: it is still open.
                if !matches!(refused.reason.as_str(), "EXPIRED" | "LAPSED") {
                    self.complain(&format!("prepare was refused: {refused:?}"));
                }
                return None;
            }
        };
        if !prepared.reply.starts_with("RW1 RB ") {
            self.closed_with(&prepared.reply.clone());
            return None;
        }
        let attempt = prepared.act.as_ref().map_or(0, |a| a.attempt);
        if let Some(before) = self.told.statements.get(&attempt) {
            let same = |p: &v1::PrepareReply| (p.reply.clone(), p.token.clone(), p.statement_sha256.clone());
            if same(before) != same(&prepared) {
                self.complain(&format!(
                    "one attempt, two statements: {} and {}",
                    before.reply, prepared.reply
                ));
            }
        }
        self.told.statements.insert(attempt, prepared.clone());
        Some(prepared)
    }

    async fn confirm(&mut self, prepared: &v1::PrepareReply, an: &str) {
        let answer = Self::commit(self.desk, self.wire, yes(prepared, an)).await;
        self.confirmed(answer);
    }

    async fn confirm_twice(&mut self, prepared: &v1::PrepareReply) {
        let (desk, request) = (self.desk, yes(prepared, &self.id()));
        let (first, second) = tokio::join!(
            Self::commit(desk, Wire::Grpc, request.clone()),
            Self::commit(desk, Wire::Json, request)
        );
        self.confirmed(first);
        self.confirmed(second);
    }

    async fn race(&mut self, prepared: &v1::PrepareReply, chance: &mut Chance) {
        let (desk, request, cx) = (self.desk, yes(prepared, &self.id()), self.cx());
        let thread = self.told.thread.clone();
        let head_start = Duration::from_millis(chance.between(0, 25));
        let (committed, cancelled) = tokio::join!(Self::commit(desk, self.wire, request), async {
            tokio::time::sleep(head_start).await;
            Self::withdraw(desk, Wire::Grpc, &thread, &cx).await
        });
        self.confirmed(committed);
        self.cancelled(cancelled);
    }

    /// Commits until the outcome is known.
    async fn commit(
        desk: &Desk,
        wire: Wire,
        request: v1::CommitRequest,
    ) -> Result<v1::CommitReply, Box<Refused>> {
        loop {
            let request = request.clone();
            let answer = desk
                .ask("scheduler", wire, "commit", async |caller| {
                    caller.commit(request.clone()).await
                })
                .await?;
            let state = answer.act.as_ref().map_or(State::Unspecified, v1::Act::state);
            if !matches!(state, State::Executing | State::InDoubt) {
                return Ok(answer);
            }
        }
    }

    fn confirmed(&mut self, answer: Result<v1::CommitReply, Box<Refused>>) {
        match answer {
            Ok(committed) if !committed.reply.is_empty() => {
                self.told.accepted = true;
                self.closed_with(&committed.reply.clone());
            }
            Ok(committed) => self.complain(&format!("commit was answered with nothing: {committed:?}")),
            // Too late, cancelled, stated anew, closed: the next prepare says which.
            Err(refused)
                if matches!(
                    refused.reason.as_str(),
                    "EXPIRED" | "LAPSED" | "CANCELLED" | "REFUSED" | "DIGEST_STALE"
                ) => {}
            Err(refused) => self.complain(&format!("commit was refused: {refused:?}")),
        }
    }

    async fn decline(&mut self, prepared: &v1::PrepareReply) {
        let mut request = yes(prepared, "");
        request.confirmation = decline(&prepared.statement, &self.id());
        let answer = Self::commit(self.desk, self.wire, request).await;
        match answer {
            Ok(declined) if declined.reply.is_empty() => {}
            Ok(closed) => self.closed_with(&closed.reply.clone()),
            // It was declined before the answer was lost, or it ran out first.
            Err(refused) if matches!(refused.reason.as_str(), "LAPSED" | "EXPIRED") => {}
            Err(refused) => self.complain(&format!("a decline was refused: {refused:?}")),
        }
    }

    async fn cancel(&mut self, cx: &str, wire: Wire) {
        let thread = self.told.thread.clone();
        let answer = Self::withdraw(self.desk, wire, &thread, cx).await;
        self.cancelled(answer);
    }

    /// Cancels until the truth is known.
    async fn withdraw(
        desk: &Desk,
        wire: Wire,
        thread: &str,
        cx: &str,
    ) -> Result<v1::CancelReply, Box<Refused>> {
        loop {
            let answer = desk
                .ask("scheduler", wire, "cancel", async |caller| {
                    caller.cancel_in(thread, cx).await
                })
                .await?;
            if !answer.reply.is_empty() {
                return Ok(answer);
            }
        }
    }

    fn cancelled(&mut self, answer: Result<v1::CancelReply, Box<Refused>>) {
        match answer {
            Ok(answer) => {
                let state = answer.act.as_ref().map_or(State::Unspecified, v1::Act::state);
                let done = answer.reply.starts_with("RW1 DN ");
                let gone = answer.reply.starts_with("RW1 AN ");
                // A failed act keeps its FL; the cancel's AN follows it.
                let fits = match state {
                    State::Done => done,
                    State::Failed | State::Cancelled | State::Refused => gone,
                    _ => false,
                };
                if !fits {
                    self.complain(&format!("a cancel was answered untruly: {answer:?}"));
                }
                if done || state == State::Cancelled {
                    self.closed_with(&answer.reply.clone());
                }
            }
            Err(refused) => self.complain(&format!("a cancel was refused: {refused:?}")),
        }
    }

    fn closed_with(&mut self, line: &str) {
        match &self.told.close {
            // A tombstone is acknowledged to its cancel, and told to the handoff that comes after as an UN.
            Some(before)
                if before != line && !(before.starts_with("RW1 AN ") && line.starts_with("RW1 UN ")) =>
            {
                let what = format!("closed with `{before}`, and then with `{line}`");
                self.complain(&what);
            }
            _ => self.told.close = Some(line.to_owned()),
        }
    }

    fn complain(&self, what: &str) {
        let (id, thread) = (self.told.payment.id(), &self.told.thread);
        self.desk.complain(format!("{id} in {thread}: {what}"));
    }

    fn id(&mut self) -> String {
        self.said += 1;
        format!(
            "scheduler-{}",
            1_000_000 + self.told.payment.number * 20 + self.said
        )
    }

    fn cx(&mut self) -> String {
        let id = self.id();
        cancel_line(&self.told.payment, &id)
    }
}
