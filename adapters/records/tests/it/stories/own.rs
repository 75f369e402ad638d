//! Statements of the operator's own: used as they are, and looked at before anything depends on them.

use adapter_records::RecordsAdapter;
use wilco_adapter::{Adapter, Ready};

use crate::house::{House, NEW, OLD, change, done, rejected, value};

/// Accounts in a table beside the suppliers, as a customer may have them.
fn split(house: House) -> House {
    house.sql("CREATE TABLE party (id INTEGER PRIMARY KEY, short TEXT NOT NULL, tel TEXT)");
    house.sql("CREATE TABLE account (party INTEGER NOT NULL, iban TEXT NOT NULL)");
    house.sql("CREATE TABLE rung (party INTEGER, was TEXT, becomes TEXT, who TEXT, day TEXT)");
    house.sql("INSERT INTO party VALUES (7, 'marlow', '020 7946 0011'), (8, 'tate', NULL)");
    house.sql(&format!("INSERT INTO account VALUES (7, '{OLD}'), (8, '{OLD}')"));
    let update = "UPDATE account SET iban = :acct WHERE iban = :prev AND party = (SELECT id FROM party WHERE short = :sup)";
    let change = match house.is_sqlite() {
        true => update.to_owned(),
        false => format!(
            "WITH c AS ({update} RETURNING iban) INSERT INTO wilco_acts (ref, ask, sup, prev, acct, at) \
             SELECT :ref, :ask, :sup, :prev, c.iban, :at FROM c"
        ),
    };
    house.with(|c| {
        for other in [&mut c.columns.name, &mut c.columns.eff, &mut c.columns.apref] {
            other.clear();
        }
        c.callback = "required".to_owned();
        c.sql.read = Some(
            "SELECT p.short AS sup, a.iban AS acct, p.tel AS phone -- :not a place; nor an end\n\
             FROM party p JOIN account a ON a.party = p.id WHERE p.short = :sup;"
                .to_owned(),
        );
        c.sql.change = Some(change);
        c.sql.callback = Some(
            "SELECT who AS \"by\", day AS at FROM rung JOIN party ON party.id = rung.party \
             WHERE short = :sup AND was = :prev AND becomes = :acct"
                .to_owned(),
        );
    })
}

pub async fn statements_of_ones_own(house: House) {
    let house = split(house);
    assert_eq!(house.adapter().health().await, Ok(()));
    let mut job = change(&house);
    job.slots.retain(|(k, _)| k != "eff");
    let frozen = house.prepare(&job).await;
    match house.adapter().ready(job.act_id, &frozen).await {
        Ready::Awaiting { text, .. } => assert!(text.contains("where sql.callback looks for it"), "{text}"),
        other => panic!("{other:?}"),
    }
    house.sql(&format!(
        "INSERT INTO rung VALUES (7, '{OLD}', '{NEW}', 'a.wong', '2025-10-02 09:01')"
    ));
    assert_eq!(house.adapter().ready(job.act_id, &frozen).await, Ready::Yes);
    let report = done(house.execute(&job, &frozen).await);
    assert_eq!(
        (value(&report, "acct"), value(&report, "prev")),
        (Some(NEW), Some(OLD))
    );
    assert_eq!(report.status, "changed; call-back by a.wong at 2025-10-02 09:01");
    assert_eq!(
        house.sql("SELECT party, iban FROM account ORDER BY party"),
        format!("7|{NEW}\n8|{OLD}")
    );
    house.sql(&format!("UPDATE account SET iban = '{OLD}' WHERE party = 7"));
    assert_eq!(done(house.execute(&job, &frozen).await).status, "changed before");
    assert_eq!(house.sql("SELECT iban FROM account WHERE party = 7"), OLD);
}

/// Makes one statement a bad one.
type Spoil = Box<dyn Fn(&mut adapter_records::OwnSql)>;

