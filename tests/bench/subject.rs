//! A daemon under load, and whether it did what it answered.

use std::sync::Arc;
use std::time::Duration;

use wilco_core::journal::{EntryKind, first_break};
use wilco_core::{Clock, State};
use wilco_store::{Filter, Keeper};

use crate::daemon::{Daemon, Figures, House, Setup};
use crate::limits;
use crate::load::{self, Caller, Run};
use crate::sender::Sender;
use crate::template::Wall;
use crate::writer::WRITES;

/// How many acts' journals are read again at the end.
const READ_AGAIN: u32 = 200;

/// A daemon, and how many cycles it has answered as done.
pub struct Subject {
    pub daemon: Daemon,
    // After the daemon, so that its folder goes when nothing writes there any more.
    pub house: House,
    paid: String,
    segments: u32,
    cycles: u64,
    /// Acts that were in its store before.
    others: u64,
}

/// What some cycles were like.
pub struct Cycles {
    pub run: Run,
    /// How many writes shared a flush.
    pub grouped: f64,
    /// The daemon's processor time per cycle, in milliseconds.
    pub cpu_ms: Option<f64>,
    /// Memory that was resident at the end, in MB.
    pub resident_mb: Option<f64>,
}

impl Subject {
    pub async fn start(setup: Setup) -> Result<Subject, String> {
        let house = House::new(setup)?;
        let daemon = house.start().await?;
        Ok(Subject::running(house, daemon, 0))
    }

    /// A daemon that runs already, on a store with so many acts that are not done.
    pub fn running(house: House, daemon: Daemon, others: u64) -> Subject {
        let today = rw1::unix_to_minute(Wall.now().0 / 1_000_000);
        Subject {
            house,
            daemon,
            paid: today.chars().take(8).collect(),
            segments: 0,
            cycles: 0,
            others,
        }
    }

    /// Lets so many callers prepare and commit.
    pub async fn cycles(&mut self, callers: usize, time: Duration) -> Result<Cycles, String> {
        let before = self.daemon.figures().await?;
        let channels = load::channels(&self.daemon.url, callers).await?;
        let senders: Result<Vec<_>, String> = channels
            .into_iter()
            .zip(self.threads(callers))
            .map(|(channel, thread)| Sender::new(channel, &self.daemon.key, thread, &self.paid))
            .collect();
        let cpu_before = self.daemon.cpu_s();
        let run = load::run(senders?, time).await?;
        let cpu = cpu_before.zip(self.daemon.cpu_s());
        let resident_mb = self.daemon.resident_mb();
        self.cycles += run.calls;
        let after = self.daemon.figures().await?;
        let (writes, flushes) = (after.writes - before.writes, after.flushes - before.flushes);
        if writes != WRITES * run.calls || after.refused > 0 || after.unknown > 0 {
            return Err(format!("{} cycles took {writes} writes: {after:?}", run.calls));
        }
        if flushes == 0 || flushes > writes {
            return Err(format!(
                "{flushes} flushes for {writes} writes of {callers} callers"
            ));
        }
        Ok(Cycles {
            cpu_ms: cpu.map(|(before, after)| (after - before) * 1000.0 / run.calls as f64),
            grouped: writes as f64 / flushes as f64,
            resident_mb,
            run,
        })
    }

    /// What one call of a cycle carries each way, on average: what an echo carries, too.
    pub async fn usual_bytes(&mut self) -> Result<usize, String> {
        let channels = load::channels(&self.daemon.url, 1).await?;
        let channel = channels.into_iter().next().ok_or("no channel")?;
        let thread = self.threads(1).pop().unwrap_or_default();
        let mut sender = Sender::new(channel, &self.daemon.key, thread, &self.paid)?;
        sender.call().await?;
        self.cycles += 1;
        Ok(sender.bytes / 4)
    }

    /// A thread for each caller of a new segment.
    fn threads(&mut self, callers: usize) -> Vec<String> {
        self.segments += 1;
        let segment = self.segments;
        (0..callers).map(|n| format!("{segment:03}-{n:03}")).collect()
    }

    /// Stops the daemon, and reads in its store what it did.
    pub async fn finish(self) -> Result<(), String> {
        self.settled().await?;
        self.daemon.stop().await?;
        let keeper = limits::keeper(self.house.folder(), self.house.database()).await?;
        let read = read_again(&keeper, self.cycles, self.others).await;
        keeper.close().await;
        read
    }

    /// Waits until the daemon counts what it has answered: it counts acts once a second.
    async fn settled(&self) -> Result<Figures, String> {
        for _ in 0..40 {
            let figures = self.daemon.figures().await?;
            if figures.done == self.cycles && figures.others == self.others {
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
}

/// Whether the store holds every cycle as done, and some of them each with its journal whole: identity, checks and journal
/// were on.
async fn read_again(keeper: &Arc<dyn Keeper>, cycles: u64, others: u64) -> Result<(), String> {
    let counts = keeper.counts().await.map_err(|e| e.to_string())?;
    let sum = |done: bool| -> u64 {
        let wanted = counts.iter().filter(|(s, _)| (*s == State::Done) == done);
        wanted.map(|(_, count)| count).sum()
    };
    if sum(true) != cycles || sum(false) != others {
        return Err(format!("{cycles} cycles were done, the store holds {counts:?}"));
    }
    let filter = Filter {
        limit: READ_AGAIN,
        states: vec![State::Done],
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
