//! The command line: `wilco` takes what the `rogerwilco` command takes, and ends with the same exit status.

use std::path::{Path, PathBuf};
use std::process::Command;

use futures::StreamExt;
use serde_json::Value;
use wilco_tests::process::run;
use wilco_tests::{Folder, binaries};

use crate::judge::{Verdict, judge};
use crate::mutate::{Chance, Stock};
use crate::oracle::{Oracle, python};
use crate::ours;

/// How many random questions are put to both commands.
const SAMPLE: usize = 150;

/// The arguments of both commands for one question; none for one that a command line cannot carry, or that the
/// command judges by the clock.
fn arguments(question: &Value, file: &Path) -> Option<Vec<String>> {
    let text = |name: &str| question[name].as_str().map(str::to_owned);
    let mut args = match question["f"].as_str()? {
        "parse" => vec!["validate".to_owned(), text("line")?],
        "check-ho" => vec!["check-ho".to_owned(), text("ho")?, question["record"].to_string()],
        "check-dn" if question["rb"].is_null() => vec!["check-dn".to_owned(), text("ho")?, text("dn")?],
        "check-thread" => {
            let lines: Vec<&str> = question["lines"]
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .collect();
            if lines.iter().any(|line| {
                line.chars().any(char::is_control) || line.contains(['\u{85}', '\u{2028}', '\u{2029}'])
            }) {
                return None;
            }
            std::fs::write(file, lines.join("\n")).ok()?;
            vec![
                "check-thread".to_owned(),
                file.display().to_string(),
                "--now".to_owned(),
                text("now").unwrap_or("20261001T1200Z".into()),
            ]
        }
        _ => return None,
    };
    if let Some(profile) = question["profile"].as_str() {
        args.extend(["--profile".to_owned(), profile.to_owned()]);
    }
    let carried = |arg: &String| !arg.contains('\0') && arg.len() < 100_000;
    (args.iter().all(carried) && !args[1].starts_with('-')).then_some(args)
}

async fn status(mut command: Command) -> i32 {
    command.env("PYTHONIOENCODING", "utf-8").env("LC_ALL", "C.UTF-8");
    run(command).await.code.expect("it was not killed")
}

fn theirs(args: &[String]) -> Command {
    let mut command = Command::new(python().with_file_name("rogerwilco"));
    command.args(args);
    command
}

fn ours_of(args: &[String], profiles: &Path) -> Command {
    let mut command = Command::new(binaries::wilco());
    command.args(args).arg("--profiles").arg(profiles);
    command
}

/// A sample of the random questions: the same exit status, or 1 for a documented reason where theirs is 0.
#[tokio::test]
async fn a_sample_of_questions_ends_with_the_same_status() {
    let mut oracle = Oracle::start();
    let stock = Stock::load(&oracle.profiles(), &oracle.conformance());
    let (profiles, now) = (oracle.profiles(), oracle.now().to_owned());
    let daemon = ours::daemon(&profiles).await;
    let client = ours::client(&daemon);
    let folder = Folder::new();
    let mut chance = Chance::new(7);
    let mut sample: Vec<(Value, Vec<String>)> = Vec::new();
    while sample.len() < SAMPLE {
        let question = stock.question(&mut chance);
        let file = folder.path().join(format!("thread-{}.txt", sample.len()));
        if let Some(args) = arguments(&question, &file) {
            sample.push((question, args));
        }
    }
    let questions: Vec<Value> = sample.iter().map(|(question, _)| question.clone()).collect();
    let their_answers = oracle.ask(&questions);
    let our_answers = ours::ask(&client, &questions, &now).await;
    let profiles = &profiles;
    let statuses: Vec<(i32, i32)> = futures::stream::iter(&sample)
        .map(async |(_, args)| (status(theirs(args)).await, status(ours_of(args, profiles)).await))
        .buffered(3)
        .collect()
        .await;
    let (mut zeros, mut stricter, mut wrong) = (0, 0, Vec::new());
    for (n, (theirs, ours)) in statuses.into_iter().enumerate() {
        zeros += i32::from(ours == 0);
        match judge(&questions[n], &their_answers[n], &our_answers[n]) {
            _ if theirs == ours => {}
            Verdict::Stricter(_) if (theirs, ours) == (0, 1) => stricter += 1,
            _ => wrong.push(format!("rogerwilco {theirs}, wilco {ours}: {:?}", sample[n].1)),
        }
    }
    println!("{SAMPLE} command lines: {zeros} valid, {stricter} stricter");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(zeros > 20 && zeros < 130, "{zeros} valid ones are no sample");
}

