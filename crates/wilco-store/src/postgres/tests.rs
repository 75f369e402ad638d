//! Every statement is understood by a real server and walks an index; the tables are those of the other database.

#[path = "../../tests/support/database.rs"]
mod database;

use std::collections::{BTreeMap, BTreeSet};

use sqlx::postgres::{PgConnection, PgTypeInfo};
use sqlx::{AssertSqlSafe, Connection, Executor, Row, SqlSafeStr, SqliteConnection};

use self::database::Database;
use super::conns::Conns;
use super::{PostgresOptions, open, sql};

/// What each parameter is, a letter for each: a text, a number, yes or no, and in capitals an array.
fn letters(name: &str) -> &'static str {
    match name {
        "WRITE" => "TNTTTNTTTTTTTTNNNNNTNNTTTTTTTTTNTTTTTTTnbTtb",
        "WRITE_NEW" | "WRITE_CHANGED" => "tntttnttttttttnnnnntnnttttttttTNTTTTTTTnbTtb",
        "IN_THE_WAY" => "ttt",
        "ACT_BY_HANDOFF" | "ACT_BY_MESSAGE" => "tt",
        "LIST" | "LIST_OF_THREAD" | "LIST_OF_STATE" | "LIST_OF_SENDER" => "tnttttt",
        "DUE" | "END_OTHER" => "nn",
        "DUE_IN_THREAD" => "nt",
        "OLD" => "nntn",
        "THREAD" => "tntnn",
        "TICK" => "n",
        "ROW_STANDS" => "tnt",
        "LOCK" | "LET_GO" => "T",
        "MIGRATION_DONE" => "nttn",
        "CLAIMED"
        | "COUNTS"
        | "HIGHEST"
        | "NOW"
        | "CHECK"
        | "PIN"
        | "MIGRATIONS_ARE_NOTED"
        | "LOCK_MIGRATIONS"
        | "MIGRATED" => "",
        _ => "t",
    }
}

fn types(name: &str) -> Vec<PgTypeInfo> {
    let kind = |letter| match letter {
        'T' => PgTypeInfo::with_name("text[]"),
        'N' => PgTypeInfo::with_name("int8[]"),
        't' => PgTypeInfo::with_name("text"),
        'n' => PgTypeInfo::with_name("int8"),
        _ => PgTypeInfo::with_name("bool"),
    };
    letters(name).chars().map(kind).collect()
}

async fn migrated(database: &Database) -> PgConnection {
    let mut db = database.raw().await;
    open::migrate(&mut db, open::NEWEST).await.expect("the tables");
    db
}

#[tokio::test]
async fn every_statement_is_understood() {
    let database = Database::new();
    let mut db = migrated(&database).await;
    for (name, text) in sql::SHARED.into_iter().chain(sql::OURS) {
        let prepared = db.prepare_with(text.into_sql_str(), &types(name)).await;
        assert!(prepared.is_ok(), "{name}: {:?}", prepared.err());
    }
    db.close().await.expect("closed");
}

