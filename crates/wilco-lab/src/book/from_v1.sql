-- A book of version 1, which knew 3.1 and payments at once, becomes one of version 2. One transaction; foreign keys are off
-- around it, because the table they point to is made anew under its own name.
BEGIN IMMEDIATE;
ALTER TABLE consent ADD COLUMN version TEXT NOT NULL DEFAULT '3.1' CHECK (version IN ('3.1', '4.0'));
ALTER TABLE consent ADD COLUMN kind TEXT NOT NULL DEFAULT 'domestic' CHECK (kind IN ('domestic', 'scheduled'));
CREATE TABLE payment_v2 (
    seq              INTEGER PRIMARY KEY,
    payment_id       TEXT NOT NULL UNIQUE,
    consent_id       TEXT NOT NULL UNIQUE REFERENCES consent (consent_id),
    kind             TEXT NOT NULL CHECK (kind IN ('domestic', 'scheduled')),
    idempotency_key  TEXT NOT NULL,
    reference        TEXT NOT NULL,
    instruction_id   TEXT NOT NULL,
    initiation       TEXT NOT NULL,
    amount_minor     INTEGER NOT NULL CHECK (amount_minor > 0),
    currency         TEXT NOT NULL,
    debtor_account   TEXT NOT NULL REFERENCES account (account),
    creditor_account TEXT NOT NULL,
    creditor_name    TEXT NOT NULL,
    status           TEXT NOT NULL CHECK (status IN ('RCVD', 'PDNG', 'ACTC', 'PATC', 'ACCP', 'ACFC', 'ACSP', 'ACWC', 'ACSC',
        'ACWP', 'ACCC', 'BLCK', 'RJCT', 'CANC')),
    created_at       TEXT NOT NULL,
    updated_at       TEXT NOT NULL,
    booked_at        TEXT,
    settle_at_us     INTEGER,
    settle_to        TEXT,
    execute_at       TEXT,
    execute_at_us    INTEGER,
    CHECK ((settle_at_us IS NULL) = (settle_to IS NULL)),
    CHECK ((kind = 'scheduled') = (execute_at IS NOT NULL))
) STRICT;
INSERT INTO payment_v2
SELECT seq, payment_id, consent_id, 'domestic', idempotency_key, reference, instruction_id, initiation, amount_minor, currency,
    debtor_account, creditor_account, coalesce(json_extract(initiation, '$.CreditorAccount.Name'), creditor_account),
    CASE status WHEN 'Pending' THEN 'PDNG' WHEN 'Rejected' THEN 'RJCT' WHEN 'AcceptedSettlementInProcess' THEN 'ACSP'
        WHEN 'AcceptedSettlementCompleted' THEN 'ACSC' WHEN 'AcceptedWithoutPosting' THEN 'ACWP' ELSE 'ACCC' END,
    created_at, updated_at, booked_at, settle_at_us, CASE WHEN settle_at_us IS NULL THEN NULL ELSE 'ACSC' END, NULL, NULL
FROM payment;
DROP TABLE payment;
ALTER TABLE payment_v2 RENAME TO payment;
CREATE INDEX payment_settling ON payment (settle_at_us) WHERE settle_at_us IS NOT NULL;
CREATE INDEX payment_standing ON payment (execute_at_us) WHERE execute_at_us IS NOT NULL;
PRAGMA user_version = 2;
COMMIT;
