//! Everything that can go wrong between prepare and the answer of a git remote. The judge is the remote's own reflog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wilco_adapter::kit::permit;
use wilco_adapter::{Adapter, Found, Job, Outcome};
use wilco_core::{Clock, Frozen, Timestamp};

use crate::support::*;

fn rejected(outcome: Outcome) -> String {
    match outcome {
        Outcome::Rejected(text) => text,
        other => panic!("it was not rejected: {other:?}"),
    }
}

fn not_sent(outcome: Outcome) -> String {
    match outcome {
        Outcome::NotSent(text) => text,
        other => panic!("it was not kept back: {other:?}"),
    }
}

#[tokio::test]
async fn a_remote_that_moved_since_prepare_is_left_alone() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    scene.move_by_hand("v3");
    let text = not_sent(scene.execute(&job, &frozen).await);
    let (v1, v3) = (scene.commit("v1"), scene.commit("v3"));
    assert!(
        text.contains(&format!("refs/heads/prod is at {v3} now, not at {v1}")),
        "{text}"
    );
    assert_eq!(
        (scene.live(), scene.moves(), scene.records().len()),
        (scene.commit("v3"), 1, 0)
    );
    // Nothing shows yet that this remote would show our ref.
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    scene.deployed("v1").await;
    scene.move_by_hand("v3");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Absent(_)));
}

#[tokio::test]
async fn a_branch_that_somebody_else_brought_to_the_same_commit_is_not_our_doing() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    scene.move_by_hand("v2");
    not_sent(scene.execute(&job, &frozen).await);
    assert_eq!((scene.moves(), scene.records().len()), (1, 0));
    match scene.lookup(&job, &frozen).await {
        Found::Unknown(text) => assert!(text.contains("somebody else"), "{text}"),
        other => panic!("it is where it should be, and nobody can say by whom: {other:?}"),
    }
}

#[tokio::test]
async fn a_refusal_by_the_remote_is_certain() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    scene.hook(
        "pre-receive",
        "cat > /dev/null; echo 'frozen until Monday' >&2; exit 1",
    );
    let text = rejected(scene.execute(&job, &frozen).await);
    assert!(
        text.contains("pre-receive hook declined") && text.contains("frozen until Monday"),
        "{text}"
    );
    assert_eq!(
        (scene.live(), scene.moves(), scene.records().len()),
        (scene.commit("v1"), 0, 0)
    );
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Absent(_)));
}

#[tokio::test]
async fn a_remote_that_would_move_only_one_of_the_refs_moves_none() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    scene.hook("update", "case \"$1\" in refs/wilco/*) exit 1;; esac");
    rejected(scene.execute(&job, &frozen).await);
    assert_eq!(
        (scene.live(), scene.moves(), scene.records().len()),
        (scene.commit("v1"), 0, 0)
    );
}

#[tokio::test]
async fn a_reply_that_is_lost_after_the_effect_is_found_by_our_ref() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    // The server dies after the refs have moved, before it has reported.
    scene.hook("post-receive", "cat > /dev/null; kill -9 $PPID");
    match scene.execute(&job, &frozen).await {
        Outcome::Executed(_) | Outcome::Unknown(_) => {}
        other => panic!("it is done, and this denies it: {other:?}"),
    }
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v2"), 1));
    assert_eq!(value(&found(scene.lookup(&job, &frozen).await), "ver"), "v2");
}

#[tokio::test]
async fn a_server_that_dies_before_the_effect_leaves_nothing_and_nobody_says_more() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    scene.hook("pre-receive", "cat > /dev/null; kill -9 $PPID");
    match scene.execute(&job, &frozen).await {
        Outcome::Unknown(_) => {}
        other => panic!("nobody knows: {other:?}"),
    }
    assert_eq!((scene.moves(), scene.records().len()), (0, 0));
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Absent(_)));
}

