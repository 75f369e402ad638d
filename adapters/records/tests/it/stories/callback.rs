//! Where a call-back is required, nothing changes before somebody rang, and said so in the customer's own table.

use wilco_adapter::{Adapter, Found, Job, Ready};
use wilco_core::{ActId, Clock, Frozen};

use crate::house::{Asked, House, NEW, OLD, OTHER, change, change_to, done, rejected};

fn strict(house: House) -> House {
    house.with(|c| c.callback = "required".to_owned())
}

async fn awaited(house: &House, act: ActId, frozen: &Frozen) -> String {
    match house.adapter().ready(act, frozen).await {
        Ready::Awaiting { link: None, text } => text,
        other => panic!("not awaiting: {other:?}"),
    }
}

pub async fn nothing_changes_before_the_call_back(house: House) {
    let house = strict(house);
    let job = change(&house);
    let resolved = house
        .adapter()
        .resolve(&job)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(
        resolved
            .extra
            .contains(&("x_callback".to_owned(), "required".to_owned()))
    );
    let note = resolved.notes.iter().find(|n| n.contains("CALLBACK"));
    let note = note.unwrap_or_else(|| panic!("{:?}", resolved.notes));
    assert!(
        note.contains("marlow (Marlow Supplies Ltd) on 020 7946 0011"),
        "{note}"
    );

    let frozen = house.prepare(&job).await;
    let text = awaited(&house, job.act_id, &frozen).await;
    assert!(text.contains("on 020 7946 0011, the number on file"), "{text}");
    assert!(text.contains(&format!("{OLD} becomes {NEW}")), "{text}");
    // Told to execute all the same, it does not.
    let refused = rejected(house.execute(&job, &frozen).await);
    assert!(refused.contains("call-back"), "{refused}");
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));

    // What the text says is what has to be done, word for word.
    house.clock.pass(600);
    let text = awaited(&house, job.act_id, &frozen).await;
    let (_, insert) = text.split_once("record it: ").unwrap_or_else(|| panic!("{text}"));
    let when = "2025-10-02T09:10:00.000Z";
    assert!(insert.contains(&format!("'<when, such as {when}>'")), "{insert}");
    let insert = insert
        .replace("<your name>", "j.smith")
        .replace(&format!("<when, such as {when}>"), when);
    house.sql(&insert);
    assert_eq!(house.adapter().ready(job.act_id, &frozen).await, Ready::Yes);
    let report = done(house.execute(&job, &frozen).await);
    let status = format!("changed; call-back by j.smith at {when}");
    assert_eq!(report.status, status);
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Executed(r) if r.status == status));
    assert_eq!((house.account("marlow"), house.acts()), (NEW.to_owned(), 1));

    // The way back changes an account too.
    let undo = house.undo_of(&job, &frozen, &report);
    let reversal = house.prepare(&undo).await;
    awaited(&house, undo.act_id, &reversal).await;
    house.clock.pass(60);
    let when = "2025-10-02T09:10:45Z";
    house.sql(&format!(
        "INSERT INTO wilco_callbacks VALUES ('marlow', '{NEW}', '{OLD}', 'j.smith', '{when}')"
    ));
    done(house.execute(&undo, &reversal).await);
    assert_eq!(house.account("marlow"), OLD);
}

pub async fn a_call_back_for_something_else_does_not_count(house: House) {
    let house = strict(house);
    house.clock.pass(3_600);
    let record = |sup: &str, prev: &str, acct: &str, by: &str, at: &str| {
        house.sql(&format!(
            "INSERT INTO wilco_callbacks VALUES ('{sup}', '{prev}', '{acct}', '{by}', '{at}')"
        ));
    };
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let now = "2025-10-02 10:00:30";
    record("tate", OLD, NEW, "j.smith", now);
    record("marlow", OTHER, NEW, "j.smith", now);
    record("marlow", OLD, OTHER, "j.smith", now);
    let text = awaited(&house, job.act_id, &frozen).await;
    assert!(text.contains("required and not recorded: ring"), "{text}");
    let mut why = Vec::new();
    for (by, at, words) in [
        ("j.smith", "2025-10-02 09:59:00", "before this was asked for"),
        ("j.smith", "2025-10-02 12:00:00", "has not come"),
        ("j.smith", "this morning", "cannot be read"),
        (" ", now, "not by whom"),
        ("\u{200b}\u{2060}", now, "not by whom"),
    ] {
        house.sql("DELETE FROM wilco_callbacks");
        record("marlow", OLD, NEW, by, at);
        let text = awaited(&house, job.act_id, &frozen).await;
        assert!(text.contains(words), "{text}");
        why.push(text);
        rejected(house.execute(&job, &frozen).await);
    }
    // Nor what has come by our clock and not by the database's.
    house.sql("DELETE FROM wilco_callbacks");
    record("marlow", OLD, NEW, "j.smith", "9000-01-01 00:00:00");
    house.clock.pass(7_000 * 366 * 86_400);
    let text = awaited(&house, job.act_id, &frozen).await;
    assert!(text.contains("has not come"), "{text}");
    // The number on file was changed after the statement: whoever rings is told which one it was.
    house.sql("UPDATE vendor SET phone = '070 0000 0000' WHERE sup = 'marlow'");
    let text = awaited(&house, job.act_id, &frozen).await;
    assert!(text.contains("on 020 7946 0011, the number on file"), "{text}");
    assert!(
        text.contains("was changed after this was stated, to 070 0000 0000"),
        "{text}"
    );
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
}

