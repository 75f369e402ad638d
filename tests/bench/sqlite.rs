//! Cycles on SQLite, beside what gRPC, the bare store and the disk allow.

use std::path::Path;
use std::time::Duration;

use crate::Plan;
use crate::daemon::Setup;
use crate::echo::Echo;
use crate::limits::Limits;
use crate::report::{Bound, Report, Table};
use crate::stats::Spread;
use crate::subject::Subject;

/// The share of 1/(2/E + 1/S) that must be reached: a cycle is two calls, and its rows.
const OF_CALLS_AND_ROWS: [(usize, f64); 2] = [(16, 0.6), (64, 0.6)];
/// The share of F/3 that must be reached where flushes are slow: a cycle is three records.
const OF_RECORDS: [(usize, f64); 3] = [(1, 0.65), (16, 0.70), (64, 0.55)];
/// How many times 3 flushes and 2 calls a cycle may take at most.
const TAIL: (usize, f64) = (16, 12.0);
const ALONE: (usize, f64) = (1, 4.0);

/// The figures at one number of callers.
#[derive(Default)]
struct Row {
    cycles: Spread,
    p50: Spread,
    p99: Spread,
    p999: Spread,
    grouped: Spread,
    cpu: Spread,
    echo: Spread,
    echo_p50: Spread,
    echo_p99: Spread,
    writer: Spread,
    writer_p50: Spread,
    records: Spread,
}

#[derive(Default)]
struct Flushes {
    per_s: Spread,
    p50: Spread,
    p99: Spread,
}

/// What is measured in turns.
struct Bench {
    subject: Subject,
    /// Not on a slow disk: it knows none.
    echo: Option<Echo>,
    limits: Limits,
    bytes: usize,
}

/// Measures the cycles and their limits in turns; with `slow`, on a disk whose flushes take longer.
pub async fn measure(plan: &Plan, report: &mut Report, slow: Option<&Path>) -> Result<(), String> {
    let setup = Setup {
        slow: slow.map(Path::to_owned),
        ..Setup::default()
    };
    let mut subject = Subject::start(setup).await?;
    let mut bench = Bench {
        bytes: subject.usual_bytes().await?,
        subject,
        echo: match slow {
            None => Some(Echo::start().await?),
            Some(_) => None,
        },
        limits: Limits::start(None, slow).await?,
    };
    let name = if slow.is_some() { "sqlite_slow" } else { "sqlite" };
    let mut rows: Vec<Row> = plan.callers.iter().map(|_| Row::default()).collect();
    let mut flushes = Flushes::default();
    for round in 0..plan.rounds {
        eprintln!("{name}: round {} of {}", round + 1, plan.rounds);
        let run = bench.limits.flushes(plan.load_time / 4).await?;
        flushes.per_s.add(run.per_s);
        flushes.p50.add(run.p50_ms);
        flushes.p99.add(run.p99_ms);
        for (callers, row) in plan.callers.iter().zip(&mut rows) {
            bench.round(*callers, row, plan.load_time).await?;
        }
    }
    let bytes = bench.bytes;
    bench.subject.finish().await?;
    let rows: Vec<(usize, Row)> = plan.callers.iter().copied().zip(rows).collect();
    if slow.is_some() {
        tell_slow(report, name, &rows, flushes);
    } else {
        tell(report, name, &rows, flushes);
        report.figure(
            "echo_bytes",
            "what an echo carries each way, bytes",
            Spread::of(bytes as f64),
        );
    }
    Ok(())
}

impl Bench {
    async fn round(&mut self, callers: usize, row: &mut Row, time: Duration) -> Result<(), String> {
        if let Some(echo) = &self.echo {
            let run = echo.run(callers, self.bytes, time).await?;
            row.echo.add(run.per_s);
            row.echo_p50.add(run.p50_ms);
            row.echo_p99.add(run.p99_ms);
        }
        let writer = self.limits.writer(callers, time).await?;
        row.writer.add(writer.per_s);
        row.writer_p50.add(writer.p50_ms);
        let cycles = self.subject.cycles(callers, time).await?;
        row.cycles.add(cycles.run.per_s);
        row.p50.add(cycles.run.p50_ms);
        row.p99.add(cycles.run.p99_ms);
        row.p999.add(cycles.run.p999_ms);
        row.grouped.add(cycles.grouped);
        cycles.cpu_ms.into_iter().for_each(|ms| row.cpu.add(ms));
        let records = self.limits.grouped(callers, time / 2).await?;
        row.records.add(records.per_s);
        Ok(())
    }
}

impl Row {
    /// Cycles a second, were each two calls and its rows, one after the other and nothing else.
    fn calls_and_rows(&self) -> Spread {
        self.echo.with(&self.writer, |e, s| 1.0 / (2.0 / e + 1.0 / s))
    }

    /// Cycles a second, were each three records in a log.
    fn three_records(&self) -> Spread {
        self.records.with(&self.records, |f, _| f / 3.0)
    }
}

