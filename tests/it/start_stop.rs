//! Starting, stopping, and what a data folder is.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use wilco_api::v1::State;
use wilco_tests::daemon::serve;
use wilco_tests::lab::PAYMENTS;
use wilco_tests::process::run;
use wilco_tests::{Daemon, Folder, Payment, Process, Setup, WIRES, Wire, until};

use crate::errors::row;
use crate::support::{committed_act, is_done_as_asked, ok, prepared_act, refused};

/// SIGTERM with a payment under way: no new work is taken, the payment ends and its caller gets the DN, and the daemon
/// exits with 0.
#[tokio::test]
async fn told_to_stop_it_finishes_what_runs() {
    let mut daemon = Daemon::start_with(Setup::quick().lab_apart()).await;
    let scheduler = daemon.scheduler();
    let payment = Payment::seed();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "slow", 1, 4.0).await;
    let (bank, reference) = (daemon.bank(), payment.reference.clone());
    let stopping = async {
        bank.paid(&reference).await;
        daemon.process().terminate();
        // The same connection still answers, and says no to new work in words that tell when to come back.
        until("new work to be refused", async || {
            for wire in WIRES {
                let answer = scheduler.over(wire).prepare(&Payment::number(7).ho()).await;
                if answer.is_ok() {
                    return None;
                }
                row("HALTED", wire, answer);
            }
            Some(())
        })
        .await;
        let ready = scheduler.read("/readyz").await;
        assert_eq!((ready.status, ready.retry_after.is_some()), (503, true));
        assert_eq!(scheduler.read("/healthz").await.status, 200);
    };
    let (committed, ()) = tokio::join!(scheduler.confirm(&prepared, "scheduler-2"), stopping);
    let committed = ok(committed);
    is_done_as_asked(&payment, &committed, &bank.book().await);
    let ended = daemon.process().end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!daemon.data().join("run.json").exists());
}

/// A bank that does not answer within the grace does not keep the daemon: it exits with 0, and the next start finds out.
#[tokio::test]
async fn a_silent_bank_does_not_hold_up_the_end() {
    let setup = Setup::quick().set("server.grace_s", "1").lab_apart();
    let mut daemon = Daemon::start_with(setup).await;
    let scheduler = daemon.scheduler();
    let payment = Payment::seed();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "slow", 1, 600.0).await;
    let bank = daemon.bank();
    let (answer, ended) = tokio::join!(scheduler.confirm(&prepared, "scheduler-2"), async {
        bank.paid(&payment.reference).await;
        daemon.stop().await
    });
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    // The caller was told nothing, or that it is not known; never that it failed.
    if let Ok(answer) = answer {
        assert_eq!(answer.reply, "");
        assert!(matches!(
            committed_act(&answer).state(),
            State::Executing | State::InDoubt
        ));
    }
    daemon.restart().await;
    let committed = ok(daemon.scheduler().confirm(&prepared, "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
}

/// One folder, one daemon: a second one says who is in the way and touches nothing.
#[tokio::test]
async fn a_second_daemon_on_the_folder_refuses() {
    let daemon = Daemon::start().await;
    let mut second = serve(&daemon.data());
    second.args(["--listen", "127.0.0.1:0"]);
    let ended = run(second).await;
    assert_eq!(ended.code, Some(1));
    let data = daemon.data().display().to_string();
    assert!(ended.err.contains(&data), "{}", ended.err);
    // The first one is still there, found by the same file, and works.
    let committed = ok(daemon.scheduler().pay(&Payment::seed()).await);
    is_done_as_asked(&Payment::seed(), &committed, &daemon.bank().book().await);
}

/// Without TLS nothing but loopback is served: every other address is refused before the folder is touched.
#[tokio::test]
async fn other_addresses_are_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let folder = Folder::new();
        let data = folder.path().join("data");
        for verb in ["serve", "lab"] {
            let mut command = Command::new(wilco_tests::binaries::wilcod());
            command
                .args([verb, "--listen", address, "--data"])
                .arg(data.join(verb));
            let ended = run(command).await;
            assert_eq!(ended.code, Some(1), "{verb} {address}: {}", ended.err);
            assert!(ended.err.contains("loopback"), "{}", ended.err);
            assert!(!data.join(verb).join("keys.toml").exists());
        }
    }
}

