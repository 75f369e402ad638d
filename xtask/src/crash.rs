//! `cargo xtask crash`: builds the daemon that fails, and hands the campaign its arguments. What is killed, and who
//! judges, is in `tests/crash`.

use std::process::Command;

use crate::postgres;
use crate::run::{cargo, output, run as run_command};

/// What the campaign alone needs.
const FEATURES: &str = "wilco-tests/crash";

pub fn run(args: &[&str]) -> Result<(), String> {
    run_command(cargo().args(["build", "--workspace", "--bins", "--features", FEATURES]))?;
    build_failing(FEATURES)?;
    let server = postgres::ready()?;
    campaign(FEATURES, server.url(), args)
}

/// Builds the daemon with its failpoints: of the whole workspace and with the others' features, so that nothing else is
/// built a second time.
pub fn build_failing(features: &str) -> Result<(), String> {
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
    run_command(Command::new("apt-get").args(["install", "-y", "--no-install-recommends", "strace"]))
        .map_err(|e| format!("the crash tests need strace: {e}"))?;
    there()
        .then_some(())
        .ok_or_else(|| "strace was installed and does not run".to_owned())
}

/// One campaign; its last line is the verdict.
pub fn campaign(features: &str, server: String, args: &[&str]) -> Result<(), String> {
    run_command(
        cargo()
            .args(["run", "--quiet", "--features", features])
            .args(["--bin", "wilco-crash", "--"])
            .args(args)
            .env("WILCO_TEST_POSTGRES", server)
            .env("WILCO_TEST_BINARIES_ARE_BUILT", "1"),
    )
}
