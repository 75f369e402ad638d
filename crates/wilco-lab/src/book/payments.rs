//! Payments: decided once, in one transaction that consumes the consent, records the payment and moves the money. A
//! scheduled one is recorded the same way, and its money moves on its day, in a transaction of its own.

use serde_json::Value;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    Book, BookError, ConsentStatus, KeyUse, PaymentStatus, Refusal, account_column, account_open, consents,
    corrupt, json_column, keys, transfer,
};
use crate::{
    clock::Stamp,
    fault::Endpoint,
    obie::{Distortion, Form, Instruction, Kind, Version},
    values::AccountNo,
};

/// A payment order, already checked for form.
#[derive(Debug, Clone)]
pub struct PaymentOrder {
    /// The version and kind it is written in.
    pub form: Form,
    /// The key it came with.
    pub key: KeyUse,
    /// `Data.ConsentId`
    pub consent_id: String,
    /// `Data.Initiation` as sent.
    pub initiation: Value,
    /// `Risk` as sent.
    pub risk: Value,
    /// What an armed fault makes the bank book instead.
    pub distortion: Option<Distortion>,
    /// Seconds from acceptance to settlement; 0 settles at once.
    pub settle_after_s: u64,
    /// What an armed fault makes of it after so many microseconds: a rejection.
    pub reject_after_us: Option<i64>,
}

/// What an order came to.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The payment.
    pub payment: Payment,
    /// Whether this order made it; otherwise its key had made it before.
    pub new: bool,
}

/// A payment as recorded.
#[derive(Debug, Clone)]
pub struct Payment {
    /// `DomesticPaymentId` or `DomesticScheduledPaymentId`
    pub payment_id: String,
    /// The version and kind of its consent. It is seen in no other.
    pub form: Form,
    /// `ConsentId`
    pub consent_id: String,
    /// The key it came with.
    pub idempotency_key: String,
    /// `EndToEndIdentification`
    pub reference: String,
    /// `InstructionIdentification`
    pub instruction_id: String,
    /// `Data.Initiation` as booked.
    pub initiation: Value,
    /// Pence.
    pub amount_minor: i64,
    /// `GBP`
    pub currency: String,
    /// The account that paid, and its holder.
    pub debtor: (AccountNo, String),
    /// The account that was paid.
    pub creditor: AccountNo,
    /// The name given for it.
    pub creditor_name: String,
    /// Where it stands.
    pub status: PaymentStatus,
    /// RFC 3339, bank time.
    pub created_at: String,
    /// RFC 3339, bank time.
    pub updated_at: String,
    /// When the entries were made; none for a payment rejected at once, and for a scheduled one before its day.
    pub booked_at: Option<String>,
    /// When a scheduled payment is to be made, as it was asked for.
    pub execute_at: Option<String>,
}

impl Book {
    /// Decides a payment: finds what this key created, or refuses, or creates it with its entries. Answers once
    /// that is durable; a refusal leaves nothing behind.
    pub async fn payment_create(&self, order: &PaymentOrder, now: &Stamp) -> Result<Placed, BookError> {
        let mut desk = self.desk_at(now).await?;
        let decided = create(desk.conn(), order, now).await;
        desk.finish(decided).await
    }

    /// Reads a payment, settled if its time has come.
    pub async fn payment_get(&self, payment_id: &str, form: Form, now: &Stamp) -> Result<Payment, BookError> {
        let mut desk = self.desk_at(now).await?;
        let found = read(desk.conn(), payment_id).await;
        desk.finish(found.and_then(|payment| seen_in(payment, form)))
            .await
    }

    /// Moves a payment's status by hand. `Rejected` reverses its entries, and is final, as `Cancelled` is.
    pub async fn payment_settle(
        &self,
        payment_id: &str,
        status: PaymentStatus,
        now: &Stamp,
    ) -> Result<Payment, BookError> {
        let mut desk = self.desk_at(now).await?;
        let moved = settle(desk.conn(), payment_id, status, now).await;
        desk.finish(moved).await
    }
}

