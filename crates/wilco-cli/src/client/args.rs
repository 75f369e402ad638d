//! The command line of the client verbs.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Hands typed jobs to wilcod and watches over them.
#[derive(Debug, Parser)]
#[command(name = "wilco", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub place: Place,
    /// Answer as JSON, as the JSON API does.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

/// Where the daemon is, and who asks.
#[derive(Debug, Args)]
pub struct Place {
    /// The daemon's data folder: its address is in run.json, its clients' keys in keys.toml.
    #[arg(long, global = true, value_name = "DIR", env = "WILCO_DATA")]
    pub data: Option<PathBuf>,
    /// The daemon's address, instead of the one in run.json.
    #[arg(long, global = true, value_name = "URL", env = "WILCO_URL")]
    pub url: Option<String>,
    /// The key, instead of one from keys.toml. Others on this machine can read command lines: prefer WILCO_KEY.
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = "WILCO_KEY",
        hide_env_values = true
    )]
    pub key: Option<String>,
    /// Whose key of keys.toml to use; otherwise `scheduler` to send and `duty` to look and settle.
    #[arg(long = "as", global = true, value_name = "PRINCIPAL")]
    pub principal: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Hand a job over: what would be done is resolved, frozen and read back. Nothing happens yet.
    Prepare(Prepare),
    /// Confirm a statement that was checked: exactly that is executed and reported.
    Commit(Commit),
    /// Withdraw a handoff; the answer is the truth.
    Cancel(Cancel),
    /// What is pending, for how long, and who must act; and what of the newest closed acts somebody must look into.
    Acts(Acts),
    /// One act.
    Show(Show),
    /// The lines of a thread, and what the thread check says of them.
    Thread(Thread),
    /// The adapters: what each serves, what its counterparty promises, and whether it answers.
    Adapters(Adapters),
    /// Try one adapter at its counterparty. Nothing moves.
    #[command(subcommand)]
    Adapter(AdapterVerb),
    /// Say how an act in doubt ended, after looking.
    Settle(Settle),
    /// Let a handoff go on that is held because a likely twin stands; its sender still confirms it.
    Release(Release),
    /// Erase the texts of acts closed long ago; ids, states, digests, closing lines and hashes stay.
    Purge(Purge),
}

impl Command {
    /// Whose key fits, where the caller names none.
    pub fn principal(&self) -> &'static str {
        match self {
            Command::Prepare(_) | Command::Commit(_) | Command::Cancel(_) => "scheduler",
            Command::Acts(_)
            | Command::Show(_)
            | Command::Thread(_)
            | Command::Adapters(_)
            | Command::Adapter(_)
            | Command::Settle(_)
            | Command::Release(_)
            | Command::Purge(_) => "duty",
        }
    }
}

#[derive(Debug, Args)]
pub struct Prepare {
    /// The HO line, or - to read it from standard input.
    #[arg(long, value_name = "LINE")]
    pub ho: String,
    /// The approved record as a JSON object, or @FILE; a line that differs from it is refused.
    #[arg(long, value_name = "JSON")]
    pub record: Option<String>,
    /// The conversation; otherwise the one named after the sender.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub thread: String,
}

#[derive(Debug, Args)]
pub struct Commit {
    /// The token that came with the statement, or - to read it from standard input.
    #[arg(value_name = "TOKEN")]
    pub token: String,
    /// The SHA-256 of the statement that was checked.
    #[arg(long = "sha256", value_name = "HEX", required_unless_present = "statement")]
    pub sha256: Option<String>,
    /// The statement that was checked: its SHA-256 is computed here.
    #[arg(long, value_name = "LINE", conflicts_with = "sha256")]
    pub statement: Option<String>,
    /// The confirmation: an AN line that answers the statement with val=Y, or declines it with val=N.
    #[arg(long, value_name = "LINE", required_unless_present = "yes")]
    pub confirmation: Option<String>,
    /// Check the statement against the handoff here, and confirm it under this message id if it passes.
    #[arg(long, value_name = "ID", conflicts_with = "confirmation", requires_all = ["statement", "ho"])]
    pub yes: Option<String>,
    /// The handoff, for --yes.
    #[arg(long, value_name = "LINE")]
    pub ho: Option<String>,
    /// Seconds to wait for the outcome; the act goes on in any case.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub wait: u32,
}

#[derive(Debug, Args)]
pub struct Cancel {
    /// The CX line, or - to read it from standard input.
    #[arg(long, value_name = "LINE")]
    pub cx: String,
    /// The conversation; otherwise the one named after the sender.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub thread: String,
    /// Seconds to wait for the truth while the act is executing.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub wait: u32,
}

