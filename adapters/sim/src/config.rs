//! What an operator writes under `[adapters.sim]`, and what a simulation sets by hand.

use std::collections::BTreeMap;

use serde::Deserialize;
use wilco_adapter::field::{Broken, between};

use crate::fault::{Fault, Odds};

/// The `[adapters.sim]` table. Everything has a default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimConfig {
    /// The adapter's name in rows and configuration.
    pub name: String,
    /// What chance is drawn from: the same seed and acts meet the same faults.
    pub seed: u64,
    /// What kind of counterparty it plays.
    pub guarantee: SimGuarantee,
    /// For a replayable one: seconds after which it forgets a key and the same bytes act again. Left out: never.
    pub key_window_s: Option<u32>,
    /// Seconds after the last byte in which an act can still land, 0 to 86400.
    pub settle_window_s: u32,
    /// Seconds after prepare from which it refuses bytes by itself. Left out: it takes them whenever they come.
    pub refused_after_s: Option<u32>,
    /// Whether presence can be proved but absence cannot: lookups of a blind counterparty that keeps an archive.
    pub evidence_only: bool,
    /// Milliseconds each call takes, 0 to 60000.
    pub delay_ms: u32,
    /// The payee register: account by `sup`. Where it has no entry, the handoff's `acct` is stated.
    pub accounts: BTreeMap<String, String>,
    /// The account that pays, shown as `x_dbtr`.
    pub debtor_account: String,
    /// How often each fault strikes, in thousandths of all sendings; names as in [`Fault::from_word`].
    pub odds: BTreeMap<String, u32>,
    /// What it serves.
    pub serves: Vec<SimServes>,
    /// How many acts may be under way at once, 1 to 65536.
    pub concurrency: u32,
    /// How many orders its book holds; further ones are refused.
    pub orders_max: usize,
}

/// What a counterparty promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SimGuarantee {
    /// The same bytes again have no second effect, and an act is found by our reference.
    Replayable,
    /// The same bytes again act again, and an act is found by our reference.
    Verifiable,
    /// The same bytes again act again, and nothing can be asked.
    Blind,
}

/// One kind of act.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimServes {
    /// The profile.
    pub profile: String,
    /// The ask. `PAY` moves money in the book, `UNDO` reverses, `CHGBANK` replaces the account on file; any other is
    /// only written down.
    pub ask: String,
    /// Execution slots it plays not to know.
    #[serde(default)]
    pub carried: Vec<String>,
}

/// A field of `[adapters.sim]` is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// One field breaks its rule.
    #[error("[adapters.sim] {field}: {rule} (it says {got:?})")]
    Field {
        /// Which.
        field: &'static str,
        /// What it may be.
        rule: String,
        /// What it says.
        got: String,
    },
    /// The table is not TOML, or has a field nobody knows.
    #[error("[adapters.sim]: {0}")]
    Table(String),
}

impl Default for SimConfig {
    fn default() -> Self {
        let serves = |ask: &str, carried: &[&str]| SimServes {
            profile: "pay".to_owned(),
            ask: ask.to_owned(),
            carried: carried.iter().map(|&s| s.to_owned()).collect(),
        };
        SimConfig {
            name: "sim".to_owned(),
            seed: 0,
            guarantee: SimGuarantee::Replayable,
            key_window_s: None,
            settle_window_s: 5,
            refused_after_s: None,
            evidence_only: false,
            delay_ms: 0,
            accounts: BTreeMap::new(),
            debtor_account: "20-00-00/55779911".to_owned(),
            odds: BTreeMap::new(),
            serves: vec![
                serves("PAY", &["sup", "kind", "apref"]),
                serves("UNDO", &["sup", "kind", "apref"]),
                serves("CHGBANK", &["apref"]),
            ],
            concurrency: 256,
            orders_max: 5_000_000,
        }
    }
}

impl SimConfig {
    /// Reads the table from TOML text (its fields at the top).
    ///
    /// # Errors
    /// [`ConfigError::Table`] where it is not TOML or has a field unknown or of another type.
    pub fn from_toml(text: &str) -> Result<SimConfig, ConfigError> {
        toml::from_str(text).map_err(|e| ConfigError::Table(e.message().to_owned()))
    }

    /// Checks every field and reads the odds.
    pub(crate) fn checked(&self) -> Result<Odds, ConfigError> {
        let slot = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if !slot(&self.name) {
            return Err(wrong("name", "must be one word", &self.name));
        }
        if !slot(&self.debtor_account) {
            return Err(wrong("debtor_account", "must be one word", &self.debtor_account));
        }
        if let Some((sup, account)) = self.accounts.iter().find(|(_, account)| !slot(account)) {
            return Err(wrong(
                "accounts",
                &format!("the account of {sup} must be one word"),
                account,
            ));
        }
        if self.key_window_s.is_some() && self.guarantee != SimGuarantee::Replayable {
            let rule = "only a replayable counterparty knows keys";
            return Err(wrong("key_window_s", rule, &format!("{:?}", self.key_window_s)));
        }
        if self.evidence_only && self.guarantee != SimGuarantee::Blind {
            return Err(wrong("evidence_only", "belongs to guarantee = \"blind\"", "true"));
        }
        between("settle_window_s", self.settle_window_s, 0, 86_400)?;
        between("delay_ms", self.delay_ms, 0, 60_000)?;
        between("concurrency", self.concurrency, 1, 65_536)?;
        if self.serves.is_empty() {
            return Err(wrong("serves", "must name at least one ask", ""));
        }
        let mut odds = Vec::new();
        for (word, &thousandths) in &self.odds {
            let fault = Fault::from_word(word).ok_or_else(|| {
                wrong(
                    "odds",
                    &format!("must be faults by name: {}", Fault::WORDS.join(", ")),
                    word,
                )
            })?;
            odds.push((thousandths, fault));
        }
        if odds.iter().map(|(n, _)| u64::from(*n)).sum::<u64>() > 1000 {
            return Err(wrong(
                "odds",
                "must sum to 1000 thousandths at most",
                &format!("{:?}", self.odds),
            ));
        }
        Ok(Odds::new(self.seed, odds))
    }
}

impl From<Broken> for ConfigError {
    fn from(broken: Broken) -> ConfigError {
        wrong(broken.field, &broken.rule, &broken.got)
    }
}

fn wrong(field: &'static str, rule: &str, got: &str) -> ConfigError {
    ConfigError::Field {
        field,
        rule: rule.to_owned(),
        got: got.to_owned(),
    }
}
