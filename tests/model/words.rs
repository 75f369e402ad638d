//! The small vocabulary of the model: its clock, its one handoff, and the lines callers bring.

use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::frozen::{FrozenValue, Request, Source};
use wilco_core::settle::Bearer;
use wilco_core::{Contract, Resolved, Timestamp};

/// An instant of the model. One tick is a minute, because a statement ends on a whole minute.
pub type Tick = u8;

/// A tick in seconds.
pub const TICK_S: u32 = 60;

/// 2026-10-02T12:00:00Z, the first instant.
const NOON: i64 = 1_790_942_400_000_000;

/// The instant a tick stands for.
pub fn at(tick: Tick) -> Timestamp {
    Timestamp(NOON).plus_seconds(i64::from(tick) * i64::from(TICK_S))
}

/// The thread everything happens in.
pub const THREAD: &str = "scheduler";

/// The principal every caller is.
pub const PRINCIPAL: &str = "scheduler";

/// The execution slots, their values, and whether the counterparty can see them.
const VALUES: [(&str, &str, bool); 8] = [
    ("sup", "m", false),
    ("amt", "5.00", true),
    ("cur", "GBP", true),
    ("kind", "GROSS", false),
    ("acct", "40-12-88/61102938", true),
    ("paid", "20261002", true),
    ("ref", "R1", true),
    ("apref", "F1", false),
];

/// The handoff, good until `end`.
pub fn handoff(end: Tick) -> String {
    let values: Vec<String> = VALUES
        .iter()
        .map(|(slot, value, _)| format!("{slot}={value}"))
        .collect();
    format!(
        "RW1 HO scheduler-1 from=scheduler to=payer item=i:1 exp={} ask=PAY p=pay rb=exec {}",
        at(end).to_rw1(),
        values.join(" ")
    )
}

/// The cancel both callers may send.
pub const CANCEL: &str = "RW1 CX scheduler-9 re=scheduler-1 from=scheduler to=payer item=i:1 p=pay";

/// A caller's answer to the readback `rb_id`: yes or no. Ids differ by caller, answer and readback.
pub fn confirmation(caller: usize, rb_id: &str, yes: bool) -> String {
    let number = rb_id.rsplit('-').next().unwrap_or_default();
    let (kind, val) = if yes { (2 + caller, "Y") } else { (5 + caller, "N") };
    format!("RW1 AN scheduler-{kind}{number} re={rb_id} from=scheduler to=payer p=pay val={val}")
}

/// What the adapter resolves.
pub fn resolved() -> Resolved {
    Resolved {
        values: VALUES
            .iter()
            .map(|(slot, value, _)| FrozenValue {
                slot: (*slot).to_owned(),
                value: (*value).to_owned(),
                source: Source::Resolved,
                evidence: String::new(),
            })
            .collect(),
        extra: Vec::new(),
        request: Request {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            body: String::new(),
            key: "k".to_owned(),
        },
        placed: None,
        cut_off: None,
        authorise_at: None,
        notes: Vec::new(),
    }
}

/// Slots the counterparty cannot know.
pub fn carried() -> Vec<String> {
    slots(false).map(|(slot, _)| slot.to_owned()).collect()
}

/// Slots and values the counterparty shows once it has acted.
pub fn shown() -> Vec<(String, String)> {
    slots(true)
        .map(|(slot, value)| (slot.to_owned(), value.to_owned()))
        .collect()
}

fn slots(visible: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    VALUES
        .iter()
        .filter(move |v| v.2 == visible)
        .map(|(slot, value, _)| (*slot, *value))
}

/// A contract, its times in ticks.
pub fn contract(identity: Identity, lookup: LookupBy, window: Tick, late_send: LateSend) -> Contract {
    Contract {
        identity,
        lookup,
        settle_window_s: u32::from(window) * TICK_S,
        late_send,
        reversal: Reversal::None,
        reversal_until_s: None,
        cut_off: String::new(),
        point_of_no_return: String::new(),
        not_found_means: String::new(),
    }
}

/// A run of a daemon: the folder whose lock it holds, and which run on that folder it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Which house, from 0.
    pub house: u8,
    /// Which run, from 1.
    pub boot: u8,
}

impl Owner {
    /// The name claims carry.
    pub fn name(self) -> String {
        format!("{}.{}", char::from(b'a' + self.house), self.boot)
    }

    /// The owner a claim names.
    pub fn named(name: &str) -> Owner {
        let (house, boot) = name.split_once('.').expect("the model's owners have a house");
        Owner {
            house: house.as_bytes()[0] - b'a',
            boot: boot.parse().expect("the model's boots are numbers"),
        }
    }
}

/// Who brings news: an owner, and the epoch of the claim it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Messenger {
    /// The owner.
    pub owner: Owner,
    /// The epoch.
    pub epoch: u8,
}

impl Messenger {
    /// In the core's words.
    pub fn bearer(self) -> Bearer {
        Bearer {
            owner: self.owner.name(),
            epoch: u64::from(self.epoch),
        }
    }
}
