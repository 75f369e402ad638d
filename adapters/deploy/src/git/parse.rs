//! What git prints, read, and the record we leave at a remote, written and read. Pure.

use crate::plan::{Plan, RECORD_MAX, clean};

/// The id git writes for "no object".
pub(crate) const NO_OBJECT: &str = "0000000000000000000000000000000000000000";

/// One ref of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ref {
    pub id: String,
    pub name: String,
}

/// Reads `git ls-remote`.
pub(crate) fn refs(text: &str) -> Result<Vec<Ref>, String> {
    let one = |line: &str| {
        let (id, name) = line
            .split_once('\t')
            .filter(|(id, _)| is_id(id))
            .ok_or_else(|| format!("{} is no line of refs", clean(line, 80)))?;
        Ok(Ref {
            id: id.to_owned(),
            name: name.to_owned(),
        })
    };
    text.lines().map(one).collect()
}

/// What a ref points at.
pub(crate) fn at<'r>(refs: &'r [Ref], name: &str) -> Option<&'r str> {
    refs.iter().find(|r| r.name == name).map(|r| r.id.as_str())
}

/// The commit a tag stands for: what it says it is about, or the commit itself.
pub(crate) fn tagged<'r>(refs: &'r [Ref], name: &str) -> Option<&'r str> {
    at(refs, &format!("{name}^{{}}")).or_else(|| at(refs, name))
}

