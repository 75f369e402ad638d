//! What only looks: acts, show, thread, adapters.

use std::process::ExitCode;

use wilco_api::v1::{self, State};

use super::args::{Acts, Adapters, Check, Show, Thread};
use super::connect::Daemon;
use super::problem::Problem;
use super::{adapters, say, say_json, send, show};

/// What waits for somebody or something.
const PENDING: [State; 5] = [
    State::Prepared,
    State::Held,
    State::Lapsed,
    State::Executing,
    State::InDoubt,
];

/// The most acts the daemon gives at once.
const PAGE: u32 = 500;

/// How many of the acts that closed last are looked through for those that ended otherwise than stated or said.
const CLOSED_LOOKED_THROUGH: u32 = 200;

/// How many pages of a thread are read.
const PAGES_MAX: usize = 10_000;

/// `wilco acts`.
pub async fn acts(daemon: &Daemon, args: &Acts, json: bool) -> Result<ExitCode, Problem> {
    let states: &[State] = match (args.all, args.state.is_empty()) {
        (true, _) => &[],
        (false, true) => &PENDING,
        (false, false) => &args.state,
    };
    let mut found = v1::ListActsReply::default();
    loop {
        let wanted = args
            .limit
            .saturating_sub(u32::try_from(found.acts.len()).unwrap_or(u32::MAX));
        if wanted == 0 {
            break;
        }
        let request = v1::ListActsRequest {
            states: states.iter().map(|s| i32::from(*s)).collect(),
            ask: args.ask.clone(),
            thread: args.thread.clone(),
            page_token: found.next_page_token.clone(),
            page_size: wanted.min(PAGE),
        };
        let answer = daemon.executor().list_acts(daemon.signed(request)).await;
        let page = answer.map_err(|status| Problem::refused(&status))?.into_inner();
        let empty = page.acts.is_empty();
        found.acts.extend(page.acts);
        found.next_page_token = page.next_page_token;
        if found.next_page_token.is_empty() || empty {
            break;
        }
    }
    if !args.all && args.state.is_empty() {
        found.acts.extend(troubled(daemon, args).await?);
    }
    if json {
        say_json(&found)?;
    } else {
        let what = if args.all {
            "there is no act"
        } else {
            "nothing is pending"
        };
        say(&show::list(&found, send::now(), what));
    }
    Ok(ExitCode::SUCCESS)
}

/// Of the acts that closed last, those that somebody has to look into.
async fn troubled(daemon: &Daemon, args: &Acts) -> Result<Vec<v1::Act>, Problem> {
    let request = v1::ListActsRequest {
        states: vec![State::Done.into(), State::Failed.into()],
        ask: args.ask.clone(),
        thread: args.thread.clone(),
        page_token: String::new(),
        page_size: CLOSED_LOOKED_THROUGH,
    };
    let answer = daemon.executor().list_acts(daemon.signed(request)).await;
    let closed = answer.map_err(|status| Problem::refused(&status))?.into_inner();
    let waits = |act: &v1::Act| !act.waits_for.is_empty();
    Ok(closed.acts.into_iter().filter(waits).collect())
}

/// `wilco show`.
pub async fn show(daemon: &Daemon, args: &Show, json: bool) -> Result<ExitCode, Problem> {
    let request = v1::GetActRequest {
        act_id: args.act.clone().unwrap_or_default(),
        thread: args.thread.clone(),
        handoff_id: args.handoff.clone().unwrap_or_default(),
        token: String::new(),
        with_journal: args.journal,
    };
    let answer = daemon.executor().get_act(daemon.signed(request)).await;
    let reply = answer.map_err(|status| Problem::refused(&status))?.into_inner();
    if json {
        say_json(&reply)?;
    } else {
        say(&show::one(&reply, send::now()));
    }
    Ok(ExitCode::SUCCESS)
}

/// `wilco thread`: 1 when the thread check finds a problem.
pub async fn thread(daemon: &Daemon, args: &Thread, json: bool) -> Result<ExitCode, Problem> {
    let mut whole = v1::GetThreadReply::default();
    for _ in 0..PAGES_MAX {
        let request = v1::GetThreadRequest {
            thread: args.name.clone(),
            page_token: whole.next_page_token.clone(),
        };
        let answer = daemon.executor().get_thread(daemon.signed(request)).await;
        let page = answer.map_err(|status| Problem::refused(&status))?.into_inner();
        whole.lines.extend(page.lines);
        whole.problems = page.problems;
        whole.notes = page.notes;
        whole.next_page_token = page.next_page_token;
        if whole.next_page_token.is_empty() {
            break;
        }
    }
    let clean = whole.problems.is_empty();
    if json {
        say_json(&whole)?;
    } else {
        say(&show::thread(&whole));
    }
    Ok(if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `wilco adapters`: 1 where the one that is named is not configured.
pub async fn adapters(daemon: &Daemon, args: &Adapters, json: bool) -> Result<ExitCode, Problem> {
    let request = v1::ListAdaptersRequest {};
    let answer = daemon.executor().list_adapters(daemon.signed(request)).await;
    let mut reply = answer.map_err(|status| Problem::refused(&status))?.into_inner();
    if let Some(name) = &args.name {
        let names: Vec<String> = reply.adapters.iter().map(|a| a.name.clone()).collect();
        reply.adapters.retain(|a| a.name == *name);
        if reply.adapters.is_empty() {
            let there = names.join(", ");
            return Err(Problem::new(format!(
                "no adapter {name} is configured; there are: {there}"
            )));
        }
    }
    if json {
        say_json(&reply)?;
    } else {
        say(&match (&args.name, reply.adapters.first()) {
            (Some(_), Some(adapter)) => adapters::one(adapter),
            _ => adapters::list(&reply),
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// `wilco adapter check`: 1 where something is not as it must be.
pub async fn check(daemon: &Daemon, args: &Check, json: bool) -> Result<ExitCode, Problem> {
    let request = v1::CheckAdapterRequest {
        name: args.name.clone(),
        ho: args.ho.clone(),
    };
    let answer = daemon.operator().check_adapter(daemon.signed(request)).await;
    let reply = answer
        .map_err(|status| Problem::word_refused(&status))?
        .into_inner();
    if json {
        say_json(&reply)?;
    } else {
        say(&adapters::checked(&reply));
    }
    Ok(if reply.sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
