//! The bank adapter: `PAY` by UK Open Banking Read/Write 3.1, domestic payments.
//!
//! A consent is placed when a job is prepared: the bank's own record of what would be paid, used up by exactly one
//! payment. The statement shows what stands in that consent, and commit orders that and nothing else. README.md has a
//! table of what happens at each point of failure.
//!
//! `config` is what operators write, `wire` translates (pure), `client` is the only IO, `resolve` prepares, `outcome`
//! says what an answer means (pure). What never lives here: retries, judgement of whether a value is right, and any
//! secret that outlives one sending.

mod client;
mod config;
mod outcome;
mod resolve;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, ResolveError, Served};
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::{ActId, Clock, Contract, Frozen, Resolved, Timestamp};

pub use config::{BankConfig, ConfigError, LAB};

use client::{Client, Failure};
use config::Checked;
use wire::{Complaint, clean};

/// How long a bank remembers an idempotency key (OBIE R/W 3.1).
const KEY_LIFE_S: u32 = 24 * 3_600;
/// How long before its end we stop relying on it: our clock and the bank's may differ.
const KEY_MARGIN_S: u32 = 600;
/// How many payment ids are kept at hand for polling.
const KNOWN_MAX: usize = 10_000;

/// One bank.
pub struct BankAdapter {
    config: Checked,
    client: Client,
    clock: Arc<dyn Clock>,
    /// Payment ids the bank has told us, so that a payment it has not finished is read and its order not replayed.
    /// A convenience: what is lost at a restart is found again by one replay.
    known: Mutex<BTreeMap<ActId, String>>,
}

impl BankAdapter {
    /// The adapter for a configured bank. `clock` is the store's: it says how old an idempotency key is.
    ///
    /// # Errors
    /// [`ConfigError`] naming the field and its rule.
    pub fn new(config: &BankConfig, clock: Arc<dyn Clock>) -> Result<BankAdapter, ConfigError> {
        let config = config.checked()?;
        let client = Client::new(&config).map_err(ConfigError::Table)?;
        Ok(BankAdapter {
            config,
            client,
            clock,
            known: Mutex::default(),
        })
    }

    /// Its contract for `PAY`.
    fn contract(&self) -> Contract {
        Contract {
            // The key is forgotten after a day, but the consent the order is made under takes one payment in its life.
            identity: Identity::Enforced,
            lookup: LookupBy::NaturalKey,
            settle_window_s: self.config.settle_window_s,
            late_send: LateSend::Accepted,
            reversal: Reversal::None,
            reversal_until_s: None,
            cut_off: String::new(),
            point_of_no_return: "the first byte of POST /domestic-payments: a failure before it (token, connection, \
                                 TLS, lateness) is certainly no payment, any after it is in doubt"
                .to_owned(),
            not_found_means: "nothing: a bank that does not know a consent it gave us lags or is another bank, so it \
                              counts as no answer. Only a consent that the bank shows as not Consumed says that no \
                              order exists yet"
                .to_owned(),
        }
    }

    async fn consent(&self, frozen: &Frozen) -> Result<wire::Consent, String> {
        let id = frozen.placed.as_deref().ok_or("this act has no consent")?;
        let segment = wire::segment(id).ok_or("the consent's id cannot stand in a path")?;
        let read = self.client.read(&format!("{}/{segment}", wire::CONSENTS)).await;
        let answer = read.map_err(|e| e.to_string())?;
        if answer.status != 200 {
            let said = Complaint::read(&answer.body)
                .map(|c| format!(", {}", c.text))
                .unwrap_or_default();
            return Err(format!(
                "the bank answers {} for consent {id}{said}",
                answer.status
            ));
        }
        let consent = wire::consent_answer(&answer.body).map_err(|e| e.to_string())?;
        if consent.id != id {
            return Err(format!(
                "the bank answers about another consent, {}",
                clean(&consent.id, 60)
            ));
        }
        Ok(consent)
    }

    /// The consent is used up: an order exists. Finds out how it stands without being able to cause another.
    async fn order_of(&self, act: ActId, frozen: &Frozen, first_sent_at: Timestamp) -> Found {
        let id = frozen.placed.as_deref().unwrap_or_default();
        let relied_on = i64::from(KEY_LIFE_S - KEY_MARGIN_S);
        if self.clock.now() >= first_sent_at.plus_seconds(relied_on) {
            return Found::Exists(format!(
                "consent {id} is Consumed: an order exists. How it ended can no longer be asked, because the \
                 idempotency key is too old; ask the bank by its ConsentId"
            ));
        }
        // The same bytes with the same key. The consent allows one payment and has had it, so nothing can come of
        // this but the standing of the order that exists.
        let request = &frozen.request;
        match self.client.post(&request.path, &request.body, &request.key).await {
            Ok(answer) if answer.status == 201 => {
                let found = outcome::of_lookup(&answer.body, frozen, self.config.zone);
                if let Found::Executed(report) | Found::Accepted(report) = &found {
                    self.remember(act, report.receipt.as_deref());
                }
                found
            }
            Ok(answer) => {
                let said = Complaint::read(&answer.body)
                    .map(|c| format!(", {}", c.text))
                    .unwrap_or_default();
                Found::Exists(format!(
                    "consent {id} is Consumed: an order exists, but the bank answers {} when asked for it{said}",
                    answer.status
                ))
            }
            Err(failure) => Found::Exists(format!(
                "consent {id} is Consumed: an order exists, but {failure}"
            )),
        }
    }

