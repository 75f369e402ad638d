//! The looks in between, the quiet after the storm, and the reckoning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapter_sim::SimStanding;
use rw1::{Code, Profiles};
use wilco_core::journal::first_break;
use wilco_core::{Act, Stage, State};
use wilco_engine::{CommitRequest, PrepareRequest};
use wilco_store::Keeper;

use crate::chance::Chance;
use crate::chaos::settle_some;
use crate::daemons::Sim;
use crate::net::{id_of, sender};
use crate::plan::{DAEMONS, Kind};

/// Looks at everything every minute.
pub async fn watch(sim: Arc<Sim>, over: Arc<AtomicBool>) {
    let mut turn = 0;
    while !over.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_secs(60)).await;
        books_agree(&sim);
        turn += 1;
        for n in (0..sim.plan.threads).filter(|n| n % 16 == turn % 16) {
            thread_passes(&sim, &format!("t{n:04}"), false).await;
        }
    }
}

/// Heals everything and waits until what can end by itself has ended; then people end the rest.
pub async fn quiet(sim: &Arc<Sim>) {
    sim.log.say("quiet");
    sim.store.set_troubled(false);
    sim.store.set_calm();
    sim.weather.set_calm();
    sim.perils.set_calm();
    sim.world.set_down(false);
    sim.clock.set_right();
    for seat in sim.fallen() {
        sim.kill(seat);
    }
    for seat in 0..DAEMONS {
        sim.set_frozen(seat, false);
        sim.start(seat).await;
    }
    // A clock that was set right may have to be acknowledged once more.
    for _ in 0..240 {
        if !sim.store.kept.healthy() {
            sim.store.kept.acknowledge_clock();
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        if sim
            .judge
            .acts()
            .iter()
            .all(|a| a.state().is_final() || is_for_people(sim, a))
        {
            break;
        }
    }
    for act in sim.judge.acts() {
        if !act.state().is_final() && !is_for_people(sim, &act) {
            let text = format!(
                "{} {} is still {}",
                act.thread,
                act.handoff.id,
                act.state().as_str()
            );
            sim.judge.broken(&[act.act_id.to_string()], text);
        }
    }
    sim.log.say("people settle the rest");
    // To be sure that a process is gone, people end it.
    for seat in 0..DAEMONS {
        sim.kill(seat);
        sim.start(seat).await;
    }
    let mut c = Chance::of(sim.plan.seed, "ending");
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        settle_some(sim, &mut c, 1000).await;
        if sim.judge.acts().iter().all(|a| a.state().is_final()) {
            break;
        }
    }
    for act in sim.judge.acts().iter().filter(|a| !a.state().is_final()) {
        let text = format!(
            "nobody can end {} {}: {}",
            act.thread,
            act.handoff.id,
            act.state().as_str()
        );
        sim.judge.broken(&[act.act_id.to_string()], text);
    }
}

/// What only a person can end: an act in doubt whose counterparty cannot prove absence, or whose earlier owner went
/// silent and whose bytes may not be sent again.
fn is_for_people(sim: &Sim, act: &Act) -> bool {
    let Stage::InDoubt(execution) = &act.stage else {
        return false;
    };
    let progress = &execution.progress;
    // Only a run without a folder of its own is never known to be dead.
    let never_over = progress.others_open
        && progress.over_since.is_none()
        && progress.open_calls.iter().any(|call| call.owner.starts_with('.'));
    let resent_in_vain = progress.resends >= 5 || sim.store.kept.now() >= execution.claim.not_after;
    match sim.plan.kind {
        Kind::Blind | Kind::BlindWithEvidence => true,
        Kind::Verifiable => never_over,
        Kind::VerifiableRefusingLate => false,
        Kind::Replayable | Kind::ReplayableForAnHour => never_over && resent_in_vain,
    }
}

/// Everything that must be true at the end.
pub async fn reckon(sim: &Arc<Sim>) {
    sim.log.say("reckoning");
    books_agree(sim);
    let acts = sim.judge.acts();
    for act in &acts {
        effects_agree(sim, act);
        stored_as_seen(sim, act).await;
    }
    balances_agree(sim, &acts);
    let threads: BTreeSet<&str> = acts.iter().map(|a| a.thread.as_str()).collect();
    for thread in threads {
        thread_passes(sim, thread, true).await;
    }
    for (n, act) in acts.iter().enumerate() {
        replays(sim, act, n % DAEMONS).await;
    }
}

/// No act has more than one effect, no blind one more than one sending, and the book is in balance.
fn books_agree(sim: &Sim) {
    let judge = &sim.judge;
    if sim.world.balances_sum() != 0 {
        judge.broken(&[], "the balances do not sum to zero".to_owned());
    }
    for act in judge.acts() {
        let names = [act.act_id.to_string()];
        let (effects, sendings) = (
            sim.world.effects_of(act.act_id),
            sim.world.sendings_of(act.act_id),
        );
        if effects > 1 {
            judge.broken(&names, format!("{} effects", effects));
        }
        if !sim.plan.knows_keys() && sendings > 1 {
            judge.broken(
                &names,
                format!("sent {sendings} times to a counterparty that knows no keys"),
            );
        }
        if effects > 0 && act.state().is_final() && act.state() != State::Done {
            judge.broken(&names, format!("{}, and it had an effect", act.state().as_str()));
        }
    }
}