/// Every verb and option of the `rogerwilco` command, in the ways it takes them.
#[tokio::test]
async fn every_verb_and_option_is_there() {
    let oracle = Oracle::start();
    let profiles = oracle.profiles();
    let folder = Folder::new();
    let ho = wilco_tests::Payment::seed().ho();
    let core = "RW1 HO lead-1 from=lead to=writer item=doc:7 ask=DRAFT rb=acc";
    let acc = "RW1 RB writer-1 re=lead-1 from=writer to=lead item=doc:7 ask=DRAFT acc=len:120w+tone:plain";
    let odd = "RW1 ST a-1 from=a to=b item=x:1 colour=red";
    let dn = wilco_tests::Payment::seed().dn("payer-2");
    let record = wilco_tests::Payment::seed().record().to_string();
    let file = |name: &str, lines: &[&str]| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, lines.join("\n")).expect("written");
        path
    };
    let rb = {
        let made = run(theirs(&[
            "make-rb".into(),
            ho.clone(),
            "payer-1".into(),
            "--profile".into(),
            "pay".into(),
        ]))
        .await;
        made.out.trim_end().to_owned()
    };
    let (good, bad) = (
        file("good", &[&ho, &rb, "", "# a remark", &dn]),
        file("bad", &[&ho, "RW1 HO"]),
    );
    let (good, bad) = (good.display().to_string(), bad.display().to_string());
    let wrong = ho.replace("5400.00", "5400.01");
    let cases: Vec<Vec<&str>> = vec![
        vec!["validate", &ho],
        vec!["validate", &ho, "--profile", "pay", "--strict"],
        vec!["validate", odd],
        vec!["validate", odd, "--strict"],
        vec!["validate", "--strict", odd],
        vec!["validate", "not a line"],
        vec!["validate", &ho, "--profile", "shipping"],
        vec!["check-ho", &ho, &record, "--profile", "pay"],
        vec!["check-ho", "--profile", "pay", &wrong, &record],
        vec!["check-ho", &ho, "[]"],
        vec!["check-ho", &ho, "{"],
        vec!["check-rb", &ho, &rb, "--profile", "pay"],
        vec!["check-rb", &wrong, &rb, "--profile", "pay"],
        vec!["check-rb", core, acc, "--expect-acc", "len:120w+tone:plain"],
        vec!["check-rb", core, acc, "--expect-acc", "len:80w"],
        vec!["check-dn", &ho, &dn, "--profile", "pay"],
        vec!["check-dn", &ho, &dn, "--rb", &rb, "--profile", "pay"],
        vec!["check-dn", &wrong, &dn, "--rb", &rb, "--profile", "pay"],
        vec![
            "check-thread",
            &good,
            "--profile",
            "pay",
            "--now",
            "20261003T0000Z",
        ],
        vec!["check-thread", &bad, "--now", "20261003T0000Z"],
        vec!["make-rb", &ho, "payer-1", "--profile", "pay"],
        vec!["make-rb", &ho, "payer-1", "--profile", "pay", "--no-hash"],
        vec![
            "make-rb",
            core,
            "writer-1",
            "--acc",
            "len:120w+tone:plain",
            "--do",
            "copy",
        ],
        vec!["make-rb", &ho, "shipper-1"],
        vec!["digest", &ho],
        vec!["digest", &ho, "--profile", "pay"],
        vec!["digest", "RW1"],
        vec!["to-json", &ho],
        vec!["to-json", "RW1"],
        vec![
            "from-json",
            "{\"type\": \"ST\", \"id\": \"a-1\", \"from\": \"a\", \"to\": \"b\", \"item\": \"x:1\", \"slots\": {\"pct\": 50}}",
        ],
        vec![
            "from-json",
            "{\"type\": \"ST\", \"id\": \"a-1\", \"from\": \"a\", \"to\": \"b\", \"slots\": {}}",
        ],
        vec!["from-json", "{"],
        vec!["legend"],
        vec!["legend", "--profile", "pay", "--lean"],
        vec!["lint", &good],
        vec!["lint", &bad],
    ];
    for case in cases {
        let args: Vec<String> = case.iter().map(|arg| (*arg).to_owned()).collect();
        let (they, we) = (run(theirs(&args)).await, run(ours_of(&args, &profiles)).await);
        assert_eq!(
            they.code, we.code,
            "{args:?}\n{}{}\n{}{}",
            they.out, they.err, we.out, we.err
        );
        // What a program reads is the same to the byte; what a person reads is in our words.
        if they.code == Some(0) && matches!(case[0], "make-rb" | "digest" | "from-json") {
            assert_eq!(they.out, we.out, "{args:?}");
        }
        if they.code == Some(0) && case[0] == "to-json" {
            let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
            assert_eq!(json(&they.out), json(&we.out), "{args:?}");
        }
        let mut with_json = args.clone();
        with_json.push("--json".into());
        let json = run(ours_of(&with_json, &profiles)).await;
        assert_eq!(json.code, we.code, "{with_json:?}");
        assert!(
            serde_json::from_str::<Value>(&json.out).is_ok(),
            "{with_json:?}: {} {}",
            json.out,
            json.err
        );
    }
    // Usage is 2.
    for args in [vec![], vec!["sideways"]] {
        let args: Vec<String> = args.iter().map(|a: &&str| (*a).to_owned()).collect();
        let mut command = Command::new(binaries::wilco());
        command.args(&args);
        assert_eq!(
            (run(theirs(&args)).await.code, run(command).await.code),
            (Some(2), Some(2)),
            "{args:?}"
        );
    }
    // A line may come by standard input.
    let piped = format!(
        "printf '%s\\n' '{ho}' | '{}' validate - --profiles '{}'",
        binaries::wilco().display(),
        profiles.display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &piped]);
    let piped = run(shell).await;
    assert_eq!(piped.code, Some(0), "{}", piped.err);
}
