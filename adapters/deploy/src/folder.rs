//! A folder of releases with a `current` link. Where the link leads is what runs.
//!
//! ```text
//! current -> acts/<act>                      what runs, and whose doing that is, in one link
//! acts/<act> -> ../releases/v2-4f2a90c1b7de  made once for an act, and never again
//! acts/<act>.json                            the plan, the frozen bytes
//! acts/<act>.done                            written after the switch
//! acts/.id                                   which folder this is; made once
//! next.<act> -> acts/<act>                   the link that is renamed to `current`
//! releases/v2-4f2a90c1b7de/                  unpacked at prepare, never changed
//! wilco.lock                                 held by whoever switches or looks
//! ```
//!
//! Under the lock: the plan is written; `next.<act>` is made; `acts/<act>` is made, which can succeed once only; `current` is
//! compared with what was stated; and `next.<act>` is renamed to `current`. That one rename is the effect, and it uses up its
//! own proof. So after a death between any two steps the folder says what happened:
//!
//! | `acts/<act>` | `next.<act>` | |
//! |---|---|---|
//! | missing | either | not begun: it may still be done |
//! | there | there | begun and not switched. Nobody takes it up again, so it never will be |
//! | there | gone | switched, as `current` or `acts/<act>.done` shows too |
//!
//! `identity` tells this folder from another in its place; `release` is what can run, `unpack` and `tree` make and measure it; `resolve` and `switch` are the two halves of an act.

mod identity;
mod release;
mod resolve;
mod switch;
mod tree;
mod unpack;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wilco_adapter::{Found, Job, Outcome, Permit, Ready, ResolveError};
use wilco_core::Resolved;

use crate::asked::{Asked, passing};
use crate::config::{CheckedFolder, Place};
use crate::plan::{Plan, clean};
use crate::program::{self, Call, Ended, Failure};

/// The word for what is frozen for such a target.
pub(crate) const METHOD: &str = "switch";

/// How long a lookup waits for the lock, at most.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The most output of a health program that is read, in bytes.
const HEALTH_OUTPUT_MAX: usize = 64 * 1024;

/// One release folder.
pub(crate) struct Folder {
    site: Arc<Site>,
    /// One preparation at a time: it may unpack gigabytes.
    one: tokio::sync::Mutex<()>,
}

/// What work on the folder needs, on whatever thread it runs.
pub(crate) struct Site {
    place: Place,
    config: CheckedFolder,
    timeout: Duration,
    /// Where the daemon keeps which folder it knew last.
    memory: PathBuf,
}

impl Folder {
    /// `work`: the adapter's own folder, in the data folder.
    pub fn new(place: &Place, config: &CheckedFolder, timeout: Duration, work: &Path) -> Folder {
        let mut config = config.clone();
        config.folder = std::path::absolute(&config.folder).unwrap_or(config.folder);
        Folder {
            site: Arc::new(Site {
                place: place.clone(),
                config,
                timeout,
                memory: identity::memory_of(work, &place.name),
            }),
            one: tokio::sync::Mutex::new(()),
        }
    }

    /// The folder, as a plan names it.
    pub fn at(&self) -> String {
        self.site.config.folder.display().to_string()
    }

    pub async fn resolve(&self, job: &Job, asked: &Asked) -> Result<Resolved, ResolveError> {
        let _one = self.one.lock().await;
        let (site, job, asked) = (Arc::clone(&self.site), job.clone(), asked.clone());
        let done = tokio::task::spawn_blocking(move || site.resolve(&job, &asked)).await;
        done.unwrap_or_else(|e| Err(passing(format!("preparing ended abnormally: {e}"))))
    }

    /// Whether it is the folder that was stated: another one, or none, says nothing of it.
    pub async fn ready(&self, plan: &Plan) -> Ready {
        let (site, plan) = (Arc::clone(&self.site), plan.clone());
        let stated = tokio::task::spawn_blocking(move || site.is_the_stated(&plan)).await;
        match stated.unwrap_or_else(|e| Err(format!("looking ended abnormally: {e}"))) {
            Ok(()) => Ready::Yes,
            Err(text) => Ready::Unknown(text),
        }
    }

