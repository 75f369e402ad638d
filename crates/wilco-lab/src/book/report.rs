//! The book as `GET /lab/book` serves it: every payment, and balances added up from the entries themselves.

use serde::Serialize;
use sqlx::{Row, SqliteConnection};

use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

use super::{Book, BookError, Payment, corrupt, payments};
use crate::{clock::Stamp, obie::Version, values::minor_format};

/// The whole book, read in one transaction.
#[derive(Debug, Clone, Serialize)]
pub struct BookReport {
    /// Every payment, in the order they were decided.
    pub payments: Vec<PaymentLine>,
    /// Every scheduled payment: orders that stand, were carried out on their day, or came to nothing.
    pub scheduled: Vec<ScheduledLine>,
    /// Every account; the balances sum to zero.
    pub accounts: Vec<AccountLine>,
}

/// One payment of the report.
#[derive(Debug, Clone, Serialize)]
pub struct PaymentLine {
    /// `EndToEndIdentification`
    pub reference: String,
    /// `InstructionIdentification`
    pub instruction_id: String,
    /// `x-idempotency-key`
    pub idempotency_key: String,
    /// `ConsentId`
    pub consent_id: String,
    /// `DomesticPaymentId`
    pub payment_id: String,
    /// Exact decimal with two places.
    pub amount: String,
    /// `GBP`
    pub currency: String,
    /// As `40-12-88/61102938`.
    pub creditor_account: String,
    /// As `20-00-00/55779911`.
    pub debtor_account: String,
    /// OBIE 3.1's word.
    pub status: &'static str,
    /// ISO's code, which says more.
    pub code: &'static str,
    /// RFC 3339, bank time; null for a payment that never moved money.
    pub booked_at: Option<String>,
}

/// One scheduled payment of the report.
#[derive(Debug, Clone, Serialize)]
pub struct ScheduledLine {
    /// As for any payment; `booked_at` is null until the money has moved.
    #[serde(flatten)]
    pub payment: PaymentLine,
    /// The bank's day on which it is to be paid, or was, `2026-10-05`.
    pub day: String,
}

/// One account of the report.
#[derive(Debug, Clone, Serialize)]
pub struct AccountLine {
    /// As `20-00-00/55779911`, or `opening`.
    pub account: String,
    /// The holder.
    pub name: String,
    /// `GBP`
    pub currency: String,
    /// Exact decimal with two places; negative only for `opening`.
    pub balance: String,
}

impl Book {
    /// Reads the whole book. A balance that its entries do not explain, or a book that does not sum to zero, is
    /// an error and not a report.
    pub async fn report(&self, now: &Stamp) -> Result<BookReport, BookError> {
        let mut desk = self.desk_at(now).await?;
        let report = read(desk.conn()).await;
        desk.finish(report).await
    }
}

async fn read(conn: &mut SqliteConnection) -> Result<BookReport, BookError> {
    let (mut paid, mut scheduled) = (Vec::new(), Vec::new());
    for payment in payments::all(conn).await? {
        match payment.execute_at.clone() {
            None => paid.push(line(payment)),
            Some(at) => {
                let at = OffsetDateTime::parse(&at, &Rfc3339)
                    .map_err(|_| corrupt("payment", "execute_at", payment.payment_id.clone()))?;
                scheduled.push(ScheduledLine {
                    day: at.to_offset(UtcOffset::UTC).date().to_string(),
                    payment: line(payment),
                });
            }
        }
    }
    Ok(BookReport {
        payments: paid,
        scheduled,
        accounts: accounts(conn).await?,
    })
}

fn line(payment: Payment) -> PaymentLine {
    PaymentLine {
        reference: payment.reference,
        instruction_id: payment.instruction_id,
        idempotency_key: payment.idempotency_key,
        consent_id: payment.consent_id,
        payment_id: payment.payment_id,
        amount: minor_format(payment.amount_minor),
        currency: payment.currency,
        creditor_account: payment.creditor.to_string(),
        debtor_account: payment.debtor.0.to_string(),
        status: payment.status.word_in(Version::V3, payment.form.kind),
        code: payment.status.code(),
        booked_at: payment.booked_at,
    }
}

async fn accounts(conn: &mut SqliteConnection) -> Result<Vec<AccountLine>, BookError> {
    let rows = sqlx::query(
        "SELECT a.account, a.name, a.currency, a.balance_minor, COALESCE(sum(e.amount_minor), 0) AS entries_minor \
         FROM account a LEFT JOIN entry e ON e.account = a.account GROUP BY a.seq ORDER BY a.seq",
    )
    .fetch_all(conn)
    .await?;
    let mut total = 0_i128;
    let mut lines = Vec::with_capacity(rows.len());
    for row in &rows {
        let account: String = row.try_get("account")?;
        let entries_minor: i64 = row.try_get("entries_minor")?;
        if entries_minor != row.try_get::<i64, _>("balance_minor")? {
            return Err(corrupt("account", "balance_minor", account));
        }
        total += i128::from(entries_minor);
        lines.push(AccountLine {
            account,
            name: row.try_get("name")?,
            currency: row.try_get("currency")?,
            balance: minor_format(entries_minor),
        });
    }
    if total != 0 {
        return Err(corrupt("entry", "amount_minor", "the sum of all entries"));
    }
    Ok(lines)
}
