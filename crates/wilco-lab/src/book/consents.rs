//! Payment consents: placed, authorised or rejected by a person, consumed by the one payment they allow.

use serde_json::Value;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{Book, BookError, KeyUse, Refusal, account_column, corrupt, json_column, keys};
use crate::{clock::Stamp, fault::Endpoint, obie::Instruction, values::AccountNo};

/// A consent's life, in OBIE 3.1's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentStatus {
    /// Waits for the account holder.
    AwaitingAuthorisation,
    /// May be used by one payment.
    Authorised,
    /// The account holder said no.
    Rejected,
    /// Its payment exists.
    Consumed,
}

impl ConsentStatus {
    /// The word on the wire and in the book.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AwaitingAuthorisation => "AwaitingAuthorisation",
            Self::Authorised => "Authorised",
            Self::Rejected => "Rejected",
            Self::Consumed => "Consumed",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [
            Self::AwaitingAuthorisation,
            Self::Authorised,
            Self::Rejected,
            Self::Consumed,
        ]
        .into_iter()
        .find(|status| status.word() == word)
    }
}

/// A request for a consent, already checked for form.
#[derive(Debug, Clone)]
pub struct ConsentOrder {
    /// The key it came with.
    pub key: KeyUse,
    /// `Data.Initiation`, as the bank will record it.
    pub initiation: Value,
    /// The same, read.
    pub instruction: Instruction,
    /// `Risk`
    pub risk: Value,
    /// Whether a person must authorise it first.
    pub manual: bool,
}

/// A consent as recorded.
#[derive(Debug, Clone)]
pub struct Consent {
    /// `ConsentId`
    pub consent_id: String,
    /// `Data.Initiation`
    pub initiation: Value,
    /// `Risk`
    pub risk: Value,
    /// The account that pays, and its holder.
    pub debtor: (AccountNo, String),
    /// Where it stands.
    pub status: ConsentStatus,
    /// RFC 3339, bank time.
    pub created_at: String,
    /// RFC 3339, bank time.
    pub updated_at: String,
    /// RFC 3339.
    pub cut_off: String,
    /// The same as an instant.
    pub cut_off_us: i64,
}

impl Book {
    /// Records a consent, or finds the one this key created. Answers once it is durable.
    pub async fn consent_create(&self, order: &ConsentOrder, now: &Stamp) -> Result<Consent, BookError> {
        let mut desk = self.desk().await?;
        let created = create(desk.conn(), order, now).await;
        desk.finish(created).await
    }

    /// Reads a consent.
    pub async fn consent_get(&self, consent_id: &str) -> Result<Consent, BookError> {
        let mut desk = self.desk().await?;
        let found = read(desk.conn(), consent_id).await;
        desk.finish(found).await
    }

    /// Reads an authorised consent and says whether its payment could be funded now.
    pub async fn consent_funds(&self, consent_id: &str) -> Result<bool, BookError> {
        let mut desk = self.desk().await?;
        let answer = funds(desk.conn(), consent_id).await;
        desk.finish(answer).await
    }

    /// The account holder's answer to a waiting consent. The same answer again changes nothing; any other is refused.
    pub async fn consent_answer(
        &self,
        consent_id: &str,
        yes: bool,
        now: &Stamp,
    ) -> Result<Consent, BookError> {
        let mut desk = self.desk().await?;
        let answered = answer(desk.conn(), consent_id, yes, now).await;
        desk.finish(answered).await
    }
}

/// Reads a consent inside a transaction.
pub(super) async fn read(conn: &mut SqliteConnection, consent_id: &str) -> Result<Consent, BookError> {
    let row = sqlx::query(
        "SELECT c.*, a.name AS debtor_name FROM consent c JOIN account a ON a.account = c.debtor_account \
         WHERE c.consent_id = ?",
    )
    .bind(consent_id)
    .fetch_optional(conn)
    .await?
    .ok_or(Refusal::ConsentUnknown)?;
    from_row(&row)
}

/// Marks an authorised consent as used. The caller has read it as Authorised in this same transaction.
pub(super) async fn consume(
    conn: &mut SqliteConnection,
    consent_id: &str,
    now: &Stamp,
) -> Result<(), BookError> {
    let changed = sqlx::query(
        "UPDATE consent SET status = 'Consumed', updated_at = ? WHERE consent_id = ? AND status = 'Authorised'",
    )
    .bind(&now.shown)
    .bind(consent_id)
    .execute(conn)
    .await?
    .rows_affected();
    if changed == 1 {
        Ok(())
    } else {
        Err(corrupt("consent", "status", consent_id))
    }
}

