//! Prepare at the bank: look the payee up, place the consent, and state what the bank froze.

use time::{Date, OffsetDateTime};
use wilco_adapter::zone::on_line;
use wilco_adapter::{Job, ResolveError};
use wilco_core::Resolved;
use wilco_core::frozen::{FrozenValue, Request, Source};

use crate::BankAdapter;
use crate::client::PayeeError;
use crate::day;
use crate::wire::{self, Complaint, Consent, ConsentStanding, Form, Kind, Order, Payee, clean};

/// Slots taken from the handoff because no bank knows them. The done report carries them.
pub(crate) const CARRIED: [&str; 3] = ["sup", "kind", "apref"];

pub(crate) async fn resolve(bank: &BankAdapter, job: &Job) -> Result<Resolved, ResolveError> {
    let asked = Asked::read(job)?;
    let payee = payee(bank, asked.sup).await?;
    let cop = confirmation(bank, &payee).await?;
    let consent = agreed(bank, job, &asked, &payee).await?;
    let day = payment_day(bank, &consent)?;
    let values = values(job, &asked, &payee, &consent, day)?;
    let mut notes = vec![format!("payee: {}", clean(&payee.name, 80))];
    let mut extra = Vec::new();
    match &consent.debtor {
        Some(debtor) => extra.push(("x_dbtr".to_owned(), debtor.clone())),
        None => return Err(passing("the bank's consent does not show which account pays")),
    }
    if let Some(result) = cop {
        // It was asked of the register's account. If the bank froze another, the answer says nothing about that one.
        if consent.shown.acct.as_deref() == Some(payee.account.on_line().as_str()) {
            extra.push(("x_cop".to_owned(), result.to_owned()));
        } else {
            notes.push(
                "confirmation of payee was asked of the register's account, not of this one".to_owned(),
            );
        }
    }
    let scheduled = consent.form.kind == Kind::Scheduled;
    if scheduled {
        extra.push(("x_sched".to_owned(), "Y".to_owned()));
        notes.push(format!(
            "scheduled: done means that the order stands at the bank, which is to pay it on {}",
            on_line(day)
        ));
    }
    let authorise_at = authorise_at(bank, &consent)?;
    let zone = bank.config.zone;
    let cut_off = match consent.cut_off {
        Some(at) => wilco_core::Timestamp::from_datetime(at),
        None if scheduled => zone.end_of(day.saturating_sub(time::Duration::DAY)),
        None => zone.end_of(zone.date_of(consent.created)),
    };
    let body = wire::payment_request(&consent);
    Ok(Resolved {
        values,
        extra,
        request: Request {
            method: "POST".to_owned(),
            path: consent.form.payments(),
            key: wire::payment_key(job.act_id, &body),
            body,
        },
        placed: Some(consent.id),
        cut_off: Some(cut_off),
        authorise_at,
        notes,
    })
}

/// What the handoff must say before a bank can be asked anything.
struct Asked<'a> {
    sup: &'a str,
    amt: &'a str,
    cur: &'a str,
    reference: &'a str,
    /// The day to pay on; without it, the bank's today.
    paid: Option<Date>,
}

