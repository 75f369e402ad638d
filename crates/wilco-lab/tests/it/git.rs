//! The git remote, pushed to by the real program. What these tests are after: its record has every move of a ref and
//! nothing else, also where the pusher was never told; and each fault does what the table says.

use std::{path::Path, process::Output};

use serde_json::Value;
use tokio::process::Command;

use crate::support::{Bench, Folder, ok};

async fn bench() -> Bench {
    Bench::with(|options| options.git = true).await
}

async fn git(folder: &Path, arguments: &[&str]) -> Output {
    let command = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b.example"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("LC_ALL", "C")
        .output();
    ok(command.await)
}

/// The output of a call that works.
#[track_caller]
fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A clone that pushes, in a folder of its own.
struct Pusher {
    folder: Folder,
    from: String,
    to: String,
}

impl Pusher {
    async fn new(bench: &Bench) -> Self {
        let folder = Folder::new();
        ok(std::fs::create_dir_all(&folder.0));
        let url = bench.lab.git_url().expect("a git remote");
        text(&git(&folder.0, &["clone", "--quiet", &url, "."]).await);
        let from = text(&git(&folder.0, &["rev-parse", "v2.4.0^{commit}"]).await);
        let to = text(&git(&folder.0, &["rev-parse", "v2.4.1^{commit}"]).await);
        Self { folder, from, to }
    }

    /// Moves `prod` from the one commit to the other, as long as it stands at the first.
    async fn push(&self, from: &str, to: &str, reference: &str) -> Output {
        let lease = format!("--force-with-lease=refs/heads/prod:{from}");
        let option = format!("--push-option=wilco={reference}");
        let spec = format!("{to}:refs/heads/prod");
        let arguments = [
            "push",
            "--porcelain",
            "--atomic",
            &lease,
            &option,
            "--push-option=apref=CAB-0931",
        ];
        git(&self.folder.0, &[&arguments[..], &["origin", &spec]].concat()).await
    }
}

async fn record(bench: &Bench) -> (Value, Vec<Value>) {
    let body = bench.client.get("/lab/git").await.body;
    let pushes = body["pushes"].as_array().cloned().expect("pushes");
    (body["refs"]["refs/heads/prod"].clone(), pushes)
}

#[tokio::test]
async fn a_new_remote_has_the_same_commits_everywhere_and_an_empty_record() {
    let (one, other) = (bench().await, bench().await);
    let (one_refs, other_refs) = (
        one.client.get("/lab/git").await.body,
        other.client.get("/lab/git").await.body,
    );
    assert_eq!(one_refs, other_refs);
    let refs = one_refs["refs"].as_object().expect("refs");
    assert_eq!(refs.len(), 6, "{refs:?}");
    assert_eq!(refs["refs/heads/prod"], refs["refs/tags/v2.4.0"]);
    assert_eq!(refs["refs/heads/main"], refs["refs/tags/v2.4.2"]);
    assert_eq!(one_refs["pushes"], serde_json::json!([]));

    let pusher = Pusher::new(&one).await;
    assert_eq!(
        text(&git(&pusher.folder.0, &["show", "v2.4.1:VERSION"]).await),
        "v2.4.1"
    );
    assert_eq!(
        text(&git(&pusher.folder.0, &["cat-file", "-t", "v2.4.1"]).await),
        "tag"
    );
    assert_eq!(text(&git(&pusher.folder.0, &["fsck", "--strict"]).await), "");
    one.lab.stop().await;
    other.lab.stop().await;
}

#[tokio::test]
async fn a_push_is_on_record_with_its_options_and_a_stale_one_is_not() {
    let bench = bench().await;
    let pusher = Pusher::new(&bench).await;
    let (from, to) = (pusher.from.as_str(), pusher.to.as_str());
    text(&pusher.push(from, to, "W1").await);
    let newest = text(&git(&pusher.folder.0, &["rev-parse", "v2.4.2^{commit}"]).await);
    let stale = pusher.push(from, &newest, "W2").await;
    assert!(!stale.status.success(), "prod stands elsewhere by now");
    // By hand, at the repository itself.
    let path = bench.lab.git_path().expect("a path");
    text(&git(&path, &["update-ref", "refs/heads/prod", from]).await);

    let (prod, pushes) = record(&bench).await;
    assert_eq!(prod, *from);
    let told: Vec<_> = pushes
        .iter()
        .rev()
        .map(|push| serde_json::json!([push["ref"], push["new"], push["options"]]))
        .collect();
    let want = [
        serde_json::json!(["refs/heads/prod", to, ["wilco=W1", "apref=CAB-0931"]]),
        serde_json::json!(["refs/heads/prod", from, []]),
    ];
    assert_eq!(told, want);
    assert_eq!(pushes[1]["old"], *from);
    let reflog = text(&git(&path, &["reflog", "show", "refs/heads/prod"]).await);
    assert_eq!(
        reflog.lines().count(),
        2 + 1,
        "the repository keeps its own: {reflog}"
    );
    bench.lab.stop().await;
}

