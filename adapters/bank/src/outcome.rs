//! What a bank's answer to a payment means for the act. Pure: an answer in, an outcome out.
//!
//! *Executed* and *rejected* are said only on words the standard lists for them. Everything else is unknown, and is
//! settled later by lookup.

use wilco_adapter::zone::{Zone, on_line};
use wilco_adapter::{Found, Outcome, Report};
use wilco_core::Frozen;

use crate::wire::{self, Complaint, DoneAt, Form, Payment, Standing, clean};

/// What an answer is read with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// How the act was prepared.
    pub form: Form,
    pub zone: Zone,
    pub done_at: DoneAt,
}

impl Reading {
    /// What the answer to the one order means.
    pub fn of_order(self, status: u16, body: &[u8], frozen: &Frozen) -> Outcome {
        match status {
            201 => match self.payment(body, frozen) {
                Ok(payment) => match self.form.standing(&payment.status, self.done_at) {
                    Standing::Executed { provisional } => {
                        Outcome::Executed(self.report(&payment, provisional))
                    }
                    Standing::Accepted => Outcome::Accepted(self.report(&payment, false)),
                    Standing::Rejected => Outcome::Rejected(rejected(&payment)),
                    Standing::Blocked => Outcome::Unknown(blocked(&payment)),
                    Standing::Unlisted => Outcome::Unknown(self.unlisted(&payment)),
                },
                Err(text) => Outcome::Unknown(text),
            },
            // The request was turned away at the door or for what it says (OBIE R/W, HTTP status codes). Only with the
            // bank's own error body: a proxy's page proves nothing.
            400 | 401 | 403 | 405 | 406 | 415 => match Complaint::read(body) {
                Some(complaint)
                    if complaint.proves_nothing_was_created()
                        || (status != 400 && !complaint.speaks_of_an_order()) =>
                {
                    Outcome::Rejected(format!(
                        "the bank refuses the order with {status}: {}",
                        complaint.text
                    ))
                }
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
    pub fn of_lookup(self, body: &[u8], frozen: &Frozen) -> Found {
        match self.payment(body, frozen) {
            Ok(payment) => match self.form.standing(&payment.status, self.done_at) {
                Standing::Executed { provisional } => Found::Executed(self.report(&payment, provisional)),
                Standing::Accepted => Found::Accepted(self.report(&payment, false)),
                Standing::Rejected => Found::Rejected(rejected(&payment)),
                Standing::Blocked => Found::Exists(blocked(&payment)),
                Standing::Unlisted => Found::Unknown(self.unlisted(&payment)),
            },
            Err(text) => Found::Unknown(text),
        }
    }

    /// The payment in the answer, if it is the one of this act's consent.
    fn payment(self, body: &[u8], frozen: &Frozen) -> Result<Payment, String> {
        let payment = wire::payment_answer(body, self.form).map_err(|e| e.to_string())?;
        if frozen.placed.as_deref() != Some(payment.consent_id.as_str()) {
            let other = clean(&payment.consent_id, 60);
            return Err(format!("the answer is about another consent, {other}"));
        }
        Ok(payment)
    }

    fn report(self, payment: &Payment, provisional: bool) -> Report {
        let mut values = payment.shown.pairs();
        // The day the bank makes it on. At once means when it was ordered; of a scheduled one there is no day to guess.
        let paid = match self.form.kind {
            wire::Kind::Domestic => Some(payment.execute_at.unwrap_or(payment.created)),
            wire::Kind::Scheduled => payment.execute_at,
        };
        values.extend(paid.map(|at| ("paid".to_owned(), on_line(self.zone.date_of(at)))));
        Report {
            values,
            receipt: Some(payment.id.clone()),
            status: payment.status.clone(),
            provisional,
        }
    }

    fn unlisted(self, payment: &Payment) -> String {
        format!(
            "payment {} has the status {}, which version {} does not list for it",
            clean(&payment.id, 60),
            clean(&payment.status, 40),
            self.form.version.word()
        )
    }
}

/// The bank's id of the payment, where the outcome shows one.
pub(crate) fn receipt_of(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Executed(report) | Outcome::Accepted(report) => report.receipt.as_deref(),
        _ => None,
    }
}

fn rejected(payment: &Payment) -> String {
    format!(
        "the bank has payment {} as {}",
        clean(&payment.id, 60),
        clean(&payment.status, 40)
    )
}

fn blocked(payment: &Payment) -> String {
    format!(
        "the bank has payment {} as {}: the money is neither posted to the payee nor returned; ask the bank",
        clean(&payment.id, 60),
        clean(&payment.status, 40)
    )
}
