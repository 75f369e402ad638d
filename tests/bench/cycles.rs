//! Prepare and commit over gRPC, beside what gRPC, the store and the disk allow.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use wilco_api::v1::executor_client::ExecutorClient;
use wilco_api::v1::{Act, CommitReply, CommitRequest, PrepareReply, PrepareRequest, State};
use wilco_core::journal::{EntryKind, first_break};
use wilco_core::{Clock, State as CoreState};
use wilco_store::{Filter, Keeper, SqliteKeeper, SqliteOptions};

use crate::Plan;
use crate::daemon::{Daemon, Figures};
use crate::disk;
use crate::echo::{Echo, EchoCaller};
use crate::folder::Folder;
use crate::lines::{FIRST_ID, confirmation, handoff};
use crate::load::{self, Caller, Run};
use crate::report::Report;
use crate::stats::Spread;
use crate::template::{self, Life, Wall};
use crate::writer::WriterCaller;

/// How many callers there are at once, one number after the other.
pub const CALLERS: [usize; 3] = [1, 16, 64];

/// The share that must be reached of 1/(2/E + 1/S): a cycle is two calls, and its rows.
const GOAL: f64 = 0.45;
/// At so many callers.
const GOAL_CALLERS: usize = 64;

/// How many writes a cycle takes.
const WRITES: u64 = 3;

/// How many acts' journals are read again at the end.
const READ_AGAIN: u32 = 200;

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
    writer: Spread,
    writer_p50: Spread,
    ratio: Spread,
}

#[derive(Default)]
struct Disk {
    flushes: Spread,
    p50: Spread,
    p99: Spread,
}

/// The three things that are measured in turns.
struct Bench {
    daemon: Daemon,
    echo: Echo,
    keeper: Arc<SqliteKeeper>,
    folder: Folder,
    life: Arc<Life>,
    paid: String,
    bytes: usize,
    segments: u32,
    cycles: u64,
}

/// Measures the cycles and their limits in turns.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), String> {
    let mut bench = Bench::start().await?;
    let mut rows: Vec<Row> = plan.callers.iter().map(|_| Row::default()).collect();
    let mut disk = Disk::default();
    for round in 0..plan.rounds {
        eprintln!("cycles: round {} of {}", round + 1, plan.rounds);
        for (callers, row) in plan.callers.iter().zip(&mut rows) {
            bench.round(*callers, row, plan.load_time).await?;
        }
        let flushes = disk::flushes(bench.folder.path(), plan.load_time / 4)?;
        disk.flushes.add(flushes.per_s);
        disk.p50.add(flushes.took.ms(0.5));
        disk.p99.add(flushes.took.ms(0.99));
    }
    let bytes = bench.bytes;
    bench.stop().await?;

    for (callers, row) in plan.callers.iter().zip(rows) {
        tell(report, *callers, row);
    }
    let mut size = Spread::default();
    size.add(bytes as f64);
    report.figure("echo_bytes", "bytes of an echo, each way", size);
    report.figure("fdatasync_per_s", "fdatasync of one page, calls/s", disk.flushes);
    report.figure("fdatasync_p50_ms", "fdatasync p50, ms", disk.p50);
    report.figure("fdatasync_p99_ms", "fdatasync p99, ms", disk.p99);
    Ok(())
}

fn tell(report: &mut Report, callers: usize, row: Row) {
    let who = match callers {
        1 => "1 caller".to_owned(),
        n => format!("{n} callers"),
    };
    for (name, what, value) in [
        ("cycles_per_s", "prepare+commit cycles/s", row.cycles),
        ("cycle_p50_ms", "cycle p50, ms", row.p50),
        ("cycle_p99_ms", "cycle p99, ms", row.p99),
        ("cycle_p999_ms", "cycle p99.9, ms", row.p999),
        ("writes_per_flush", "writes per flush", row.grouped),
        (
            "daemon_cpu_ms_per_cycle",
            "wilcod's processor time per cycle, ms",
            row.cpu,
        ),
        ("echo_per_s", "E: gRPC echo calls/s", row.echo),
        ("echo_p50_ms", "echo p50, ms", row.echo_p50),
        ("writer_cycles_per_s", "S: bare writer, cycles/s", row.writer),
        ("writer_p50_ms", "bare writer p50, ms", row.writer_p50),
        ("share_of_limit", "cycles/s over 1/(2/E + 1/S)", row.ratio.clone()),
    ] {
        if !value.rounds().is_empty() {
            report.figure(&format!("{name}_{callers}"), &format!("{who}: {what}"), value);
        }
    }
    if callers == GOAL_CALLERS {
        let name = format!("cycles_of_limit_{callers}");
        let what = format!("cycles/s over 1/(2/E + 1/S), {who}");
        report.goal(&name, &what, row.ratio, GOAL);
    }
}

