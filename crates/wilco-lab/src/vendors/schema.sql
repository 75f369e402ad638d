-- The vendor table: what accounts payable pays to, and the other side of a change of bank details. The daemon writes
-- vendor and wilco_acts with statements of its own; the triggers below are this table's own memory of it.

CREATE TABLE IF NOT EXISTS vendor (
    sup   TEXT NOT NULL PRIMARY KEY,
    name  TEXT,
    acct  TEXT NOT NULL,
    eff   TEXT,
    phone TEXT,
    apref TEXT
);

-- One row for each change carried out, under the reference that the daemon froze before it acted.
CREATE TABLE IF NOT EXISTS wilco_acts (
    ref   TEXT NOT NULL PRIMARY KEY,
    ask   TEXT NOT NULL,
    sup   TEXT NOT NULL,
    prev  TEXT NOT NULL,
    acct  TEXT NOT NULL,
    eff   TEXT,
    apref TEXT,
    at    TEXT NOT NULL
);

-- Who called the vendor back about which change, at a number known before.
CREATE TABLE IF NOT EXISTS wilco_callbacks (
    sup  TEXT NOT NULL,
    prev TEXT NOT NULL,
    acct TEXT NOT NULL,
    "by" TEXT NOT NULL,
    at   TEXT NOT NULL
);

-- The judge: every value that acct ever had, whoever wrote it, written by nobody but the triggers. No old value: the
-- row is new; no new one: it was removed.
CREATE TABLE IF NOT EXISTS vendor_history (
    seq   INTEGER PRIMARY KEY AUTOINCREMENT,
    sup   TEXT NOT NULL,
    old   TEXT,
    new   TEXT,
    apref TEXT,
    at    TEXT NOT NULL
);

CREATE TRIGGER IF NOT EXISTS vendor_history_fixed BEFORE UPDATE ON vendor_history BEGIN
    SELECT RAISE(ABORT, 'the history is never changed');
END;
CREATE TRIGGER IF NOT EXISTS vendor_history_kept BEFORE DELETE ON vendor_history BEGIN
    SELECT RAISE(ABORT, 'the history is never removed');
END;

-- Armed faults: refuse (until then, or until it is cleared) and wrong-account (so many times).
CREATE TABLE IF NOT EXISTS lab_knob (
    seq   INTEGER PRIMARY KEY,
    fault TEXT NOT NULL,
    times INTEGER,
    until REAL
);

CREATE TRIGGER IF NOT EXISTS vendor_refused BEFORE UPDATE ON vendor
WHEN EXISTS (SELECT 1 FROM lab_knob WHERE fault = 'refuse' AND (until IS NULL OR until > julianday('now')))
BEGIN
    SELECT RAISE(ABORT, 'the vendor table takes no changes now (a fault of the lab)');
END;

CREATE TRIGGER IF NOT EXISTS vendor_added AFTER INSERT ON vendor BEGIN
    INSERT INTO vendor_history (sup, old, new, apref, at)
    VALUES (NEW.sup, NULL, NEW.acct, NEW.apref, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;

CREATE TRIGGER IF NOT EXISTS vendor_removed AFTER DELETE ON vendor BEGIN
    INSERT INTO vendor_history (sup, old, new, apref, at)
    VALUES (OLD.sup, OLD.acct, NULL, OLD.apref, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;

-- One trigger, not two, so that the order of what it writes is certain: the change; then, where wrong-account is armed,
-- the wrong value that takes its place (the last two digits swapped; where they are equal, the last one higher by one).
CREATE TRIGGER IF NOT EXISTS vendor_changed AFTER UPDATE OF sup, acct ON vendor
WHEN NEW.acct IS NOT OLD.acct OR NEW.sup IS NOT OLD.sup
BEGIN
    INSERT INTO vendor_history (sup, old, new, apref, at)
    VALUES (NEW.sup, OLD.acct, NEW.acct, NEW.apref, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
    INSERT INTO vendor_history (sup, old, new, apref, at)
    SELECT NEW.sup, NEW.acct,
        CASE WHEN substr(NEW.acct, -1) = substr(NEW.acct, -2, 1)
            THEN substr(NEW.acct, 1, length(NEW.acct) - 1) || ((substr(NEW.acct, -1) + 1) % 10)
            ELSE substr(NEW.acct, 1, length(NEW.acct) - 2) || substr(NEW.acct, -1) || substr(NEW.acct, -2, 1) END,
        NEW.apref, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    WHERE EXISTS (SELECT 1 FROM lab_knob WHERE fault = 'wrong-account');
    UPDATE vendor SET acct = (SELECT new FROM vendor_history ORDER BY seq DESC LIMIT 1)
    WHERE sup = NEW.sup AND EXISTS (SELECT 1 FROM lab_knob WHERE fault = 'wrong-account');
    UPDATE lab_knob SET times = times - 1
    WHERE seq = (SELECT min(seq) FROM lab_knob WHERE fault = 'wrong-account');
    DELETE FROM lab_knob WHERE fault = 'wrong-account' AND times <= 0;
END;
