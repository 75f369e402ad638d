//! The vendor records adapter: `CHGBANK` and the `UNDO` of it, on a table in SQLite or Postgres.
//!
//! A change of bank details is a compare-and-swap on the account that was stated as `prev`, in one transaction with a row
//! that carries our reference. The row's primary key is why nothing is changed twice, also when the account was changed back
//! in between; and the row is what lookups read. README.md has a table of what happens at each point of failure.
//!
//! `config` is what operators write; `statement` and `sql` make the statements (pure), `wire` what is frozen and what rows
//! say (pure); `callback` which call-back counts and `judge` whether a change may be committed (pure); `resolve` prepares; `client` is the only IO. What never lives here: SQL from a line, retries, judgement of
//! whether an account is the right one, and a call-back's words from anywhere but the customer's own table.

mod callback;
mod client;
mod config;
mod judge;
mod resolve;
mod sql;
mod statement;
mod tables;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, ResolveError, Served};
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::{ActId, Clock, Contract, Frozen, Resolved, Timestamp};

pub use config::{ColumnsConfig, ConfigError, OwnSql, RecordsConfig};
pub use tables::{ACTS_TABLE, CALLBACKS_TABLE, VENDOR_TABLE};

use callback::{Called, counted, counts};
use client::{Changed, Client, Order, Seen};
use config::{Checked, Whereabouts};
use statement::Param;
use wire::{Swap, clean, sql_text};

const NAME: &str = "records";
const CHGBANK: &str = "CHGBANK";
const UNDO: &str = "UNDO";

/// One vendor table.
pub struct RecordsAdapter {
    config: Arc<Checked>,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl RecordsAdapter {
    /// The adapter for a configured table. `clock` is the store's: it says when a change was made and whether a call-back
    /// came after the handoff. The database may be down.
    ///
    /// # Errors
    /// [`ConfigError`] naming the field and its rule.
    pub fn new(config: &RecordsConfig, clock: Arc<dyn Clock>) -> Result<RecordsAdapter, ConfigError> {
        let config = Arc::new(config.checked()?);
        let client = Client::new(&config);
        Ok(RecordsAdapter {
            config,
            client,
            clock,
        })
    }

    fn contract(&self, reversal: Reversal) -> Contract {
        Contract {
            // The primary key of the acts table: a second row with our reference is refused for ever.
            identity: Identity::Enforced,
            lookup: LookupBy::Reference,
            settle_window_s: self.config.settle_window_s,
            late_send: LateSend::Accepted,
            reversal,
            point_of_no_return: "COMMIT: a failure before it (connection, permit, swap, call-back) is rolled back and \
                                 certainly no change, any after it is in doubt"
                .to_owned(),
            not_found_means: "the change does not stand: the row with our reference is written in the same transaction. A \
                              transaction still running at the server may yet make it stand, within the settle window"
                .to_owned(),
            reversal_until_s: None,
            cut_off: "the end of the day that eff names".to_owned(),
        }
    }

    fn served(&self, ask: &str, reversal: Reversal) -> Served {
        let unseen = [("eff", self.config.shows_eff), ("apref", self.config.shows_apref)];
        let carried = unseen.into_iter().filter(|(_, shown)| !shown);
        Served {
            profile: "pay".to_owned(),
            ask: ask.to_owned(),
            carried: carried.map(|(slot, _)| slot.to_owned()).collect(),
            contract: self.contract(reversal),
        }
    }

    /// What has to be done before the change may be made, in words for the person who does it.
    fn ring(&self, swap: &Swap) -> String {
        let name = swap
            .name
            .as_deref()
            .map(|n| format!(" ({n})"))
            .unwrap_or_default();
        let number = match &swap.phone {
            Some(phone) => format!("on {phone}, the number on file"),
            None => "on the number you hold (none is on file)".to_owned(),
        };
        format!(
            "ring {}{name} {number}, and let them confirm that {} becomes {}",
            swap.sup, swap.prev, swap.acct
        )
    }

    /// How a call-back is recorded.
    fn how_to_record(&self, act: ActId, swap: &Swap) -> String {
        if self.config.own_callback {
            let reference = match self.config.statements.callback.params.contains(&Param::Ref) {
                true => format!("ref {act}, "),
                false => String::new(),
            };
            return format!(
                "record it where sql.callback looks for it, for {reference}sup {}, prev {} and acct {}, with by and at",
                swap.sup, swap.prev, swap.acct
            );
        }
        let (column, reference) = match &self.config.callbacks_ref {
            Some(name) => (format!("{}, ", name.quoted()), format!("'{act}', ")),
            None => (String::new(), String::new()),
        };
        format!(
            "record it: INSERT INTO {} ({column}sup, prev, acct, \"by\", at) VALUES ({reference}{}, {}, {}, '<your name>', \
             '<when, such as {}>')",
            self.config.callbacks.shown(),
            sql_text(&swap.sup),
            sql_text(&swap.prev),
            sql_text(&swap.acct),
            self.clock.now().to_rfc3339(),
        )
    }

    fn awaiting(&self, act: ActId, swap: &Swap, seen: &Seen, why_not: Option<String>) -> Ready {
        let now_on_file = seen
            .rows
            .first()
            .and_then(|r| r.phone.as_deref())
            .map(|p| clean(p, 40));
        let changed = match now_on_file {
            // Whoever wants the account changed may have changed the number first.
            phone if phone != swap.phone => format!(
                "; take care, the number on file was changed after this was stated, to {}",
                phone.as_deref().unwrap_or("none")
            ),
            _ => String::new(),
        };
        let why_not = why_not.map(|w| format!(" ({w})")).unwrap_or_default();
        Ready::Awaiting {
            link: None,
            text: format!(
                "a call-back is required and not recorded{why_not}: {}{changed}; then {}",
                self.ring(swap),
                self.how_to_record(act, swap)
            ),
        }
    }

    fn needs_callback(&self, swap: &Swap) -> bool {
        self.config.callback || swap.callback
    }

    /// The frozen change, if it is to be made by the statements it was stated with.
    fn swap(&self, frozen: &Frozen) -> Result<Swap, String> {
        let swap = Swap::of(frozen)?;
        if swap.statements != self.config.statements.digest() {
            return Err(
                "the statements in the configuration are not those it was stated with; prepare it again"
                    .to_owned(),
            );
        }
        Ok(swap)
    }
}

/// The status people are shown.
fn status(word: &str, callback: Option<&Called>) -> String {
    match callback {
        Some(Called { by, told, .. }) => format!("{word}; call-back by {by} at {told}"),
        None => word.to_owned(),
    }
}

#[async_trait]
impl Adapter for RecordsAdapter {
    fn describe(&self) -> Description {
        let kind = match &self.config.whereabouts {
            Whereabouts::Sqlite(_) => "SQLite, ",
            Whereabouts::Postgres { .. } => "",
        };
        Description {
            name: NAME.to_owned(),
            counterparty: format!(
                "vendor table {} in {kind}{}",
                self.config.table.shown(),
                self.client.shown()
            ),
            serves: vec![
                self.served(CHGBANK, Reversal::NewAct),
                self.served(UNDO, Reversal::None),
            ],
            concurrency: self.config.concurrency,
        }
    }

    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        resolve::resolve(self, job).await
    }

