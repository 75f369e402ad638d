//! The command line: `wilcod serve`, `wilcod lab`, `wilcod demo`.

use std::future::Future;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use wilco_lab::{FaultSpec, LabOptions};

use crate::database::DatabaseUrl;
use crate::demo::{self, Play};
use crate::logs::{self, LogFormat};
use crate::serve::{self, ServeOptions};
use crate::{config, files, lab, run_file, shutdown};

/// How long the end may take beyond the grace.
const END_TIME: Duration = Duration::from_secs(10);

/// Carries out acts that cannot be undone, in two phases: prepare states what would be done, commit does exactly that.
#[derive(Debug, Parser)]
#[command(name = "wilcod", version, about, propagate_version = true)]
struct Cli {
    /// How log lines look, on standard error. RUST_LOG chooses what is told.
    #[arg(long, value_enum, default_value = "text", global = true)]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon.
    Serve(Serve),
    /// Run the counterparties to practise on alone: a bank that is not one, a vendor table, a mail drop, a git remote and a
    /// release folder. Their page is at /lab/.
    Lab(LabArgs),
    /// Play a payment from handoff to done report, on a daemon and a practice bank of its own.
    Demo(DemoArgs),
}

#[derive(Debug, Args)]
struct Serve {
    /// The data folder; made and filled at the first start.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where to listen, on loopback; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8470", value_parser = address)]
    listen: SocketAddr,
    /// A configuration elsewhere than DIR/wilcod.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep the acts in this PostgreSQL database (postgres://USER@HOST/DATABASE), which several daemons may share, each
    /// with a data folder of its own. Others on this machine can read command lines: where the URL holds a password,
    /// prefer WILCO_DATABASE_URL or the configuration.
    #[arg(long, value_name = "URL", env = "WILCO_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// A folder of profiles (<name>.json) instead of the built-in ones.
    #[arg(long, value_name = "DIR")]
    profiles: Option<PathBuf>,
    /// Serve although open acts need an adapter, agent or profile that is no longer configured; those in doubt stay there, the
    /// others wait and cannot be committed.
    #[arg(long)]
    orphan: bool,
    /// The clock was set back by more than a minute, and that is right: count on from the highest time written.
    #[arg(long)]
    accept_clock: bool,
    /// Seconds running acts get to end when the daemon is told to stop, instead of the configured ones.
    #[arg(long, value_name = "S")]
    grace: Option<u32>,
}

#[derive(Debug, Args)]
struct LabArgs {
    /// The folder of their records; made where it does not exist.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where to listen, on loopback; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8471", value_parser = address)]
    listen: SocketAddr,
    /// Where the mail drop listens (SMTP), on loopback; without it, on the port after the other one.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    mail_listen: Option<SocketAddr>,
    /// A fault to arm from the start, such as bank/domestic-payments:drop-after-accept, mail:slow:2:0.5, vendors:lock:1:5
    /// or git:refuse; as often as needed. An unknown word is answered with those there are.
    #[arg(
        long = "fault",
        value_name = "COUNTERPARTY[/ENDPOINT]:FAULT[:TIMES[:SECONDS]]"
    )]
    faults: Vec<FaultSpec>,
    /// A person must authorise each consent.
    #[arg(long)]
    manual: bool,
    /// The date the bank shows, for ever; without it, it follows the clock (UTC).
    #[arg(long, value_name = "YYYYMMDD", value_parser = date)]
    today: Option<time::Date>,
    /// Seconds a payment stays pending.
    #[arg(long, value_name = "S", default_value_t = 0)]
    settle_after: u32,
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// The bank states another account than the one approved: the statement is held, nothing is paid.
    #[arg(long, group = "play")]
    fault: bool,
    /// The sender cancels before confirming: nothing is paid.
    #[arg(long, group = "play")]
    cancel: bool,
    /// The daemon is killed between the bank's acceptance and its report, and started again: paid once.
    #[arg(long, group = "play")]
    crash: bool,
    /// Leave it running, and say how to look around.
    #[arg(long)]
    keep: bool,
}

/// Runs the command line: 0 when all went well, 1 when it did not, 2 for a wrong command line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    logs::start(cli.log_format);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no threads can be had: {error}")),
    };
    let ended = match cli.command {
        Command::Serve(args) => runtime.block_on(serve(args)),
        Command::Lab(args) => runtime.block_on(run_lab(args)),
        Command::Demo(args) => runtime.block_on(run_demo(args)),
    };
    // What still runs now is abandoned: it had its time.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => failed(&problem),
    }
}

async fn serve(args: Serve) -> Result<(), String> {
    let database = args.database_url.as_deref().map(DatabaseUrl::parse).transpose();
    let options = ServeOptions {
        data: args.data,
        listen: args.listen,
        config: args.config,
        database: database.map_err(|e| format!("--database-url: {e}"))?,
        profiles: args.profiles,
        orphan: args.orphan,
        accept_clock: args.accept_clock,
        grace: args.grace.map(|s| Duration::from_secs(u64::from(s))),
    };
    // Set before the start, so that a signal during it is not missed.
    let told = tokio::spawn(shutdown::told_to_stop());
    let running = serve::start(options).await.map_err(|e| e.to_string())?;
    wait(told).await?;
    let time = running.grace() + END_TIME;
    end_within(time, running.stop()).await
}

