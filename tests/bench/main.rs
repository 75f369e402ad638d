//! `wilco-bench`: how fast the pieces are, against limits measured in the same run.
//!
//! Absolute figures mean little on a machine that others use too, so nothing here is judged by one that could be a ratio.
//! What is compared is measured in turns, round after round, and a goal is the median of the rounds' ratios.
//!
//! | part | what |
//! |---|---|
//! | `checks` | the protocol functions beside the public Python package, as it is shipped and with its profiles kept |
//! | `sqlite` | prepare and commit over gRPC at a real `wilcod`, beside what gRPC, the bare store and the disk allow |
//! | `sqlite-slow` | the same on a disk whose flushes take 1 ms longer |
//! | `postgres` | the same on a PostgreSQL server of its own, beside `pgbench` with three commits a cycle |
//! | `postgres-slow` | the same on the slower disk |
//! | `growth` | cycles beside a thousand, a hundred thousand and a million open acts |
//! | `postgres-growth` | the same on Postgres; takes minutes, so it must be asked for |
//! | `rest` | starts, memory and processor time at rest, memory under load |
//! | `stalls` | the longest of all cycles in a minute |
//!
//! Where the system allows it, everything runs at real-time priority ([`priority`]). What needs a C compiler (the slower
//! disk) or PostgreSQL's programs is left out where they are not, and the report says so.
//!
//! A run that ended wrongly (an act missing, a write nobody asked for) is an error, whatever its speed; a goal that is
//! missed is a figure like any other.

mod checks;
mod copies;
mod daemon;
mod disk;
mod echo;
mod folder;
mod growth;
mod limits;
mod lines;
mod load;
mod pgbench;
mod postgres;
mod priority;
mod report;
mod rest;
mod sender;
mod shim;
mod sqlite;
mod stalls;
mod stats;
mod subject;
mod template;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use report::Report;
use shim::Shim;

const USAGE: &str = "\
usage: wilco-bench [--quick] [--json FILE] [--only PART,...] [--callers N] [--plain]

  --quick      fewer and shorter rounds, and fewer open acts
  --json FILE  also write the figures and goals there
  --only PARTS only these of checks, sqlite, sqlite-slow, postgres, postgres-slow, growth, postgres-growth, rest, stalls
  --callers N  cycles at one number of callers only: for a closer look with a profiler
  --plain      at the priority it was started with";

/// What is measured where nothing else is asked for.
const PARTS: [&str; 8] = [
    "checks",
    "sqlite",
    "sqlite-slow",
    "postgres",
    "postgres-slow",
    "growth",
    "rest",
    "stalls",
];
/// What can be asked for besides.
const MORE: [&str; 1] = ["postgres-growth"];

/// How long to measure.
pub struct Plan {
    /// How often each thing is measured.
    pub rounds: usize,
    /// In how many of the rounds daemons are watched at rest.
    pub rests: usize,
    /// Each protocol function, in one round and one implementation.
    pub check_time: Duration,
    /// Each kind of load at each number of callers, in one round.
    pub load_time: Duration,
    /// How long nobody may be kept waiting.
    pub stall_time: Duration,
    /// How many callers there are at once.
    pub callers: Vec<usize>,
    /// Beside how many open acts.
    pub open_acts: Vec<u64>,
}

impl Plan {
    fn full() -> Plan {
        Plan {
            rounds: 5,
            rests: 3,
            check_time: Duration::from_millis(300),
            load_time: Duration::from_millis(1200),
            stall_time: Duration::from_secs(60),
            callers: vec![1, 16, 64, 256],
            open_acts: vec![1_000, 100_000, 1_000_000],
        }
    }

    fn quick() -> Plan {
        Plan {
            rounds: 3,
            rests: 1,
            check_time: Duration::from_millis(100),
            load_time: Duration::from_millis(400),
            stall_time: Duration::from_secs(5),
            open_acts: vec![1_000, 100_000],
            ..Plan::full()
        }
    }
}

struct Arguments {
    quick: bool,
    only: Vec<String>,
    callers: Option<usize>,
    plain: bool,
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((word, [])) if word == echo::SERVE => return exit(echo::serve()),
        Some((word, rest)) if word == limits::SERVE => return exit(limits::serve(rest)),
        _ => {}
    }
    let Some(arguments) = arguments(words.clone()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if !arguments.plain
        && let Some(ended) = priority::raised(&words)
    {
        return ended;
    }
    exit(bench(&arguments))
}

fn exit(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\nthe bench failed: {why}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(words: Vec<String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        quick: false,
        only: Vec::new(),
        callers: None,
        plain: false,
        json: None,
    };
    let known = |part: &str| PARTS.contains(&part) || MORE.contains(&part);
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => arguments.quick = true,
            "--plain" => arguments.plain = true,
            "--only" => {
                arguments.only = words.next()?.split(',').map(str::to_owned).collect();
                if !arguments.only.iter().all(|part| known(part)) {
                    return None;
                }
            }
            "--callers" => {
                let callers = words.next()?.parse().ok().filter(|n| (1..=256).contains(n))?;
                arguments.callers = Some(callers);
            }
            "--json" => arguments.json = Some(words.next()?.into()),
            _ => return None,
        }
    }
    Some(arguments)
}

fn bench(arguments: &Arguments) -> Result<(), String> {
    let mut plan = if arguments.quick {
        Plan::quick()
    } else {
        Plan::full()
    };
    if let Some(callers) = arguments.callers {
        plan.callers = vec![callers];
    }
    let parts: Vec<&str> = match arguments.only.as_slice() {
        [] => PARTS.to_vec(),
        only => only.iter().map(String::as_str).collect(),
    };
    let mut report = Report::default();
    if parts.contains(&"checks") {
        checks::measure(&plan, &mut report)?;
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|e| format!("no runtime: {e}"))?;
    // Told to stop, the bench still takes its daemons and folders with it.
    runtime.block_on(async {
        let terminate = tokio::signal::unix::SignalKind::terminate();
        let mut terminated = tokio::signal::unix::signal(terminate).map_err(|e| format!("signals: {e}"))?;
        tokio::select! {
            measured = measure(&parts, &plan, &mut report) => measured,
            _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
            _ = terminated.recv() => Err("told to stop".to_owned()),
        }
    })?;
    report.print();
    match &arguments.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

async fn measure(parts: &[&str], plan: &Plan, report: &mut Report) -> Result<(), String> {
    let shim = if parts.iter().any(|part| part.ends_with("-slow")) {
        let shim = Shim::make()?;
        if shim.is_none() {
            report.note("nothing was measured on a slower disk: that takes a C compiler (cc)");
        }
        shim
    } else {
        None
    };
    let slow = shim.as_ref().map(Shim::path);
    for part in parts {
        match (*part, slow.as_deref()) {
            ("sqlite", _) => sqlite::measure(plan, report, None).await?,
            ("sqlite-slow", Some(slow)) => sqlite::measure(plan, report, Some(slow)).await?,
            ("postgres", _) => postgres::measure(plan, report, None).await?,
            ("postgres-slow", Some(slow)) => postgres::measure(plan, report, Some(slow)).await?,
            ("growth", _) => growth::measure(plan, report, false).await?,
            ("postgres-growth", _) => growth::measure(plan, report, true).await?,
            ("rest", _) => rest::measure(plan, report).await?,
            ("stalls", _) => stalls::measure(plan, report).await?,
            _ => {}
        }
    }
    Ok(())
}
