//! The PostgreSQL server the tests work on: found or installed, started for one run, removed after it.

use std::path::Path;
use std::process::Command;

use crate::cluster::{Cluster, programs};
use crate::run::run;

/// A server of this run's own. It ends with the value, and with us however we end.
pub fn ready() -> Result<Cluster, String> {
    if programs().is_none() {
        install().map_err(|e| format!("the store's tests need PostgreSQL's server: {e}"))?;
    }
    Cluster::start(&[]).map_err(|e| format!("the store's tests need a PostgreSQL server: {e}"))
}

fn install() -> Result<(), String> {
    println!("PostgreSQL is not here; installing it");
    // Debian's package makes and starts a server of its own unless it is told not to; one that is configured stays as it is.
    let told = Path::new("/etc/postgresql-common/createcluster.conf");
    if !told.exists() {
        let folder = told.parent().unwrap_or(told);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(told, "create_main_cluster = false\n"))
            .map_err(|e| format!("{}: {e}", told.display()))?;
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-q");
        command
    };
    run(apt().arg("update"))?;
    run(apt().args(["install", "-y", "--no-install-recommends"]).args([
        "-o",
        "Dpkg::Options::=--force-confold",
        "postgresql",
    ]))
}