pub async fn a_call_back_outlives_a_statement_that_ran_out(house: House) {
    let house = strict(house);
    let mut job = change(&house);
    house.prepare(&job).await;
    house.clock.pass(1_200);
    house.sql(&format!(
        "INSERT INTO wilco_callbacks VALUES ('marlow', '{OLD}', '{NEW}', 'j.smith', '2025-10-02 09:20')"
    ));
    house.clock.pass(3_600);
    // The same handoff, stated again: nobody has to be rung twice.
    (job.attempt, job.now) = (2, house.clock.now());
    let frozen = house.prepare(&job).await;
    assert_eq!(house.adapter().ready(job.act_id, &frozen).await, Ready::Yes);
    done(house.execute(&job, &frozen).await);
    // Who rang is told of it later too.
    match house.lookup(&job, &frozen).await {
        Found::Executed(report) => assert!(report.status.contains("j.smith"), "{}", report.status),
        other => panic!("{other:?}"),
    }
    // Another handoff for the same change needs its own.
    house.sql(&format!("UPDATE vendor SET acct = '{OLD}' WHERE sup = 'marlow'"));
    let other = change(&house);
    let frozen = house.prepare(&other).await;
    let text = awaited(&house, other.act_id, &frozen).await;
    assert!(text.contains("before this was asked for"), "{text}");
}

pub async fn a_call_back_withdrawn_stops_the_change(house: House) {
    let house = strict(house);
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    house.sql(&format!(
        "INSERT INTO wilco_callbacks VALUES ('marlow', '{OLD}', '{NEW}', 'j.smith', '2025-10-02T09:00:30Z')"
    ));
    assert_eq!(house.adapter().ready(job.act_id, &frozen).await, Ready::Yes);
    house.sql("DELETE FROM wilco_callbacks");
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(text.contains("call-back"), "{text}");
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));

    // Switched off meanwhile: what was stated with it still needs it.
    let house = house.with(|c| c.callback = "none".to_owned());
    rejected(
        house
            .execute_by(&job, &frozen, Asked::clock(house.clock.clone(), |_| {}))
            .await,
    );
    assert_eq!(house.acts(), 0);
}

/// A handoff, stated, whose id says that it came at the clock's time.
async fn handoff(house: &House, acct: &str) -> (Job, Frozen) {
    let job = change_to(house, "marlow", acct);
    let frozen = house.prepare(&job).await;
    (job, frozen)
}

