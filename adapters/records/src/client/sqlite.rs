//! SQLite: the same steps under BEGIN IMMEDIATE, which lets no other writer in between.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, params_from_iter};
use wilco_core::ActId;

use super::{Changed, Looked, Order, Seen, Stop, elsewhere, missing, no_key};
use crate::callback::{Callback, Calls, Earlier, at_of_change, clock};
use crate::config::Checked;
use crate::judge::{Judged, Shown, judge};
use crate::sql::MOST_ROWS;
use crate::statement::Statement;
use crate::wire::{Recorded, Row, Swap, clean};

/// The file, and what is said to it.
pub(crate) struct Sqlite {
    file: Arc<File>,
}

struct File {
    path: PathBuf,
    config: Arc<Checked>,
}

impl Sqlite {
    pub fn new(path: PathBuf, config: Arc<Checked>) -> Sqlite {
        let file = Arc::new(File { path, config });
        Sqlite { file }
    }

    pub async fn read(&self, sup: &str, calls_for: Option<(ActId, Swap)>) -> Result<Seen, String> {
        let (file, sup) = (self.file.clone(), sup.to_owned());
        blocking(move || {
            let (db, database) = file.open_and_check().map_err(Stop::words)?;
            db.execute_batch("PRAGMA query_only = ON; BEGIN")
                .map_err(|e| file.words(&e))?;
            let rows = file.rows(&db, &sup).map_err(Stop::words)?;
            let calls = match calls_for {
                Some((act, swap)) if file.config.callback || swap.callback => {
                    Some(file.calls(&db, act, &swap).map_err(Stop::words)?)
                }
                _ => None,
            };
            Ok(Seen {
                rows,
                calls,
                database,
            })
        })
        .await
    }

    pub async fn find(&self, act: ActId, swap: Swap) -> Result<Looked, String> {
        let file = self.file.clone();
        blocking(move || {
            let (db, database) = file.open().map_err(Stop::words)?;
            db.execute_batch("PRAGMA query_only = ON; BEGIN")
                .map_err(|e| file.words(&e))?;
            let recorded = file.recorded(&db, act, &swap).map_err(Stop::words)?;
            // Only to name who rang; the lookup does not depend on it.
            let calls = match recorded.is_some() && swap.callback {
                true => file.calls(&db, act, &swap).ok(),
                false => None,
            };
            Ok(Looked {
                recorded,
                calls,
                database,
            })
        })
        .await
    }

    /// Returns once the transaction has ended, one way or the other, however long the disk takes.
    pub async fn change(&self, order: Order) -> Changed {
        let file = self.file.clone();
        let changed = tokio::task::spawn_blocking(move || file.change(&order)).await;
        changed.unwrap_or_else(|e| Changed::Unknown(format!("the step with the file did not end well: {e}")))
    }

    pub async fn check(&self) -> Result<(), String> {
        let file = self.file.clone();
        blocking(move || file.open_and_check().map(drop).map_err(Stop::words)).await
    }

    pub fn shown(&self) -> String {
        self.file.path.display().to_string()
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(format!("the step with the file did not end well: {e}")))
}