/// Carries out what has come due by itself, in the order in which it did: payments settle or are rejected, scheduled ones
/// are paid.
pub(super) async fn due(conn: &mut SqliteConnection, now: &Stamp) -> Result<(), BookError> {
    let rows = sqlx::query(
        "SELECT settle_at_us AS due_us, payment_id, settle_to FROM payment WHERE settle_at_us <= ?1 \
         UNION ALL SELECT execute_at_us, payment_id, NULL FROM payment WHERE execute_at_us <= ?1 ORDER BY 1",
    )
    .bind(now.instant_us)
    .fetch_all(&mut *conn)
    .await?;
    for row in rows {
        let payment_id: String = row.try_get("payment_id")?;
        match row.try_get::<Option<String>, _>("settle_to")? {
            Some(code) => {
                let to = PaymentStatus::from_code(&code)
                    .ok_or_else(|| corrupt("payment", "settle_to", payment_id.clone()))?;
                settle(conn, &payment_id, to, now).await?;
            }
            None => carry_out(conn, &payment_id, now).await?,
        }
    }
    Ok(())
}

/// Every payment, in the order they were decided.
pub(super) async fn all(conn: &mut SqliteConnection) -> Result<Vec<Payment>, BookError> {
    let rows = sqlx::query(
        "SELECT p.*, a.name AS debtor_name, c.version FROM payment p JOIN account a ON a.account = p.debtor_account \
         JOIN consent c ON c.consent_id = p.consent_id ORDER BY p.seq",
    )
    .fetch_all(conn)
    .await?;
    rows.iter().map(from_row).collect()
}