impl Bench {
    async fn start() -> Result<Bench, String> {
        let now_s = Wall.now().0 / 1_000_000;
        let paid = rw1::unix_to_minute(now_s).chars().take(8).collect::<String>();
        let folder = Folder::new("writer")?;
        let options = SqliteOptions::new(folder.path().join("data"), Arc::new(Wall));
        let keeper = SqliteKeeper::open(options).await.map_err(|e| e.to_string())?;
        let mut bench = Bench {
            life: Arc::new(template::record(&paid).await?),
            daemon: Daemon::start().await?,
            echo: Echo::start().await?,
            keeper: Arc::new(keeper),
            folder,
            paid,
            bytes: 0,
            segments: 0,
            cycles: 0,
        };
        bench.bytes = bench.usual_bytes().await?;
        Ok(bench)
    }

    async fn round(&mut self, callers: usize, row: &mut Row, time: Duration) -> Result<(), String> {
        let echo = self.run_echo(callers, time).await?;
        let writer = self.run_writer(callers, time).await?;
        let cpu_before = self.daemon.cpu_s();
        let (cycles, grouped) = self.run_cycles(callers, time).await?;
        if let (Some(before), Some(after)) = (cpu_before, self.daemon.cpu_s()) {
            row.cpu.add((after - before) * 1000.0 / cycles.calls as f64);
        }
        row.cycles.add(cycles.per_s);
        row.p50.add(cycles.took.ms(0.5));
        row.p99.add(cycles.took.ms(0.99));
        row.p999.add(cycles.took.ms(0.999));
        row.grouped.add(grouped);
        row.echo.add(echo.per_s);
        row.echo_p50.add(echo.took.ms(0.5));
        row.writer.add(writer.per_s);
        row.writer_p50.add(writer.took.ms(0.5));
        row.ratio
            .add(cycles.per_s * (2.0 / echo.per_s + 1.0 / writer.per_s));
        Ok(())
    }

    async fn run_echo(&self, callers: usize, time: Duration) -> Result<Run, String> {
        let channels = load::channels(&self.echo.url, callers).await?;
        let callers = channels.into_iter().map(|c| EchoCaller::new(c, self.bytes));
        load::run(callers.collect(), time).await
    }

    async fn run_writer(&mut self, callers: usize, time: Duration) -> Result<Run, String> {
        let before = self.keeper.counters();
        let threads = self.threads(callers);
        let caller = |thread| WriterCaller::new(&self.keeper, &self.life, thread);
        let run = load::run(threads.into_iter().map(caller).collect(), time).await?;
        let writes = self.keeper.counters().writes - before.writes;
        if writes != WRITES * run.calls {
            return Err(format!(
                "the bare writer wrote {writes} times for {} cycles",
                run.calls
            ));
        }
        Ok(run)
    }

    /// Runs the cycles; the second figure is how many writes shared a flush.
    async fn run_cycles(&mut self, callers: usize, time: Duration) -> Result<(Run, f64), String> {
        let before = self.daemon.figures().await?;
        let channels = load::channels(&self.daemon.url, callers).await?;
        let threads = self.threads(callers);
        let senders: Result<Vec<_>, String> = channels
            .into_iter()
            .zip(threads)
            .map(|(channel, thread)| Sender::new(channel, &self.daemon.key, thread, &self.paid))
            .collect();
        let run = load::run(senders?, time).await?;
        self.cycles += run.calls;
        let after = self.settled().await?;
        let (writes, flushes) = (after.writes - before.writes, after.flushes - before.flushes);
        if writes != WRITES * run.calls || after.refused > 0 || after.unknown > 0 {
            return Err(format!("{} cycles took {writes} writes: {after:?}", run.calls));
        }
        let grouped = if callers == 1 {
            flushes <= writes
        } else {
            flushes < writes
        };
        if !grouped || flushes == 0 {
            return Err(format!(
                "{flushes} flushes for {writes} writes of {callers} callers"
            ));
        }
        Ok((run, writes as f64 / flushes as f64))
    }

