//! The judge: looks at every write as it is committed and at every answer as it is given, and compares them with the
//! counterparty's own book. What it finds broken ends the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use adapter_sim::{SimStanding, SimWorld};
use tokio::sync::Notify;
use wilco_core::contract::LateSend;
use wilco_core::{Act, ActId, Stage, State, Timestamp, Verdict};
use wilco_engine::{Cancelled, Committed, Prepared, Settled};

use crate::locked;
use crate::log::Log;

/// Watches a run.
pub struct Judge {
    log: Arc<Log>,
    world: Arc<SimWorld>,
    seen: Mutex<Seen>,
    found: Notify,
}

#[derive(Default)]
struct Seen {
    acts: BTreeMap<ActId, Act>,
    /// The processes that were ever given leave to send an act.
    owners: BTreeMap<ActId, BTreeSet<String>>,
    /// Which process an owner's name stands for.
    processes: BTreeMap<String, String>,
    /// Calls that a process may still have under way.
    calls: BTreeMap<ActId, Vec<String>>,
    dead: BTreeSet<String>,
    statements: BTreeMap<(ActId, u32), String>,
    closings: BTreeMap<ActId, String>,
    /// Acts of which a cancel was told that nothing was done.
    told_undone: BTreeSet<ActId>,
    alike: BTreeMap<String, Vec<ActId>>,
    broken: Vec<Broken>,
    tally: Tally,
}

/// A promise that was not kept.
#[derive(Debug, Clone)]
pub struct Broken {
    /// Which, and how.
    pub text: String,
    /// What to look for in the log.
    pub names: Vec<String>,
}

/// How much a run went through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub writes: u64,
    pub claims: u64,
    pub takeovers: u64,
    pub resends: u64,
    pub in_doubt: u64,
    pub by_people: u64,
    pub twins_held: u64,
    pub late_evidence: u64,
}

impl Judge {
    pub fn new(log: Arc<Log>, world: Arc<SimWorld>) -> Judge {
        Judge {
            log,
            world,
            seen: Mutex::default(),
            found: Notify::new(),
        }
    }

    /// Notes that a promise was broken. `names` say what to look for in the log.
    pub fn broken(&self, names: &[String], text: String) {
        self.log.say(&format!("BROKEN {text}"));
        locked(&self.seen).broken.push(Broken {
            text,
            names: names.to_vec(),
        });
        self.found.notify_one();
    }

    /// Returns once something was found broken.
    pub async fn found_broken(&self) {
        self.found.notified().await;
    }

    /// Everything found broken.
    pub fn all_broken(&self) -> Vec<Broken> {
        locked(&self.seen).broken.clone()
    }

    /// What the run went through.
    pub fn tally(&self) -> Tally {
        locked(&self.seen).tally
    }

    /// Every act, as it was last written.
    pub fn acts(&self) -> Vec<Act> {
        locked(&self.seen).acts.values().cloned().collect()
    }

    /// The instant from which no byte of a claimed act may be sent.
    pub fn last_moment(&self, act: ActId) -> Option<Timestamp> {
        let seen = locked(&self.seen);
        Some(seen.acts.get(&act)?.execution()?.claim.not_after)
    }

    /// Whether everybody who was ever given leave to send the act is dead.
    pub fn owners_are_dead(&self, act: ActId) -> bool {
        let seen = locked(&self.seen);
        seen.owners
            .get(&act)
            .is_none_or(|owners| owners.is_subset(&seen.dead))
    }

    /// The acts of which a cancel was told that nothing was done.
    pub fn told_undone(&self) -> BTreeSet<ActId> {
        locked(&self.seen).told_undone.clone()
    }

    // ---- processes and their calls

    /// A process died: nothing it had under way acts again.
    pub fn died(&self, process: &str) {
        let mut seen = locked(&self.seen);
        seen.dead.insert(process.to_owned());
        for calls in seen.calls.values_mut() {
            calls.retain(|p| p != process);
        }
    }

    /// A process is about to send. The claim must have been committed before.
    pub fn call_begins(&self, process: &str, act: ActId) {
        let leave = locked(&self.seen)
            .calls
            .get(&act)
            .is_some_and(|calls| calls.iter().any(|p| p == process));
        if !leave {
            let text = format!("{process} sends {act} without a committed claim of its own");
            self.broken(&[act.to_string()], text);
        }
    }

    /// Its call returned.
    pub fn call_ends(&self, process: &str, act: ActId) {
        let mut seen = locked(&self.seen);
        if let Some(calls) = seen.calls.get_mut(&act)
            && let Some(at) = calls.iter().position(|p| p == process)
        {
            calls.remove(at);
        }
    }

    // ---- writes

