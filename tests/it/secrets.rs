//! Nothing that pays rests where it can be read: no token and no key in the logs, the journal, any view, or any byte
//! of the store.

use std::path::{Path, PathBuf};

use wilco_api::v1::GetActRequest;
use wilco_tests::caller::yes;
use wilco_tests::lab::PAYMENTS;
use wilco_tests::{Daemon, Payment, Setup, WIRES, cancel_line, decline};

use crate::support::{ok, prepared_act, refused};

/// Everything the daemon does with tokens and keys, in both wires, with everything logged that can be; then every byte
/// it left anywhere is searched.
#[tokio::test]
async fn no_token_and_no_key_rests_anywhere() {
    // Everything of ours is logged; of the libraries, what they log without being asked to trace.
    let everything = "debug,wilcod=trace,wilco_engine=trace,wilco_store=trace,wilco_core=trace,adapter_bank=trace,wilco_lab=trace";
    let mut daemon = Daemon::start_with(Setup::quick().log(everything).lab_apart()).await;
    let mut secrets: Vec<(String, String)> = Vec::new();
    let mut views = String::new();
    for principal in ["scheduler", "release", "approver", "duty", "viewer"] {
        let key = daemon.key(principal);
        let random = key.rsplit('_').next().unwrap_or(&key).to_owned();
        secrets.push((format!("the key of {principal}"), random));
    }
    for (n, wire) in WIRES.into_iter().enumerate() {
        let base = 100 * u32::try_from(n + 1).expect("small");
        let scheduler = daemon.caller("scheduler", wire);
        let mut prepare = async |payment: &Payment| {
            let prepared = ok(scheduler.prepare(&payment.ho()).await);
            let secret = prepared.token.rsplit('.').next().expect("a secret").to_owned();
            assert_eq!(secret.len(), 32);
            assert!(!prepared.statement.contains(&secret));
            secrets.push((format!("the token of {}", payment.id()), secret));
            prepared
        };
        let paid = Payment::number(base);
        let rb = prepare(&paid).await;
        ok(scheduler.confirm(&rb, &format!("scheduler-{}", base + 1)).await);
        ok(scheduler.confirm(&rb, &format!("scheduler-{}", base + 1)).await);
        ok(scheduler
            .get_act(GetActRequest {
                token: rb.token.clone(),
                ..GetActRequest::default()
            })
            .await);

        let declined = Payment::number(base + 2);
        let rb = prepare(&declined).await;
        let mut no = yes(&rb, "x");
        no.confirmation = decline(&rb.statement, &format!("scheduler-{}", base + 3));
        ok(scheduler.commit(no).await);
        let again = prepare(&declined).await;
        let mut bare = yes(&again, "x");
        bare.statement_sha256.clear();
        refused(scheduler.commit(bare).await, "DIGEST_REQUIRED");
        refused(
            scheduler.confirm(&rb, &format!("scheduler-{}", base + 4)).await,
            "DIGEST_STALE",
        );

        let lost = Payment::number(base + 5);
        let rb = prepare(&lost).await;
        daemon.bank().fault(PAYMENTS, "drop-after-accept", 1, 0.0).await;
        ok(scheduler.confirm(&rb, &format!("scheduler-{}", base + 6)).await);

        let cancelled = Payment::number(base + 7);
        let rb = prepare(&cancelled).await;
        ok(scheduler
            .cancel(&cancel_line(&cancelled, &format!("scheduler-{}", base + 8)))
            .await);
        refused(scheduler.confirm(&rb, "scheduler-99").await, "CANCELLED");
        for other in ["release", "duty"] {
            refused(
                daemon.caller(other, wire).commit(yes(&rb, "x")).await,
                "UNKNOWN_TOKEN",
            );
        }
        // A token or key in the wrong place is not repeated back, or kept, either.
        let misplaced = format!("{} // {} {}", paid.ho(), rb.token, daemon.key("duty"));
        refused(
            scheduler
                .prepare(&misplaced.replace("to=payer", "to=shipper"))
                .await,
            "MALFORMED",
        );
        let near = wilco_tests::Caller::new(
            daemon.url(),
            daemon.channel(),
            wire,
            Some(format!("{}x", daemon.key("duty"))),
        );
        refused(near.acts(&[]).await, "UNAUTHENTICATED");
        refused(
            scheduler.settle(&prepared_act(&rb).act_id, true, "seen").await,
            "NOT_YOURS",
        );

        for seer in ["scheduler", "duty", "viewer"] {
            let seer = daemon.caller(seer, wire);
            let acts = ok(seer.acts(&[]).await);
            for act in &acts.acts {
                views.push_str(&format!("{:#?}", ok(seer.act(&act.act_id).await)));
            }
            views.push_str(&format!("{acts:#?}{:#?}", ok(seer.thread("scheduler").await)));
            for path in [
                "/v1/acts",
                "/v1/threads/scheduler",
                "/metrics",
                "/healthz",
                "/readyz",
            ] {
                views.push_str(&seer.read(path).await.text);
            }
        }
    }
    let log_before = daemon.log();
    assert!(log_before.contains("verb=\"commit\""), "requests are logged");
    // The write-ahead log and the file it is folded into are both looked at: before the end, and after it.
    let mut files = everything_in(&daemon.data());
    let ended = daemon.stop().await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    files.extend(everything_in(&daemon.data()));
    assert!(
        files.iter().any(
            |(path, bytes)| path.extension().is_some_and(|e| e == "sqlite" || e == "db")
                && bytes.len() > 4096
        ) || files
            .iter()
            .any(|(_, bytes)| bytes.starts_with(b"SQLite format 3")),
        "the store was looked at"
    );

    let mine_to_hold = |path: &Path| path.file_name().is_some_and(|name| name == "keys.toml");
    for (what, secret) in &secrets {
        for (place, text) in [("the log", daemon.log().as_bytes()), ("a view", views.as_bytes())] {
            assert!(!holds(text, secret), "{what} stands in {place}");
        }
        for (path, bytes) in files.iter().filter(|(path, _)| !mine_to_hold(path)) {
            assert!(!holds(bytes, secret), "{what} stands in {}", path.display());
        }
    }
    // The search finds what is there: each key is in its own file.
    let keys = files
        .iter()
        .find(|(path, _)| mine_to_hold(path))
        .expect("keys.toml");
    assert!(
        secrets
            .iter()
            .filter(|(what, _)| what.contains("key"))
            .all(|(_, secret)| holds(&keys.1, secret))
    );
    assert_eq!(secrets.len(), 5 + 2 * 5);
}

/// Whether the secret stands there: as text in either case, or as the bytes it encodes.
fn holds(bytes: &[u8], secret: &str) -> bool {
    let upper = secret.to_ascii_uppercase();
    let raw = base32(secret);
    [secret.as_bytes(), upper.as_bytes(), raw.as_slice()]
        .iter()
        .any(|needle| needle.len() >= 16 && bytes.windows(needle.len()).any(|window| window == *needle))
}

/// RFC 4648 base32 without padding, lower case.
fn base32(text: &str) -> Vec<u8> {
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for c in text.bytes() {
        let value = match c {
            b'a'..=b'z' => c - b'a',
            b'2'..=b'7' => c - b'2' + 26,
            _ => return Vec::new(),
        };
        bits = (bits << 5) | u32::from(value);
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}

fn everything_in(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(everything_in(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.push((path, bytes));
        }
    }
    found
}
