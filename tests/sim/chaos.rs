//! What goes wrong around the daemons, and the people who look after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapter_sim::SimStanding;
use wilco_core::{Reason, State};
use wilco_engine::SettleRequest;
use wilco_store::{Filter, Keeper};

use crate::chance::Chance;
use crate::daemons::Sim;
use crate::gate::Motion;
use crate::mutants::Mutant;
use crate::net::{Ask, Heard, operator};
use crate::plan::FORWARD_STEP_S;
use crate::purge;

/// Breaks things until it is told to stop.
pub async fn chaos(sim: Arc<Sim>, over: Arc<AtomicBool>) {
    let mut c = Chance::of(sim.plan.seed, "chaos");
    while !over.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(c.between(500, 25_000))).await;
        let seat = c.below(sim.plan.daemons);
        let kind = c.between(0, 99);
        let (sim, mut c) = (Arc::clone(&sim), Chance::new(c.number()));
        match kind {
            0..=29 => drop(tokio::spawn(async move { crash(&sim, &mut c, seat).await })),
            30..=54 => drop(tokio::spawn(async move { freeze(&sim, &mut c, seat).await })),
            55..=64 => drop(tokio::spawn(async move { outage(&sim, &mut c).await })),
            65..=76 => drop(tokio::spawn(async move { store_trouble(&sim, &mut c).await })),
            77..=79 => drop(tokio::spawn(async move { store_fall(&sim, &mut c).await })),
            80..=87 => drop(tokio::spawn(async move { clock_step(&sim, &mut c).await })),
            _ => drop(tokio::spawn(async move { restart(&sim, &mut c, seat).await })),
        }
    }
}

/// Killed, and started again a little later.
async fn crash(sim: &Arc<Sim>, c: &mut Chance, seat: usize) {
    if sim.process(seat).is_none() {
        return;
    }
    if sim.plan.mutant == Some(Mutant::SharesAHouse) {
        sim.leave_behind(seat, Duration::from_millis(c.between(30_000, 180_000)));
    } else {
        sim.kill(seat);
    }
    tokio::time::sleep(Duration::from_millis(c.between(200, 40_000))).await;
    sim.start(seat).await;
}

/// Clears away what was struck dead and starts it again, as an init system would.
pub async fn supervisor(sim: Arc<Sim>, over: Arc<AtomicBool>) {
    let mut c = Chance::of(sim.plan.seed, "supervisor");
    while !over.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(c.between(200, 8_000))).await;
        for seat in sim.fallen() {
            sim.kill(seat);
            tokio::time::sleep(Duration::from_millis(c.between(200, 8_000))).await;
            sim.start(seat).await;
        }
    }
}

/// Stopped in good order and started again.
async fn restart(sim: &Arc<Sim>, c: &mut Chance, seat: usize) {
    if sim.process(seat).is_none() {
        return;
    }
    sim.stop(seat, Duration::from_millis(c.between(0, 20_000))).await;
    tokio::time::sleep(Duration::from_millis(c.between(200, 3_000))).await;
    if sim.process(seat).is_none() {
        sim.start(seat).await;
    }
}

/// Frozen, mostly past every deadline, and thawed; or killed while it stands.
async fn freeze(sim: &Arc<Sim>, c: &mut Chance, seat: usize) {
    sim.set_frozen(seat, true);
    tokio::time::sleep(Duration::from_millis(c.between(500, 180_000))).await;
    sim.set_frozen(seat, false);
}

async fn outage(sim: &Arc<Sim>, c: &mut Chance) {
    sim.log.say("counterparty down");
    sim.world.set_down(true);
    tokio::time::sleep(Duration::from_millis(c.between(500, 40_000))).await;
    sim.world.set_down(false);
    sim.log.say("counterparty up");
}

async fn store_trouble(sim: &Arc<Sim>, c: &mut Chance) {
    sim.log.say("store troubled");
    sim.store.set_troubled(true);
    tokio::time::sleep(Duration::from_millis(c.between(500, 20_000))).await;
    sim.store.set_troubled(false);
    sim.log.say("store well");
}

