//! What happens in one house: where its daemon dies, and what its bank does meanwhile.

use std::time::Duration;

use crate::chance::Chance;

/// How a daemon dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// By its own hand, the nth time it comes to this place.
    At(&'static str, u64),
    /// So long after it answers.
    After(Duration),
    /// So long after it was started, whether it answers or not.
    Starting(Duration),
    /// The moment a payment is in the bank's book and its answer is still on the way.
    Booked,
}

/// A house's life.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its deaths while callers come and go.
    pub kills: Vec<Kill>,
    /// Whether its acts are in PostgreSQL, where a second daemon, which nobody kills, looks on and serves too.
    pub shared: bool,
    /// Whether the bank's knobs are turned.
    pub faulty: bool,
    /// Whether that bank carries orders out late; if not, it shows one lagging read. Both for one act would be a bank that
    /// breaks its word: what it was sent is seen only after the window in which it has to land.
    pub late: bool,
    /// Whether the clock jumps between two runs, so that confirmations come too late. Never with `faulty`.
    pub hasty: bool,
    /// Deaths while a person settles what the bank does not answer for.
    pub operator: Vec<Kill>,
    /// Deaths while texts are erased, days later.
    pub purge: Vec<Kill>,
}

/// Places that traffic comes to.
const TRAFFIC: [&str; 17] = [
    "prepare.resolved",
    "prepare.written",
    "commit.ready",
    "commit.claim_written",
    "commit.declined",
    "store.begun",
    "store.committing",
    "store.committed",
    "execute.permit",
    "send.connected",
    "send.may_send",
    "send.answered",
    "settle.outcome",
    "settle.written",
    "commit.answering",
    "cancel.deciding",
    "cancel.written",
];

/// Deaths that leave a claim behind: the next start has something to recover.
const LEAVES_A_CLAIM: [&str; 6] = [
    "commit.claim_written",
    "execute.permit",
    "send.connected",
    "send.may_send",
    "send.answered",
    "settle.outcome",
];

/// Places a start comes to after such a death.
const RECOVERY: [&str; 4] = [
    "recover.taking_over",
    "recover.taken_over",
    "recover.looking",
    "recover.looked",
];

/// Places a house comes to whose handoffs end soon.
const EXPIRY: [&str; 2] = ["expire.deciding", "expire.written"];

/// Places a person's word comes to.
const OPERATOR: [&str; 2] = ["operator.settling", "operator.settled"];

/// Places erasing comes to.
const PURGE: [&str; 2] = ["purge.deciding", "purge.written"];

/// Places that a daemon comes to only while another one, which owns what it finds claimed, may still be alive. The one that
/// dies here always finds its own.
pub const NEIGHBOUR_ONLY: [&str; 1] = ["recover.resending"];

/// How many deaths one house is good for.
pub const HOUSE_KILLS: u64 = 14;

/// The plans of a campaign: so many deaths, dealt so that every place gets its share.
pub fn plans(kills: u64, seed: u64, postgres: bool) -> Vec<Plan> {
    let mut chance = Chance::of(seed, u64::MAX);
    let mut traffic = Deck::new(&TRAFFIC);
    let mut recovery = Deck::new(&RECOVERY);
    let mut operator = Deck::new(&OPERATOR);
    let mut purge = Deck::new(&PURGE);
    let mut plans = Vec::new();
    let mut left = kills;
    while left > 0 {
        let number = plans.len();
        let mut quota = left.min(HOUSE_KILLS);
        left -= quota;
        let mut plan = Plan {
            kills: Vec::new(),
            // Not where the clock must jump: there it is the server's.
            shared: postgres && number % 3 == 0 && number % 4 != 2,
            faulty: number % 2 == 1,
            late: number % 4 == 1,
            hasty: number % 4 == 2,
            operator: Vec::new(),
            purge: Vec::new(),
        };
        if number % 3 == 1 && quota > 4 {
            plan.operator = vec![at(operator.next(&mut chance)), at(operator.next(&mut chance))];
            quota -= 2;
        }
        if number % 3 == 2 && quota > 4 {
            plan.purge = vec![at(purge.next(&mut chance)), at(purge.next(&mut chance))];
            quota -= 2;
        }
        let expiry = if plan.hasty && quota > 6 {
            EXPIRY.as_slice()
        } else {
            &[]
        };
        quota -= expiry.len() as u64;
        while quota > 0 {
            let mut dealt = match chance.between(0, 9) {
                0..=4 => {
                    let point = match traffic.next(&mut chance) {
                        // There a write is one statement, and the server's to carry out.
                        "store.committing" if plan.shared => "store.committed",
                        point => point,
                    };
                    vec![Kill::At(point, chance.between(1, most_times(point)))]
                }
                5 | 6 => vec![at(chance.one(&LEAVES_A_CLAIM)), at(recovery.next(&mut chance))],
                7 => vec![Kill::After(Duration::from_millis(chance.between(0, 80)))],
                8 => vec![Kill::Booked],
                _ => vec![Kill::Starting(Duration::from_millis(chance.between(0, 60)))],
            };
            dealt.truncate(usize::try_from(quota).unwrap_or(usize::MAX));
            quota -= dealt.len() as u64;
            plan.kills.extend(dealt);
        }
        // Last: by now there are handoffs that can run out.
        plan.kills.extend(expiry.iter().map(|point| at(point)));
        plans.push(plan);
    }
    plans
}

/// A plan for places that chance passed by.
pub fn top_up(missed: &[&'static str]) -> Plan {
    let of = |group: &[&'static str]| {
        missed
            .iter()
            .copied()
            .filter(|p| group.contains(p))
            .map(at)
            .collect::<Vec<_>>()
    };
    let mut kills = of(&TRAFFIC);
    for recovery in of(&RECOVERY) {
        kills.extend([at("execute.permit"), recovery]);
    }
    let expiry = of(&EXPIRY);
    if kills.is_empty() {
        kills.push(at("prepare.written"));
    }
    Plan {
        hasty: !expiry.is_empty(),
        shared: false,
        faulty: false,
        late: true,
        kills: kills.into_iter().chain(expiry).collect(),
        operator: of(&OPERATOR),
        purge: of(&PURGE),
    }
}

/// How often a place may be let pass: some are come to by few handoffs only.
fn most_times(point: &str) -> u64 {
    match point {
        "commit.declined" => 1,
        "cancel.deciding" | "cancel.written" => 2,
        _ => 4,
    }
}

fn at(point: &'static str) -> Kill {
    Kill::At(point, 1)
}

/// Cards dealt in a shuffled order, all of them before any comes again.
struct Deck {
    cards: Vec<&'static str>,
    left: Vec<&'static str>,
}

impl Deck {
    fn new(cards: &[&'static str]) -> Deck {
        Deck {
            cards: cards.to_vec(),
            left: Vec::new(),
        }
    }

    fn next(&mut self, chance: &mut Chance) -> &'static str {
        if self.left.is_empty() {
            self.left = chance.shuffled(&self.cards);
        }
        self.left.pop().unwrap_or_default()
    }
}
