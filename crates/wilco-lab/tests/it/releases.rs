//! The release folder. What these tests are after: its artefacts are real archives with the same bytes in every lab; what
//! stands in it is shown as it is; and its health program says what `current` says, or what an armed fault makes of it.

use std::{fs, path::Path, process::Output};

use serde_json::Value;
use tokio::process::Command;

use crate::support::{Bench, Folder, ok};

async fn bench() -> Bench {
    Bench::with(|options| options.releases = true).await
}

async fn run(program: &Path, arguments: &[&str]) -> Output {
    ok(Command::new(program).args(arguments).output().await)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

async fn report(bench: &Bench) -> Value {
    bench.client.get("/lab/releases").await.body
}

#[tokio::test]
async fn artefacts_are_archives_and_the_same_in_every_lab() {
    let (one, other) = (bench().await, bench().await);
    assert_eq!(report(&one).await, report(&other).await);
    let artefacts = report(&one).await["artefacts"].clone();
    let files: Vec<_> = artefacts
        .as_array()
        .expect("artefacts")
        .iter()
        .map(|a| a["file"].clone())
        .collect();
    assert_eq!(
        files,
        ["api-v2.4.0.tar.gz", "api-v2.4.1.tar.gz", "api-v2.4.2.tar.gz"]
    );

    let unpacked = Folder::new();
    ok(fs::create_dir_all(&unpacked.0));
    let archive = one
        .lab
        .releases_path()
        .expect("a folder")
        .join("artefacts/api-v2.4.1.tar.gz");
    let (archive, to) = (archive.to_string_lossy(), unpacked.0.to_string_lossy());
    let tar = run(Path::new("tar"), &["-xzf", &archive, "-C", &to]).await;
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    assert_eq!(ok(fs::read_to_string(unpacked.0.join("VERSION"))), "v2.4.1\n");
    assert_eq!(
        said(&run(&unpacked.0.join("bin/api"), &[]).await),
        "api v2.4.1: UP"
    );
    one.lab.stop().await;
    other.lab.stop().await;
}

#[tokio::test]
async fn a_target_is_shown_as_it_is_and_its_health_is_that_of_current() {
    let bench = bench().await;
    let folder = bench.lab.releases_path().expect("a folder").to_owned();
    let health = bench.lab.releases_health().expect("a program");
    assert_eq!(report(&bench).await["targets"][0]["current"], "releases/v2.4.0");
    assert_eq!(said(&run(&health, &["api-prod"]).await), "api v2.4.0: UP");

    let target = folder.join("live/api-prod");
    // As a deployment leaves it: the link leads to an act, the act to a release.
    ok(fs::create_dir_all(target.join("releases/v9/bin")));
    ok(fs::create_dir_all(target.join("acts")));
    ok(std::os::unix::fs::symlink(
        "../releases/v9",
        target.join("acts/W1"),
    ));
    ok(std::os::unix::fs::symlink("acts/W1", target.join("next.W1")));
    ok(fs::rename(target.join("next.W1"), target.join("current")));
    let shown = report(&bench).await["targets"][0].clone();
    assert_eq!(
        (&shown["current"], &shown["runs"]),
        (&"acts/W1".into(), &"releases/v9".into())
    );
    let entries = shown["entries"].as_array().expect("entries");
    for entry in ["acts/W1", "releases/v2.4.0", "releases/v9"] {
        assert!(entries.iter().any(|found| found == entry), "{shown}");
    }
    let down = run(&health, &["api-prod"]).await;
    assert_eq!(down.status.code(), Some(1));
    assert!(said(&down).starts_with("api: DOWN"), "{down:?}");
    ok(fs::remove_dir_all(target.join("releases/v9")));
    assert_eq!(report(&bench).await["targets"][0]["runs"], Value::Null);
    assert_eq!(run(&health, &["../live/api-prod"]).await.status.code(), Some(2));
    bench.lab.stop().await;
}

#[tokio::test]
async fn an_unhealthy_release_is_so_as_often_as_armed() {
    let bench = bench().await;
    let health = bench.lab.releases_health().expect("a program");
    bench.client.fault("releases:unhealthy:2").await;
    bench.client.fault("releases:degraded").await;
    bench.client.fault("releases:slow:1:0.1").await;
    for _ in 0..2 {
        let output = run(&health, &["api-prod"]).await;
        assert_eq!(
            (output.status.code(), said(&output)),
            (Some(1), "api: DOWN (a fault of the lab)".into())
        );
    }
    assert_eq!(run(&health, &["api-prod"]).await.status.code(), Some(10));
    for _ in 0..2 {
        assert_eq!(said(&run(&health, &["api-prod"]).await), "api v2.4.0: UP");
    }
    assert_eq!(bench.client.faults_left().await, 0);
    bench.lab.stop().await;
}
