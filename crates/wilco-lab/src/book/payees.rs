//! The payee register (what our side has on file) and the holders (who an account really belongs to).

use serde::Serialize;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{Book, BookError};
use crate::values::AccountNo;

/// A payee as registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegisteredPayee {
    /// Short name, for example `marlow`.
    pub sup: String,
    /// The name on file.
    pub name: String,
    /// The account on file, as `40-12-88/61102938`.
    pub account: String,
}

/// What the lab knows about an account for confirmation of payee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holding {
    /// The account exists and this is its holder.
    Held(String),
    /// The bank takes part, but has no such account.
    NoAccount,
    /// No account with this sort code is known: the other bank does not answer.
    BankUnknown,
}

impl Book {
    /// The register's entry for `sup`, if there is one.
    pub async fn payee_get(&self, sup: &str) -> Result<Option<RegisteredPayee>, BookError> {
        let mut desk = self.desk().await?;
        let found = sqlx::query("SELECT sup, name, account FROM payee WHERE sup = ?")
            .bind(sup)
            .fetch_optional(desk.conn())
            .await
            .map_err(BookError::from)
            .and_then(|row| row.as_ref().map(from_row).transpose());
        desk.finish(found).await
    }

    /// The whole register, by short name.
    pub async fn payee_list(&self) -> Result<Vec<RegisteredPayee>, BookError> {
        let mut desk = self.desk().await?;
        let found = sqlx::query("SELECT sup, name, account FROM payee ORDER BY sup")
            .fetch_all(desk.conn())
            .await
            .map_err(BookError::from)
            .and_then(|rows| rows.iter().map(from_row).collect());
        desk.finish(found).await
    }

    /// Puts a payee on file. Where nobody is known to hold the account, this payee does from now on; a known
    /// holder stays, so that a poisoned register can be told from the truth.
    pub async fn payee_set(&self, payee: &RegisteredPayee) -> Result<(), BookError> {
        let mut desk = self.desk().await?;
        let put = payee_put(desk.conn(), &payee.sup, &payee.name, &payee.account).await;
        desk.finish(put).await
    }

    /// Who holds the account.
    pub async fn holder_of(&self, account: &AccountNo) -> Result<Holding, BookError> {
        let mut desk = self.desk().await?;
        let found = holding(desk.conn(), &account.to_string()).await;
        desk.finish(found).await
    }
}

/// Writes a register entry, and the holder where none is known.
pub(super) async fn payee_put(
    conn: &mut SqliteConnection,
    sup: &str,
    name: &str,
    account: &str,
) -> Result<(), BookError> {
    sqlx::query(
        "INSERT INTO payee (sup, name, account) VALUES (?1, ?2, ?3) \
         ON CONFLICT (sup) DO UPDATE SET name = ?2, account = ?3",
    )
    .bind(sup)
    .bind(name)
    .bind(account)
    .execute(&mut *conn)
    .await?;
    holder_known(conn, account, name).await
}

/// Records a holder unless the account has one.
pub(super) async fn holder_known(
    conn: &mut SqliteConnection,
    account: &str,
    name: &str,
) -> Result<(), BookError> {
    sqlx::query("INSERT INTO holder (account, name) VALUES (?, ?) ON CONFLICT (account) DO NOTHING")
        .bind(account)
        .bind(name)
        .execute(conn)
        .await?;
    Ok(())
}

async fn holding(conn: &mut SqliteConnection, account: &str) -> Result<Holding, BookError> {
    let holder: Option<String> = sqlx::query_scalar("SELECT name FROM holder WHERE account = ?")
        .bind(account)
        .fetch_optional(&mut *conn)
        .await?;
    if let Some(name) = holder {
        return Ok(Holding::Held(name));
    }
    // `40-12-88/`: the sort code, which names the bank.
    let bank: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM holder WHERE substr(account, 1, 9) = substr(?, 1, 9))",
    )
    .bind(account)
    .fetch_one(conn)
    .await?;
    Ok(if bank {
        Holding::NoAccount
    } else {
        Holding::BankUnknown
    })
}

fn from_row(row: &SqliteRow) -> Result<RegisteredPayee, BookError> {
    Ok(RegisteredPayee {
        sup: row.try_get("sup")?,
        name: row.try_get("name")?,
        account: row.try_get("account")?,
    })
}
