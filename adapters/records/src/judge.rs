//! What came of a change, from what the database shows inside the transaction. Pure: both databases are judged here, and
//! their clients only ask and tell.

use wilco_core::{ActId, Timestamp};

use crate::callback::{Called, Calls, counts, used_by_own_row};
use crate::config::Checked;
use crate::wire::{Recorded, Row, Swap};

/// What the transaction shows, before COMMIT.
pub(crate) struct Shown<'a> {
    /// How many rows the change says it changed.
    pub changed: u64,
    /// The vendor's rows.
    pub rows: &'a [Row],
    /// The row with our reference.
    pub recorded: Option<Recorded>,
    /// Where a call-back is required.
    pub calls: Option<&'a Calls>,
    /// Our clock.
    pub now: Timestamp,
}

/// What is to become of the transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// As stated: it may be committed. The call-back, where one is required.
    Stands(Recorded, Option<Called>),
    /// It was made by an earlier sending.
    Before(Recorded),
    /// It must be rolled back.
    Not(String),
}

/// Judges a change.
pub(crate) fn judge(shown: Shown<'_>, act: ActId, swap: &Swap, config: &Checked) -> Judged {
    if shown.changed == 0 {
        return match shown.recorded {
            Some(recorded) => Judged::Before(recorded),
            None => Judged::Not(not_made(shown.rows, swap)),
        };
    }
    let (1, [row]) = (shown.changed, shown.rows) else {
        return Judged::Not(format!(
            "{} rows were changed for {}, which has {} in the table: both must be one; nothing was changed",
            shown.changed,
            swap.sup,
            shown.rows.len()
        ));
    };
    let Some(recorded) = shown.recorded else {
        let text =
            "sql.change left no row with our reference: it must write the row for :ref; nothing was changed";
        return Judged::Not(text.to_owned());
    };
    if let Some(text) = swap.differs(row, &recorded, config.shows_eff, config.shows_apref) {
        return Judged::Not(format!("{text}; nothing was changed"));
    }
    let Some(calls) = shown.calls else {
        return Judged::Stands(recorded, None);
    };
    match counts(calls, act, swap, shown.now) {
        Ok(called) if used_by_own_row(calls, act, &called) => Judged::Stands(recorded, Some(called)),
        Ok(_) => Judged::Not(
            "the row with our reference does not show the time of the change, so the call-back could be used again: its \
             column at must be written as :at; nothing was changed"
                .to_owned(),
        ),
        Err(why) => {
            let why = why.map(|w| format!(" ({w})")).unwrap_or_default();
            Judged::Not(format!(
                "the call-back is not recorded any more{why}; nothing was changed"
            ))
        }
    }
}

/// Words for a change that changed no row.
fn not_made(_rows: &[Row], swap: &Swap) -> String {
    format!(
        "the table does not have the stated account any more ({})",
        swap.prev
    )
}
