//! How a list is read: which index is walked, and by what.

use wilco_core::State;

use crate::page;
use crate::{Filter, StoreError};

/// Sorts after every act id.
const NO_ACT: &str = "g";

/// Which index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    All,
    Thread,
    State,
    Sender,
}

/// A list to be read: one walk for each key, merged afterwards.
///
/// A list of several states or senders is as many walks as there are of them: each in its index's order, none of them
/// sorting what it does not answer.
pub(crate) struct Walk {
    pub(crate) way: Way,
    /// What the index is walked by, once each; `None` for all of it.
    pub(crate) keys: Vec<Option<String>>,
    /// Only acts before this one.
    pub(crate) before: String,
    /// How many rows a page holds.
    pub(crate) size: u32,
    /// JSON arrays of what is asked for; `None` for all.
    pub(crate) senders: Option<String>,
    pub(crate) states: Option<String>,
}

impl Walk {
    /// The walk for this filter.
    ///
    /// # Errors
    /// `PageToken` where the token is not one of ours.
    pub(crate) fn of(filter: &Filter) -> Result<Walk, StoreError> {
        let before = page::act_token(filter.page_token.as_deref())?;
        let every_state = State::ALL.iter().all(|s| filter.states.contains(s));
        let states: Vec<&str> = match every_state {
            true => Vec::new(),
            false => filter.states.iter().map(|s| s.as_str()).collect(),
        };
        let one_each = |names: Vec<String>| {
            let mut names = names;
            names.sort_unstable();
            names.dedup();
            names.into_iter().map(Some).collect()
        };
        let (way, keys) = match (&filter.thread, &filter.senders) {
            (Some(thread), _) => (Way::Thread, vec![Some(thread.clone())]),
            (None, _) if !states.is_empty() => {
                let names = states.iter().map(|&s| s.to_owned()).collect();
                (Way::State, one_each(names))
            }
            (None, Some(senders)) => (Way::Sender, one_each(senders.clone())),
            (None, None) => (Way::All, vec![None]),
        };
        let json = |names: &[&str]| serde_json::to_string(names).map_err(|e| StoreError::Down(e.to_string()));
        let senders: Option<Vec<&str>> = filter
            .senders
            .as_ref()
            .map(|s| s.iter().map(String::as_str).collect());
        Ok(Walk {
            way,
            keys,
            before: before.map_or_else(|| NO_ACT.to_owned(), |id| id.to_string()),
            size: page::size(filter.limit),
            senders: senders.map(|s| json(&s)).transpose()?,
            states: if states.is_empty() {
                None
            } else {
                Some(json(&states)?)
            },
        })
    }
}
