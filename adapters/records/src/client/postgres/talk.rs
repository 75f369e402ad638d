//! One conversation with the server: a transaction, what is asked in it, and its end.

use std::future::Future;

use sqlx::postgres::{PgRow, PgTypeInfo};
use sqlx::{
    AssertSqlSafe, Column, Connection, Executor, PgConnection, Row as _, SqlSafeStr, Statement as _, TypeInfo,
};
use tokio::time::{Instant, timeout_at};
use wilco_core::ActId;

use crate::callback::{Callback, Calls, Earlier, at_of_change, clock};
use crate::client::{Order, Stop, missing, no_key};
use crate::config::Checked;
use crate::judge::{Judged, Shown, judge};
use crate::sql::MOST_ROWS;
use crate::statement::Statement;
use crate::wire::{Recorded, Row, Swap, clean};

/// One connection with a transaction begun on it. Dropped, the connection closes and the transaction is gone.
pub(super) struct Talk<'a> {
    db: PgConnection,
    config: &'a Checked,
    deadline: Instant,
    /// Which database it is.
    pub database: String,
}

/// What the transaction is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Reading,
    /// Fails on a standby, whose answer might lag.
    Truth,
}

impl<'a> Talk<'a> {
    /// Begins one. From here on the server ends by itself what takes longer than `timeout_s`.
    pub async fn begin(
        db: PgConnection,
        config: &'a Checked,
        deadline: Instant,
        what: For,
    ) -> Result<Talk<'a>, Stop> {
        let mut talk = Talk {
            db,
            config,
            deadline,
            database: String::new(),
        };
        let mode = match what {
            For::Reading => "READ ONLY",
            For::Truth => "READ WRITE",
        };
        let ms = config.timeout.as_millis();
        // Set for the transaction, so that a pooler in between does no harm.
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED, {mode}; SET LOCAL statement_timeout = {ms}; \
             SET LOCAL lock_timeout = {ms}; SET LOCAL idle_in_transaction_session_timeout = {ms}; \
             SELECT set_config('synchronous_commit', 'on', true) \
             WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        );
        let begun = sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut talk.db);
        within(deadline, begun).await?;
        talk.database = talk.identity().await?;
        Ok(talk)
    }

    /// The cluster and the database in it: the same after a failover, another in another place.
    async fn identity(&mut self) -> Result<String, Stop> {
        let asked = "SELECT system_identifier::text || '/' || current_database() FROM pg_control_system()";
        let row = match timeout_at(self.deadline, sqlx::raw_sql(asked).fetch_one(&mut self.db)).await {
            // The database's own number would not do: fresh clusters share it, and what one holds the other seems to lack.
            Ok(Err(sqlx::Error::Database(e))) => {
                return Err(Stop::Trouble(format!(
                    "which cluster this is cannot be told ({}): GRANT EXECUTE ON FUNCTION pg_control_system() to the role",
                    e.message()
                )));
            }
            Ok(answered) => answered.map_err(|e| Stop::Trouble(said(&e)))?,
            Err(_) => return Err(Stop::Trouble(NO_ANSWER.to_owned())),
        };
        row.try_get(0).map_err(|e| Stop::Trouble(said(&e)))
    }

    /// What prepare needs.
    pub async fn check_reading(&mut self) -> Result<(), Stop> {
        let config = self.config;
        self.understood("sql.read", &config.statements.read).await
    }

    /// Everything that a change needs: the statements, as the server understands them, and the key.
    pub async fn check(&mut self) -> Result<(), Stop> {
        let s = &self.config.statements;
        self.understood("sql.read", &s.read).await?;
        self.understood("sql.change", &s.change).await?;
        self.understood("lookup", &s.lookup).await?;
        if self.config.callback {
            self.understood("sql.callback", &s.callback).await?;
            self.understood("acts", &s.acts).await?;
        }
        self.has_key().await
    }

    /// Without it, a change sent again could be made again.
    pub async fn has_key(&mut self) -> Result<(), Stop> {
        // A checked name, in quotes: letters, digits and underscores.
        let asked = format!(
            "SELECT EXISTS (SELECT 1 FROM pg_index i \
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
             WHERE i.indrelid = to_regclass('{}') AND i.indisunique AND i.indisvalid AND i.indimmediate \
             AND i.indnkeyatts = 1 AND i.indpred IS NULL AND i.indexprs IS NULL AND a.attname = 'ref')",
            self.config.acts.quoted()
        );
        let asked = sqlx::raw_sql(AssertSqlSafe(asked)).fetch_one(&mut self.db);
        let row = within(self.deadline, asked).await?;
        match row.try_get::<bool, _>(0) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stop::Trouble(no_key(&self.config.acts.shown()))),
            Err(e) => Err(Stop::Trouble(said(&e))),
        }
    }

    async fn understood(&mut self, name: &str, statement: &Statement) -> Result<(), Stop> {
        let types = vec![PgTypeInfo::with_name("text"); statement.params.len()];
        let sql = AssertSqlSafe(statement.sql.clone()).into_sql_str();
        let prepared = within(self.deadline, self.db.prepare_with(sql, &types)).await;
        let prepared = prepared.map_err(|stop| {
            let text = stop.words();
            let hint = missing(self.config, &text);
            Stop::Trouble(format!("{name} cannot be used: {text}{hint}"))
        })?;
        for wanted in self.config.columns_of(name) {
            let found = prepared.columns().iter().find(|c| c.name() == wanted);
            let Some(column) = found else {
                return Err(Stop::Trouble(format!("{name} yields no column {wanted}")));
            };
            let kind = column.type_info().name();
            if !["TEXT", "VARCHAR", "CHAR", "NAME", "CITEXT", "UNKNOWN"]
                .contains(&kind.to_ascii_uppercase().as_str())
            {
                return Err(Stop::Trouble(format!(
                    "{name}: column {wanted} is {}, not text: CAST it AS text",
                    clean(kind, 40)
                )));
            }
        }
        Ok(())
    }

    /// Everything between the permit and COMMIT: what is done, and what it comes to.
    pub async fn steps(&mut self, order: &Order) -> Result<Judged, Stop> {
        let config = self.config;
        let (act, swap) = (order.permit.act_id(), &order.swap);
        let now = order.clock.now();
        let calls = self.calls_for(order).await?;
        let at = at_of_change(calls.as_ref(), act, swap, now);
        let mut change = sqlx::query(AssertSqlSafe(config.statements.change.sql.clone())).persistent(false);
        for bind in swap.binds(&config.statements.change, act, at) {
            change = change.bind(bind);
        }
        let changed = within(self.deadline, change.execute(&mut self.db))
            .await?
            .rows_affected();
        self.nothing_later().await?;
        let recorded = self.recorded(act, swap).await?;
        let rows = self.rows(&swap.sup).await?;
        // Again: whoever changed the same row in between has committed by now, and may have used the call-back.
        let calls = self.calls_for(order).await?;
        let shown = Shown {
            changed,
            rows: &rows,
            recorded,
            calls: calls.as_ref(),
            now,
        };
        Ok(judge(shown, act, swap, config))
    }

    async fn calls_for(&mut self, order: &Order) -> Result<Option<Calls>, Stop> {
        match order.callback {
            true => self.calls(order.permit.act_id(), &order.swap).await.map(Some),
            false => Ok(None),
        }
    }

    /// Has deferred triggers and constraints act now, and until COMMIT: what one of them changes must be read back too.
    async fn nothing_later(&mut self) -> Result<(), Stop> {
        let asked = sqlx::raw_sql("SET CONSTRAINTS ALL IMMEDIATE").execute(&mut self.db);
        within(self.deadline, asked).await.map(drop)
    }

    pub async fn commit(mut self) -> Result<(), Stop> {
        let commit = sqlx::raw_sql("COMMIT").execute(&mut self.db);
        let committed = timeout_at(self.deadline, commit).await;
        let answered = match committed {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => Err(match certainly_rolled_back(&e) {
                true => Stop::Refused(said(&e)),
                false => Stop::Trouble(said(&e)),
            }),
            Err(_) => Err(Stop::Trouble(NO_ANSWER.to_owned())),
        };
        if answered.is_ok() {
            self.end().await;
        }
        answered
    }

    /// Says goodbye. Nothing depends on it.
    pub async fn end(self) {
        drop(timeout_at(self.deadline, self.db.close()).await);
    }

    pub async fn rows(&mut self, sup: &str) -> Result<Vec<Row>, Stop> {
        let statement = &self.config.statements.read;
        let binds = statement.params.iter().map(|_| Some(sup.to_owned())).collect();
        self.ask(statement, binds, 2, |row| {
            Ok(Row {
                sup: text(row, "sup")?.unwrap_or_default(),
                acct: text(row, "acct")?,
                name: text(row, "name")?,
                eff: text(row, "eff")?,
                phone: text(row, "phone")?,
                apref: text(row, "apref")?,
            })
        })
        .await
    }

    pub async fn recorded(&mut self, act: ActId, swap: &Swap) -> Result<Option<Recorded>, Stop> {
        let statement = &self.config.statements.lookup;
        let binds = swap.binds(statement, act, swap.asked_at);
        let found = self.ask(statement, binds, 1, |row| {
            Ok(Recorded {
                sup: text(row, "sup")?.unwrap_or_default(),
                prev: text(row, "prev")?.unwrap_or_default(),
                acct: text(row, "acct")?.unwrap_or_default(),
                eff: text(row, "eff")?,
                apref: text(row, "apref")?,
            })
        });
        Ok(found.await?.into_iter().next())
    }

    pub async fn calls(&mut self, act: ActId, swap: &Swap) -> Result<Calls, Stop> {
        let most = usize::try_from(MOST_ROWS).unwrap_or(usize::MAX);
        let s = &self.config.statements;
        let binds = |statement| swap.binds(statement, act, swap.asked_at);
        let rows = self.ask(&s.callback, binds(&s.callback), most, |row| {
            Ok(Callback {
                by: text(row, "by")?,
                at: text(row, "at")?,
            })
        });
        let rows = rows.await?;
        let acts = self.ask(&s.acts, binds(&s.acts), most, |row| {
            Ok(Earlier {
                reference: text(row, "ref")?.unwrap_or_default(),
                at: text(row, "at")?,
            })
        });
        let acts = acts.await?;
        let asked =
            "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')";
        let asked = sqlx::raw_sql(asked).fetch_one(&mut self.db);
        let row = within(self.deadline, asked).await?;
        let now: String = row.try_get(0).map_err(|e| Stop::Trouble(said(&e)))?;
        let now = clock(&now).map_err(Stop::Trouble)?;
        Ok(Calls { rows, acts, now })
    }

    /// At most `most` rows of a question.
    async fn ask<T>(
        &mut self,
        statement: &Statement,
        binds: Vec<Option<String>>,
        most: usize,
        of: impl Fn(&PgRow) -> Result<T, Stop>,
    ) -> Result<Vec<T>, Stop> {
        use futures::TryStreamExt;
        let mut query = sqlx::query(AssertSqlSafe(statement.sql.clone())).persistent(false);
        for bind in binds {
            query = query.bind(bind);
        }
        let mut rows = query.fetch(&mut self.db);
        let mut found = Vec::new();
        while let Some(row) = within(self.deadline, rows.try_next()).await? {
            if found.len() == most {
                return Err(Stop::Trouble(format!(
                    "a question is answered with more than {most} rows"
                )));
            }
            found.push(of(&row)?);
        }
        Ok(found)
    }
}

