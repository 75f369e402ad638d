//! A branch of a git remote. What the branch points at is what runs.
//!
//! One push moves two refs, and the remote takes both or none (`--atomic`):
//!
//! ```text
//! refs/heads/prod            the stated old commit -> the stated new one      (a lease: else it is refused)
//! refs/wilco/<act>           nothing -> a tag object that holds the plan      (must not exist: else it is refused)
//! ```
//!
//! So a lookup asks for our own ref and not for the branch's head, which others may move to the same commit or back; and the
//! same bytes again are refused for ever, also after the branch was moved back to where it was.
//!
//! `run` calls git, `gate` stands between its connection and its first byte, `parse` reads what it prints; `resolve` and
//! `execute` are the two halves of an act.

mod execute;
mod gate;
mod parse;
mod resolve;
mod run;

use std::path::PathBuf;
use std::time::Duration;

use wilco_adapter::{Found, Ready};
use wilco_core::Frozen;

use crate::config::{Checked, CheckedGit, Place};
use crate::plan::{Plan, Seen, clean};
use parse::Ref;

pub(crate) use parse::plan_in;
#[cfg(test)]
pub(crate) use parse::record_of;

/// The word for what is frozen for such a target.
pub(crate) const METHOD: &str = "push";

/// How long a reading of the remote may take beside a push, at most.
const READ: Duration = Duration::from_secs(20);

/// How long the remote may take to say that it is there.
const HEALTH: Duration = Duration::from_secs(5);

/// One branch of one remote.
pub(crate) struct Git {
    place: Place,
    config: CheckedGit,
    /// The bare repository pushes are made from.
    repository: PathBuf,
    timeout: Duration,
    /// Set once git has said so.
    is_new_enough: std::sync::OnceLock<()>,
    /// Whoever changes the repository's refs holds it.
    one: tokio::sync::Mutex<()>,
}

impl Git {
    pub fn new(place: &Place, config: &CheckedGit, all: &Checked) -> Git {
        Git {
            repository: std::path::absolute(&all.work)
                .unwrap_or_else(|_| all.work.clone())
                .join(format!("{}.git", place.name)),
            place: place.clone(),
            config: config.clone(),
            timeout: all.timeout,
            is_new_enough: std::sync::OnceLock::new(),
            one: tokio::sync::Mutex::new(()),
        }
    }

    /// The branch, as a plan names it.
    pub fn at(&self) -> String {
        format!("{} {}", self.config.remote, self.config.branch)
    }

    /// As operators read it.
    pub fn shown(&self) -> String {
        format!("{} of {}", self.config.branch, self.config.remote)
    }

    fn record(&self, act: wilco_core::ActId) -> String {
        format!("{}/{act}", self.config.records)
    }

    /// A tag must still mean the commit that was stated: it is the one kind of name that promises not to move. What a branch
    /// or a commit's first digits meant is settled by the statement.
    pub async fn ready(&self, plan: &Plan) -> Ready {
        if !plan.tag {
            return Ready::Yes;
        }
        let name = format!("refs/tags/{}", plan.ver);
        if let Err(text) = self.ensure().await {
            return Ready::Unknown(text);
        }
        let refs = match self.read_refs(&self.config.source, &[&name], READ).await {
            Ok(refs) => refs,
            Err(text) => return Ready::Unknown(format!("the source: {text}")),
        };
        match parse::tagged(&refs, &name) {
            Some(commit) if commit == plan.to => Ready::Yes,
            now => Ready::Refused {
                text: format!(
                    "tag {} is {} now, and was stated as {}; hand it over anew",
                    plan.ver,
                    now.map_or("gone", |c| c),
                    plan.to
                ),
            },
        }
    }

    /// By our reference: the ref that only the push of this act makes, together with the branch's move.
    pub async fn lookup(&self, frozen: &Frozen, plan: &Plan) -> Found {
        match self.seen(frozen, plan, self.timeout).await {
            Err(text) | Ok(Standing::Strange(text) | Standing::Foreign(text)) => Found::Unknown(text),
            Ok(Standing::Done(seen)) => Found::Executed(plan.report(seen)),
            Ok(Standing::Nothing { head }) => Found::Absent(format!(
                "the remote has no {}; its branch is at {} now",
                self.record(plan.act),
                head.as_deref().unwrap_or("nothing")
            )),
        }
    }