/// The first start writes a complete configuration and a key for everybody; what is secret is for its owner alone; a
/// later start changes none of it.
#[tokio::test]
async fn a_first_start_leaves_what_newcomers_need() {
    let folder = Folder::new();
    let data = folder.path().join("data");
    let start = || {
        let mut command = serve(&data);
        command.args(["--listen", "127.0.0.1:0"]);
        Process::start(command, folder.path(), "wilcod")
    };
    let mut first = start();
    let run = wilco_tests::process::run_file(&data.join("run.json"), &mut first).await;
    for name in ["pid", "url", "lab_url"] {
        assert!(!run[name].is_null(), "{run}");
    }
    let mode = |name: &str| {
        let file = std::fs::metadata(data.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        file.permissions().mode() & 0o777
    };
    for secret in ["keys.toml", "token.key"] {
        assert_eq!(mode(secret), 0o600, "{secret}");
    }
    let read = |name: &str| std::fs::read_to_string(data.join(name)).expect("readable");
    let keys = read("keys.toml");
    assert!(keys.contains("[keys]"));
    for principal in ["scheduler", "release", "approver", "duty", "viewer"] {
        assert!(wilco_tests::daemon::key_in(&data, principal).len() >= 32);
    }
    let config = read("wilcod.toml");
    for section in [
        "agents",
        "[server]",
        "[acts]",
        "[recovery]",
        "[lab]",
        "[adapters.bank]",
        "url = \"lab\"",
    ] {
        assert!(config.contains(section), "{section}");
    }
    first.terminate();
    assert_eq!(first.end().await.code, Some(0));
    let mut second = start();
    wilco_tests::process::run_file(&data.join("run.json"), &mut second).await;
    assert_eq!((read("keys.toml"), read("wilcod.toml")), (keys, config));
}

/// A mistake in the configuration is one sentence that names file and field, and exit status 1.
#[tokio::test]
async fn a_wrong_configuration_is_named() {
    for (text, needles) in [
        (
            "agents = [\"payer\"]\nshipping = true\n",
            ["wilcod.toml", "shipping"],
        ),
        (
            "[adapters.bank]\nurl = \"http://bank.example\"\n",
            ["wilcod.toml", "missing field"],
        ),
        (
            "[adapters.bank]\nurl = \"http://bank.example\"\npayees = \"lab\"\ntoken_file = \"t\"\n\
             debtor_account = \"20-00-00/55779911\"\n",
            ["url", "loopback"],
        ),
        (
            "[adapters.mail]\ntransport = \"pigeon\"\n",
            ["[adapters.mail]", "transport"],
        ),
        (
            "[adapters.records]\ntimeout_s = 0\n",
            ["[adapters.records]", "timeout_s"],
        ),
        (
            "[adapters.deploy]\ntimeout_s = 0\n[adapters.deploy.targets.api]\nkind = \"folder\"\nservice = \"api\"\n\
             env = \"PROD\"\nfolder = \"f\"\nartefacts = \"a\"\n",
            ["[adapters.deploy]", "timeout_s"],
        ),
    ] {
        let folder = Folder::new();
        std::fs::write(folder.path().join("wilcod.toml"), text).expect("written");
        let mut command = serve(folder.path());
        command.args(["--listen", "127.0.0.1:0"]);
        let ended = run(command).await;
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        for needle in needles {
            assert!(ended.err.contains(needle), "{needle}: {}", ended.err);
        }
        assert!(!folder.path().join("run.json").exists());
    }
}

/// An adapter that open acts need cannot be configured away unnoticed.
#[tokio::test]
async fn open_acts_keep_their_adapter() {
    let mut daemon = Daemon::start_with(Setup::quick().lab_apart()).await;
    let prepared = ok(daemon.scheduler().prepare(&Payment::seed().ho()).await);
    assert_eq!(prepared_act(&prepared).state(), State::Prepared);
    daemon.kill();
    daemon.set("agents", "[\"shipper\"]");
    let mut command = serve(&daemon.data());
    command.args(["--listen", "127.0.0.1:0"]);
    let ended = run(command).await;
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    for needle in ["payer", "--orphan"] {
        assert!(ended.err.contains(needle), "{needle}: {}", ended.err);
    }
    let mut command = serve(&daemon.data());
    command.args(["--listen", "127.0.0.1:0", "--orphan"]);
    let folder = Folder::new();
    let mut orphaned = Process::start(command, folder.path(), "wilcod");
    let run: Value = wilco_tests::process::run_file(&daemon.data().join("run.json"), &mut orphaned).await;
    assert!(run["url"].is_string());
    orphaned.terminate();
    assert_eq!(orphaned.end().await.code, Some(0));
    daemon.set("agents", "[\"payer\"]");
    daemon.restart().await;
    let committed = ok(daemon
        .caller("scheduler", Wire::Json)
        .confirm(&prepared, "scheduler-2")
        .await);
    is_done_as_asked(&Payment::seed(), &committed, &daemon.bank().book().await);
    refused(daemon.scheduler().prepare("RW1").await, "MALFORMED");
}
