//! `cargo xtask crash`: builds the daemon that fails, and hands the campaign its arguments. What is killed, and who
//! judges, is in `tests/crash`.

use std::process::Command;

use crate::postgres;
use crate::run::{cargo, output, run as run_command};

/// What the campaign itself needs.
const FEATURES: &str = "wilco-tests/crash";

pub fn run(args: &[&str]) -> Result<(), String> {
    run_command(cargo().args(["build", "--workspace", "--bins", "--features", FEATURES]))?;
    failing(FEATURES)?;
    let server = postgres::ready()?;
    campaign(&server.url(), args)
}

/// Builds the daemon that fails: of the whole workspace with the features everything else is built with, so that nothing
/// but its failpoints is built a second time.
pub fn failing(features: &str) -> Result<(), String> {
    let features = format!("{features},wilcod/failpoints");
    run_command(cargo().args([
        "build",
        "--workspace",
        "--bin",
        "wilcod-failing",
        "--features",
        &features,
    ]))
}

/// What the stories watch system calls with.
pub fn strace() -> Result<(), String> {
    let there = || output(Command::new("strace").arg("-V")).is_ok();
    if there() {
        return Ok(());
    }
    println!("installing strace, to see in which order the daemon flushes and sends");
    run_command(Command::new("apt-get").args(["-q", "update"]))
        .and_then(|()| {
            run_command(Command::new("apt-get").args(["install", "-y", "--no-install-recommends", "strace"]))
        })
        .map_err(|e| format!("the crash tests need strace: {e}"))?;
    there()
        .then_some(())
        .ok_or_else(|| "strace was installed and does not run".to_owned())
}

/// One campaign, with binaries that are built and a PostgreSQL server for its shared houses; its last line is the verdict.
pub fn campaign(server: &str, args: &[&str]) -> Result<(), String> {
    let here = std::env::current_exe().map_err(|e| format!("where this program is: {e}"))?;
    let campaign = here.with_file_name("wilco-crash");
    run_command(
        Command::new(campaign)
            .args(args)
            .env("WILCO_TEST_POSTGRES", server)
            .env("WILCO_TEST_BINARIES_ARE_BUILT", "1"),
    )
}
