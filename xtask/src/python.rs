//! The Python environment of the interop tests: the public `rogerwilco` package as oracle and client, and gRPC for
//! the README's example. It lives in `target/python` and is made once per list of packages.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{output, root, run};

/// What the tests install from PyPI, pinned.
const PACKAGES: [&str; 2] = ["rogerwilco==0.3.0", "grpcio-tools==1.85.1"];

/// Makes the environment if it is not there, and returns its interpreter.
pub fn ready() -> Result<PathBuf, String> {
    let venv = root().join("target").join("python");
    let python = venv.join("bin").join("python");
    let stamp = venv.join("packages.txt");
    let wanted = PACKAGES.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(python);
    }
    // Without Debian's venv package a half-made folder is left behind, with python and without pip.
    if !venv.join("bin").join("pip").exists() {
        make(&venv)?;
    }
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(PACKAGES))
    .map_err(|e| format!("the interop tests need {} from PyPI: {e}", PACKAGES.join(", ")))?;
    std::fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(python)
}

fn make(venv: &std::path::Path) -> Result<(), String> {
    let create = || output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv));
    if create().is_ok() {
        return Ok(());
    }
    // Debian keeps the venv module in a package of its own.
    println!("python3 cannot make an environment; installing python3-venv");
    let install = ["install", "-y", "--no-install-recommends", "python3-venv"];
    run(Command::new("apt-get").arg("update"))
        .and_then(|()| run(Command::new("apt-get").args(install)))
        .map_err(|e| {
            format!("{e}\nThe interop tests need Python 3 with venv: install the package python3-venv (as root: apt-get install \
                     python3-venv), then run this again")
        })?;
    create()
        .map(drop)
        .map_err(|e| format!("the interop tests need Python 3 with venv: {e}"))
}
