//! How many lives a second the SQLite keeper writes, by number of concurrent callers.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wilco_core::{Clock, Timestamp};
use wilco_store::suite::sample;
use wilco_store::{Keeper, SqliteKeeper, SqliteOptions};

struct Wall;
impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let d = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(i64::try_from(d.as_micros()).unwrap_or(0))
    }
}

fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let f: Vec<&str> = s.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    (f[11].parse::<f64>().unwrap_or(0.0) + f[12].parse::<f64>().unwrap_or(0.0)) / 100.0
}

#[tokio::main]
async fn main() {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).expect("a folder"));
    let secs: u64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(2);
    let next = Arc::new(AtomicU64::new(1));
    let keeper = Arc::new(
        SqliteKeeper::open(SqliteOptions::new(&dir, Arc::new(Wall)))
            .await
            .expect("open"),
    );
    for round in 0..2 {
        let only: u64 = std::env::args().nth(3).and_then(|s| s.parse().ok()).unwrap_or(0);
        for callers in [1u64, 16, 64] {
            if only != 0 && only != callers {
                continue;
            }
            let before = keeper.counters();
            let cpu0 = cpu();
            let start = Instant::now();
            let mut tasks = Vec::new();
            for _ in 0..callers {
                let (keeper, next) = (keeper.clone(), next.clone());
                tasks.push(tokio::spawn(async move {
                    let mut took = Vec::new();
                    while start.elapsed() < Duration::from_secs(secs) {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        let t = Instant::now();
                        sample::cycle(&*keeper, n).await.expect("cycle");
                        took.push(t.elapsed());
                    }
                    took
                }));
            }
            let mut took = Vec::new();
            for t in tasks {
                took.extend(t.await.expect("task"));
            }
            let secs = start.elapsed().as_secs_f64();
            took.sort();
            let after = keeper.counters();
            println!(
                "round {round} callers {callers:3}: {:7.0} cycles/s  p50 {:?} p99 {:?} max {:?}  writes/flush {:.1} flushes/s {:.0} cpu/cycle {:.0} us",
                took.len() as f64 / secs,
                took[took.len() / 2],
                took[took.len() * 99 / 100],
                took[took.len() - 1],
                (after.writes - before.writes) as f64 / (after.flushes - before.flushes) as f64,
                (after.flushes - before.flushes) as f64 / secs,
                (cpu() - cpu0) * 1e6 / took.len() as f64
            );
        }
    }
    keeper.close().await;
}
