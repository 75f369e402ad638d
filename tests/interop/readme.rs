//! The README's Python: taken from the page as it stands there, and run against a real daemon.

use std::process::Command;

use wilco_tests::process::run;
use wilco_tests::{Daemon, Setup};

use crate::oracle::python;

/// The sender's side in a few lines of Python, with the public package doing the checks, pays once.
#[tokio::test]
async fn the_readmes_python_pays() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).expect("the README");
    let blocks: Vec<&str> = readme
        .split("```python\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let [block] = blocks.as_slice() else {
        panic!(
            "the README has {} blocks of Python, one is expected",
            blocks.len()
        )
    };
    // The example pays today: the lab's day begins with the daemon, and an example that would run into midnight waits.
    let second_of_day = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |d| d.as_secs() % 86_400)
    };
    while second_of_day() > 86_400 - 60 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let daemon = Daemon::start_with(Setup::quick().set("lab.today", "\"start\"")).await;
    let example = daemon.data().join("example.py");
    std::fs::write(&example, block).expect("written");
    let mut command = Command::new(python());
    command
        .arg(&example)
        .arg(daemon.data())
        .current_dir(root)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = run(command).await;
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    let dn = ended
        .out
        .trim_end()
        .strip_prefix("roger, wilco: ")
        .unwrap_or_else(|| panic!("{}", ended.out));
    assert!(dn.starts_with("RW1 DN payer-102 re=scheduler-1 "), "{dn}");
    let payments = daemon.bank().book().await.payments();
    assert_eq!(payments.len(), 1);
    assert_eq!(payments[0]["amount"], "5400.00");
}
