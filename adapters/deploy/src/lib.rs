//! `DEPLOY`, `ROLLBACK` and `UNDO`: bringing a version into an environment, as a branch of a git remote or as a folder of
//! releases with a `current` link.
//!
//! At both, one indivisible step at the target is the effect and the record of our reference: an atomic push of the branch
//! together with a ref of ours, or the rename of a link that names our act. So there is no instant at which the version runs
//! and nobody can say whose doing it was. How each is done stands in `git` and `folder`; `plan` is what both freeze.
//!
//! What never lives here: a build, a migration, a restart. The thing that runs must follow the branch or the link itself.

mod asked;
mod config;
mod folder;
mod git;
mod plan;
mod program;
mod window;

pub use config::{ConfigError, DeployConfig, FolderConfig, GitConfig, TargetConfig, WindowRule};

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, ResolveError, Served};
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::{ActId, Clock, Contract, Frozen, Resolved, Timestamp};

use asked::{Asked, place_of, refused};
use config::{Checked, CheckedKind, Place};
use folder::Folder;
use git::Git;
use plan::{Plan, clean};

/// The asks served.
const ASKS: [&str; 3] = ["DEPLOY", "ROLLBACK", "UNDO"];

/// How many targets are asked at once whether they answer.
const HEALTH_AT_ONCE: usize = 8;

/// Every configured target.
pub struct DeployAdapter {
    config: Checked,
    targets: Vec<Arc<Target>>,
    clock: Arc<dyn Clock>,
}

struct Target {
    place: Place,
    kind: Kind,
    /// What its trouble was when it was last asked, so that each is logged once; empty when it was well.
    trouble: Mutex<String>,
}

impl Target {
    async fn health(&self) -> Result<(), String> {
        let healthy = match &self.kind {
            Kind::Git(git) => git.health().await,
            Kind::Folder(folder) => folder.health().await,
        };
        let now = healthy.as_ref().err().cloned().unwrap_or_default();
        let mut before = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if *before != now {
            match now.as_str() {
                "" => tracing::info!(target = self.place.name, "the deploy target is well again"),
                text => tracing::warn!(
                    target = self.place.name,
                    "the deploy target is in trouble: {text}"
                ),
            }
            *before = now;
        }
        healthy.map_err(|text| format!("{}: {text}", self.place.name))
    }
}

enum Kind {
    Git(Box<Git>),
    Folder(Folder),
}

impl DeployAdapter {
    /// The adapter for the configured targets. `clock` is the store's: change windows are kept by it. Touches neither
    /// network nor file system.
    ///
    /// # Errors
    /// [`ConfigError`] naming target, field and rule.
    pub fn new(config: &DeployConfig, clock: Arc<dyn Clock>) -> Result<DeployAdapter, ConfigError> {
        let config = config.checked()?;
        let target = |t: &config::CheckedTarget| {
            Arc::new(Target {
                place: t.place.clone(),
                trouble: Mutex::default(),
                kind: match &t.kind {
                    CheckedKind::Git(git) => Kind::Git(Box::new(Git::new(&t.place, git, &config))),
                    CheckedKind::Folder(folder) => {
                        Kind::Folder(Folder::new(&t.place, folder, config.timeout, &config.work))
                    }
                },
            })
        };
        Ok(DeployAdapter {
            targets: config.targets.iter().map(target).collect(),
            config,
            clock,
        })
    }

    /// The contract for every ask: what both kinds of target keep.
    fn contract(&self) -> Contract {
        Contract {
            // Our ref may be made once, our link's name may be taken once: refused for ever after, whatever moves back.
            identity: Identity::Enforced,
            lookup: LookupBy::Reference,
            settle_window_s: self.config.settle_window_s,
            // The compare-and-swap refuses late bytes only while the target is not moved back to where it was.
            late_send: LateSend::Accepted,
            reversal: Reversal::NewAct,
            point_of_no_return: "git: the answer of the pre-push gate, given when the remote has shown its refs and \
                                 before any byte of the push; folder: the rename of the current link. A failure before \
                                 is certainly no deployment, any after is in doubt"
                .to_owned(),
            not_found_means: "git: the remote answers, shows the branch, and has no ref of this act. folder: the act's \
                              link was never made, asked under the lock of the folder with the stated id. A remote that lags, or from which \
                              refs/wilco was deleted, or a folder put back from a \
                              backup, would say the same"
                .to_owned(),
            reversal_until_s: None,
            cut_off: "the end of the change window, in the target's own time".to_owned(),
        }
    }

    fn target(&self, item: &str, env: &str) -> Option<&Target> {
        let service = item.strip_prefix("svc:")?;
        let of_job = |t: &&Arc<Target>| t.place.service == service && t.place.env == env;
        self.targets.iter().find(of_job).map(Arc::as_ref)
    }

    /// The target of a frozen act, and its plan: only if the configuration still means the same place by it.
    fn planned(&self, act: ActId, frozen: &Frozen) -> Result<(&Target, Plan), String> {
        let plan = plan_of(frozen)?;
        if plan.act != act {
            return Err("the frozen plan is another act's".to_owned());
        }
        let target = self.targets.iter().find(|t| t.place.name == plan.target);
        let target = target.ok_or_else(|| format!("target {} is not configured any more", plan.target))?;
        let at = match &target.kind {
            Kind::Git(git) => git.at(),
            Kind::Folder(folder) => folder.at(),
        };
        if at != plan.place
            || format!("svc:{}", target.place.service) != plan.item
            || target.place.env != plan.env
        {
            return Err(format!(
                "target {} was another place when this was stated",
                plan.target
            ));
        }
        Ok((target, plan))
    }
}

