//! `wilcod demo`: each play ends as the README says it does, by its last lines and its exit status.

use std::process::Command;

use wilco_tests::binaries;
use wilco_tests::process::{Ended, run};

async fn demo(arg: Option<&str>) -> Ended {
    let mut command = Command::new(binaries::wilcod());
    command.arg("demo").args(arg).env_remove("RUST_LOG");
    run(command).await
}

/// The last line that begins with `word`, and everything after it.
#[track_caller]
fn ending<'a>(ended: &'a Ended, word: &str) -> &'a str {
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    let at = ended.out.rfind(&format!("\n{word}"));
    let at = at.unwrap_or_else(|| panic!("{word}: {}", ended.out));
    &ended.out[at + 1..]
}

#[track_caller]
fn reports_one_payment(ended: &Ended) {
    let end = ending(ended, "roger, wilco: RW1 DN ");
    let (dn, book) = end.split_once('\n').expect("the book follows");
    let dn = dn.trim_start_matches("roger, wilco: ");
    for slot in [
        "out=OK",
        "sup=marlow",
        "amt=5400.00",
        "cur=GBP",
        "acct=40-12-88/61102938",
        "ref=MD-2026-057",
        "apref=FD-0929",
    ] {
        assert!(dn.split(' ').any(|token| token == slot), "{slot}: {dn}");
    }
    assert!(
        rw1::parse(&rw1::Profiles::builtin(), None, dn).accepted().is_ok(),
        "{dn}"
    );
    let mut book = book.lines();
    assert_eq!(book.next(), Some("the bank's own book: one payment"));
    let payment = book.next().expect("it is shown");
    assert!(payment.contains("5400.00 GBP to 40-12-88/61102938"), "{payment}");
    assert_eq!(book.next(), None);
}

#[tokio::test]
async fn the_demo_pays() {
    reports_one_payment(&demo(None).await);
}

#[tokio::test]
async fn the_demo_with_a_fault_is_held() {
    let ended = demo(Some("--fault")).await;
    let end = ending(&ended, "held: ");
    assert!(
        end.contains("acct mismatch: HO 40-12-88/61102938 vs RB 40-12-88/61102983"),
        "{end}"
    );
    assert!(end.ends_with("the bank's own book: no payment\n"), "{end}");
    assert!(!ended.out.contains("RW1 DN "), "{}", ended.out);
}

#[tokio::test]
async fn the_demo_that_is_cancelled_pays_nothing() {
    let ended = demo(Some("--cancel")).await;
    let end = ending(&ended, "cancelled: RW1 AN ");
    assert!(end.contains(" val=Y "), "{end}");
    assert!(end.ends_with("the bank's own book: no payment\n"), "{end}");
    assert!(!ended.out.contains("RW1 DN "), "{}", ended.out);
}

#[tokio::test]
async fn the_demo_that_crashes_pays_once() {
    let ended = demo(Some("--crash")).await;
    reports_one_payment(&ended);
    assert!(ended.out.contains("killed"), "{}", ended.out);
}

/// A wrong command line is a matter of usage, not of the demo.
#[tokio::test]
async fn the_demo_plays_one_play() {
    let mut command = Command::new(binaries::wilcod());
    command.args(["demo", "--fault", "--cancel"]);
    assert_eq!(run(command).await.code, Some(2));
}