/// The store's machine loses power and comes back.
async fn store_fall(sim: &Arc<Sim>, c: &mut Chance) {
    sim.log.say("store fell");
    sim.store.set_down(true);
    tokio::time::sleep(Duration::from_millis(c.between(200, 15_000))).await;
    sim.store.set_down(false);
    sim.log.say("store up again");
}

/// The clock of the store's machine is stepped; where it stepped back too far, an operator acknowledges it.
async fn clock_step(sim: &Arc<Sim>, c: &mut Chance) {
    let seconds = i64::try_from(c.between(1, 200)).unwrap_or(1);
    let forward = if sim.plan.far_forward {
        seconds
    } else {
        1 + seconds % FORWARD_STEP_S
    };
    let ahead = c.thousandths(500) && (sim.plan.far_forward || sim.clock.may_step_forward());
    let step = if ahead { forward } else { -seconds };
    sim.clock.step(step);
    sim.log.say(&format!(
        "clock stepped by {step} s, off by {} s",
        sim.clock.off_by_s()
    ));
    tokio::time::sleep(Duration::from_millis(c.between(1_000, 45_000))).await;
    acknowledge(sim);
}

fn acknowledge(sim: &Sim) {
    if !sim.store.kept.healthy() {
        sim.log.say("clock acknowledged");
        sim.store.kept.acknowledge_clock();
    }
}

/// The operator on duty: has a look now and then, asks the counterparty itself, and gives its word where it can.
pub async fn duty(sim: Arc<Sim>, over: Arc<AtomicBool>) {
    let mut c = Chance::of(sim.plan.seed, "duty");
    while !over.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(c.between(5_000, 40_000))).await;
        acknowledge(&sim);
        // Where nothing can be asked there is more for people to do.
        let some = match sim.plan.mutant {
            Some(Mutant::VouchesBlindly) => 1_000,
            _ if sim.plan.is_asked() => 120,
            _ => 400,
        };
        settle_some(&sim, &mut c, some).await;
        release_some(&sim, &mut c, 300).await;
        if c.thousandths(200) {
            purge::purge(&sim).await;
        }
    }
}

/// Gives its word on some of the acts in doubt.
pub async fn settle_some(sim: &Arc<Sim>, c: &mut Chance, thousandths: u64) {
    for act in in_state(sim, State::InDoubt).await {
        if !c.thousandths(thousandths) {
            continue;
        }
        let seat = c.below(sim.plan.daemons);
        let Some(process) = sim.process(seat).filter(|p| p.gate.motion() == Motion::Running) else {
            continue;
        };
        // Looked up and said in one breath: a word on what stood a while ago is worth nothing.
        let orders = sim.world.orders_of(act.act_id);
        if orders.iter().any(|o| o.standing == SimStanding::Unfinished) {
            continue;
        }
        let request = SettleRequest {
            act_id: act.act_id,
            done: orders.iter().any(|o| o.standing == SimStanding::Done),
            evidence: "the counterparty's statement, read by duty".to_owned(),
            // Told only where it is so: every process that ever had leave to send it is gone.
            owner_dead: sim.plan.mutant == Some(Mutant::VouchesBlindly)
                || sim.judge.owners_are_dead(act.act_id),
        };
        // Should its daemon be killed or frozen, nobody answers.
        let duty = operator();
        let said = sim.carry(&process, &duty, Ask::Settle(request));
        drop(tokio::time::timeout(Duration::from_secs(20), said).await);
    }
}

/// Releases some of the acts held for a likely twin.
async fn release_some(sim: &Arc<Sim>, c: &mut Chance, thousandths: u64) {
    for act in in_state(sim, State::Held).await {
        if act.is_held_as_twin() && c.thousandths(thousandths) {
            let heard = sim.ask(c, &operator(), Ask::Release(act.act_id)).await;
            if let Heard::Refused(refusal) = heard
                && refusal.reason == Reason::NotYours
            {
                let text = format!("the operator may not release: {}", refusal.text);
                sim.judge.broken(&[act.act_id.to_string()], text);
            }
        }
    }
}

async fn in_state(sim: &Sim, state: State) -> Vec<wilco_core::Act> {
    let filter = Filter {
        states: vec![state],
        ..Filter::default()
    };
    sim.store
        .kept
        .acts(&filter)
        .await
        .map(|page| page.items)
        .unwrap_or_default()
}
