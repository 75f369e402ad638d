//! `cargo xtask test`: everything that must hold, on a machine that has only a Rust toolchain, a C compiler and
//! Python 3. What is missing is installed or named; nothing passes by being skipped.

use crate::run::{cargo, run as run_command};
use crate::{crash, mail, postgres, prism, python, tidy};

/// What only this command tests: other people's clients, a PostgreSQL server, the daemon killed for real, the bank over
/// https://, with signed messages, and held against the published specification, other people's mail servers, and a vendor table in
/// PostgreSQL. One list for the build and the tests, so that nothing is built twice.
const FEATURES: &str = "wilco-tests/interop,wilco-tests/postgres,wilco-tests/crash,wilco-store/postgres-tests,\
                        adapter-bank/tls,adapter-bank/jws,adapter-bank/prism,adapter-mail/servers,\
                        adapter-records/postgres-tests";

/// How often the daemon is killed here: each named place at least once.
const KILLS: &str = "100";

pub fn run() -> Result<(), String> {
    tidy::run()?;
    let python = python::ready()?;
    let prism = prism::ready()?;
    let server = postgres::ready()?;
    mail::ready()?;
    // The binaries first: the integration tests drive them as a user would.
    run_command(cargo().args(["build", "--workspace", "--bins", "--features", FEATURES]))?;
    crash::strace()?;
    crash::failing(FEATURES)?;
    run_command(
        cargo()
            .args(["test", "--workspace", "--no-fail-fast", "--features", FEATURES])
            .env("WILCO_TEST_PYTHON", &python)
            .env("WILCO_TEST_PRISM", &prism)
            .env("WILCO_TEST_POSTGRES", server.url())
            .env("WILCO_TEST_BINARIES_ARE_BUILT", "1"),
    )?;
    crash::campaign(&server.url(), &["--kills", KILLS])?;
    println!("\nall tests passed");
    Ok(())
}
