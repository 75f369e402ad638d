//! Purge: the texts of acts that were closed a while ago are erased while everything goes on. What is left must answer as
//! before, so the judge is shown each act before and after.

use std::sync::Arc;

use wilco_core::{ActId, purge};
use wilco_store::Keeper;

use crate::daemons::Sim;

/// How long an act is closed before its texts may go, seconds. Far shorter than any operator may ask for, so that late
/// messages find acts that were erased.
const AGE_S: i64 = 240;

/// How many acts one purge takes.
const ROUND: u32 = 40;

/// Erases what may be erased.
pub async fn purge(sim: &Arc<Sim>) {
    let kept = &sim.store.kept;
    let older_than = kept.now().plus_seconds(-AGE_S);
    let may_go: Vec<ActId> = sim.judge.with_acts(|acts| {
        let old = |act: &&wilco_core::Act| purge::erasable_since(act).is_some_and(|since| since < older_than);
        acts.values().filter(old).map(|act| act.act_id).collect()
    });
    for act in &may_go {
        for row in kept.journal(*act).await.unwrap_or_default() {
            if let Some(body) = row.body {
                sim.judge.keep_body(*act, row.seq, body);
            }
        }
    }
    // Nobody else gets a turn before the judge has seen what it did: the keeper in memory never waits.
    match kept.purge(older_than, ROUND).await {
        Ok(done) => {
            sim.store.counted_purge(done.acts);
            sim.log.say(&format!("purged {} acts", done.acts));
            let mut erased = 0;
            for act in may_go {
                if let Ok(Some(left)) = kept.act(act).await
                    && left.erased_handoff().is_some()
                {
                    sim.judge.erased(&left);
                    erased += 1;
                }
            }
            if erased != done.acts {
                let text = format!("the purge says {} acts, and {erased} were erased", done.acts);
                sim.judge.broken(&[], text);
            }
        }
        Err(error) => sim.log.say(&format!("purge failed: {error}")),
    }
}
