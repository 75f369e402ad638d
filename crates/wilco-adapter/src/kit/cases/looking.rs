//! The line is broken while somebody looks: what could not be heard proves nothing.

use wilco_core::contract::LookupBy;

use super::{Cases, at};
use crate::Found;
use crate::kit::findings::{Stop, failed, not_applicable};
use crate::kit::judge;
use crate::kit::proxy::{Break, Turn};
use crate::kit::trial::{Prepared, Trial};

pub(super) async fn all(cases: &mut Cases<'_, '_>) {
    let trial = cases.trial;
    let done = broken(trial, true).await;
    cases.found("a lookup that breaks never denies what is there", done);
    let open = broken(trial, false).await;
    cases.found("a lookup that breaks never finds what is not there", open);
}

/// Every break at every turn of a lookup, of an act that is there or is not.
async fn broken(trial: &Trial<'_>, there: bool) -> Result<(), Stop> {
    let Some(line) = trial.bench.lookup_proxy() else {
        return not_applicable("there is no line to break: the bench has no proxy");
    };
    if trial.served.contract.lookup == LookupBy::None {
        return not_applicable("lookup = none: nothing is asked");
    }
    let act = trial.prepare().await?;
    if there {
        let outcome = trial.execute(&act).await?;
        let effects = trial.aftermath(&act, &outcome, false).await?;
        judge::one(&effects, "before it is looked up")?;
    }
    line.begin();
    trial.lookup(&act).await?;
    let conversations = line.conversations();
    let mut met = 0;
    for (connection, conversation) in conversations.iter().enumerate() {
        for (turn, said) in conversation.turns.iter().enumerate() {
            for how in breaks(trial, said) {
                let place = format!("connection {connection}, turn {turn}, {}", short(&how));
                line.begin();
                line.arm(connection, turn, how);
                let found = at(&place, trial.lookup(&act).await)?;
                met += usize::from(line.hit());
                at(&place, honest(trial, &act, &found, there).await)?;
            }
        }
    }
    line.begin();
    if met == 0 {
        return failed("nothing went by on the bench's proxy while an act was looked up");
    }
    let effects = trial.effects(&act).await;
    if effects.len() != usize::from(there) {
        return failed(format!("broken lookups changed the record: {effects:?}"));
    }
    Ok(())
}

async fn honest(trial: &Trial<'_>, act: &Prepared, found: &Found, there: bool) -> Result<(), Stop> {
    let effects = trial.effects(act).await;
    if effects.len() != usize::from(there) {
        return failed(format!("a broken lookup changed the record: {effects:?}"));
    }
    judge::found(found, &effects, &effects, &trial.served.contract, false)
}

fn breaks(trial: &Trial<'_>, turn: &Turn) -> Vec<Break> {
    let mut breaks = Vec::new();
    if !turn.said.is_empty() {
        breaks.push(Break::CutBefore);
        breaks.push(Break::CutMiddle(turn.said.len() / 2));
    }
    if turn.answered > 0 {
        breaks.extend([Break::CutReply, Break::CutInReply, Break::Hold]);
        breaks.push(Break::Garbage(super::sending::GARBAGE.to_vec()));
        breaks.extend(trial.bench.garbage().into_iter().map(Break::Garbage));
    }
    breaks
}

fn short(how: &Break) -> String {
    match how {
        Break::Garbage(bytes) => {
            let said: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
            format!("answered {said:?}")
        }
        other => format!("{other:?}"),
    }
}