pub async fn statements_that_cannot_work_are_named(house: House) {
    let house = split(house);
    let good = house.config.clone();
    // What needs no database is said at the start.
    let refused = |field: &str, words: &str, change: &dyn Fn(&mut adapter_records::OwnSql)| {
        let mut config = good.clone();
        change(&mut config.sql);
        let error = RecordsAdapter::new(&config, house.clock.clone()).err();
        let text = error.unwrap_or_else(|| panic!("accepted: {words}")).to_string();
        assert!(text.contains(field) && text.contains(words), "{text}");
    };
    let some = |text: &str| Some(text.to_owned());
    refused("sql.read", ":supplier", &|s| {
        s.read = some("SELECT 1 AS sup WHERE 1 = :supplier")
    });
    refused("sql.read", "must use :sup", &|s| s.read = some("SELECT 1"));
    refused("sql.read", "may not use :acct", &|s| {
        s.read = some("SELECT :sup, :acct")
    });
    refused("sql.read", "begin with SELECT", &|s| {
        s.read = some("DELETE FROM party WHERE short = :sup")
    });
    refused("sql.change", "one statement", &|s| {
        s.change = s.change.clone().map(|c| format!("{c}; DROP TABLE party"))
    });
    refused("sql.change", "must use :prev", &|s| {
        s.change = s.change.clone().map(|c| c.replace(":prev", "''"))
    });
    if !house.is_sqlite() {
        refused("sql.change", "must use :at where a call-back is required", &|s| {
            s.change = s.change.clone().map(|c| c.replace(":at", "'now'"))
        });
    }
    refused("sql.callback", "must use :acct", &|s| {
        s.callback = s.callback.clone().map(|c| c.replace(":acct", "''"));
    });

    // What the database has to be asked for makes the adapter unwell, with the reason.
    let mut cases: Vec<(&str, Spoil)> = vec![
        (
            "nowhere",
            Box::new(|s| s.read = s.read.clone().map(|r| r.replace("FROM party", "FROM nowhere"))),
        ),
        (
            "yields no column phone",
            Box::new(|s| s.read = s.read.clone().map(|r| r.replace("AS phone", "AS fax"))),
        ),
        (
            "yields no column by",
            Box::new(|s| s.callback = s.callback.clone().map(|c| c.replace("AS \"by\"", "AS who"))),
        ),
        (
            "sql.change cannot be used",
            Box::new(|s| s.change = s.change.clone().map(|c| c.replace("SET iban", "SET bic"))),
        ),
    ];
    if house.is_sqlite() {
        cases.push((
            "must not yield rows",
            Box::new(|s| s.change = s.change.clone().map(|c| format!("{c} RETURNING 1"))),
        ));
    } else {
        cases.push((
            "not text: CAST it",
            Box::new(|s| {
                s.read = s.read.clone().map(|r| r.replace("p.short AS sup", "p.id AS sup"));
            }),
        ));
    }
    let mut house = house;
    for (words, spoil) in cases {
        let mut config = good.clone();
        spoil(&mut config.sql);
        house = house.with(|c| *c = config);
        let text = house.adapter().health().await.err();
        let text = text.unwrap_or_else(|| panic!("well: {words}"));
        assert!(text.contains(words), "{words}: {text}");
    }

    // In Postgres a change that does not write our reference is noticed when it is tried, and rolled back.
    if !house.is_sqlite() {
        let forgetful = "WITH c AS (UPDATE account SET iban = :acct WHERE iban = :prev AND party = 7 RETURNING iban) \
                         SELECT iban FROM c WHERE :ref <> :sup";
        let house = house.with(|c| {
            *c = good.clone();
            c.callback = "none".to_owned();
            c.sql.change = some(forgetful);
        });
        let mut job = change(&house);
        job.slots.retain(|(k, _)| k != "eff");
        let frozen = house.prepare(&job).await;
        let text = rejected(house.execute(&job, &frozen).await);
        assert!(text.contains("left no row with our reference"), "{text}");
        assert_eq!(house.sql("SELECT iban FROM account WHERE party = 7"), OLD);
    }
}
