//! Payments: decided once, in one transaction that consumes the consent, records the payment and moves the money.

use serde_json::Value;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    Book, BookError, KeyUse, Refusal, account_column, account_open, consents, consents::ConsentStatus,
    corrupt, json_column, keys, transfer,
};
use crate::{
    clock::Stamp,
    fault::Endpoint,
    obie::{Distortion, Instruction},
    values::AccountNo,
};

/// A payment's status, in OBIE 3.1's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentStatus {
    /// Accepted, not settled.
    Pending,
    /// Not paid, or paid and taken back.
    Rejected,
    /// On its way.
    AcceptedSettlementInProcess,
    /// Debited.
    AcceptedSettlementCompleted,
    /// Accepted, not yet posted at the creditor.
    AcceptedWithoutPosting,
    /// Credited.
    AcceptedCreditSettlementCompleted,
}

impl PaymentStatus {
    /// Every status.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Rejected,
        Self::AcceptedSettlementInProcess,
        Self::AcceptedSettlementCompleted,
        Self::AcceptedWithoutPosting,
        Self::AcceptedCreditSettlementCompleted,
    ];

    /// The word on the wire and in the book.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Rejected => "Rejected",
            Self::AcceptedSettlementInProcess => "AcceptedSettlementInProcess",
            Self::AcceptedSettlementCompleted => "AcceptedSettlementCompleted",
            Self::AcceptedWithoutPosting => "AcceptedWithoutPosting",
            Self::AcceptedCreditSettlementCompleted => "AcceptedCreditSettlementCompleted",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }
}

/// A payment order, already checked for form.
#[derive(Debug, Clone)]
pub struct PaymentOrder {
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
}

/// A payment as recorded.
#[derive(Debug, Clone)]
pub struct Payment {
    /// `DomesticPaymentId`
    pub payment_id: String,
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
    /// Where it stands.
    pub status: PaymentStatus,
    /// RFC 3339, bank time.
    pub created_at: String,
    /// RFC 3339, bank time.
    pub updated_at: String,
    /// When the entries were made; none for a payment rejected at once.
    pub booked_at: Option<String>,
}

impl Book {
    /// Decides a payment: finds what this key created, or refuses, or creates it with its entries. Answers once
    /// that is durable; a refusal leaves nothing behind.
    pub async fn payment_create(&self, order: &PaymentOrder, now: &Stamp) -> Result<Payment, BookError> {
        let mut desk = self.desk_at(now).await?;
        let decided = create(desk.conn(), order, now).await;
        desk.finish(decided).await
    }

    /// Reads a payment, settled if its time has come.
    pub async fn payment_get(&self, payment_id: &str, now: &Stamp) -> Result<Payment, BookError> {
        let mut desk = self.desk_at(now).await?;
        let found = read(desk.conn(), payment_id).await;
        desk.finish(found).await
    }

    /// Moves a payment's status by hand. `Rejected` reverses its entries, and is final.
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

/// Completes the pending payments whose time has come.
pub(super) async fn settle_due(conn: &mut SqliteConnection, now: &Stamp) -> Result<(), BookError> {
    sqlx::query(
        "UPDATE payment SET status = 'AcceptedSettlementCompleted', updated_at = ?, settle_at_us = NULL \
         WHERE settle_at_us <= ?",
    )
    .bind(&now.shown)
    .bind(now.instant_us)
    .execute(conn)
    .await?;
    Ok(())
}

/// Every payment, in the order they were decided.
pub(super) async fn all(conn: &mut SqliteConnection) -> Result<Vec<Payment>, BookError> {
    let rows = sqlx::query(
        "SELECT p.*, a.name AS debtor_name FROM payment p JOIN account a ON a.account = p.debtor_account ORDER BY p.seq",
    )
    .fetch_all(conn)
    .await?;
    rows.iter().map(from_row).collect()
}

async fn create(
    conn: &mut SqliteConnection,
    order: &PaymentOrder,
    now: &Stamp,
) -> Result<Payment, BookError> {
    // The key first: a repeat finds its payment whatever has become of the consent or the day since.
    if let Some(payment_id) = keys::lookup(conn, Endpoint::Payments, &order.key, now).await? {
        return read(conn, &payment_id).await;
    }
    let consent = consents::read(conn, &order.consent_id).await?;
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
    let instruction = Instruction::read(&initiation)
        .map_err(|_| corrupt("consent", "initiation", order.consent_id.clone()))?;
    let debtor = &consent.debtor.0;
    let funded = consents::balance(conn, debtor).await? >= instruction.amount_minor;
    let status = match (funded, order.settle_after_s) {
        (false, _) => PaymentStatus::Rejected,
        (true, 0) => PaymentStatus::AcceptedSettlementCompleted,
        (true, _) => PaymentStatus::Pending,
    };
    let settle_at_us = (status == PaymentStatus::Pending).then(|| {
        let wait_us = i64::try_from(order.settle_after_s)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000);
        now.instant_us.saturating_add(wait_us)
    });

    // Past this line nothing is refused any more: consent, payment, key and both entries stand or fall together.
    // 40 characters, as many as the standard gives a DomesticPaymentId.
    let payment_id = format!("lab-pay-{}", uuid::Uuid::now_v7().simple());
    consents::consume(conn, &order.consent_id, now).await?;
    sqlx::query(
        "INSERT INTO payment (payment_id, consent_id, idempotency_key, reference, instruction_id, initiation, \
         amount_minor, currency, debtor_account, creditor_account, status, created_at, updated_at, booked_at, \
         settle_at_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'GBP', ?8, ?9, ?10, ?11, ?11, ?12, ?13)",
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
    .bind(status.word())
    .bind(&now.shown)
    .bind(funded.then_some(&now.shown))
    .bind(settle_at_us)
    .execute(&mut *conn)
    .await?;
    if funded {
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
    keys::remember(conn, Endpoint::Payments, &order.key, &payment_id, now).await?;
    read(conn, &payment_id).await
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
    if payment.status == PaymentStatus::Rejected {
        return Err(Refusal::PaymentRejected.into());
    }
    sqlx::query("UPDATE payment SET status = ?, updated_at = ?, settle_at_us = NULL WHERE payment_id = ?")
        .bind(status.word())
        .bind(&now.shown)
        .bind(payment_id)
        .execute(&mut *conn)
        .await?;
    if status == PaymentStatus::Rejected {
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

async fn read(conn: &mut SqliteConnection, payment_id: &str) -> Result<Payment, BookError> {
    let row = sqlx::query(
        "SELECT p.*, a.name AS debtor_name FROM payment p JOIN account a ON a.account = p.debtor_account \
         WHERE p.payment_id = ?",
    )
    .bind(payment_id)
    .fetch_optional(conn)
    .await?
    .ok_or(Refusal::PaymentUnknown)?;
    from_row(&row)
}

fn from_row(row: &SqliteRow) -> Result<Payment, BookError> {
    let payment_id: String = row.try_get("payment_id")?;
    let word: String = row.try_get("status")?;
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
        status: PaymentStatus::from_word(&word)
            .ok_or_else(|| corrupt("payment", "status", payment_id.clone()))?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        booked_at: row.try_get("booked_at")?,
        payment_id,
    })
}
