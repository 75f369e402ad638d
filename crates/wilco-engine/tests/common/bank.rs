//! The counterparty: it does what the story tells it, and keeps its own book.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, Report, ResolveError, Served};
use wilco_core::contract::{Contract, Identity, LateSend, LookupBy, Reversal};
use wilco_core::frozen::{FrozenValue, Request, Source};
use wilco_core::{ActId, Frozen, Resolved, Timestamp};

use super::{Shared, locked};

/// What one call to `execute` does.
#[derive(Debug, Clone)]
pub enum Call {
    /// It lands, and the answer says so.
    Lands,
    /// It lands, and the answer is lost.
    LandsUnheard,
    /// It lands with this slot changed, and the answer shows it.
    LandsWith(&'static str, &'static str),
    /// It is taken on and not finished.
    Accepted,
    /// It never lands, and nobody hears anything.
    Lost,
    /// The counterparty says no.
    Rejected,
    /// Nothing left the house.
    NotSent,
    /// The adapter's code breaks before anything is sent.
    Panics,
    /// The adapter's code breaks after it has landed.
    LandsAndPanics,
}

/// What one call to `resolve` does.
#[derive(Debug, Clone)]
pub enum Resolve {
    /// Another value than the handoff's stands in the register.
    With(&'static str, &'static str),
    /// The counterparty is down.
    Down,
    /// It says so late: once [`Bank::resolve_gate`] lets one through.
    DownLate,
    /// It does not do that.
    Refuses(&'static str),
    /// Its day ends then.
    CutOff(Timestamp),
    /// The adapter's code breaks.
    Panics,
}

/// The counterparty's own record: each act it did, with the values it used.
type Book = Shared<(ActId, Vec<(String, String)>)>;

pub struct Bank {
    name: &'static str,
    /// The contract it declares.
    pub contract: Mutex<Contract>,
    /// How many of its acts may be under way at once.
    pub concurrency: AtomicU32,
    /// The asks of `pay` it serves.
    pub asks: Mutex<Vec<&'static str>>,
    /// What the next calls do; when empty, they succeed.
    pub calls: Mutex<VecDeque<Call>>,
    pub resolves: Mutex<VecDeque<Resolve>>,
    /// What `ready` answers.
    pub ready: Mutex<Ready>,
    /// What the next lookups find; when empty, what the book says.
    pub lookups: Mutex<VecDeque<Found>>,
    /// `execute` waits here before it sends, while `gated`.
    pub gate: Semaphore,
    gated: Mutex<bool>,
    /// What [`Resolve::DownLate`] waits for.
    pub resolve_gate: Semaphore,
    /// `lookup` waits here before it asks, while `lookups_gated`.
    pub lookup_gate: Semaphore,
    lookups_gated: Mutex<bool>,
    /// Acts whose bytes left, in order, over all connections to this counterparty.
    sent: Arc<Shared<ActId>>,
    /// What the counterparty has done, with the values it used.
    book: Arc<Book>,
    /// Acts for which `execute` was called.
    pub executes: Shared<ActId>,
    /// Whether `execute` asks whether it may send after it waited at the gate, not before.
    pub asks_late: AtomicBool,
    /// Why it does not say how it does; `None` while it does.
    pub down: Mutex<Option<&'static str>>,
    /// Whether what it reports as done may still be rejected.
    pub provisional: AtomicBool,
    /// Whether lookups without a script go unanswered.
    pub silent: AtomicBool,
    /// Lookups that were answered.
    pub looked: Shared<ActId>,
    /// Lookups that were asked.
    pub asked: AtomicU32,
    /// The receipt the last lookup was asked with.
    pub asked_with: Mutex<Option<String>>,
    pub released: Shared<(ActId, Option<String>)>,
    pub resolved: AtomicU32,
    /// Calls of `execute` that are under way.
    pub under_way: AtomicU32,
}

impl Bank {
    pub fn new(name: &'static str) -> Arc<Bank> {
        let contract = Contract {
            identity: Identity::Window(86_400),
            lookup: LookupBy::Reference,
            settle_window_s: 60,
            late_send: LateSend::Accepted,
            reversal: Reversal::NewAct,
            reversal_until_s: None,
            cut_off: String::new(),
            point_of_no_return: "the first byte".into(),
            not_found_means: "not there at the time".into(),
        };
        Bank::with_book(name, contract, Arc::default(), Arc::default())
    }

    /// Another daemon's connection to the same counterparty: one book, orders and gates of its own.
    pub fn beside(&self) -> Arc<Bank> {
        let contract = locked(&self.contract).clone();
        Bank::with_book(
            self.name,
            contract,
            Arc::clone(&self.sent),
            Arc::clone(&self.book),
        )
    }

