//! Commit at a release folder: one rename, under a lock, and what the folder shows after it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wilco_adapter::{Found, Outcome, Permit};
use wilco_core::ActId;

use super::release::{Live, read_small};
use super::{LOCK_WAIT, Site, tree};
use crate::plan::{Plan, Seen, clean};

/// How often the lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How an act stands in the folder.
#[derive(Debug)]
enum Standing {
    /// It was not begun.
    Fresh,
    /// It was begun and not switched, and never will be.
    Dead,
    /// It was switched.
    Done(Seen),
    /// What is there is neither.
    Strange(String),
}

/// The folder's lock. The kernel lets it go when the process ends, however it ends.
struct Lock {
    _file: File,
}

impl Site {
    /// Carries the act out, once. `Err` is any other end than that it runs.
    pub(super) fn switch(&self, permit: &Permit, body: &str, plan: &Plan) -> Result<Seen, Outcome> {
        let not_sent = |text: String| Outcome::NotSent(text);
        self.is_the_stated(plan).map_err(not_sent)?;
        // Before the lock, because it may take long. The folder is nobody's to change, and prepare measured it too.
        self.is_unchanged(plan).map_err(not_sent)?;
        let _lock = self.lock(plan, self.timeout).map_err(not_sent)?;
        match self.standing(body, plan) {
            Standing::Fresh => {}
            Standing::Done(seen) => return Ok(seen),
            Standing::Dead => return Err(Outcome::Rejected(dead(plan))),
            Standing::Strange(text) => return Err(Outcome::Unknown(text)),
        }
        let before = self.is_as_stated(plan).map_err(Outcome::NotSent)?;
        self.write_record(body, plan.act)
            .map_err(|e| not_sent(format!("the act's record cannot be written: {e}")))?;
        wilco_failpoint::reach!("send.connected");
        permit.may_send().map_err(|late| not_sent(late.to_string()))?;
        wilco_failpoint::reach!("send.may_send");
        self.begin(plan)
            .map_err(|e| not_sent(format!("the act's links cannot be made: {e}")))?;
        // Only who takes the lock too is kept out by it: so look once more.
        self.is_as_stated(plan).map_err(Outcome::Rejected)?;
        self.vouch(before.act);
        // ---- past this line it may run, and no failure proves anything
        let renamed = fs::rename(self.next(plan.act), self.current());
        let flushed = sync(self.root());
        if let Err(e) = renamed {
            return Err(match self.standing(body, plan) {
                Standing::Dead => Outcome::Rejected(format!("current cannot be switched: {e}")),
                other => Outcome::Unknown(format!("current cannot be switched: {e}; {other:?}")),
            });
        }
        self.vouch(Some(plan.act));
        if let Err(e) = flushed {
            return Err(Outcome::Unknown(format!(
                "switched, but perhaps not on disk: {e}"
            )));
        }
        match self.standing(body, plan) {
            Standing::Done(seen) => Ok(seen),
            other => Err(Outcome::Unknown(format!("switched, and then: {other:?}"))),
        }
    }

    pub(super) fn look(&self, body: &str, plan: &Plan) -> Found {
        let _lock = match self.lock(plan, self.timeout.min(LOCK_WAIT)) {
            Ok(lock) => lock,
            Err(text) => return Found::Unknown(text),
        };
        match self.standing(body, plan) {
            Standing::Done(seen) => Found::Executed(plan.report(seen)),
            Standing::Dead => Found::Rejected(dead(plan)),
            Standing::Strange(text) => Found::Unknown(text),
            // What is not in a folder proves something only if it is the folder that was stated.
            Standing::Fresh if plan.folder_id.is_empty() => Found::Unknown(format!(
                "{} has no link of this act; it was stated before folders had an id, so nobody can say whether it is the \
                 same folder",
                self.acts().display()
            )),
            Standing::Fresh => Found::Absent(format!("{} has no link of this act", self.acts().display())),
        }
    }

    /// What the folder shows of an act. Asked under the lock.
    fn standing(&self, body: &str, plan: &Plan) -> Standing {
        match self.release_of(plan.act) {
            Ok(Some(release)) if release == plan.release => {}
            Ok(None) => return Standing::Fresh,
            Ok(Some(other)) => {
                return Standing::Strange(format!(
                    "acts/{} leads to releases/{other}, not to what was stated",
                    plan.act
                ));
            }
            Err(text) => return Standing::Strange(text),
        }
        match self.record(plan.act) {
            Ok(Some((text, _))) if text == body => {}
            Ok(_) => return Standing::Strange(format!("acts/{}.json is not what was stated", plan.act)),
            Err(text) => return Standing::Strange(text),
        }
        if fs::symlink_metadata(self.next(plan.act)).is_ok() {
            return Standing::Dead;
        }
        let seen = |status: String| {
            Standing::Done(Seen {
                ver: plan.ver.clone(),
                to: plan.to.clone(),
                prev: plan.prev.clone(),
                state: None,
                receipt: link_of(plan.act),
                status,
            })
        };
        match self.live() {
            Ok(live) if live.link == link_of(plan.act) => {
                seen(format!("current leads to releases/{}", live.release))
            }
            now if read_small(&self.done(plan.act)).is_ok() => match now {
                Ok(live) => seen(format!(
                    "done, and current was moved on to {} since",
                    clean(&live.link, 100)
                )),
                Err(text) => seen(format!("done; now {text}")),
            },
            Ok(live) => Standing::Strange(format!(
                "next.{} is gone, but current leads to {}, and nothing shows that it was switched in between: look whether \
                 somebody tidied up by hand",
                plan.act,
                clean(&live.link, 100)
            )),
            Err(text) => Standing::Strange(text),
        }
    }

