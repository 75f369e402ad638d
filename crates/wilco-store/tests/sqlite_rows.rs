//! Rows that no keeper could have written are named by table, column and row, and harm nothing else.

mod support;

use sqlx::Connection;
use support::Folder;
use wilco_core::Written;
use wilco_store::suite::hand::HandClock;
use wilco_store::suite::{fixed, inserted, read, sample};
use wilco_store::{Filter, Keeper, StoreError};

/// A column, and what somebody wrote into it.
const ACTS: [(&str, &str); 33] = [
    ("state", "'done'"),
    ("state", "'flying'"),
    ("state", "''"),
    ("state", "'PREPARED'"),
    ("version", "0"),
    ("version", "-9223372036854775808"),
    ("seq", "-1"),
    ("seq", "0"),
    ("head", "''"),
    ("head", "'ABCDEF'"),
    ("lines", "4294967296"),
    ("lines", "-1"),
    ("long_ids", "2"),
    ("attempt", "-1"),
    ("attempt", "99999999999"),
    ("due_at", "NULL"),
    ("due_at", "7"),
    ("undo_of", "'not an id'"),
    ("profile_digest", "NULL"),
    ("profile_digest", "'another'"),
    ("contract", "NULL"),
    ("contract", "'{}'"),
    ("contract", "replace(contract, '30', '31')"),
    ("tokens", "''"),
    ("tokens", "'[{}]'"),
    ("waiting", "'nonsense'"),
    ("stage", "''"),
    ("stage", "'{\"prepared\": 7}'"),
    ("stage", "'{\"flying\": {}}'"),
    ("stage", "replace(hex(zeroblob(100000)), '0', '[')"),
    ("stage", "substr(stage, 1, 500)"),
    ("thread", "CAST(x'ff' AS TEXT)"),
    ("ho_line", "CAST(x'80ff' AS TEXT)"),
];

const JOURNAL: [(&str, &str); 8] = [
    ("kind", "'rumour'"),
    ("hash", "''"),
    ("hash", "upper(hash)"),
    ("body_sha256", "'x'"),
    ("seq", "-1"),
    ("principal", "CAST(x'ff' AS TEXT)"),
    ("body", "CAST(x'c3' AS TEXT)"),
    ("message_id", "CAST(x'fe' AS TEXT)"),
];

#[tokio::test]
async fn an_act_that_makes_no_sense_is_named() {
    for (column, value) in ACTS {
        let (folder, clock) = (Folder::new(), HandClock::new());
        let keeper = folder.keeper(&clock).await;
        let act = inserted(&keeper, 1).await;
        let sound = inserted(&keeper, 2).await;
        damage(&folder, "acts", column, value, &act.act_id.to_string()).await;

        named(
            keeper.act(act.act_id).await,
            "acts",
            column,
            &act.act_id.to_string(),
        );
        named(
            keeper.acts(&Filter::default()).await,
            "acts",
            column,
            &act.act_id.to_string(),
        );
        assert_eq!(read(&keeper, sound.act_id).await, sound);

        // A write that meets it is told; the one beside it is not disturbed.
        let stale = sample::insert(sample::prepared(1, act.created_at));
        let good = sample::insert(sample::prepared(3, act.created_at));
        let jobs = [stale, good].map(|change| keeper.write(fixed(vec![change])));
        let mut answers = futures::future::join_all(jobs).await;
        assert!(matches!(answers.remove(1), Ok(Written::Advanced { .. })));
        named(answers.remove(0), "acts", column, &act.act_id.to_string());
        keeper.close().await;
    }
}

#[tokio::test]
async fn a_journal_row_that_makes_no_sense_is_named() {
    for (column, value) in JOURNAL {
        let (folder, clock) = (Folder::new(), HandClock::new());
        let keeper = folder.keeper(&clock).await;
        let act = inserted(&keeper, 1).await;
        damage(&folder, "journal", column, value, &act.act_id.to_string()).await;
        let key = if column == "seq" { -1 } else { 1 };
        let row = format!("{}/{key}", act.act_id);
        named(keeper.journal(act.act_id).await, "journal", column, &row);
        assert_eq!(read(&keeper, act.act_id).await, act);
        keeper.close().await;
    }
}

#[tokio::test]
async fn an_id_that_is_none_is_named_in_lists() {
    let (folder, clock) = (Folder::new(), HandClock::new());
    let keeper = folder.keeper(&clock).await;
    let act = inserted(&keeper, 1).await;
    damage(&folder, "acts", "act_id", "'A1'", &act.act_id.to_string()).await;
    named(keeper.acts(&Filter::default()).await, "acts", "act_id", "A1");
    damage(&folder, "journal", "act_id", "'A1'", &act.act_id.to_string()).await;
    named(
        keeper.thread(sample::THREAD, None, 10).await,
        "journal",
        "act_id",
        "A1/1",
    );
    keeper.close().await;
}

fn named<T: std::fmt::Debug>(answer: Result<T, StoreError>, table: &str, column: &str, row: &str) {
    match answer {
        Err(StoreError::Row {
            table: t,
            column: c,
            row: r,
            problem,
        }) => {
            // Where two columns contradict each other, either may be the one that is named.
            let contradiction = (table, column) == ("acts", "seq") && c == "head";
            assert!(
                t == table && (c == column || contradiction) && r == row && !problem.is_empty(),
                "{table}.{column} of {row}, not {t}.{c} of {r}: {problem}"
            );
        }
        other => panic!("{table}.{column} of {row} should be named: {other:?}"),
    }
}

async fn damage(folder: &Folder, table: &str, column: &str, value: &str, act_id: &str) {
    let mut raw = folder.raw().await;
    let first = if table == "journal" { "AND seq = 1" } else { "" };
    for statement in [
        "PRAGMA foreign_keys = 0".to_owned(),
        "PRAGMA ignore_check_constraints = 1".to_owned(),
        "DROP TRIGGER journal_rows_stand".to_owned(),
        format!("UPDATE {table} SET {column} = {value} WHERE act_id = '{act_id}' {first}"),
    ] {
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(&mut raw)
            .await;
        match done {
            Ok(_) => {}
            Err(e) if e.to_string().contains("no such trigger") => {}
            Err(e) => panic!("the damage could not be done: {e}"),
        }
    }
    raw.close().await.expect("closed");
}
