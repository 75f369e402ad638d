//! What the vendor table says of itself.

use serde::Serialize;
use sqlx::Connection;

use super::{Vendors, connect};

/// The table and its own history.
#[derive(Debug, Clone, Serialize)]
pub struct VendorReport {
    /// Every vendor, by its short name; at most a thousand.
    pub vendors: Vec<Vendor>,
    /// Every change of an account, newest first, as far as asked for.
    pub history: Vec<Change>,
    /// The daemon's own rows beside it, newest first, as far as asked for.
    pub acts: Vec<Act>,
}

/// One vendor as it stands.
#[derive(Debug, Clone, Serialize)]
pub struct Vendor {
    pub sup: String,
    pub name: Option<String>,
    pub acct: String,
    pub eff: Option<String>,
    pub phone: Option<String>,
    pub apref: Option<String>,
}

/// One row of `vendor_history`.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    pub seq: i64,
    pub sup: String,
    pub old: Option<String>,
    pub new: Option<String>,
    pub apref: Option<String>,
    /// UTC.
    pub at: String,
}

/// One row of `wilco_acts`. Others write it: every value may be missing.
#[derive(Debug, Clone, Serialize)]
pub struct Act {
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    pub ask: Option<String>,
    pub sup: Option<String>,
    pub prev: Option<String>,
    pub acct: Option<String>,
    pub eff: Option<String>,
    pub apref: Option<String>,
    pub at: Option<String>,
}

impl Vendors {
    /// The table, and at most `last` rows of each record.
    pub async fn report(&self, last: u32) -> Result<VendorReport, sqlx::Error> {
        let mut conn = connect(self.path()).await?;
        // One transaction: the three agree with each other.
        let mut tx = conn.begin().await?;
        let vendors: Vec<VendorRow> = sqlx::query_as(
            "SELECT CAST(sup AS TEXT), CAST(name AS TEXT), CAST(acct AS TEXT), CAST(eff AS TEXT), \
             CAST(phone AS TEXT), CAST(apref AS TEXT) FROM vendor ORDER BY sup LIMIT 1000",
        )
        .fetch_all(&mut *tx)
        .await?;
        let history: Vec<ChangeRow> = sqlx::query_as(
            "SELECT seq, CAST(sup AS TEXT), CAST(old AS TEXT), CAST(new AS TEXT), CAST(apref AS TEXT), at \
             FROM vendor_history ORDER BY seq DESC LIMIT ?",
        )
        .bind(last)
        .fetch_all(&mut *tx)
        .await?;
        let acts: Vec<ActRow> = sqlx::query_as(
            "SELECT CAST(ref AS TEXT), CAST(ask AS TEXT), CAST(sup AS TEXT), CAST(prev AS TEXT), \
             CAST(acct AS TEXT), CAST(eff AS TEXT), CAST(apref AS TEXT), CAST(at AS TEXT) \
             FROM wilco_acts ORDER BY rowid DESC LIMIT ?",
        )
        .bind(last)
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        conn.close().await?;
        Ok(VendorReport {
            vendors: vendors.into_iter().map(vendor).collect(),
            history: history.into_iter().map(change).collect(),
            acts: acts.into_iter().map(act).collect(),
        })
    }
}

type Text = Option<String>;
type VendorRow = (String, Text, String, Text, Text, Text);
type ChangeRow = (i64, String, Text, Text, Text, String);
type ActRow = (Text, Text, Text, Text, Text, Text, Text, Text);

fn vendor((sup, name, acct, eff, phone, apref): VendorRow) -> Vendor {
    Vendor {
        sup,
        name,
        acct,
        eff,
        phone,
        apref,
    }
}

fn change((seq, sup, old, new, apref, at): ChangeRow) -> Change {
    Change {
        seq,
        sup,
        old,
        new,
        apref,
        at,
    }
}

fn act((reference, ask, sup, prev, acct, eff, apref, at): ActRow) -> Act {
    Act {
        reference,
        ask,
        sup,
        prev,
        acct,
        eff,
        apref,
        at,
    }
}