#[derive(Debug, Args)]
pub struct Acts {
    /// Closed ones too.
    #[arg(long, conflicts_with = "state")]
    pub all: bool,
    /// Only these states; may be given again.
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub state: Vec<wilco_api::v1::State>,
    /// Only this ask.
    #[arg(long, value_name = "ASK", default_value = "")]
    pub ask: String,
    /// Only this thread.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub thread: String,
    /// At most so many, the newest.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub struct Show {
    /// The act's id.
    #[arg(value_name = "ACT", required_unless_present = "handoff")]
    pub act: Option<String>,
    /// The handoff's message id instead.
    #[arg(long, value_name = "ID", conflicts_with = "act")]
    pub handoff: Option<String>,
    /// Its thread; otherwise the one named after the sender.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub thread: String,
    /// Also what happened to it, in order.
    #[arg(long)]
    pub journal: bool,
}

#[derive(Debug, Args)]
pub struct Thread {
    /// The thread.
    #[arg(value_name = "NAME")]
    pub name: String,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
pub struct Settle {
    /// The act's id.
    #[arg(value_name = "ACT")]
    pub act: String,
    /// It was done.
    #[arg(long, group = "outcome")]
    pub done: bool,
    /// It was not done, and cannot be any more.
    #[arg(long, group = "outcome")]
    pub not_done: bool,
    /// What was seen, where, and by whom.
    #[arg(long, value_name = "TEXT")]
    pub evidence: String,
    /// You made sure that every process that could still send it is gone (the machine is off, say).
    #[arg(long)]
    pub owner_dead: bool,
}

#[derive(Debug, Subcommand)]
pub enum AdapterVerb {
    /// Its description, its health and, with a handoff to look at, whether that can be resolved, is not found, and can be
    /// withdrawn again. 1 where something is not as it must be.
    Check(Check),
}

#[derive(Debug, Args)]
pub struct Check {
    /// The adapter, as `wilco adapters` names it.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// An HO line of an ask it serves, to look at. It is not stored, and its id is not taken.
    #[arg(long, value_name = "LINE", default_value = "")]
    pub ho: String,
}

#[derive(Debug, Args)]
pub struct Adapters {
    /// Only this one, with its whole contract.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct Release {
    /// The act's id.
    #[arg(value_name = "ACT")]
    pub act: String,
}

#[derive(Debug, Args)]
pub struct Purge {
    /// Only acts closed longer ago than this, in days or hours; at least a day.
    #[arg(long, value_name = "90d", value_parser = age)]
    pub older_than: u64,
}

/// Seconds of an age such as `90d` or `36h`.
fn age(text: &str) -> Result<u64, String> {
    let unit_s = match text.as_bytes().last() {
        Some(b'd') => 86_400,
        Some(b'h') => 3_600,
        _ => 0,
    };
    let number = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let seconds = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_s));
    seconds
        .filter(|s| digits && (86_400..=3_155_760_000).contains(s))
        .ok_or_else(|| {
            "days or hours are needed, such as 90d or 36h; at least a day, at most a century".to_owned()
        })
}

fn state(word: &str) -> Result<wilco_api::v1::State, String> {
    use wilco_api::{convert, v1::State};
    match convert::state_from_word(word) {
        Some(state) if state != State::Unspecified => Ok(state),
        _ => Err(
            "one of prepared, held, lapsed, executing, in_doubt, done, failed, cancelled, refused".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_belongs_together_must_be_given_together() {
        let parses = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        assert!(parses("wilco commit T --sha256 ab --confirmation AN"));
        assert!(parses("wilco commit T --statement RB --confirmation AN"));
        assert!(parses("wilco commit T --statement RB --ho HO --yes scheduler-2"));
        assert!(!parses("wilco commit T --sha256 ab --yes scheduler-2"));
        assert!(!parses("wilco commit T --statement RB --yes scheduler-2"));
        assert!(!parses("wilco commit T --confirmation AN"));
        assert!(!parses("wilco commit T --sha256 ab"));
        assert!(parses("wilco settle A --done --evidence seen --data D"));
        assert!(!parses("wilco settle A --done --not-done --evidence seen"));
        assert!(!parses("wilco settle A --evidence seen"));
        assert!(!parses("wilco settle A --done"));
        assert!(parses("wilco settle A --not-done --evidence seen --owner-dead"));
        assert!(parses("wilco purge --older-than 90d") && parses("wilco purge --older-than 36h"));
        for bad in [
            "",
            "d",
            "90",
            "23h",
            "0d",
            "-1d",
            "+9d",
            "9.5d",
            "90m",
            "99999999999999999999d",
            "40000d",
        ] {
            assert!(!parses(&format!("wilco purge --older-than {bad}")), "{bad}");
        }
        assert!(!parses("wilco purge"));
        assert!(parses("wilco release A") && !parses("wilco release"));
        assert!(parses("wilco show --handoff scheduler-1") && parses("wilco show A"));
        assert!(!parses("wilco show"));
        assert!(parses("wilco acts --state in_doubt --state held") && !parses("wilco acts --state IN_DOUBT"));
        assert!(!parses("wilco acts --all --state held"));
    }
}
