//! The bank adapter: `PAY` by UK Open Banking Read/Write 3.1 or 4.0, domestic payments at once and scheduled.
//!
//! A consent is placed when a job is prepared: the bank's own record of what would be paid, used up by exactly one
//! payment. The statement shows what stands in that consent, and commit orders that and nothing else. README.md has a
//! table of what happens at each point of failure.
//!
//! `config` is what operators write, `wire` translates (pure), `client` is the only IO, `sign` signs what is sent,
//! `resolve` prepares, `day` says what kind of payment a date makes (pure), `outcome` says what an answer means (pure). What never lives here: retries, judgement of whether a value is right, and any
//! secret that outlives one sending.

mod client;
mod config;
mod day;
mod outcome;
mod resolve;
mod sign;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, ResolveError, Served};
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::{ActId, Clock, Contract, Frozen, Resolved, Timestamp};

pub use config::{BankConfig, ConfigError, LAB, SigningConfig};

use client::{Client, Failure};
use config::Checked;
use outcome::Reading;
use wire::{Complaint, ConsentStanding, Form, clean};

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
        let client = Client::new(&config, clock.clone()).map_err(ConfigError::Table)?;
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
            cut_off: "the CutOffDateTime of the bank's consent; where it has none, the end of the bank's day, and for a \
                      scheduled payment the end of the day before it"
                .to_owned(),
            point_of_no_return: "the first byte of POST /domestic-payments or /domestic-scheduled-payments: a failure \
                                 before it (token, signature, connection, TLS, lateness) is certainly no payment, any \
                                 after it is in doubt"
                .to_owned(),
            not_found_means: "nothing: a bank that does not know a consent it gave us lags or is another bank, so it \
                              counts as no answer. Only a consent that the bank shows as not Consumed says that no \
                              order exists yet"
                .to_owned(),
        }
    }

    /// How the act was prepared: it is finished in the same version and kind, whatever is configured by now.
    fn reading(&self, frozen: &Frozen) -> Result<Reading, String> {
        let form = Form::of_path(&frozen.request.path).ok_or_else(|| {
            let path = clean(&frozen.request.path, 80);
            format!("this act was prepared for {path}, which this adapter does not know")
        })?;
        Ok(Reading {
            form,
            zone: self.config.zone,
            done_at: self.config.done_at,
        })
    }

    async fn consent(&self, frozen: &Frozen) -> Result<wire::Consent, String> {
        let form = self.reading(frozen)?.form;
        let id = frozen.placed.as_deref().ok_or("this act has no consent")?;
        let segment = wire::segment(id).ok_or("the consent's id cannot stand in a path")?;
        let read = self.client.read(&format!("{}/{segment}", form.consents())).await;
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
        let consent = wire::consent_answer(&answer.body, form).map_err(|e| e.to_string())?;
        if consent.id != id {
            return Err(format!(
                "the bank answers about another consent, {}",
                clean(&consent.id, 60)
            ));
        }
        Ok(consent)
    }

    /// The consent is used up: an order exists. Finds out how it stands without being able to cause another.
    async fn order_of(
        &self,
        act: ActId,
        frozen: &Frozen,
        reading: Reading,
        first_sent_at: Timestamp,
    ) -> Found {
        let id = frozen.placed.as_deref().unwrap_or_default();
        let relied_on = i64::from(KEY_LIFE_S - KEY_MARGIN_S);
        if self.clock.now() >= first_sent_at.plus_seconds(relied_on) {
            return Found::Exists(format!(
                "consent {id} is used up: an order exists. How it ended can no longer be asked, because the \
                 idempotency key is too old; ask the bank by its ConsentId"
            ));
        }
        // The same bytes with the same key. The consent allows one payment and has had it, so nothing can come of
        // this but the standing of the order that exists.
        let request = &frozen.request;
        let path = reading.form.payments();
        match self.client.post(&path, &request.body, &request.key).await {
            Ok(answer) if answer.status == 201 => {
                let found = reading.of_lookup(&answer.body, frozen);
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
                    "consent {id} is used up: an order exists, but the bank answers {} when asked for it{said}",
                    answer.status
                ))
            }
            Err(failure) => Found::Exists(format!("consent {id} is used up: an order exists, but {failure}")),
        }
    }

    async fn payment(&self, id: &str, frozen: &Frozen, reading: Reading) -> Found {
        let Some(segment) = wire::segment(id) else {
            return Found::Unknown("the payment's id cannot stand in a path".to_owned());
        };
        let path = format!("{}/{segment}", reading.form.payments());
        match self.client.read(&path).await {
            Ok(answer) if answer.status == 200 => reading.of_lookup(&answer.body, frozen),
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

/// Why a bank does not do what is asked, by the name of it.
fn not_ours(ask: &str) -> String {
    let why = match ask {
        "CHGBANK" => {
            "whose account a supplier has is kept by vendor records, and no bank can change it there"
        }
        "UNDO" => {
            "a payment has no way back at a bank; a refund is a payment of its own, by the one who was paid"
        }
        _ => "it pays (ask=PAY) and does nothing else",
    };
    format!("ask={} is not a bank's job: {why}", clean(ask, 30))
}

#[async_trait]
impl Adapter for BankAdapter {
    fn describe(&self) -> Description {
        Description {
            name: "bank".to_owned(),
            counterparty: format!(
                "Open Banking {} at {}",
                self.config.version.word(),
                self.config.bank.shown()
            ),
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
            return Err(resolve::refused("NOCAP", not_ours(&job.ask)));
        }
        resolve::resolve(self, job).await
    }

    async fn ready(&self, _act: ActId, frozen: &Frozen) -> Ready {
        let consent = match self.consent(frozen).await {
            Ok(consent) => consent,
            Err(text) => return Ready::Unknown(text),
        };
        match consent.standing() {
            ConsentStanding::Authorised => Ready::Yes,
            ConsentStanding::Awaiting => Ready::Awaiting {
                link: frozen.authorise_at.clone(),
                text: format!("the account holder must authorise consent {}", consent.id),
            },
            ConsentStanding::Rejected => Ready::Refused {
                text: format!("the account holder refused the consent {}", consent.id),
            },
            // Not for us to close the act as certainly not executed: somebody has used this consent.
            ConsentStanding::Consumed => Ready::Unknown(format!(
                "consent {} is {} although this act never ordered anything: an order exists; ask the bank",
                consent.id, consent.status
            )),
            ConsentStanding::Unlisted => Ready::Unknown(consent.strange()),
        }
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        let reading = match self.reading(frozen) {
            Ok(reading) => reading,
            Err(text) => return Outcome::NotSent(text),
        };
        let request = &frozen.request;
        let sent = self
            .client
            .post_with_permit(&permit, &reading.form.payments(), &request.body, &request.key)
            .await;
        let outcome = match sent {
            Ok(answer) => reading.of_order(answer.status, &answer.body, frozen),
            Err(Failure::NotSent(text)) => Outcome::NotSent(text),
            Err(Failure::Lost(text)) => Outcome::Unknown(text),
        };
        self.remember(permit.act_id(), outcome::receipt_of(&outcome));
        outcome
    }

    async fn lookup(
        &self,
        act: ActId,
        frozen: &Frozen,
        first_sent_at: Timestamp,
        receipt: Option<&str>,
    ) -> Found {
        let reading = match self.reading(frozen) {
            Ok(reading) => reading,
            Err(text) => return Found::Unknown(text),
        };
        // The id it gave is never too old, unlike the key.
        if let Some(payment) = self.known(act).or_else(|| receipt.map(str::to_owned)) {
            return self.payment(&payment, frozen, reading).await;
        }
        let consent = match self.consent(frozen).await {
            Ok(consent) => consent,
            Err(text) => return Found::Unknown(text),
        };
        match consent.standing() {
            ConsentStanding::Consumed => self.order_of(act, frozen, reading, first_sent_at).await,
            ConsentStanding::Authorised | ConsentStanding::Awaiting => Found::Absent(format!(
                "consent {} is {}: no order has used it",
                consent.id, consent.status
            )),
            ConsentStanding::Rejected => Found::Rejected(format!(
                "the bank has consent {} as {}",
                consent.id, consent.status
            )),
            ConsentStanding::Unlisted => Found::Unknown(consent.strange()),
        }
    }

    /// Does nothing: the standard has no way to withdraw a consent for a single payment. Unused, it ends by itself.
    async fn release(&self, act: ActId, frozen: &Frozen) {
        tracing::debug!(%act, consent = frozen.placed, "a single payment's consent cannot be withdrawn; it is left unused");
    }

    async fn health(&self) -> Result<(), String> {
        let form = Form {
            version: self.config.version,
            kind: wire::Kind::Domestic,
        };
        let answer = self
            .client
            .read(&format!("{}/wilco-health", form.consents()))
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
