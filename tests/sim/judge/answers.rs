//! Every answer, as it is given: it is what the store holds, and what was answered before.

use super::*;

impl Judge {
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
            if act.is_tombstone() {
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
    pub fn heard_cancelled(&self, answer: &Cancelled, cx: &str) {
        let act = &answer.act;
        let names = [act.act_id.to_string()];
        // With its journal's texts the acknowledgement is gone, even for an answer that is being made just now: a cancel
        // that is sent again then hears the closing line.
        let erased = self
            .stored(act.act_id)
            .is_some_and(|a| a.erased_handoff().is_some());
        if act.state().is_final() && !erased {
            let cancel = (act.thread.clone(), cx.to_owned());
            let known = locked(&self.seen)
                .cancels
                .entry(cancel)
                .or_insert_with(|| answer.reply.clone())
                .clone();
            if known != answer.reply {
                let text = format!("a cancel was answered {known}, and again {}", answer.reply);
                self.broken(&names, text);
            }
        }
        match act.state() {
            State::Done => self.closing(act, &answer.reply),
            State::Failed | State::Cancelled | State::Refused => {
                if !answer.reply.starts_with("RW1 AN ") && !erased {
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
