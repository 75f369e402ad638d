//! Whether anybody is ever kept waiting: many cycles for a long while, and the longest of them.

use crate::Plan;
use crate::daemon::Setup;
use crate::pgbench::Server;
use crate::report::{Bound, Report, Table};
use crate::stats::Spread;
use crate::subject::Subject;

/// At so many callers.
const CALLERS: usize = 16;
/// No cycle may take longer, in milliseconds.
const LONGEST_MS: f64 = 100.0;

/// Measures on SQLite, and on Postgres.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), String> {
    let columns = [
        ("cycles_per_s", "cycles/s"),
        ("p50_ms", "p50 ms"),
        ("p99_ms", "p99 ms"),
        ("p999_ms", "p99.9 ms"),
        ("longest_ms", "longest ms"),
    ];
    let s = plan.stall_time.as_secs();
    let title = format!("{CALLERS} callers for {s} s");
    let mut table = Table::new("stalls", &title, &columns);
    let server = Server::start(None)?;
    for kind in ["SQLite", "Postgres"] {
        let database = match (kind, &server) {
            ("SQLite", _) => None,
            (_, Some(server)) => Some(server.database("stalls")?),
            (_, None) => continue,
        };
        eprintln!("stalls: {kind}, {s} s");
        let mut subject = Subject::start(Setup {
            database,
            ..Setup::default()
        })
        .await?;
        let run = subject.cycles(CALLERS, plan.stall_time).await?.run;
        let longest = Spread::of(run.longest_ms);
        let what = format!("{kind}, {CALLERS} callers: ms of the longest of all cycles in {s} s");
        let name = format!("{}_longest_{s}s", kind.to_lowercase());
        report.plain_goal(&name, &what, &longest, Bound::AtMost(LONGEST_MS));
        let figures = [run.per_s, run.p50_ms, run.p99_ms, run.p999_ms, run.longest_ms];
        table.row(kind, figures.into_iter().map(Spread::of).collect());
        subject.finish().await?;
    }
    report.table(table);
    Ok(())
}