/// What the account can still pay out, in pence.
pub(super) async fn balance(conn: &mut SqliteConnection, account: &AccountNo) -> Result<i64, BookError> {
    Ok(
        sqlx::query_scalar("SELECT balance_minor FROM account WHERE account = ?")
            .bind(account.to_string())
            .fetch_one(conn)
            .await?,
    )
}

async fn create(
    conn: &mut SqliteConnection,
    order: &ConsentOrder,
    now: &Stamp,
) -> Result<Consent, BookError> {
    if let Some(consent_id) = keys::lookup(conn, Endpoint::Consents, &order.key, now).await? {
        return read(conn, &consent_id).await;
    }
    let debtor = debtor(conn, order.instruction.debtor.as_ref()).await?;
    if debtor == order.instruction.creditor {
        return Err(Refusal::PaysItself.into());
    }
    let status = if order.manual {
        ConsentStatus::AwaitingAuthorisation
    } else {
        ConsentStatus::Authorised
    };
    let consent_id = format!("lab-consent-{}", uuid::Uuid::now_v7().simple());
    sqlx::query(
        "INSERT INTO consent (consent_id, initiation, risk, debtor_account, status, created_at, updated_at, cut_off, \
         cut_off_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8)",
    )
    .bind(&consent_id)
    .bind(order.initiation.to_string())
    .bind(order.risk.to_string())
    .bind(debtor.to_string())
    .bind(status.word())
    .bind(&now.shown)
    .bind(&now.cut_off_shown)
    .bind(now.cut_off_us)
    .execute(&mut *conn)
    .await?;
    keys::remember(conn, Endpoint::Consents, &order.key, &consent_id, now).await?;
    read(conn, &consent_id).await
}

async fn debtor(conn: &mut SqliteConnection, named: Option<&AccountNo>) -> Result<AccountNo, BookError> {
    let named = named.map(AccountNo::to_string);
    let account: Option<String> = sqlx::query_scalar(
        "SELECT account FROM account WHERE own = 1 AND (?1 IS NULL OR account = ?1) ORDER BY seq LIMIT 1",
    )
    .bind(named)
    .fetch_optional(conn)
    .await?;
    let account = account.ok_or(Refusal::DebtorUnknown)?;
    account_column(&account, "account", "account", &account)
}

async fn funds(conn: &mut SqliteConnection, consent_id: &str) -> Result<bool, BookError> {
    let consent = read(conn, consent_id).await?;
    if consent.status != ConsentStatus::Authorised {
        return Err(Refusal::ConsentStatus(consent.status).into());
    }
    let instruction =
        Instruction::read(&consent.initiation).map_err(|_| corrupt("consent", "initiation", consent_id))?;
    Ok(balance(conn, &consent.debtor.0).await? >= instruction.amount_minor)
}

async fn answer(
    conn: &mut SqliteConnection,
    consent_id: &str,
    yes: bool,
    now: &Stamp,
) -> Result<Consent, BookError> {
    let consent = read(conn, consent_id).await?;
    let wanted = if yes {
        ConsentStatus::Authorised
    } else {
        ConsentStatus::Rejected
    };
    if consent.status == wanted {
        return Ok(consent);
    }
    if consent.status != ConsentStatus::AwaitingAuthorisation {
        return Err(Refusal::ConsentStatus(consent.status).into());
    }
    sqlx::query("UPDATE consent SET status = ?, updated_at = ? WHERE consent_id = ?")
        .bind(wanted.word())
        .bind(&now.shown)
        .bind(consent_id)
        .execute(&mut *conn)
        .await?;
    read(conn, consent_id).await
}

fn from_row(row: &SqliteRow) -> Result<Consent, BookError> {
    let consent_id: String = row.try_get("consent_id")?;
    let word: String = row.try_get("status")?;
    let account: String = row.try_get("debtor_account")?;
    Ok(Consent {
        initiation: json_column(row, "consent", "initiation", &consent_id)?,
        risk: json_column(row, "consent", "risk", &consent_id)?,
        debtor: (
            account_column(&account, "consent", "debtor_account", &consent_id)?,
            row.try_get("debtor_name")?,
        ),
        status: ConsentStatus::from_word(&word)
            .ok_or_else(|| corrupt("consent", "status", consent_id.clone()))?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        cut_off: row.try_get("cut_off")?,
        cut_off_us: row.try_get("cut_off_us")?,
        consent_id,
    })
}
