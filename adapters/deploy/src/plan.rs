//! The plan of one deployment: what is frozen, and what is left at the target as the record of our reference. Pure.
//!
//! The same bytes stand in the store and at the target, so that a lookup compares records and not our memory of them.

use serde::{Deserialize, Serialize};
use wilco_adapter::Report;
use wilco_core::{ActId, Timestamp};

use crate::config::is_version;

/// The word for "nothing ran there".
pub(crate) const NOTHING: &str = "none";

/// The largest record read, in bytes; ours have under two kilobytes.
pub(crate) const RECORD_MAX: usize = 16 * 1024;

/// Which slots a statement of the plan has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// `ver` runs afterwards and `prev` ran before.
    Deploy,
    /// `prev` runs afterwards: it is the version that comes back.
    Rollback,
}

/// One deployment, complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub act: ActId,
    /// `DEPLOY`, `ROLLBACK` or `UNDO`.
    pub ask: String,
    pub form: Form,
    pub item: String,
    pub env: String,
    /// The target's name in the configuration.
    pub target: String,
    /// The branch or folder itself, so that a record says what it is about.
    pub place: String,
    /// The name of what runs afterwards.
    pub ver: String,
    /// What that is: a commit, or the digest of an artefact.
    pub to: String,
    /// The name of what runs now.
    pub prev: String,
    /// What that is: a commit, or where the link points.
    pub from: String,
    /// The first instant it may be carried out, microseconds since 1970.
    pub opens: Timestamp,
    /// The first instant it may no longer.
    pub closes: Timestamp,
    /// `ver` is a tag of the source: a name that must not move before it is carried out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tag: bool,
    /// The remote takes push options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub push_option: bool,
    /// The folder in `releases/`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// The digest of everything in that folder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tree: String,
    /// Which folder it is about: the id in it. Empty in plans from before folders had one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub folder_id: String,
}

/// What was seen at the target after the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The name of what runs, by what the target shows.
    pub ver: String,
    /// Its commit or digest.
    pub to: String,
    /// The name of what it took the place of.
    pub prev: String,
    /// `UP`, `DEGRADED` or `DOWN`.
    pub state: Option<String>,
    /// The target's own id for it.
    pub receipt: String,
    /// In words.
    pub status: String,
}

impl Plan {
    /// The bytes that are frozen and recorded.
    pub fn to_json(&self) -> String {
        // Strings and integers only, so there is nothing that could fail; an empty text would be refused on reading.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a plan. What stands at a target was perhaps written by others, so names are checked again.
    pub fn from_json(text: &str) -> Result<Plan, String> {
        if text.len() > RECORD_MAX {
            return Err(format!("a record has at most {RECORD_MAX} bytes"));
        }
        let plan: Plan = serde_json::from_str(text).map_err(|e| format!("no record of ours: {e}"))?;
        for name in [&plan.ver, &plan.prev] {
            if !is_version(name) {
                return Err("no record of ours: a name in it is no version".to_owned());
            }
        }
        Ok(plan)
    }

    /// What is reported, in the slots of the plan's form.
    pub fn report(&self, seen: Seen) -> Report {
        let slot = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut values = vec![slot("env", &self.env)];
        match self.form {
            Form::Deploy => values.extend([slot("ver", &seen.ver), slot("prev", &seen.prev)]),
            Form::Rollback => values.extend([slot("prev", &seen.ver), slot("x_from", &seen.prev)]),
        }
        values.push(slot(self.identity_slot(), &seen.to));
        if let Some(state) = &seen.state {
            values.push(slot("state", state));
        }
        Report {
            values,
            receipt: Some(seen.receipt),
            status: seen.status,
            ..Report::default()
        }
    }

    /// The extra slot that says what `ver` is.
    pub fn identity_slot(&self) -> &'static str {
        if self.release.is_empty() {
            "x_commit"
        } else {
            "x_digest"
        }
    }
}

/// Foreign text, fit for a message: no control characters, and not without end.
pub(crate) fn clean(text: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut out: String = text.trim().chars().take(longest).map(plain).collect();
    if text.trim().chars().nth(longest).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_plan() -> Plan {
        Plan {
            act: "01a0fbd7828070008000087800000024".parse().expect("an act id"),
            ask: "DEPLOY".to_owned(),
            form: Form::Deploy,
            item: "svc:api".to_owned(),
            env: "PROD".to_owned(),
            target: "api-prod".to_owned(),
            place: "https://git.example/api.git refs/heads/prod".to_owned(),
            ver: "v2.4.1".to_owned(),
            to: "b736fa0e6105c494d8cf62b2fd9fad2c86b46500".to_owned(),
            prev: "v2.4.0".to_owned(),
            from: "7b563de798781e4d8f95376fe3d14a69203f1c96".to_owned(),
            opens: Timestamp(1_790_928_000_000_000),
            closes: Timestamp(1_790_942_400_000_000),
            tag: true,
            push_option: true,
            release: String::new(),
            tree: String::new(),
            folder_id: String::new(),
        }
    }

    /// What lies at remotes and in stores is read for as long as acts are open, by this version and the next.
    #[test]
    fn records_are_written_as_they_always_were() {
        let golden = include_str!("../tests/golden/record.tag");
        assert_eq!(crate::git::record_of(&a_plan(), 1_790_928_000), golden);
        assert_eq!(crate::git::plan_in(golden), Ok(a_plan()));
        let golden = include_str!("../tests/golden/record.json");
        let plan = Plan {
            place: "/srv/api".to_owned(),
            to: "sha256:8aaa1757bf74a159d91412ab96a350cf1a8eeb1b3fc56117991094372818eca4".to_owned(),
            from: "acts/01a0fbd7828070008000087800000023".to_owned(),
            tag: false,
            push_option: false,
            release: "v2.4.1-8aaa1757bf74".to_owned(),
            tree: "b103c5cb0c4d240e756f4eaed7a5ae98bfc722f86b953e3b8e612b6ad6b17922".to_owned(),
            ..a_plan()
        };
        assert_eq!(plan.to_json(), golden.trim_end());
        assert_eq!(Plan::from_json(golden.trim_end()), Ok(plan));
    }

    #[test]
    fn a_record_that_others_bent_is_none() {
        let good = a_plan().to_json();
        for (from, to) in [
            ("\"v2.4.1\"", "\"v2 out=OK\""),
            ("\"v2.4.0\"", "\"../v2\""),
            ("\"tag\"", "\"colour\""),
            ("\"act\":\"01a0", "\"act\":\"xxxx"),
        ] {
            assert!(Plan::from_json(&good.replace(from, to)).is_err(), "{to}");
        }
        assert!(Plan::from_json(&format!("{good}{}", " ".repeat(RECORD_MAX))).is_err());
        let other = crate::git::record_of(&a_plan(), 0).replace("object b7", "object b8");
        assert!(
            crate::git::plan_in(&other).is_err(),
            "it is about another commit than it says"
        );
    }
}
