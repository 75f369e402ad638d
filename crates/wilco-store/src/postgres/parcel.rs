//! A write as `WRITE` takes it: its acts and rows, column by column.

use std::collections::BTreeSet;

use serde::Serialize;
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
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
    let mut changes: Vec<_> = write.changes.iter().zip(&write.acts).collect();
    changes.sort_by_key(|(_, act)| act.act_id);
    let was = |expect: Expect| match expect {
        Expect::Absent => 0,
        Expect::Version(version) => version,
    };
    let was_head = |(change, _): &(&wilco_core::Change, &Act)| match change.expect {
        Expect::Absent => String::new(),
        Expect::Version(_) => change.act.head.clone(),
    };
    let acts = || changes.iter().map(|(_, act)| *act);
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

    let guards = write.changes.iter().filter_map(|c| c.unless_twin.as_ref());
    let guards: Vec<_> = guards.map(|guard| GuardOut::new(0, guard, write.at)).collect();

    Ok(sqlx::query(sql::WRITE)
        .bind(acts().map(|a| a.act_id.to_string()).collect::<Vec<_>>())
        .bind(
            changes
                .iter()
                .map(|(c, _)| signed(was(c.expect)))
                .collect::<Result<Vec<_>, _>>()?,
        )
        .bind(changes.iter().map(was_head).collect::<Vec<_>>())
        .bind(texts(|a| &a.thread))
        .bind(texts(|a| &a.handoff.id))
        .bind(count(|a| a.version)?)
        .bind(texts(|a| a.state().as_str()))
        .bind(texts(|a| &a.handoff.line))
        .bind(texts(|a| &a.handoff.sender))
        .bind(texts(|a| &a.handoff.receiver))
        .bind(texts(|a| &a.handoff.item))
        .bind(texts(|a| &a.handoff.ask))
        .bind(texts(|a| &a.handoff.profile))
        .bind(texts(|a| &a.principal))
        .bind(numbers(|a| i64::from(a.attempt)))
        .bind(numbers(|a| a.created_at.0))
        .bind(acts().map(|a| a.due_at().map(|at| at.0)).collect::<Vec<_>>())
        .bind(numbers(|a| a.limit.0))
        .bind(count(|a| a.seq)?)
        .bind(texts(|a| &a.head))
        .bind(numbers(|a| i64::from(a.lines)))
        .bind(numbers(|a| i64::from(a.long_ids)))
        .bind(maybe(|a| a.undo_of.map(|id| id.to_string())))
        .bind(maybe(|a| a.likeness.clone()))
        .bind(maybe(|a| a.released_by.clone()))
        .bind(maybe(|a| a.offer().map(|o| o.frozen.profile_digest.clone())))
        .bind(all(
            acts().map(|a| a.offer().map(|o| json(&o.frozen.contract)).transpose())
        )?)
        .bind(all(acts().map(|a| json(&a.tokens)))?)
        .bind(all(acts().map(|a| json(&a.waiting)))?)
        .bind(all(acts().map(|a| json(&a.stage)))?)
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

/// The parts of the likenesses that this write may make twins of: those it looks for, and those of acts that it states
/// or claims, the two ways in which an act becomes one that counts. In order, so that nobody waits in a circle.
fn parts(write: &Sealed) -> Vec<String> {
    let looked_for = write.changes.iter().filter_map(|c| c.unless_twin.as_ref());
    let looked_for = looked_for.map(|guard| guard.likeness.as_str());
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