    /// A write was committed. `believed`: whether its process will hear so.
    pub fn wrote(&self, process: &str, acts: &[Act], believed: bool) {
        for act in acts {
            let before = locked(&self.seen).acts.get(&act.act_id).cloned();
            self.log.say(&describe(process, act, before.as_ref()));
            let mut problems = self.transition(before.as_ref(), act);
            problems.extend(self.stale_writer(process, before.as_ref(), act));
            {
                let mut seen = locked(&self.seen);
                seen.tally.writes += 1;
                count(&mut seen.tally, before.as_ref(), act);
                if is_leave(before.as_ref(), act) {
                    seen.owners
                        .entry(act.act_id)
                        .or_default()
                        .insert(process.to_owned());
                    if believed && !seen.dead.contains(process) {
                        seen.calls.entry(act.act_id).or_default().push(process.to_owned());
                    }
                }
                if let Some(likeness) = &act.likeness
                    && before.is_none()
                {
                    seen.alike.entry(likeness.clone()).or_default().push(act.act_id);
                }
                seen.acts.insert(act.act_id, act.clone());
            }
            for problem in problems {
                let names = [act.act_id.to_string(), act.handoff.id.clone()];
                self.broken(&names[..1], format!("{} {}: {problem}", act.thread, names[1]));
            }
        }
    }

    fn transition(&self, before: Option<&Act>, act: &Act) -> Vec<String> {
        let mut problems = Vec::new();
        let mut wrong = |text: String| problems.push(text);
        let (was, is) = (before.map(Act::state), act.state());
        if !may_follow(before, is) {
            wrong(format!("from {was:?} to {is:?}"));
        }
        if act.version != before.map_or(1, |b| b.version + 1) {
            wrong(format!(
                "version {} after {:?}",
                act.version,
                before.map(|b| b.version)
            ));
        }
        if let (Some(old), Some(new)) = (before.and_then(Act::closed), act.closed())
            && old.line != new.line
            && !before.is_some_and(Act::is_tombstone)
        {
            wrong(format!(
                "its closing line was replaced: {} by {}",
                old.line, new.line
            ));
        }
        if act
            .closed()
            .is_some_and(|c| c.verdict == Some(Verdict::Contradicted))
        {
            wrong("evidence contradicts its closing line".to_owned());
        }
        if let Some(before) = before {
            self.claim_moves(before, act, &mut wrong);
        }
        let effects = self.world.effects_of(act.act_id);
        match &act.stage {
            Stage::Executing(_) | Stage::InDoubt(_) => {}
            Stage::Done(_) if was == Some(State::Done) => {}
            Stage::Done(closed) => {
                if effects != 1 {
                    wrong(format!("done, and the book has {effects} effects"));
                }
                if closed.verdict == Some(Verdict::Match) && !closed_by_a_person(act) {
                    self.as_stated(act, &mut wrong);
                }
            }
            Stage::Failed(_) if was == Some(State::Failed) => {}
            Stage::Failed(_) => {
                if effects != 0 {
                    wrong(format!("closed as not done, and the book has {effects} effects"));
                }
                if let Some(process) = self.may_still_send(before, act.act_id) {
                    wrong(format!("closed as not done while {process} may still send it"));
                }
            }
            Stage::Prepared(_)
            | Stage::Held(_)
            | Stage::Lapsed(..)
            | Stage::Cancelled(_)
            | Stage::Refused(_) => {
                if self.world.sendings_of(act.act_id) > 0 {
                    wrong(format!("{}, and it was sent", is.as_str()));
                }
            }
        }
        problems
    }

    fn claim_moves(&self, before: &Act, act: &Act, wrong: &mut dyn FnMut(String)) {
        match (before.execution(), act.execution()) {
            (Some(old), Some(new)) => {
                if new.claim.epoch < old.claim.epoch {
                    wrong(format!("epoch {} after {}", new.claim.epoch, old.claim.epoch));
                }
                if new.claim.owner != old.claim.owner && new.claim.epoch == old.claim.epoch {
                    wrong("its owner changed within an epoch".to_owned());
                }
                if new.claim.not_after != old.claim.not_after {
                    wrong("its last moment moved".to_owned());
                }
            }
            (None, Some(new)) => {
                let Stage::Prepared(offer) = &before.stage else {
                    return;
                };
                let at = act.updated_at;
                if at >= offer.expires_at || at >= act.limit || at >= new.claim.not_after {
                    wrong("claimed after its statement had ended".to_owned());
                }
                if new.claim.epoch != 1 || new.claim.claimed_at != at {
                    wrong("claimed with another epoch or instant than the write's".to_owned());
                }
                if new.offer.statement != offer.statement || new.offer.frozen != offer.frozen {
                    wrong("what is executed is not what was stated".to_owned());
                }
                if let Some(twin) = self.twin_of(act) {
                    wrong(format!("claimed while its likely twin {twin} stands"));
                }
            }
            _ => {}
        }
    }