impl<'a> Asked<'a> {
    fn read(job: &'a Job) -> Result<Asked<'a>, ResolveError> {
        let known = ["amt", "cur", "acct", "paid", "ref"];
        let unknown = |slot: &&String| !known.contains(&slot.as_str()) && !CARRIED.contains(&slot.as_str());
        if let Some(slot) = job.exec.iter().find(unknown) {
            return Err(refused(
                "NOCTX",
                format!("slot {slot}: no bank can state it, and this adapter does not know it"),
            ));
        }
        let needed = |slot: &str| {
            let missing = || {
                refused(
                    "NOCTX",
                    format!("slot {slot} is missing, and neither bank nor payee register has it"),
                )
            };
            job.slot(slot).ok_or_else(missing)
        };
        for slot in job.exec.iter().filter(|s| CARRIED.contains(&s.as_str())) {
            needed(slot)?;
        }
        let asked = Asked {
            sup: needed("sup")?,
            amt: needed("amt")?,
            cur: needed("cur")?,
            reference: needed("ref")?,
            paid: day::asked(job)?,
        };
        if !wire::amount_can_be_asked(asked.amt) {
            let rule =
                "an amount above zero with two decimals and at most 13 digits before the point is payable";
            return Err(refused(
                "SCOPE",
                format!("slot amt: {} is not; {rule}", clean(asked.amt, 30)),
            ));
        }
        if asked.cur.len() != 3 || !asked.cur.bytes().all(|b| b.is_ascii_uppercase()) {
            return Err(refused(
                "SCOPE",
                format!("slot cur: {} is no ISO 4217 code", clean(asked.cur, 10)),
            ));
        }
        let length = asked.reference.chars().count();
        if !(1..=35).contains(&length) {
            let rule = "Open Banking allows 1 to 35 characters (EndToEndIdentification)";
            return Err(refused(
                "SCOPE",
                format!("slot ref has {length} characters, {rule}"),
            ));
        }
        Ok(asked)
    }
}

async fn payee(bank: &BankAdapter, sup: &str) -> Result<Payee, ResolveError> {
    match bank.client.payee(sup).await {
        Ok(payee) => Ok(payee),
        Err(PayeeError::Unknown) => Err(refused(
            "NOCTX",
            format!("slot sup: the payee register has no entry for {}", clean(sup, 60)),
        )),
        Err(PayeeError::Passing(text)) => Err(passing(&format!("the payee register: {text}"))),
    }
}

/// Asked before the consent, so that a payee who is not who they seem to be leaves nothing at the bank.
async fn confirmation(bank: &BankAdapter, payee: &Payee) -> Result<Option<&'static str>, ResolveError> {
    let result = match bank.client.confirm(payee).await {
        None => return Ok(None),
        Some(Ok(result)) => result,
        Some(Err(text)) => {
            tracing::warn!(%text, "confirmation of payee did not answer");
            "unavailable"
        }
    };
    let let_through =
        matches!(result, "match" | "close_match") || bank.config.allow_cop.iter().any(|w| w == result);
    if let_through {
        return Ok(Some(result));
    }
    let who = format!("{} at {}", clean(&payee.name, 80), payee.account.on_line());
    Err(match result {
        "no_match" => refused("PERM", format!("confirmation of payee: no_match for {who}")),
        _ => refused("NOCTX", format!("confirmation of payee: unavailable for {who}")),
    })
}

/// Places the consent of the kind that the day asks for. Whether a day is today only the bank knows, and it says so with
/// a consent. Ours is a guess, and where our clocks differ it leaves a consent that nobody uses.
async fn agreed(
    bank: &BankAdapter,
    job: &Job,
    asked: &Asked<'_>,
    payee: &Payee,
) -> Result<Consent, ResolveError> {
    let zone = bank.config.zone;
    let kind_on = |today: Date| day::kind(asked.paid, today, bank.config.scheduled);
    let ours = OffsetDateTime::from_unix_timestamp(job.now.0.div_euclid(1_000_000));
    let ours = ours.ok().and_then(|now| kind_on(zone.date_of(now)).ok());
    let mut kind = ours.unwrap_or(Kind::Domestic);
    let mut declined = None;
    for _ in 0..2 {
        let consent = match place(bank, job, asked, payee, kind).await? {
            Placed::Consent(consent) => *consent,
            // A day that is no day to come at the bank may be its today, when our clock is behind: ask for that.
            Placed::DayDeclined(why) => {
                kind = Kind::Domestic;
                declined = Some(why);
                continue;
            }
        };
        let today = zone.date_of(consent.created);
        let wanted = kind_on(today).map_err(|text| refused("SCOPE", text))?;
        if wanted == kind {
            return Ok(consent);
        }
        kind = wanted;
    }
    Err(declined.unwrap_or_else(|| passing("the bank's day changed while the consent was placed")))
}

/// What came of asking for a consent.
enum Placed {
    Consent(Box<Consent>),
    /// The bank does not take the day of a scheduled payment: the refusal, should it stay one.
    DayDeclined(ResolveError),
}

/// The day the payment is made on, as the bank's consent says it.
fn payment_day(bank: &BankAdapter, consent: &Consent) -> Result<Date, ResolveError> {
    let at = match consent.form.kind {
        Kind::Domestic => consent.execute_at.unwrap_or(consent.created),
        Kind::Scheduled => consent
            .execute_at
            .ok_or_else(|| passing("the bank's consent does not show when the payment is to be made"))?,
    };
    Ok(bank.config.zone.date_of(at))
}

