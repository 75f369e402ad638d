//! The statements of the Postgres keeper, beside those it shares with the other database.
//!
//! Questions are shared. What writes is not: SQLite has one writer, which makes a batch of many writes in a few statements
//! and checks afterwards whether all of it fits; here every write is a statement of its own that locks its rows, reads the
//! clock, and minds writers in other daemons. What else stands here is about connections, which SQLite has none of.

macro_rules! texts {
    ($json:literal) => {
        concat!("json_array_elements_text(CAST(", $json, " AS json))")
    };
}

macro_rules! objects {
    ($json:literal) => {
        concat!("json_array_elements(CAST(", $json, " AS json))")
    };
}

macro_rules! join {
    () => {
        "JOIN"
    };
}

// The database's clock, in microseconds. Not `now()`, which stands still in a transaction.
macro_rules! clock {
    () => {
        "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
    };
}

// The setting without which what is committed is not durable, where one is off. The server reads its settings anew before a
// statement, never within one.
macro_rules! switched_off {
    () => {
        "CASE WHEN current_setting('fsync') = 'off' THEN 'fsync'
         WHEN current_setting('full_page_writes') = 'off' THEN 'full_page_writes' END"
    };
}

shared_statements!(texts, objects, join);

// The acts of a write as rows: of several, each column an array; of one, each column a value.
macro_rules! several_acts {
    () => {
        "
i AS MATERIALIZED (
    SELECT * FROM UNNEST(
        CAST($1 AS TEXT[]), CAST($2 AS BIGINT[]), CAST($3 AS TEXT[]), CAST($4 AS TEXT[]), CAST($5 AS TEXT[]),
        CAST($6 AS BIGINT[]), CAST($7 AS TEXT[]), CAST($8 AS TEXT[]), CAST($9 AS TEXT[]), CAST($10 AS TEXT[]),
        CAST($11 AS TEXT[]), CAST($12 AS TEXT[]), CAST($13 AS TEXT[]), CAST($14 AS TEXT[]), CAST($15 AS BIGINT[]),
        CAST($16 AS BIGINT[]), CAST($17 AS BIGINT[]), CAST($18 AS BIGINT[]), CAST($19 AS BIGINT[]), CAST($20 AS TEXT[]),
        CAST($21 AS BIGINT[]), CAST($22 AS BIGINT[]), CAST($23 AS TEXT[]), CAST($24 AS TEXT[]), CAST($25 AS TEXT[]),
        CAST($26 AS TEXT[]), CAST($27 AS TEXT[]), CAST($28 AS TEXT[]), CAST($29 AS TEXT[]), CAST($30 AS TEXT[])
    ) AS i (
        act_id, was, was_head, thread, handoff_id, version, state, ho_line, sender, receiver, item, ask, profile,
        principal, attempt, created_at, due_at, limit_at, seq, head, lines, long_ids, undo_of, likeness, released_by,
        profile_digest, contract, tokens, waiting, stage
    )
),"
    };
}

macro_rules! one_act {
    () => {
        "
i AS NOT MATERIALIZED (
    SELECT
        CAST($1 AS TEXT) AS act_id, CAST($2 AS BIGINT) AS was, CAST($3 AS TEXT) AS was_head,
        CAST($4 AS TEXT) AS thread, CAST($5 AS TEXT) AS handoff_id, CAST($6 AS BIGINT) AS version,
        CAST($7 AS TEXT) AS state, CAST($8 AS TEXT) AS ho_line, CAST($9 AS TEXT) AS sender,
        CAST($10 AS TEXT) AS receiver, CAST($11 AS TEXT) AS item, CAST($12 AS TEXT) AS ask,
        CAST($13 AS TEXT) AS profile, CAST($14 AS TEXT) AS principal, CAST($15 AS BIGINT) AS attempt,
        CAST($16 AS BIGINT) AS created_at, CAST($17 AS BIGINT) AS due_at, CAST($18 AS BIGINT) AS limit_at,
        CAST($19 AS BIGINT) AS seq, CAST($20 AS TEXT) AS head, CAST($21 AS BIGINT) AS lines,
        CAST($22 AS BIGINT) AS long_ids, CAST($23 AS TEXT) AS undo_of, CAST($24 AS TEXT) AS likeness,
        CAST($25 AS TEXT) AS released_by, CAST($26 AS TEXT) AS profile_digest, CAST($27 AS TEXT) AS contract,
        CAST($28 AS TEXT) AS tokens, CAST($29 AS TEXT) AS waiting, CAST($30 AS TEXT) AS stage
),"
    };
}

