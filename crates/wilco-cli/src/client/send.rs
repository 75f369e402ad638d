//! What changes something: prepare, commit, cancel, settle, release, purge.

use std::io::Read;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use rw1::{Draft, Kind, Profiles, RbCheck};
use wilco_api::convert::statement_sha256;
use wilco_api::v1::settle_request::Outcome;
use wilco_api::v1::{self, State};

use super::args::{Cancel, Commit, Prepare, Purge, Release, Settle};
use super::connect::{self, Daemon};
use super::problem::Problem;
use super::show;
use super::table::plain;
use super::{say, say_json};

/// The longest text that is read from standard input, in bytes.
const INPUT_MAX: u64 = 1 << 20;

/// `wilco prepare`: 0 when there is a statement to check.
pub async fn prepare(daemon: &Daemon, args: &Prepare, json: bool) -> Result<ExitCode, Problem> {
    let record = match args.record.as_deref() {
        None => String::new(),
        Some(given) => match given.strip_prefix('@') {
            None => given.to_owned(),
            Some(path) => connect::read(path.as_ref())?
                .ok_or_else(|| Problem::new(format!("the record's file {path} is not there")))?,
        },
    };
    let request = v1::PrepareRequest {
        thread: args.thread.clone(),
        ho: line(&args.ho)?,
        record,
    };
    let answer = daemon.executor().prepare(daemon.signed(request)).await;
    let reply = answer.map_err(|status| Problem::refused(&status))?.into_inner();
    let state = reply.act.as_ref().map_or(State::Unspecified, v1::Act::state);
    let stated = state == State::Prepared && reply.problems.is_empty();
    let done = state == State::Done;
    if json {
        say_json(&reply)?;
    } else {
        say(&show::prepared(&reply, now()));
    }
    Ok(code(stated || done))
}

/// `wilco commit`: 0 when the report agrees with the statement, or the statement was declined as asked.
pub async fn commit(daemon: &Daemon, args: &Commit, json: bool) -> Result<ExitCode, Problem> {
    let statement = args.statement.as_deref().map(without_token);
    let digest = match (&args.sha256, &statement) {
        (Some(sha256), _) => sha256.clone(),
        (None, Some(statement)) => statement_sha256(statement),
        (None, None) => String::new(),
    };
    let confirmation = match (&args.confirmation, &args.yes, &statement, &args.ho) {
        (Some(line), ..) => line.clone(),
        (None, Some(id), Some(statement), Some(ho)) => {
            let line = checked_yes(ho, statement, id)?;
            if !json {
                say(&format!("confirming  {}", plain(statement)));
                say(&format!("with        {line}"));
            }
            line
        }
        _ => return Err(Problem::new("give a confirmation line")),
    };
    let request = v1::CommitRequest {
        token: line(&args.token)?,
        statement_sha256: digest,
        confirmation,
        wait_s: args.wait,
    };
    let answer = daemon.executor().commit(daemon.signed(request)).await;
    let reply = answer.map_err(|status| Problem::refused(&status))?.into_inner();
    let state = reply.act.as_ref().map_or(State::Unspecified, v1::Act::state);
    if json {
        say_json(&reply)?;
    } else {
        say(&show::committed(&reply));
    }
    Ok(code(
        matches!(state, State::Done | State::Lapsed) && reply.problems.is_empty(),
    ))
}

/// `wilco cancel`: 0 when the handoff is abandoned and nothing was done.
pub async fn cancel(daemon: &Daemon, args: &Cancel, json: bool) -> Result<ExitCode, Problem> {
    let request = v1::CancelRequest {
        thread: args.thread.clone(),
        cx: line(&args.cx)?,
        wait_s: args.wait,
    };
    let answer = daemon.executor().cancel(daemon.signed(request)).await;
    let reply = answer.map_err(|status| Problem::refused(&status))?.into_inner();
    let state = reply.act.as_ref().map_or(State::Unspecified, v1::Act::state);
    if json {
        say_json(&reply)?;
    } else {
        say(&show::cancelled(&reply));
    }
    // A handoff that failed before the cancel came was not done either.
    Ok(code(matches!(
        state,
        State::Cancelled | State::Failed | State::Refused
    )))
}

/// `wilco settle`.
pub async fn settle(daemon: &Daemon, args: &Settle, json: bool) -> Result<ExitCode, Problem> {
    let outcome = if args.done {
        Outcome::Done
    } else {
        Outcome::NotDone
    };
    let request = v1::SettleRequest {
        act_id: args.act.clone(),
        outcome: outcome.into(),
        evidence: args.evidence.clone(),
        owner_dead: args.owner_dead,
    };
    let answer = daemon.operator().settle(daemon.signed(request)).await;
    let reply = answer
        .map_err(|status| Problem::word_refused(&status))?
        .into_inner();
    if json {
        say_json(&reply)?;
    } else {
        say(&plain(&reply.reply));
    }
    Ok(ExitCode::SUCCESS)
}

