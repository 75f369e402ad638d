//! Prepare: what stands in the table now, and what would stand there after.

use wilco_adapter::zone::{from_line, on_line};
use wilco_adapter::{Job, ResolveError, Undone};
use wilco_core::Resolved;
use wilco_core::frozen::{FrozenValue, Request, Source};

use crate::config::Checked;
use crate::wire::{Row, Swap, begun_at, clean, is_account, stands_on_line};
use crate::{CHGBANK, RecordsAdapter, UNDO};

/// The slots this adapter can state.
const KNOWN: [&str; 5] = ["sup", "acct", "eff", "apref", "prev"];

/// One value, where it is from, and who says so.
type Stated = (String, Source, String);

/// The change a job asks for, before the table was asked.
struct Asked {
    sup: String,
    acct: Stated,
    apref: Stated,
    /// What must stand in the table, where the job says it.
    prev: Option<Expected>,
}

/// The account that a job takes to be on file.
struct Expected {
    acct: String,
    otherwise: String,
}

pub(crate) async fn resolve(records: &RecordsAdapter, job: &Job) -> Result<Resolved, ResolveError> {
    let config = &records.config;
    if let Some(slot) = job.exec.iter().find(|s| !KNOWN.contains(&s.as_str())) {
        let text = format!("slot {}: a vendor table cannot state it", clean(slot, 30));
        return Err(refused("NOCTX", text));
    }
    let asked = match (job.profile.as_str(), job.ask.as_str(), &job.undo) {
        ("pay", CHGBANK, _) => change(job, config)?,
        ("pay", UNDO, Some(undone)) => reversal(job, undone)?,
        _ => {
            let text = format!(
                "a vendor table changes bank details (ask=CHGBANK) and reverses that, it has no ask={}",
                clean(&job.ask, 30)
            );
            return Err(refused("NOCAP", text));
        }
    };
    let eff = effective(job, config)?;
    let seen = records.client.read(&asked.sup).await;
    let seen = seen.map_err(|text| ResolveError::Passing(format!("the vendor table: {text}")))?;
    let (row, prev) = on_file(&asked.sup, &seen.rows, config)?;
    if let Some(expected) = asked.prev.filter(|e| e.acct != prev) {
        let text = format!("{}; the table has {prev}", expected.otherwise);
        return Err(refused("CONFLICT", text));
    }
    if asked.acct.0 == prev {
        let text = format!("slot acct: {prev} is what is on file for {} already", asked.sup);
        return Err(refused("CONFLICT", text));
    }

    let swap = Swap {
        ask: job.ask.clone(),
        sup: row.sup.clone(),
        prev: prev.clone(),
        acct: asked.acct.0.clone(),
        eff: eff.0.clone(),
        apref: asked.apref.0.clone(),
        // An id made by a clock that ran ahead does not put the call-back off.
        asked_at: begun_at(job.act_id).min(job.now),
        callback: config.callback,
        name: row.name.as_deref().map(|n| clean(n, 80)),
        phone: row.phone.as_deref().map(|p| clean(p, 40)),
        database: seen.database,
        statements: config.statements.digest(),
    };
    let table = format!("vendor table {}, row {}", config.table.shown(), row.sup);
    let who = swap.name.as_deref().unwrap_or("no name on file");
    let value = |slot: &String| {
        let (value, source, evidence) = match slot.as_str() {
            "sup" => (row.sup.clone(), Source::Resolved, format!("{table}: {who}")),
            "acct" => asked.acct.clone(),
            "eff" => eff.clone(),
            "apref" => asked.apref.clone(),
            _ => (prev.clone(), Source::Resolved, format!("{table}, column acct")),
        };
        FrozenValue {
            slot: slot.clone(),
            value,
            source,
            evidence,
        }
    };
    let mut notes = vec![format!("supplier: {who}")];
    if eff.0 != on_line(config.zone.date_at(job.now)) {
        notes.push(format!(
            "the account is replaced at once; eff={} is noted in the row, nothing waits for that day",
            eff.0
        ));
    }
    let mut extra = Vec::new();
    if config.callback {
        extra.push(("x_callback".to_owned(), "required".to_owned()));
        notes.push(format!(
            "a call-back is required (CALLBACK): {}; nothing changes before it is recorded",
            records.ring(&swap)
        ));
    }
    Ok(Resolved {
        values: job.exec.iter().map(value).collect(),
        extra,
        request: Request {
            method: "SWAP".to_owned(),
            path: config.table.shown(),
            body: swap.body(),
            key: job.act_id.to_string(),
        },
        placed: None,
        // What says "from today" must not be done tomorrow, nor what says "from Monday" on Tuesday.
        cut_off: from_line(&eff.0).map(|date| config.zone.end_of(date)),
        authorise_at: None,
        notes,
    })
}