impl File {
    fn change(&self, order: &Order) -> Changed {
        let (db, database) = match self.open_and_check() {
            Ok(open) => open,
            Err(stop) => return Changed::NotSent(stop.words()),
        };
        if database != order.swap.database {
            return Changed::NotSent(elsewhere(&order.swap.database, &database));
        }
        if let Err(text) = self.durable(&db) {
            return Changed::NotSent(text);
        }
        if let Err(e) = db.execute_batch("BEGIN IMMEDIATE") {
            return Changed::NotSent(self.words(&e));
        }
        wilco_failpoint::reach!("send.connected");
        if let Err(e) = order.permit.may_send() {
            return Changed::NotSent(e.to_string());
        }
        wilco_failpoint::reach!("send.may_send");
        // Dropped without COMMIT, the connection rolls back.
        let (recorded, callback) = match self.steps(&db, order) {
            Ok(Judged::Stands(recorded, callback)) => (recorded, callback),
            Ok(Judged::Before(recorded)) => return Changed::Before(recorded),
            Ok(Judged::Not(text)) | Err(Stop::Refused(text)) => return self.refused(db, order, text),
            Err(Stop::Trouble(text)) => return Changed::NotSent(text),
        };
        if let Err(e) = order.permit.may_send() {
            return Changed::NotSent(e.to_string());
        }

        // Past this line a failure proves nothing by itself.
        let committed = db.execute_batch("COMMIT");
        wilco_failpoint::reach!("send.answered");
        match committed {
            Ok(()) => Changed::Done(recorded, callback),
            // Readers in the way (without WAL): SQLite says so before it writes, and the transaction stays open.
            Err(e) if code(&e) == Some(ErrorCode::DatabaseBusy) && !db.is_autocommit() => {
                match db.execute_batch("ROLLBACK") {
                    Ok(()) => Changed::NotSent(self.words(&e)),
                    Err(e) => Changed::Unknown(self.words(&e)),
                }
            }
            Err(e) => Changed::Unknown(format!("at COMMIT: {}", self.words(&e))),
        }
    }

    /// Everything between BEGIN and COMMIT: what is done, and what it comes to.
    fn steps(&self, db: &Connection, order: &Order) -> Result<Judged, Stop> {
        let (act, swap, statements) = (order.permit.act_id(), &order.swap, &self.config.statements);
        let now = order.clock.now();
        let calls = || match order.callback {
            true => self.calls(db, act, swap).map(Some),
            false => Ok(None),
        };
        let at = at_of_change(calls()?.as_ref(), act, swap, now);
        let changed = self.run(db, &statements.change, swap.binds(&statements.change, act, at))?;
        let rows = self.rows(db, &swap.sup)?;
        if let (1, [row], Some(record)) = (changed, rows.as_slice(), &statements.record) {
            self.run(db, record, swap.binds_of_row(record, act, at, row))?;
        }
        let calls = calls()?;
        let shown = Shown {
            changed: u64::try_from(changed).unwrap_or(u64::MAX),
            rows: &rows,
            recorded: self.recorded(db, act, swap)?,
            calls: calls.as_ref(),
            now,
        };
        Ok(judge(shown, act, swap, &self.config))
    }

    /// The change was refused and rolled back. It may have been because it stands already.
    fn refused(&self, db: Connection, order: &Order, text: String) -> Changed {
        drop(db);
        let looked = self
            .open()
            .and_then(|(db, _)| self.recorded(&db, order.permit.act_id(), &order.swap));
        match looked {
            Ok(Some(recorded)) => Changed::Before(recorded),
            // Nothing of this sending stands; of an earlier one, a lookup will tell.
            Ok(None) | Err(_) => Changed::Refused(text),
        }
    }

