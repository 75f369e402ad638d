//! What runs and what could: the links of the folder, read. Nothing here changes anything.

use std::fs;
use std::io;
use std::path::{Component, Path};

use wilco_core::ActId;

use super::Site;
use crate::config::is_version;
use crate::plan::{NOTHING, Plan, RECORD_MAX, clean};

/// How many acts back is looked for the one that brought a release in.
const STEPS_MAX: usize = 10_000;

/// Where `current` leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Live {
    /// The link's own text; empty where there is none.
    pub link: String,
    /// The act that switched it, where one did.
    pub act: Option<ActId>,
    /// The folder in `releases/`; empty where there is none.
    pub release: String,
}

impl Site {
    /// Where `current` leads now.
    pub(super) fn live(&self) -> Result<Live, String> {
        let at = self.current();
        match fs::symlink_metadata(&at) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Live {
                    link: String::new(),
                    act: None,
                    release: String::new(),
                });
            }
            Err(e) => return Err(format!("{} cannot be read: {e}", at.display())),
            Ok(meta) if !meta.is_symlink() => {
                return Err(format!(
                    "{} is no link; move it into releases/ and link to it",
                    at.display()
                ));
            }
            Ok(_) => {}
        }
        let link = fs::read_link(&at).map_err(|e| format!("{} cannot be read: {e}", at.display()))?;
        let text = link
            .to_str()
            .ok_or_else(|| format!("{} leads to no plain name", at.display()))?;
        self.leads_to(text)
    }

    /// What a text that was or is the link's leads to.
    pub(super) fn leads_to(&self, link: &str) -> Result<Live, String> {
        let strange = || {
            let at = self.current();
            format!(
                "{} leads to {}, which is no release of this folder",
                at.display(),
                clean(link, 100)
            )
        };
        let target = Path::new(link);
        let inside = target.strip_prefix(self.root()).unwrap_or(target);
        let parts: Vec<Component<'_>> = inside.components().filter(|c| *c != Component::CurDir).collect();
        let [Component::Normal(folder), Component::Normal(name)] = parts.as_slice() else {
            return Err(strange());
        };
        let name = name.to_str().ok_or_else(strange)?;
        let (act, release) = match folder.to_str() {
            Some("releases") => (None, name.to_owned()),
            Some("acts") => {
                let act: ActId = name.parse().map_err(|_| strange())?;
                (Some(act), self.release_of(act)?.ok_or_else(strange)?)
            }
            _ => return Err(strange()),
        };
        if !fs::symlink_metadata(self.releases().join(&release)).is_ok_and(|m| m.is_dir()) {
            return Err(format!(
                "releases/{} is not there any more, and {} leads to it",
                clean(&release, 100),
                clean(link, 100)
            ));
        }
        Ok(Live {
            link: link.to_owned(),
            act,
            release,
        })
    }

    /// Where the link of an act leads: the folder in `releases/`. `None` where the act has none.
    pub(super) fn release_of(&self, act: ActId) -> Result<Option<String>, String> {
        let at = self.acts().join(act.to_string());
        let link = match fs::read_link(&at) {
            Ok(link) => link,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("{} is no link of ours: {e}", at.display())),
        };
        let name = link
            .to_str()
            .and_then(|l| l.strip_prefix("../releases/"))
            .filter(|n| is_version(n) && !n.contains('/'));
        match name {
            Some(name) => Ok(Some(name.to_owned())),
            None => Err(format!("{} leads to no release", at.display())),
        }
    }

    /// The plan an act left; `None` where it left none.
    pub(super) fn record(&self, act: ActId) -> Result<Option<(String, Plan)>, String> {
        let at = self.acts().join(format!("{act}.json"));
        let text = match read_small(&at) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("{} cannot be read: {e}", at.display())),
        };
        let plan = Plan::from_json(&text).map_err(|e| format!("{}: {e}", at.display()))?;
        if plan.act != act {
            return Err(format!("{} is another act's", at.display()));
        }
        Ok(Some((text, plan)))
    }

    /// What to call what runs: as the act that brought it in does, or by its folder's name.
    pub(super) fn name_of(&self, live: &Live) -> Result<String, String> {
        if live.link.is_empty() {
            return Ok(NOTHING.to_owned());
        }
        if let Some(act) = live.act
            && let Some((_, plan)) = self.record(act)?
        {
            return Ok(plan.ver);
        }
        let folder = live.release.as_str();
        let hex = |d: &str| d.len() == 12 && d.bytes().all(|b| b.is_ascii_hexdigit());
        let name = match folder.rsplit_once('-') {
            Some((name, digest)) if hex(digest) => name,
            _ => folder,
        };
        if is_version(name) {
            Ok(name.to_owned())
        } else {
            Err(format!("releases/{} is no version's name", clean(folder, 100)))
        }
    }

    /// The deployment that brought in what runs: not the one that went back to it.
    pub(super) fn brought_in_by(&self, live: &Live) -> Result<Option<Plan>, String> {
        let mut act = live.act;
        for _ in 0..STEPS_MAX {
            let Some(this) = act else { return Ok(None) };
            let Some((_, plan)) = self.record(this)? else {
                return Ok(None);
            };
            if plan.ask == "DEPLOY" && plan.release == live.release {
                return Ok(Some(plan));
            }
            act = plan.from.strip_prefix("acts/").and_then(|id| id.parse().ok());
        }
        Ok(None)
    }
}

/// Reads a file of ours, which is small.
pub(super) fn read_small(at: &Path) -> io::Result<String> {
    use io::Read;
    let mut text = String::new();
    let limit = RECORD_MAX as u64 + 1;
    fs::File::open(at)?.take(limit).read_to_string(&mut text)?;
    Ok(text)
}
