//! One function a verb.

use rw1::{MakeRb, Problem, Profiles, RbCheck};
use serde_json::{Value, json};

use super::answer::{Answer, Failed};
use super::args::Args;
use super::input::{lines, text, this_minute};

type Result<T> = std::result::Result<T, Failed>;

pub(super) fn validate(args: &Args, profiles: &Profiles) -> Result<Answer> {
    let line = text(place(args, 0))?;
    let parsed = rw1::parse(profiles, profile(args), &line);
    let ok = parsed.errors.is_empty() && (!args.strict || parsed.warnings.is_empty());
    let errors = parsed.errors.iter().map(|e| format!("ERROR: {e}"));
    let mut out: Vec<String> = errors
        .chain(parsed.warnings.iter().map(|w| format!("WARN: {w}")))
        .collect();
    if let (Some(message), true) = (&parsed.message, parsed.errors.is_empty()) {
        out.push(format!("OK {}", rw1::message_to_json(message)));
    }
    let mut json = parsed.to_json();
    json["ok"] = ok.into();
    Ok(Answer::new(ok, out, json))
}

pub(super) fn check_ho(args: &Args, profiles: &Profiles) -> Result<Answer> {
    let (ho, record) = (text(place(args, 0))?, text(place(args, 1))?);
    let record = rw1::read_record(&record).map_err(|problem| Failed::Refused(vec![problem]))?;
    let found = rw1::check_ho(profiles, profile(args), &ho, &record);
    Ok(Answer::checked(
        &found,
        "MISMATCH",
        "the HO matches the record; send it",
    ))
}

pub(super) fn check_rb(args: &Args, profiles: &Profiles) -> Result<Answer> {
    let (ho, rb) = (text(place(args, 0))?, text(place(args, 1))?);
    let now = args.now.clone().unwrap_or_else(this_minute);
    let with = RbCheck {
        expect_acc: args.expect_acc.as_deref(),
        now: Some(&now),
    };
    let found = rw1::check_rb(profiles, profile(args), &ho, &rb, with);
    Ok(Answer::checked(
        &found,
        "MISMATCH",
        "readback passes; ownership transfers",
    ))
}

/// Without `--at` no expiry is judged: only the caller knows when the statement was confirmed, and a true report does
/// not turn false because it is looked at later.
pub(super) fn check_dn(args: &Args, profiles: &Profiles) -> Result<Answer> {
    let (ho, dn) = (text(place(args, 0))?, text(place(args, 1))?);
    let rb = args.rb.as_deref().map(text).transpose()?;
    let found = rw1::check_dn(
        profiles,
        profile(args),
        &ho,
        &dn,
        rb.as_deref(),
        args.at.as_deref(),
    );
    Ok(Answer::checked(
        &found,
        "MISMATCH",
        "the done report matches the plan",
    ))
}

pub(super) fn check_thread(args: &Args, profiles: &Profiles) -> Result<Answer> {
    let lines = lines(place(args, 0))?;
    let now = args.now.clone().unwrap_or_else(this_minute);
    let found = rw1::check_thread(profiles, profile(args), &lines, Some(&now));
    Ok(Answer::checked(
        &found,
        "PROBLEM",
        "every handoff is closed or open in time",
    ))
}

pub(super) fn make_rb(args: &Args, profiles: &Profiles) -> Result<Answer> {
    let (ho, id) = (text(place(args, 0))?, text(place(args, 1))?);
    let with = MakeRb {
        acc: args.acc.clone().unwrap_or_default(),
        do_: args.do_.clone(),
        eta: args.eta.clone(),
        hash: !args.no_hash,
    };
    named("line", rw1::make_rb(profiles, profile(args), &ho, &id, &with))
}

pub(super) fn digest(args: &Args, profiles: &Profiles) -> Result<Answer> {
    named(
        "digest",
        rw1::digest(profiles, profile(args), &text(place(args, 0))?),
    )
}

pub(super) fn to_json(args: &Args, profiles: &Profiles) -> Result<Answer> {
    let line = text(place(args, 0))?;
    let message = rw1::parse(profiles, profile(args), &line)
        .accepted()
        .map_err(Failed::Refused)?;
    let json = json!({ "message": message.to_json() });
    Ok(Answer::new(true, vec![rw1::message_to_json(&message)], json))
}

pub(super) fn from_json(args: &Args, profiles: &Profiles) -> Result<Answer> {
    named(
        "line",
        rw1::from_json(profiles, profile(args), &text(place(args, 0))?),
    )
}

pub(super) fn legend(args: &Args, profiles: &Profiles) -> Result<Answer> {
    named(
        "legend",
        rw1::legend(profiles, profile(args), args.lean).map_err(|problem| vec![problem]),
    )
}

/// Every line of a file that is not empty and does not begin with `#`.
pub(super) fn lint(args: &Args, profiles: &Profiles) -> Result<Answer> {
    let file = place(args, 0);
    let mut out = Vec::new();
    let mut found: Vec<Value> = Vec::new();
    let mut errors = 0;
    for (n, line) in lines(file)?.iter().enumerate().map(|(n, line)| (n + 1, line)) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let parsed = rw1::parse(profiles, profile(args), line);
        errors += parsed.errors.len();
        out.extend(parsed.errors.iter().map(|e| format!("{file}:{n}: ERROR: {e}")));
        out.extend(parsed.warnings.iter().map(|w| format!("{file}:{n}: WARN: {w}")));
        if !parsed.errors.is_empty() || !parsed.warnings.is_empty() {
            let mut entry = parsed.to_json();
            entry["line"] = n.into();
            found.push(entry);
        }
    }
    out.push(format!("{errors} error(s)"));
    let json = json!({ "ok": errors == 0, "errors": errors, "lines": found });
    Ok(Answer::new(errors == 0, out, json))
}

fn named(name: &str, result: std::result::Result<String, Vec<Problem>>) -> Result<Answer> {
    result
        .map(|text| Answer::named(name, text))
        .map_err(Failed::Refused)
}

fn profile(args: &Args) -> Option<&str> {
    args.profile.as_deref()
}

/// A place; that there are as many as the verb takes was checked.
fn place(args: &Args, n: usize) -> &str {
    args.places.get(n).map(String::as_str).unwrap_or_default()
}
