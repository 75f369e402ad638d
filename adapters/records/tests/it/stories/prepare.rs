//! What is stated comes from the table, and what cannot be done is refused by the slot's name.

use wilco_adapter::{Adapter, Ready};
use wilco_core::frozen::Source;

use crate::house::{House, NEW, OLD, OTHER, at, but, change, change_to, done, value};

pub async fn what_is_stated_is_what_the_table_says(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let stated: Vec<(&str, &str, Source)> = frozen
        .values
        .iter()
        .map(|v| (v.slot.as_str(), v.value.as_str(), v.source))
        .collect();
    assert_eq!(
        stated,
        [
            ("sup", "marlow", Source::Resolved),
            ("acct", NEW, Source::Handoff),
            ("eff", "20251005", Source::Handoff),
            ("apref", "FD-0930", Source::Handoff),
            ("prev", OLD, Source::Resolved),
        ]
    );
    let evidence = &frozen.values[4].evidence;
    assert!(
        evidence.contains("vendor table vendor, row marlow, column acct"),
        "{evidence}"
    );
    // From the fifth on, and so not after the fifth.
    let resolved = house
        .adapter()
        .resolve(&job)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(resolved.cut_off, Some(at("20251006T0000Z")));
    assert_eq!(
        resolved.notes,
        [
            "supplier: Marlow Supplies Ltd",
            "the account is replaced at once; eff=20251005 is noted in the row, nothing waits for that day"
        ]
    );
    assert_eq!(resolved.extra, []);

    // Nobody named a day: today, in the table's own zone.
    let today = house
        .adapter()
        .resolve(&but(change(&house), "eff", "20251002"))
        .await;
    let today = today.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(today.notes, ["supplier: Marlow Supplies Ltd"]);
    let late = house.with(|c| c.time_zone = "+14:00".to_owned());
    late.clock.pass(3_600);
    let resolved = late.adapter().resolve(&but(change(&late), "eff", "")).await;
    let resolved = resolved.unwrap_or_else(|e| panic!("{e}"));
    let eff = resolved
        .values
        .iter()
        .find(|v| v.slot == "eff")
        .map(|v| v.value.as_str());
    assert_eq!(
        (eff, resolved.cut_off),
        (Some("20251003"), Some(at("20251003T1000Z")))
    );
    assert_eq!(resolved.notes, ["supplier: Marlow Supplies Ltd"]);
    assert_eq!((late.account("marlow"), late.acts()), (OLD.to_owned(), 0));
}

pub async fn what_cannot_be_done_is_refused_by_name(house: House) {
    let cases = [
        (but(change(&house), "sup", ""), "NOCTX", "slot sup is missing"),
        (
            but(change(&house), "sup", "nobody"),
            "NOCTX",
            "slot sup: the vendor table vendor has no row for nobody",
        ),
        (but(change(&house), "acct", ""), "NOCTX", "slot acct is missing"),
        (
            but(change(&house), "acct", "61102938"),
            "SCOPE",
            "slot acct: 61102938 must be a sort code",
        ),
        (
            but(change(&house), "acct", OLD),
            "CONFLICT",
            "slot acct: 40-12-88/61102911 is what is on file",
        ),
        (but(change(&house), "apref", ""), "NOCTX", "slot apref is missing"),
        (
            but(change(&house), "eff", "20251001"),
            "SCOPE",
            "slot eff: 20251001 is over",
        ),
        (
            but(change(&house), "eff", "20250231"),
            "SCOPE",
            "slot eff: 20250231 is no date",
        ),
        (
            but(change(&house), "prev", OTHER),
            "CONFLICT",
            "slot prev: 20-00-00/55779911 is not on file",
        ),
    ];
    for (job, why, words) in cases {
        let (code, text) = house.refusal(&job).await;
        assert!(code == why && text.contains(words), "{code}: {text}");
    }
    // What the handoff says of prev is held against the table, and may well be right.
    house.prepare(&but(change(&house), "prev", OLD)).await;

    let mut pay = change(&house);
    pay.ask = "PAY".to_owned();
    assert_eq!(house.refusal(&pay).await.0, "NOCAP");
    let mut undo = change(&house);
    undo.ask = "UNDO".to_owned();
    assert_eq!(house.refusal(&undo).await.0, "NOCAP");
    let mut odd = change(&house);
    odd.exec.push("amt".to_owned());
    let (why, text) = house.refusal(&odd).await;
    assert!(why == "NOCTX" && text.contains("slot amt"), "{text}");

    house.sql("UPDATE vendor SET acct = 'see file' WHERE sup = 'tate'");
    let (why, text) = house.refusal(&change_to(&house, "tate", NEW)).await;
    assert!(
        why == "NOCTX" && text.contains("slot prev: the account on file for tate"),
        "{text}"
    );
    house.sql("UPDATE vendor SET acct = '' WHERE sup = 'tate'");
    let (why, text) = house.refusal(&change_to(&house, "tate", NEW)).await;
    assert!(
        why == "NOCTX" && text.contains("has no account on file"),
        "{text}"
    );
    assert_eq!(house.acts(), 0);
}

