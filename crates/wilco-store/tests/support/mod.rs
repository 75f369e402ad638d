//! Folders of their own for tests.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::{Connection, SqliteConnection};
use wilco_store::suite::hand::HandClock;
use wilco_store::{SqliteKeeper, SqliteOptions};

/// A folder nobody else has, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("wilco-store-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Opens a keeper on it.
    pub async fn keeper(&self, clock: &Arc<HandClock>) -> SqliteKeeper {
        let options = SqliteOptions::new(&self.0, Arc::clone(clock) as _);
        SqliteKeeper::open(options).await.expect("the folder opens")
    }

    /// A connection that is not the keeper's.
    pub async fn raw(&self) -> SqliteConnection {
        let file = self.0.join("wilco.sqlite");
        SqliteConnection::connect(&format!("sqlite://{}", file.display()))
            .await
            .expect("the file opens")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
