//! The counterparty: its own book, its own rules, in memory. It shares nothing with the daemon but the bytes it gets,
//! so that a test can ask it what really happened.
//!
//! Time is the clock it was given. What was to happen meanwhile (late arrivals, finishing) is caught up with at the
//! start of whatever is asked next, in order of its instants.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wilco_core::{ActId, Clock, Timestamp};

use crate::config::{SimConfig, SimGuarantee};
use crate::fault::{Fault, LookupFault, ResolveFault};
use crate::wire::{Body, hundredths, value};

/// An order in the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimOrder {
    /// Our reference, as it came.
    pub reference: ActId,
    /// The key it came with.
    pub key: String,
    /// The profile.
    pub profile: String,
    /// The ask.
    pub ask: String,
    /// The values it was carried out with.
    pub values: Vec<(String, String)>,
    /// The counterparty's own id for it.
    pub receipt: String,
    /// Where it stands.
    pub standing: SimStanding,
    /// When it arrived.
    pub landed_at: Timestamp,
    /// For an `UNDO`: the act it is to reverse.
    pub undoes: Option<ActId>,
    /// For an `UNDO`: the receipt of what it reversed.
    pub reverses: Option<String>,
    /// The receipt of the order that reversed it.
    pub reversed_by: Option<String>,
}

/// Where an order stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimStanding {
    /// Carried out.
    Done,
    /// Taken on.
    Unfinished,
    /// Refused for good, in these words.
    Rejected(String),
}

/// The counterparty. Cheap to share behind an `Arc`; outlives the adapters that speak to it, as a real one would.
pub struct SimWorld {
    guarantee: SimGuarantee,
    key_window_s: Option<u32>,
    refused_after_s: Option<u32>,
    debtor: String,
    orders_max: usize,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    orders: Vec<SimOrder>,
    by_reference: HashMap<ActId, Vec<usize>>,
    /// What a key led to, of which bytes, and when it was first seen.
    keys: HashMap<String, (usize, String, Timestamp)>,
    /// What is still to happen, by its instant and then in the order it was caused.
    ahead: BTreeMap<(Timestamp, u64), Event>,
    caused: u64,
    balances: HashMap<String, i128>,
    on_file: BTreeMap<String, String>,
    sendings: HashMap<ActId, u32>,
    arrivals: HashMap<ActId, u32>,
    hidden: HashMap<ActId, u32>,
    released: Vec<ActId>,
    script: VecDeque<Fault>,
    script_of: HashMap<ActId, VecDeque<Fault>>,
    lookups: VecDeque<LookupFault>,
    resolves: VecDeque<ResolveFault>,
    down: bool,
    approvals: bool,
    answers: HashMap<ActId, bool>,
}

enum Event {
    Arrive(String, String),
    Finish(usize, bool),
}

/// How an order is to be carried out.
#[derive(Default)]
pub(crate) struct Manner {
    pub wrong: Option<(String, String)>,
    pub finish: Option<(i64, bool)>,
    pub reject: bool,
}

impl SimWorld {
    /// A counterparty with an empty book.
    #[must_use]
    pub fn new(config: &SimConfig, clock: Arc<dyn Clock>) -> SimWorld {
        let state = State {
            on_file: config.accounts.clone(),
            ..State::default()
        };
        SimWorld {
            guarantee: config.guarantee,
            key_window_s: config.key_window_s,
            refused_after_s: config.refused_after_s,
            debtor: config.debtor_account.clone(),
            orders_max: config.orders_max,
            clock,
            state: Mutex::new(state),
        }
    }

    /// Every order, in the order they arrived.
    #[must_use]
    pub fn orders(&self) -> Vec<SimOrder> {
        self.state().orders.clone()
    }

    /// The orders with this reference.
    #[must_use]
    pub fn orders_of(&self, act: ActId) -> Vec<SimOrder> {
        let state = self.state();
        let places = state.by_reference.get(&act).into_iter().flatten();
        places.filter_map(|i| state.orders.get(*i).cloned()).collect()
    }