/// `wilco release`: 0 when its sender can confirm it now.
pub async fn release(daemon: &Daemon, args: &Release, json: bool) -> Result<ExitCode, Problem> {
    let request = v1::ReleaseRequest {
        act_id: args.act.clone(),
    };
    let answer = daemon.operator().release(daemon.signed(request)).await;
    let reply = answer
        .map_err(|status| Problem::word_refused(&status))?
        .into_inner();
    let state = reply.act.as_ref().map_or(State::Unspecified, v1::Act::state);
    if json {
        say_json(&reply)?;
    } else {
        say(&show::released(&reply, now()));
    }
    Ok(code(state == State::Prepared))
}

/// `wilco purge`: goes on until there is no more.
pub async fn purge(daemon: &Daemon, args: &Purge, json: bool) -> Result<ExitCode, Problem> {
    let mut all = v1::PurgeReply::default();
    loop {
        let request = v1::PurgeRequest {
            older_than_s: args.older_than,
        };
        let answer = daemon.operator().purge(daemon.signed(request)).await;
        let part = answer
            .map_err(|status| Problem::word_refused(&status))?
            .into_inner();
        all.acts += part.acts;
        all.bodies += part.bodies;
        // A part that erased nothing means that what is left is being changed by others: the next call finds it.
        all.more = part.more && part.acts > 0;
        if !all.more {
            break;
        }
        if !json {
            say(&format!("{} acts so far", all.acts));
        }
    }
    if json {
        say_json(&all)?;
    } else {
        say(&format!(
            "the texts of {} acts are erased, {} rows of their journals",
            all.acts, all.bodies
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The confirmation of a statement that passes the sender's own check.
fn checked_yes(ho: &str, statement: &str, id: &str) -> Result<String, Problem> {
    let profiles = Profiles::builtin();
    let failed = |what: &str, problems: &[rw1::Problem]| {
        let texts: Vec<&str> = problems.iter().map(|p| p.text.as_str()).collect();
        Problem::new(format!("{what}: {}", texts.join("; ")))
            .next("nothing was confirmed: cancel the handoff, and hand off anew from the record")
    };
    let at = rw1::unix_to_minute(now());
    let with = RbCheck {
        expect_acc: None,
        now: Some(&at),
    };
    let checked = rw1::check_rb(&profiles, None, ho, statement, with);
    if !checked.ok() {
        return Err(failed("the statement does not pass the check", &checked.problems));
    }
    let rb = rw1::parse(&profiles, None, statement)
        .accepted()
        .map_err(|p| failed("the statement", &p))?;
    let mut draft = Draft::new(Kind::An, id, rb.to, rb.from)
        .re(rb.id)
        .slot("val", "Y");
    if let Some(item) = rb.item {
        draft = draft.item(item);
    }
    if let Some(profile) = rb.text("p") {
        draft = draft.slot("p", profile);
    }
    rw1::encode(&profiles, None, &draft).map_err(|problems| failed("the confirmation", &problems))
}

/// The statement of an answer that was given with its token.
fn without_token(line: &str) -> String {
    let line = line.trim_end_matches(['\n', '\r']);
    let (slots, tail) = match line.split_once(" //") {
        Some((slots, tail)) => (slots, Some(tail)),
        None => (line, None),
    };
    let slots: Vec<&str> = slots
        .split(' ')
        .filter(|slot| !slot.starts_with("x_tok="))
        .collect();
    match tail {
        Some(tail) => format!("{} //{tail}", slots.join(" ")),
        None => slots.join(" "),
    }
}

/// A line given as an argument, or by standard input for `-`.
fn line(given: &str) -> Result<String, Problem> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .take(INPUT_MAX)
        .read_to_string(&mut text)
        .map_err(|e| Problem::new(format!("standard input cannot be read: {e}")))?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

fn code(as_wished: bool) -> ExitCode {
    if as_wished {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HO: &str = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=PAY p=pay rb=exec sup=marlow amt=5400.00 \
                      cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-7 apref=FD-1";

    fn rb(account: &str) -> String {
        let profiles = Profiles::builtin();
        let made =
            rw1::make_rb(&profiles, None, HO, "payer-101", &rw1::MakeRb::default()).expect("a readback");
        made.replace("40-12-88/61102938", account)
    }

    #[test]
    fn a_yes_is_only_given_to_a_statement_that_passes() {
        let yes = checked_yes(HO, &rb("40-12-88/61102938"), "scheduler-2").expect("passes");
        assert_eq!(
            yes,
            "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer item=inv:7 val=Y p=pay"
        );
        let refused = checked_yes(HO, &rb("40-12-88/61102983"), "scheduler-2").expect_err("another account");
        assert!(refused.to_string().contains("acct"), "{refused}");
        assert!(
            checked_yes(HO, &rb("40-12-88/61102938"), "payer-2").is_err(),
            "an id of somebody else"
        );
    }

    #[test]
    fn a_statement_is_the_answer_without_its_token() {
        assert_eq!(
            without_token("RW1 RB payer-101 a=b x_tok=1.2.3\n"),
            "RW1 RB payer-101 a=b"
        );
        assert_eq!(
            without_token("RW1 RB payer-101 a=b x_tok=1.2.3 // x_tok=z"),
            "RW1 RB payer-101 a=b // x_tok=z"
        );
        assert_eq!(without_token("RW1 RB payer-101 a=b"), "RW1 RB payer-101 a=b");
    }
}
