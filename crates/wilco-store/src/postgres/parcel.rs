//! A write as its statement takes it: its acts and rows, column by column.

use std::collections::BTreeSet;

use serde::Serialize;
use sqlx::postgres::{PgArguments, PgHasArrayType};
use sqlx::query::Query;
use sqlx::{Encode, Postgres, Type};
use wilco_core::{Act, Expect, State};

use super::sql;
use crate::StoreError;
use crate::judge::Sealed;
use crate::record::GuardOut;

/// How many digits of a likeness name its part; see the migration.
const PART_DIGITS: usize = 4;

/// The write, bound to its statement.
///
/// # Errors
/// `Down` when something of it cannot be written as JSON, `Row` when a number is out of range.
pub(super) fn bound(
    write: &Sealed,
    checked: bool,
) -> Result<Query<'static, Postgres, PgArguments>, StoreError> {
    // In the order in which every write locks them.
    let mut changes: Vec<_> = write.changes().collect();
    changes.sort_by_key(|(_, act, _)| act.act_id);
    let was = |expect: Expect| match expect {
        Expect::Absent => 0,
        Expect::Version(version) => version,
    };
    let acts = || changes.iter().map(|(_, act, _)| *act);
    let texts = |of: fn(&Act) -> &str| acts().map(|a| of(a).to_owned()).collect::<Vec<String>>();
    let maybe = |of: fn(&Act) -> Option<String>| acts().map(of).collect::<Vec<Option<String>>>();
    let numbers = |of: fn(&Act) -> i64| acts().map(of).collect::<Vec<i64>>();
    let count = |of: fn(&Act) -> u64| {
        let counts = acts().map(|a| signed(of(a)));
        counts.collect::<Result<Vec<i64>, StoreError>>()
    };

    let rows = || {
        write
            .acts
            .iter()
            .zip(&write.rows)
            .flat_map(|(act, rows)| rows.iter().map(move |row| (act, row)))
    };
    let row_seqs: Vec<i64> = rows().map(|(_, r)| signed(r.seq)).collect::<Result<_, _>>()?;

    let guards = write.guards().map(|guard| GuardOut::new(0, guard, write.at));
    let guards: Vec<_> = guards.collect();

    let bound = Bound::new(write)
        .column(acts().map(|a| a.act_id.to_string()).collect::<Vec<_>>())
        .column(
            changes
                .iter()
                .map(|(before, ..)| signed(was(before.expect)))
                .collect::<Result<Vec<_>, _>>()?,
        )
        .column(
            changes
                .iter()
                .map(|(before, ..)| before.head.clone())
                .collect::<Vec<_>>(),
        )
        .column(texts(|a| &a.thread))
        .column(texts(|a| &a.handoff.id))
        .column(count(|a| a.version)?)
        .column(texts(|a| a.state().as_str()))
        .column(texts(|a| &a.handoff.line))
        .column(texts(|a| &a.handoff.sender))
        .column(texts(|a| &a.handoff.receiver))
        .column(texts(|a| &a.handoff.item))
        .column(texts(|a| &a.handoff.ask))
        .column(texts(|a| &a.handoff.profile))
        .column(texts(|a| &a.principal))
        .column(numbers(|a| i64::from(a.attempt)))
        .column(numbers(|a| a.created_at.0))
        .column(acts().map(|a| a.due_at().map(|at| at.0)).collect::<Vec<_>>())
        .column(numbers(|a| a.limit.0))
        .column(count(|a| a.seq)?)
        .column(texts(|a| &a.head))
        .column(numbers(|a| i64::from(a.lines)))
        .column(numbers(|a| i64::from(a.long_ids)))
        .column(maybe(|a| a.undo_of.map(|id| id.to_string())))
        .column(maybe(|a| a.likeness.clone()))
        .column(maybe(|a| a.released_by.clone()))
        .column(maybe(|a| a.offer().map(|o| o.frozen.profile_digest.clone())))
        .column(all(
            acts().map(|a| a.offer().map(|o| json(&o.frozen.contract)).transpose())
        )?)
        .column(all(acts().map(|a| json(&a.tokens)))?)
        .column(all(acts().map(|a| json(&a.waiting)))?)
        .column(all(acts().map(|a| json(&a.stage)))?);
    Ok(bound
        .query
        .bind(rows().map(|(a, _)| a.act_id.to_string()).collect::<Vec<_>>())
        .bind(row_seqs)
        .bind(
            rows()
                .map(|(_, r)| r.kind.as_str().to_owned())
                .collect::<Vec<_>>(),
        )
        .bind(rows().map(|(a, _)| a.thread.clone()).collect::<Vec<_>>())
        .bind(rows().map(|(_, r)| r.message_id.clone()).collect::<Vec<_>>())
        .bind(rows().map(|(_, r)| r.body.clone()).collect::<Vec<_>>())
        .bind(rows().map(|(_, r)| r.body_sha256.clone()).collect::<Vec<_>>())
        .bind(rows().map(|(_, r)| r.principal.clone()).collect::<Vec<_>>())
        .bind(rows().map(|(_, r)| r.hash.clone()).collect::<Vec<_>>())
        .bind(write.at.0)
        .bind(checked)
        .bind(parts(write))
        .bind(json(&guards)?)
        .bind(write.erases))
}

/// The statement of a write with what is bound to it so far.
struct Bound {
    query: Query<'static, Postgres, PgArguments>,
    alone: bool,
}

impl Bound {
    /// The shortest statement that makes this write.
    fn new(write: &Sealed) -> Bound {
        let (statement, alone) = match write.before.as_slice() {
            [one] if one.expect == Expect::Absent => (sql::WRITE_NEW, true),
            [_] if !write.erases => (sql::WRITE_CHANGED, true),
            _ => (sql::WRITE, false),
        };
        Bound {
            query: sqlx::query(statement),
            alone,
        }
    }

    /// A column of the acts: of one act, its value.
    fn column<T>(mut self, mut values: Vec<T>) -> Bound
    where
        T: for<'q> Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + 'static,
        Vec<T>: for<'q> Encode<'q, Postgres> + Type<Postgres>,
    {
        let alone = if self.alone { values.pop() } else { None };
        self.query = match alone {
            Some(value) => self.query.bind(value),
            None => self.query.bind(values),
        };
        self
    }
}

/// The parts of the likenesses that this write may make twins of: those it looks for, and those of acts that it states
/// or claims, the two ways in which an act becomes one that counts. In order, so that nobody waits in a circle.
fn parts(write: &Sealed) -> Vec<String> {
    let looked_for = write.guards().map(|guard| guard.likeness.as_str());
    let counts = |a: &&Act| matches!(a.state(), State::Prepared | State::Executing);
    let made = write
        .acts
        .iter()
        .filter(counts)
        .filter_map(|a| a.likeness.as_deref());
    let part = |likeness: &str| likeness.chars().take(PART_DIGITS).collect();
    let parts: BTreeSet<String> = looked_for.chain(made).map(part).collect();
    parts.into_iter().collect()
}

fn all<T>(items: impl Iterator<Item = Result<T, StoreError>>) -> Result<Vec<T>, StoreError> {
    items.collect()
}

fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|e| StoreError::Down(format!("an act cannot be written as JSON: {e}")))
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Down(format!("{number} is out of range")))
}