pub async fn a_call_back_serves_one_change(house: House) {
    let house = strict(house);
    let record = |prev: &str, acct: &str, at: &str| {
        house.sql(&format!(
            "INSERT INTO wilco_callbacks VALUES ('marlow', '{prev}', '{acct}', 'j.smith', '{at}')"
        ));
    };
    let put_back = || house.sql(&format!("UPDATE vendor SET acct = '{OLD}' WHERE sup = 'marlow'"));
    // Three handoffs for the same change in the same minute, one call a little ahead of our clock, one to the minute.
    let (first, first_frozen) = handoff(&house, NEW).await;
    let (second, second_frozen) = handoff(&house, NEW).await;
    let (third, third_frozen) = handoff(&house, NEW).await;
    record(OLD, NEW, "2025-10-02 09:00");
    record(OLD, NEW, "2025-10-02 09:00:50.1239");
    let adapter = house.adapter();
    for (job, frozen) in [
        (&first, &first_frozen),
        (&second, &second_frozen),
        (&third, &third_frozen),
    ] {
        assert_eq!(adapter.ready(job.act_id, frozen).await, Ready::Yes);
    }
    done(house.execute(&first, &first_frozen).await);
    put_back();
    // The first was good for the first; what was recorded by then as coming later is another call.
    done(house.execute(&second, &second_frozen).await);
    let times = house.sql("SELECT at FROM wilco_acts ORDER BY at");
    assert_eq!(times, "2025-10-02T09:00:00.000Z\n2025-10-02T09:00:50.123Z");
    put_back();
    let text = awaited(&house, third.act_id, &third_frozen).await;
    assert!(text.contains("marlow was changed since"), "{text}");
    let text = rejected(house.execute(&third, &third_frozen).await);
    assert!(text.contains("marlow was changed since"), "{text}");
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 2));

    // A change to elsewhere uses it as well: whoever confirmed the one did not know of the other.
    house.clock.pass(600);
    let (elsewhere, elsewhere_frozen) = handoff(&house, OTHER).await;
    record(OLD, NEW, "2025-10-02 09:10:10");
    record(OLD, OTHER, "2025-10-02 09:10:20");
    assert_eq!(adapter.ready(third.act_id, &third_frozen).await, Ready::Yes);
    house.clock.pass(60);
    done(house.execute(&elsewhere, &elsewhere_frozen).await);
    put_back();
    awaited(&house, third.act_id, &third_frozen).await;
    rejected(house.execute(&third, &third_frozen).await);

    // One of its own, and sent again it is what it was.
    record(OLD, NEW, "2025-10-02 09:11:01");
    let report = done(house.execute(&third, &third_frozen).await);
    assert_eq!(
        report.status,
        "changed; call-back by j.smith at 2025-10-02 09:11:01"
    );
    assert_eq!(
        done(house.execute(&third, &third_frozen).await).status,
        "changed before"
    );
    assert_eq!((house.account("marlow"), house.acts()), (NEW.to_owned(), 4));
}

pub async fn a_call_back_used_between_ready_and_commit_does_not_count(house: House) {
    let house = strict(house);
    let (first, first_frozen) = handoff(&house, NEW).await;
    let (second, second_frozen) = handoff(&house, NEW).await;
    house.sql(&format!(
        "INSERT INTO wilco_callbacks VALUES ('marlow', '{OLD}', '{NEW}', 'j.smith', '2025-10-02 09:00:10')"
    ));
    assert_eq!(
        house.adapter().ready(second.act_id, &second_frozen).await,
        Ready::Yes
    );
    done(house.execute(&first, &first_frozen).await);
    house.sql(&format!("UPDATE vendor SET acct = '{OLD}' WHERE sup = 'marlow'"));
    rejected(house.execute(&second, &second_frozen).await);
    // A row whose time says nothing uses up everything.
    house.sql("UPDATE wilco_acts SET at = 'noon'");
    house.sql("UPDATE wilco_callbacks SET at = '2025-10-02 09:00:30'");
    let text = awaited(&house, second.act_id, &second_frozen).await;
    assert!(text.contains("cannot be read (noon)"), "{text}");
    rejected(house.execute(&second, &second_frozen).await);
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 1));
}

pub async fn a_call_back_may_name_the_act_it_is_for(house: House) {
    house.sql("ALTER TABLE wilco_callbacks ADD COLUMN act TEXT");
    let house = strict(house).with(|c| c.callbacks_ref = "act".to_owned());
    let (first, first_frozen) = handoff(&house, NEW).await;
    let (second, second_frozen) = handoff(&house, NEW).await;
    let text = awaited(&house, second.act_id, &second_frozen).await;
    let (_, insert) = text.split_once("record it: ").unwrap_or_else(|| panic!("{text}"));
    let insert = insert
        .replace("<your name>", "j.smith")
        .replace("<when, such as ", "");
    house.sql(&insert.replace(">'", "'"));
    // Nameless ones count for nobody.
    house.sql(&format!(
        "INSERT INTO wilco_callbacks (sup, prev, acct, \"by\", at) VALUES ('marlow', '{OLD}', '{NEW}', 'x', '2025-10-02 09:00:01')"
    ));
    awaited(&house, first.act_id, &first_frozen).await;
    rejected(house.execute(&first, &first_frozen).await);
    assert_eq!(
        house.adapter().ready(second.act_id, &second_frozen).await,
        Ready::Yes
    );
    done(house.execute(&second, &second_frozen).await);
    assert_eq!((house.account("marlow"), house.acts()), (NEW.to_owned(), 1));
}
