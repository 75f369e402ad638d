//! The tables as we would make them. The same text makes them in SQLite and in Postgres.

/// A vendor table to start with. Its columns are the ones the configuration expects unless it names others.
pub const VENDOR_TABLE: &str = r#"CREATE TABLE IF NOT EXISTS vendor (
  sup   TEXT NOT NULL PRIMARY KEY, -- the supplier's short name
  name  TEXT,                      -- who they are
  acct  TEXT NOT NULL,             -- the account that is paid, 40-12-88/61102938
  eff   TEXT,                      -- the day from which it counts, YYYYMMDD
  phone TEXT,                      -- the number we ring them on
  apref TEXT                       -- under which approval it was last changed
);
"#;

/// One row for each change that was made, written in the same transaction: its primary key is why no change is made
/// twice, and the row is what lookups read. It must lie in the vendor table's own database.
pub const ACTS_TABLE: &str = r#"CREATE TABLE IF NOT EXISTS wilco_acts (
  ref   TEXT NOT NULL PRIMARY KEY, -- our reference for the act
  ask   TEXT NOT NULL,             -- CHGBANK, or UNDO
  sup   TEXT NOT NULL,             -- whose row it was
  prev  TEXT NOT NULL,             -- the account before
  acct  TEXT NOT NULL,             -- the account after
  eff   TEXT,                      -- as the vendor table shows it after; null where it has no such column
  apref TEXT,                      -- the same
  at    TEXT NOT NULL              -- when, RFC 3339
);
"#;

/// Call-backs, one row each: somebody rang the supplier on the number we hold, and they said that they asked for exactly
/// this change. Filled by people or by the customer's own system, never by the daemon.
pub const CALLBACKS_TABLE: &str = r#"CREATE TABLE IF NOT EXISTS wilco_callbacks (
  sup  TEXT NOT NULL, -- who was rung
  prev TEXT NOT NULL, -- the account that is replaced
  acct TEXT NOT NULL, -- the account they confirmed
  "by" TEXT NOT NULL, -- who rang
  at   TEXT NOT NULL  -- when, RFC 3339, to the second
);
"#;
