//! Protocol checks per second on one thread: ours beside the public Python package's.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rw1::{Checked, Profiles, RbCheck, Record};
use serde_json::{Value, json};

use crate::Plan;
use crate::lines::{self, DN, HO, PROFILE, RB};
use crate::report::{Bound, Report, Table};
use crate::stats::Spread;

/// How many times as fast as the package as it is shipped.
const GOAL_SHIPPED: f64 = 100.0;
/// How many times as fast as the package when it loads each profile once.
const GOAL_CACHED: f64 = 20.0;

/// In how many pieces each round is measured, in turns, so that what else the machine does falls on all alike.
const TURNS: u32 = 5;

/// Calls between two looks at the clock.
const BATCH: u32 = 64;

/// One function, three times.
#[derive(Default)]
struct Row {
    ours: Spread,
    shipped: Spread,
    cached: Spread,
}

/// Measures the five functions in turns.
pub fn measure(plan: &Plan, report: &mut Report) -> Result<(), String> {
    let profiles = Profiles::builtin();
    let record = lines::record();
    let mut shipped = Python::start("shipped")?;
    let mut cached = Python::start("cached")?;
    let ours = what_we_say(&profiles, &record);
    for (python, name) in [(&mut shipped, "shipped"), (&mut cached, "cached")] {
        let theirs = python.ask(&json!({ "op": "agree" }))?;
        if theirs != ours {
            return Err(format!(
                "the package ({name}) and we disagree on the lines to be timed:\n{theirs}\n{ours}"
            ));
        }
    }

    let profile = Some(PROFILE);
    let functions: [(&str, &dyn Fn()); 5] = [
        ("parse", &|| {
            black_box(rw1::parse(&profiles, profile, black_box(HO)));
        }),
        ("digest", &|| {
            // That it succeeds was seen above.
            let _ = black_box(rw1::digest(&profiles, profile, black_box(HO)));
        }),
        ("check_ho", &|| {
            black_box(rw1::check_ho(&profiles, profile, black_box(HO), &record));
        }),
        ("check_rb", &|| {
            black_box(rw1::check_rb(
                &profiles,
                profile,
                black_box(HO),
                RB,
                RbCheck::default(),
            ));
        }),
        ("check_dn", &|| {
            black_box(rw1::check_dn(
                &profiles,
                profile,
                black_box(HO),
                DN,
                Some(RB),
                None,
            ));
        }),
    ];
    let mut rows: [Row; 5] = Default::default();
    for round in 0..plan.rounds {
        eprintln!("checks: round {} of {}", round + 1, plan.rounds);
        for ((name, function), row) in functions.iter().zip(&mut rows) {
            let (time, turns) = (plan.check_time / TURNS, f64::from(TURNS));
            let mut sums = [0.0; 3];
            for _ in 0..TURNS {
                sums[0] += per_second(function, time);
                sums[1] += shipped.measure(name, time)?;
                sums[2] += cached.measure(name, time)?;
            }
            let [ours, as_shipped, kept] = sums.map(|sum| sum / turns);
            row.ours.add(ours);
            row.shipped.add(as_shipped);
            row.cached.add(kept);
        }
    }

    let columns = [
        ("ours_per_s", "ours"),
        ("python_shipped_per_s", "Python as shipped"),
        ("python_cached_per_s", "profiles kept"),
    ];
    let mut table = Table::new(
        "checks",
        "Protocol checks, calls/s on one thread: ours, the Python package's, and that with its profiles kept",
        &columns,
    );
    for ((name, _), row) in functions.iter().zip(rows) {
        for (kind, theirs, bound) in [
            ("shipped", &row.shipped, GOAL_SHIPPED),
            ("cached", &row.cached, GOAL_CACHED),
        ] {
            let what = match kind {
                "shipped" => format!("{name}: calls/s over Python as shipped"),
                _ => format!("{name}: calls/s over Python with profiles kept"),
            };
            let goal = format!("{name}_times_python_{kind}");
            report.goal(&goal, &what, &row.ours, theirs, Bound::AtLeast(bound));
        }
        table.row(name, vec![row.ours, row.shipped, row.cached]);
    }
    report.table(table);
    Ok(())
}

/// What the timed functions must say about the lines, and about the same lines with something wrong: both sides must do
/// the same work, and it must be the whole of it.
fn what_we_say(profiles: &Profiles, record: &Record) -> Value {
    let profile = Some(PROFILE);
    let parsed = rw1::parse(profiles, profile, HO);
    let slots = parsed.message.map(|m| m.slots.iter().count());
    let errors: Vec<String> = parsed.errors.into_iter().map(|p| p.text).collect();
    let wrong = wrong();
    let line = |key: &str| wrong[key].as_str().unwrap_or_default();
    let rb = |rb: &str| rw1::check_rb(profiles, profile, HO, rb, RbCheck::default());
    let dn = |dn: &str| rw1::check_dn(profiles, profile, HO, dn, Some(RB), None);
    let problems = [
        rw1::check_ho(profiles, profile, HO, record),
        rw1::check_ho(profiles, profile, line("ho"), record),
        rb(RB),
        rb(line("rb")),
        dn(DN),
        dn(line("dn")),
    ];
    json!({
        "slots": slots,
        "errors": errors,
        "digest": rw1::digest(profiles, profile, HO).unwrap_or_default(),
        "problems": problems.iter().map(texts).collect::<Vec<_>>(),
    })
}

fn texts(checked: &Checked) -> Vec<&str> {
    checked.problems.iter().map(|p| p.text.as_str()).collect()
}

fn wrong() -> Value {
    json!({
        "ho": HO.replace("61102938", "61102983"),
        "rb": RB.replace("5400.00", "5100.00"),
        "dn": DN.replace("5400.00", "5100.00"),
    })
}

fn per_second(function: &dyn Fn(), time: Duration) -> f64 {
    let (start, mut calls) = (Instant::now(), 0u32);
    loop {
        for _ in 0..BATCH {
            function();
        }
        calls += BATCH;
        let took = start.elapsed();
        if took >= time {
            return f64::from(calls) / took.as_secs_f64();
        }
    }
}

/// The package in a process of its own.
struct Python {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    fn start(mode: &str) -> Result<Python, String> {
        let python = std::env::var_os("WILCO_TEST_PYTHON").ok_or(
            "WILCO_TEST_PYTHON must name a Python with rogerwilco 0.3.0; `cargo xtask bench` sets it",
        )?;
        let mut process = Command::new(&python)
            .args(["-c", include_str!("checks.py"), mode])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", python.display()))?;
        let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the Python process has no pipes".to_owned());
        };
        let mut python = Python {
            process,
            requests,
            answers: BufReader::new(answers),
        };
        python.tell(&json!({
            "ho": HO, "rb": RB, "dn": DN, "profile": PROFILE, "record": lines::record(), "wrong": wrong(),
        }))?;
        Ok(python)
    }

    fn measure(&mut self, name: &str, time: Duration) -> Result<f64, String> {
        let answer = self.ask(&json!({ "op": "measure", "name": name, "seconds": time.as_secs_f64() }))?;
        let rate = answer.as_f64().filter(|rate| *rate > 0.0);
        rate.ok_or_else(|| format!("Python answered {answer} where calls per second were expected"))
    }

    fn tell(&mut self, request: &Value) -> Result<(), String> {
        writeln!(self.requests, "{request}").map_err(|e| format!("the Python process does not listen: {e}"))
    }

    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        self.tell(request)?;
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(|e| format!("the Python process does not answer: {e}"))?;
        serde_json::from_str(&line)
            .map_err(|_| "the Python process ended; its own words stand above".to_owned())
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
