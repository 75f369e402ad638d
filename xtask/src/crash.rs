//! `cargo xtask crash`: builds the daemon that fails, and hands the campaign its arguments. What is killed, and who
//! judges, is in `tests/crash`.

use std::process::Command;

use crate::run::{cargo, output, run as run_command};

/// The daemon with its failpoints: of the whole workspace, so that nothing else is built a second time.
const FAILING: [&str; 6] = [
    "build",
    "--workspace",
    "--bin",
    "wilcod-failing",
    "--features",
    "wilcod/failpoints",
];

pub fn run(args: &[&str]) -> Result<(), String> {
    build()?;
    campaign(args)
}

/// Builds the daemon that fails, and the daemon that is its bank.
pub fn build() -> Result<(), String> {
    run_command(cargo().args(["build", "--workspace", "--bins"]))?;
    run_command(cargo().args(FAILING))
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
pub fn campaign(args: &[&str]) -> Result<(), String> {
    run_command(
        cargo()
            .args([
                "run",
                "--quiet",
                "--package",
                "wilco-tests",
                "--features",
                "crash",
            ])
            .args(["--bin", "wilco-crash", "--"])
            .args(args)
            .env("WILCO_TEST_BINARIES_ARE_BUILT", "1"),
    )
}
