//! The registry: from the configuration to the adapters it asks for, in the order in which they are asked.
//!
//! To add one: a field in [`crate::config::Adapters`], a few lines in `wilcod.toml`, and a paragraph here.

use std::path::Path;
use std::sync::Arc;

use adapter_bank::{BankAdapter, BankConfig};
use adapter_sim::SimAdapter;
use wilco_adapter::Adapter;
use wilco_core::Clock;

use crate::config;

/// Whether any adapter points at the lab.
#[must_use]
pub fn want_lab(adapters: &config::Adapters) -> bool {
    adapters.bank.as_ref().is_some_and(BankConfig::wants_lab)
}

/// Makes the configured adapters. `lab_url` is where the lab answers, if one was started.
///
/// # Errors
/// One sentence naming the field and its rule.
pub fn make(
    adapters: &config::Adapters,
    data: &Path,
    lab_url: Option<&str>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Arc<dyn Adapter>>, String> {
    let mut made: Vec<Arc<dyn Adapter>> = Vec::new();
    if let Some(bank) = &adapters.bank {
        let bank = in_folder(bank.clone(), data);
        let bank = match lab_url {
            Some(url) => bank.point_at_lab(url),
            None => bank,
        };
        made.push(Arc::new(
            BankAdapter::new(&bank, Arc::clone(clock)).map_err(|e| e.to_string())?,
        ));
    }
    if let Some(sim) = &adapters.sim {
        made.push(Arc::new(
            SimAdapter::new(sim, Arc::clone(clock)).map_err(|e| e.to_string())?,
        ));
    }
    Ok(made)
}

// Paths in wilcod.toml are counted from the data folder, wherever the daemon was started.
fn in_folder(mut bank: BankConfig, data: &Path) -> BankConfig {
    for path in [
        &mut bank.token_file,
        &mut bank.ca_file,
        &mut bank.client_cert_file,
        &mut bank.client_key_file,
    ]
    .into_iter()
    .flatten()
    {
        *path = data.join(&*path);
    }
    if bank.payees != adapter_bank::LAB && !bank.payees.contains("://") && !bank.payees.is_empty() {
        bank.payees = data.join(&bank.payees).to_string_lossy().into_owned();
    }
    bank
}
