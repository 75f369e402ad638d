//! The looks in between, the quiet after the storm, and the reckoning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapter_sim::SimStanding;
use rw1::{Code, Profiles};
use wilco_core::journal::first_break;
use wilco_core::{Act, ActId, Stage, State};
use wilco_engine::{CommitRequest, PrepareRequest};
use wilco_store::{Keeper, ThreadLine};

use crate::chance::Chance;
use crate::chaos::settle_some;
use crate::daemons::Sim;
use crate::judge::closed_by_a_person;
use crate::net::{id_of, sender};
use crate::plan::{Kind, SETTLE_WINDOW_S};

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
    sim.store.set_down(false);
    sim.store.set_calm();
    sim.weather.set_calm();
    sim.perils.set_calm();
    sim.world.set_down(false);
    // What is on its way to the counterparty arrives before the clock jumps over its settle window.
    tokio::time::sleep(Duration::from_secs(u64::from(SETTLE_WINDOW_S) * 3)).await;
    sim.clock.set_right();
    for seat in sim.fallen() {
        sim.kill(seat);
    }
    for seat in 0..sim.plan.daemons {
        sim.set_frozen(seat, false);
        sim.start(seat).await;
    }
    // A clock that was set right may have to be acknowledged once more.
    for _ in 0..240 {
        if !sim.store.kept.healthy() {
            sim.store.kept.acknowledge_clock();
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        let settled = |a: &Act| a.state().is_final() || is_for_people(sim, a);
        if sim.judge.with_acts(|acts| acts.values().all(settled)) {
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
    for seat in 0..sim.plan.daemons {
        sim.kill(seat);
        sim.start(seat).await;
    }
    let mut c = Chance::of(sim.plan.seed, "ending");
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        settle_some(sim, &mut c, 1000).await;
        if sim
            .judge
            .with_acts(|acts| acts.values().all(|a| a.state().is_final()))
        {
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
        Kind::VerifiableRefusingLate | Kind::ReplayableRefusingLate => false,
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
    twins_were_released(sim, &acts);
    counters_add_up(sim, &acts).await;
    let threads: BTreeSet<&str> = acts.iter().map(|a| a.thread.as_str()).collect();
    for thread in threads {
        thread_passes(sim, thread, true).await;
    }
    for (n, act) in acts.iter().enumerate() {
        replays(sim, act, n % sim.plan.daemons).await;
    }
}

/// No act has more than one effect, no blind one more than one sending, and the book is in balance.
fn books_agree(sim: &Sim) {
    let judge = &sim.judge;
    if sim.world.balances_sum() != 0 {
        judge.broken(&[], "the balances do not sum to zero".to_owned());
    }
    let stand: Vec<(ActId, State)> =
        judge.with_acts(|acts| acts.values().map(|act| (act.act_id, act.state())).collect());
    for (act, state) in stand {
        let names = [act.to_string()];
        let (effects, sendings) = (sim.world.effects_of(act), sim.world.sendings_of(act));
        if effects > 1 {
            judge.broken(&names, format!("{} effects", effects));
        }
        if !sim.plan.knows_keys() && sendings > 1 {
            judge.broken(
                &names,
                format!("sent {sendings} times to a counterparty that knows no keys"),
            );
        }
        if effects > 0 && state.is_final() && state != State::Done {
            judge.broken(&names, format!("{}, and it had an effect", state.as_str()));
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
        // A person's word says that it was done, not with which values: those are the statement's.
        let booked = closed_by_a_person(&sim.judge.whole(act)).then(|| sim.world.orders_of(act.act_id));
        let of = |slot: &str| match booked.as_ref().and_then(|orders| orders.first()) {
            Some(order) => value_of(&order.values, slot),
            None => line
                .split(' ')
                .find_map(|w| w.strip_prefix(slot)?.strip_prefix('='))
                .unwrap_or_default(),
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

fn value_of<'a>(values: &'a [(String, String)], slot: &str) -> &'a str {
    let found = values.iter().find(|(name, _)| name == slot);
    found.map_or("", |(_, value)| value)
}

/// Of several like payments that stand in the book, all but one were let go on by an operator.
fn twins_were_released(sim: &Sim, acts: &[Act]) {
    let reversed = |act: &Act| {
        sim.world
            .orders_of(act.act_id)
            .iter()
            .any(|o| o.reversed_by.is_some())
    };
    let mut alike: BTreeMap<&str, Vec<&Act>> = BTreeMap::new();
    for act in acts.iter().filter(|a| a.handoff.ask == "PAY") {
        if let Some(likeness) = &act.likeness
            && act.released_by.is_none()
            && sim.world.effects_of(act.act_id) > 0
            && !reversed(act)
        {
            alike.entry(likeness).or_default().push(act);
        }
    }
    for twins in alike.values().filter(|twins| twins.len() > 1) {
        let names: Vec<String> = twins.iter().map(|act| act.act_id.to_string()).collect();
        let text = format!(
            "likely twins went out and nobody released one: {}",
            names.join(" ")
        );
        sim.judge.broken(&names, text);
    }
}

/// The store's counters and the daemons' figures say what was seen.
async fn counters_add_up(sim: &Sim, acts: &[Act]) {
    let (said, counted) = (sim.store.kept.counters(), sim.store.counted());
    let seen = (
        counted.writes.load(Ordering::SeqCst),
        counted.refused.load(Ordering::SeqCst),
    );
    if (said.writes, said.refused) != seen {
        let text = format!("the store's counters say {said:?}, and it answered {seen:?}");
        sim.judge.broken(&[], text);
    }
    for seat in 0..sim.plan.daemons {
        let Some(process) = sim.process(seat) else {
            continue;
        };
        let Ok(counts) = process.engine.counts().await else {
            sim.judge
                .broken(&[], format!("{} cannot say how it stands", process.name));
            continue;
        };
        let standing = |state: State| acts.iter().filter(|a| a.state() == state).count() as u64;
        let wrong = counts.states.iter().find(|(state, n)| standing(**state) != **n);
        if let Some((state, n)) = wrong {
            let text = format!("{} counts {n} acts {}", process.name, state.as_str());
            sim.judge.broken(&[], text);
        }
        // What runs may be a look back at an act that was closed; that goes on for a day.
        if counts.escalated + counts.contradictions > 0 {
            let text = format!("{} still calls people: {counts:?}", process.name);
            sim.judge.broken(&[], text);
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
        let whole = |line: ThreadLine| line.line.or_else(|| sim.judge.body_of(line.act_id, line.seq));
        lines.extend(page.items.into_iter().filter_map(whole));
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
    // What was erased here its sender still has.
    let whole = sim.judge.whole(act);
    let caller = sender(&act.handoff.sender);
    let request = PrepareRequest {
        thread: act.thread.clone(),
        ho: whole.handoff.line.clone(),
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
    let Some(offer) = whole.offer() else { return };
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