    fn with_book(
        name: &'static str,
        contract: Contract,
        sent: Arc<Shared<ActId>>,
        book: Arc<Book>,
    ) -> Arc<Bank> {
        Arc::new(Bank {
            name,
            contract: Mutex::new(contract),
            concurrency: AtomicU32::new(64),
            asks: Mutex::new(vec!["PAY", "UNDO"]),
            calls: Mutex::default(),
            resolves: Mutex::default(),
            ready: Mutex::new(Ready::Yes),
            lookups: Mutex::default(),
            gate: Semaphore::new(0),
            gated: Mutex::new(false),
            resolve_gate: Semaphore::new(0),
            lookup_gate: Semaphore::new(0),
            lookups_gated: Mutex::new(false),
            sent,
            book,
            executes: Mutex::default(),
            asks_late: AtomicBool::new(false),
            down: Mutex::default(),
            provisional: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            looked: Mutex::default(),
            asked: AtomicU32::new(0),
            asked_with: Mutex::default(),
            released: Mutex::default(),
            resolved: AtomicU32::new(0),
            under_way: AtomicU32::new(0),
        })
    }

    pub fn next(&self, call: Call) {
        locked(&self.calls).push_back(call);
    }

    pub fn next_resolve(&self, resolve: Resolve) {
        locked(&self.resolves).push_back(resolve);
    }

    pub fn next_lookup(&self, found: Found) {
        locked(&self.lookups).push_back(found);
    }

    /// From now on `execute` waits for [`Bank::open`] before it sends.
    pub fn shut(&self) {
        *locked(&self.gated) = true;
    }

    pub fn open(&self) {
        *locked(&self.gated) = false;
        self.gate.add_permits(1_000);
    }

    /// Calls to come do not wait; those that wait go on waiting for ever.
    pub fn leave_waiting(&self) {
        *locked(&self.gated) = false;
    }

    pub fn shut_lookups(&self) {
        *locked(&self.lookups_gated) = true;
    }

    pub fn open_lookups(&self) {
        *locked(&self.lookups_gated) = false;
        self.lookup_gate.add_permits(1_000);
    }

    /// How often bytes left for this act.
    pub fn sendings(&self, act: ActId) -> usize {
        locked(&self.sent).iter().filter(|a| **a == act).count()
    }

    /// How often the counterparty did it.
    pub fn landed(&self, act: ActId) -> usize {
        locked(&self.book).iter().filter(|(a, _)| *a == act).count()
    }

    pub fn nothing_was_sent(&self) -> bool {
        locked(&self.sent).is_empty() && locked(&self.book).is_empty()
    }

    /// The act lands now, whoever sent it: bytes that were late on the way.
    pub fn land(&self, act: ActId, frozen: &Frozen) {
        locked(&self.book).push((act, visible(frozen)));
    }

    fn report(&self, act: ActId) -> Option<Report> {
        let book = locked(&self.book);
        let (_, values) = book.iter().find(|(a, _)| *a == act)?;
        Some(Report {
            values: values.clone(),
            receipt: Some(format!("receipt-{act}")),
            status: "booked".into(),
            provisional: self.provisional.load(Ordering::SeqCst),
        })
    }
}

/// A panic as far as the engine can tell, without the noise on the test's output.
fn breaks(how: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(how))
}

/// What the counterparty can show of what was frozen.
fn visible(frozen: &Frozen) -> Vec<(String, String)> {
    let shown = |slot: &str| !frozen.carried.iter().any(|c| c == slot);
    let values = frozen.values.iter().filter(|v| shown(&v.slot));
    values.map(|v| (v.slot.clone(), v.value.clone())).collect()
}

