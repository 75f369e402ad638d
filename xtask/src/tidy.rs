//! `cargo xtask tidy`: the tree against its own map.
//!
//! Three things drift unless a program looks: who may depend on whom (drawn in ARCHITECTURE.md), the migrations of
//! the databases (same numbers and names), and what lies at the top of the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::run::{cargo, output, root};

/// What may lie at the top of the tree.
const TOP_LEVEL: [&str; 24] = [
    ".cargo",
    ".ci",
    ".dockerignore",
    ".git",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "Dockerfile",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "adapters",
    "crates",
    "docker-compose.yml",
    "migrations",
    "profiles",
    "proto",
    "rustfmt.toml",
    "target",
    "tests",
    "xtask",
];

pub fn run() -> Result<(), String> {
    let mut complaints = Vec::new();
    dependency_picture(&mut complaints)?;
    migrations(&mut complaints)?;
    top_level(&mut complaints)?;
    if complaints.is_empty() {
        println!("tidy: the tree is as its map says");
        Ok(())
    } else {
        Err(format!("tidy:\n  {}", complaints.join("\n  ")))
    }
}

/// The arrows between our own crates must be exactly those of the block in ARCHITECTURE.md that begins with
/// ```` ```dependencies ````: a line per crate, `crate -> crate, crate`.
fn dependency_picture(complaints: &mut Vec<String>) -> Result<(), String> {
    let drawn = drawn_arrows()?;
    let real = real_arrows()?;
    for name in real.keys().chain(drawn.keys()).collect::<BTreeSet<_>>() {
        let empty = BTreeSet::new();
        let (drawn, real) = (drawn.get(name), real.get(name));
        if drawn.is_none() {
            complaints.push(format!(
                "crate {name} is missing from the picture in ARCHITECTURE.md"
            ));
        } else if real.is_none() {
            complaints.push(format!(
                "ARCHITECTURE.md draws crate {name}, which does not exist"
            ));
        } else {
            let (drawn, real) = (drawn.unwrap_or(&empty), real.unwrap_or(&empty));
            let extra: Vec<_> = real.difference(drawn).map(String::as_str).collect();
            let gone: Vec<_> = drawn.difference(real).map(String::as_str).collect();
            if !extra.is_empty() {
                complaints.push(format!(
                    "{name} depends on {}, which the picture does not show",
                    extra.join(", ")
                ));
            }
            if !gone.is_empty() {
                complaints.push(format!(
                    "the picture shows {name} -> {}, which is not so",
                    gone.join(", ")
                ));
            }
        }
    }
    Ok(())
}

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn drawn_arrows() -> Result<Arrows, String> {
    let text =
        fs::read_to_string(root().join("ARCHITECTURE.md")).map_err(|e| format!("ARCHITECTURE.md: {e}"))?;
    let block = text
        .split("```dependencies\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .ok_or("ARCHITECTURE.md has no ```dependencies block")?;
    let mut arrows = Arrows::new();
    for line in block.lines().filter(|l| !l.trim().is_empty()) {
        let (from, to) = line
            .split_once("->")
            .ok_or_else(|| format!("not an arrow in ARCHITECTURE.md: {line}"))?;
        let to = to
            .split(',')
            .map(|t| t.trim().to_owned())
            .filter(|t| !t.is_empty() && t != "(nothing)");
        arrows.insert(from.trim().to_owned(), to.collect());
    }
    Ok(arrows)
}

fn real_arrows() -> Result<Arrows, String> {
    let text = output(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata: no packages")?;
    let name_of = |p: &Value| p["name"].as_str().unwrap_or("").to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name_of).collect();
    let mut arrows = Arrows::new();
    for package in packages {
        let dependencies = package["dependencies"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let to = dependencies
            .iter()
            .filter(|d| d["kind"].is_null())
            .map(name_of)
            .filter(|n| ours.contains(n))
            .collect();
        arrows.insert(name_of(package), to);
    }
    Ok(arrows)
}

/// Where there are migrations for several databases, they have the same file names.
fn migrations(complaints: &mut Vec<String>) -> Result<(), String> {
    let folder = root().join("migrations");
    let mut by_database: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for database in names_in(&folder)? {
        by_database.insert(database.clone(), names_in(&folder.join(&database))?);
    }
    let all: BTreeSet<&String> = by_database.values().flatten().collect();
    for (database, have) in &by_database {
        for name in all.iter().filter(|n| !have.contains(**n)) {
            complaints.push(format!(
                "migrations/{database}/{name} is missing; the other database has it"
            ));
        }
        let unnumbered = have.iter().filter(|n| {
            !(n.len() > 9
                && n.ends_with(".sql")
                && n.as_bytes()[..4].iter().all(u8::is_ascii_digit)
                && &n[4..5] == "_")
        });
        complaints
            .extend(unnumbered.map(|n| format!("migrations/{database}/{n} is not named NNNN_what.sql")));
    }
    Ok(())
}

fn top_level(complaints: &mut Vec<String>) -> Result<(), String> {
    // What git ignores is nobody's business here: the README's own steps make a data folder.
    let ignored = fs::read_to_string(root().join(".gitignore")).unwrap_or_default();
    let is_ignored = |name: &str| ignored.lines().any(|line| line.trim_start_matches('/') == name);
    for name in names_in(&root())?.into_iter().filter(|name| !is_ignored(name)) {
        if !TOP_LEVEL.contains(&name.as_str()) {
            complaints.push(format!("{name} has no place at the top of the tree"));
        }
    }
    Ok(())
}

fn names_in(folder: &std::path::Path) -> Result<BTreeSet<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect())
}