    pub async fn execute(&self, permit: Permit, body: String, plan: Plan) -> Outcome {
        let site = Arc::clone(&self.site);
        let switched = tokio::task::spawn_blocking(move || {
            let outcome = site.switch(&permit, &body, &plan);
            wilco_failpoint::reach!("send.answered");
            (outcome, plan)
        });
        let (switched, plan) = match switched.await {
            Ok(switched) => switched,
            Err(e) => return Outcome::Unknown(format!("the switch ended abnormally: {e}")),
        };
        match switched {
            Ok(mut seen) => {
                if let Some((state, words)) = self.health_after(&plan).await {
                    seen.state = state.map(str::to_owned);
                    seen.status = format!("{}; {words}", seen.status);
                }
                Outcome::Executed(plan.report(seen))
            }
            Err(outcome) => outcome,
        }
    }

    /// By our reference: the link that only this act makes. Asked under the lock, so that nobody is in the middle of it.
    pub async fn lookup(&self, body: String, plan: Plan) -> Found {
        let site = Arc::clone(&self.site);
        let found = tokio::task::spawn_blocking(move || site.look(&body, &plan)).await;
        found.unwrap_or_else(|e| Found::Unknown(format!("looking ended abnormally: {e}")))
    }

    pub async fn health(&self) -> Result<(), String> {
        let site = Arc::clone(&self.site);
        let live = tokio::task::spawn_blocking(move || {
            site.is_there()?;
            site.is_known()?;
            site.live()?;
            site.has_artefacts()?;
            site.has_health()
        });
        live.await.unwrap_or_else(|e| Err(e.to_string()))
    }

    /// How the service does after the switch, if it is asked: the code of the slot `state`, and words.
    async fn health_after(&self, plan: &Plan) -> Option<(Option<&'static str>, String)> {
        let config = &self.site.config;
        let (program, arguments) = config.health.as_ref()?.split_first()?;
        let call = Call {
            program,
            arguments: arguments.to_vec(),
            environment: vec![
                ("WILCO_ACT".to_owned(), plan.act.to_string()),
                ("WILCO_ENV".to_owned(), plan.env.clone()),
                ("WILCO_VER".to_owned(), plan.ver.clone()),
            ],
            folder: Some(&config.folder),
            input: String::new(),
            time: config.health_timeout,
            output_max: HEALTH_OUTPUT_MAX,
        };
        Some(match program::run(call).await {
            Ok(Ended { code: Some(0), .. }) => (Some("UP"), "healthy".to_owned()),
            Ok(Ended { code: Some(10), .. }) => {
                (Some("DEGRADED"), "the health program ended with 10".to_owned())
            }
            // So says `timeout`, which runs it: no such program, or one that cannot be run.
            Ok(Ended {
                code: Some(code @ (126 | 127)),
                ..
            }) => (None, format!("the health program could not be run ({code})")),
            Ok(Ended { code: Some(code), .. }) => {
                (Some("DOWN"), format!("the health program ended with {code}"))
            }
            Ok(Ended { code: None, .. }) => (Some("DOWN"), "the health program was killed".to_owned()),
            Err(Failure::TimedOut(..)) => (Some("DOWN"), "the health program did not end in time".to_owned()),
            Err(failure) => (None, failure.to_string()),
        })
    }
}

impl Site {
    fn root(&self) -> &Path {
        &self.config.folder
    }

    fn current(&self) -> PathBuf {
        self.root().join("current")
    }

    fn releases(&self) -> PathBuf {
        self.root().join("releases")
    }

    fn acts(&self) -> PathBuf {
        self.root().join("acts")
    }

    /// The artefacts' folder is there.
    fn has_artefacts(&self) -> Result<(), String> {
        let at = &self.config.artefacts;
        if at.is_dir() {
            return Ok(());
        }
        Err(format!(
            "artefacts: {} is not there; mount it or name another",
            at.display()
        ))
    }

    /// The health program is there, as far as that can be known before a release is: what is named by a path that counts from
    /// the folder may come with it.
    fn has_health(&self) -> Result<(), String> {
        let Some(program) = self.config.health.as_ref().and_then(|words| words.first()) else {
            return Ok(());
        };
        let found = if Path::new(program).is_absolute() {
            is_program(Path::new(program))
        } else if program.contains('/') {
            true
        } else {
            program::paths().any(|folder| is_program(&folder.join(program)))
        };
        if found {
            return Ok(());
        }
        Err(format!(
            "health: there is no program {}; name one by its path, or put it on the PATH",
            clean(program, 200)
        ))
    }

    fn until(&self) -> Instant {
        Instant::now() + self.timeout
    }
}

fn is_program(at: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(at).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