#[async_trait]
impl Adapter for Bank {
    fn describe(&self) -> Description {
        let serves = locked(&self.asks)
            .iter()
            .map(|ask| Served {
                profile: "pay".into(),
                ask: (*ask).into(),
                carried: ["sup", "kind", "apref"].map(str::to_owned).to_vec(),
                contract: locked(&self.contract).clone(),
            })
            .collect();
        Description {
            name: self.name.into(),
            counterparty: "a scripted bank".into(),
            serves,
            concurrency: self.concurrency.load(Ordering::SeqCst),
        }
    }

    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        let n = self.resolved.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let told = locked(&self.resolves).pop_front();
        if matches!(told, Some(Resolve::DownLate))
            && let Ok(pass) = self.resolve_gate.acquire().await
        {
            pass.forget();
        }
        let undone = job.undo.as_ref();
        let value = |slot: &str| -> Option<String> {
            let executed = undone.and_then(|u| u.executed.iter().find(|(k, _)| k == slot));
            match (&told, executed) {
                (Some(Resolve::With(key, value)), _) if *key == slot => Some((*value).to_owned()),
                (_, Some((_, value))) => Some(value.clone()),
                _ => job.slot(slot).map(str::to_owned),
            }
        };
        let values = job
            .exec
            .iter()
            .filter_map(|slot| {
                Some(FrozenValue {
                    slot: slot.clone(),
                    value: value(slot)?,
                    source: Source::Resolved,
                    evidence: "the register".into(),
                })
            })
            .collect();
        let mut cut_off = None;
        match told {
            Some(Resolve::Down | Resolve::DownLate) => {
                return Err(ResolveError::Passing("no route to the bank".into()));
            }
            Some(Resolve::Refuses(why)) => {
                return Err(ResolveError::Refused {
                    why,
                    text: "the bank does not do that".into(),
                });
            }
            Some(Resolve::CutOff(at)) => cut_off = Some(at),
            Some(Resolve::Panics) => breaks("the adapter breaks while resolving"),
            Some(Resolve::With(..)) | None => {}
        }
        Ok(Resolved {
            values,
            extra: vec![("x_dbtr".into(), "20-00-00/55779911".into())],
            request: Request {
                method: "POST".into(),
                path: "/payments".into(),
                body: format!("{{\"reference\":\"{}\"}}", job.act_id),
                key: format!("{}.{}", job.act_id, job.attempt),
            },
            placed: Some(format!("consent-{n}")),
            cut_off,
            authorise_at: None,
            notes: Vec::new(),
        })
    }

    async fn ready(&self, _: ActId, _: &Frozen) -> Ready {
        locked(&self.ready).clone()
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        let act = permit.act_id();
        locked(&self.executes).push(act);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        // Between the question whether it may and the byte a process can stand still for as long as it likes.
        let before = permit.may_send();
        if *locked(&self.gated)
            && let Ok(pass) = self.gate.acquire().await
        {
            pass.forget();
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        let call = locked(&self.calls).pop_front().unwrap_or(Call::Lands);
        match call {
            Call::Panics => breaks("the adapter breaks before it sends"),
            Call::NotSent => return Outcome::NotSent("connection refused".into()),
            _ => {}
        }
        let asked = if self.asks_late.load(Ordering::SeqCst) {
            permit.may_send()
        } else {
            before
        };
        if let Err(late) = asked {
            return Outcome::NotSent(late.to_string());
        }
        locked(&self.sent).push(act);
        let mut values = visible(frozen);
        match call {
            Call::Lost => return Outcome::Unknown("the line went dead".into()),
            Call::Rejected => return Outcome::Rejected("insufficient funds".into()),
            Call::Accepted => {
                return Outcome::Accepted(Report {
                    status: "pending".into(),
                    receipt: Some(format!("receipt-{act}")),
                    ..Report::default()
                });
            }
            Call::LandsWith(slot, value) => {
                values.retain(|(k, _)| k != slot);
                values.push((slot.into(), value.into()));
            }
            _ => {}
        }
        // A counterparty that enforces identity does the same bytes once, and answers the second time as the first.
        let enforced = locked(&self.contract).identity != Identity::None;
        if !(enforced && self.landed(act) > 0) {
            locked(&self.book).push((act, values));
        }
        match call {
            Call::LandsUnheard => Outcome::Unknown("the answer was lost".into()),
            Call::LandsAndPanics => breaks("the adapter breaks while reading the answer"),
            _ => Outcome::Executed(self.report(act).unwrap_or_default()),
        }
    }

    async fn lookup(&self, act: ActId, _: &Frozen, _: Timestamp, receipt: Option<&str>) -> Found {
        *locked(&self.asked_with) = receipt.map(str::to_owned);
        self.asked.fetch_add(1, Ordering::SeqCst);
        if *locked(&self.lookups_gated)
            && let Ok(pass) = self.lookup_gate.acquire().await
        {
            pass.forget();
        }
        locked(&self.looked).push(act);
        if let Some(found) = locked(&self.lookups).pop_front() {
            return found;
        }
        if self.silent.load(Ordering::SeqCst) {
            return Found::Unknown("no answer".into());
        }
        match self.report(act) {
            Some(report) => Found::Executed(report),
            None => Found::Absent("no such reference".into()),
        }
    }

    async fn release(&self, act: ActId, frozen: &Frozen) {
        locked(&self.released).push((act, frozen.placed.clone()));
    }

    async fn health(&self) -> Result<(), String> {
        match *locked(&self.down) {
            Some(why) => Err(why.to_owned()),
            None => Ok(()),
        }
    }
}
