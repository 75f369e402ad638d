//! Everybody in the lab, and the faults armed at each.

use std::{io, sync::Arc};

use thiserror::Error;

use crate::{
    bank::Bank,
    board::{ARMED_MAX, Armed, Board},
    fault,
    git::GitRemote,
    knob::{Counterparty, FaultProblem, FaultSpec, Knob},
    mail::{MailDrop, MailFault},
    releases::Releases,
    shots::{Row, SHOTS_MAX, Shots},
    vendors::Vendors,
};

/// The counterparties of one lab. The bank is always there, the others where they were asked for.
#[derive(Debug)]
pub struct Counterparties {
    pub bank: Arc<Bank>,
    pub vendors: Option<Vendors>,
    pub mail: Option<MailDrop>,
    pub git: Option<GitRemote>,
    /// Why there is no git remote though one was asked for.
    pub git_problem: Option<String>,
    pub releases: Option<Releases>,
}

/// Why a fault was not armed, or what is armed cannot be told.
#[derive(Debug, Error)]
pub enum ArmError {
    /// This lab has no such counterparty.
    #[error("{}: {why}", counterparty.word())]
    NotHere {
        /// Who.
        counterparty: Counterparty,
        /// Why not.
        why: String,
    },
    /// Too many are armed already.
    #[error("{max} faults are armed at {}; clear them first (DELETE /lab/faults)", counterparty.word())]
    Full {
        /// At whom.
        counterparty: Counterparty,
        /// How many one has room for.
        max: usize,
    },
    /// The vendor table could not be told.
    #[error("the vendor table cannot be reached: {0}")]
    Vendors(#[from] sqlx::Error),
    /// The folder of armed faults could not be written or read.
    #[error("the folder of armed faults cannot be used: {0}")]
    Folder(#[from] io::Error),
    /// What is armed is not what can be armed.
    #[error("the folder of armed faults holds something else: {0}")]
    Foreign(#[from] FaultProblem),
}

impl Counterparties {
    /// Arms a fault; it is in force once this returns.
    pub async fn arm(&self, spec: &FaultSpec) -> Result<(), ArmError> {
        let counterparty = spec.counterparty();
        let room = |room: bool, max: usize| {
            if room {
                Ok(())
            } else {
                Err(ArmError::Full { counterparty, max })
            }
        };
        match spec.knob {
            Knob::Bank(endpoint, fault) => {
                let armed = fault::Armed {
                    endpoint,
                    fault,
                    times: spec.times,
                    delay: spec.delay(),
                };
                room(self.bank.faults.arm(armed), fault::ARMED_MAX)?;
            }
            Knob::Mail(fault) => {
                let armed = Armed {
                    fault,
                    times: spec.times,
                    delay: spec.delay(),
                };
                room(self.mail_board()?.arm(armed), ARMED_MAX)?;
            }
            Knob::Vendors(fault) => self.vendors()?.arm(fault, spec.times, spec.seconds).await?,
            Knob::Git(fault) => {
                let armed = self.git()?.shots().arm(fault.word(), spec.times, spec.delay())?;
                room(armed, SHOTS_MAX)?;
            }
            Knob::Releases(fault) => {
                let armed = self
                    .releases()?
                    .shots()
                    .arm(fault.word(), spec.times, spec.delay())?;
                room(armed, SHOTS_MAX)?;
            }
        }
        tracing::info!(fault = %spec, "fault armed");
        Ok(())
    }

    /// What is armed: the bank's, then each other's, oldest first.
    pub async fn armed(&self) -> Result<Vec<FaultSpec>, ArmError> {
        let mut specs: Vec<FaultSpec> = self
            .bank
            .faults
            .armed()
            .into_iter()
            .map(|armed| FaultSpec {
                knob: Knob::Bank(armed.endpoint, armed.fault),
                times: armed.times,
                seconds: Some(armed.delay),
            })
            .collect();
        if let Some(vendors) = &self.vendors {
            let armed = vendors.armed().await?;
            specs.extend(armed.into_iter().map(|(fault, times, left)| FaultSpec {
                knob: Knob::Vendors(fault),
                times: times.unwrap_or(1),
                seconds: left,
            }));
        }
        if let Some(mail) = &self.mail {
            let armed = mail.faults().list();
            specs.extend(armed.into_iter().map(|armed| FaultSpec {
                knob: Knob::Mail(armed.fault),
                times: armed.times,
                seconds: Some(armed.delay),
            }));
        }
        if let Some(git) = &self.git {
            specs.extend(shots(Counterparty::Git, git.shots())?);
        }
        if let Some(releases) = &self.releases {
            specs.extend(shots(Counterparty::Releases, releases.shots())?);
        }
        Ok(specs)
    }

    /// Disarms everything, everywhere.
    pub async fn clear(&self) -> Result<(), ArmError> {
        self.bank.faults.clear();
        if let Some(mail) = &self.mail {
            mail.faults().clear();
        }
        if let Some(git) = &self.git {
            git.shots().clear()?;
        }
        if let Some(releases) = &self.releases {
            releases.shots().clear()?;
        }
        if let Some(vendors) = &self.vendors {
            vendors.clear().await?;
        }
        Ok(())
    }

    /// The vendor table.
    pub fn vendors(&self) -> Result<&Vendors, ArmError> {
        self.vendors
            .as_ref()
            .ok_or_else(|| not_here(Counterparty::Vendors))
    }

    /// The mail drop.
    pub fn mail(&self) -> Result<&MailDrop, ArmError> {
        self.mail.as_ref().ok_or_else(|| not_here(Counterparty::Mail))
    }

    /// The git remote.
    pub fn git(&self) -> Result<&GitRemote, ArmError> {
        self.git.as_ref().ok_or_else(|| match &self.git_problem {
            Some(why) => ArmError::NotHere {
                counterparty: Counterparty::Git,
                why: why.clone(),
            },
            None => not_here(Counterparty::Git),
        })
    }

    /// The release folder.
    pub fn releases(&self) -> Result<&Releases, ArmError> {
        self.releases
            .as_ref()
            .ok_or_else(|| not_here(Counterparty::Releases))
    }

    fn mail_board(&self) -> Result<&Board<MailFault>, ArmError> {
        self.mail().map(MailDrop::faults)
    }
}

fn shots(counterparty: Counterparty, shots: &Shots) -> Result<Vec<FaultSpec>, ArmError> {
    let spec = |row: Row| {
        Ok(FaultSpec {
            knob: Knob::named(counterparty.word(), None, Some(&row.word))?,
            times: row.times,
            seconds: Some(row.delay),
        })
    };
    shots.list()?.into_iter().map(spec).collect()
}

fn not_here(counterparty: Counterparty) -> ArmError {
    ArmError::NotHere {
        counterparty,
        why: "this lab was started without it".into(),
    }
}
