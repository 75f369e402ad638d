//! What open acts need of a daemon, and whether it still has it.
//!
//! A daemon that no longer serves an adapter, an agent or a profile, or has lost a server key, must not start as if
//! nothing were open. Looking at every open act would make a start as slow as there are acts; so a daemon that remembers
//! what it had when it last looked, and has it all still, need not look again.

use std::collections::BTreeSet;

use wilco_core::{Act, State};
use wilco_store::Filter;

use crate::api::StartError;
use crate::engine::Engine;

/// Names that acts may need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The agents served.
    pub agents: BTreeSet<String>,
    /// The adapters.
    pub adapters: BTreeSet<String>,
    /// The profiles.
    pub profiles: BTreeSet<String>,
    /// The ids of the server keys that tokens are derived from.
    pub token_keys: BTreeSet<String>,
}

impl Needs {
    /// What stands here and not in `had`, in words.
    #[must_use]
    pub fn missing_from(&self, had: &Needs) -> Vec<String> {
        let lists = [
            ("adapter", "", &self.adapters, &had.adapters),
            ("agent", "", &self.agents, &had.agents),
            ("profile", "", &self.profiles, &had.profiles),
            (
                "token key",
                " (its line in token.key)",
                &self.token_keys,
                &had.token_keys,
            ),
        ];
        let mut missing = Vec::new();
        for (kind, hint, needed, had) in lists {
            missing.extend(needed.difference(had).map(|name| format!("{kind} {name}{hint}")));
        }
        missing
    }

    /// Adds what stands in `other`.
    pub fn join(&mut self, other: &Needs) {
        self.agents.extend(other.agents.iter().cloned());
        self.adapters.extend(other.adapters.iter().cloned());
        self.profiles.extend(other.profiles.iter().cloned());
        self.token_keys.extend(other.token_keys.iter().cloned());
    }

    fn add(&mut self, act: &Act) {
        self.agents.insert(act.handoff.receiver.clone());
        if !act.handoff.profile.is_empty() {
            self.profiles.insert(act.handoff.profile.clone());
        }
        let Some(offer) = act.offer() else { return };
        self.adapters.insert(offer.frozen.adapter.clone());
        // The token of the current statement is given again on request; older ones are only recognised, by their hash.
        let current = act.tokens.iter().find(|t| t.attempt == offer.attempt);
        self.token_keys.extend(current.map(|t| t.key_id.clone()));
    }
}

impl Engine {
    /// What this daemon has.
    #[must_use]
    pub fn serves(&self) -> Needs {
        Needs {
            agents: self.config.agents.iter().cloned().collect(),
            adapters: self.adapters().into_iter().map(|a| a.description.name).collect(),
            profiles: self.profiles.names().map(str::to_owned).collect(),
            token_keys: self.token_key_ids(),
        }
    }

    /// Refuses where an open act needs what this daemon does not have. `had` is what it had when it last looked: nothing
    /// open can need anything else.
    pub(crate) async fn check_orphans(&self, had: Option<&Needs>) -> Result<(), StartError> {
        let serves = self.serves();
        if had.is_some_and(|had| had.missing_from(&serves).is_empty()) {
            return Ok(());
        }
        let missing = self.needed_by_open_acts().await?.missing_from(&serves);
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        if self.config.orphan {
            tracing::warn!(missing, "serving although open acts need what is not configured");
            return Ok(());
        }
        Err(StartError::Orphans(missing))
    }

    async fn needed_by_open_acts(&self) -> Result<Needs, StartError> {
        let mut needed = Needs::default();
        let mut filter = Filter {
            states: State::ALL.into_iter().filter(|s| !s.is_final()).collect(),
            limit: 500,
            ..Filter::default()
        };
        loop {
            let page = self.keeper.acts(&filter).await?;
            page.items.iter().for_each(|act| needed.add(act));
            match page.next {
                Some(next) => filter.page_token = Some(next),
                None => return Ok(needed),
            }
        }
    }
}