    /// Only the holder of the claim changes what is known of a claimed act's outcome; anybody else may keep evidence.
    fn stale_writer(&self, process: &str, before: Option<&Act>, act: &Act) -> Option<String> {
        let held = before.and_then(Act::execution).map(|e| &e.claim);
        let holds = act.execution().map(|e| &e.claim);
        let mut seen = locked(&self.seen);
        match (held, holds) {
            // Whoever claims, takes over or claims again is the holder from now on.
            (held, Some(now)) if held.is_none_or(|held| held.epoch != now.epoch) => {
                let known = seen
                    .processes
                    .entry(now.owner.clone())
                    .or_insert_with(|| process.to_owned());
                (known != process).then(|| format!("{process} claimed it for {known}"))
            }
            (Some(held), _) => {
                let moved = before.map(Act::state) != Some(act.state());
                let holder = seen.processes.get(&held.owner);
                let stale = moved && holder.is_none_or(|h| h != process) && !closed_by_a_person(act);
                stale.then(|| format!("{process} settled what {} holds", held.owner))
            }
            (None, _) => None,
        }
    }

    /// A likely twin that was claimed, or done and not undone, where nobody released this one.
    fn twin_of(&self, act: &Act) -> Option<ActId> {
        if act.released_by.is_some() {
            return None;
        }
        let seen = locked(&self.seen);
        let undone = |id: ActId| {
            seen.acts
                .values()
                .any(|a| a.undo_of == Some(id) && a.state() == State::Done)
        };
        let alike = seen.alike.get(act.likeness.as_ref()?)?;
        let stands = |id: &&ActId| {
            **id != act.act_id
                && seen.acts.get(*id).is_some_and(|other| match other.state() {
                    State::Executing | State::InDoubt => true,
                    State::Done => !undone(other.act_id),
                    _ => false,
                })
        };
        alike.iter().find(stands).copied()
    }

    /// The book shows what was stated, in every slot the counterparty can see.
    fn as_stated(&self, act: &Act, wrong: &mut dyn FnMut(String)) {
        let orders = self.world.orders_of(act.act_id);
        let done = orders
            .iter()
            .find(|o| !matches!(o.standing, SimStanding::Rejected(_)));
        let (Some(order), Some(offer)) = (done, act.offer()) else {
            return;
        };
        for (slot, value) in &order.values {
            if offer.frozen.value(slot) != Some(value) {
                wrong(format!("the verdict is a match, and the book has {slot}={value}"));
            }
        }
    }

    /// A process whose call could still land, as far as the contract knows.
    fn may_still_send(&self, before: Option<&Act>, act: ActId) -> Option<String> {
        let contract = &before?.execution()?.offer.frozen.contract;
        let refused = self
            .world
            .orders_of(act)
            .iter()
            .any(|o| matches!(o.standing, SimStanding::Rejected(_)));
        // The counterparty said so itself, or takes no bytes any more.
        if refused || matches!(contract.late_send, LateSend::RefusedAfter(_)) {
            return None;
        }
        locked(&self.seen).calls.get(&act)?.first().cloned()
    }

    // ---- answers

    fn stored(&self, act: ActId) -> Option<Act> {
        locked(&self.seen).acts.get(&act).cloned()
    }

    fn closing(&self, act: &Act, line: &str) {
        let known = locked(&self.seen)
            .closings
            .entry(act.act_id)
            .or_insert_with(|| line.to_owned())
            .clone();
        if known != line {
            let text = format!("closed with {known}, and answered with {line}");
            self.broken(&[act.act_id.to_string()], text);
        }
        let stored = self.stored(act.act_id);
        let closed = stored.as_ref().and_then(Act::closed);
        if closed.is_none_or(|c| c.line != line) {
            let text = format!("answered with {line}, which is not what the store holds");
            self.broken(&[act.act_id.to_string()], text);
        }
    }

    /// What a prepare was answered.
    pub fn heard_prepared(&self, answer: &Prepared) {
        let act = &answer.act;
        if act.state().is_final() {
            if act.handoff.line.is_empty() {
                self.broken(
                    &[act.act_id.to_string()],
                    "a tombstone answered a prepare".to_owned(),
                );
            }
            return self.closing(act, &answer.reply);
        }
        let Some(offer) = act.offer() else {
            let text = format!("{} answered with no statement", act.handoff.id);
            return self.broken(&[act.act_id.to_string()], text);
        };
        let known = locked(&self.seen)
            .statements
            .entry((act.act_id, offer.attempt))
            .or_insert_with(|| answer.reply.clone())
            .clone();
        if known != answer.reply || !answer.reply.starts_with(&answer.statement) {
            let text = format!("stated as {known}, and again as {}", answer.reply);
            self.broken(&[act.act_id.to_string()], text);
        }
    }

