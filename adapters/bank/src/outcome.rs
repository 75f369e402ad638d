//! What a bank's answer to a payment means for the act. Pure: an answer in, an outcome out.
//!
//! *Executed* and *rejected* are said only on words the standard lists for them. Everything else is unknown, and is
//! settled later by lookup.

use wilco_adapter::{Found, Outcome, Report};
use wilco_core::Frozen;

use crate::config::Zone;
use crate::wire::{self, Complaint, Payment, Standing, clean};

/// What the answer to the one order means.
pub(crate) fn of_order(status: u16, body: &[u8], frozen: &Frozen, zone: Zone) -> Outcome {
    match status {
        201 => match payment_of(body, frozen) {
            Ok(payment) => match wire::payment_standing(&payment.status) {
                Standing::Executed => Outcome::Executed(report(&payment, zone)),
                Standing::Accepted => Outcome::Accepted(report(&payment, zone)),
                Standing::Rejected => Outcome::Rejected(rejected(&payment)),
                Standing::Unlisted => Outcome::Unknown(unlisted(&payment)),
            },
            Err(text) => Outcome::Unknown(text),
        },
        // The request was turned away at the door or for what it says (OBIE R/W 3.1, HTTP status codes). Only with the
        // bank's own error body: a proxy's page proves nothing.
        400 | 401 | 403 | 405 | 406 | 415 => match Complaint::read(body) {
            Some(complaint) if status != 400 || complaint.proves_nothing_was_created() => Outcome::Rejected(
                format!("the bank refuses the order with {status}: {}", complaint.text),
            ),
            Some(complaint) => Outcome::Unknown(format!(
                "the bank answers {status}, {}, which leaves room for an order that exists",
                complaint.text
            )),
            None => Outcome::Unknown(format!("status {status} without the bank's error body")),
        },
        _ => Outcome::Unknown(format!("status {status} to the order")),
    }
}

/// What a read of the payment, or the replay of its order on a used consent, shows.
pub(crate) fn of_lookup(body: &[u8], frozen: &Frozen, zone: Zone) -> Found {
    match payment_of(body, frozen) {
        Ok(payment) => match wire::payment_standing(&payment.status) {
            Standing::Executed => Found::Executed(report(&payment, zone)),
            Standing::Accepted => Found::Accepted(report(&payment, zone)),
            Standing::Rejected => Found::Rejected(rejected(&payment)),
            Standing::Unlisted => Found::Unknown(unlisted(&payment)),
        },
        Err(text) => Found::Unknown(text),
    }
}

/// The bank's id of the payment, where the outcome shows one.
pub(crate) fn receipt_of(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Executed(report) | Outcome::Accepted(report) => report.receipt.as_deref(),
        _ => None,
    }
}

/// The payment in the answer, if it is the one of this act's consent.
fn payment_of(body: &[u8], frozen: &Frozen) -> Result<Payment, String> {
    let payment = wire::payment_answer(body).map_err(|e| e.to_string())?;
    if frozen.placed.as_deref() != Some(payment.consent_id.as_str()) {
        let other = clean(&payment.consent_id, 60);
        return Err(format!("the answer is about another consent, {other}"));
    }
    Ok(payment)
}

fn report(payment: &Payment, zone: Zone) -> Report {
    let mut values = payment.shown.pairs();
    values.push(("paid".to_owned(), on_line(zone.date_of(payment.created))));
    Report {
        values,
        receipt: Some(payment.id.clone()),
        status: payment.status.clone(),
        provisional: false,
    }
}

fn rejected(payment: &Payment) -> String {
    format!("the bank has payment {} as Rejected", clean(&payment.id, 60))
}

fn unlisted(payment: &Payment) -> String {
    format!(
        "payment {} has the status {}, which version 3.1 does not list",
        clean(&payment.id, 60),
        clean(&payment.status, 40)
    )
}

/// A date as a line writes it, `YYYYMMDD`.
pub(crate) fn on_line(date: time::Date) -> String {
    format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day())
}
