//! Two daemons on one PostgreSQL database. One of them stands still in the middle of a payment, long enough for the other to
//! take it over, and then goes on where it stood: with the bytes of the order in its hands.

use std::time::Duration;

use wilco_api::v1::State;
use wilco_failpoint::VARIABLE;
use wilco_tests::postgres::{Database, server};
use wilco_tests::{Daemon, LabProcess, Payment, Setup, until};

use crate::paused::stopped;
use crate::support::{act, committed_act, is_done_as_asked, ok, prepared_act, thread_passes};

/// What each story needs: the daemon that will stand still, the one that looks on, their bank and their database.
struct Pair {
    still: Daemon,
    onlooker: Daemon,
    lab: LabProcess,
    // Removed after the daemons.
    _database: Database,
}

impl Pair {
    /// The first one stops at `point`; what the second is told to do besides is in its environment.
    async fn start(point: &str) -> Pair {
        let server = server().unwrap_or_else(|why| panic!("{why}"));
        let database = Database::create(&server).unwrap_or_else(|why| panic!("{why}"));
        let lab = LabProcess::start(&[]).await;
        let setup = Setup::quick()
            .failing()
            .lab_at(lab.url())
            .arg("--database-url")
            .arg(database.url())
            .set("acts.wait_s", "1")
            .set("acts.execution_deadline_s", "2")
            .set("adapters.bank.timeout_s", "2")
            .set("adapters.bank.settle_window_s", "1")
            .set("recovery.takeover_after_s", "1")
            .set("recovery.poll_interval_ms", "50");
        let still = Daemon::start_with(setup.clone().env(VARIABLE, &format!("{point}=stop"))).await;
        let key = still.data().join("token.key");
        let onlooker = Daemon::start_with(setup.set("store.token_key_file", &format!("{key:?}"))).await;
        Pair {
            still,
            onlooker,
            lab,
            _database: database,
        }
    }
}

/// Whoever sends first, and however often: the onlooker takes over, and where it may send the same bytes again it does; the
/// other sends its own when it goes on. One payment, one line, told by both.
#[tokio::test]
async fn takes_over_and_it_is_one_payment() {
    for point in [
        "execute.permit",
        "send.connected",
        "send.may_send",
        "send.answered",
    ] {
        let mut pair = Pair::start(point).await;
        let payment = Payment::seed();
        let prepared = stands_still(&mut pair, point, &payment).await;
        let act_id = prepared_act(&prepared).act_id;
        let scheduler = pair.onlooker.scheduler();
        let done = scheduler.until_state(&act_id, &[State::Done]).await;
        let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
        assert_eq!(committed.reply, done.close);
        is_done_as_asked(&payment, &committed, &pair.lab.bank().book().await);
        ends_the_same(pair, &payment, &act_id, &committed).await;
    }
}

/// The onlooker dies with its second sending claimed and not yet made, and starts again. Now one sending never happened and
/// the other may be given up by its own time limit: whether it was paid is the book's to say, and both say the same.
#[tokio::test]
async fn dies_while_it_takes_over() {
    let mut pair = Pair::start("send.may_send").await;
    pair.onlooker.relaunch(&[(VARIABLE, "recover.resending=kill")]);
    until("the onlooker", async || pair.onlooker.answers().then_some(())).await;
    let payment = Payment::seed();
    let prepared = stands_still(&mut pair, "send.may_send", &payment).await;
    let ended = pair.onlooker.process().end().await;
    assert_eq!(ended.code, None, "it was killed: {}", ended.err);
    pair.onlooker.relaunch(&[]);
    until("the onlooker", async || pair.onlooker.answers().then_some(())).await;
    let act_id = prepared_act(&prepared).act_id;
    pair.still.process().go_on();
    let scheduler = pair.onlooker.scheduler();
    let ended = scheduler
        .until_state(&act_id, &[State::Done, State::Failed])
        .await;
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    assert_eq!(committed.reply, ended.close);
    ends_the_same(pair, &payment, &act_id, &committed).await;
}

/// Prepares and confirms at the first daemon, which stops on its way.
async fn stands_still(pair: &mut Pair, point: &str, payment: &Payment) -> wilco_api::v1::PrepareReply {
    let scheduler = pair.still.scheduler();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    let pid = pair.still.process().pid();
    tokio::select! {
        answer = scheduler.confirm(&prepared, "scheduler-2") => panic!("it was to stand still at {point}: {answer:?}"),
        () = until(point, async || stopped(pid).then_some(())) => {}
    }
    prepared
}

/// The first daemon goes on with what it held; nothing changes, and it says so too.
async fn ends_the_same(mut pair: Pair, payment: &Payment, act_id: &str, told: &wilco_api::v1::CommitReply) {
    pair.still.process().go_on();
    // Its order, if it still sends one, and every window pass.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let state = committed_act(told).state();
    for daemon in [&pair.still, &pair.onlooker] {
        let scheduler = daemon.scheduler();
        let now = act(ok(scheduler.act(act_id).await).act);
        assert_eq!((now.state(), now.close.as_str()), (state, told.reply.as_str()));
        assert_ne!(now.verdict, "contradicted");
        thread_passes(&scheduler, "scheduler").await;
    }
    let book = pair.lab.bank().book().await;
    match state {
        State::Done => is_done_as_asked(payment, told, &book),
        _ => assert_eq!(
            book.payments_of(&payment.reference),
            Vec::<serde_json::Value>::new()
        ),
    }
}
