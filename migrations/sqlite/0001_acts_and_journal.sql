-- Acts, their journal, and the store's clock.
--
-- The tables are STRICT, so that a text where a number belongs is refused by the database itself. Instants are
-- microseconds since 1970-01-01T00:00:00Z. Hashes and ids are lower-case hex, so that a row can be read by eye.

-- One row per handoff: where it stands, and everything it was stated with.
--
-- A rowid table on purpose: rows are one to four kilobytes, which a clustered key would spill to overflow pages.
-- act_id is time-ordered (UUIDv7), so its index grows at its right edge and stays in memory at any size.
CREATE TABLE acts (
    act_id         TEXT    NOT NULL PRIMARY KEY,
    thread         TEXT    NOT NULL,
    handoff_id     TEXT    NOT NULL,
    -- Every state change is conditional on the version.
    version        INTEGER NOT NULL CHECK (version > 0),
    -- The name of the stage; must agree with the stage itself.
    state          TEXT    NOT NULL CHECK (state IN ('prepared', 'held', 'lapsed', 'executing', 'in_doubt',
                                                     'done', 'failed', 'cancelled', 'refused')),
    -- The exact line: a handoff's identity. Empty in a tombstone, whose handoff has not come; never changed after.
    ho_line        TEXT    NOT NULL,
    sender         TEXT    NOT NULL,
    receiver       TEXT    NOT NULL,
    item           TEXT    NOT NULL,
    ask            TEXT    NOT NULL,
    profile        TEXT    NOT NULL,
    principal      TEXT    NOT NULL,
    attempt        INTEGER NOT NULL CHECK (attempt >= 0),
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    -- When recovery must look at it next; null once nothing more can happen.
    due_at         INTEGER,
    -- When the handoff ends unless it is claimed.
    limit_at       INTEGER NOT NULL,
    -- The last row of its journal: number and hash (empty before the first).
    seq            INTEGER NOT NULL CHECK (seq >= 0),
    head           TEXT    NOT NULL,
    -- How many lines of ours it has issued ids for, and of which kind those ids are.
    lines          INTEGER NOT NULL CHECK (lines >= 0),
    long_ids       INTEGER NOT NULL CHECK (long_ids IN (0, 1)),
    -- The act it reverses, for as long as it stands in the way of another reversal.
    undo_of        TEXT,
    -- SHA-256 over the slots that make two acts alike, where the profile names them.
    likeness       TEXT,
    -- The rules it was stated under: a copy for questions across acts, equal to what the stage holds.
    profile_digest TEXT,
    contract       TEXT,
    -- JSON: hashes of the tokens given out, cancels that wait for the truth, and the stage.
    tokens         TEXT    NOT NULL,
    waiting        TEXT    NOT NULL,
    stage          TEXT    NOT NULL,
    -- A handoff's id is unique only within its thread.
    UNIQUE (thread, handoff_id)
) STRICT;

-- At most one act reverses another at a time.
CREATE UNIQUE INDEX acts_by_undo ON acts (undo_of) WHERE undo_of IS NOT NULL;

-- What is due, the most overdue first; final acts are not in it.
CREATE INDEX acts_by_due ON acts (due_at, act_id) WHERE due_at IS NOT NULL;

-- Lists, newest first. They are read in the order of the index, so a page costs the same however many acts there are.
CREATE INDEX acts_by_state ON acts (state, act_id);
CREATE INDEX acts_by_thread ON acts (thread, act_id);
CREATE INDEX acts_by_sender ON acts (sender, act_id);

-- Likely twins. Likeness is random, and an index that grows at random places halves the speed at ten million rows; by
-- day first, only the pages of today are written. A question over 90 days asks for 91 days by name.
CREATE INDEX acts_by_likeness ON acts (created_at / 86400000000, likeness) WHERE likeness IS NOT NULL;

-- What happened to each act: a chain of rows, each with a hash over itself and the row before.
--
-- Clustered by act, so that an act's journal is read in one place and needs no second index.
CREATE TABLE journal (
    act_id      TEXT    NOT NULL REFERENCES acts (act_id),
    seq         INTEGER NOT NULL CHECK (seq > 0),
    kind        TEXT    NOT NULL CHECK (kind IN ('line', 'cancel_arrived', 'outside', 'event')),
    thread      TEXT    NOT NULL,
    -- The message id the row takes in its thread, if it takes one.
    message_id  TEXT,
    -- Null once erased. The chain holds its hash, so erasing does not break it.
    body        TEXT,
    body_sha256 TEXT    NOT NULL,
    principal   TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    hash        TEXT    NOT NULL,
    PRIMARY KEY (act_id, seq)
) STRICT, WITHOUT ROWID;

-- A message id is given out once in a thread, over all acts.
CREATE UNIQUE INDEX journal_by_message ON journal (thread, message_id) WHERE message_id IS NOT NULL;

-- A thread's lines in the order they entered it.
CREATE INDEX journal_by_thread ON journal (thread, at, act_id, seq) WHERE kind = 'line';

-- The journal is append-only, and the database itself says so: rows stay, and only a body can go.
CREATE TRIGGER journal_rows_stay BEFORE DELETE ON journal
BEGIN
    SELECT RAISE (ABORT, 'the journal is append-only: erase a body instead');
END;
CREATE TRIGGER journal_rows_stand BEFORE UPDATE ON journal
WHEN NEW.body IS NOT NULL
     OR (NEW.act_id, NEW.seq, NEW.kind, NEW.thread, NEW.message_id, NEW.body_sha256, NEW.principal, NEW.at, NEW.hash)
        IS NOT (OLD.act_id, OLD.seq, OLD.kind, OLD.thread, OLD.message_id, OLD.body_sha256, OLD.principal, OLD.at, OLD.hash)
BEGIN
    SELECT RAISE (ABORT, 'the journal is append-only: only a body can be erased');
END;

-- The highest instant ever written, kept in the same transaction as what was written at it. The store's clock never
-- answers an earlier one, so that a clock set back cannot revive what has expired.
--
-- Each batch sets `whole` to whether every act it changes was at the version it was changed from. Where one was not, the
-- check fails, and with it the batch, before anything is committed.
CREATE TABLE clock (
    one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    highest INTEGER NOT NULL,
    whole   INTEGER NOT NULL CHECK (whole = 1)
) STRICT;
INSERT INTO clock (one, highest, whole) VALUES (1, -9223372036854775808, 1);