// Locks the rows that are to change.
macro_rules! held {
    () => {
        "
held AS MATERIALIZED (
    SELECT (SELECT acts.act_id FROM acts
            WHERE acts.act_id = i.act_id AND acts.version = i.was AND acts.head = i.was_head
              AND acts.thread = i.thread AND acts.handoff_id = i.handoff_id AND acts.updated_at < $40
            FOR UPDATE) AS act_id
    FROM i WHERE i.was > 0
),
stand AS MATERIALIZED (
    SELECT count(*) = count(held.act_id) AS whole FROM held
),"
    };
}

macro_rules! updated {
    () => {
        "
updated AS (
    UPDATE acts SET
        version = i.version, state = i.state, principal = i.principal, attempt = i.attempt, updated_at = $40,
        due_at = i.due_at, limit_at = i.limit_at, seq = i.seq, head = i.head, lines = i.lines, long_ids = i.long_ids,
        undo_of = i.undo_of, likeness = i.likeness, released_by = i.released_by,
        profile_digest = i.profile_digest, contract = i.contract, tokens = i.tokens, waiting = i.waiting,
        stage = i.stage,
        ho_line = CASE WHEN $44 THEN '' WHEN acts.ho_line = '' THEN i.ho_line ELSE acts.ho_line END,
        sender = CASE WHEN acts.ho_line = '' THEN i.sender ELSE acts.sender END,
        receiver = CASE WHEN acts.ho_line = '' THEN i.receiver ELSE acts.receiver END,
        item = CASE WHEN acts.ho_line = '' THEN i.item ELSE acts.item END,
        ask = CASE WHEN acts.ho_line = '' THEN i.ask ELSE acts.ask END,
        profile = CASE WHEN acts.ho_line = '' THEN i.profile ELSE acts.profile END,
        created_at = CASE WHEN acts.ho_line = '' THEN i.created_at ELSE acts.created_at END
    FROM go, i
    WHERE go.go AND i.was > 0 AND acts.act_id = i.act_id
    RETURNING 1
),"
    };
}

macro_rules! inserted {
    () => {
        "
inserted AS (
    INSERT INTO acts (
        act_id, thread, handoff_id, version, state, ho_line, sender, receiver, item, ask, profile, principal, attempt,
        created_at, updated_at, due_at, limit_at, seq, head, lines, long_ids, undo_of, likeness, released_by,
        profile_digest, contract, tokens, waiting, stage
    )
    SELECT
        i.act_id, i.thread, i.handoff_id, i.version, i.state, i.ho_line, i.sender, i.receiver, i.item, i.ask, i.profile,
        i.principal, i.attempt, i.created_at, $40, i.due_at, i.limit_at, i.seq, i.head, i.lines, i.long_ids, i.undo_of,
        i.likeness, i.released_by, i.profile_digest, i.contract, i.tokens, i.waiting, i.stage
    FROM go, i WHERE go.go AND i.was = 0
    RETURNING 1
),"
    };
}