async fn create(conn: &mut SqliteConnection, order: &PaymentOrder, now: &Stamp) -> Result<Placed, BookError> {
    let endpoint = Endpoint::payments(order.form.kind);
    // The key first: a repeat finds its payment whatever has become of the consent or the day since.
    if let Some(payment_id) = keys::lookup(conn, endpoint, &order.key, now).await? {
        let payment = seen_in(read(conn, &payment_id).await?, order.form)?;
        return Ok(Placed { payment, new: false });
    }
    let consent = consents::read_in(conn, &order.consent_id, order.form).await?;
    if consent.status != ConsentStatus::Authorised {
        return Err(Refusal::ConsentStatus(consent.status).into());
    }
    if order.initiation != consent.initiation {
        return Err(Refusal::Differs {
            path: "Data.Initiation",
        }
        .into());
    }
    if order.risk != consent.risk {
        return Err(Refusal::Differs { path: "Risk" }.into());
    }
    if now.instant_us >= consent.cut_off_us {
        return Err(Refusal::AfterCutOff.into());
    }
    let initiation = match order.distortion {
        Some(distortion) => distortion.apply(&order.initiation),
        None => order.initiation.clone(),
    };
    let instruction = Instruction::read(&initiation, order.form)
        .map_err(|_| corrupt("consent", "initiation", order.consent_id.clone()))?;
    let debtor = &consent.debtor.0;
    let scheduled = instruction.execute_at.is_some();
    // The money of a scheduled order is looked for on its day.
    let funded = scheduled || consents::balance(conn, debtor).await? >= instruction.amount_minor;
    let standing = if scheduled {
        PaymentStatus::Received
    } else {
        PaymentStatus::Completed
    };
    let settle_after_us = i64::try_from(order.settle_after_s)
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000_000);
    let (status, later) = match (funded, order.reject_after_us) {
        (false, _) => (PaymentStatus::Rejected, None),
        (true, Some(wait_us)) if scheduled => (standing, Some((wait_us, PaymentStatus::Rejected))),
        (true, Some(wait_us)) => (PaymentStatus::InProcess, Some((wait_us, PaymentStatus::Rejected))),
        (true, None) if settle_after_us == 0 => (standing, None),
        (true, None) => (PaymentStatus::Pending, Some((settle_after_us, standing))),
    };
    let booked = funded && !scheduled;

    // Past this line nothing is refused any more: consent, payment, key and both entries stand or fall together.
    // 40 characters, as many as the standard gives a payment's id.
    let payment_id = format!("lab-pay-{}", uuid::Uuid::now_v7().simple());
    consents::consume(conn, &order.consent_id, now).await?;
    sqlx::query(
        "INSERT INTO payment (payment_id, consent_id, idempotency_key, reference, instruction_id, initiation, \
         amount_minor, currency, debtor_account, creditor_account, status, created_at, updated_at, booked_at, \
         settle_at_us, settle_to, kind, creditor_name, execute_at, execute_at_us) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'GBP', ?8, ?9, ?10, ?11, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
    )
    .bind(&payment_id)
    .bind(&order.consent_id)
    .bind(&order.key.key)
    .bind(&instruction.reference)
    .bind(&instruction.instruction_id)
    .bind(initiation.to_string())
    .bind(instruction.amount_minor)
    .bind(debtor.to_string())
    .bind(instruction.creditor.to_string())
    .bind(status.code())
    .bind(&now.shown)
    .bind(booked.then_some(&now.shown))
    .bind(later.map(|(wait_us, _)| now.instant_us.saturating_add(wait_us)))
    .bind(later.map(|(_, to)| to.code()))
    .bind(order.form.kind.word())
    .bind(&instruction.creditor_name)
    .bind(execute_at_text(&initiation))
    .bind(instruction.execute_at.map(|at| now.instant_of(at)))
    .execute(&mut *conn)
    .await?;
    if booked {
        let creditor = instruction.creditor.to_string();
        account_open(conn, &creditor, &instruction.creditor_name, false).await?;
        let legs = (debtor.to_string(), creditor);
        transfer(
            conn,
            "payment",
            Some(&payment_id),
            (&legs.0, &legs.1),
            instruction.amount_minor,
            &now.shown,
        )
        .await?;
    }
    keys::remember(conn, endpoint, &order.key, &payment_id, now).await?;
    let payment = read(conn, &payment_id).await?;
    Ok(Placed { payment, new: true })
}

/// `RequestedExecutionDateTime` as it was asked for; it has been read as a date before.
fn execute_at_text(initiation: &Value) -> Option<&str> {
    initiation.get("RequestedExecutionDateTime")?.as_str()
}

/// Pays a scheduled order whose day has come, or rejects it where there is not enough money.
async fn carry_out(conn: &mut SqliteConnection, payment_id: &str, now: &Stamp) -> Result<(), BookError> {
    let payment = read(conn, payment_id).await?;
    // Rejected or cancelled a moment before, in this same round.
    if payment.status.is_final() || payment.booked_at.is_some() {
        return Ok(());
    }
    let funded = consents::balance(conn, &payment.debtor.0).await? >= payment.amount_minor;
    let status = if funded {
        PaymentStatus::Completed
    } else {
        PaymentStatus::Rejected
    };
    // The book says when the bank moved the money, which is when it was asked to, and not when somebody looked.
    let booked_at = payment.execute_at.as_ref().filter(|_| funded);
    sqlx::query(
        "UPDATE payment SET status = ?, updated_at = ?, booked_at = ?, execute_at_us = NULL WHERE payment_id = ?",
    )
    .bind(status.code())
    .bind(&now.shown)
    .bind(booked_at)
    .bind(payment_id)
    .execute(&mut *conn)
    .await?;
    if let Some(booked_at) = booked_at {
        let (debtor, creditor) = (payment.debtor.0.to_string(), payment.creditor.to_string());
        account_open(conn, &creditor, &payment.creditor_name, false).await?;
        let legs = (debtor.as_str(), creditor.as_str());
        transfer(
            conn,
            "payment",
            Some(payment_id),
            legs,
            payment.amount_minor,
            booked_at,
        )
        .await?;
    }
    Ok(())
}

