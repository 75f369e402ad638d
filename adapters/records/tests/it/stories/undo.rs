//! A change is taken back by an act of its own.

use wilco_adapter::{Adapter, Found};

use crate::house::{House, NEW, OLD, but, change, done, rejected, value};

pub async fn a_change_is_reversed_by_an_act_of_its_own(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let report = done(house.execute(&job, &frozen).await);

    let undo = house.undo_of(&job, &frozen, &report);
    let reversal = house.prepare(&undo).await;
    let stated: Vec<Option<&str>> = ["sup", "acct", "prev", "eff", "apref"]
        .map(|s| reversal.value(s))
        .to_vec();
    assert_eq!(
        stated,
        [
            Some("marlow"),
            Some(OLD),
            Some(NEW),
            Some("20251002"),
            Some("FD-0931")
        ]
    );
    assert_eq!(house.account("marlow"), NEW);
    let reversed = done(house.execute(&undo, &reversal).await);
    assert_eq!(
        (value(&reversed, "acct"), value(&reversed, "prev")),
        (Some(OLD), Some(NEW))
    );
    assert_eq!(reversed.receipt, Some(undo.act_id.to_string()));
    assert_eq!(
        house.sql("SELECT ask, prev, acct, apref FROM wilco_acts ORDER BY ask"),
        format!("CHGBANK|{OLD}|{NEW}|FD-0930\nUNDO|{NEW}|{OLD}|FD-0931")
    );
    // Each by its own reference, and neither a second time.
    assert_eq!(done(house.execute(&job, &frozen).await).status, "changed before");
    assert_eq!(
        done(house.execute(&undo, &reversal).await).status,
        "changed before"
    );
    assert!(
        matches!(house.lookup(&undo, &reversal).await, Found::Executed(r) if r.values == reversed.values)
    );
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 2));

    // Under the first act's approval, where nobody named another.
    let again = but(house.undo_of(&job, &frozen, &report), "apref", "");
    let (why, _) = house.refusal(&again).await;
    assert_eq!(why, "CONFLICT", "it stands as it was before");
    house.sql(&format!("UPDATE vendor SET acct = '{NEW}' WHERE sup = 'marlow'"));
    assert_eq!(house.prepare(&again).await.value("apref"), Some("FD-0930"));

    let served = house.adapter().describe().serves;
    let asks: Vec<&str> = served.iter().map(|s| s.ask.as_str()).collect();
    assert_eq!(asks, ["CHGBANK", "UNDO"]);
}

pub async fn what_moved_on_is_not_reversed(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let report = done(house.execute(&job, &frozen).await);
    let undo = house.undo_of(&job, &frozen, &report);
    let reversal = house.prepare(&undo).await;
    house.sql("UPDATE vendor SET acct = '10-10-10/10101010' WHERE sup = 'marlow'");
    // Too late for the statement that was made, and for another one.
    rejected(house.execute(&undo, &reversal).await);
    let (why, text) = house.refusal(&house.undo_of(&job, &frozen, &report)).await;
    assert!(why == "CONFLICT" && text.contains("moved on since"), "{text}");

    let (why, text) = house
        .refusal(&but(house.undo_of(&job, &frozen, &report), "acct", NEW))
        .await;
    assert!(why == "CONFLICT" && text.contains("slot acct"), "{text}");
    let (why, text) = house
        .refusal(&but(house.undo_of(&job, &frozen, &report), "sup", "tate"))
        .await;
    assert!(why == "CONFLICT" && text.contains("slot sup"), "{text}");
    let mut of_payment = house.undo_of(&job, &frozen, &report);
    if let Some(undone) = &mut of_payment.undo {
        undone.ask = "PAY".to_owned();
    }
    assert_eq!(house.refusal(&of_payment).await.0, "NOCAP");
    assert_eq!(
        (house.account("marlow"), house.acts()),
        ("10-10-10/10101010".to_owned(), 1)
    );
}
