//! Payment consents: placed, authorised or rejected by a person, consumed by the one payment they allow.

use serde_json::Value;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    Book, BookError, ConsentStatus, KeyUse, Refusal, SCHEDULE_DAYS_MAX, account_column, corrupt, json_column,
    keys,
};
use crate::{
    clock::Stamp,
    fault::Endpoint,
    obie::{Form, Instruction, Kind, Version},
    values::AccountNo,
};

/// A request for a consent, already checked for form.
#[derive(Debug, Clone)]
pub struct ConsentOrder {
    /// The version and kind it was asked in.
    pub form: Form,
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
    /// The version and kind it was asked in. It is seen and used in no other.
    pub form: Form,
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

    /// Reads a consent; a form not asked for has no such consent.
    pub async fn consent_get(&self, consent_id: &str, form: Option<Form>) -> Result<Consent, BookError> {
        let mut desk = self.desk().await?;
        let found = match form {
            Some(form) => read_in(desk.conn(), consent_id, form).await,
            None => read(desk.conn(), consent_id).await,
        };
        desk.finish(found).await
    }

    /// Reads an authorised consent and says whether its payment could be funded now.
    pub async fn consent_funds(&self, consent_id: &str, form: Form) -> Result<bool, BookError> {
        let mut desk = self.desk().await?;
        let answer = funds(desk.conn(), consent_id, form).await;
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

/// Reads a consent that was asked for in this form.
pub(super) async fn read_in(
    conn: &mut SqliteConnection,
    consent_id: &str,
    form: Form,
) -> Result<Consent, BookError> {
    let consent = read(conn, consent_id).await?;
    if consent.form == form {
        Ok(consent)
    } else {
        Err(Refusal::ConsentUnknown.into())
    }
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
    let endpoint = Endpoint::consents(order.form.kind);
    if let Some(consent_id) = keys::lookup(conn, endpoint, &order.key, now).await? {
        return read_in(conn, &consent_id, order.form).await;
    }
    if let Some(at) = order.instruction.execute_at
        && !(1..=SCHEDULE_DAYS_MAX).contains(&now.days_until(at))
    {
        return Err(Refusal::Day {
            today: now.today.to_string(),
        }
        .into());
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
         cut_off_us, version, kind) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10)",
    )
    .bind(&consent_id)
    .bind(order.initiation.to_string())
    .bind(order.risk.to_string())
    .bind(debtor.to_string())
    .bind(status.word())
    .bind(&now.shown)
    .bind(&now.cut_off_shown)
    .bind(now.cut_off_us)
    .bind(order.form.version.word())
    .bind(order.form.kind.word())
    .execute(&mut *conn)
    .await?;
    keys::remember(conn, endpoint, &order.key, &consent_id, now).await?;
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

async fn funds(conn: &mut SqliteConnection, consent_id: &str, form: Form) -> Result<bool, BookError> {
    let consent = read_in(conn, consent_id, form).await?;
    if consent.status != ConsentStatus::Authorised {
        return Err(Refusal::ConsentStatus(consent.status).into());
    }
    let instruction = Instruction::read(&consent.initiation, form)
        .map_err(|_| corrupt("consent", "initiation", consent_id))?;
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
    let version: String = row.try_get("version")?;
    let kind: String = row.try_get("kind")?;
    let form = Form {
        version: Version::from_word(&version)
            .ok_or_else(|| corrupt("consent", "version", consent_id.clone()))?,
        kind: Kind::from_word(&kind).ok_or_else(|| corrupt("consent", "kind", consent_id.clone()))?,
    };
    Ok(Consent {
        form,
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
