//! Prepare at a git remote: which commit the version is, what runs now, and whether the remote would take the push.

use std::path::Path;
use std::time::Duration;

use wilco_adapter::{Job, ResolveError};
use wilco_core::Resolved;
use wilco_core::frozen::Request;

use super::parse::{self, NO_OBJECT, Ref};
use super::{Git, METHOD};
use crate::asked::{Asked, Evidence, Named, Want, passing, refused};
use crate::plan::{NOTHING, Plan, clean};

/// How many of the records that speak of one commit are read, newest first.
const RECORDS_READ: usize = 64;

/// What a name means at the source.
struct Meaning {
    commit: String,
    /// `tag`, `branch` or `commit`.
    kind: &'static str,
}

impl Git {
    pub async fn resolve(&self, job: &Job, asked: &Asked) -> Result<Resolved, ResolveError> {
        // One at a time: the repository's refs are changed here.
        let _one = self.one.lock().await;
        self.ensure().await.map_err(passing)?;
        let remote = |e: String| passing(format!("the remote: {e}"));
        let records = format!("{}/*", self.config.records);
        let refs = self
            .read_refs(
                &self.config.remote,
                &[&self.config.branch, &records],
                self.timeout,
            )
            .await
            .map_err(remote)?;
        self.has_branch(&refs).map_err(passing)?;
        let head = parse::at(&refs, &self.config.branch)
            .unwrap_or(NO_OBJECT)
            .to_owned();
        self.fetch_source().await?;
        if head != NO_OBJECT && !self.has(&head).await {
            self.fetch_branch().await.map_err(remote)?;
            if !self.has(&head).await {
                return Err(passing("the branch moved while it was read; try again"));
            }
        }
        let history = self.history(&refs, &head, job).await?;
        let (runs, by) = self.name_of(&head, asked, &history).await?;
        let (will_run, tag, evidence) = self.wanted(asked, &runs, &history).await?;
        if will_run.id == runs.id {
            let text = format!(
                "{} is commit {}, which runs in {} already: there is nothing to change",
                will_run.name, will_run.id, asked.env
            );
            return Err(refused("CONFLICT", text));
        }
        let mut plan = asked.plan(job, &self.place, &self.at(), runs, will_run);
        plan.tag = tag;
        plan.push_option = self.probe(&plan).await?;
        let record = parse::record_of(&plan, job.now.0.div_euclid(1_000_000));
        let id = self.keep(&record).await.map_err(passing)?;
        let request = Request {
            method: METHOD.to_owned(),
            path: self.at(),
            body: record,
            key: id,
        };
        let evidence = Evidence {
            ver: evidence,
            prev: by,
        };
        Ok(asked.resolved(job, &plan, &evidence, request))
    }

    /// Writes the record into our repository and returns its id.
    pub(super) async fn keep(&self, record: &str) -> Result<String, String> {
        let id = self
            .git(&["hash-object", "-t", "tag", "-w", "--stdin"], record)
            .await?;
        let id = id.trim();
        if !parse::is_id(id) {
            return Err(format!("git gives the record the id {}", clean(id, 80)));
        }
        Ok(id.to_owned())
    }

    /// Whether our repository has a commit.
    pub(super) async fn has(&self, commit: &str) -> bool {
        self.git(&["cat-file", "-e", &format!("{commit}^{{commit}}")], "")
            .await
            .is_ok()
    }

    /// Brings every branch and tag of the source here.
    pub(super) async fn fetch_source(&self) -> Result<(), ResolveError> {
        let refs = [
            "+refs/heads/*:refs/source/heads/*",
            "+refs/tags/*:refs/source/tags/*",
        ];
        self.fetch(&self.config.source, &refs)
            .await
            .map_err(|e| passing(format!("the source of versions: {e}")))
    }

    async fn fetch_branch(&self) -> Result<(), String> {
        let branch = format!("+{}:refs/live/{}", self.config.branch, self.place.name);
        self.fetch(&self.config.remote, &[&branch]).await
    }

