//! What the disk allows: flushes of one page, one after the other.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::load::Run;
use crate::stats::Latencies;

const PAGE: usize = 4096;
/// The file is written over again and again, as a database's log is.
const PAGES: u64 = 4096;

/// Overwrites pages of a file of its own in `dir`, flushing each.
pub fn flushes(dir: &Path, time: Duration) -> Result<Run, String> {
    let path = dir.join("flushes");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    let page = [7u8; PAGE];
    for n in 0..PAGES {
        file.write_all_at(&page, n * PAGE as u64).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;

    let (start, mut took_us) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let begun = Instant::now();
        file.write_all_at(&page, (took_us.len() as u64 % PAGES) * PAGE as u64)
            .map_err(failed)?;
        file.sync_data().map_err(failed)?;
        took_us.push(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    let wall = start.elapsed().as_secs_f64();
    Ok(Run {
        calls: took_us.len() as u64,
        per_s: took_us.len() as f64 / wall,
        took: Latencies::new(took_us),
    })
}