async fn run_lab(args: LabArgs) -> Result<(), String> {
    let told = tokio::spawn(shutdown::told_to_stop());
    let mail = args.mail_listen.unwrap_or_else(|| lab::mail_beside(args.listen));
    let mut options = LabOptions::new(args.data.clone(), args.listen).with_everybody(mail);
    options.faults = args.faults;
    options.manual = args.manual;
    options.today = args.today;
    options.settle_after_s = u64::from(args.settle_after);
    files::folder(&args.data).map_err(|e| e.to_string())?;
    options.token = lab::token(&args.data).map_err(|e| e.to_string())?;
    let lab = wilco_lab::start(options)
        .await
        .map_err(|e| match std::error::Error::source(&e) {
            Some(source) => format!("{e}: {source}"),
            None => e.to_string(),
        })?;
    run_file::write(&args.data, &lab.url(), None).map_err(|e| e.to_string())?;
    wait(told).await?;
    run_file::remove(&args.data);
    end_within(END_TIME, lab.stop()).await
}

async fn run_demo(args: DemoArgs) -> Result<(), String> {
    let play = match (args.fault, args.cancel, args.crash) {
        (true, _, _) => Play::Fault,
        (_, true, _) => Play::Cancel,
        (_, _, true) => Play::Crash,
        _ => Play::Payment,
    };
    tokio::select! {
        ended = demo::run(play, args.keep) => ended.map_err(|e| e.to_string()),
        // Dropping the demo kills what it started and removes its folder.
        _ = shutdown::told_to_stop() => Err("the demo was interrupted".to_owned()),
    }
}

async fn wait(told: tokio::task::JoinHandle<std::io::Result<()>>) -> Result<(), String> {
    match told.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("no signal handler can be set: {error}")),
        Err(error) => Err(format!("waiting for a signal failed: {error}")),
    }
}

/// Ends in time, or at once on a second signal: what is left is what a crash would leave, and recovery handles it.
async fn end_within(time: Duration, stop: impl Future<Output = ()>) -> Result<(), String> {
    tokio::select! {
        () = stop => Ok(()),
        () = tokio::time::sleep(time) => Err("stopping took too long and was cut short; the next start recovers".into()),
        _ = shutdown::told_to_stop() => Err("stopped at once by a second signal; the next start recovers".into()),
    }
}

fn failed(problem: &str) -> ExitCode {
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(std::io::stderr(), "wilcod: {problem}");
    ExitCode::FAILURE
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:")
        && let Ok(port) = port.parse()
    {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse()
        .map_err(|_| "an address and a port are needed, such as 127.0.0.1:8470 or [::1]:8470".to_owned())
}

fn date(text: &str) -> Result<time::Date, String> {
    config::date_from(text).ok_or_else(|| "a date YYYYMMDD is needed".to_owned())
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
    fn addresses_are_numbers_or_localhost() {
        assert_eq!(
            address("localhost:0").expect("an address"),
            SocketAddr::from(([127, 0, 0, 1], 0))
        );
        assert_eq!(address("[::1]:80").expect("an address").port(), 80);
        for bad in ["", "80", "example.org:80", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn faults_of_the_lab_are_checked_before_it_starts() {
        let lab = |faults: &[&str]| {
            let flags = faults.iter().flat_map(|fault| ["--fault", fault]);
            Cli::try_parse_from(["wilcod", "lab", "--data", "x"].into_iter().chain(flags))
        };
        let cli = lab(&[
            "bank/domestic-payments:drop-after-accept:1",
            "mail:slow:2:0.5",
            "git:refuse",
        ]);
        let Ok(Command::Lab(args)) = cli.map(|cli| cli.command) else {
            panic!("flags of the lab");
        };
        let faults: Vec<_> = args.faults.iter().map(ToString::to_string).collect();
        let want = [
            "bank/domestic-payments:drop-after-accept:1",
            "mail:slow:2:0.5",
            "git:refuse:1",
        ];
        assert_eq!(faults, want);
        for (fault, said) in [
            (
                "post:late",
                "counterparty: must be one of bank, vendors, mail, git, releases",
            ),
            (
                "vendors:late",
                "fault: must be one of lock, refuse, wrong-account",
            ),
            (
                "bank:late",
                "endpoint: must be one of domestic-payment-consents, domestic-payments",
            ),
            ("mail:late:0", "times: must be a whole number from 1 to 10000"),
        ] {
            let error = lab(&[fault]).expect_err(fault).to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn one_demo_at_a_time() {
        assert!(Cli::try_parse_from(["wilcod", "demo", "--fault", "--cancel"]).is_err());
        assert!(Cli::try_parse_from(["wilcod", "demo", "--crash", "--keep"]).is_ok());
        assert!(Cli::try_parse_from(["wilcod", "serve"]).is_err());
    }
}
