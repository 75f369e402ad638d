//! Every question walks an index: no plan scans a table, sorts a list that can be long, or builds an index of its own.

use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

use super::{open, sql};

async fn plan(statement: &str) -> Vec<String> {
    let mut db = SqliteConnection::connect("sqlite::memory:")
        .await
        .expect("a database");
    for (_, _, text) in open::MIGRATIONS {
        sqlx::raw_sql(text).execute(&mut db).await.expect("the tables");
    }
    let mut steps = Vec::new();
    for one in statement.split(";\n").filter(|s| s.trim() != "COMMIT") {
        let asked = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {one}"));
        let rows = sqlx::query(asked).fetch_all(&mut db).await.expect("a plan");
        steps.extend(rows.iter().map(|r| r.get::<String, _>("detail")));
    }
    steps
}

#[tokio::test]
async fn no_question_scans_a_table() {
    let ours = [sql::WRITE, sql::LET_GO, sql::ERASE, sql::STAND];
    // A list of everything and the counts are meant to walk all there is.
    let meant = ["LIST", "COUNTS"];
    let shared = sql::SHARED.iter().filter(|(name, _)| !meant.contains(name));
    let questions = shared.map(|(_, text)| *text).chain(ours);
    for question in questions {
        let steps = plan(question).await;
        for step in &steps {
            let table = ["acts", "journal"]
                .iter()
                .any(|t| step.starts_with(&format!("SCAN {t}")));
            assert!(!table && !step.contains("AUTOMATIC"), "{question}\n{steps:#?}");
        }
    }
}

#[tokio::test]
async fn lists_are_read_in_the_order_of_their_index() {
    let lists = [
        (sql::LIST, "sqlite_autoindex_acts_1"),
        (sql::LIST_OF_THREAD, "acts_by_thread"),
        (sql::LIST_OF_STATE, "acts_by_state"),
        (sql::LIST_OF_SENDER, "acts_by_sender"),
        (sql::DUE, "acts_by_due"),
        (sql::DUE_IN_THREAD, "acts_by_due"),
        (sql::THREAD, "journal_by_thread"),
        (sql::OLD, "acts_by_age"),
        (sql::COUNTS, "COVERING INDEX acts_by_state"),
    ];
    for (list, index) in lists {
        let steps = plan(list).await;
        assert!(steps.iter().any(|s| s.contains(index)), "{list}\n{steps:#?}");
        // Only what is due in a thread is put in order afterwards, and that is short.
        let sorts = steps.iter().any(|s| s.contains("TEMP B-TREE FOR ORDER BY"));
        assert!(!sorts || list == sql::DUE_IN_THREAD, "{list}\n{steps:#?}");
    }
}