async fn place(
    bank: &BankAdapter,
    job: &Job,
    asked: &Asked<'_>,
    payee: &Payee,
    kind: Kind,
) -> Result<Placed, ResolveError> {
    let form = Form {
        version: bank.config.version,
        kind,
    };
    let execute_at = match kind {
        Kind::Domestic => None,
        Kind::Scheduled => asked.paid.map(|day| day::noon_of(bank.config.zone, day)),
    };
    let body = wire::consent_request(&Order {
        form,
        act_id: job.act_id,
        amount: asked.amt,
        currency: asked.cur,
        debtor: &bank.config.debtor,
        payee,
        reference: asked.reference,
        payment_context: &bank.config.payment_context,
        execute_at,
    });
    let key = wire::consent_key(job.act_id, job.attempt, &body);
    let answer = bank.client.post(&form.consents(), &body, &key).await;
    let answer = answer.map_err(|e| passing(&format!("the bank: {e}")))?;
    let consent = match answer.status {
        201 => wire::consent_answer(&answer.body, form)
            .map_err(|e| passing(&format!("the bank's consent: {e}")))?,
        400 => {
            let complaint = Complaint::read(&answer.body);
            let about_the_day = complaint.as_ref().is_some_and(Complaint::is_about_the_day);
            let refusal = consent_refused(complaint);
            return match kind {
                Kind::Scheduled if about_the_day => Ok(Placed::DayDeclined(refusal)),
                _ => Err(refusal),
            };
        }
        status => {
            let said = Complaint::read(&answer.body)
                .map(|c| format!(", {}", c.text))
                .unwrap_or_default();
            return Err(passing(&format!(
                "the bank answers {status} to the consent{said}"
            )));
        }
    };
    if consent.shown.instruction_id.as_deref() != Some(job.act_id.to_string().as_str()) {
        return Err(passing(
            "the bank's consent does not carry our InstructionIdentification: it is about something else",
        ));
    }
    Ok(Placed::Consent(Box::new(consent)))
}

fn consent_refused(complaint: Option<Complaint>) -> ResolveError {
    match complaint {
        Some(complaint) => {
            let why = if complaint.is_unsupported() {
                "NOCAP"
            } else {
                "SCOPE"
            };
            refused(why, format!("the bank refuses the consent: {}", complaint.text))
        }
        None => passing("the bank answers 400 to the consent without its error body"),
    }
}

/// A value for every execution slot, in the profile's order.
fn values(
    job: &Job,
    asked: &Asked<'_>,
    payee: &Payee,
    consent: &Consent,
    day: Date,
) -> Result<Vec<FrozenValue>, ResolveError> {
    let shown = &consent.shown;
    let by_bank = |slot: &str, value: &Option<String>, field: &str| match value {
        Some(value) => Ok((
            value.clone(),
            Source::Resolved,
            format!("the bank's consent {}, {field}", consent.id),
        )),
        None => Err(passing(&format!(
            "the bank's consent shows no usable {field} (slot {slot})"
        ))),
    };
    let one = |slot: &String| {
        let (value, source, evidence) = match slot.as_str() {
            "amt" => by_bank(slot, &shown.amt, "InstructedAmount.Amount")?,
            "cur" => by_bank(slot, &shown.cur, "InstructedAmount.Currency")?,
            "acct" => by_bank(slot, &shown.acct, "CreditorAccount")?,
            "ref" => by_bank(slot, &shown.reference, "EndToEndIdentification and Reference")?,
            "paid" => {
                let evidence = match consent.form.kind {
                    Kind::Domestic => format!("the bank's day, from consent {}", consent.id),
                    Kind::Scheduled => format!("the day of execution in the bank's consent {}", consent.id),
                };
                (on_line(day), Source::Resolved, evidence)
            }
            "sup" => {
                let evidence = format!("the handoff; payee register, entry {}: {}", asked.sup, payee.name);
                (asked.sup.to_owned(), Source::Handoff, evidence)
            }
            // `Asked::read` has refused the job if one of the others is missing.
            other => (
                job.slot(other).unwrap_or_default().to_owned(),
                Source::Handoff,
                "the handoff".to_owned(),
            ),
        };
        Ok(FrozenValue {
            slot: slot.clone(),
            value,
            source,
            evidence,
        })
    };
    job.exec.iter().map(one).collect()
}

fn authorise_at(bank: &BankAdapter, consent: &Consent) -> Result<Option<String>, ResolveError> {
    match consent.standing() {
        ConsentStanding::Authorised => Ok(None),
        ConsentStanding::Awaiting => {
            let ours = bank.config.authorise_url.as_ref();
            let ours = ours
                .zip(wire::segment(&consent.id))
                .map(|(url, id)| url.replace("{consent_id}", &id));
            Ok(ours.or_else(|| consent.authorise_at.clone()))
        }
        ConsentStanding::Rejected => Err(refused(
            "PERM",
            format!("the bank has the consent {} as {}", consent.id, consent.status),
        )),
        ConsentStanding::Consumed | ConsentStanding::Unlisted => Err(passing(&format!(
            "the bank's consent is {}, which cannot be used",
            clean(&consent.status, 40)
        ))),
    }
}

pub(crate) fn refused(why: &'static str, text: String) -> ResolveError {
    ResolveError::Refused { why, text }
}

fn passing(text: &str) -> ResolveError {
    ResolveError::Passing(text.to_owned())
}