    /// How many effects an act had or may yet have: its orders that are not refused. The judge of "never twice".
    #[must_use]
    pub fn effects_of(&self, act: ActId) -> usize {
        let orders = self.orders_of(act);
        orders
            .iter()
            .filter(|o| !matches!(o.standing, SimStanding::Rejected(_)))
            .count()
    }

    /// How many times bytes of this act were sent off, whether or not they arrived.
    #[must_use]
    pub fn sendings_of(&self, act: ActId) -> u32 {
        self.state().sendings.get(&act).copied().unwrap_or(0)
    }

    /// How many times bytes of this act arrived, repeats of a known key included.
    #[must_use]
    pub fn arrivals_of(&self, act: ActId) -> u32 {
        self.state().arrivals.get(&act).copied().unwrap_or(0)
    }

    /// The balance of an account in hundredths. All balances together are zero.
    #[must_use]
    pub fn balance_of(&self, account: &str) -> i128 {
        self.state().balances.get(account).copied().unwrap_or(0)
    }

    /// The sum of all balances: zero, or the book is wrong.
    #[must_use]
    pub fn balances_sum(&self) -> i128 {
        self.state().balances.values().sum()
    }

    /// The account on file for a payee.
    #[must_use]
    pub fn on_file(&self, sup: &str) -> Option<String> {
        self.state().on_file.get(sup).cloned()
    }

    /// Puts an account on file, as somebody else might at any time.
    pub fn set_on_file(&self, sup: &str, account: &str) {
        self.state().on_file.insert(sup.to_owned(), account.to_owned());
    }

    /// Acts whose placed object was withdrawn.
    #[must_use]
    pub fn released(&self) -> Vec<ActId> {
        self.state().released.clone()
    }

    /// When the next thing happens that nobody needs to ask for: a late arrival, a finishing.
    #[must_use]
    pub fn next_event_at(&self) -> Option<Timestamp> {
        self.state().ahead.keys().next().map(|(at, _)| *at)
    }

    /// The fault of the next sending that no script of its own act claims.
    pub fn script(&self, fault: Fault) {
        self.state().script.push_back(fault);
    }

    /// The fault of this act's next sending.
    pub fn script_of(&self, act: ActId, fault: Fault) {
        self.state().script_of.entry(act).or_default().push_back(fault);
    }

    /// The fault of the next lookup.
    pub fn script_lookup(&self, fault: LookupFault) {
        self.state().lookups.push_back(fault);
    }

    /// The fault of the next resolve.
    pub fn script_resolve(&self, fault: ResolveFault) {
        self.state().resolves.push_back(fault);
    }

    /// Down: resolve, ready, lookup and health get no answer, and nothing connects.
    pub fn set_down(&self, down: bool) {
        self.state().down = down;
    }

    /// From now on a person must authorise each act (or not again).
    pub fn set_approvals(&self, needed: bool) {
        self.state().approvals = needed;
    }

    /// The person's answer for one act.
    pub fn answer_approval(&self, act: ActId, yes: bool) {
        self.state().answers.insert(act, yes);
    }

    pub(crate) fn is_down(&self) -> bool {
        self.state().down
    }

    /// Whether a person has answered for the act; `Some(true)` also where nobody needs to.
    pub(crate) fn approval(&self, act: ActId) -> Option<bool> {
        let state = self.state();
        if state.approvals {
            state.answers.get(&act).copied()
        } else {
            Some(true)
        }
    }

    pub(crate) fn release(&self, act: ActId) {
        self.state().released.push(act);
    }

    pub(crate) fn resolve_fault(&self) -> Option<ResolveFault> {
        self.state().resolves.pop_front()
    }

    /// Counts a sending and says which it is, with the fault a script has for it.
    pub(crate) fn sending(&self, act: ActId) -> (u32, Option<Fault>) {
        let mut state = self.state();
        let count = state.sendings.entry(act).or_insert(0);
        *count += 1;
        let n = *count;
        let own = state.script_of.get_mut(&act).and_then(VecDeque::pop_front);
        let fault = own.or_else(|| state.script.pop_front());
        (n, fault)
    }