const NO_ANSWER: &str = "no answer in time";

/// A column as text; none where the question does not yield it.
fn text(row: &PgRow, name: &str) -> Result<Option<String>, Stop> {
    match row.try_get::<Option<String>, _>(name) {
        Ok(value) => Ok(value),
        Err(sqlx::Error::ColumnNotFound(_)) => Ok(None),
        Err(e) => Err(Stop::Trouble(format!(
            "column {name} cannot be read: {}",
            said(&e)
        ))),
    }
}

async fn within<T>(deadline: Instant, step: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Stop> {
    match timeout_at(deadline, step).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(e)) if is_refusal(&e) => Err(Stop::Refused(said(&e))),
        Ok(Err(e)) => Err(Stop::Trouble(said(&e))),
        Err(_) => Err(Stop::Trouble(NO_ANSWER.to_owned())),
    }
}

/// Whether the server refuses the change for what it would do: data (22), constraint (23), a trigger's RAISE (P0), rules of
/// the table (44, 27). Names that are not there and privileges (42) are trouble with the configuration.
fn is_refusal(error: &sqlx::Error) -> bool {
    class(error).is_some_and(|c| ["22", "23", "27", "44", "P0"].contains(&c.as_str()))
}

/// Whether a COMMIT answered with this error left nothing behind: a constraint or trigger checked at its end, or a
/// conflict of transactions. Not 40003, which says that the server does not know either.
fn certainly_rolled_back(error: &sqlx::Error) -> bool {
    let code = error
        .as_database_error()
        .and_then(|e| e.code().map(|c| c.into_owned()));
    code.is_some_and(|c| c != "40003" && ["23", "40", "P0"].iter().any(|class| c.starts_with(class)))
}

fn class(error: &sqlx::Error) -> Option<String> {
    let code = error.as_database_error()?.code()?;
    code.get(..2).map(str::to_owned)
}

pub(super) fn said(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(e) => {
            let code = e.code().map(|c| format!(" ({c})")).unwrap_or_default();
            format!("{}{code}", clean(e.message(), 300))
        }
        other => clean(&other.to_string(), 300),
    }
}
