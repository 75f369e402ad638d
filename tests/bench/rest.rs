//! What the daemon costs while nobody asks for anything, how quickly it is there, and what it holds under load.

use std::time::Duration;

use crate::Plan;
use crate::daemon::{Daemon, House, Setup};
use crate::pgbench::Server;
use crate::report::{Bound, Report, Table};
use crate::stats::Spread;
use crate::subject::Subject;

/// At most so much at rest, in MB, and so many percent of a core.
const RESIDENT_MB: f64 = 30.0;
const CPU_PERCENT: f64 = 0.5;
/// Ready within so many milliseconds.
const READY_MS: f64 = 200.0;

/// How long after its start a daemon is at rest.
const SETTLES: Duration = Duration::from_millis(500);
/// How long it is watched: a round of recovery comes every two seconds.
const WATCHED: Duration = Duration::from_secs(4);

/// What one kind of daemon costs.
#[derive(Default)]
struct Row {
    first_ms: Spread,
    again_ms: Spread,
    resident: Spread,
    cpu: Spread,
}

/// Measures on SQLite, as it comes and with the simulator, and on Postgres.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), String> {
    let server = Server::start(None)?;
    let kinds = ["SQLite", "SQLite, as it comes", "Postgres"];
    let kinds = kinds.into_iter().filter(|k| *k != "Postgres" || server.is_some());
    let mut rows: Vec<(&str, Row)> = kinds.map(|kind| (kind, Row::default())).collect();
    for round in 0..plan.rounds {
        eprintln!("rest: round {} of {}", round + 1, plan.rounds);
        for (kind, row) in &mut rows {
            let database = match (*kind, &server) {
                ("Postgres", Some(server)) => Some(server.database(&format!("rest_{round}"))?),
                _ => None,
            };
            row.start(Setup {
                database,
                slow: None,
                as_it_comes: *kind == "SQLite, as it comes",
            })
            .await?;
        }
        // All rest at once, each on its own.
        let mut resting = Vec::new();
        if round < plan.rests {
            for (kind, row) in &mut rows {
                let database = match (*kind, &server) {
                    ("Postgres", Some(server)) => Some(server.database(&format!("resting_{round}"))?),
                    _ => None,
                };
                let house = House::new(Setup {
                    database,
                    slow: None,
                    as_it_comes: *kind == "SQLite, as it comes",
                })?;
                let daemon = house.start().await?;
                resting.push((row, daemon, house));
            }
        }
        rest(resting).await?;
    }
    tell(report, &rows);
    load(plan, report).await
}

/// Watches daemons that nobody asks for anything.
async fn rest(mut resting: Vec<(&mut Row, Daemon, House)>) -> Result<(), String> {
    if resting.is_empty() {
        return Ok(());
    }
    tokio::time::sleep(SETTLES).await;
    let before: Vec<Option<f64>> = resting.iter().map(|(_, daemon, _)| daemon.cpu_s()).collect();
    tokio::time::sleep(WATCHED).await;
    for ((row, daemon, _), before) in resting.iter_mut().zip(before) {
        if let Some((before, after)) = before.zip(daemon.cpu_s()) {
            row.cpu.add((after - before) * 100.0 / WATCHED.as_secs_f64());
        }
        daemon
            .resident_mb()
            .into_iter()
            .for_each(|mb| row.resident.add(mb));
    }
    for (_, daemon, _) in resting {
        daemon.stop().await?;
    }
    Ok(())
}

impl Row {
    /// A first start in a new folder, and another in the same.
    async fn start(&mut self, setup: Setup) -> Result<(), String> {
        let house = House::new(setup)?;
        for took_ms in [&mut self.first_ms, &mut self.again_ms] {
            let daemon = house.start().await?;
            took_ms.add(daemon.took.as_secs_f64() * 1000.0);
            daemon.stop().await?;
        }
        Ok(())
    }
}

fn tell(report: &mut Report, rows: &[(&str, Row)]) {
    let columns = [
        ("first_start_ms", "first start ms"),
        ("next_start_ms", "next start ms"),
        ("resident_mb", "resident MB"),
        ("cpu_percent", "CPU %"),
    ];
    let title = "At rest, and how long a start takes until work is taken (`as it comes`: with the practice bank inside)";
    let mut table = Table::new("rest", title, &columns);
    for (kind, row) in rows {
        let figures = [&row.first_ms, &row.again_ms, &row.resident, &row.cpu];
        table.row(kind, figures.into_iter().cloned().collect());
        let short = match *kind {
            "SQLite" => "sqlite",
            "Postgres" => "postgres",
            _ => "default",
        };
        for (name, what, measured, most) in [
            (
                "ready",
                "ms from the first start to ready",
                &row.first_ms,
                READY_MS,
            ),
            (
                "ready_again",
                "ms from the next start to ready",
                &row.again_ms,
                READY_MS,
            ),
            ("resident", "MB resident at rest", &row.resident, RESIDENT_MB),
            ("cpu", "% of a core at rest", &row.cpu, CPU_PERCENT),
        ] {
            let bound = Bound::AtMost(most);
            report.plain_goal(
                &format!("{short}_{name}"),
                &format!("{kind}: {what}"),
                measured,
                bound,
            );
        }
    }
    report.table(table);
}

/// Memory of a new daemon while ever more callers pay.
async fn load(plan: &Plan, report: &mut Report) -> Result<(), String> {
    let mut subject = Subject::start(Setup::default()).await?;
    let columns = [("resident_mb", "resident MB"), ("cycles", "cycles so far")];
    let title = "Memory under load, SQLite, one daemon, by number of callers (the simulator's book of all payments included)";
    let mut table = Table::new("memory", title, &columns);
    let mut so_far = 0;
    for callers in &plan.callers {
        let cycles = subject.cycles(*callers, plan.load_time).await?;
        so_far += cycles.run.calls;
        let mb = cycles.resident_mb.map_or_else(Spread::default, Spread::of);
        table.row(callers, vec![mb, Spread::of(so_far as f64)]);
    }
    if let Some(mb) = subject.daemon.most_resident_mb() {
        table.row("most", vec![Spread::of(mb), Spread::of(so_far as f64)]);
    }
    tokio::time::sleep(SETTLES).await;
    if let Some(mb) = subject.daemon.resident_mb() {
        table.row("after", vec![Spread::of(mb), Spread::of(so_far as f64)]);
    }
    report.table(table);
    subject.finish().await
}
