//! Where a call-back is required, nothing changes before somebody rang, and said so in the customer's own table.

use wilco_adapter::{Adapter, Found, Ready};
use wilco_core::{ActId, Frozen};

use crate::house::{Asked, House, NEW, OLD, OTHER, change, done, rejected};

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
    let when = "2026-10-02T09:10:00.000Z";
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
    let now = "2026-10-02 10:00:30";
    record("tate", OLD, NEW, "j.smith", now);
    record("marlow", OTHER, NEW, "j.smith", now);
    record("marlow", OLD, OTHER, "j.smith", now);
    let text = awaited(&house, job.act_id, &frozen).await;
    assert!(text.contains("required and not recorded: ring"), "{text}");
    let mut why = Vec::new();
    for (by, at, words) in [
        ("j.smith", "2026-10-02 09:59:00", "before this was stated"),
        ("j.smith", "2026-10-02 12:00:00", "has not come"),
        ("j.smith", "this morning", "cannot be read"),
        (" ", now, "not by whom"),
    ] {
        house.sql("DELETE FROM wilco_callbacks");
        record("marlow", OLD, NEW, by, at);
        let text = awaited(&house, job.act_id, &frozen).await;
        assert!(text.contains(words), "{text}");
        why.push(text);
        rejected(house.execute(&job, &frozen).await);
    }
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

pub async fn a_call_back_withdrawn_stops_the_change(house: House) {
    let house = strict(house);
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    house.sql(&format!(
        "INSERT INTO wilco_callbacks VALUES ('marlow', '{OLD}', '{NEW}', 'j.smith', '2026-10-02T09:00:30Z')"
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
