//! `cargo xtask test`: everything that must hold, on a machine that has only a Rust toolchain, a C compiler and
//! Python 3. What is missing is installed or named; nothing passes by being skipped.

use crate::run::{cargo, run as run_command};
use crate::{crash, python, tidy};

/// How often the daemon is killed here: each named place at least once.
const KILLS: &str = "100";

pub fn run() -> Result<(), String> {
    tidy::run()?;
    let python = python::ready()?;
    // The binaries first: the integration tests drive them as a user would.
    crash::strace()?;
    crash::build()?;
    run_command(
        cargo()
            .args([
                "test",
                "--workspace",
                "--features",
                "wilco-tests/interop,wilco-tests/crash",
            ])
            .env("WILCO_TEST_PYTHON", &python)
            .env("WILCO_TEST_BINARIES_ARE_BUILT", "1"),
    )?;
    crash::campaign(&["--kills", KILLS])?;
    println!("\nall tests passed");
    Ok(())
}