/// The plan that was frozen. At a git target it is the text of a tag, at a folder the text itself.
pub(crate) fn plan_of(frozen: &Frozen) -> Result<Plan, String> {
    match frozen.request.method.as_str() {
        git::METHOD => git::plan_in(&frozen.request.body),
        folder::METHOD => Plan::from_json(&frozen.request.body),
        other => Err(format!("{} is nothing this adapter froze", clean(other, 20))),
    }
}

#[async_trait]
impl Adapter for DeployAdapter {
    fn describe(&self) -> Description {
        let served = |ask: &str| Served {
            profile: "deploy".to_owned(),
            ask: ask.to_owned(),
            carried: asked::carried(ask).map(str::to_owned).collect(),
            contract: self.contract(),
        };
        let shown = |t: &Arc<Target>| match &t.kind {
            Kind::Git(git) => format!("{}: {}", t.place.name, git.shown()),
            Kind::Folder(folder) => format!("{}: {}", t.place.name, folder.at()),
        };
        let targets: Vec<String> = self.targets.iter().map(shown).collect();
        Description {
            name: "deploy".to_owned(),
            counterparty: targets.join(", "),
            serves: ASKS.map(served).to_vec(),
            concurrency: self.config.concurrency,
        }
    }

    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        if job.profile != "deploy"
            || !ASKS.contains(&job.ask.as_str())
            || (job.ask == "UNDO") != job.undo.is_some()
        {
            let text = format!(
                "deploy targets know ask=DEPLOY, ROLLBACK and UNDO, not {}",
                clean(&job.ask, 30)
            );
            return Err(refused("NOCAP", text));
        }
        let (item, env, undone) = place_of(job)?;
        let target = self.target(&item, &env).ok_or_else(|| {
            let text = format!(
                "no target is configured for item={} env={}; name one under [adapters.deploy.targets]",
                clean(&item, 60),
                clean(&env, 20)
            );
            refused("SCOPE", text)
        })?;
        let asked = Asked::read(job, &target.place, env, undone)?;
        let resolved = match &target.kind {
            Kind::Git(git) => git.resolve(job, &asked).await,
            Kind::Folder(folder) => folder.resolve(job, &asked).await,
        };
        resolved.map_err(|e| match e {
            ResolveError::Passing(text) => {
                ResolveError::Passing(format!("target {}: {text}", target.place.name))
            }
            refused => refused,
        })
    }

    async fn ready(&self, act: ActId, frozen: &Frozen) -> Ready {
        let (target, plan) = match self.planned(act, frozen) {
            Ok(planned) => planned,
            Err(text) => return Ready::Unknown(text),
        };
        if self.clock.now() < plan.opens {
            return Ready::NotYet {
                from: plan.opens,
                text: "the change window has not opened".to_owned(),
            };
        }
        match &target.kind {
            Kind::Git(git) => git.ready(&plan).await,
            Kind::Folder(folder) => folder.ready(&plan).await,
        }
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        let (target, plan) = match self.planned(permit.act_id(), frozen) {
            Ok(planned) => planned,
            Err(text) => return Outcome::NotSent(text),
        };
        if self.clock.now() < plan.opens {
            return Outcome::NotSent(format!("the window opens at {}", plan.opens.to_rfc3339()));
        }
        match &target.kind {
            Kind::Git(git) => git.execute(&permit, frozen, &plan).await,
            Kind::Folder(folder) => folder.execute(permit, frozen.request.body.clone(), plan).await,
        }
    }

    async fn lookup(
        &self,
        act: ActId,
        frozen: &Frozen,
        _first_sent_at: Timestamp,
        _receipt: Option<&str>,
    ) -> Found {
        match self.planned(act, frozen) {
            Err(text) => Found::Unknown(text),
            Ok((target, plan)) => match &target.kind {
                Kind::Git(git) => git.lookup(frozen, &plan).await,
                Kind::Folder(folder) => folder.lookup(frozen.request.body.clone(), plan).await,
            },
        }
    }

    /// Nothing to withdraw at a target: a release that was unpacked and not used moves nothing, and may be another act's too.
    async fn release(&self, act: ActId, frozen: &Frozen) {
        tracing::debug!(%act, target = frozen.request.path, "nothing was placed at the target; what was unpacked stays");
    }

    /// Fails only where no target answers: one remote that is down must not keep the others from being deployed to.
    async fn health(&self) -> Result<(), String> {
        let places = Arc::new(tokio::sync::Semaphore::new(HEALTH_AT_ONCE));
        let mut asked = tokio::task::JoinSet::new();
        for target in &self.targets {
            let (target, places) = (Arc::clone(target), Arc::clone(&places));
            asked.spawn(async move {
                let _place = places.acquire().await;
                target.health().await
            });
        }
        let mut down = Vec::new();
        while let Some(said) = asked.join_next().await {
            match said {
                Ok(Ok(())) => {
                    // The others are asked to the end, for the log.
                    asked.detach_all();
                    return Ok(());
                }
                Ok(Err(text)) => down.push(text),
                Err(e) => down.push(e.to_string()),
            }
        }
        Err(clean(&down.join("; "), 500))
    }
}