    fn open(&self) -> Result<(Connection, String), Stop> {
        let trouble = |text: String| Stop::Trouble(format!("{}: {text}", self.path.display()));
        let real =
            std::fs::canonicalize(&self.path).map_err(|e| trouble(format!("there is no such file ({e})")))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&real, flags).map_err(|e| trouble(e.to_string()))?;
        let until = Instant::now() + self.config.timeout;
        let set = || {
            db.busy_timeout(self.config.timeout)?;
            db.progress_handler(10_000, Some(move || Instant::now() >= until))?;
            // Otherwise a column that is not there reads as a text in double quotes.
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
            db.execute_batch("PRAGMA foreign_keys = ON")
        };
        set().map_err(|e| trouble(e.to_string()))?;
        // Another file at the same path (a restored one, say) is another database: what one holds, the other may lack.
        let meta = std::fs::metadata(&real).map_err(|e| trouble(e.to_string()))?;
        Ok((db, format!("{} {}:{}", real.display(), meta.dev(), meta.ino())))
    }

    /// Open, with every table, column and key that a change needs.
    fn open_and_check(&self) -> Result<(Connection, String), Stop> {
        let (db, database) = self.open()?;
        let s = &self.config.statements;
        let mut all = vec![
            ("sql.read", &s.read),
            ("sql.change", &s.change),
            ("lookup", &s.lookup),
        ];
        all.extend(s.record.as_ref().map(|r| ("record", r)));
        if self.config.callback {
            all.push(("sql.callback", &s.callback));
            all.push(("acts", &s.acts));
        }
        for (name, statement) in all {
            let prepared = db.prepare(&statement.sql).map_err(|e| {
                Stop::Trouble(format!(
                    "{name} cannot be used: {}{}",
                    self.words(&e),
                    missing(&self.config, &e.to_string())
                ))
            })?;
            if prepared.parameter_count() != statement.params.len() {
                return Err(Stop::Trouble(format!("{name} has places that are not named")));
            }
            let columns: Vec<&str> = prepared.column_names();
            let missing = self
                .config
                .columns_of(name)
                .into_iter()
                .find(|c| !columns.contains(c));
            if let Some(missing) = missing {
                return Err(Stop::Trouble(format!("{name} yields no column {missing}")));
            }
            if name == "sql.change" && !columns.is_empty() {
                return Err(Stop::Trouble(format!(
                    "{name} must not yield rows; leave RETURNING out"
                )));
            }
        }
        if !self.has_key(&db).map_err(|e| Stop::Trouble(self.words(&e)))? {
            return Err(Stop::Trouble(no_key(&self.config.acts.shown())));
        }
        Ok((db, database))
    }

    fn has_key(&self, db: &Connection) -> rusqlite::Result<bool> {
        let (schema, table) = self.config.acts.parts();
        let mut indexes = db.prepare(
            "SELECT (SELECT group_concat(name) FROM pragma_index_info(i.name, ?2)) \
             FROM pragma_index_list(?1, ?2) AS i WHERE i.\"unique\" = 1 AND i.partial = 0",
        )?;
        let rows = indexes.query_map((table, schema.unwrap_or("main")), |row| {
            row.get::<_, Option<String>>(0)
        })?;
        for columns in rows {
            if columns?.is_some_and(|c| c.eq_ignore_ascii_case("ref")) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is committed must be on the disk when COMMIT returns.
    fn durable(&self, db: &Connection) -> Result<(), String> {
        let set = || -> rusqlite::Result<String> {
            let now: String = db.query_row("PRAGMA journal_mode", (), |r| r.get(0))?;
            let mode = match now.as_str() {
                "wal" => now,
                _ => db.query_row("PRAGMA journal_mode = WAL", (), |r| r.get(0))?,
            };
            // FULL flushes each commit of a WAL; without WAL, EXTRA flushes the folder too.
            let level = if mode == "wal" { "FULL" } else { "EXTRA" };
            db.execute_batch(&format!("PRAGMA synchronous = {level}"))?;
            Ok(mode)
        };
        match set().map_err(|e| self.words(&e))?.as_str() {
            "wal" | "delete" | "truncate" | "persist" => Ok(()),
            other => Err(format!(
                "{}: journal_mode is {other}, which does not survive a crash",
                self.path.display()
            )),
        }
    }

    fn run(&self, db: &Connection, statement: &Statement, binds: Vec<Option<String>>) -> Result<usize, Stop> {
        db.execute(&statement.sql, params_from_iter(binds))
            .map_err(|e| self.stop(&e))
    }

    fn rows(&self, db: &Connection, sup: &str) -> Result<Vec<Row>, Stop> {
        let statement = &self.config.statements.read;
        let binds = statement.params.iter().map(|_| sup);
        self.ask(db, statement, params_from_iter(binds), 2, |get| {
            Ok(Row {
                sup: get("sup")?.unwrap_or_default(),
                acct: get("acct")?,
                name: get("name")?,
                eff: get("eff")?,
                phone: get("phone")?,
                apref: get("apref")?,
            })
        })
    }

    fn recorded(&self, db: &Connection, act: ActId, swap: &Swap) -> Result<Option<Recorded>, Stop> {
        let statement = &self.config.statements.lookup;
        let binds = swap.binds(statement, act, swap.asked_at);
        let found = self.ask(db, statement, params_from_iter(binds), 1, |get| {
            Ok(Recorded {
                sup: get("sup")?.unwrap_or_default(),
                prev: get("prev")?.unwrap_or_default(),
                acct: get("acct")?.unwrap_or_default(),
                eff: get("eff")?,
                apref: get("apref")?,
            })
        })?;
        Ok(found.into_iter().next())
    }

    fn calls(&self, db: &Connection, act: ActId, swap: &Swap) -> Result<Calls, Stop> {
        let most = usize::try_from(MOST_ROWS).unwrap_or(usize::MAX);
        let s = &self.config.statements;
        let binds = |statement| params_from_iter(swap.binds(statement, act, swap.asked_at));
        let rows = self.ask(db, &s.callback, binds(&s.callback), most, |get| {
            Ok(Callback {
                by: get("by")?,
                at: get("at")?,
            })
        })?;
        let acts = self.ask(db, &s.acts, binds(&s.acts), most, |get| {
            Ok(Earlier {
                reference: get("ref")?.unwrap_or_default(),
                at: get("at")?,
            })
        })?;
        let now: String = db
            .query_row("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')", (), |r| r.get(0))
            .map_err(|e| self.stop(&e))?;
        let now = clock(&now).map_err(Stop::Trouble)?;
        Ok(Calls { rows, acts, now })
    }

    /// At most `most` rows of a question. A column that is not asked for is none.
    fn ask<T>(
        &self,
        db: &Connection,
        statement: &Statement,
        binds: impl rusqlite::Params,
        most: usize,
        of: impl Fn(&dyn Fn(&str) -> Result<Option<String>, Stop>) -> Result<T, Stop>,
    ) -> Result<Vec<T>, Stop> {
        let mut prepared = db.prepare(&statement.sql).map_err(|e| self.stop(&e))?;
        let names: Vec<String> = prepared.column_names().iter().map(|n| (*n).to_owned()).collect();
        let mut rows = prepared.query(binds).map_err(|e| self.stop(&e))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(|e| self.stop(&e))? {
            if found.len() == most {
                break;
            }
            let get = |name: &str| {
                let Some(at) = names.iter().position(|n| n == name) else {
                    return Ok(None);
                };
                match row.get_ref(at).map_err(|e| self.stop(&e))? {
                    ValueRef::Null => Ok(None),
                    ValueRef::Text(text) => match std::str::from_utf8(text) {
                        Ok(text) => Ok(Some(text.to_owned())),
                        Err(_) => Err(Stop::Trouble(format!("column {name} holds what is no text"))),
                    },
                    other => Err(Stop::Trouble(format!(
                        "column {name} is {}, not text: CAST it AS TEXT",
                        other.data_type()
                    ))),
                }
            };
            found.push(of(&get)?);
        }
        Ok(found)
    }

    fn stop(&self, error: &rusqlite::Error) -> Stop {
        match code(error) {
            // A constraint, a trigger's RAISE, a value the table does not take.
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
                Stop::Refused(format!("the table refuses it: {}", self.words(error)))
            }
            _ => Stop::Trouble(self.words(error)),
        }
    }

    fn words(&self, error: &rusqlite::Error) -> String {
        let what = match code(error) {
            Some(ErrorCode::OperationInterrupted) => {
                format!("it took longer than {} s", self.config.timeout.as_secs())
            }
            _ => clean(&error.to_string(), 300),
        };
        format!("{}: {what}", name_of(&self.path))
    }
}

fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
