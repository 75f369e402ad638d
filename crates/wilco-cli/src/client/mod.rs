//! The client verbs: what a sender and an operator do with a running daemon.
//!
//! Each verb asks the daemon over gRPC and shows the answer, as text for people or, with `--json`, as the JSON API
//! gives it. Exit codes: 0 as wished, 1 refused or not as wished, 2 a wrong command line.

mod adapters;
mod args;
mod connect;
mod look;
mod problem;
mod send;
mod show;
mod table;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{AdapterVerb, Cli, Command};
use connect::Daemon;
use problem::Problem;

/// What the verbs are for, one a line.
pub fn help() -> String {
    let mut text = String::from("With a running daemon:\n");
    for verb in Cli::command().get_subcommands() {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("  {:<13} {about}\n", verb.get_name()));
    }
    text.push_str("  All take --data DIR (the daemon's folder), --as PRINCIPAL and --json.\n\n`wilco VERB --help` says what each takes.\n");
    text
}

/// Runs a client verb; `args` are the whole command line, the program's name included.
pub fn main<I: IntoIterator<Item = OsString>>(args: I) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output with 0, everything else to standard error with 2.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return told(&Problem::new(format!("no runtime can be had: {error}")), cli.json),
    };
    match runtime.block_on(run(&cli)) {
        Ok(code) => code,
        Err(problem) => told(&problem, cli.json),
    }
}

async fn run(cli: &Cli) -> Result<ExitCode, Problem> {
    let daemon = Daemon::find(&cli.place, cli.command.principal()).await?;
    match &cli.command {
        Command::Prepare(args) => send::prepare(&daemon, args, cli.json).await,
        Command::Commit(args) => send::commit(&daemon, args, cli.json).await,
        Command::Cancel(args) => send::cancel(&daemon, args, cli.json).await,
        Command::Settle(args) => send::settle(&daemon, args, cli.json).await,
        Command::Release(args) => send::release(&daemon, args, cli.json).await,
        Command::Purge(args) => send::purge(&daemon, args, cli.json).await,
        Command::Acts(args) => look::acts(&daemon, args, cli.json).await,
        Command::Show(args) => look::show(&daemon, args, cli.json).await,
        Command::Thread(args) => look::thread(&daemon, args, cli.json).await,
        Command::Adapters(args) => look::adapters(&daemon, args, cli.json).await,
        Command::Adapter(AdapterVerb::Check(args)) => look::check(&daemon, args, cli.json).await,
    }
}

fn told(problem: &Problem, json: bool) -> ExitCode {
    if json {
        say(&problem.json());
    }
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(std::io::stderr(), "wilco: {problem}");
    problem.exit_code()
}

/// Prints to standard output. A reader that went away (`| head`) is no error of ours.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints an answer as JSON.
fn say_json<T: serde::Serialize>(answer: &T) -> Result<(), Problem> {
    let text = serde_json::to_string_pretty(answer)
        .map_err(|e| Problem::new(format!("the answer has no JSON form: {e}")))?;
    say(&text);
    Ok(())
}