#[tokio::test]
async fn a_push_that_lands_after_its_deadline_is_unknown_then_absent_then_found() {
    let temp = Temp::new();
    repositories(&temp.0);
    let server = GitDaemon::serve(&temp.0);
    let scene = GitScene::at(temp, &server.url, "timeout_s = 3\nsettle_window_s = 6", "");
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    // The remote works on, whatever becomes of its client; the test says when it may.
    scene.hook(
        "pre-receive",
        "cat > /dev/null; touch waiting; while ! [ -e go ]; do sleep 0.05; done",
    );
    match scene.execute(&job, &frozen).await {
        Outcome::Unknown(_) => {}
        other => panic!("it may still land: {other:?}"),
    }
    assert!(scene.remote().join("waiting").exists(), "the push had arrived");
    assert_eq!(scene.moves(), 0);
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Absent(_)));
    std::fs::write(scene.remote().join("go"), "").expect("written");
    for _ in 0..600 {
        if scene.moves() == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v2"), 1));
    found(scene.lookup(&job, &frozen).await);
    // And the same bytes again, by a daemon that took over.
    std::fs::remove_file(scene.remote().join("hooks/pre-receive")).expect("removed");
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.moves(), 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_takes_its_push_with_it() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    // Here the server is a child of the push, and is in its process group.
    scene.hook(
        "pre-receive",
        "cat > /dev/null; touch waiting; while ! [ -e go ]; do sleep 0.05; done; touch went",
    );
    {
        let execute = scene.execute(&job, &frozen);
        tokio::pin!(execute);
        let arrived = async {
            while !scene.remote().join("waiting").exists() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            outcome = &mut execute => panic!("it does not end by itself: {outcome:?}"),
            () = arrived => {}
        }
    }
    std::fs::write(scene.remote().join("go"), "").expect("written");
    for _ in 0..20 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(!scene.remote().join("went").exists());
    assert_eq!((scene.moves(), scene.records().len()), (0, 0));
}

#[tokio::test]
async fn a_push_whose_daemon_died_is_ended_by_its_watcher() {
    let scene = GitScene::with("timeout_s = 1\nsettle_window_s = 2", "");
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    scene.hook(
        "pre-receive",
        "cat > /dev/null; touch waiting; while ! [ -e go ]; do sleep 0.05; done; touch went",
    );
    // Nothing is dropped when a process is killed: no destructor, no signal to a child. Nor is it here.
    let (adapter, clock) = (scene.elsewhere("deploy"), scene.clock.clone());
    let (pushed, act) = (frozen.clone(), permit(&job, &frozen, clock));
    let mut call = Box::pin(async move { adapter.execute(act, &pushed).await });
    let arrived = async {
        while !scene.remote().join("waiting").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        outcome = &mut call => panic!("it does not end by itself: {outcome:?}"),
        () = arrived => {}
    }
    std::mem::forget(call);
    let running = || {
        let ps = std::process::Command::new("ps")
            .args(["-eo", "args"])
            .output()
            .expect("ps, of procps");
        let path = scene.temp.0.display().to_string();
        String::from_utf8_lossy(&ps.stdout)
            .lines()
            .any(|l| l.contains("push") && l.contains(&path))
    };
    assert!(running());
    while running() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    std::fs::write(scene.remote().join("go"), "").expect("written");
    for _ in 0..20 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(!scene.remote().join("went").exists());
    assert_eq!((scene.moves(), scene.records().len()), (0, 0));
}

#[tokio::test]
async fn a_remote_that_is_gone_is_not_pushed_to_and_proves_nothing() {
    let temp = Temp::new();
    repositories(&temp.0);
    let server = GitDaemon::serve(&temp.0);
    let scene = GitScene::at(temp, &server.url, "timeout_s = 10\nsettle_window_s = 20", "");
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    drop(server);
    not_sent(scene.execute(&job, &frozen).await);
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    assert_eq!(scene.moves(), 0);
}

#[tokio::test]
async fn a_remote_that_never_answers_is_given_up_and_was_not_pushed_to() {
    let temp = Temp::new();
    repositories(&temp.0);
    let server = GitDaemon::serve(&temp.0);
    let scene = GitScene::at(temp, &server.url, "timeout_s = 2\nsettle_window_s = 4", "");
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let port: u16 = server
        .url
        .split([':', '/'])
        .nth(4)
        .and_then(|p| p.parse().ok())
        .expect("a port");
    drop(server);
    let silent = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port is free again");
    not_sent(scene.execute(&job, &frozen).await);
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    drop(silent);
    assert_eq!(scene.moves(), 0);
}

