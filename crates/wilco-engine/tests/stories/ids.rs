//! Message ids: short where they can be, long where they must, and never one for two lines.

use wilco_core::{Reason, State};
use wilco_engine::CommitRequest;

use crate::common::*;

const THREAD: &str = "month-end";

async fn confirm(house: &House, who: &str, prepared: &wilco_engine::Prepared, n: u32) -> String {
    let request = CommitRequest {
        confirmation: format!(
            "RW1 AN {who}-{n} re={} from={who} to=payer val=Y",
            id_of(&prepared.statement)
        ),
        ..yes(prepared, n)
    };
    let committed = house
        .engine
        .commit(&sender(who), request)
        .await
        .expect("committed");
    assert_eq!(committed.act.state(), State::Done);
    committed.reply
}

#[tokio::test]
async fn two_senders_with_the_same_number_in_one_thread_both_get_through() {
    let house = house().await;
    let first = house
        .prepare_as(&scheduler(), THREAD, &ho(1))
        .await
        .expect("prepared");
    let second = house
        .prepare_as(&sender("auditor"), THREAD, &ho_of("auditor", 1))
        .await
        .expect("prepared");
    assert_eq!(id_of(&first.statement), "payer-101");
    let long = id_of(&second.statement);
    assert!(long.len() > 15 && long.starts_with("payer-"), "{long}");
    let a = confirm(&house, "scheduler", &first, 2).await;
    let b = confirm(&house, "auditor", &second, 2).await;
    assert_eq!(id_of(&a), "payer-102");
    assert!(id_of(&b).len() > 15, "once long, always long: {b}");
    let (lines, problems) = house.thread(THREAD).await;
    assert_eq!(problems, [] as [String; 0], "{lines:#?}");
    assert_eq!(lines.len(), 8);
}

#[tokio::test]
async fn every_line_of_ours_finds_an_id_where_its_short_one_is_taken() {
    // The payer hands work over as well, and its own ids stand where ours would.
    let house = house().await;
    let payer = sender("payer");
    let take = async |n: u32| {
        let line = ho_of("payer", n).replace("to=payer", "to=auditor");
        let taken = house
            .prepare_as(&payer, "scheduler", &line)
            .await
            .expect("prepared");
        assert_eq!(taken.act.state(), State::Prepared);
    };
    let long = |line: &str| id_of(line).len() > 15;

    // The readback.
    take(101).await;
    let prepared = house.prepare(&ho(1)).await;
    assert!(long(&prepared.statement));

    // The done line.
    let prepared = house.prepare(&ho(2)).await;
    take(202).await;
    assert!(long(&house.commit(yes(&prepared, 90)).await.reply));

    // The acknowledgement.
    house.prepare(&ho(3)).await;
    take(302).await;
    assert!(long(&house.cancel(&cx(91, "scheduler-3")).await.reply));

    // The refusal.
    take(401).await;
    house.bank().next_resolve(Resolve::Refuses("PERM"));
    assert!(long(&house.prepare(&ho(4)).await.reply));

    // The line that closes what was superseded.
    let old = house.prepare(&ho(5)).await;
    take(502).await;
    let again = ho(6).replace(" from=", &format!(" re={} from=", id_of(&old.statement)));
    assert_eq!(house.prepare(&again).await.act.state(), State::Prepared);
    let closed = house.act(old.act.act_id).await;
    assert!(long(&closed.closed().expect("superseded").line));

    // The tombstone's answer, and the refusal of its handoff.
    take(701).await;
    assert!(long(&house.cancel(&cx(92, "scheduler-7")).await.reply));
    house.cancel(&cx(93, "scheduler-8")).await;
    take(802).await;
    assert!(long(&house.prepare(&ho(8)).await.reply));

    // The counterparty's refusal of its own object.
    let refused = house.prepare(&ho(9)).await;
    take(902).await;
    *locked(&house.bank().ready) = wilco_adapter::Ready::Refused { text: "no".into() };
    assert!(long(&house.commit(yes(&refused, 94)).await.reply));
    *locked(&house.bank().ready) = wilco_adapter::Ready::Yes;

    // The end of the handoff.
    let open = house
        .prepare(&ho(10).replace("rb=exec", "rb=exec exp=20261002T1230Z"))
        .await;
    take(1002).await;
    house.clock().advance(1_800);
    let failed = house.until(open.act.act_id, State::Failed).await;
    assert!(long(&failed.closed().expect("closed").line));

    house.assert_thread_is_sound().await;
}

#[tokio::test]
async fn a_confirmation_under_a_taken_id_is_a_conflict_before_any_claim() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    house.commit(yes(&first, 2)).await;
    let second = house.prepare(&ho(3)).await;
    // The id of the first confirmation, of a handoff, and of a cancel that waits.
    for id in [2, 1, 3] {
        let refused = house.try_commit(yes(&second, id)).await.expect_err("taken");
        assert_eq!(refused.reason, Reason::HandoffConflict, "{id}");
        assert_eq!(refused.field.as_deref(), Some("confirmation"));
        assert!(
            refused.text.contains(&format!("scheduler-{id} is taken")),
            "{}",
            refused.text
        );
        assert_eq!(
            house.state(second.act.act_id).await,
            State::Prepared,
            "not claimed"
        );
    }
    let refused = house.try_commit(no(&second, 2)).await.expect_err("taken");
    assert_eq!(refused.reason, Reason::HandoffConflict);
    assert_eq!(locked(&house.bank().executes).len(), 1);
    assert_eq!(house.commit(yes(&second, 4)).await.act.state(), State::Done);
    house.assert_thread_is_sound().await;
}

#[tokio::test]
async fn a_handoff_under_another_lines_id_is_a_conflict() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    house.commit(yes(&first, 2)).await;
    let refused = house.try_prepare(&ho(2)).await.expect_err("taken");
    assert_eq!(refused.reason, Reason::HandoffConflict);
    assert_eq!(refused.field.as_deref(), Some("ho"));
    // What was placed for it is withdrawn.
    let released = eventually(async || (locked(&house.bank().released).len() == 1).then_some(()));
    assert!(released.await.is_some());
    house.assert_thread_is_sound().await;
}

#[tokio::test]
async fn past_ninety_nine_lines_ids_are_long_and_attempts_have_an_end() {
    let house = house().await;
    let mut last = house.prepare(&ho(1)).await;
    for n in 2..=200 {
        house.clock().advance(360);
        last = house.prepare(&ho(1)).await;
        assert_eq!(last.act.attempt, n);
    }
    assert!(id_of(&last.statement).len() > 15);
    house.clock().advance(360);
    let refused = house.try_prepare(&ho(1)).await.expect_err("enough");
    assert_eq!(refused.reason, Reason::Limit);
    house.assert_thread_is_sound().await;
}