/// `CHGBANK`, as the handoff asks it.
fn change(job: &Job, config: &Checked) -> Result<Asked, ResolveError> {
    let needed = |slot: &str| {
        let value = job.slot(slot);
        let value = value.ok_or_else(|| refused("NOCTX", format!("slot {slot} is missing")))?;
        stands_on_line(value).map_err(|rule| refused("SCOPE", format!("slot {slot}: {rule}")))?;
        Ok(value.to_owned())
    };
    let acct = needed("acct")?;
    is_account(&acct, config.accounts).map_err(|rule| {
        let text = format!("slot acct: {} {rule}", clean(&acct, 40));
        refused("SCOPE", text)
    })?;
    let prev = job.slot("prev").map(|prev| Expected {
        acct: prev.to_owned(),
        otherwise: format!("slot prev: {} is not on file", clean(prev, 40)),
    });
    Ok(Asked {
        sup: needed("sup")?,
        acct: (
            acct,
            Source::Handoff,
            "the handoff: the change asked for".to_owned(),
        ),
        apref: (needed("apref")?, Source::Handoff, "the handoff".to_owned()),
        prev,
    })
}

/// `UNDO`: the swap the other way, if the row still stands as the act left it.
fn reversal(job: &Job, undone: &Undone) -> Result<Asked, ResolveError> {
    if undone.ask != CHGBANK || undone.frozen.adapter != crate::NAME {
        let text = format!(
            "act {} is no change of bank details that was made here, so there is nothing to reverse",
            undone.act_id
        );
        return Err(refused("NOCAP", text));
    }
    let executed = |slot: &str| {
        let reported = undone.executed.iter().find(|(key, _)| key == slot);
        let value = reported
            .map(|(_, v)| v.as_str())
            .or_else(|| undone.frozen.value(slot));
        let missing = || format!("act {} does not say which {slot} it was done with", undone.act_id);
        value
            .map(str::to_owned)
            .ok_or_else(|| refused("NOCTX", missing()))
    };
    let (sup, acct) = (executed("sup")?, executed("acct")?);
    if let Some(other) = job.slot("sup").filter(|s| *s != sup) {
        let text = format!(
            "slot sup: act {} was about {sup}, not {}",
            undone.act_id,
            clean(other, 40)
        );
        return Err(refused("CONFLICT", text));
    }
    let old = executed("prev")?;
    if let Some(other) = job.slot("acct").filter(|a| *a != old) {
        let text = format!(
            "slot acct: reversing act {} restores {old}, not {}",
            undone.act_id,
            clean(other, 40)
        );
        return Err(refused("CONFLICT", text));
    }
    let by = format!("act {}, as executed: what it replaced", undone.act_id);
    let apref = match job.slot("apref") {
        Some(apref) => {
            stands_on_line(apref).map_err(|rule| refused("SCOPE", format!("slot apref: {rule}")))?;
            (apref.to_owned(), Source::Handoff, "the handoff".to_owned())
        }
        None => {
            let by = format!("act {}, which it reverses", undone.act_id);
            (executed("apref")?, Source::Resolved, by)
        }
    };
    Ok(Asked {
        prev: Some(Expected {
            otherwise: format!(
                "act {} set {sup} to {acct}, and the row has moved on since: it cannot be reversed, only changed again",
                undone.act_id
            ),
            acct,
        }),
        sup,
        acct: (old, Source::Resolved, by),
        apref,
    })
}

/// The day from which the change counts.
fn effective(job: &Job, config: &Checked) -> Result<Stated, ResolveError> {
    let today = config.zone.date_at(job.now);
    let Some(asked) = job.slot("eff") else {
        let by = "nobody named a day: the one on which it is done".to_owned();
        return Ok((on_line(today), Source::Resolved, by));
    };
    let date = from_line(asked).ok_or_else(|| {
        let text = format!("slot eff: {} is no date, YYYYMMDD is", clean(asked, 20));
        refused("SCOPE", text)
    })?;
    if date < today {
        let text = format!("slot eff: {asked} is over, today is {}", on_line(today));
        return Err(refused("SCOPE", text));
    }
    if date > today && !config.shows_eff {
        let text = format!(
            "slot eff: {asked} is to come, and the vendor table has no column for an effective date; only today ({}) can \
             be done",
            on_line(today)
        );
        return Err(refused("SCOPE", text));
    }
    Ok((asked.to_owned(), Source::Handoff, "the handoff".to_owned()))
}

/// The one row for the supplier, and the account in it.
fn on_file<'a>(sup: &str, rows: &'a [Row], config: &Checked) -> Result<(&'a Row, String), ResolveError> {
    let table = config.table.shown();
    let row = match rows {
        [] => {
            let text = format!(
                "slot sup: the vendor table {table} has no row for {}",
                clean(sup, 60)
            );
            return Err(refused("NOCTX", text));
        }
        [row] => row,
        _ => {
            let text = format!(
                "slot sup: the vendor table {table} has more than one row for {}",
                clean(sup, 60)
            );
            return Err(refused("CONFLICT", text));
        }
    };
    if row.sup != sup {
        let text = format!(
            "slot sup: the vendor table {table} writes it {}",
            clean(&row.sup, 60)
        );
        return Err(refused("NOCTX", text));
    }
    let acct = row.acct.clone().unwrap_or_default();
    if acct.is_empty() {
        let text = format!(
            "slot prev: {} has no account on file, so there is none to replace",
            row.sup
        );
        return Err(refused("NOCTX", text));
    }
    if let Err(rule) = stands_on_line(&acct) {
        let text = format!("slot prev: the account on file for {} {rule}", row.sup);
        return Err(refused("NOCTX", text));
    }
    Ok((row, acct))
}

fn refused(why: &'static str, text: String) -> ResolveError {
    ResolveError::Refused { why, text }
}
