//! The way between callers and daemons: messages are lost, doubled and delayed, and an answer can be lost too.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use wilco_core::{ActId, Refusal};
use wilco_engine::{
    Caller, CancelRequest, Cancelled, CommitRequest, Committed, PrepareRequest, Prepared, Released, Role,
    SettleRequest, Settled,
};

use crate::chance::Chance;
use crate::daemons::{Process, Sim};

/// What a caller asks.
#[derive(Debug, Clone)]
pub enum Ask {
    Prepare(PrepareRequest),
    Commit(CommitRequest),
    Cancel(CancelRequest),
    Settle(SettleRequest),
    Release(ActId),
}

/// What it is answered.
#[derive(Debug)]
pub enum Answer {
    Prepared(Box<Prepared>),
    Committed(Box<Committed>),
    Cancelled(Box<Cancelled>),
    Settled(Box<Settled>),
    Released(Box<Released>),
}

/// What it hears.
#[derive(Debug)]
pub enum Heard {
    Answer(Answer),
    Refused(Box<Refusal>),
    /// Nobody answered: whether it was heard is not known.
    Nothing,
}

/// An agent, as proved by its key.
pub fn sender(agent: &str) -> Caller {
    Caller {
        name: agent.to_owned(),
        roles: vec![Role::Sender],
        speaks_for: vec![agent.to_owned()],
    }
}

/// The operator on duty.
pub fn operator() -> Caller {
    Caller {
        name: "duty".to_owned(),
        roles: vec![Role::Operator],
        speaks_for: Vec::new(),
    }
}

impl Sim {
    /// Asks whichever daemon chance picks.
    pub async fn ask(self: &Arc<Self>, chance: &mut Chance, caller: &Caller, ask: Ask) -> Heard {
        let seat = chance.below(self.plan.daemons);
        self.ask_at(chance, seat, caller, ask).await
    }

    /// Asks one daemon, over a bad line.
    pub async fn ask_at(
        self: &Arc<Self>,
        chance: &mut Chance,
        seat: usize,
        caller: &Caller,
        ask: Ask,
    ) -> Heard {
        let patience = Duration::from_secs(chance.between(5, 45));
        if chance.thousandths(40) {
            // Sent again by the network itself, perhaps much later; nobody waits for that answer.
            let late = Duration::from_millis(chance.between(1, 90_000));
            drop(self.deliver(seat, caller, &ask, late));
        }
        let there = Duration::from_millis(way_ms(chance));
        let back = Duration::from_millis(way_ms(chance));
        if chance.thousandths(40) {
            tokio::time::sleep(patience).await;
            return Heard::Nothing;
        }
        let answer_is_lost = chance.thousandths(40);
        let answer = self.deliver(seat, caller, &ask, there);
        let waited = tokio::time::timeout(patience, async {
            let heard = answer.await;
            tokio::time::sleep(back).await;
            heard
        });
        match waited.await {
            Ok(Ok(_)) if answer_is_lost => Heard::Nothing,
            Ok(Ok(Ok(answer))) => Heard::Answer(answer),
            Ok(Ok(Err(refusal))) => Heard::Refused(Box::new(refusal)),
            // The connection broke, or the caller hung up.
            Ok(Err(_)) | Err(_) => Heard::Nothing,
        }
    }

    /// Brings a message to a daemon. The answer goes through the judge's hands before it leaves the daemon.
    fn deliver(
        self: &Arc<Self>,
        seat: usize,
        caller: &Caller,
        ask: &Ask,
        after: Duration,
    ) -> oneshot::Receiver<Result<Answer, Refusal>> {
        let (tell, told) = oneshot::channel();
        let (sim, caller, ask) = (Arc::clone(self), caller.clone(), ask.clone());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let Some(process) = sim.process(seat) else { return };
            process.gate.pass().await;
            let answer = sim.carry(&process, &caller, ask).await;
            drop(tell.send(answer));
        });
        told
    }

    /// Asks a process, and shows the judge what it answers.
    pub async fn carry(&self, process: &Process, caller: &Caller, ask: Ask) -> Result<Answer, Refusal> {
        let engine = &process.engine;
        let judge = &self.judge;
        let asked = name_of(&ask);
        let cx = match &ask {
            Ask::Cancel(request) => request.cx.clone(),
            _ => String::new(),
        };
        let answer = match ask {
            Ask::Prepare(request) => engine
                .prepare(caller, request)
                .await
                .map(|a| Answer::Prepared(Box::new(a))),
            Ask::Commit(request) => engine
                .commit(caller, request)
                .await
                .map(|a| Answer::Committed(Box::new(a))),
            Ask::Cancel(request) => engine
                .cancel(caller, request)
                .await
                .map(|a| Answer::Cancelled(Box::new(a))),
            Ask::Settle(request) => engine
                .settle(caller, request)
                .await
                .map(|a| Answer::Settled(Box::new(a))),
            Ask::Release(act) => engine
                .release(caller, act)
                .await
                .map(|a| Answer::Released(Box::new(a))),
        };
        process.gate.pass().await;
        let text = match &answer {
            Ok(Answer::Prepared(a)) => {
                judge.heard_prepared(a);
                format!("{} {}", a.act.act_id, shown(&a.reply, &a.act))
            }
            Ok(Answer::Committed(a)) => {
                judge.heard_committed(a);
                format!("{} {}", a.act.act_id, shown(&a.reply, &a.act))
            }
            Ok(Answer::Cancelled(a)) => {
                judge.heard_cancelled(a, &cx);
                format!("{} {}", a.act.act_id, shown(&a.reply, &a.act))
            }
            Ok(Answer::Settled(a)) => {
                judge.heard_settled(a);
                format!("{} {}", a.act.act_id, shown(&a.reply, &a.act))
            }
            Ok(Answer::Released(a)) => format!("{} {}", a.act.act_id, shown("", &a.act)),
            Err(refusal) => format!("{}: {}", refusal.reason.as_str(), refusal.text),
        };
        self.log.say(&format!("{} answers {asked}: {text}", process.name));
        answer
    }
}

/// Most ways are quick; some let others overtake.
fn way_ms(chance: &mut Chance) -> u64 {
    match chance.between(0, 99) {
        0..=79 => chance.between(1, 40),
        80..=96 => chance.between(40, 1_500),
        _ => chance.between(1_500, 20_000),
    }
}

fn shown(reply: &str, act: &wilco_core::Act) -> String {
    if reply.is_empty() {
        format!("({})", act.state().as_str())
    } else {
        reply.to_owned()
    }
}

fn name_of(ask: &Ask) -> String {
    match ask {
        Ask::Prepare(r) => format!("prepare {} {}", r.thread, id_of(&r.ho)),
        Ask::Commit(r) => format!(
            "commit {} by {}",
            r.token.get(..34).unwrap_or_default(),
            id_of(&r.confirmation)
        ),
        Ask::Cancel(r) => format!("cancel {} {}", r.thread, id_of(&r.cx)),
        Ask::Settle(r) => format!("settle {} done={}", r.act_id, r.done),
        Ask::Release(act) => format!("release {act}"),
    }
}

/// The id of a line.
pub fn id_of(line: &str) -> &str {
    line.split(' ').nth(2).unwrap_or_default()
}
