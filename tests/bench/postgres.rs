//! Cycles on Postgres, beside what `pgbench` and the bare store do on the same server.

use std::path::Path;
use std::time::Duration;

use crate::Plan;
use crate::daemon::Setup;
use crate::limits::Limits;
use crate::pgbench::Server;
use crate::report::{Bound, Report, Table};
use crate::stats::Spread;
use crate::subject::Subject;

/// The share of pgbench's cycles that must be reached.
const OF_PGBENCH: [(usize, f64); 3] = [(1, 0.30), (16, 0.35), (64, 0.45)];

/// The figures at one number of callers.
#[derive(Default)]
struct Row {
    cycles: Spread,
    p50: Spread,
    p99: Spread,
    p999: Spread,
    cpu: Spread,
    pgbench: Spread,
    pgbench_p50: Spread,
    pgbench_p99: Spread,
    writer: Spread,
    writer_p50: Spread,
}

/// What is measured in turns.
struct Bench {
    subject: Subject,
    limits: Limits,
    server: Server,
}

/// Measures the cycles and their limits in turns; with `slow`, on a disk whose flushes take longer.
pub async fn measure(plan: &Plan, report: &mut Report, slow: Option<&Path>) -> Result<(), String> {
    let Some(server) = Server::start(slow)? else {
        report.note("nothing was measured on Postgres: its server programs and pgbench are not here");
        return Ok(());
    };
    let setup = Setup {
        database: Some(server.database("wilco")?),
        ..Setup::default()
    };
    let mut bench = Bench {
        subject: Subject::start(setup).await?,
        limits: Limits::start(Some(&server.database("bare")?), None).await?,
        server,
    };
    let (name, slower) = match slow {
        None => ("postgres", ""),
        Some(_) => ("postgres_slow", ", each flush 1 ms slower"),
    };
    let mut rows: Vec<Row> = plan.callers.iter().map(|_| Row::default()).collect();
    for round in 0..plan.rounds {
        eprintln!("{name}: round {} of {}", round + 1, plan.rounds);
        for (callers, row) in plan.callers.iter().zip(&mut rows) {
            bench.round(*callers, row, plan.load_time).await?;
        }
    }
    bench.subject.finish().await?;
    let columns = [
        ("cycles_per_s", "cycles/s"),
        ("p50_ms", "p50 ms"),
        ("p99_ms", "p99 ms"),
        ("p999_ms", "p99.9 ms"),
        ("pgbench_cycles_per_s", "pgbench/s"),
        ("pgbench_p50_ms", "p50 ms"),
        ("pgbench_p99_ms", "p99 ms"),
        ("writer_cycles_per_s", "bare/s"),
        ("writer_p50_ms", "p50 ms"),
        ("cpu_ms_per_cycle", "CPU ms/cycle"),
    ];
    let title =
        format!("Postgres{slower}: cycles, and what pgbench and the bare store do, by number of callers");
    let mut table = Table::new(name, &title, &columns);
    for (callers, row) in plan.callers.iter().zip(rows) {
        if let Some((_, bound)) = OF_PGBENCH.iter().find(|(n, _)| n == callers) {
            let what = format!("Postgres, {callers} callers: cycles/s over pgbench's");
            match slow {
                None => report.goal(
                    &format!("{name}_cycles_{callers}"),
                    &what.replace(" 1 callers", " 1 caller"),
                    &row.cycles,
                    &row.pgbench,
                    Bound::AtLeast(*bound),
                ),
                Some(_) => report.figure(
                    &format!("{name}_share_{callers}"),
                    &format!("Postgres, flushes 1 ms slower, callers {callers}: share of pgbench's cycles/s"),
                    row.cycles.over(&row.pgbench),
                ),
            }
        }
        let figures = vec![
            row.cycles,
            row.p50,
            row.p99,
            row.p999,
            row.pgbench,
            row.pgbench_p50,
            row.pgbench_p99,
            row.writer,
            row.writer_p50,
            row.cpu,
        ];
        table.row(callers, figures);
    }
    report.table(table);
    Ok(())
}

impl Bench {
    async fn round(&mut self, callers: usize, row: &mut Row, time: Duration) -> Result<(), String> {
        let pgbench = self.server.cycles(callers, time).await?;
        row.pgbench.add(pgbench.per_s);
        row.pgbench_p50.add(pgbench.p50_ms);
        row.pgbench_p99.add(pgbench.p99_ms);
        let cycles = self.subject.cycles(callers, time).await?;
        row.cycles.add(cycles.run.per_s);
        row.p50.add(cycles.run.p50_ms);
        row.p99.add(cycles.run.p99_ms);
        row.p999.add(cycles.run.p999_ms);
        cycles.cpu_ms.into_iter().for_each(|ms| row.cpu.add(ms));
        let writer = self.limits.writer(callers, time).await?;
        row.writer.add(writer.per_s);
        row.writer_p50.add(writer.p50_ms);
        Ok(())
    }
}
