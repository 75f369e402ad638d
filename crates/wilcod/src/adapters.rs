//! The registry: from the configuration to the adapters it asks for, in the order in which they are asked.
//!
//! To add one: a field in [`crate::config::Adapters`], a few lines in `wilcod.toml`, and one in [`make`]. Where the
//! configuration says `lab`, the counterparty beside the daemon is meant; which of its fields may say so stands in
//! [`wanted`] and [`pointed_at`].

use std::path::Path;
use std::sync::Arc;

use adapter_bank::{BankAdapter, BankConfig};
use adapter_deploy::{DeployAdapter, TargetConfig};
use adapter_mail::MailAdapter;
use adapter_records::RecordsAdapter;
use adapter_sim::SimAdapter;
use wilco_adapter::Adapter;
use wilco_core::Clock;
use wilco_lab::{ARTEFACTS_FOLDER, LIVE_FOLDER, Lab};

use crate::config::Adapters;
use crate::lab::Wanted;

/// What stands in the configuration for the counterparty beside the daemon.
const LAB: &str = "lab";

/// Which counterparties of the lab the adapters point at.
#[must_use]
pub fn wanted(adapters: &Adapters) -> Wanted {
    let targets = || adapters.deploy.iter().flat_map(|d| d.targets.values());
    let folder = |target: &TargetConfig| match target {
        TargetConfig::Git(_) => false,
        TargetConfig::Folder(folder) => is_lab(&folder.folder) || is_lab(&folder.artefacts),
    };
    let git = |target: &TargetConfig| matches!(target, TargetConfig::Git(git) if git.remote == LAB);
    Wanted {
        bank: adapters.bank.as_ref().is_some_and(BankConfig::wants_lab),
        mail: adapters.mail.as_ref().is_some_and(|mail| mail.transport == LAB),
        vendors: adapters.records.as_ref().is_some_and(|r| is_lab(&r.path)),
        releases: targets().any(folder),
        git: targets().any(git),
    }
}

/// Makes the configured adapters. None of them asks its counterparty anything yet: one that is down is found out later, and
/// stops nothing but its own acts.
///
/// # Errors
/// One sentence naming the field and its rule.
pub fn make(
    adapters: &Adapters,
    data: &Path,
    lab: Option<&Lab>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Arc<dyn Adapter>>, String> {
    let adapters = pointed_at(adapters.clone(), lab)?;
    let clock = || Arc::clone(clock);
    let mut made: Vec<Arc<dyn Adapter>> = Vec::new();
    if let Some(bank) = adapters.bank {
        let bank = bank.in_folder(data);
        made.push(Arc::new(BankAdapter::new(&bank, clock()).map_err(said)?));
    }
    if let Some(mail) = adapters.mail {
        let mail = mail.in_folder(data);
        made.push(Arc::new(MailAdapter::new(&mail, clock()).map_err(said)?));
    }
    if let Some(records) = adapters.records {
        let records = records.in_folder(data);
        made.push(Arc::new(RecordsAdapter::new(&records, clock()).map_err(said)?));
    }
    if let Some(deploy) = adapters.deploy {
        let deploy = deploy.in_folder(data);
        made.push(Arc::new(DeployAdapter::new(&deploy, clock()).map_err(said)?));
    }
    if let Some(sim) = adapters.sim {
        made.push(Arc::new(SimAdapter::new(&sim, clock()).map_err(said)?));
    }
    Ok(made)
}

#[allow(clippy::needless_pass_by_value)] // what `map_err` hands over
fn said(error: impl std::error::Error) -> String {
    error.to_string()
}

/// The configuration with the lab's addresses and paths in place of the word.
fn pointed_at(mut adapters: Adapters, lab: Option<&Lab>) -> Result<Adapters, String> {
    let Some(lab) = lab else {
        return Ok(adapters);
    };
    adapters.bank = adapters.bank.map(|bank| bank.point_at_lab(&lab.url()));
    if let Some(mail) = &mut adapters.mail
        && mail.transport == LAB
    {
        let at = lab
            .mail_addr()
            .ok_or("[adapters.mail] transport: the lab has no mail drop")?;
        mail.point_at(at);
    }
    if let Some(records) = &mut adapters.records
        && is_lab(&records.path)
    {
        let path = lab
            .vendors_path()
            .ok_or("[adapters.records] path: the lab has no vendor table")?;
        records.path = path.to_owned();
    }
    for (name, target) in adapters.deploy.iter_mut().flat_map(|d| &mut d.targets) {
        deploy_at(target, lab).map_err(|why| format!("[adapters.deploy.targets.{name}] {why}"))?;
    }
    Ok(adapters)
}

fn deploy_at(target: &mut TargetConfig, lab: &Lab) -> Result<(), String> {
    match target {
        TargetConfig::Git(git) if git.remote == LAB => {
            let path = lab.git_path().ok_or_else(|| {
                let why = lab.git_problem().unwrap_or_default();
                format!("remote: the lab has no git remote: {why}")
            })?;
            git.remote = path.to_string_lossy().into_owned();
        }
        TargetConfig::Git(_) => {}
        TargetConfig::Folder(folder) => {
            let releases = || lab.releases_path().ok_or("folder: the lab has no release folder");
            if is_lab(&folder.folder) {
                let target = format!("{}-{}", folder.service, folder.env.to_lowercase());
                folder.folder = releases()?.join(LIVE_FOLDER).join(target);
                // A target's folder has to be there; the lab's is ours to make.
                std::fs::create_dir_all(&folder.folder)
                    .map_err(|e| format!("folder: {} cannot be made: {e}", folder.folder.display()))?;
            }
            if is_lab(&folder.artefacts) {
                folder.artefacts = releases()?.join(ARTEFACTS_FOLDER);
            }
        }
    }
    Ok(())
}

fn is_lab(path: &Path) -> bool {
    path == Path::new(LAB)
}