    pub async fn health(&self) -> Result<(), String> {
        let branch = self.config.branch.clone();
        self.ensure().await?;
        let refs = self.read_refs(&self.config.remote, &[&branch], HEALTH).await?;
        self.has_branch(&refs)
    }

    /// The branch is there, or its first deployment may make it.
    fn has_branch(&self, refs: &[Ref]) -> Result<(), String> {
        let branch = &self.config.branch;
        if self.config.create_branch || parse::at(refs, branch).is_some() {
            return Ok(());
        }
        Err(format!(
            "branch: the remote shows no {branch}; make it there, name another, or set create_branch = true if its first \
             deployment is to make it"
        ))
    }

    /// How the act stands at the remote.
    async fn seen(&self, frozen: &Frozen, plan: &Plan, time: Duration) -> Result<Standing, String> {
        let record = self.record(plan.act);
        let branch = self.config.branch.as_str();
        self.ensure().await?;
        let refs = self
            .read_refs(&self.config.remote, &[branch, &record], time)
            .await?;
        let of = |refs: &[Ref]| standing(refs, branch, &record, &frozen.request.key, plan);
        let first = of(&refs);
        let Standing::Nothing { head: Some(head) } = &first else {
            return Ok(first);
        };
        if *head == plan.from {
            return Ok(first);
        }
        // Others have moved the branch: to where we would have brought it, elsewhere instead of us, or on from where we had
        // brought it. Our ref would tell, at a remote that shows such refs; and whether this one does, the refs of other acts
        // tell. Branch and refs are read at once, so that they are about one instant.
        let all = format!("{}/*", self.config.records);
        let refs = self.read_refs(&self.config.remote, &[branch, &all], time).await?;
        let now = of(&refs);
        let Standing::Nothing { head: Some(head) } = &now else {
            return Ok(now);
        };
        let folder = format!("{}/", self.config.records);
        if *head == plan.from || refs.iter().any(|r| r.name.starts_with(&folder)) {
            return Ok(now);
        }
        let is_at = format!("{branch} is at {} now", clean(head, 80));
        Ok(Standing::Strange(if *head == plan.to {
            format!(
                "{is_at} as it should be, but there is no {record}, nor any other ref under {}: either somebody else did it, or \
                 the remote hides such refs",
                self.config.records
            )
        } else {
            format!(
                "{is_at}, not at {}, and the remote shows no ref under {} at all: it may hide them, so that nobody can say \
                 whether it was brought to {} before",
                plan.from, self.config.records, plan.to
            )
        }))
    }
}

/// How an act stands at the remote.
enum Standing {
    /// Our ref is there, with our record in it.
    Done(Seen),
    /// It is not.
    Nothing {
        /// Where the branch is.
        head: Option<String>,
    },
    /// It is not, and that proves nothing.
    Strange(String),
    /// Something else is there under our name.
    Foreign(String),
}

/// Pure: what the remote's refs say of an act.
fn standing(refs: &[Ref], branch: &str, record: &str, key: &str, plan: &Plan) -> Standing {
    let head = parse::at(refs, branch);
    let Some(ours) = parse::at(refs, record) else {
        return match head {
            None if plan.from != parse::NO_OBJECT => Standing::Strange(format!(
                "the remote shows no {branch}, which was there when this was stated: it may be another remote now"
            )),
            head => Standing::Nothing {
                head: head.map(str::to_owned),
            },
        };
    };
    // The id of a tag object is the digest of its bytes: the same id is our record, and with it the stated commit.
    if ours != key || parse::tagged(refs, record).is_some_and(|commit| commit != plan.to) {
        return Standing::Foreign(format!(
            "{record} is there, but is {} and not our record",
            clean(ours, 80)
        ));
    }
    let status = match head {
        Some(head) if head == plan.to => format!("{branch} is at {head}"),
        Some(head) => format!("done, and {branch} was moved on to {} since", clean(head, 80)),
        None => format!("done, and {branch} was deleted since"),
    };
    Standing::Done(Seen {
        ver: plan.ver.clone(),
        to: parse::tagged(refs, record).unwrap_or(&plan.to).to_owned(),
        prev: plan.prev.clone(),
        state: None,
        receipt: ours.to_owned(),
        status,
    })
}
