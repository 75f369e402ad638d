-- Acts, their journal, and the store's clock: the same tables as in SQLite, told there column by column.
--
-- Instants are microseconds since 1970-01-01T00:00:00Z. Hashes and ids are lower-case hex, so that a row can be read by
-- eye. Texts are compared byte by byte (COLLATE "C"), whatever the database's language, so that ids sort by time and an
-- index survives a new version of the operating system's collations.
--
-- Nothing here takes a number from a sequence or a lock on the session: a database that is spread over several machines
-- can serve it.

CREATE TABLE acts (
    act_id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    thread         TEXT COLLATE "C" NOT NULL,
    handoff_id     TEXT COLLATE "C" NOT NULL,
    version        BIGINT NOT NULL CHECK (version > 0),
    state          TEXT COLLATE "C" NOT NULL CHECK (state IN ('prepared', 'held', 'lapsed', 'executing', 'in_doubt',
                                                              'done', 'failed', 'cancelled', 'refused')),
    ho_line        TEXT COLLATE "C" NOT NULL,
    sender         TEXT COLLATE "C" NOT NULL,
    receiver       TEXT COLLATE "C" NOT NULL,
    item           TEXT COLLATE "C" NOT NULL,
    ask            TEXT COLLATE "C" NOT NULL,
    profile        TEXT COLLATE "C" NOT NULL,
    principal      TEXT COLLATE "C" NOT NULL,
    attempt        BIGINT NOT NULL CHECK (attempt >= 0),
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    due_at         BIGINT,
    limit_at       BIGINT NOT NULL,
    seq            BIGINT NOT NULL CHECK (seq >= 0),
    head           TEXT COLLATE "C" NOT NULL,
    lines          BIGINT NOT NULL CHECK (lines >= 0),
    long_ids       BIGINT NOT NULL CHECK (long_ids IN (0, 1)),
    undo_of        TEXT COLLATE "C",
    likeness       TEXT COLLATE "C",
    profile_digest TEXT COLLATE "C",
    contract       TEXT COLLATE "C",
    tokens         TEXT COLLATE "C" NOT NULL,
    waiting        TEXT COLLATE "C" NOT NULL,
    stage          TEXT COLLATE "C" NOT NULL,
    UNIQUE (thread, handoff_id)
);

-- An act's every state is a new copy of its row; what old copies leave is taken up again soon, before it is a fifth.
ALTER TABLE acts SET (autovacuum_vacuum_scale_factor = 0.05);

CREATE UNIQUE INDEX acts_by_undo ON acts (undo_of) WHERE undo_of IS NOT NULL;
CREATE INDEX acts_by_due ON acts (due_at, act_id) WHERE due_at IS NOT NULL;
CREATE INDEX acts_by_state ON acts (state, act_id);
CREATE INDEX acts_by_thread ON acts (thread, act_id);
CREATE INDEX acts_by_sender ON acts (sender, act_id);

-- No foreign key to acts: a row and its act are written by one statement that counts both, and the key's check would be
-- a question of its own for every row.
CREATE TABLE journal (
    act_id      TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL CHECK (seq > 0),
    kind        TEXT COLLATE "C" NOT NULL CHECK (kind IN ('line', 'cancel_arrived', 'outside', 'event')),
    thread      TEXT COLLATE "C" NOT NULL,
    message_id  TEXT COLLATE "C",
    body        TEXT COLLATE "C",
    body_sha256 TEXT COLLATE "C" NOT NULL,
    principal   TEXT COLLATE "C" NOT NULL,
    at          BIGINT NOT NULL,
    hash        TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (act_id, seq)
);

CREATE UNIQUE INDEX journal_by_message ON journal (thread, message_id) WHERE message_id IS NOT NULL;
CREATE INDEX journal_by_thread ON journal (thread, at, act_id, seq) WHERE kind = 'line';

-- The journal is append-only, and the database itself says so: rows stay, and only a body can go.
CREATE FUNCTION journal_rows_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the journal is append-only: erase a body instead';
END $$;
CREATE FUNCTION journal_rows_stand() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.body IS NOT NULL
       OR (NEW.act_id, NEW.seq, NEW.kind, NEW.thread, NEW.message_id, NEW.body_sha256, NEW.principal, NEW.at, NEW.hash)
          IS DISTINCT FROM
          (OLD.act_id, OLD.seq, OLD.kind, OLD.thread, OLD.message_id, OLD.body_sha256, OLD.principal, OLD.at, OLD.hash)
    THEN
        RAISE EXCEPTION 'the journal is append-only: only a body can be erased';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER journal_rows_stay BEFORE DELETE ON journal FOR EACH ROW EXECUTE FUNCTION journal_rows_stay();
CREATE TRIGGER journal_is_not_emptied BEFORE TRUNCATE ON journal FOR EACH STATEMENT EXECUTE FUNCTION journal_rows_stay();
CREATE TRIGGER journal_rows_stand BEFORE UPDATE ON journal FOR EACH ROW EXECUTE FUNCTION journal_rows_stand();

-- The highest instant written, noted by every daemon once a second. A row that every write had to change would make them
-- wait for each other's flush; what is written in the second before a crash is guarded by the acts' own instants.
CREATE TABLE clock (
    one     BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    highest BIGINT NOT NULL
);
INSERT INTO clock (one, highest) VALUES (1, -9223372036854775808);