    /// What is to run is there and is what was measured at prepare.
    fn is_unchanged(&self, plan: &Plan) -> Result<(), String> {
        let at = self.releases().join(&plan.release);
        let tree = tree::digest(&at, self.config.limits, self.until()).map_err(|e| e.to_string())?;
        if tree == plan.tree {
            return Ok(());
        }
        Err(format!("{} was changed since it was stated", at.display()))
    }

    /// What runs is what was stated to run.
    fn is_as_stated(&self, plan: &Plan) -> Result<Live, String> {
        let live = self.live()?;
        if live.link == plan.from {
            return Ok(live);
        }
        let shown = |link: &str| {
            if link.is_empty() {
                "nothing".to_owned()
            } else {
                clean(link, 100)
            }
        };
        Err(format!(
            "current leads to {} now, not to {} as stated",
            shown(&live.link),
            shown(&plan.from)
        ))
    }

    /// The plan beside the link, before the link.
    fn write_record(&self, body: &str, act: ActId) -> io::Result<()> {
        let at = self.acts().join(format!("{act}.json"));
        // Left by a try that was over before it had begun.
        if read_small(&at).is_ok_and(|text| text == body) {
            return Ok(());
        }
        write_durably(&at, body)?;
        sync(&self.acts())
    }

    /// Makes the link that will be renamed, and then the one that can be made only once.
    fn begin(&self, plan: &Plan) -> io::Result<()> {
        let next = self.next(plan.act);
        if fs::symlink_metadata(&next).is_ok() {
            // Of a try that died before it had begun: the other link is not there.
            fs::remove_file(&next)?;
        }
        symlink(link_of(plan.act), &next)?;
        sync(self.root())?;
        let at = self.acts().join(plan.act.to_string());
        symlink(format!("../releases/{}", plan.release), at)?;
        sync(&self.acts())
    }

    /// Writes down that an act was switched, so that it is known when `current` has moved on. Should it fail, `current` itself
    /// shows it until then, and whoever moves it on through us writes it again.
    fn vouch(&self, act: Option<ActId>) {
        let Some(act) = act else { return };
        let at = self.done(act);
        if at.exists() {
            return;
        }
        if let Err(e) = write_durably(&at, "switched\n").and_then(|()| sync(&self.acts())) {
            tracing::warn!(%act, "{} cannot be written: {e}", at.display());
        }
    }

    fn next(&self, act: ActId) -> PathBuf {
        self.root().join(format!("next.{act}"))
    }

    fn done(&self, act: ActId) -> PathBuf {
        self.acts().join(format!("{act}.done"))
    }

    /// Takes the folder's lock. A folder that is not laid out, or is not the stated one, is refused: it is another one, or is
    /// not mounted.
    fn lock(&self, plan: &Plan, wait: Duration) -> Result<Lock, String> {
        // Before, so that nothing is made in a strange folder; and under the lock, so that it is the one that is locked.
        self.is_the_stated(plan)?;
        if !self.acts().is_dir() || !self.releases().is_dir() {
            return Err(format!(
                "{} is not laid out as it was when this was stated",
                self.root().display()
            ));
        }
        let at = self.root().join("wilco.lock");
        let cannot = |e: io::Error| format!("{} cannot be locked: {e}", at.display());
        let until = Instant::now() + wait;
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&at)
                .map_err(cannot)?;
            match file.try_lock() {
                // The lock of a file that was deleted or replaced keeps nobody out.
                Ok(()) if is_at(&file, &at) => {
                    self.is_the_stated(plan)?;
                    return Ok(Lock { _file: file });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) => return Err(cannot(e)),
            }
            if Instant::now() >= until {
                return Err(format!("somebody else is at it: {} is locked", at.display()));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }
}

fn is_at(file: &File, at: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(at)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// What `current` says when this act switched it.
fn link_of(act: ActId) -> String {
    format!("acts/{act}")
}

fn dead(plan: &Plan) -> String {
    format!(
        "act {} was begun and ended before current was switched; it is not taken up again",
        plan.act
    )
}

pub(super) fn write_durably(at: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(at)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
