//! Whether a store that holds much is as fast as one that holds little: cycles beside a thousand open acts and beside very
//! many, in turns.

use std::sync::Arc;
use std::time::Instant;

use wilco_core::{Act, Change, Clock, Expect, Stage};
use wilco_store::Keeper;

use crate::Plan;
use crate::copies;
use crate::daemon::{House, Setup};
use crate::limits;
use crate::lines::FIRST_ID;
use crate::pgbench::Server;
use crate::report::{Bound, Report, Table};
use crate::stats::Spread;
use crate::subject::Subject;
use crate::template::{self, Life, Wall};
use crate::writer::{fresh, hash_of};

/// At so many callers.
const CALLERS: usize = 16;
/// The share of the rate that must be left, and how many times the p99 may be.
const RATE: f64 = 0.85;
const TAIL: f64 = 1.5;

/// Acts of one write when a store is filled.
const AT_ONCE: u64 = 250;
/// Over how many threads they are spread; so many are made one by one, and all others are copies.
const THREADS: u64 = 1000;

/// The figures beside so many open acts.
struct Row {
    acts: u64,
    subject: Subject,
    start_ms: f64,
    filled_s: f64,
    cycles: Spread,
    p50: Spread,
    p99: Spread,
    p999: Spread,
}

/// Measures on SQLite, or with `postgres` there.
pub async fn measure(plan: &Plan, report: &mut Report, postgres: bool) -> Result<(), String> {
    let server = if postgres { Server::start(None)? } else { None };
    if postgres && server.is_none() {
        report.note("growth was not measured on Postgres: its server programs and pgbench are not here");
        return Ok(());
    }
    let name = if postgres { "postgres_growth" } else { "growth" };
    let mut rows = Vec::new();
    for acts in &plan.open_acts {
        eprintln!("{name}: making {acts} open acts");
        rows.push(Row::filled(*acts, server.as_ref()).await?);
    }
    for round in 0..plan.rounds {
        eprintln!("{name}: round {} of {}", round + 1, plan.rounds);
        for row in &mut rows {
            let cycles = row.subject.cycles(CALLERS, plan.load_time).await?;
            row.cycles.add(cycles.run.per_s);
            row.p50.add(cycles.run.p50_ms);
            row.p99.add(cycles.run.p99_ms);
            row.p999.add(cycles.run.p999_ms);
        }
    }
    tell(report, name, &rows);
    for row in rows {
        row.subject.finish().await?;
    }
    Ok(())
}

fn tell(report: &mut Report, name: &str, rows: &[Row]) {
    let store = if name == "growth" { "SQLite" } else { "Postgres" };
    let columns = [
        ("cycles_per_s", "cycles/s"),
        ("p50_ms", "p50 ms"),
        ("p99_ms", "p99 ms"),
        ("p999_ms", "p99.9 ms"),
        ("start_ms", "start ms"),
        ("filled_in_s", "made in s"),
    ];
    let title = format!(
        "{store}, {CALLERS} callers, beside so many open acts; and how long the daemon took to start"
    );
    let mut table = Table::new(name, &title, &columns);
    for row in rows {
        table.row(
            row.acts,
            vec![
                row.cycles.clone(),
                row.p50.clone(),
                row.p99.clone(),
                row.p999.clone(),
                Spread::of(row.start_ms),
                Spread::of(row.filled_s),
            ],
        );
    }
    report.table(table);
    let (Some(few), Some(many)) = (rows.first(), rows.last()) else {
        return;
    };
    if few.acts == many.acts {
        return;
    }
    let (from, to) = (few.acts, many.acts);
    report.goal(
        &format!("{name}_rate"),
        &format!("{store}, {CALLERS} callers: cycles/s beside {to} open acts over beside {from}"),
        &many.cycles,
        &few.cycles,
        Bound::AtLeast(RATE),
    );
    report.goal(
        &format!("{name}_p99"),
        &format!("{store}, {CALLERS} callers: p99 ms beside {to} open acts over beside {from}"),
        &many.p99,
        &few.p99,
        Bound::AtMost(TAIL),
    );
}