fn who(callers: usize) -> String {
    match callers {
        1 => "1 caller".to_owned(),
        n => format!("{n} callers"),
    }
}

fn tell(report: &mut Report, name: &str, rows: &[(usize, Row)], flushes: Flushes) {
    let columns = [
        ("cycles_per_s", "cycles/s"),
        ("p50_ms", "p50 ms"),
        ("p99_ms", "p99 ms"),
        ("p999_ms", "p99.9 ms"),
        ("echo_per_s", "E echo/s"),
        ("echo_p50_ms", "p50 ms"),
        ("echo_p99_ms", "p99 ms"),
        ("writer_cycles_per_s", "S bare/s"),
        ("writer_p50_ms", "p50 ms"),
        ("records_per_s", "F grouped/s"),
        ("limit_per_s", "1/(2/E+1/S)"),
        ("writes_per_flush", "writes/flush"),
        ("cpu_ms_per_cycle", "CPU ms/cycle"),
    ];
    let title =
        "SQLite: cycles, and what gRPC (E), the bare store (S) and the disk (F) allow, by number of callers";
    let mut table = Table::new(name, title, &columns);
    for (callers, row) in rows {
        let figures = [
            &row.cycles,
            &row.p50,
            &row.p99,
            &row.p999,
            &row.echo,
            &row.echo_p50,
            &row.echo_p99,
            &row.writer,
            &row.writer_p50,
            &row.records,
            &row.calls_and_rows(),
            &row.grouped,
            &row.cpu,
        ];
        table.row(callers, figures.into_iter().cloned().collect());
    }
    report.table(table);
    let find = |callers| rows.iter().find(|(n, _)| *n == callers).map(|(_, row)| row);
    for (callers, bound) in OF_CALLS_AND_ROWS {
        if let Some(row) = find(callers) {
            report.goal(
                &format!("{name}_cycles_{callers}"),
                &format!("SQLite, {}: cycles/s over 1/(2/E + 1/S)", who(callers)),
                &row.cycles,
                &row.calls_and_rows(),
                Bound::AtLeast(bound),
            );
        }
    }
    let Some(alone) = find(1) else { return };
    let p99 = flushes.p99.with(&alone.echo_p99, |f, e| 3.0 * f + 2.0 * e);
    let p50 = flushes.p50.with(&alone.echo_p50, |f, e| 3.0 * f + 2.0 * e);
    let (callers, bound) = TAIL;
    if let Some(row) = find(callers) {
        report.goal(
            &format!("{name}_p99_{callers}"),
            &format!(
                "SQLite, {}: p99 ms over 3 fdatasync + 2 echo (p99 of one)",
                who(callers)
            ),
            &row.p99,
            &p99,
            Bound::AtMost(bound),
        );
    }
    let (callers, bound) = ALONE;
    report.goal(
        &format!("{name}_p50_{callers}"),
        &format!("SQLite, {}: p50 ms over 3 fdatasync + 2 echo (p50)", who(callers)),
        &alone.p50,
        &p50,
        Bound::AtMost(bound),
    );
    report.figure("fdatasync_per_s", "fdatasync of one page, calls/s", flushes.per_s);
    report.figure("fdatasync_p50_ms", "fdatasync p50, ms", flushes.p50);
    report.figure("fdatasync_p99_ms", "fdatasync p99, ms", flushes.p99);
}

fn tell_slow(report: &mut Report, name: &str, rows: &[(usize, Row)], flushes: Flushes) {
    let columns = [
        ("cycles_per_s", "cycles/s"),
        ("p50_ms", "p50 ms"),
        ("p99_ms", "p99 ms"),
        ("p999_ms", "p99.9 ms"),
        ("writer_cycles_per_s", "S bare/s"),
        ("writer_p50_ms", "p50 ms"),
        ("records_per_s", "F grouped/s"),
        ("limit_per_s", "F/3"),
        ("writes_per_flush", "writes/flush"),
    ];
    let title = "SQLite, each flush 1 ms slower: cycles, and what the bare store (S) and the disk (F) allow";
    let mut table = Table::new(name, title, &columns);
    for (callers, row) in rows {
        let figures = [
            &row.cycles,
            &row.p50,
            &row.p99,
            &row.p999,
            &row.writer,
            &row.writer_p50,
            &row.records,
            &row.three_records(),
            &row.grouped,
        ];
        table.row(callers, figures.into_iter().cloned().collect());
    }
    report.table(table);
    for (callers, bound) in OF_RECORDS {
        if let Some((_, row)) = rows.iter().find(|(n, _)| *n == callers) {
            report.goal(
                &format!("{name}_cycles_{callers}"),
                &format!("SQLite, flushes 1 ms slower, {}: cycles/s over F/3", who(callers)),
                &row.cycles,
                &row.three_records(),
                Bound::AtLeast(bound),
            );
        }
    }
    report.figure(
        "slow_fdatasync_p50_ms",
        "fdatasync 1 ms slower, p50, ms",
        flushes.p50,
    );
}
