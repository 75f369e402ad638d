-- The bank's own records. Amounts are whole pence. Nothing here is shared with the daemon under test: this file
-- is the other side's memory, and the judge of what was paid.

CREATE TABLE IF NOT EXISTS meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- An account and its balance. The balance is kept by the trigger below, for the funds check; reports add up the
-- entries themselves and compare.
CREATE TABLE IF NOT EXISTS account (
    seq           INTEGER PRIMARY KEY,
    account       TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    currency      TEXT NOT NULL,
    own           INTEGER NOT NULL CHECK (own IN (0, 1)),
    balance_minor INTEGER NOT NULL DEFAULT 0
) STRICT;

-- One leg of a transfer. Every transfer is two legs, written by one statement; legs are never changed or removed,
-- a mistake is undone by a reversing pair.
CREATE TABLE IF NOT EXISTS entry (
    seq          INTEGER PRIMARY KEY,
    kind         TEXT NOT NULL CHECK (kind IN ('opening', 'payment', 'reversal')),
    payment_id   TEXT REFERENCES payment (payment_id),
    account      TEXT NOT NULL REFERENCES account (account),
    amount_minor INTEGER NOT NULL CHECK (amount_minor <> 0),
    booked_at    TEXT NOT NULL
) STRICT;

CREATE TRIGGER IF NOT EXISTS entry_posted AFTER INSERT ON entry BEGIN
    UPDATE account SET balance_minor = balance_minor + NEW.amount_minor WHERE account = NEW.account;
END;
CREATE TRIGGER IF NOT EXISTS entry_fixed BEFORE UPDATE ON entry BEGIN
    SELECT RAISE(ABORT, 'entries are never changed');
END;
CREATE TRIGGER IF NOT EXISTS entry_kept BEFORE DELETE ON entry BEGIN
    SELECT RAISE(ABORT, 'entries are never removed');
END;

CREATE TABLE IF NOT EXISTS consent (
    consent_id     TEXT PRIMARY KEY,
    initiation     TEXT NOT NULL,
    risk           TEXT NOT NULL,
    debtor_account TEXT NOT NULL REFERENCES account (account),
    status         TEXT NOT NULL CHECK (status IN ('AwaitingAuthorisation', 'Authorised', 'Rejected', 'Consumed')),
    created_at     TEXT NOT NULL,
    updated_at     TEXT NOT NULL,
    cut_off        TEXT NOT NULL,
    cut_off_us     INTEGER NOT NULL
) STRICT;

-- A consent pays at most once: the code says so by consuming it, and the UNIQUE says so again.
CREATE TABLE IF NOT EXISTS payment (
    seq              INTEGER PRIMARY KEY,
    payment_id       TEXT NOT NULL UNIQUE,
    consent_id       TEXT NOT NULL UNIQUE REFERENCES consent (consent_id),
    idempotency_key  TEXT NOT NULL,
    reference        TEXT NOT NULL,
    instruction_id   TEXT NOT NULL,
    initiation       TEXT NOT NULL,
    amount_minor     INTEGER NOT NULL CHECK (amount_minor > 0),
    currency         TEXT NOT NULL,
    debtor_account   TEXT NOT NULL REFERENCES account (account),
    creditor_account TEXT NOT NULL,
    status           TEXT NOT NULL CHECK (status IN ('Pending', 'Rejected', 'AcceptedSettlementInProcess',
        'AcceptedSettlementCompleted', 'AcceptedWithoutPosting', 'AcceptedCreditSettlementCompleted')),
    created_at       TEXT NOT NULL,
    updated_at       TEXT NOT NULL,
    booked_at        TEXT,
    settle_at_us     INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS payment_settling ON payment (settle_at_us) WHERE settle_at_us IS NOT NULL;

-- What a key created, and with which bytes. A row is written only with the thing it created.
CREATE TABLE IF NOT EXISTS idempotency (
    endpoint    TEXT NOT NULL,
    key         TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    used_at_us  INTEGER NOT NULL,
    PRIMARY KEY (endpoint, key)
) STRICT;

-- Our side's register of suppliers: the account on file, which may be wrong or poisoned.
CREATE TABLE IF NOT EXISTS payee (
    sup     TEXT PRIMARY KEY,
    name    TEXT NOT NULL,
    account TEXT NOT NULL
) STRICT;

-- Who really holds an account, for confirmation of payee.
CREATE TABLE IF NOT EXISTS holder (
    account TEXT PRIMARY KEY,
    name    TEXT NOT NULL
) STRICT;