    /// The daemon's figures, once they count what has been answered: it counts acts once a second.
    async fn settled(&self) -> Result<Figures, String> {
        for _ in 0..40 {
            let figures = self.daemon.figures().await?;
            if figures.done == self.cycles && figures.others == 0 {
                return Ok(figures);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let figures = self.daemon.figures().await?;
        Err(format!(
            "{} cycles were answered as done, the daemon counts {figures:?}",
            self.cycles
        ))
    }

    /// A thread for each caller of a new segment.
    fn threads(&mut self, callers: usize) -> Vec<String> {
        self.segments += 1;
        let segment = self.segments;
        (0..callers)
            .map(|n| format!("bench-{segment:03}-{n:02}"))
            .collect()
    }

    /// What one call of a cycle carries each way, on average: what an echo carries, too.
    async fn usual_bytes(&mut self) -> Result<usize, String> {
        let channel = load::channels(&self.daemon.url, 1)
            .await?
            .pop()
            .ok_or("no channel")?;
        let thread = self.threads(1).pop().unwrap_or_default();
        let mut sender = Sender::new(channel, &self.daemon.key, thread, &self.paid)?;
        sender.call().await?;
        self.cycles += 1;
        Ok(sender.bytes / 4)
    }

    /// Stops everything, and reads in the daemon's own file what it did.
    async fn stop(mut self) -> Result<(), String> {
        self.daemon.stop().await?;
        self.keeper.close().await;
        let options = SqliteOptions::new(self.daemon.data(), Arc::new(Wall));
        let keeper = SqliteKeeper::open(options).await.map_err(|e| e.to_string())?;
        let read = read_again(&keeper, self.cycles).await;
        keeper.close().await;
        read
    }
}

/// Whether the file holds every cycle as done, each with its journal whole: identity, checks and journal were on.
async fn read_again(keeper: &SqliteKeeper, cycles: u64) -> Result<(), String> {
    let counts = keeper.counts().await.map_err(|e| e.to_string())?;
    let wrong =
        |(state, count): &(CoreState, u64)| *count != if *state == CoreState::Done { cycles } else { 0 };
    if counts.iter().any(wrong) || counts.is_empty() {
        return Err(format!("{cycles} cycles were done, the file holds {counts:?}"));
    }
    let filter = Filter {
        limit: READ_AGAIN,
        ..Filter::default()
    };
    let acts = keeper.acts(&filter).await.map_err(|e| e.to_string())?.items;
    for act in acts {
        let rows = keeper.journal(act.act_id).await.map_err(|e| e.to_string())?;
        let lines = rows.iter().filter(|r| r.kind == EntryKind::Line);
        let kinds: Vec<&str> = lines
            .filter_map(|r| r.body.as_deref()?.split(' ').nth(1))
            .collect();
        let principal = &act.principal;
        if kinds != ["HO", "RB", "AN", "DN"] || first_break(&act, &rows).is_some() || principal != "scheduler"
        {
            return Err(format!(
                "act {} of {principal} has the journal {rows:?}",
                act.act_id
            ));
        }
    }
    Ok(())
}

/// A caller that prepares and commits.
struct Sender {
    client: ExecutorClient<Channel>,
    key: MetadataValue<Ascii>,
    thread: String,
    paid: String,
    next_id: u64,
    /// What the first cycle carried, all four messages; 0 before it is over.
    bytes: usize,
}

impl Sender {
    fn new(channel: Channel, key: &str, thread: String, paid: &str) -> Result<Sender, String> {
        Ok(Sender {
            client: ExecutorClient::new(channel),
            key: format!("Bearer {key}")
                .parse()
                .map_err(|_| "the key is no header")?,
            thread,
            paid: paid.to_owned(),
            next_id: FIRST_ID,
            bytes: 0,
        })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.key.clone());
        request
    }

    fn weigh(&mut self, message: &impl Message) {
        if self.next_id == FIRST_ID + 2 {
            self.bytes += message.encoded_len();
        }
    }

    async fn prepare(&mut self, id: u64) -> Result<PrepareReply, String> {
        let message = PrepareRequest {
            thread: self.thread.clone(),
            ho: handoff(id, &self.paid),
            record: String::new(),
        };
        self.weigh(&message);
        let request = self.request(message);
        let reply = self.client.prepare(request).await;
        Ok(reply.map_err(|s| format!("prepare: {s}"))?.into_inner())
    }

    async fn commit(&mut self, id: u64, prepared: PrepareReply) -> Result<CommitReply, String> {
        let rb_id = prepared.statement.split(' ').nth(2).unwrap_or_default();
        let message = CommitRequest {
            confirmation: confirmation(id, rb_id),
            token: prepared.token,
            statement_sha256: prepared.statement_sha256,
            wait_s: 0,
        };
        self.weigh(&message);
        let request = self.request(message);
        let reply = self.client.commit(request).await;
        Ok(reply.map_err(|s| format!("commit: {s}"))?.into_inner())
    }
}

impl Caller for Sender {
    async fn call(&mut self) -> Result<(), String> {
        let id = self.next_id;
        self.next_id += 2;
        let prepared = self.prepare(id).await?;
        self.weigh(&prepared);
        if prepared.token.is_empty() || prepared.replayed {
            return Err(format!("prepare answered {}", prepared.reply));
        }
        let committed = self.commit(id + 1, prepared).await?;
        self.weigh(&committed);
        let done = |act: &Act| act.state() == State::Done && act.verdict == "match";
        let first_time = committed.reply.starts_with("RW1 DN ") && !committed.replayed;
        match committed.act.as_ref().is_some_and(done) && first_time {
            true => Ok(()),
            false => Err(format!(
                "commit answered {:?} {:?}",
                committed.reply, committed.notes
            )),
        }
    }
}
