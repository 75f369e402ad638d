//! Erased acts: what was kept of them outside the store, to judge what is left by.

use super::*;

impl Judge {
    /// Keeps a body of the journal that may be erased soon.
    pub fn keep_body(&self, act: ActId, seq: u64, body: String) {
        locked(&self.seen).bodies.insert((act, seq), body);
    }

    /// A body that was erased.
    pub fn body_of(&self, act: ActId, seq: u64) -> Option<String> {
        locked(&self.seen).bodies.get(&(act, seq)).cloned()
    }

    /// The act with its texts, as it stood before they were erased; as it is, if they were not.
    pub fn whole(&self, act: &Act) -> Act {
        let seen = locked(&self.seen);
        seen.whole.get(&act.act_id).unwrap_or(act).clone()
    }

    /// An act's texts were erased. What must stay has stayed.
    pub fn erased(&self, left: &Act) {
        let Some(before) = locked(&self.seen).acts.get(&left.act_id).cloned() else {
            return;
        };
        let stays = |act: &Act| {
            let closed = act.closed().cloned();
            (
                act.state(),
                closed.as_ref().map(|c| (c.line.clone(), c.line_id.clone())),
                closed.and_then(|c| c.receipt),
                (act.handoff.id.clone(), act.thread.clone()),
                (act.tokens.clone(), act.likeness.clone(), act.undo_of),
            )
        };
        if stays(&before) != stays(left) || left.version != before.version + 1 {
            let text = format!("the purge changed more of {} than its texts", left.handoff.id);
            self.broken(&[left.act_id.to_string()], text);
        }
        let mut seen = locked(&self.seen);
        seen.tally.erased += 1;
        seen.whole.insert(left.act_id, before);
        seen.acts.insert(left.act_id, left.clone());
    }
}
