//! What must be true of every moment. Each rule is judged from what really happened, apart from what the core believes.

use stateright::Property;
use wilco_core::State;
use wilco_core::contract::Identity;

use crate::shell::House;
use crate::state::{Broken, CallStep, Moment};
use crate::words::at;

pub const ONE_EFFECT: &str = "the counterparty acts at most once";
pub const ONE_SENDING: &str = "what the counterparty cannot tell apart is sent at most once";
pub const NOT_DENIED: &str = "never said undone what was done or still can be";
pub const NOT_INVENTED: &str = "done is said only of what was done";
pub const DURABLE: &str = "done is told only once it is written";
pub const NEVER_LOST: &str = "a claimed act is executing, in doubt, done or failed";
pub const CONFIRMED: &str = "only a yes to the statement as it stands claims";
pub const IN_TIME: &str = "a late yes never claims";
pub const SAME_ANSWER: &str = "the same handoff gets the same answer";
pub const CLOSES_ONCE: &str = "a handoff closes once and stays closed";
pub const SOUND_THREAD: &str = "the thread passes its check";
pub const FENCED: &str = "who lost the claim changes no state";
pub const LAST_MOMENT: &str = "no sending begins at or after its last moment";
pub const CLAIM_FIRST: &str = "no byte leaves before its claim is written";
pub const DOUBT_ENDS: &str = "two lookups past the window end the doubt of a dead owner's act";

/// Every rule.
pub fn all() -> Vec<Property<House>> {
    vec![
        rule(ONE_EFFECT, |_, m| m.counterparty.effects <= 1),
        rule(ONE_SENDING, |house, m| {
            house.decisions.setting.contract.identity != Identity::None || m.counterparty.sendings <= 1
        }),
        rule(NOT_DENIED, |house, m| {
            !said_undone(house, m) || (m.counterparty.effects == 0 && !can_still_come(house, m))
        }),
        rule(NOT_INVENTED, |house, m| {
            house.facts(m).state != Some(State::Done) || m.counterparty.effects > 0
        }),
        rule(DURABLE, |_, m| !m.seen.broken.has(Broken::TOLD_EARLY)),
        rule(NEVER_LOST, |house, m| {
            let facts = house.facts(m);
            !m.seen.claimed || facts.is_claimed() || matches!(facts.state, Some(State::Done | State::Failed))
        }),
        rule(CONFIRMED, |_, m| !m.seen.broken.has(Broken::UNCONFIRMED)),
        rule(IN_TIME, |_, m| !m.seen.broken.has(Broken::LATE_YES)),
        rule(SAME_ANSWER, |_, m| !m.seen.broken.has(Broken::OTHER_ANSWER)),
        rule(CLOSES_ONCE, |house, m| {
            !m.seen.broken.has(Broken::REOPENED) && house.facts(m).closers <= 1
        }),
        rule(SOUND_THREAD, |house, m| {
            house.decisions.thread_is_sound(m.kept, m.now)
        }),
        rule(FENCED, |_, m| !m.seen.broken.has(Broken::STALE_EPOCH)),
        rule(LAST_MOMENT, |_, m| !m.seen.broken.has(Broken::SENT_LATE)),
        rule(CLAIM_FIRST, |_, m| !m.seen.broken.has(Broken::SENT_UNCLAIMED)),
        rule(DOUBT_ENDS, |house, m| {
            let provable = house.decisions.setting.contract.absence_can_be_proved();
            !(provable && m.seen.absence_due && house.facts(m).state == Some(State::InDoubt))
        }),
    ]
}

fn rule(name: &'static str, holds: fn(&House, &Moment) -> bool) -> Property<House> {
    Property::always(name, holds)
}

/// Whether the row, or anything a caller was told, says that nothing was done.
fn said_undone(house: &House, m: &Moment) -> bool {
    let closed = matches!(
        house.facts(m).state,
        Some(State::Failed | State::Cancelled | State::Refused)
    );
    closed || m.seen.told_undone
}

/// Further than any of a configuration's windows reaches.
const FAR: u8 = 20;

/// Whether the act can still have an effect: bytes are on their way, a sender has its leave and is only slow, or the
/// counterparty has it in hand.
fn can_still_come(house: &House, m: &Moment) -> bool {
    let contract = &house.decisions.setting.contract;
    let theirs = &m.counterparty;
    let on_its_way = theirs
        .lands_until(contract)
        .is_some_and(|until| theirs.would_act(contract, m.now, until.min(u8::MAX - 1)));
    let from_a_sender = m.calls().any(|call| {
        let may_leave = match call.step {
            CallStep::Permitted => at(m.now) < house.decisions.shelf.facts(call.claimed).not_after,
            CallStep::Checked => true,
            CallStep::Sent { .. } => false,
        };
        let until = (m.now + FAR).min(u8::MAX - 1);
        may_leave && theirs.would_act(contract, m.now, until)
    });
    on_its_way || from_a_sender || theirs.is_pending()
}
