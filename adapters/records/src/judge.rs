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
fn not_made(rows: &[Row], swap: &Swap) -> String {
    match rows {
        [row] if row.acct.as_ref() == Some(&swap.prev) => format!(
            "the database did not make the change, though the row of {} stands as stated ({}): a trigger, a rule or a policy of \
             the table swallows it, or sql.change does not find the row that sql.read shows",
            swap.sup, swap.prev
        ),
        _ => format!(
            "the table does not have the stated account any more ({})",
            swap.prev
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordsConfig;
    use crate::callback::{Callback, Earlier};
    use crate::wire::tests::{at, swap};

    const ASKED: &str = "20261002T0900Z";

    fn act() -> ActId {
        ActId::new(at(ASKED), [1; 10])
    }

    fn row(acct: &str) -> Row {
        let swap = swap(ASKED);
        Row {
            sup: swap.sup,
            acct: Some(acct.to_owned()),
            eff: Some(swap.eff),
            apref: Some(swap.apref),
            ..Row::default()
        }
    }

    fn recorded() -> Recorded {
        let swap = swap(ASKED);
        Recorded {
            sup: swap.sup,
            prev: swap.prev,
            acct: swap.acct,
            eff: Some(swap.eff),
            apref: Some(swap.apref),
        }
    }

    fn judged(changed: u64, rows: &[Row], recorded: Option<Recorded>, calls: Option<&Calls>) -> Judged {
        let config = RecordsConfig::default().checked();
        let shown = Shown {
            changed,
            rows,
            recorded,
            calls,
            now: at("20261002T1000Z"),
        };
        judge(
            shown,
            act(),
            &swap(ASKED),
            &config.unwrap_or_else(|e| panic!("{e}")),
        )
    }

    fn why_not(judged: Judged) -> String {
        match judged {
            Judged::Not(text) => text,
            other => panic!("it may stand: {other:?}"),
        }
    }

    #[test]
    fn only_what_was_stated_stands() {
        let (new, old) = (row(&swap(ASKED).acct), row(&swap(ASKED).prev));
        let one = std::slice::from_ref(&new);
        assert_eq!(
            judged(1, one, Some(recorded()), None),
            Judged::Stands(recorded(), None)
        );
        assert_eq!(judged(0, one, Some(recorded()), None), Judged::Before(recorded()));
        let two = [new.clone(), new.clone()];
        for (changed, rows, ours, words) in [
            (2, one, Some(recorded()), "2 rows were changed for marlow"),
            (1, two.as_slice(), Some(recorded()), "has 2 in the table"),
            (1, &[], Some(recorded()), "has 0 in the table"),
            (1, one, None, "left no row with our reference"),
            (
                1,
                std::slice::from_ref(&old),
                Some(recorded()),
                "would show acct as",
            ),
            (
                0,
                std::slice::from_ref(&old),
                None,
                "did not make the change, though the row of marlow stands",
            ),
            (0, one, None, "does not have the stated account any more"),
            (0, &[], None, "does not have the stated account any more"),
        ] {
            let text = why_not(judged(changed, rows, ours, None));
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_call_back_must_be_there_and_be_used_up_by_the_row() {
        let some = |t: &str| Some(t.to_owned());
        let mut calls = Calls {
            rows: vec![Callback {
                by: some("j.smith"),
                at: some("2026-10-02 09:30:00"),
            }],
            acts: vec![Earlier {
                reference: act().to_string(),
                at: some("2026-10-02T09:30:00.000Z"),
            }],
            now: at("20261002T1000Z"),
        };
        let new = [row(&swap(ASKED).acct)];
        let by = |judged| match judged {
            Judged::Stands(_, called) => called.map(|c| c.by),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            by(judged(1, &new, Some(recorded()), Some(&calls))),
            some("j.smith")
        );
        for time in [some("2026-10-02T09:29:59.999Z"), some("now"), None] {
            calls.acts[0].at = time;
            let text = why_not(judged(1, &new, Some(recorded()), Some(&calls)));
            assert!(text.contains("must be written as :at"), "{text}");
        }
        calls.rows.clear();
        let text = why_not(judged(1, &new, Some(recorded()), Some(&calls)));
        assert!(text.contains("not recorded any more"), "{text}");
    }
}
