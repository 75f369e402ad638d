//! `wilco-bench`: how fast the pieces are, against limits measured in the same run.
//!
//! Absolute figures mean little on a machine that others use too, so nothing here is judged by one. What is compared is
//! measured in turns, round after round, and a goal is a ratio: the median of the rounds' ratios.
//!
//! - [`checks`]: the protocol functions beside the public Python package, as it is shipped and with its profiles kept.
//! - [`cycles`]: prepare and commit over gRPC at a real `wilcod`, beside [`echo`] (what gRPC allows), [`writer`] (what the
//!   store allows) and [`disk`] (what the disk allows).
//!
//! Where the system allows it, everything runs at real-time priority ([`priority`]).
//!
//! A run that ended wrongly (an act missing, a write nobody asked for) is an error, whatever its speed; a goal that is
//! missed is a figure like any other.

mod checks;
mod cycles;
mod daemon;
mod disk;
mod echo;
mod folder;
mod lines;
mod load;
mod priority;
mod report;
mod stats;
mod template;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use report::Report;

const USAGE: &str = "\
usage: wilco-bench [--quick] [--json FILE] [--only checks|cycles] [--callers N] [--plain]

  --quick      fewer and shorter rounds
  --json FILE  also write the figures and goals there
  --only PART  measure one part only, and
  --callers N  cycles at one number of callers only: for a closer look with a profiler
  --plain      at the priority it was started with";

/// How long to measure.
pub struct Plan {
    /// How often each thing is measured.
    pub rounds: usize,
    /// Each protocol function, in one round and one implementation.
    pub check_time: Duration,
    /// Each kind of load at each number of callers, in one round.
    pub load_time: Duration,
    /// How many callers there are at once.
    pub callers: Vec<usize>,
}

impl Plan {
    fn full() -> Plan {
        Plan {
            rounds: 7,
            check_time: Duration::from_millis(300),
            load_time: Duration::from_millis(1500),
            callers: cycles::CALLERS.to_vec(),
        }
    }

    fn quick() -> Plan {
        Plan {
            rounds: 5,
            check_time: Duration::from_millis(100),
            load_time: Duration::from_millis(400),
            callers: cycles::CALLERS.to_vec(),
        }
    }
}

struct Arguments {
    quick: bool,
    only: Option<String>,
    callers: Option<usize>,
    plain: bool,
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == [echo::SERVE] {
        return exit(echo::serve());
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
        only: None,
        callers: None,
        plain: false,
        json: None,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => arguments.quick = true,
            "--plain" => arguments.plain = true,
            "--only" => {
                let part = words
                    .next()
                    .filter(|part| matches!(part.as_str(), "checks" | "cycles"))?;
                arguments.only = Some(part);
            }
            "--callers" => {
                let callers = words.next()?.parse().ok().filter(|n| (1..=1000).contains(n))?;
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
    let wanted = |part| arguments.only.as_deref().is_none_or(|only| only == part);
    let mut report = Report::default();
    if wanted("checks") {
        checks::measure(&plan, &mut report)?;
    }
    if wanted("cycles") {
        let runtime = tokio::runtime::Runtime::new().map_err(|e| format!("no runtime: {e}"))?;
        // Told to stop, the bench still takes its daemons and folders with it.
        runtime.block_on(async {
            let terminate = tokio::signal::unix::SignalKind::terminate();
            let mut terminated =
                tokio::signal::unix::signal(terminate).map_err(|e| format!("signals: {e}"))?;
            tokio::select! {
                measured = cycles::measure(&plan, &mut report) => measured,
                _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
                _ = terminated.recv() => Err("told to stop".to_owned()),
            }
        })?;
    }
    report.print(plan.rounds);
    match &arguments.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}