/// A clock that is late from its second look on: the moment passes while the push connects.
struct LateAfter(AtomicU32, Timestamp, Timestamp);

impl Clock for LateAfter {
    fn now(&self) -> Timestamp {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => self.1,
            _ => self.2,
        }
    }
}

#[tokio::test]
async fn a_permit_that_runs_out_while_the_push_connects_keeps_it_back() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let late = Arc::new(LateAfter(AtomicU32::new(0), job.now, frozen.not_after));
    let text = not_sent(
        scene
            .adapter
            .execute(permit(&job, &frozen, late.clone()), &frozen)
            .await,
    );
    assert!(text.contains("not sent"), "{text}");
    assert!(
        late.0.load(Ordering::SeqCst) >= 2,
        "it was asked again at the gate"
    );
    assert_eq!((scene.moves(), scene.records().len()), (0, 0));
    // And one that was late from the start.
    scene.clock.pass(4 * 3_600);
    not_sent(scene.execute(&job, &frozen).await);
    assert_eq!((scene.moves(), scene.records().len()), (0, 0));
}

#[tokio::test]
async fn without_a_gate_that_can_be_run_nothing_is_pushed() {
    use std::os::unix::fs::PermissionsExt;
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let hook = scene.temp.0.join("deploy/api-prod.hooks/pre-push");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o600)).expect("it is there");
    let text = not_sent(scene.execute(&job, &frozen).await);
    assert!(text.contains("cannot be run"), "{text}");
    assert_eq!((scene.moves(), scene.records().len()), (0, 0));
}

