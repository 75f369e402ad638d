//! `cargo xtask bench`: builds the bench in release and hands it its arguments. What it measures, and the goals, are
//! in `tests/bench`.

use crate::python;
use crate::run::{cargo, run as run_command};

pub fn run(args: &[&str]) -> Result<(), String> {
    let mut passed_on = Vec::new();
    // Only the checks are compared with the Python package.
    let mut checks = true;
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        match *word {
            "--quick" | "--plain" => passed_on.push((*word).to_owned()),
            "--only" | "--callers" => {
                let value = *rest.next().ok_or_else(|| format!("{word} takes a value"))?;
                if *word == "--only" {
                    checks = value.split(',').any(|part| part == "checks");
                }
                passed_on.extend([(*word).to_owned(), value.to_owned()]);
            }
            "--json" => {
                let file = rest.next().ok_or("--json takes a file")?;
                let file = std::path::absolute(file).map_err(|e| format!("{file}: {e}"))?;
                passed_on.extend(["--json".to_owned(), file.display().to_string()]);
            }
            other => {
                return Err(format!(
                    "bench knows --quick, --only PARTS, --callers N, --plain and --json FILE, not {other}"
                ));
            }
        }
    }
    let python = if checks { Some(python::ready()?) } else { None };
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
            .envs(python.map(|python| ("WILCO_TEST_PYTHON", python))),
    )
}
