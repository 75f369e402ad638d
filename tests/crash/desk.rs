//! Where callers find their daemon, and what all of them were told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tonic::transport::Endpoint;
use wilco_api::v1;
use wilco_tests::{Caller, Daemon, PATIENCE, Payment, Refused, Wire};

/// How long one call may take before its caller asks again.
const CALL: Duration = Duration::from_secs(8);

/// The keys of those who ask, by their names.
type Keys = BTreeMap<&'static str, String>;

/// One house's counter.
#[derive(Debug, Default)]
pub struct Desk {
    url: RefCell<Option<String>>,
    keys: Keys,
    /// Another daemon on the same database, which never closes, and its keys.
    neighbour: Option<(String, Keys)>,
    asked: Cell<u32>,
    stop: Cell<bool>,
    numbers: Cell<u32>,
    handoffs: RefCell<Vec<Told>>,
    complaints: RefCell<Vec<String>>,
}

/// What a caller handed off and was told about it.
#[derive(Debug, Clone)]
pub struct Told {
    pub payment: Payment,
    pub thread: String,
    /// The answers to prepare that were statements, one an attempt.
    pub statements: BTreeMap<u32, v1::PrepareReply>,
    /// The closing line.
    pub close: Option<String>,
    /// Whether a yes was answered with an act that was claimed.
    pub accepted: bool,
}

impl Desk {
    pub fn new(daemon: &Daemon, neighbour: Option<&Daemon>) -> Desk {
        Desk {
            keys: keys(daemon),
            neighbour: neighbour.map(|n| (n.url().to_owned(), keys(n))),
            ..Desk::default()
        }
    }

    /// The daemon answers at this address, or nowhere.
    pub fn open(&self, url: Option<&str>) {
        *self.url.borrow_mut() = url.map(str::to_owned);
    }

    /// Callers end what they are doing and begin nothing more.
    pub fn close(&self) {
        self.stop.set(true);
    }

    pub fn closed(&self) -> bool {
        self.stop.get()
    }

    /// A number nobody else in this house has.
    pub fn number(&self) -> u32 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// A handoff has come to its caller's end.
    pub fn keep(&self, told: Told) {
        self.handoffs.borrow_mut().push(told);
    }

    pub fn handoffs(&self) -> Vec<Told> {
        self.handoffs.borrow().clone()
    }

    /// Something a caller was told cannot be true.
    pub fn complain(&self, what: String) {
        self.complaints.borrow_mut().push(what);
    }

    pub fn complaints(&self) -> Vec<String> {
        self.complaints.borrow().clone()
    }

    /// A client of the daemon as it runs now.
    pub async fn caller(&self, principal: &'static str, wire: Wire) -> Option<Caller> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let url = self.url.borrow().clone();
            self.asked.set(self.asked.get().wrapping_add(1));
            // Every third time at the other one, and while this one is dead.
            let next_door = self
                .neighbour
                .as_ref()
                .filter(|_| url.is_none() || self.asked.get().is_multiple_of(3));
            let door = match next_door {
                Some((url, keys)) => Some((url.clone(), keys)),
                None => url.map(|url| (url, &self.keys)),
            };
            if let Some((url, keys)) = door {
                let endpoint = Endpoint::from_shared(url.clone()).ok()?;
                let key = keys.get(principal).cloned();
                return Some(Caller::new(
                    &url,
                    endpoint.timeout(CALL).connect_lazy(),
                    wire,
                    key,
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    }

    /// Asks until there is an answer, as a client does whose daemon comes and goes: a connection that broke, a store or a
    /// bank that is down say nothing about the act.
    pub async fn ask<T>(
        &self,
        principal: &'static str,
        wire: Wire,
        what: &str,
        call: impl AsyncFn(&Caller) -> Result<T, Box<Refused>>,
    ) -> Result<T, Box<Refused>> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = None;
        while Instant::now() < deadline {
            let Some(caller) = self.caller(principal, wire).await else {
                break;
            };
            match tokio::time::timeout(CALL, call(&caller)).await {
                Ok(Err(refused)) if passing(&refused) => last = Some(refused),
                Ok(answer) => return answer,
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        panic!("{what}: no answer within {PATIENCE:?}; last {last:?}")
    }
}

fn keys(daemon: &Daemon) -> Keys {
    ["scheduler", "duty"]
        .map(|principal| (principal, daemon.key(principal)))
        .into()
}

fn passing(refused: &Refused) -> bool {
    matches!(
        refused.reason.as_str(),
        "UNREACHABLE" | "STORE_DOWN" | "BUSY" | "ADAPTER_DOWN" | "HALTED"
    )
}