pub async fn values_are_never_statements(house: House) {
    let house = house.with(|c| c.account = "any".to_owned());
    for hostile in [
        "';DROP/**/TABLE/**/vendor;--",
        "marlow'/**/OR/**/'1'='1",
        "%",
        "$1",
        ":sup",
        "\\",
    ] {
        let (why, text) = house.refusal(&but(change(&house), "sup", hostile)).await;
        assert!(why == "NOCTX" && text.contains("no row"), "{text}");
    }
    let bad = "');DELETE/**/FROM/**/vendor;--";
    let job = but(but(change(&house), "acct", bad), "apref", "x',acct='evil");
    let frozen = house.prepare(&job).await;
    let report = done(house.execute(&job, &frozen).await);
    // It is a text like any other, in the one row it was meant for.
    assert_eq!(value(&report, "acct"), Some(bad));
    assert_eq!(house.account("marlow"), bad);
    assert_eq!(house.account("tate"), OTHER);
    assert_eq!(
        house.sql("SELECT apref FROM vendor WHERE sup = 'marlow'"),
        "x',acct='evil"
    );

    // A supplier with a name made to break out of the row that people are shown.
    house.sql("INSERT INTO vendor (sup, name, acct) VALUES ('o''hara', 'x''); DROP TABLE vendor; --', '1')");
    let house = house.with(|c| c.callback = "required".to_owned());
    let job = but(change(&house), "sup", "o'hara");
    let frozen = house.prepare(&job).await;
    match house.adapter().ready(job.act_id, &frozen).await {
        Ready::Awaiting { text, .. } => assert!(text.contains("VALUES ('o''hara', '1',"), "{text}"),
        other => panic!("{other:?}"),
    }
}

pub async fn a_day_is_kept_as_a_date(house: House) {
    let kind = if house.is_sqlite() { "TEXT" } else { "date" };
    house.sql(&format!(
        "CREATE TABLE \"Order\" (sup TEXT PRIMARY KEY, iban VARCHAR(40) NOT NULL, \"from\" {kind})"
    ));
    house.sql(&format!(
        "INSERT INTO \"Order\" VALUES ('marlow', '{OLD}', '2025-01-01')"
    ));
    let house = house.with(|c| {
        c.table = "Order".to_owned();
        c.columns.acct = "iban".to_owned();
        c.columns.eff = "from".to_owned();
        c.eff_as = "date".to_owned();
        for other in [&mut c.columns.name, &mut c.columns.phone, &mut c.columns.apref] {
            other.clear();
        }
    });
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    assert_eq!(frozen.carried, ["apref"]);
    let report = done(house.execute(&job, &frozen).await);
    assert_eq!(
        (value(&report, "eff"), value(&report, "apref")),
        (Some("20251005"), None)
    );
    assert_eq!(
        house.sql("SELECT iban, \"from\" FROM \"Order\""),
        format!("{NEW}|2025-10-05")
    );
}

pub async fn what_the_table_does_not_know_is_carried(house: House) {
    let house = house.with(|c| {
        c.columns.eff.clear();
        c.columns.apref.clear();
    });
    let (why, text) = house.refusal(&change(&house)).await;
    assert!(
        why == "SCOPE" && text.contains("slot eff") && text.contains("no column"),
        "{text}"
    );
    let job = but(change(&house), "eff", "20251002");
    let frozen = house.prepare(&job).await;
    assert_eq!(frozen.carried, ["eff", "apref"]);
    let report = done(house.execute(&job, &frozen).await);
    let slots: Vec<&str> = report.values.iter().map(|(k, _)| k.as_str()).collect();
    assert_eq!(slots, ["sup", "acct", "prev"]);
    // The columns exist; they were not ours to write.
    assert_eq!(
        house.sql("SELECT acct, eff, apref FROM vendor WHERE sup = 'marlow'"),
        format!("{NEW}|20250101|FD-0001")
    );
}