    /// What a commit was answered.
    pub fn heard_committed(&self, answer: &Committed) {
        let act = &answer.act;
        match act.state() {
            State::Done | State::Failed => self.closing(act, &answer.reply),
            _ if answer.reply.is_empty() => {}
            state => {
                let text = format!("a commit of an act {} answered {}", state.as_str(), answer.reply);
                self.broken(&[act.act_id.to_string()], text);
            }
        }
    }

    /// What an operator was answered.
    pub fn heard_settled(&self, answer: &Settled) {
        self.closing(&answer.act, &answer.reply);
    }

    /// What a cancel was answered.
    pub fn heard_cancelled(&self, answer: &Cancelled) {
        let act = &answer.act;
        let names = [act.act_id.to_string()];
        match act.state() {
            State::Done => self.closing(act, &answer.reply),
            State::Failed | State::Cancelled | State::Refused => {
                if !answer.reply.starts_with("RW1 AN ") {
                    let text = format!("a cancel of an act not done was answered {}", answer.reply);
                    self.broken(&names, text);
                }
                locked(&self.seen).told_undone.insert(act.act_id);
                if self.world.effects_of(act.act_id) > 0 {
                    self.broken(&names, "a cancel was told that nothing was done".to_owned());
                }
            }
            _ if answer.reply.is_empty() => {}
            state => {
                let text = format!("a cancel of an act {} answered {}", state.as_str(), answer.reply);
                self.broken(&names, text);
            }
        }
    }
}

/// Whether a person's word closed it.
pub fn closed_by_a_person(act: &Act) -> bool {
    act.closed()
        .is_some_and(|c| c.notes.iter().any(|n| n.starts_with("settled as ")))
}

/// The write gave its process leave to send.
fn is_leave(before: Option<&Act>, act: &Act) -> bool {
    let Stage::Executing(now) = &act.stage else {
        return false;
    };
    match before.and_then(Act::execution) {
        None => true,
        Some(earlier) => now.progress.resends > earlier.progress.resends,
    }
}

fn may_follow(before: Option<&Act>, is: State) -> bool {
    use State::{Cancelled, Done, Executing, Failed, Held, InDoubt, Lapsed, Prepared, Refused};
    let Some(before) = before else {
        return matches!(is, Prepared | Held | Refused | Cancelled);
    };
    match before.state() {
        Prepared => matches!(is, Executing | Lapsed | Held | Cancelled | Failed | Refused),
        Held => matches!(is, Lapsed | Cancelled | Failed | Refused),
        Lapsed => matches!(is, Prepared | Held | Cancelled | Failed | Refused),
        Executing | InDoubt => matches!(is, Executing | InDoubt | Done | Failed),
        Cancelled if before.is_tombstone() => matches!(is, Cancelled | Refused),
        closed => is == closed,
    }
}

fn count(tally: &mut Tally, before: Option<&Act>, act: &Act) {
    let earlier = before.and_then(Act::execution);
    match (earlier, act.execution()) {
        (None, Some(_)) => tally.claims += 1,
        (Some(old), Some(new)) => {
            tally.takeovers += u64::from(old.claim.owner != new.claim.owner);
            tally.resends += u64::from(new.progress.resends > old.progress.resends);
            tally.late_evidence += u64::from(new.progress.heard.is_some() && old.progress.heard.is_none());
        }
        _ => {}
    }
    let was = before.map(Act::state);
    tally.in_doubt += u64::from(act.state() == State::InDoubt && was != Some(State::InDoubt));
    tally.by_people += u64::from(closed_by_a_person(act) && !before.is_some_and(closed_by_a_person));
    tally.twins_held += u64::from(act.is_held_as_twin() && was != Some(State::Held));
}

fn describe(process: &str, act: &Act, before: Option<&Act>) -> String {
    let claim = act.execution().map_or_else(String::new, |e| {
        format!(
            " owner={} epoch={} over={:?} others={} accepted={} resends={} absent={}",
            e.claim.owner,
            e.claim.epoch,
            e.progress.over_since.map(|t| t.0),
            e.progress.others_open,
            e.progress.accepted,
            e.progress.resends,
            e.progress.absent_at.len(),
        )
    });
    let line = act.closed().map_or("", |c| c.line.as_str());
    format!(
        "{process} wrote {} {} {} v{} {} -> {} at {} seq={} head={}{claim} {line}",
        act.act_id,
        act.thread,
        act.handoff.id,
        act.version,
        before.map_or("-", |b| b.state().as_str()),
        act.state().as_str(),
        act.updated_at.0,
        act.seq,
        act.head.get(..12).unwrap_or_default(),
    )
}
