//! Nothing is changed twice, whatever is sent again, raced, late or changed back in between.

use futures::future::join_all;
use wilco_adapter::{Adapter, Found, Outcome, Ready, kit};

use crate::house::{Asked, House, NEW, OLD, change, change_to, done, not_sent, rejected, value};

pub async fn a_change_is_made_once_however_often_it_is_sent(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    assert_eq!(house.adapter().ready(job.act_id, &frozen).await, Ready::Yes);
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));

    let report = done(house.execute(&job, &frozen).await);
    assert_eq!(report.status, "changed");
    assert_eq!(report.receipt, Some(job.act_id.to_string()));
    let row = house.sql("SELECT sup, acct, eff, apref FROM vendor WHERE sup = 'marlow'");
    assert_eq!(row, format!("marlow|{NEW}|20251005|FD-0930"));
    let told: Vec<&str> = ["sup", "acct", "eff", "apref", "prev"]
        .iter()
        .filter_map(|s| value(&report, s))
        .collect();
    assert_eq!(told, ["marlow", NEW, "20251005", "FD-0930", OLD]);
    let recorded = house.sql("SELECT ref, ask, sup, prev, acct, eff, apref, at FROM wilco_acts");
    let act = job.act_id;
    assert_eq!(
        recorded,
        format!("{act}|CHGBANK|marlow|{OLD}|{NEW}|20251005|FD-0930|2025-10-02T09:00:00.000Z")
    );

    for _ in 0..3 {
        let again = done(house.execute(&job, &frozen).await);
        assert_eq!(
            (&again.values, again.status.as_str()),
            (&report.values, "changed before")
        );
    }
    match house.lookup(&job, &frozen).await {
        Found::Executed(found) => assert_eq!(found.values, report.values),
        other => panic!("{other:?}"),
    }
    assert_eq!((house.account("marlow"), house.acts()), (NEW.to_owned(), 1));
    // Nobody else's row was touched.
    assert_eq!(house.sql("SELECT apref FROM vendor WHERE sup = 'tate'"), "");
}

pub async fn an_account_changed_back_is_not_changed_again(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let report = done(house.execute(&job, &frozen).await);
    // A to B to A: the swap's condition holds again, and the key of our reference is all that stands in the way.
    house.sql(&format!("UPDATE vendor SET acct = '{OLD}' WHERE sup = 'marlow'"));
    let again = done(house.execute(&job, &frozen).await);
    assert_eq!(
        (&again.values, again.status.as_str()),
        (&report.values, "changed before")
    );
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 1));
}

pub async fn an_account_that_moved_is_left_alone(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    house.sql("UPDATE vendor SET acct = '10-10-10/10101010' WHERE sup = 'marlow'");
    match house.adapter().ready(job.act_id, &frozen).await {
        Ready::Refused { text } => assert!(
            text.contains("slot prev") && text.contains("10-10-10/10101010"),
            "{text}"
        ),
        other => panic!("{other:?}"),
    }
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(text.contains("not have the stated account any more"), "{text}");
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));
    house.sql("DELETE FROM vendor WHERE sup = 'marlow'");
    rejected(house.execute(&job, &frozen).await);
    assert_eq!(house.acts(), 0);
}

pub async fn of_acts_that_race_one_wins(house: House) {
    let house = house.with(|c| c.timeout_s = 20);
    let mut acts = Vec::new();
    for n in 0..8 {
        let job = change_to(&house, "marlow", &format!("30-30-30/0000000{n}"));
        let frozen = house.prepare(&job).await;
        acts.push((job, frozen));
    }
    let outcomes = join_all(acts.iter().map(|(job, frozen)| house.execute(job, frozen))).await;
    let mut winners = Vec::new();
    for ((job, frozen), outcome) in acts.iter().zip(outcomes) {
        match outcome {
            Outcome::Executed(report) => {
                winners.push(value(&report, "acct").unwrap_or_default().to_owned());
                assert!(matches!(house.lookup(job, frozen).await, Found::Executed(_)));
            }
            other => {
                rejected(other);
                assert!(matches!(house.lookup(job, frozen).await, Found::Absent(_)));
            }
        }
    }
    assert_eq!(winners, [house.account("marlow")]);
    assert_eq!(house.acts(), 1);
}

pub async fn the_same_act_sent_by_many_is_done_once(house: House) {
    let house = house.with(|c| c.timeout_s = 20);
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let outcomes = join_all((0..8).map(|_| house.execute(&job, &frozen))).await;
    let fresh = outcomes
        .into_iter()
        .map(done)
        .filter(|r| r.status == "changed")
        .count();
    assert_eq!(
        (fresh, house.acts(), house.account("marlow")),
        (1, 1, NEW.to_owned())
    );
}

pub async fn a_late_permit_changes_nothing(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    // It becomes too late between the swap and COMMIT.
    let clock = Asked::clock(house.clock.clone(), {
        let clock = house.clock.clone();
        move |time| {
            if time == 2 {
                clock.pass(kit::SENDABLE_S);
            }
        }
    });
    let text = not_sent(house.execute_by(&job, &frozen, clock).await);
    assert!(text.contains("the last moment for this act"), "{text}");
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    // And it is too late before anything was begun.
    not_sent(house.execute(&job, &frozen).await);
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));
}