    async fn payment(&self, id: &str, frozen: &Frozen) -> Found {
        let Some(segment) = wire::segment(id) else {
            return Found::Unknown("the payment's id cannot stand in a path".to_owned());
        };
        match self.client.read(&format!("{}/{segment}", wire::PAYMENTS)).await {
            Ok(answer) if answer.status == 200 => outcome::of_lookup(&answer.body, frozen, self.config.zone),
            // It exists: the bank has told us its id. Whatever says otherwise now is a lagging read.
            Ok(answer) => Found::Unknown(format!("the bank answers {} for its payment {id}", answer.status)),
            Err(failure) => Found::Unknown(failure.to_string()),
        }
    }

    fn remember(&self, act: ActId, payment: Option<&str>) {
        if let Some(payment) = payment {
            // A panicked holder leaves the map whole: each change is one insert or removal.
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(act, payment.to_owned());
            if known.len() > KNOWN_MAX {
                known.pop_first();
            }
        }
    }

    fn known(&self, act: ActId) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&act).cloned()
    }
}

#[async_trait]
impl Adapter for BankAdapter {
    fn describe(&self) -> Description {
        Description {
            name: "bank".to_owned(),
            counterparty: format!("Open Banking 3.1 at {}", self.config.bank.shown()),
            serves: vec![Served {
                profile: "pay".to_owned(),
                ask: "PAY".to_owned(),
                carried: resolve::CARRIED.map(str::to_owned).to_vec(),
                contract: self.contract(),
            }],
            concurrency: self.config.concurrency,
        }
    }

    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        if (job.profile.as_str(), job.ask.as_str()) != ("pay", "PAY") {
            return Err(ResolveError::Refused {
                why: "NOCAP",
                text: format!(
                    "a bank over Open Banking pays (ask=PAY), it has no ask={}",
                    clean(&job.ask, 30)
                ),
            });
        }
        resolve::resolve(self, job).await
    }

    async fn ready(&self, _act: ActId, frozen: &Frozen) -> Ready {
        let consent = match self.consent(frozen).await {
            Ok(consent) => consent,
            Err(text) => return Ready::Unknown(text),
        };
        match consent.status.as_str() {
            "Authorised" => Ready::Yes,
            "AwaitingAuthorisation" => Ready::Awaiting {
                link: frozen.authorise_at.clone(),
                text: format!("the account holder must authorise consent {}", consent.id),
            },
            "Rejected" => Ready::Refused {
                text: format!("the account holder refused the consent {}", consent.id),
            },
            // Not for us to close the act as certainly not executed: somebody has used this consent.
            "Consumed" => Ready::Unknown(format!(
                "consent {} is Consumed although this act never ordered anything: an order exists; ask the bank",
                consent.id
            )),
            other => Ready::Unknown(format!("consent {} is {}", consent.id, clean(other, 40))),
        }
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        let request = &frozen.request;
        let sent = self
            .client
            .post_with_permit(&permit, &request.path, &request.body, &request.key)
            .await;
        let outcome = match sent {
            Ok(answer) => outcome::of_order(answer.status, &answer.body, frozen, self.config.zone),
            Err(Failure::NotSent(text)) => Outcome::NotSent(text),
            Err(Failure::Lost(text)) => Outcome::Unknown(text),
        };
        self.remember(permit.act_id(), outcome::receipt_of(&outcome));
        outcome
    }

    async fn lookup(&self, act: ActId, frozen: &Frozen, first_sent_at: Timestamp) -> Found {
        if let Some(payment) = self.known(act) {
            return self.payment(&payment, frozen).await;
        }
        let consent = match self.consent(frozen).await {
            Ok(consent) => consent,
            Err(text) => return Found::Unknown(text),
        };
        match consent.status.as_str() {
            "Consumed" => self.order_of(act, frozen, first_sent_at).await,
            "Authorised" | "AwaitingAuthorisation" => Found::Absent(format!(
                "consent {} is {}: no order has used it",
                consent.id, consent.status
            )),
            "Rejected" => Found::Rejected(format!("the bank has consent {} as Rejected", consent.id)),
            other => Found::Unknown(format!("consent {} is {}", consent.id, clean(other, 40))),
        }
    }

    /// Does nothing: version 3.1 has no way to withdraw a consent for a single payment. Unused, it ends by itself.
    async fn release(&self, act: ActId, frozen: &Frozen) {
        tracing::debug!(%act, consent = frozen.placed, "a single payment's consent cannot be withdrawn; it is left unused");
    }

    async fn health(&self) -> Result<(), String> {
        let answer = self
            .client
            .read(&format!("{}/wilco-health", wire::CONSENTS))
            .await;
        let answer = answer.map_err(|e| e.to_string())?;
        match answer.status {
            401 | 403 => Err(format!("the bank refuses our token ({})", answer.status)),
            // It does not know such a consent: 400 by the standard. It answers, and that is what was asked.
            200 | 400..=428 => Ok(()),
            status => Err(format!("the bank answers {status}")),
        }
    }
}
