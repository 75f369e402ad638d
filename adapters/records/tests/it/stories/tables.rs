//! Tables that are not as they must be: it is said, nothing is changed, and nothing is concluded.

use wilco_adapter::{Adapter, Found, Ready, ResolveError};

use crate::house::{House, NEW, OLD, change, not_sent, rejected};

async fn unwell(house: &House) -> String {
    match house.adapter().health().await {
        Err(text) => text,
        Ok(()) => panic!("it says that it is well"),
    }
}

pub async fn a_missing_table_is_said_and_stops_only_this_adapter(house: House) {
    assert_eq!(house.adapter().health().await, Ok(()));
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    house.sql("ALTER TABLE wilco_acts RENAME TO put_away");
    let text = unwell(&house).await;
    assert!(
        text.contains("wilco_acts") && text.contains("CREATE TABLE IF NOT EXISTS wilco_acts"),
        "{text}"
    );
    // The words can be used as they are.
    let create = text.split_once("create it: ").map(|(_, sql)| sql);
    assert!(create.is_some_and(|sql| sql.ends_with(')')), "{text}");
    house.sql(create.unwrap_or_else(|| panic!("{text}")));
    assert_eq!(house.adapter().health().await, Ok(()));
    house.sql("DROP TABLE wilco_acts");
    assert!(matches!(
        house.adapter().ready(job.act_id, &frozen).await,
        Ready::Unknown(_)
    ));
    not_sent(house.execute(&job, &frozen).await);
    // No table is not an absent row.
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Unknown(_)));
    house.sql("ALTER TABLE put_away RENAME TO wilco_acts");

    house.sql("ALTER TABLE vendor RENAME TO put_away");
    let text = unwell(&house).await;
    assert!(
        text.contains("sql.read cannot be used") && text.contains("vendor"),
        "{text}"
    );
    match house.adapter().resolve(&job).await {
        Err(ResolveError::Passing(text)) => assert!(text.contains("vendor"), "{text}"),
        other => panic!("{other:?}"),
    }
    not_sent(house.execute(&job, &frozen).await);
    house.sql("ALTER TABLE put_away RENAME TO vendor");

    house.sql("ALTER TABLE vendor RENAME COLUMN phone TO telephone");
    let text = unwell(&house).await;
    assert!(text.contains("phone"), "{text}");
    house.sql("ALTER TABLE vendor RENAME COLUMN telephone TO phone");
    assert_eq!(house.adapter().health().await, Ok(()));
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
}

pub async fn without_its_key_the_acts_table_is_not_used(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    house.sql("CREATE TABLE copy AS SELECT * FROM wilco_acts");
    house.sql("DROP TABLE wilco_acts");
    house.sql("ALTER TABLE copy RENAME TO wilco_acts");
    for index in [
        "CREATE INDEX i ON wilco_acts (ref)",
        "CREATE UNIQUE INDEX i ON wilco_acts (ref, sup)",
        "CREATE UNIQUE INDEX i ON wilco_acts (sup)",
        "CREATE UNIQUE INDEX i ON wilco_acts (ref) WHERE ask = 'UNDO'",
    ] {
        house.sql(index);
        let text = unwell(&house).await;
        assert!(
            text.contains("no primary key or unique index on ref alone"),
            "{index}: {text}"
        );
        not_sent(house.execute(&job, &frozen).await);
        house.sql("DROP INDEX i");
    }
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    house.sql("CREATE UNIQUE INDEX i ON wilco_acts (ref)");
    assert_eq!(house.adapter().health().await, Ok(()));
}

