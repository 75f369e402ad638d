//! What a new repository holds: the same commits, with the same ids, in every lab. Pure.

use std::fmt::Write;

/// The versions of `api`, oldest first: a commit and an annotated tag each.
pub const VERSIONS: [&str; 3] = ["v2.4.0", "v2.4.1", "v2.4.2"];

/// The branches, each with the version it stands at: `main` is developed on, the others say what runs where.
const BRANCHES: [(&str, &str); 3] = [("main", "v2.4.2"), ("stage", "v2.4.1"), ("prod", "v2.4.0")];

/// Seconds since 1970 of the first commit; a day lies between two.
const FIRST_S: u64 = 1_788_220_800;
const DAY_S: u64 = 86_400;

/// The repository as `git fast-import` takes it.
pub fn stream() -> String {
    let mut text = String::new();
    let mut at_s = FIRST_S;
    for (at, version) in VERSIONS.iter().enumerate() {
        let who = format!("Meridian Works <dev@meridian.example> {at_s} +0000\n");
        let message = format!("api {version}\n");
        text.push_str("commit refs/heads/main\n");
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "mark :{}\nauthor {who}committer {who}{}",
            at + 1,
            data(&message)
        );
        let _ = writeln!(text, "M 100644 inline VERSION\n{}", data(&format!("{version}\n")));
        let _ = writeln!(text, "M 100755 inline bin/api\n{}", data(&program(version)));
        let _ = writeln!(
            text,
            "tag {version}\nfrom :{}\ntagger {who}{}",
            at + 1,
            data(&message)
        );
        at_s += DAY_S;
    }
    for (branch, version) in BRANCHES {
        let mark = VERSIONS.iter().position(|known| *known == version).unwrap_or(0) + 1;
        let _ = writeln!(text, "reset refs/heads/{branch}\nfrom :{mark}\n");
    }
    text.push_str("done\n");
    text
}

/// The program that is deployed.
pub fn program(version: &str) -> String {
    format!("#!/bin/sh\necho \"api {version}: UP\"\n")
}

fn data(text: &str) -> String {
    format!("data {}\n{text}", text.len())
}
