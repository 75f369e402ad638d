//! `cargo xtask bench`: builds the bench in release and hands it its arguments. What it measures, and the goals, are
//! in `tests/bench`.

use crate::python;
use crate::run::{cargo, run as run_command};

pub fn run(args: &[&str]) -> Result<(), String> {
    let mut passed_on = Vec::new();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        match *word {
            "--quick" => passed_on.push("--quick".to_owned()),
            "--json" => {
                let file = rest.next().ok_or("--json takes a file")?;
                let file = std::path::absolute(file).map_err(|e| format!("{file}: {e}"))?;
                passed_on.extend(["--json".to_owned(), file.display().to_string()]);
            }
            other => return Err(format!("bench knows --quick and --json FILE, not {other}")),
        }
    }
    let python = python::ready()?;
    run_command(cargo().args([
        "build",
        "--release",
        "--workspace",
        "--bins",
        "--features",
        "wilco-tests/bench",
    ]))?;
    run_command(
        cargo()
            // Not by its package: that would be another set of features, and build much of the tree once more.
            .args(["run", "--release", "--quiet", "--features", "wilco-tests/bench"])
            .args(["--bin", "wilco-bench", "--"])
            .args(passed_on)
            .env("WILCO_TEST_PYTHON", python),
    )
}
