//! The programs under test: built once per test process, found beside the test's own executable.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The daemon.
#[must_use]
pub fn wilcod() -> PathBuf {
    program("wilcod")
}

/// The daemon with its failpoints armed by the environment (see `wilco-failpoint`), for the crash tests only.
#[must_use]
pub fn wilcod_failing() -> PathBuf {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let folder = beside_us();
    let built = BUILT.get_or_init(|| {
        if std::env::var_os("WILCO_TEST_BINARIES_ARE_BUILT").is_some() {
            return Ok(());
        }
        build(&folder, &FAILING)
    });
    built.as_ref().unwrap_or_else(|why| panic!("{why}"));
    existing(folder.join("wilcod-failing"))
}

/// What cargo is told for the daemon that fails: of the whole workspace, so that nothing else is built a second time.
pub const FAILING: [&str; 6] = [
    "build",
    "--workspace",
    "--bin",
    "wilcod-failing",
    "--features",
    "wilcod/failpoints",
];

const PLAIN: [&str; 3] = ["build", "--workspace", "--bins"];

/// The command-line client.
#[must_use]
pub fn wilco() -> PathBuf {
    program("wilco")
}

/// A program of this workspace. Unless `WILCO_TEST_BINARIES_ARE_BUILT` is set, the first call builds them all, with
/// the features `cargo build` would use, and every other call in the process waits for it.
fn program(name: &str) -> PathBuf {
    // The failure is kept as well: a test process tries once.
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = beside_us();
        if std::env::var_os("WILCO_TEST_BINARIES_ARE_BUILT").is_none() {
            build(&folder, &PLAIN)?;
        }
        Ok(folder)
    });
    let folder = folder.as_ref().unwrap_or_else(|why| panic!("{why}"));
    existing(folder.join(name))
}

fn existing(path: PathBuf) -> PathBuf {
    assert!(
        path.exists(),
        "{} does not exist: build it with `cargo build --workspace --bins`, or run `cargo xtask test`",
        path.display()
    );
    path
}

/// `target/debug`, from `target/debug/deps/it-0123`.
fn beside_us() -> PathBuf {
    let us = std::env::current_exe().unwrap_or_else(|e| panic!("where this test runs is unknown: {e}"));
    us.ancestors()
        .find(|folder| folder.join("deps").is_dir())
        .unwrap_or_else(|| panic!("{} is in no target folder", us.display()))
        .to_owned()
}

fn build(folder: &std::path::Path, words: &[&str]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(words).arg("--quiet");
    if folder.ends_with("release") {
        command.arg("--release");
    }
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!(
            "the programs under test do not build: run `cargo {}`",
            words.join(" ")
        )),
        Err(e) => Err(format!(
            "cargo could not be started to build the programs under test: {e}"
        )),
    }
}