impl Row {
    async fn filled(acts: u64, server: Option<&Server>) -> Result<Row, String> {
        let database = server.map(|s| s.database(&format!("open_{acts}"))).transpose()?;
        let house = House::new(Setup {
            database,
            ..Setup::default()
        })?;
        // The first start makes the store, its keys, and what a later one remembers.
        house.start().await?.stop().await?;
        let begun = Instant::now();
        let keeper = limits::keeper(house.folder(), house.database()).await?;
        let filled = fill(&keeper, acts.min(THREADS), &key_id(&house)?).await;
        keeper.close().await;
        filled?;
        let of_each = i64::try_from(acts / THREADS).map_err(|e| e.to_string())?;
        copies::make(&house, server, of_each)?;
        let filled_s = begun.elapsed().as_secs_f64();
        let daemon = house.start().await?;
        Ok(Row {
            acts,
            start_ms: daemon.took.as_secs_f64() * 1000.0,
            filled_s,
            subject: Subject::running(house, daemon, acts),
            cycles: Spread::default(),
            p50: Spread::default(),
            p99: Spread::default(),
            p999: Spread::default(),
        })
    }
}

/// The id of the key that the daemon makes tokens with.
fn key_id(house: &House) -> Result<String, String> {
    let path = house.data().join("token.key");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let line = text.lines().find(|l| !l.starts_with('#'));
    let id = line.and_then(|l| l.split_whitespace().next());
    id.map(str::to_owned)
        .ok_or_else(|| format!("{} holds no key", path.display()))
}

/// Puts so many prepared acts in a store, through its keeper, as the daemon would have written them.
async fn fill(keeper: &Arc<dyn Keeper>, acts: u64, key_id: &str) -> Result<(), String> {
    let life = Arc::new(open_until_tomorrow(template::record("20261002").await?, key_id));
    let mut from = 0;
    while from < acts {
        let to = (from + AT_ONCE).min(acts);
        write(keeper, &life, from..to).await?;
        from = to;
    }
    let counts = keeper.counts().await.map_err(|e| e.to_string())?;
    let there: u64 = counts.iter().map(|(_, count)| count).sum();
    if there == acts {
        Ok(())
    } else {
        Err(format!("{acts} acts were to be made, there are {there}"))
    }
}

async fn write(keeper: &Arc<dyn Keeper>, life: &Arc<Life>, acts: std::ops::Range<u64>) -> Result<(), String> {
    let life = Arc::clone(life);
    let changes: Vec<Change> = acts.map(|n| change(&life, n)).collect();
    let written = keeper.write(Box::new(move |_| changes.clone())).await;
    match written.map_err(|e| format!("the store: {e}"))? {
        wilco_core::Written::Advanced { .. } => Ok(()),
        other => Err(format!("the store did not advance: {other:?}")),
    }
}

/// The first act of the `n`th thread.
fn change(life: &Life, n: u64) -> Change {
    let mut act = fresh(&life.prepared.act, &format!("open-{n:03}"), FIRST_ID);
    let hash = hash_of(act.act_id);
    for token in &mut act.tokens {
        token.hash.clone_from(&hash);
    }
    Change {
        expect: Expect::Absent,
        act,
        entries: life.prepared.entries.clone(),
        unless_twin: None,
    }
}

/// The recorded life, with a statement that nobody's recovery finds due while it is measured.
fn open_until_tomorrow(mut life: Life, key_id: &str) -> Life {
    let until = Wall.now().plus_seconds(86_400);
    let act: &mut Act = &mut life.prepared.act;
    act.limit = until;
    if let Stage::Prepared(offer) = &mut act.stage {
        offer.expires_at = until;
    }
    for token in &mut act.tokens {
        key_id.clone_into(&mut token.key_id);
    }
    life
}
