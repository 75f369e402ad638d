//! The package and our JSON endpoints, asked the same random questions: verdict, problems by kind and slot, JSON form and
//! digest must be the same, but for what the README of `rw1` lists as stricter. Never looser.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::judge::{Verdict, judge};
use crate::mutate::{Chance, Stock};
use crate::oracle::Oracle;
use crate::ours;

/// Questions of each of the two seeds; WILCO_TEST_QUESTIONS asks more.
const QUESTIONS: usize = 12_000;
/// Asked at once.
const LIST: usize = 400;
/// Failures that are shown.
const SHOWN: usize = 12;
/// The seed that is the same in every run.
const FIXED: u64 = 0x5257_3100;

#[tokio::test]
async fn twelve_thousand_questions_that_are_always_the_same() {
    ask(FIXED).await;
}

#[tokio::test]
async fn twelve_thousand_questions_that_are_new_each_time() {
    // WILCO_TEST_SEED asks the questions of an earlier run again.
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |d| d.as_secs() * 1_000 + u64::from(d.subsec_millis()));
    let seed = number_in("WILCO_TEST_SEED").unwrap_or(clock);
    ask(seed).await;
}

fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number, not {text}")),
    )
}

async fn ask(seed: u64) {
    println!("seed {seed}");
    let mut oracle = Oracle::start();
    let stock = Stock::load(&oracle.profiles(), &oracle.conformance());
    let daemon = ours::daemon(&oracle.profiles()).await;
    let client = ours::client(&daemon);
    let now = oracle.now().to_owned();
    let mut chance = Chance::new(seed);
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut wrong: Vec<String> = Vec::new();
    let (mut asked, wanted) = (
        0,
        number_in("WILCO_TEST_QUESTIONS").map_or(QUESTIONS, |n| n as usize),
    );
    while asked < wanted {
        let questions: Vec<Value> = (0..LIST).map(|_| stock.question(&mut chance)).collect();
        asked += questions.len();
        let for_oracle = questions.clone();
        // Both think at the same time.
        let theirs = tokio::task::spawn_blocking(move || {
            let answers = oracle.ask(&for_oracle);
            (oracle, answers)
        });
        let ours = ours::ask(&client, &questions, &now).await;
        let (back, theirs) = theirs.await.expect("the oracle answers");
        oracle = back;
        for ((question, theirs), ours) in questions.iter().zip(&theirs).zip(&ours) {
            let valid = ours["problems"].as_array().is_some_and(Vec::is_empty);
            let function = question["f"].as_str().unwrap_or_default();
            let count = match judge(question, theirs, ours) {
                Verdict::Same => format!(
                    "{function}: same, {}",
                    if valid { "nothing wrong" } else { "problems" }
                ),
                Verdict::Stricter(code) => format!("{function}: stricter, {code}"),
                Verdict::PackageCrashed => format!("{function}: the package crashed"),
                Verdict::Wrong(why) => {
                    wrong.push(format!(
                        "{why}\n  question {question}\n  theirs {theirs}\n  ours {ours}"
                    ));
                    "wrong".to_owned()
                }
            };
            *counts.entry(count).or_default() += 1;
        }
    }
    println!("{counts:#?}");
    let shown: Vec<&String> = wrong.iter().take(SHOWN).collect();
    assert!(
        wrong.is_empty(),
        "seed {seed}: {} of {asked} differ:\n{shown:#?}",
        wrong.len()
    );
    for function in ["parse", "check-ho", "check-rb", "check-dn", "check-thread"] {
        for found in ["nothing wrong", "problems"] {
            let name = format!("{function}: same, {found}");
            assert!(
                counts.get(&name).is_some_and(|n| *n > 20),
                "too few questions of {name}: {counts:#?}"
            );
        }
    }
}