fn effects_agree(sim: &Sim, act: &Act) {
    let names = [act.act_id.to_string()];
    let orders = sim.world.orders_of(act.act_id);
    let done = orders.iter().filter(|o| o.standing == SimStanding::Done).count();
    let want = usize::from(act.state() == State::Done);
    if done != want {
        let text = format!(
            "{} {}, and the book has {done} effects",
            act.handoff.id,
            act.state().as_str()
        );
        sim.judge.broken(&names, text);
    }
    if sim.judge.told_undone().contains(&act.act_id) && done > 0 {
        sim.judge
            .broken(&names, "a cancel was told that nothing was done".to_owned());
    }
}

/// The store holds what was committed, and its journal is whole.
async fn stored_as_seen(sim: &Sim, act: &Act) {
    let names = [act.act_id.to_string()];
    let kept = &sim.store.kept;
    let stored = kept.act(act.act_id).await.ok().flatten();
    if stored.as_ref() != Some(act) {
        sim.judge.broken(
            &names,
            "the store holds something else than was committed".to_owned(),
        );
    }
    let rows = kept.journal(act.act_id).await.unwrap_or_default();
    if let Some(seq) = first_break(act, &rows) {
        sim.judge
            .broken(&names, format!("the journal breaks at row {seq}"));
    }
}

/// Every account holds what the closing lines say.
fn balances_agree(sim: &Sim, acts: &[Act]) {
    let mut expected: BTreeMap<String, i128> = BTreeMap::new();
    for act in acts.iter().filter(|a| a.state() == State::Done) {
        let sign = match act.handoff.ask.as_str() {
            "PAY" => 1,
            "UNDO" => -1,
            _ => continue,
        };
        let line = act.closed().map_or("", |c| c.line.as_str());
        let of = |slot: &str| {
            line.split(' ')
                .find_map(|w| w.strip_prefix(slot)?.strip_prefix('='))
                .unwrap_or_default()
        };
        let cents: i128 = of("amt").replace('.', "").parse().unwrap_or(0);
        *expected.entry(of("acct").to_owned()).or_default() += sign * cents;
    }
    for (account, sum) in expected {
        let booked = sim.world.balance_of(&account);
        if booked != sum {
            let text = format!("account {account} holds {booked}, the closing lines add up to {sum}");
            sim.judge.broken(&[account], text);
        }
    }
}

/// A thread passes the thread check. While things go on, a handoff whose time has just run out may not be closed yet.
async fn thread_passes(sim: &Sim, thread: &str, at_the_end: bool) {
    let kept = &sim.store.kept;
    let mut lines = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let Ok(page) = kept.thread(thread, after.as_deref(), 0).await else {
            return;
        };
        lines.extend(page.items.into_iter().filter_map(|l| l.line));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let now = kept.now().to_rw1();
    let checked = rw1::check_thread(&Profiles::builtin(), None, &lines, Some(&now));
    for problem in checked.problems {
        if at_the_end || problem.code != Code::Orphaned {
            let text = format!("{thread}: {}\n{}", problem.text, lines.join("\n"));
            sim.judge.broken(&[format!(" {thread} ")], text);
        }
    }
}

/// Asked again, at another daemon and after everything, it answers as it did.
async fn replays(sim: &Arc<Sim>, act: &Act, seat: usize) {
    let names = [act.act_id.to_string()];
    let Some(process) = sim.process(seat) else { return };
    if act.is_tombstone() {
        return;
    }
    let caller = sender(&act.handoff.sender);
    let request = PrepareRequest {
        thread: act.thread.clone(),
        ho: act.handoff.line.clone(),
        record: None,
    };
    let line = act.closed().map_or("", |c| c.line.as_str());
    match process.engine.prepare(&caller, request).await {
        Ok(answer) => {
            if answer.reply != line || !answer.replayed {
                let text = format!(
                    "closed with {line}, and handed over again answered {}",
                    answer.reply
                );
                sim.judge.broken(&names, text);
            }
            sim.judge.heard_prepared(&answer);
        }
        Err(refusal) => {
            let text = format!("handed over again it was refused: {}", refusal.text);
            sim.judge.broken(&names, text);
        }
    }
    let Some(offer) = act.offer() else { return };
    let token = wilco_core::token::Token::derive(&crate::daemons::token_key(), act.act_id, offer.attempt);
    let request = CommitRequest {
        token: token.reveal(),
        statement_sha256: offer.statement_sha256.clone(),
        confirmation: format!(
            "RW1 AN {}-9999 re={} from={} to=payer val=Y p=pay",
            act.handoff.sender,
            id_of(&offer.statement),
            act.handoff.sender
        ),
        wait: None,
    };
    let answer = process.engine.commit(&caller, request).await;
    let as_before = match (&answer, act.state()) {
        (Ok(answer), State::Done | State::Failed) => answer.reply == line && answer.replayed,
        (Err(refusal), State::Cancelled | State::Refused) => refusal.line.as_deref() == Some(line),
        _ => false,
    };
    if !as_before {
        let text = format!("closed with {line}, and confirmed again answered {answer:?}");
        sim.judge.broken(&names, text);
    }
}
