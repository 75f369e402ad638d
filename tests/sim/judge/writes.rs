//! Every write, as it is committed: whether the act may become so, and what the book says to it.

use super::*;

impl Judge {
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
                if let Some(likeness) = &act.likeness {
                    let alike = seen.alike.entry(likeness.clone()).or_default();
                    if !alike.contains(&act.act_id) {
                        alike.push(act.act_id);
                    }
                }
                if let Some(of) = act.undo_of {
                    let undos = seen.undos.entry(of).or_default();
                    if !undos.contains(&act.act_id) {
                        undos.push(act.act_id);
                    }
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
        if let Some(other) = self.other_undo(act) {
            wrong(format!("it reverses what {other} reverses already"));
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

    /// Another act that reverses the same one and is open or done.
    fn other_undo(&self, act: &Act) -> Option<ActId> {
        let of = act.undo_of?;
        let seen = locked(&self.seen);
        let open = |other: &&Act| other.act_id != act.act_id && other.undo_of == Some(of);
        let undos = seen.undos.get(&of)?.iter().filter_map(|u| seen.acts.get(u));
        undos.filter(open).map(|other| other.act_id).next()
    }

    /// A likely twin that was claimed, or done and not undone, where nobody released this one.
    fn twin_of(&self, act: &Act) -> Option<ActId> {
        if act.released_by.is_some() {
            return None;
        }
        let seen = locked(&self.seen);
        let undone = |id: ActId| {
            let undos = seen.undos.get(&id).into_iter().flatten();
            let done = |a: &Act| a.undo_of == Some(id) && a.state() == State::Done;
            undos.filter_map(|u| seen.acts.get(u)).any(done)
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
    let becomes = |state| u64::from(act.state() == state && was != Some(state));
    tally.undone += becomes(State::Done) * u64::from(act.undo_of.is_some());
    tally.cancelled += becomes(State::Cancelled);
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