/// A statement's plan on a keeper's connection: the one it keeps, whatever it is asked for.
async fn plan(db: &mut PgConnection, name: &str, text: &str) -> Vec<String> {
    let kinds = letters(name).chars().map(|letter| match letter {
        'T' => "text[]",
        'N' => "int8[]",
        't' => "text",
        'n' => "int8",
        _ => "bool",
    });
    let kinds: Vec<&str> = kinds.collect();
    let (taken, given) = match kinds.is_empty() {
        true => (String::new(), String::new()),
        false => (
            format!("({})", kinds.join(", ")),
            format!("({})", vec!["NULL"; kinds.len()].join(", ")),
        ),
    };
    let prepare = format!("DEALLOCATE ALL; PREPARE asked {taken} AS {text}");
    let prepared = sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *db).await;
    prepared.unwrap_or_else(|e| panic!("{name}: {e}"));
    let explain = format!("EXPLAIN EXECUTE asked {given}");
    let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(db).await;
    let rows = rows.unwrap_or_else(|e| panic!("{name}: {e}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// Acts and lines enough that a scan would be a mistake.
const MANY: &str = "
INSERT INTO acts (act_id, thread, handoff_id, version, state, ho_line, sender, receiver, item, ask, profile, principal,
                  attempt, created_at, updated_at, due_at, limit_at, seq, head, lines, long_ids, likeness, tokens, waiting,
                  stage)
SELECT lpad(n::text, 32, '0'), 'thread-' || n % 7, 'scheduler-' || n, 1,
       CASE WHEN n % 50 = 0 THEN 'executing' ELSE 'done' END, 'RW1', 'scheduler-' || n % 5, 'payer', 'item', 'PAY', 'pay',
       'scheduler', 1, n * 1000000, n * 1000000, CASE WHEN n % 50 = 0 THEN n END, n, 1, '', 1, 0, md5(n::text), '[]', '[]', '{}'
FROM generate_series(1, 4000::int8) AS n;
INSERT INTO journal (act_id, seq, kind, thread, message_id, body, body_sha256, principal, at, hash)
SELECT act_id, 1, 'line', thread, handoff_id, 'RW1', '', 'scheduler', updated_at, '' FROM acts;";

/// On tables that are empty and on full ones: statements are planned once, and the tables grow.
#[tokio::test]
async fn every_question_walks_an_index() {
    let database = Database::new();
    migrated(&database).await.close().await.expect("closed");
    let conns = Conns::new(&PostgresOptions::new(database.url())).expect("an address");
    let db = &mut conns.connect(None).await.expect("a connection").db;
    for filling in ["SELECT 1", MANY, "VACUUM", "ANALYZE"] {
        sqlx::raw_sql(filling).execute(&mut *db).await.expect("filled");
        scans_nothing(db).await;
        reads_lists_in_order(db).await;
    }
}

/// The clock is read once every row is locked, also where a write has nothing to count: what reads it reads what locks.
#[tokio::test]
async fn the_clock_is_read_after_the_rows_are_locked() {
    let database = Database::new();
    migrated(&database).await.close().await.expect("closed");
    let conns = Conns::new(&PostgresOptions::new(database.url())).expect("an address");
    let db = &mut conns.connect(None).await.expect("a connection").db;
    for (name, text) in [
        ("WRITE", sql::WRITE),
        ("WRITE_NEW", sql::WRITE_NEW),
        ("WRITE_CHANGED", sql::WRITE_CHANGED),
    ] {
        let plan = plan(db, name, text).await;
        let clock = plan.iter().skip_while(|step| step.trim() != "CTE clock");
        let steps: Vec<_> = clock
            .skip(1)
            .take_while(|step| !step.contains("CTE go"))
            .collect();
        assert!(
            steps.iter().any(|step| step.contains("CTE Scan on lone")),
            "{name}\n{plan:#?}"
        );
        let lone = plan.iter().skip_while(|step| step.trim() != "CTE lone");
        let steps: Vec<_> = lone
            .skip(1)
            .take_while(|step| !step.contains("CTE counted"))
            .collect();
        assert!(
            steps.iter().any(|step| step.contains("CTE Scan on stand")),
            "{name}\n{plan:#?}"
        );
    }
}

async fn scans_nothing(db: &mut PgConnection) {
    // A list of everything and the counts are meant to walk all there is.
    let meant = ["LIST", "COUNTS"];
    let ours = sql::OURS.into_iter().filter(|(name, _)| {
        [
            "WRITE",
            "WRITE_NEW",
            "WRITE_CHANGED",
            "LOCK",
            "LET_GO",
            "ROW_STANDS",
        ]
        .contains(name)
    });
    let shared = sql::SHARED.into_iter().filter(|(name, _)| !meant.contains(name));
    for (name, text) in shared.chain(ours) {
        let plan = plan(db, name, text).await;
        for (step, next) in plan.iter().zip(plan.iter().skip(1).chain([&String::new()])) {
            let on = |table: &str| step.contains("Scan") && step.contains(&format!(" on {table} "));
            let read = on("acts") || on("journal");
            // An index without a condition is walked from end to end.
            let found = step.contains("Index") && next.trim_start().starts_with("Index Cond");
            assert!(!read || found, "{name}\n{plan:#?}");
        }
    }
}

async fn reads_lists_in_order(db: &mut PgConnection) {
    let lists = [
        ("LIST", sql::LIST, "acts_pkey"),
        ("LIST_OF_THREAD", sql::LIST_OF_THREAD, "acts_by_thread"),
        ("LIST_OF_STATE", sql::LIST_OF_STATE, "acts_by_state"),
        ("LIST_OF_SENDER", sql::LIST_OF_SENDER, "acts_by_sender"),
        ("DUE", sql::DUE, "acts_by_due"),
        ("DUE_IN_THREAD", sql::DUE_IN_THREAD, "acts_by_due"),
        ("THREAD", sql::THREAD, "journal_by_thread"),
        ("OLD", sql::OLD, "acts_by_age"),
        ("COUNTS", sql::COUNTS, "Index Only Scan using acts_by_state"),
    ];
    for (name, text, index) in lists {
        let plan = plan(db, name, text).await;
        assert!(plan.iter().any(|step| step.contains(index)), "{name}\n{plan:#?}");
        // Only what is due in a thread is put in order afterwards, and that is short.
        let sorts = plan.iter().any(|step| step.contains("Sort"));
        assert!(!sorts || name == "DUE_IN_THREAD", "{name}\n{plan:#?}");
    }
}

/// A table's columns (number or text, and whether null is allowed) and its unique keys.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    columns: BTreeMap<String, (&'static str, bool)>,
    keys: BTreeSet<Vec<String>>,
}

type Tables = BTreeMap<String, Table>;

#[tokio::test]
async fn the_tables_are_those_of_the_other_database() {
    let mut ours = in_postgres().await;
    let mut theirs = in_sqlite().await;

    // What differs, and why. SQLite's batch fails by a check of its clock; several Postgres daemons count who may have
    // made a twin; and each notes its migrations in its own way.
    let whole = theirs.get_mut("clock").and_then(|t| t.columns.remove("whole"));
    assert!(whole.is_some());
    for table in ["likeness_parts", "wilco_migrations"] {
        assert!(ours.remove(table).is_some(), "{table}");
    }
    assert_eq!(ours, theirs);
    assert!(ours.contains_key("acts") && ours.contains_key("journal"));
}

async fn in_postgres() -> Tables {
    let database = Database::new();
    let mut db = migrated(&database).await;
    let mut tables = Tables::new();
    let columns = sqlx::query(
        "SELECT table_name::text AS name, column_name::text AS col, data_type::text AS kind, is_nullable = 'YES' AS nullable
         FROM information_schema.columns WHERE table_schema = current_schema()",
    );
    for row in columns.fetch_all(&mut db).await.expect("columns") {
        let kind = match row.get::<&str, _>("kind") {
            "text" => "text",
            "bigint" => "number",
            other => panic!("a column of kind {other}"),
        };
        let table: &mut Table = tables.entry(row.get("name")).or_default();
        table.columns.insert(row.get("col"), (kind, row.get("nullable")));
    }
    let keys = sqlx::query(
        "SELECT t.relname::text AS name,
            ARRAY(SELECT a.attname::text FROM UNNEST(i.indkey) WITH ORDINALITY AS k (n, place)
                  JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = k.n ORDER BY k.place) AS cols
         FROM pg_index AS i JOIN pg_class AS t ON t.oid = i.indrelid
         WHERE i.indisunique AND t.relnamespace = current_schema()::regnamespace",
    );
    for row in keys.fetch_all(&mut db).await.expect("keys") {
        let table: &mut Table = tables.entry(row.get("name")).or_default();
        table.keys.insert(row.get("cols"));
    }
    db.close().await.expect("closed");
    tables
}

async fn in_sqlite() -> Tables {
    let mut db = SqliteConnection::connect("sqlite::memory:")
        .await
        .expect("a database");
    for text in crate::sqlite::migrations() {
        sqlx::raw_sql(text).execute(&mut db).await.expect("the tables");
    }
    let mut tables = Tables::new();
    let names =
        sqlx::query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    for row in names.fetch_all(&mut db).await.expect("names") {
        let name: String = row.get(0);
        let mut table = Table::default();
        let mut primary = Vec::new();
        let columns = sqlx::query("SELECT name, type, \"notnull\" AS needed, pk FROM pragma_table_info($1)")
            .bind(&name);
        for row in columns.fetch_all(&mut db).await.expect("columns") {
            let kind = match row.get::<&str, _>("type") {
                "TEXT" => "text",
                "INTEGER" => "number",
                other => panic!("a column of kind {other}"),
            };
            let column: String = row.get("name");
            if row.get::<i64, _>("pk") > 0 {
                primary.push((row.get::<i64, _>("pk"), column.clone()));
            }
            table
                .columns
                .insert(column, (kind, row.get::<i64, _>("needed") == 0));
        }
        primary.sort();
        table
            .keys
            .insert(primary.into_iter().map(|(_, column)| column).collect());
        let keys = sqlx::query("SELECT name FROM pragma_index_list($1) WHERE \"unique\" = 1").bind(&name);
        for row in keys.fetch_all(&mut db).await.expect("keys") {
            let index: String = row.get(0);
            let columns = sqlx::query("SELECT name FROM pragma_index_info($1) ORDER BY seqno").bind(index);
            let columns = columns.fetch_all(&mut db).await.expect("a key's columns");
            table.keys.insert(columns.iter().map(|row| row.get(0)).collect());
        }
        tables.insert(name, table);
    }
    db.close().await.expect("closed");
    tables
}