// The statement of a write: the rows of `i` and the lock of those that are to change, what is done with acts, what more is done
// with journals, and whether as many acts were written as were meant.
macro_rules! write_statement {
    ($i:expr, $held:expr, $made:expr, $erased:expr, $whole:expr) => {
        concat!(
            "WITH",
            $i,
            $held,
            "
lone AS MATERIALIZED (
    SELECT stand.whole AND NOT EXISTS (",
            twins!(texts, objects, join, "$43", "1"),
            ") AS lone FROM stand
),
counted AS (
    INSERT INTO likeness_parts AS kept (part, writes)
    SELECT wanted.part, 1 FROM lone, UNNEST(CAST($42 AS TEXT[])) AS wanted (part) WHERE lone.lone
    ON CONFLICT (part) DO UPDATE SET writes = kept.writes + 1
    WHERE kept.writes = (SELECT seen.writes FROM likeness_parts AS seen WHERE seen.part = excluded.part)
    RETURNING 1
),
clock AS MATERIALIZED (
    SELECT ",
            clock!(),
            " AS now, ",
            switched_off!(),
            " AS switched_off, c.parts
    FROM lone CROSS JOIN (SELECT count(*) AS parts FROM counted) AS c
),
go AS MATERIALIZED (
    SELECT clock.now, clock.switched_off, lone.lone AND clock.parts = cardinality($42) AS free,
        lone.lone AND clock.parts = cardinality($42) AND (clock.now <= $40 OR NOT $41) AND clock.switched_off IS NULL AS go
    FROM lone CROSS JOIN clock
),",
            $made,
            "
noted AS (
    INSERT INTO journal (act_id, seq, kind, thread, message_id, body, body_sha256, principal, at, hash)
    SELECT r.act_id, r.seq, r.kind, r.thread, r.message_id, r.body, r.body_sha256, r.principal, $40, r.hash
    FROM go, UNNEST(
        CAST($31 AS TEXT[]), CAST($32 AS BIGINT[]), CAST($33 AS TEXT[]), CAST($34 AS TEXT[]), CAST($35 AS TEXT[]),
        CAST($36 AS TEXT[]), CAST($37 AS TEXT[]), CAST($38 AS TEXT[]), CAST($39 AS TEXT[])
    ) AS r (act_id, seq, kind, thread, message_id, body, body_sha256, principal, hash)
    WHERE go.go
    RETURNING 1
)",
            $erased,
            "
SELECT go.now, go.switched_off, go.free, go.go,
    1 / CASE
        WHEN NOT go.go THEN 1
        WHEN ",
            $whole,
            " AND (SELECT count(*) FROM noted) = cardinality($31) THEN 1
        ELSE 0
    END AS complete
FROM go"
        )
    };
}

/// Makes one write, or nothing of it, and answers one row that says which and why. A transaction of its own: it is
/// durable once the server is ready for the next.
///
/// $1 to $30 the acts, column by column, in the order of their ids, with the version and head each was made from (`was` is 0
/// for a new one); $31 to $39
/// the journal rows; $40 the instant it was decided with; $41 whether that instant is to be compared with the clock; $42 the
/// parts of the likenesses it may make twins of; $43 the twins that must not stand; $44 whether it erases what was there.
///
/// Step by step, each reading what the one before answered:
///
/// 1. `held`: the rows it changes are locked, in the order of their ids, so that two writes never wait for each other in a
///    circle. A row that another write changed meanwhile is looked at again as it now stands, and is not at the version
///    any more.
/// 2. `lone`: no twin stands, as far as this statement sees.
/// 3. `counted`: nobody who could have made one has written since this statement began to look. See the migration.
/// 4. `clock`: read now, with everything locked: the instant of the write is not before it. So a write that waited for a
///    lock is not made with an instant from before the wait, and what expired meanwhile has expired. It reads `lone` itself:
///    where no part is counted, nothing else would have the rows locked by then. Read besides is whether what is
///    committed is still durable, since that can be switched off at any time.
/// 5. `go`: all of that holds. Only then anything is written.
///
/// A name that is taken is a unique violation, which undoes the whole. Should fewer rows be written than were meant,
/// the division fails, and with it the statement.
pub(super) const WRITE: &str = write_statement!(
    several_acts!(),
    held!(),
    concat!(updated!(), inserted!()),
    ",
erased AS (
    UPDATE journal SET body = NULL FROM go
    WHERE go.go AND $44 AND journal.act_id = ANY ($1) AND journal.body IS NOT NULL
    RETURNING 1
)",
    "(SELECT count(*) FROM updated) + (SELECT count(*) FROM inserted) = cardinality($1)"
);

/// The same for one new act, and nothing else: most of what a write costs is to get a long statement ready.
pub(super) const WRITE_NEW: &str = write_statement!(
    one_act!(),
    "
stand AS MATERIALIZED (
    SELECT true AS whole
),",
    inserted!(),
    "",
    "(SELECT count(*) FROM inserted) = 1"
);

/// The same for one act that is there, of which nothing is erased.
pub(super) const WRITE_CHANGED: &str = write_statement!(
    one_act!(),
    held!(),
    updated!(),
    "",
    "(SELECT count(*) FROM updated) = 1"
);

/// Begins a transaction of several statements; each of them sees what was committed before it began.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Makes it durable.
pub(super) const COMMIT: &str = "COMMIT";

/// Undoes it.
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// Locks the acts in $1 (ids, in order), one after the other, until the transaction ends.
pub(super) const LOCK: &str = "
SELECT (SELECT acts.act_id FROM acts WHERE acts.act_id = wanted.id FOR UPDATE) AS act_id
FROM UNNEST(CAST($1 AS TEXT[])) AS wanted (id)";

/// Takes the reversals off the acts in $1 before [`WRITE`] sets them anew, so that one write can pass a reversal from
/// one act to another.
pub(super) const LET_GO: &str = "
UPDATE acts SET undo_of = NULL WHERE undo_of IS NOT NULL AND act_id = ANY (CAST($1 AS TEXT[]))";

/// The database's clock.
pub(super) const NOW: &str = concat!("SELECT ", clock!(), " AS now");

/// Notes $1 as the highest instant, where it is, and answers the database's clock, the highest that is noted, and which
/// setting is off that durability needs.
pub(super) const TICK: &str = concat!(
    "
WITH noted AS (UPDATE clock SET highest = $1 WHERE one = 1 AND highest < $1 RETURNING highest)
SELECT ",
    clock!(),
    " AS now, coalesce((SELECT highest FROM noted), (SELECT highest FROM clock WHERE one = 1)) AS highest, ",
    switched_off!(),
    " AS switched_off"
);

/// Whether a journal row stands: act $1, number $2, hash $3.
pub(super) const ROW_STANDS: &str =
    "SELECT count(*) AS rows FROM journal WHERE act_id = $1 AND seq = $2 AND hash = $3";

/// What a connection is, and whether what it commits is durable. `started` is null where this user is not shown its own
/// connection.
pub(super) const CHECK: &str = "
SELECT CAST(pg_backend_pid() AS BIGINT) AS pid,
    (SELECT CAST(extract(epoch FROM backend_start) * 1000000 AS BIGINT)
     FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS started,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    CAST(current_setting('server_version_num') AS BIGINT) AS server,
    CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END AS standby";

/// Sets for this connection that a commit waits for the disk, whatever is set for the server later: to `on`, or to what waits
/// for more than that.
pub(super) const PIN: &str = "
SELECT set_config('synchronous_commit',
    CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false) AS pinned";

/// Ends the server's side of a lost connection: process $1, started at $2. No row: it has ended, and what it did is done.
pub(super) const END_OTHER: &str = "
SELECT CAST(pid AS BIGINT) AS pid, pg_terminate_backend(pid) AS told FROM pg_stat_activity
WHERE pid = $1 AND CAST(extract(epoch FROM backend_start) * 1000000 AS BIGINT) = $2";

/// Tells whoever listens that the acts in $1 (ids, joined by a comma) were written.
pub(super) const TELL: &str = "SELECT pg_notify('wilco_acts', $1)";

/// The channel of [`TELL`].
pub(super) const CHANNEL: &str = "wilco_acts";

/// Where a schema's migrations are noted.
pub(super) const MIGRATIONS_TABLE: &str = "
CREATE TABLE IF NOT EXISTS wilco_migrations (
    version BIGINT NOT NULL PRIMARY KEY,
    name    TEXT   NOT NULL,
    sha256  TEXT   NOT NULL,
    -- The newest migration that a build must know to work on this database after this one.
    needs   BIGINT NOT NULL
)";

/// Whether there is such a table.
pub(super) const MIGRATIONS_ARE_NOTED: &str =
    "SELECT CAST(CASE WHEN to_regclass('wilco_migrations') IS NULL THEN 0 ELSE 1 END AS BIGINT) AS noted";

/// One at a time.
pub(super) const LOCK_MIGRATIONS: &str = "LOCK TABLE wilco_migrations IN SHARE ROW EXCLUSIVE MODE";

/// Migrations may take their time, within this transaction.
pub(super) const TAKE_TIME: &str = "SET LOCAL statement_timeout = 0";

/// What was migrated.
pub(super) const MIGRATED: &str =
    "SELECT version, name, sha256, needs FROM wilco_migrations ORDER BY version";

/// Notes a migration.
pub(super) const MIGRATION_DONE: &str =
    "INSERT INTO wilco_migrations (version, name, sha256, needs) VALUES ($1, $2, $3, $4)";

/// Each of them by its name, for the test that prepares all.
#[cfg(all(test, feature = "postgres-tests"))]
pub(super) const OURS: [(&str, &str); 16] = [
    ("WRITE", WRITE),
    ("WRITE_NEW", WRITE_NEW),
    ("WRITE_CHANGED", WRITE_CHANGED),
    ("LOCK", LOCK),
    ("LET_GO", LET_GO),
    ("NOW", NOW),
    ("TICK", TICK),
    ("ROW_STANDS", ROW_STANDS),
    ("CHECK", CHECK),
    ("PIN", PIN),
    ("END_OTHER", END_OTHER),
    ("TELL", TELL),
    ("MIGRATIONS_ARE_NOTED", MIGRATIONS_ARE_NOTED),
    ("LOCK_MIGRATIONS", LOCK_MIGRATIONS),
    ("MIGRATED", MIGRATED),
    ("MIGRATION_DONE", MIGRATION_DONE),
];