#[tokio::test]
async fn a_ref_under_our_name_that_is_not_our_record_is_nobodys_proof() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let v1 = scene.commit("v1");
    git(
        &scene.remote(),
        &["update-ref", &format!("refs/wilco/{}", job.act_id), &v1],
    );
    match scene.execute(&job, &frozen).await {
        Outcome::Unknown(text) => assert!(text.contains("not our record"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    assert_eq!((scene.live(), scene.moves()), (v1, 0));
}

#[tokio::test]
async fn a_remote_without_the_branch_is_perhaps_another_remote() {
    let scene = GitScene::new();
    let (job, frozen) = scene.deployed("v2").await;
    std::fs::remove_dir_all(scene.remote()).expect("removed");
    git(&scene.temp.0, &["init", "--quiet", "--bare", "remote.git"]);
    match scene.lookup(&job, &frozen).await {
        Found::Unknown(text) => assert!(text.contains("another remote"), "{text}"),
        other => panic!("an empty repository proves nothing: {other:?}"),
    }
}

#[tokio::test]
async fn two_that_race_for_one_branch_are_one_deployment() {
    let scene = GitScene::new();
    let (one, two) = (scene.deploy("v2"), scene.deploy("v3"));
    let (first, second) = (scene.prepare(&one).await, scene.prepare(&two).await);
    let other = scene.elsewhere("other-work");
    let racing = permit(&two, &second, scene.clock.clone());
    let (a, b) = tokio::join!(scene.execute(&one, &first), other.execute(racing, &second));
    let done = [&a, &b]
        .into_iter()
        .filter(|o| matches!(o, Outcome::Executed(_)))
        .count();
    let kept_out = |o: &&Outcome| matches!(o, Outcome::Rejected(_) | Outcome::NotSent(_));
    let refused = [&a, &b].into_iter().filter(kept_out).count();
    assert_eq!((done, refused), (1, 1), "{a:?} {b:?}");
    assert_eq!((scene.moves(), scene.records().len()), (1, 1));
}

/// Runs an act's push up to where the remote has taken it in and would move the refs next, then `meanwhile`, then the rest.
async fn overtaken(
    scene: &GitScene,
    job: &Job,
    frozen: &Frozen,
    meanwhile: impl AsyncFnOnce(&GitScene),
) -> Outcome {
    scene.hook(
        "pre-receive",
        &format!(
            "cat > /dev/null; case \"$GIT_PUSH_OPTION_0\" in *{}) touch waiting; while ! [ -e go ]; do sleep 0.05; done;; esac",
            job.act_id
        ),
    );
    let others = async {
        while !scene.remote().join("waiting").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        meanwhile(scene).await;
        std::fs::write(scene.remote().join("go"), "").expect("written");
    };
    let (outcome, ()) = tokio::join!(scene.execute(job, frozen), others);
    outcome
}

#[tokio::test]
async fn two_acts_that_bring_the_same_commit_are_told_apart_by_their_refs() {
    let scene = GitScene::new();
    let (done, was) = scene.deployed("v2").await;
    scene.clock.pass(1);
    let (back, away) = (rollback(scene.clock.now()), undo(scene.clock.now(), &done, &was));
    let (one, two) = (scene.prepare(&back).await, scene.prepare(&away).await);
    let lost = overtaken(&scene, &back, &one, async |scene| {
        executed(scene.execute(&away, &two).await);
    })
    .await;
    let text = rejected(lost);
    assert!(text.contains("cannot lock ref"), "{text}");
    assert_eq!(
        (scene.live(), scene.moves(), scene.records().len()),
        (scene.commit("v1"), 2, 2)
    );
    // The remote shows refs of acts, so that ours is not there says what it seems to.
    assert!(matches!(scene.lookup(&back, &one).await, Found::Absent(_)));
    found(scene.lookup(&away, &two).await);
    not_sent(scene.execute(&back, &one).await);
}

#[tokio::test]
async fn a_lock_that_was_lost_is_a_refusal_unless_it_was_lost_to_the_same_commit() {
    for (by_hand, certain) in [("v3", true), ("v2", false)] {
        let scene = GitScene::new();
        let job = scene.deploy("v2");
        let frozen = scene.prepare(&job).await;
        let outcome = overtaken(&scene, &job, &frozen, async |scene| scene.move_by_hand(by_hand)).await;
        match outcome {
            Outcome::Rejected(text) if certain => assert!(text.contains("cannot lock ref"), "{text}"),
            Outcome::Unknown(text) if !certain => assert!(text.contains("somebody else"), "{text}"),
            other => panic!("{by_hand}: {other:?}"),
        }
        assert_eq!((scene.live(), scene.moves()), (scene.commit(by_hand), 1));
        assert!(scene.records().is_empty());
    }
}

#[tokio::test]
async fn what_was_frozen_is_what_is_pushed_or_nothing() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let mut frozen = scene.prepare(&job).await;
    frozen.request.body = frozen.request.body.replace("\"ver\":\"v2\"", "\"ver\":\"v3\"");
    let text = not_sent(scene.execute(&job, &frozen).await);
    assert!(text.contains("not the stated"), "{text}");
    assert_eq!(scene.moves(), 0);
}

#[tokio::test]
async fn a_remote_that_hides_our_refs_is_never_said_to_have_done_nothing() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    git(&scene.remote(), &["config", "uploadpack.hideRefs", "refs/wilco"]);
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::Unknown(_)));
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v2"), 1));
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    scene.move_by_hand("v3");
    assert!(
        matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)),
        "others went on from it, and that proves nothing either"
    );
}

#[tokio::test]
async fn locks_that_a_killed_git_left_are_in_the_way_once() {
    let scene = GitScene::new();
    scene.prepare(&scene.deploy("v2")).await;
    let lock = scene.temp.0.join("deploy/api-prod.git/refs/source/tags/v4.lock");
    let file = std::fs::File::create(&lock).expect("made");
    git(
        &scene.source(),
        &["commit", "--quiet", "--allow-empty", "-m", "v4"],
    );
    git(&scene.source(), &["tag", "v4"]);
    // Young, it may be somebody's at work.
    assert!(scene.adapter_resolve("v2").await.is_err());
    assert!(lock.exists());
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    file.set_modified(hour_ago).expect("set");
    assert!(scene.adapter_resolve("v2").await.is_err());
    scene.deployed("v4").await;
}