    async fn fetch(&self, url: &str, refs: &[&str]) -> Result<(), String> {
        let mut arguments = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--prune",
            "--no-write-fetch-head",
            "--",
            url,
        ];
        arguments.extend(refs);
        let fetched = self.git(&arguments, "").await.map(drop);
        if fetched.as_ref().is_err_and(|e| e.contains(".lock")) {
            // Left by a git that was killed. Nobody else works here: we hold the repository's lock, and the data folder's.
            let (repository, age) = (self.repository.clone(), 2 * self.timeout);
            let swept = tokio::task::spawn_blocking(move || sweep(&repository, age, 0)).await;
            let swept = swept.unwrap_or(0);
            tracing::warn!(
                target = self.place.name,
                swept,
                "locks of a git that was killed were removed"
            );
        }
        fetched
    }

    /// What a name means at the source: a tag, a branch, or the first digits of a commit that a tag or branch there holds.
    async fn meaning(&self, name: &str) -> Result<Option<Meaning>, ResolveError> {
        let tag = self.commit(&format!("refs/source/tags/{name}")).await;
        let branch = self.commit(&format!("refs/source/heads/{name}")).await;
        let meaning = |commit: String, kind| Ok(Some(Meaning { commit, kind }));
        match (tag, branch) {
            (Some(tag), Some(branch)) if tag != branch => {
                let text =
                    format!("{name} is a tag ({tag}) and a branch ({branch}) at the source; name the commit");
                Err(refused("SCOPE", text))
            }
            (Some(tag), _) => meaning(tag, "tag"),
            (None, Some(branch)) => meaning(branch, "branch"),
            (None, None) if !parse::is_short_id(name) => Ok(None),
            (None, None) => {
                let Some(commit) = self.commit(name).await else {
                    return Ok(None);
                };
                let holds = ["for-each-ref", "--count=1", "--contains", &commit, "refs/source"];
                let held = self.git(&holds, "").await.map_err(passing)?;
                if held.is_empty() {
                    return Ok(None);
                }
                meaning(commit, "commit")
            }
        }
    }

    async fn commit(&self, name: &str) -> Option<String> {
        let name = format!("{name}^{{commit}}");
        let found = self
            .git(
                &["rev-parse", "--verify", "--quiet", "--end-of-options", &name],
                "",
            )
            .await;
        found
            .ok()
            .map(|id| id.trim().to_owned())
            .filter(|id| parse::is_id(id))
    }

    /// What the remote's own records say of the commit that runs: the plans that put it there, newest first.
    async fn history(&self, refs: &[Ref], head: &str, job: &Job) -> Result<Vec<Plan>, ResolveError> {
        let prefix = format!("{}/", self.config.records);
        let mut acts: Vec<(&str, &str)> = refs
            .iter()
            .filter(|r| r.id == head && r.name.starts_with(&prefix))
            .filter_map(|r| r.name.strip_suffix("^{}"))
            .filter_map(|name| Some((name, parse::at(refs, name)?)))
            .collect();
        // Act ids begin with the instant they were given out.
        acts.sort_unstable_by(|a, b| b.cmp(a));
        acts.truncate(RECORDS_READ);
        let mut missing = Vec::new();
        for (name, id) in &acts {
            if self.git(&["cat-file", "-e", id], "").await.is_err() {
                missing.push(format!(
                    "+{name}:refs/records/{}",
                    name.trim_start_matches(&prefix)
                ));
            }
        }
        if !missing.is_empty() {
            let refs: Vec<&str> = missing.iter().map(String::as_str).collect();
            self.fetch(&self.config.remote, &refs)
                .await
                .map_err(|e| passing(format!("the remote's records: {e}")))?;
        }
        let mut plans = Vec::new();
        for (name, id) in acts {
            let Ok(text) = self.git(&["cat-file", "tag", id], "").await else {
                continue;
            };
            // What others left there is no history of ours.
            let ours = |p: &Plan| {
                p.to == head
                    && p.item == job.item
                    && p.place == self.at()
                    && name.ends_with(&p.act.to_string())
            };
            plans.extend(parse::plan_in(&text).ok().filter(ours));
        }
        Ok(plans)
    }

    /// What to call the commit that runs now: as the sender does, where that is true; else as the record that put it there
    /// does, as a tag does, or by its first digits.
    async fn name_of(
        &self,
        head: &str,
        asked: &Asked,
        history: &[Plan],
    ) -> Result<(Named, String), ResolveError> {
        let named = |name: &str, by: String| {
            let id = head.to_owned();
            Ok((
                Named {
                    name: name.to_owned(),
                    id,
                },
                by,
            ))
        };
        let branch = &self.config.branch;
        if head == NO_OBJECT {
            return named(NOTHING, format!("the remote has no {branch}"));
        }
        let is_at = format!("{branch} of the remote is at {head}");
        if let Some(name) = asked.calls_it.as_deref().filter(|n| crate::config::is_version(n))
            && let Some(meaning) = self.meaning(name).await?
            && meaning.commit == head
        {
            return named(
                name,
                format!("{is_at}, which the source has as {} {name}", meaning.kind),
            );
        }
        if let Some(plan) = history.first() {
            return named(
                &plan.ver,
                format!("{is_at}, brought in as {} by act {}", plan.ver, plan.act),
            );
        }
        let tags = [
            "for-each-ref",
            "--sort=-version:refname",
            "--format=%(refname:lstrip=3)",
            "--points-at",
            head,
            "refs/source/tags",
        ];
        let tags = self.git(&tags, "").await.map_err(passing)?;
        match tags.lines().find(|t| crate::config::is_version(t)) {
            Some(tag) => named(tag, format!("{is_at}, which the source has as tag {tag}")),
            None => named(&head[..12], is_at),
        }
    }

    /// What is to run: its name and commit, whether the name is a tag, and who says so.
    async fn wanted(
        &self,
        asked: &Asked,
        runs: &Named,
        history: &[Plan],
    ) -> Result<(Named, bool, String), ResolveError> {
        let named = |name: &str, id: &str| Named {
            name: name.to_owned(),
            id: id.to_owned(),
        };
        match &asked.want {
            Want::Version(ver) => {
                let Some(meaning) = self.meaning(ver).await? else {
                    let text = format!("slot ver: the source has no tag, branch or commit {ver}");
                    return Err(refused("NOCTX", text));
                };
                let evidence = format!("the source has {} {ver} as {}", meaning.kind, meaning.commit);
                Ok((named(ver, &meaning.commit), meaning.kind == "tag", evidence))
            }
            Want::Before => {
                let Some(plan) = history.iter().find(|p| p.ask == "DEPLOY") else {
                    let text = format!(
                        "the remote has no record of what ran before {} ({}); deploy the version by name",
                        runs.name, runs.id
                    );
                    return Err(refused("NOCTX", text));
                };
                self.back_to(plan).await?;
                let evidence = format!("act {} brought in {} in its place", plan.act, plan.ver);
                let name = self.called(asked, plan).await?;
                Ok((named(&name, &plan.from), false, evidence))
            }
            Want::Undo(plan) => {
                if runs.id != plan.to {
                    let text = format!(
                        "{} runs now, not {} that act {} brought in: taking that back would replace something else",
                        runs.id, plan.to, plan.act
                    );
                    return Err(refused("CONFLICT", text));
                }
                self.back_to(plan).await?;
                let evidence = format!("what ran before act {}", plan.act);
                let name = self.called(asked, plan).await?;
                Ok((named(&name, &plan.from), false, evidence))
            }
        }
    }

    /// What to call what ran before an act: as the sender does, where that is true; else as was stated then.
    async fn called(&self, asked: &Asked, plan: &Plan) -> Result<String, ResolveError> {
        let name = asked
            .calls_next
            .as_deref()
            .filter(|n| crate::config::is_version(n));
        if let Some(name) = name
            && self.meaning(name).await?.is_some_and(|m| m.commit == plan.from)
        {
            return Ok(name.to_owned());
        }
        Ok(plan.prev.clone())
    }

    /// Whether what ran before an act can run again.
    async fn back_to(&self, plan: &Plan) -> Result<(), ResolveError> {
        if plan.from == NO_OBJECT {
            let text = format!(
                "nothing ran before act {}: there is no version to go back to",
                plan.act
            );
            return Err(refused("NOCTX", text));
        }
        if self.has(&plan.from).await {
            return Ok(());
        }
        let text = format!(
            "commit {} ran before act {}, and no source has it any more",
            plan.from, plan.act
        );
        Err(refused("NOCTX", text))
    }
}

/// Removes lock files of git's that are older than `age`, and says how many.
fn sweep(folder: &Path, age: Duration, depth: usize) -> usize {
    let mut swept = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let path = entry.path();
        if meta.is_dir() && depth < 16 {
            swept += sweep(&path, age, depth + 1);
        }
        let old = meta
            .modified()
            .ok()
            .and_then(|at| at.elapsed().ok())
            .is_some_and(|a| a > age);
        if meta.is_file() && old && path.extension().is_some_and(|e| e == "lock") {
            swept += usize::from(std::fs::remove_file(&path).is_ok());
        }
    }
    swept
}
