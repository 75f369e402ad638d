//! Prepare at a release folder: the artefact is measured and unpacked beside what runs. Nothing that runs is touched.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use wilco_adapter::{Job, ResolveError};
use wilco_core::Resolved;
use wilco_core::frozen::Request;

use super::release::Live;
use super::tree::{self, TreeError};
use super::unpack::Unpacking;
use super::{METHOD, Site};
use crate::asked::{Asked, Evidence, Named, Want, passing, refused};
use crate::plan::{Plan, clean};

/// What an unfinished unpacking's folder is called until it is whole.
const UNPACKING: &str = ".unpacking-";

/// After how long one that nobody finished is thrown away.
const ABANDONED: Duration = Duration::from_secs(24 * 3_600);

/// Something that can run.
struct Ready {
    /// The folder in `releases/`.
    release: String,
    /// `sha256:` and the digest of its artefact.
    digest: String,
    /// The digest of everything in the folder.
    tree: String,
}

impl Site {
    pub(super) fn resolve(&self, job: &Job, asked: &Asked) -> Result<Resolved, ResolveError> {
        self.is_there().map_err(passing)?;
        self.is_known().map_err(passing)?;
        // Before anything is made: a link that leads to what is not there is no new folder's.
        let live = self.live().map_err(|e| refused("NOCTX", e))?;
        self.lay_out()
            .map_err(|e| passing(format!("{} cannot be laid out: {e}", self.root().display())))?;
        let folder_id = self.identify(job.now).map_err(passing)?;
        let name = self.name_of(&live).map_err(|e| refused("NOCTX", e))?;
        let (ver, ready, evidence) = self.wanted(job, asked, &live, &name)?;
        if ready.release == live.release {
            let text = format!(
                "{ver} is releases/{}, which runs in {} already: there is nothing to change",
                ready.release, asked.env
            );
            return Err(refused("CONFLICT", text));
        }
        let prev_by = if live.link.is_empty() {
            format!("{} is not there", self.current().display())
        } else {
            format!(
                "{} leads to releases/{} by {}",
                self.current().display(),
                live.release,
                live.link
            )
        };
        let is_new = live.link.is_empty();
        let runs = Named { name, id: live.link };
        let will_run = Named {
            name: ver,
            id: ready.digest,
        };
        let mut plan = asked.plan(
            job,
            &self.place,
            &self.root().display().to_string(),
            runs,
            will_run,
        );
        plan.release = ready.release;
        plan.tree = ready.tree;
        plan.folder_id = folder_id;
        let request = Request {
            method: METHOD.to_owned(),
            path: plan.place.clone(),
            body: plan.to_json(),
            key: job.act_id.to_string(),
        };
        let evidence = Evidence {
            ver: evidence,
            prev: prev_by,
        };
        let mut resolved = asked.resolved(job, &plan, &evidence, request);
        if is_new {
            resolved.notes.push(format!(
                "the folder {} has no current link: this is its first deployment; if it ever had one, it is not mounted",
                self.root().display()
            ));
        }
        Ok(resolved)
    }