async fn settle(
    conn: &mut SqliteConnection,
    payment_id: &str,
    status: PaymentStatus,
    now: &Stamp,
) -> Result<Payment, BookError> {
    let payment = read(conn, payment_id).await?;
    if payment.status == status {
        return Ok(payment);
    }
    if payment.status.is_final() {
        return Err(Refusal::PaymentRejected.into());
    }
    let stands = payment.form.kind == Kind::Scheduled && payment.booked_at.is_none();
    if status == PaymentStatus::Cancelled && !stands {
        return Err(Refusal::NothingToCancel.into());
    }
    sqlx::query(
        "UPDATE payment SET status = ?1, updated_at = ?2, settle_at_us = NULL, settle_to = NULL, \
         execute_at_us = CASE WHEN ?3 THEN NULL ELSE execute_at_us END WHERE payment_id = ?4",
    )
    .bind(status.code())
    .bind(&now.shown)
    .bind(status.is_final())
    .bind(payment_id)
    .execute(&mut *conn)
    .await?;
    if status == PaymentStatus::Rejected && payment.booked_at.is_some() {
        let back = (payment.creditor.to_string(), payment.debtor.0.to_string());
        transfer(
            conn,
            "reversal",
            Some(payment_id),
            (&back.0, &back.1),
            payment.amount_minor,
            &now.shown,
        )
        .await?;
    }
    read(conn, payment_id).await
}

/// The payment, if it was ordered in this form.
fn seen_in(payment: Payment, form: Form) -> Result<Payment, BookError> {
    if payment.form == form {
        Ok(payment)
    } else {
        Err(Refusal::PaymentUnknown.into())
    }
}

async fn read(conn: &mut SqliteConnection, payment_id: &str) -> Result<Payment, BookError> {
    let row = sqlx::query(
        "SELECT p.*, a.name AS debtor_name, c.version FROM payment p JOIN account a ON a.account = p.debtor_account \
         JOIN consent c ON c.consent_id = p.consent_id WHERE p.payment_id = ?",
    )
    .bind(payment_id)
    .fetch_optional(conn)
    .await?
    .ok_or(Refusal::PaymentUnknown)?;
    from_row(&row)
}

fn from_row(row: &SqliteRow) -> Result<Payment, BookError> {
    let payment_id: String = row.try_get("payment_id")?;
    let code: String = row.try_get("status")?;
    let version: String = row.try_get("version")?;
    let kind: String = row.try_get("kind")?;
    let form = Form {
        version: Version::from_word(&version)
            .ok_or_else(|| corrupt("consent", "version", payment_id.clone()))?,
        kind: Kind::from_word(&kind).ok_or_else(|| corrupt("payment", "kind", payment_id.clone()))?,
    };
    let debtor: String = row.try_get("debtor_account")?;
    let creditor: String = row.try_get("creditor_account")?;
    Ok(Payment {
        consent_id: row.try_get("consent_id")?,
        idempotency_key: row.try_get("idempotency_key")?,
        reference: row.try_get("reference")?,
        instruction_id: row.try_get("instruction_id")?,
        initiation: json_column(row, "payment", "initiation", &payment_id)?,
        amount_minor: row.try_get("amount_minor")?,
        currency: row.try_get("currency")?,
        debtor: (
            account_column(&debtor, "payment", "debtor_account", &payment_id)?,
            row.try_get("debtor_name")?,
        ),
        creditor: account_column(&creditor, "payment", "creditor_account", &payment_id)?,
        form,
        creditor_name: row.try_get("creditor_name")?,
        execute_at: row.try_get("execute_at")?,
        status: PaymentStatus::from_code(&code)
            .ok_or_else(|| corrupt("payment", "status", payment_id.clone()))?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        booked_at: row.try_get("booked_at")?,
        payment_id,
    })
}