    async fn ready(&self, act: ActId, frozen: &Frozen) -> Ready {
        let swap = match self.swap(frozen) {
            Ok(swap) => swap,
            Err(text) => return Ready::Refused { text },
        };
        let seen = match self.client.standing(act, &swap).await {
            Ok(seen) => seen,
            Err(text) => return Ready::Unknown(format!("the vendor table: {text}")),
        };
        if seen.database != swap.database {
            return Ready::Unknown(format!(
                "it was stated from the database {}, and the configuration now leads to {}",
                swap.database, seen.database
            ));
        }
        let on_file = match seen.rows.as_slice() {
            [row] => row.acct.as_deref(),
            _ => None,
        };
        if on_file != Some(swap.prev.as_str()) {
            let now = on_file.map_or("no such row".to_owned(), |a| clean(a, 40));
            return Ready::Refused {
                text: format!(
                    "slot prev: {} had {} on file when this was stated, the table now has {now}",
                    swap.sup, swap.prev
                ),
            };
        }
        if self.needs_callback(&swap) {
            let calls = seen.calls.as_ref();
            match calls.map_or(Err(None), |c| counts(c, act, &swap, self.clock.now())) {
                Ok(Called { by, told, .. }) => {
                    tracing::info!(%act, %by, at = %told, "the call-back is recorded")
                }
                Err(why_not) => return self.awaiting(act, &swap, &seen, why_not),
            }
        }
        Ready::Yes
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        let swap = match self.swap(frozen) {
            Ok(swap) => swap,
            Err(text) => return Outcome::NotSent(text),
        };
        let act = permit.act_id();
        let order = Order {
            callback: self.needs_callback(&swap),
            permit,
            swap,
            clock: self.clock.clone(),
        };
        match self.client.change(order).await {
            Changed::Done(recorded, callback) => {
                Outcome::Executed(recorded.report(act, status("changed", callback.as_ref())))
            }
            Changed::Before(recorded) => {
                Outcome::Executed(recorded.report(act, status("changed before", None)))
            }
            Changed::Refused(text) => Outcome::Rejected(text),
            Changed::NotSent(text) => Outcome::NotSent(text),
            Changed::Unknown(text) => Outcome::Unknown(text),
        }
    }

    async fn lookup(
        &self,
        act: ActId,
        frozen: &Frozen,
        _first_sent_at: Timestamp,
        _receipt: Option<&str>,
    ) -> Found {
        let swap = match Swap::of(frozen) {
            Ok(swap) => swap,
            Err(text) => return Found::Unknown(text),
        };
        let looked = match self.client.find(act, &swap).await {
            Ok(looked) => looked,
            Err(text) => return Found::Unknown(format!("the vendor table: {text}")),
        };
        if let Some(recorded) = looked.recorded {
            // Who rang, where it can still be told.
            let callback = looked.calls.and_then(|calls| counted(&calls, act, &swap));
            return Found::Executed(recorded.report(act, status("changed", callback.as_ref())));
        }
        if looked.database != swap.database {
            return Found::Unknown(format!(
                "it was stated from the database {}, and the configuration now leads to {}, which has no row for it",
                swap.database, looked.database
            ));
        }
        Found::Absent(format!(
            "table {} has no row with our reference {act}",
            self.config.acts.shown()
        ))
    }

    /// Does nothing: prepare puts nothing in place.
    async fn release(&self, act: ActId, _frozen: &Frozen) {
        tracing::debug!(%act, "nothing was put in place, so nothing is withdrawn");
    }

    async fn health(&self) -> Result<(), String> {
        self.client.check().await
    }
}
