//! An adapter's place in the house: how many acts it may have under way, and whether its counterparty answers.
//!
//! ```text
//!          health fails                       a person may look: ADAPTER_DOWN, log, metrics
//!  up ─────────────────────────► down ──── asked every two seconds ────┐
//!   ▲                                                                  │ it answers
//!   └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! While it is down nothing new is prepared or claimed for it; what is claimed already is looked up as ever. What goes wrong
//! with one act says little about the counterparty: it only has the counterparty asked at once.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use wilco_adapter::{Adapter, Description, Served};
use wilco_core::{Reason, Refusal};

use crate::api::AdapterStatus;
use crate::engine::lock;

/// An adapter with its own concurrency limit, so that one slow bank cannot stall the others.
pub(crate) struct Slot {
    pub(crate) adapter: Arc<dyn Adapter>,
    pub(crate) description: Description,
    places: Arc<Semaphore>,
    /// The places of the whole house, shared by all adapters.
    house: Arc<Semaphore>,
    standing: Mutex<Standing>,
    /// Rung when something went wrong, so that the counterparty is asked at once.
    doubted: Notify,
}

/// How the counterparty did when it was last heard of.
#[derive(Default)]
struct Standing {
    /// What went wrong the last time, with an act or with a question how it does.
    trouble: Option<String>,
    /// Whether it did not answer that question.
    down: bool,
}

/// Leave to ask a counterparty something, while it lives.
pub(crate) struct Place {
    _at_adapter: OwnedSemaphorePermit,
    _in_house: OwnedSemaphorePermit,
}

/// How long a verb waits for a place at its adapter before it answers BUSY.
const PLACE_WAIT: Duration = Duration::from_secs(5);

/// How long the counterparty may take to say how it does.
const HEALTH_TIME: Duration = Duration::from_secs(10);

/// How often it is asked while it is down, and how soon at most after it was doubted.
const ASK_AGAIN: Duration = Duration::from_secs(2);

impl Slot {
    pub(crate) fn new(adapter: Arc<dyn Adapter>, house: Arc<Semaphore>) -> Slot {
        let description = adapter.describe();
        let places = usize::try_from(description.concurrency.max(1)).unwrap_or(1);
        Slot {
            adapter,
            description,
            places: Arc::new(Semaphore::new(places)),
            house,
            standing: Mutex::default(),
            doubted: Notify::new(),
        }
    }

    pub(crate) fn serves(&self, profile: &str, ask: &str) -> Option<&Served> {
        self.description
            .serves
            .iter()
            .find(|s| s.profile == profile && s.ask == ask)
    }

    pub(crate) fn status(&self) -> AdapterStatus {
        let standing = lock(&self.standing);
        AdapterStatus {
            description: self.description.clone(),
            trouble: standing.trouble.clone(),
            down: standing.down,
        }
    }

    /// Remembers whether the counterparty answered the last time it was asked for an act. That it did does not make one that
    /// is down well again: it may have been another part of it (an archive beside a mail server), and what is claimed for the
    /// part that is down comes to nothing.
    pub(crate) fn heard(&self, trouble: Option<String>) {
        let mut standing = lock(&self.standing);
        if trouble.is_some() {
            self.doubted.notify_one();
        }
        if trouble.is_some() || !standing.down {
            standing.trouble = trouble;
        }
    }

    /// Whether anything new may be asked of it.
    ///
    /// # Errors
    /// `ADAPTER_DOWN` while it does not answer.
    pub(crate) fn is_up(&self) -> Result<(), Refusal> {
        let standing = lock(&self.standing);
        if !standing.down {
            return Ok(());
        }
        let why = standing.trouble.as_deref().unwrap_or("no answer");
        let text = format!(
            "{} is down: {why}; nothing was done, try again",
            self.description.name
        );
        Err(Refusal::new(Reason::AdapterDown, text).retry_after(5))
    }

    /// Asks the counterparty how it does: at once, then as often as `every`, and sooner while it is down or after something
    /// went wrong.
    pub(crate) async fn ask_how_it_does(&self, every: Duration, stopping: impl Future<Output = ()>) {
        tokio::pin!(stopping);
        loop {
            let answer = tokio::select! {
                biased;
                () = &mut stopping => return,
                answer = tokio::time::timeout(HEALTH_TIME, self.adapter.health()) => answer,
            };
            let answer = answer.unwrap_or_else(|_| Err(format!("no answer in {HEALTH_TIME:?}")));
            let down = self.said(answer);
            let (least, longest) = if down {
                (ASK_AGAIN, ASK_AGAIN)
            } else {
                (ASK_AGAIN.min(every), every)
            };
            tokio::select! {
                biased;
                () = &mut stopping => return,
                () = async {
                    tokio::time::sleep(least).await;
                    drop(tokio::time::timeout(longest.saturating_sub(least), self.doubted.notified()).await);
                } => {}
            }
        }
    }

    /// Takes what it said of itself; whether it is down.
    fn said(&self, answer: Result<(), String>) -> bool {
        let name = self.description.name.as_str();
        let mut standing = lock(&self.standing);
        match answer {
            Ok(()) if standing.down => {
                tracing::info!(adapter = name, "the counterparty answers again");
                *standing = Standing::default();
            }
            Ok(()) => {}
            Err(why) => {
                if !standing.down {
                    tracing::error!(
                        adapter = name,
                        why,
                        "the counterparty does not answer: nothing new is prepared or committed for it"
                    );
                }
                *standing = Standing {
                    trouble: Some(why),
                    down: true,
                };
            }
        }
        standing.down
    }

    /// A place at this adapter, or BUSY when none comes free in time.
    pub(crate) async fn place(&self) -> Result<Place, Refusal> {
        let waiting = tokio::time::timeout(PLACE_WAIT, self.place_for_claimed()).await;
        waiting.ok().flatten().ok_or_else(|| {
            let text = format!(
                "{} has as many acts under way as it takes; try again",
                self.description.name
            );
            Refusal::new(Reason::Busy, text).retry_after(1)
        })
    }

    /// A place for an act that is already claimed: it waits as long as it takes.
    pub(crate) async fn place_for_claimed(&self) -> Option<Place> {
        // The adapter's own first: who waits for a slow bank takes no place of the house meanwhile.
        Some(Place {
            _at_adapter: Arc::clone(&self.places).acquire_owned().await.ok()?,
            _in_house: Arc::clone(&self.house).acquire_owned().await.ok()?,
        })
    }
}