/// Whether a text is the full id of an object.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 40
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Whether a text may be the first digits of one.
pub(crate) fn is_short_id(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What a push did to one ref, by `git push --porcelain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It was moved or made.
    Taken,
    /// It was there already.
    Same,
    /// It was certainly not moved, in the words of the remote or of git.
    Refused(String),
    /// Nobody said what became of it.
    Unsaid(String),
}

/// What a push did to the ref `name`; `None` where it does not say.
pub(crate) fn pushed(text: &str, name: &str) -> Option<Pushed> {
    let ending = format!(":{name}");
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, '\t');
        let (flag, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
        if !refs.ends_with(&ending) {
            return None;
        }
        Some(match flag {
            " " | "+" | "*" => Pushed::Taken,
            "=" => Pushed::Same,
            // `[rejected]` is git's own refusal, before anything is sent; `[remote rejected]` is the remote's report.
            // `[remote failure]` means that it reported nothing.
            "!" if summary.starts_with("[rejected]") || summary.starts_with("[remote rejected]") => {
                Pushed::Refused(clean(summary, 200))
            }
            _ => Pushed::Unsaid(clean(summary, 200)),
        })
    })
}

/// Where a remote says that a ref was when it would have locked it at `expected`. The lock of one ref fails an atomic push
/// whole: nothing of it was moved.
pub(crate) fn lost_to<'t>(err: &'t str, name: &str, expected: &str) -> Option<&'t str> {
    let begins = format!("cannot lock ref '{name}': is at ");
    let ends = format!(" but expected {expected}");
    err.lines().find_map(|line| {
        let (_, rest) = line.split_once(&begins)?;
        let (at, rest) = rest.split_at_checked(40)?;
        (is_id(at) && rest.starts_with(&ends)).then_some(at)
    })
}

/// The record of a plan as the bytes of a tag object. Its id is their digest, so it is known before it is pushed.
pub(crate) fn record_of(plan: &Plan, seconds: i64) -> String {
    format!(
        "object {}\ntype commit\ntag {}\ntagger wilco <wilco@localhost> {seconds} +0000\n\n{}\n",
        plan.to,
        plan.act,
        plan.to_json()
    )
}

/// The plan in a record.
pub(crate) fn plan_in(record: &str) -> Result<Plan, String> {
    if record.len() > RECORD_MAX {
        return Err(format!("a record has at most {RECORD_MAX} bytes"));
    }
    let (head, text) = record.split_once("\n\n").ok_or("it is no tag of ours")?;
    let plan = Plan::from_json(text.trim_end())?;
    let about = head.lines().next().and_then(|l| l.strip_prefix("object "));
    if about != Some(plan.to.as_str()) || !is_id(&plan.to) || !is_id(&plan.from) {
        return Err("it is no record of ours: it does not say what it is about".to_owned());
    }
    Ok(plan)
}

/// Whether `git version` says one that keeps out the user's configuration when it is told to (2.32).
pub(crate) fn is_new_enough(said: &str) -> bool {
    let version = said.trim().strip_prefix("git version ").unwrap_or_default();
    let mut parts = version.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (2, 32)
}

/// What is left of git's complaints for a message: the lines that say why.
pub(crate) fn complaint(err: &str) -> String {
    let says = |l: &&str| !l.is_empty() && !l.starts_with("hint:");
    let lines: Vec<&str> = err.lines().map(str::trim).filter(says).take(4).collect();
    clean(&lines.join("; "), 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";

    #[test]
    fn refs_are_read_and_garbage_is_not() {
        let text = format!("{A}\trefs/heads/prod\n{B}\trefs/tags/v1\n{A}\trefs/tags/v1^{{}}\n");
        let read = refs(&text).expect("refs");
        assert_eq!(at(&read, "refs/heads/prod"), Some(A));
        assert_eq!(tagged(&read, "refs/tags/v1"), Some(A));
        assert_eq!(at(&read, "refs/heads/pro"), None);
        assert!(refs("<html>\n").is_err());
        assert_eq!(refs(""), Ok(Vec::new()));
    }

    #[test]
    fn a_git_that_cannot_be_told_to_mind_nobody_else_is_too_old() {
        for good in [
            "git version 2.32.0",
            "git version 2.47.3 (Apple Git-1)",
            "git version 3.0.rc1\n",
        ] {
            assert!(is_new_enough(good), "{good}");
        }
        for bad in ["git version 2.31.9", "git version 1.99", "", "git version x"] {
            assert!(!is_new_enough(bad), "{bad}");
        }
    }

    #[test]
    fn a_lock_that_was_lost_says_to_whom() {
        let text = format!(
            "remote: error: cannot lock ref 'refs/heads/prod': is at {B} but expected {A}        \nTo x\nerror: failed\n"
        );
        assert_eq!(lost_to(&text, "refs/heads/prod", A), Some(B));
        assert_eq!(lost_to(&text, "refs/heads/prod", B), None);
        assert_eq!(lost_to(&text, "refs/heads/pro", A), None);
        let short = "error: cannot lock ref 'refs/heads/prod': is at 22";
        assert_eq!(lost_to(short, "refs/heads/prod", A), None);
        let exists = "remote: error: cannot lock ref 'refs/wilco/x': reference already exists";
        assert_eq!(lost_to(exists, "refs/wilco/x", NO_OBJECT), None);
    }

    #[test]
    fn a_refusal_is_read_only_where_it_is_certain() {
        let text = format!(
            "To x\n \t{A}:refs/heads/prod\t1111111..2222222\n*\t{B}:refs/wilco/x\t[new reference]\nDone\n"
        );
        assert_eq!(pushed(&text, "refs/heads/prod"), Some(Pushed::Taken));
        assert_eq!(pushed(&text, "refs/wilco/x"), Some(Pushed::Taken));
        assert_eq!(pushed(&text, "refs/wilco/y"), None);
        let said = |s: &str| pushed(&format!("!\t{A}:refs/heads/prod\t{s}\n"), "refs/heads/prod");
        assert!(matches!(
            said("[rejected] (stale info)"),
            Some(Pushed::Refused(_))
        ));
        assert!(matches!(
            said("[remote rejected] (hook declined)"),
            Some(Pushed::Refused(_))
        ));
        assert!(matches!(
            said("[remote failure] (remote failed to report status)"),
            Some(Pushed::Unsaid(_))
        ));
        assert!(matches!(said("[no match]"), Some(Pushed::Unsaid(_))));
    }
}