#[tokio::test]
async fn each_fault_leaves_what_the_table_says() {
    for (fault, taken, moved) in [
        ("refuse", false, false),
        ("drop-before", false, false),
        ("drop-after-accept", false, true),
        ("slow", true, true),
    ] {
        let bench = bench().await;
        let pusher = Pusher::new(&bench).await;
        bench.client.fault(&format!("git:{fault}:1:0.1")).await;
        let output = pusher.push(&pusher.from, &pusher.to, "W1").await;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), taken, "{fault}: {said}");
        assert_eq!(
            said.contains("refused: a fault of the lab"),
            fault == "refuse",
            "{fault}: {said}"
        );
        // Whoever is dropped hears nothing about the ref.
        let told = said.contains("[remote rejected]") || said.contains("*\t") || said.contains(" \t");
        assert_eq!(told, matches!(fault, "refuse" | "slow"), "{fault}: {said}");

        let (prod, pushes) = record(&bench).await;
        assert_eq!(prod, *if moved { &pusher.to } else { &pusher.from }, "{fault}");
        assert_eq!(pushes.len(), usize::from(moved), "{fault}");
        if moved {
            assert_eq!(pushes[0]["options"][0], "wilco=W1", "{fault}");
        }
        // Met once, and gone; the way is free again.
        assert_eq!(bench.client.faults_left().await, 0, "{fault}");
        let at = if moved { &pusher.to } else { &pusher.from };
        let next = if moved { &pusher.from } else { &pusher.to };
        text(&pusher.push(at, next, "W2").await);
        let (_, pushes) = record(&bench).await;
        assert_eq!(pushes[0]["options"][0], "wilco=W2", "{fault}");
        bench.lab.stop().await;
    }
}

#[tokio::test]
async fn armed_pushes_are_met_in_order_one_fault_each_and_cleared() {
    let bench = bench().await;
    let pusher = Pusher::new(&bench).await;
    bench.client.fault("git:drop-after-accept:1").await;
    bench.client.fault("git:refuse:2").await;
    let listed = bench.client.get("/lab/faults").await.body;
    let words: Vec<_> = listed["faults"]
        .as_array()
        .expect("faults")
        .iter()
        .map(|f| f["times"].clone())
        .collect();
    assert_eq!(words, [1, 2]);
    assert!(!pusher.push(&pusher.from, &pusher.to, "W1").await.status.success());
    assert_eq!(record(&bench).await.1.len(), 1, "moved, and not told");
    assert!(!pusher.push(&pusher.to, &pusher.from, "W2").await.status.success());
    assert_eq!(record(&bench).await.1.len(), 1, "refused");
    ok(bench
        .client
        .send(
            bench
                .client
                .http
                .delete(format!("{}/lab/faults", bench.client.url)),
        )
        .await);
    text(&pusher.push(&pusher.to, &pusher.from, "W3").await);

    // A lab that starts anew is well, and keeps repository and record.
    bench.client.fault("git:refuse:100").await;
    let body = serde_json::json!({ "counterparty": "git", "fault": "slow" });
    let full = bench.client.knob("/lab/faults", body).await;
    assert_eq!(full.status, reqwest::StatusCode::CONFLICT, "{full:?}");
    let options = wilco_lab::LabOptions::new(&bench.folder.0, crate::support::loopback());
    let bench = bench
        .restart_with(options.with_everybody(crate::support::loopback()))
        .await;
    text(&pusher.push(&pusher.from, &pusher.to, "W4").await);
    assert_eq!(record(&bench).await.1.len(), 3);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_folder_with_an_odd_name_is_pushed_to_by_its_url() {
    let odd = Folder::new();
    let inside = odd.0.join("lab & \u{e9}t\u{e9} 100%#?");
    let options = wilco_lab::LabOptions::new(&inside, crate::support::loopback());
    let lab = ok(wilco_lab::start(options.with_everybody(crate::support::loopback())).await);
    let url = lab.git_url().expect("a git remote");
    assert!(url.is_ascii() && !url.contains(' '), "{url}");
    let listed = text(&git(&std::env::temp_dir(), &["ls-remote", &url, "refs/heads/prod"]).await);
    assert!(listed.ends_with("refs/heads/prod"), "{listed}");
    lab.stop().await;
}
