//! A disk whose flushes take a millisecond longer: `slow.c`, compiled for this run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The shim's file. It lies in the system's temporary folder, where PostgreSQL's own account can read it, too.
pub struct Shim {
    folder: PathBuf,
}

impl Shim {
    /// Compiles it; `None` where there is no C compiler.
    pub fn make() -> Result<Option<Shim>, String> {
        let there = Command::new("cc").arg("--version").output();
        if !there.is_ok_and(|out| out.status.success()) {
            return Ok(None);
        }
        let folder = std::env::temp_dir().join(format!("wilco-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let shim = Shim { folder };
        let mut compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-x", "c", "-", "-o"])
            .arg(shim.path())
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cc: {e}"))?;
        let mut source = compiler.stdin.take().ok_or("cc has no input")?;
        source
            .write_all(include_bytes!("slow.c"))
            .map_err(|e| format!("cc: {e}"))?;
        drop(source);
        match compiler.wait() {
            Ok(status) if status.success() => Ok(Some(shim)),
            ended => Err(format!("cc cannot compile slow.c: {ended:?}")),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("slow.so")
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("{} stays behind: {e}", self.folder.display());
        }
    }
}

/// The variable that has a program load the shim, and its value.
pub fn variable(shim: Option<&Path>) -> Option<(&'static str, String)> {
    shim.map(|path| ("LD_PRELOAD", path.display().to_string()))
}