    /// Makes the folders that are missing inside the target's, never that one itself. What stands in their place under their names is not ours to move.
    fn lay_out(&self) -> io::Result<()> {
        for folder in [self.releases(), self.acts()] {
            match fs::create_dir(&folder) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            if !fs::symlink_metadata(&folder)?.is_dir() {
                return Err(io::Error::other(format!("{} is no folder", folder.display())));
            }
        }
        for entry in fs::read_dir(self.releases())? {
            let entry = entry?;
            let old = |e: &fs::DirEntry| {
                let age = e
                    .metadata()
                    .and_then(|m| m.modified())
                    .map(|at| SystemTime::now().duration_since(at));
                matches!(age, Ok(Ok(age)) if age > ABANDONED)
            };
            if entry.file_name().to_string_lossy().starts_with(UNPACKING) && old(&entry) {
                // Perhaps another process was faster.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    /// What is to run: its name, the release, and who says so.
    fn wanted(
        &self,
        job: &Job,
        asked: &Asked,
        live: &Live,
        name: &str,
    ) -> Result<(String, Ready, String), ResolveError> {
        match &asked.want {
            Want::Version(ver) => {
                let (ready, artefact) = self.unpacked(job, ver)?;
                let evidence = format!("{} has the digest {}", artefact.display(), ready.digest);
                Ok((ver.clone(), ready, evidence))
            }
            Want::Before => {
                let by = self.brought_in_by(live).map_err(|e| refused("NOCTX", e))?;
                let plan = by.ok_or_else(|| {
                    let text = format!(
                        "the folder has no record of what ran before {name}; deploy the version by name"
                    );
                    refused("NOCTX", text)
                })?;
                self.back_to(&plan)
            }
            Want::Undo(plan) => {
                if live.release != plan.release {
                    let text = format!(
                        "releases/{} runs now, not releases/{} that act {} brought in: taking that back would replace \
                         something else",
                        clean(&live.release, 100),
                        plan.release,
                        plan.act
                    );
                    return Err(refused("CONFLICT", text));
                }
                self.back_to(plan)
            }
        }
    }

    /// What ran before an act, if it can run again.
    fn back_to(&self, plan: &Plan) -> Result<(String, Ready, String), ResolveError> {
        if plan.from.is_empty() {
            let text = format!(
                "nothing ran before act {}: there is no version to go back to",
                plan.act
            );
            return Err(refused("NOCTX", text));
        }
        let before = self.leads_to(&plan.from).map_err(|e| refused("NOCTX", e))?;
        let tree = self.measure(&self.releases().join(&before.release))?;
        let record = match before.act {
            Some(act) => self.record(act).map_err(|e| refused("NOCTX", e))?,
            None => None,
        };
        let digest = match record {
            Some((_, record)) if record.tree != tree => {
                let text = format!(
                    "releases/{} was changed since act {} brought it in; deploy the version by name",
                    before.release, record.act
                );
                return Err(refused("CONFLICT", text));
            }
            Some((_, record)) => record.to,
            // Brought in by hand: what lies there is all there is to go by.
            None => format!("sha256:{tree}"),
        };
        let evidence = format!("what ran before act {}: {}", plan.act, plan.from);
        let ready = Ready {
            release: before.release,
            digest,
            tree,
        };
        Ok((plan.prev.clone(), ready, evidence))
    }

    /// Unpacks the artefact of a version, unless it lies in `releases/` already, whole and unchanged.
    fn unpacked(&self, job: &Job, ver: &str) -> Result<(Ready, PathBuf), ResolveError> {
        if ver.contains('/') {
            let text = format!("slot ver: {ver} is no artefact's version: it holds a '/'");
            return Err(refused("SCOPE", text));
        }
        let artefact = self.artefact(ver)?;
        let about = |e: TreeError| match e {
            TreeError::Refused(text) => refused(
                "SCOPE",
                format!("slot ver: the artefact {}: {text}", artefact.display()),
            ),
            TreeError::Passing(text) => passing(text),
        };
        let temporary = Temporary(
            self.releases()
                .join(format!("{UNPACKING}{}-{}", job.act_id, job.attempt)),
        );
        let cannot = |e: io::Error| passing(format!("{} cannot be written: {e}", temporary.0.display()));
        if temporary.0.exists() {
            fs::remove_dir_all(&temporary.0).map_err(cannot)?;
        }
        fs::create_dir(&temporary.0).map_err(cannot)?;
        let unpacking = Unpacking::new(&temporary.0, self.config.strip, self.config.limits, self.until());
        let whole = if artefact.is_dir() {
            unpacking.folder(&artefact).map_err(about)?;
            None
        } else {
            Some(unpacking.archive(&artefact).map_err(about)?)
        };
        let tree = tree::digest(&temporary.0, self.config.limits, self.until()).map_err(about)?;
        let digest = whole.unwrap_or_else(|| tree.clone());
        let release = format!("{ver}-{}", &digest[..12]);
        let at = self.releases().join(&release);
        if at.exists() {
            if self.measure(&at)? != tree {
                let text = format!(
                    "{} is there already and holds something else than the artefact; move it away if nothing runs from it",
                    at.display()
                );
                return Err(refused("CONFLICT", text));
            }
        } else {
            // On disk before it can be seen under its name: a name in `releases/` stands for a whole release.
            flush(&temporary.0).map_err(cannot)?;
            fs::rename(&temporary.0, &at).map_err(cannot)?;
            flush(&self.releases()).map_err(cannot)?;
        }
        let ready = Ready {
            release,
            digest: format!("sha256:{digest}"),
            tree,
        };
        Ok((ready, artefact))
    }

    fn artefact(&self, ver: &str) -> Result<PathBuf, ResolveError> {
        let base = format!("{}-{ver}", self.config.name);
        let mut found = Vec::new();
        for name in [format!("{base}.tar.gz"), format!("{base}.tgz"), base.clone()] {
            let at = self.config.artefacts.join(name);
            let archive = at.extension().is_some_and(|e| e == "gz" || e == "tgz");
            match fs::symlink_metadata(&at) {
                Ok(meta) if meta.is_file() && archive || meta.is_dir() && !archive => found.push(at),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(passing(format!("{} cannot be read: {e}", at.display()))),
            }
        }
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => {
                self.has_artefacts().map_err(passing)?;
                Err(if self.has_no_artefacts() {
                    passing(format!(
                        "artefacts: {} is empty; if it should hold {base}, it is perhaps not mounted",
                        self.config.artefacts.display()
                    ))
                } else {
                    let text = format!("slot ver: there is no artefact {base}.tar.gz, and no folder {base}");
                    refused("NOCTX", text)
                })
            }
            _ => Err(refused(
                "SCOPE",
                format!("slot ver: {base} is there as an archive and as a folder; leave one"),
            )),
        }
    }

    /// The artefacts' folder is empty, as one is that is not mounted: that an artefact is not in there proves nothing.
    fn has_no_artefacts(&self) -> bool {
        fs::read_dir(&self.config.artefacts).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn measure(&self, at: &Path) -> Result<String, ResolveError> {
        tree::digest(at, self.config.limits, self.until()).map_err(|e| match e {
            TreeError::Refused(text) => refused("CONFLICT", format!("{}: {text}", at.display())),
            TreeError::Passing(text) => passing(text),
        })
    }
}

/// A folder that goes away unless it was moved into place.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.0.exists() {
            // What stays is thrown away a day later.
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Everything on the folder's file system is on disk when this returns.
fn flush(at: &Path) -> io::Result<()> {
    let folder = fs::File::open(at)?;
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(&folder)?;
    folder.sync_all()
}