    /// Bytes arrive and are carried out.
    pub(crate) fn arrive(&self, key: &str, body: &str, manner: Manner) -> SimOrder {
        let now = self.clock.now();
        let mut state = self.state();
        self.take(&mut state, key, body, now, manner)
    }

    /// Bytes are on their way and will arrive `after_s` seconds from now.
    pub(crate) fn arrive_later(&self, key: &str, body: &str, after_s: i64) {
        let at = self.clock.now().plus_seconds(after_s);
        let mut state = self.state();
        state.cause(at, Event::Arrive(key.to_owned(), body.to_owned()));
    }

    /// The next so many lookups of the act do not see it.
    pub(crate) fn hide(&self, act: ActId, lookups: u32) {
        self.state().hidden.insert(act, lookups);
    }

    /// What the counterparty sees of an act; the error is no answer.
    pub(crate) fn look(&self, act: ActId) -> Result<Option<SimOrder>, &'static str> {
        let mut state = self.state();
        if state.down {
            return Err("the simulated counterparty is down");
        }
        match state.lookups.pop_front() {
            Some(LookupFault::NoAnswer) => return Err("the lookup was not answered"),
            Some(LookupFault::NotFound) => return Ok(None),
            None => {}
        }
        let places = state.by_reference.get(&act).into_iter().flatten();
        let mut found: Vec<&SimOrder> = places.filter_map(|i| state.orders.get(*i)).collect();
        // What had an effect comes before what was refused.
        found.sort_by_key(|o| matches!(o.standing, SimStanding::Rejected(_)));
        let found = found.first().map(|o| (*o).clone());
        if found.is_some()
            && let Some(left) = state.hidden.get_mut(&act)
            && *left > 0
        {
            *left -= 1;
            return Ok(None);
        }
        Ok(found)
    }

    /// The state with everything caught up with. Nothing between lock and unlock panics halfway through a change.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.ahead.is_empty() {
            let now = self.clock.now();
            while let Some(entry) = state.ahead.first_entry() {
                if entry.key().0 > now {
                    break;
                }
                let ((at, _), event) = entry.remove_entry();
                match event {
                    Event::Arrive(key, body) => {
                        self.take(&mut state, &key, &body, at, Manner::default());
                    }
                    Event::Finish(place, well) => self.finish(&mut state, place, well),
                }
            }
        }
        state
    }

    fn take(&self, state: &mut State, key: &str, body: &str, at: Timestamp, manner: Manner) -> SimOrder {
        let Some(read) = Body::read(body) else {
            return refusal(ActId::new(at, [0; 10]), key, at, "the order cannot be read");
        };
        *state.arrivals.entry(read.reference).or_insert(0) += 1;
        if let Some((place, bytes, seen)) = state.keys.get(key) {
            let remembered = self
                .key_window_s
                .is_none_or(|w| at < seen.plus_seconds(i64::from(w)));
            if remembered && bytes != body {
                return refusal(read.reference, key, at, "the key was used for other bytes");
            }
            if remembered && let Some(order) = state.orders.get(*place) {
                return order.clone();
            }
        }
        if manner.reject {
            return refusal(read.reference, key, at, "the counterparty refuses the order");
        }
        if self
            .refused_after_s
            .is_some_and(|d| at >= read.issued.plus_seconds(i64::from(d)))
        {
            return refusal(read.reference, key, at, "the order came too late");
        }
        if state.orders.len() >= self.orders_max {
            return refusal(
                read.reference,
                key,
                at,
                "the simulator's book is full (orders_max)",
            );
        }
        let reference = read.reference;
        let before = state.by_reference.get(&reference).map_or(0, Vec::len);
        let mut order = SimOrder {
            reference,
            key: key.to_owned(),
            receipt: format!("sim-{reference}-{}", before + 1),
            standing: SimStanding::Done,
            landed_at: at,
            undoes: read.reverses,
            reverses: None,
            reversed_by: None,
            profile: read.profile,
            ask: read.ask,
            values: read.values,
        };
        if let Some((slot, wrong)) = manner.wrong {
            match order.values.iter_mut().find(|(s, _)| *s == slot) {
                Some((_, value)) => *value = wrong,
                None => order.values.push((slot, wrong)),
            }
        }
        let place = state.orders.len();
        match manner.finish {
            // Its effect comes when it is finished, and may then still fail.
            Some((after_s, well)) => {
                order.standing = SimStanding::Unfinished;
                state.cause(at.plus_seconds(after_s), Event::Finish(place, well));
            }
            None => self.carry_out(state, &mut order),
        }
        state.orders.push(order.clone());
        state.by_reference.entry(reference).or_default().push(place);
        if self.guarantee == SimGuarantee::Replayable {
            state.keys.insert(key.to_owned(), (place, body.to_owned(), at));
        }
        order
    }

    /// The order's effect, or its refusal.
    fn carry_out(&self, state: &mut State, order: &mut SimOrder) {
        order.standing = match self.effect(state, order) {
            Ok(()) => SimStanding::Done,
            Err(text) => SimStanding::Rejected(text),
        };
    }

    /// Checks everything first; past that, nothing fails.
    fn effect(&self, state: &mut State, order: &mut SimOrder) -> Result<(), String> {
        match order.ask.as_str() {
            "PAY" => self.book(state, &order.values, 1),
            "CHGBANK" => {
                let slot =
                    |slot| value(&order.values, slot).ok_or_else(|| format!("the order has no {slot}"));
                let (sup, new, prev) = (slot("sup")?, slot("acct")?, slot("prev")?);
                let on_file = state.on_file.get(sup).cloned().unwrap_or_default();
                if on_file != prev {
                    return Err(format!("the account on file is {on_file}, not {prev}"));
                }
                state.on_file.insert(sup.to_owned(), new.to_owned());
            }
            "UNDO" => {
                let act = order.undoes.ok_or("the order does not say what to reverse")?;
                let places = state.by_reference.get(&act).cloned().unwrap_or_default();
                let open = |o: &SimOrder| o.standing == SimStanding::Done && o.reversed_by.is_none();
                let place = places
                    .into_iter()
                    .find(|i| state.orders.get(*i).is_some_and(open));
                let Some(undone) = place.and_then(|i| state.orders.get_mut(i)) else {
                    return Err("there is nothing done and not reversed under that reference".to_owned());
                };
                undone.reversed_by = Some(order.receipt.clone());
                order.reverses = Some(undone.receipt.clone());
                let (ask, values) = (undone.ask.clone(), undone.values.clone());
                match (ask.as_str(), value(&values, "sup"), value(&values, "prev")) {
                    ("CHGBANK", Some(sup), Some(prev)) => {
                        state.on_file.insert(sup.to_owned(), prev.to_owned());
                    }
                    _ => self.book(state, &order.values, -1),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Moves the order's amount from the account that pays to the account paid, or back.
    fn book(&self, state: &mut State, values: &[(String, String)], sign: i128) {
        let amount = value(values, "amt").and_then(hundredths);
        if let (Some(amount), Some(account)) = (amount, value(values, "acct")) {
            *state.balances.entry(self.debtor.clone()).or_insert(0) -= sign * amount;
            *state.balances.entry(account.to_owned()).or_insert(0) += sign * amount;
        }
    }

    fn finish(&self, state: &mut State, place: usize, well: bool) {
        let Some(mut order) = state.orders.get(place).cloned() else {
            return;
        };
        if well {
            self.carry_out(state, &mut order);
        } else {
            order.standing = SimStanding::Rejected("taken on, and refused later".to_owned());
        }
        if let Some(kept) = state.orders.get_mut(place) {
            *kept = order;
        }
    }
}

impl State {
    fn cause(&mut self, at: Timestamp, event: Event) {
        self.caused += 1;
        self.ahead.insert((at, self.caused), event);
    }
}

/// A refusal leaves nothing in the book; it is only said.
fn refusal(reference: ActId, key: &str, at: Timestamp, text: &str) -> SimOrder {
    SimOrder {
        reference,
        key: key.to_owned(),
        profile: String::new(),
        ask: String::new(),
        values: Vec::new(),
        receipt: String::new(),
        standing: SimStanding::Rejected(text.to_owned()),
        landed_at: at,
        undoes: None,
        reverses: None,
        reversed_by: None,
    }
}
