//! A store with very many acts, quickly: the acts that are in it, copied over and over by the database itself, each copy
//! with ids of its own.
//!
//! A copy is a row like any other for whoever lists, looks for what is due, or adds another; only its journal's hashes are
//! still those of the act it was copied from.

use rusqlite::Connection;
use wilco_core::Clock;

use crate::daemon::House;
use crate::lines::FIRST_ID;
use crate::pgbench::Server;
use crate::template::Wall;

/// The tables whose rows are an act's, in the order in which they must be filled.
const TABLES: [&str; 2] = ["acts", "journal"];

/// How a database says what differs between a row and its copy; both stand for the number of the copy by the same word.
struct Dialect {
    /// The number of the copy.
    number: &'static str,
    /// The copy's id: as if it had come that many milliseconds after a given one, and otherwise its own.
    act_id: String,
    /// As long as a hash, and random.
    likeness: &'static str,
}

/// Makes so many of each act in the house's store, the one that is there included.
pub fn make(house: &House, server: Option<&Server>, of_each: i64) -> Result<(), String> {
    if of_each < 2 {
        return Ok(());
    }
    // As if they had come before what is there and what comes later: an hour ago, one each millisecond.
    let base = Wall.now().0 / 1000 - 3_600_000 - of_each;
    match (house.database(), server) {
        (Some(url), Some(server)) => postgres(url, server, base, of_each),
        _ => sqlite(house, base, of_each).map_err(|e| format!("copies of acts: {e}")),
    }
}

fn sqlite(house: &House, base: i64, of_each: i64) -> Result<(), rusqlite::Error> {
    let dialect = Dialect {
        number: "?1",
        act_id: format!("printf('%012x', {base} + ?1) || substr(act_id, 13)"),
        likeness: "lower(hex(randomblob(32)))",
    };
    let mut db = Connection::open(house.data().join("wilco.sqlite"))?;
    db.execute_batch(
        // Nothing else has the file, and what is written need not outlive a crash: no log, so that nothing is written twice.
        "PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA cache_size = -262144;
         CREATE TEMP TABLE first AS SELECT act_id FROM acts",
    )?;
    let mut statements = Vec::new();
    for table in TABLES {
        let mut asked = db.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns: Vec<String> = asked
            .query_map([table], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let from = format!("FROM first CROSS JOIN {table} USING (act_id)");
        statements.push(dialect.copy(table, &columns, &from));
    }
    for number in 1..of_each {
        let transaction = db.transaction()?;
        for statement in &statements {
            transaction.prepare_cached(statement)?.execute([number])?;
        }
        transaction.commit()?;
    }
    // The daemon that comes next shall find everything on the disk.
    db.execute_batch("PRAGMA synchronous = full; PRAGMA journal_mode = wal")
}

fn postgres(url: &str, server: &Server, base: i64, of_each: i64) -> Result<(), String> {
    let dialect = Dialect {
        number: "copy",
        act_id: format!("lpad(to_hex({base} + copy), 12, '0') || substr(act_id, 13)"),
        likeness: "md5(random()::text) || md5(random()::text)",
    };
    let last = of_each - 1;
    let mut script = String::from("CREATE TEMP TABLE first AS SELECT act_id FROM acts;");
    for table in TABLES {
        let asked = format!(
            "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' ORDER BY ordinal_position"
        );
        let columns: Vec<String> = server.ask(url, &asked)?.lines().map(str::to_owned).collect();
        let from = format!("FROM generate_series(1, {last}) AS copy, first JOIN {table} USING (act_id)");
        script.push_str(&dialect.copy(table, &columns, &from));
        script.push(';');
    }
    server.ask(url, &script)?;
    server.ask(url, "VACUUM ANALYZE")?;
    server.ask(url, "CHECKPOINT").map(drop)
}

impl Dialect {
    /// The statement that copies what is selected.
    fn copy(&self, table: &str, columns: &[String], from: &str) -> String {
        let id = format!("CAST({FIRST_ID} + 2 * {} AS TEXT)", self.number);
        let values = columns.iter().map(|column| match column.as_str() {
            "act_id" => self.act_id.clone(),
            "likeness" => self.likeness.to_owned(),
            "handoff_id" | "message_id" => format!("replace({column}, '{FIRST_ID}', {id})"),
            other => other.to_owned(),
        });
        let (values, columns) = (values.collect::<Vec<_>>().join(", "), columns.join(", "));
        format!("INSERT INTO {table} ({columns}) SELECT {values} {from}")
    }
}
