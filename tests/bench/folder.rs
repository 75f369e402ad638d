//! A private folder that goes away again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder beside the programs under test, so that it lies on a disk: the system's temporary folder is often memory,
/// where a flush costs nothing.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Folder, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let exe = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
        let beside = exe.parent().unwrap_or(Path::new("."));
        let (pid, n) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = beside.join(format!("bench-{pid}-{n}-{name}"));
        std::fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays behind: {e}", self.0.display());
        }
    }
}