pub async fn a_row_that_comes_out_otherwise_is_rolled_back(house: House) {
    // Somebody's trigger, which puts another account in place of the one it is given.
    if house.is_sqlite() {
        house.sql(
            "CREATE TRIGGER t AFTER UPDATE OF acct ON vendor WHEN new.acct <> '99-99-99/99999999' \
             BEGIN UPDATE vendor SET acct = '99-99-99/99999999' WHERE sup = new.sup; END",
        );
    } else {
        house.sql(
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN NEW.acct := '99-99-99/99999999'; RETURN NEW; END $$",
        );
        house.sql("CREATE TRIGGER t BEFORE UPDATE ON vendor FOR EACH ROW EXECUTE FUNCTION f()");
    }
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(
        text.contains("would show acct as 99-99-99/99999999") && text.contains("nothing was changed"),
        "{text}"
    );
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));

    // And one that refuses in words of its own.
    house.sql(if house.is_sqlite() {
        "DROP TRIGGER t"
    } else {
        "DROP TRIGGER t ON vendor"
    });
    if house.is_sqlite() {
        house.sql("CREATE TRIGGER t BEFORE UPDATE ON vendor BEGIN SELECT raise(ABORT, 'month end'); END");
    } else {
        house.sql(
            "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'month end'; END $$",
        );
        house.sql("CREATE TRIGGER t BEFORE UPDATE ON vendor FOR EACH ROW EXECUTE FUNCTION g()");
    }
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(text.contains("month end"), "{text}");
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));

    // And one that swallows the change without a word: the row has not moved, and is not said to have.
    if house.is_sqlite() {
        house.sql("DROP TRIGGER t");
        house.sql("CREATE TRIGGER t BEFORE UPDATE ON vendor BEGIN SELECT raise(IGNORE); END");
    } else {
        house.sql(
            "CREATE OR REPLACE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        );
    }
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(
        text.contains("did not make the change, though the row of marlow stands as stated"),
        "{text}"
    );
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
}

pub async fn a_rule_of_the_table_is_its_own_refusal(house: House) {
    house.sql("CREATE UNIQUE INDEX one_account ON vendor (acct)");
    let job = crate::house::change_to(&house, "marlow", crate::house::OTHER);
    let frozen = house.prepare(&job).await;
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(text.to_lowercase().contains("unique"), "{text}");
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    if house.is_sqlite() {
        return;
    }
    // One that is only looked at when COMMIT comes.
    house.sql(
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'too late'; END $$",
    );
    house.sql(
        "CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON vendor DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION late()",
    );
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(text.contains("too late"), "{text}");
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));

    // And one that puts another account there at the end, when it would have been read back already.
    house.sql("DROP TRIGGER late ON vendor");
    house.sql(
        "CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         UPDATE vendor SET acct = '99-99-99/99999999' WHERE sup = NEW.sup; RETURN NULL; END $$",
    );
    house.sql(
        "CREATE CONSTRAINT TRIGGER later AFTER UPDATE ON vendor DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW WHEN (NEW.acct <> '99-99-99/99999999') EXECUTE FUNCTION later()",
    );
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(text.contains("would show acct as 99-99-99/99999999"), "{text}");
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));
}

pub async fn one_supplier_has_one_row(house: House) {
    house.sql("CREATE TABLE copy AS SELECT * FROM vendor");
    house.sql("DROP TABLE vendor");
    house.sql("ALTER TABLE copy RENAME TO vendor");
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    house.sql(&format!(
        "INSERT INTO vendor (sup, acct) VALUES ('marlow', '{OLD}')"
    ));
    let (why, text) = house.refusal(&change(&house)).await;
    assert!(why == "CONFLICT" && text.contains("more than one row"), "{text}");
    assert!(matches!(
        house.adapter().ready(job.act_id, &frozen).await,
        Ready::Refused { .. }
    ));
    rejected(house.execute(&job, &frozen).await);
    assert_eq!(
        (house.account("marlow"), house.acts()),
        (format!("{OLD}\n{OLD}"), 0)
    );
}

pub async fn another_database_and_other_statements_are_noticed(house: House) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let mut foreign = frozen.clone();
    let mut body: String = foreign.request.body.clone();
    let at = body.find("\"database\":\"").unwrap_or_else(|| panic!("{body}"));
    body.insert_str(at + 12, "not-");
    foreign.request.body = body;
    let text = not_sent(house.execute(&job, &foreign).await);
    assert!(text.contains("stated from the database not-"), "{text}");
    assert!(matches!(
        house.adapter().ready(job.act_id, &foreign).await,
        Ready::Unknown(_)
    ));
    // Absent here says nothing about there.
    assert!(matches!(house.lookup(&job, &foreign).await, Found::Unknown(_)));

    let mut forged = frozen.clone();
    forged.request.body = forged.request.body.replace(NEW, "66-66-66/66666666");
    let text = not_sent(house.execute(&job, &forged).await);
    assert!(text.contains("not what was stated: slot acct"), "{text}");

    house.sql("ALTER TABLE vendor RENAME COLUMN apref TO approval");
    let house = house.with(|c| c.columns.apref = "approval".to_owned());
    let text = not_sent(house.execute(&job, &frozen).await);
    assert!(text.contains("statements in the configuration"), "{text}");
    assert!(matches!(
        house.adapter().ready(job.act_id, &frozen).await,
        Ready::Refused { .. }
    ));
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
}
