//! Every statement the SQLite keeper runs, each with what it guarantees.
//!
//! A batch is written by a handful of statements over JSON arrays, not by one per member: a call costs a hop to the
//! connection's thread, which would be most of the time.

macro_rules! act_columns {
    () => {
        "acts.act_id, acts.thread, acts.handoff_id, acts.version, acts.state, acts.ho_line, acts.sender, \
         acts.receiver, acts.item, acts.ask, acts.profile, acts.principal, acts.attempt, acts.created_at, \
         acts.updated_at, acts.due_at, acts.limit_at, acts.seq, acts.head, acts.lines, acts.long_ids, acts.undo_of, \
         acts.likeness, acts.released_by, acts.profile_digest, acts.contract, acts.tokens, acts.waiting, acts.stage"
    };
}

// What of the acts that the guards in $guards (JSON) are against: $what. The index is walked part by part, from the
// first there is at or after the one the guard begins with (none, if there is none), to the one it ends with.
macro_rules! twins {
    ($guards:literal, $what:literal) => {
        concat!(
            "
WITH RECURSIVE spans (place, guard, likeness, since, span, last) AS (
    SELECT g.key, g.value, g.value ->> 'likeness', g.value ->> 'since',
        (SELECT acts.created_at / 1382400000000 FROM acts
         WHERE acts.likeness IS NOT NULL AND acts.created_at / 1382400000000 >= g.value ->> 'first'
         ORDER BY acts.created_at / 1382400000000 LIMIT 1),
        g.value ->> 'last'
    FROM json_each(",
            $guards,
            ") AS g
    UNION ALL
    SELECT place, guard, likeness, since, span + 1, last FROM spans WHERE span < last
)
SELECT ",
            $what,
            " FROM spans CROSS JOIN acts ON acts.created_at / 1382400000000 = spans.span
    AND substr(acts.likeness, 1, 16) = substr(spans.likeness, 1, 16)
WHERE acts.likeness IS NOT NULL AND acts.likeness = spans.likeness
  AND acts.created_at >= spans.since
  AND acts.state IN (SELECT value FROM json_each(spans.guard, '$.states'))
  AND acts.act_id NOT IN (SELECT value FROM json_each(spans.guard, '$.except'))
  AND NOT EXISTS (SELECT 1 FROM acts AS undo WHERE undo.undo_of = acts.act_id AND undo.state = 'done')"
        )
    };
}

/// Takes the write lock at once, so that what is read from here on is what the write will meet.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// Undoes everything since [`BEGIN`]; an error where no transaction is open.
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// How many statements of [`WRITE`] come before its COMMIT.
pub(super) const BEFORE_COMMIT: usize = 7;

/// Writes a batch and makes it durable: $1 the acts that change and $2 how many they are, $3 the handoffs they hold, $4
/// the new acts, $5 the journal rows, $6 the latest instant among them, $7 the twins that must not stand.
///
/// Twins are looked for before anything is changed; where one stands, the statement fails its table's check.
/// An act is changed only at the version and journal head it was made from; where one was not, the statement after
/// that fails its table's check. A handoff is set only where a tombstone waited for it: one that is there never changes. A
/// name that is taken is a unique violation. The likeness is that of the values last stated; it is set only where it
/// is another, since it is a key of an index. A statement that fails ends the call, so that COMMIT is reached only by a
/// batch that is whole; and it is an error where the transaction is no longer open.
pub(super) const WRITE: &str = concat!(
    "
UPDATE clock SET whole = NOT EXISTS (",
    twins!("$7", "1"),
    ") WHERE one = 1;

UPDATE acts SET
    version = e.value ->> 'version',
    state = e.value ->> 'state',
    principal = e.value ->> 'principal',
    attempt = e.value ->> 'attempt',
    updated_at = e.value ->> 'updated_at',
    due_at = e.value ->> 'due_at',
    limit_at = e.value ->> 'limit_at',
    seq = e.value ->> 'seq',
    head = e.value ->> 'head',
    lines = e.value ->> 'lines',
    long_ids = e.value ->> 'long_ids',
    undo_of = e.value ->> 'undo_of',
    released_by = e.value ->> 'released_by',
    profile_digest = e.value ->> 'profile_digest',
    contract = e.value -> 'contract',
    tokens = e.value -> 'tokens',
    waiting = e.value -> 'waiting',
    stage = e.value -> 'stage'
FROM jsonb_each($1) AS e
WHERE acts.act_id = e.value ->> 'act_id'
  AND acts.version = e.value ->> 'was'
  AND acts.head = e.value ->> 'was_head'
  AND acts.thread = e.value ->> 'thread'
  AND acts.handoff_id = e.value ->> 'handoff_id';

UPDATE clock SET highest = $6, whole = (changes() = $2) WHERE one = 1;

UPDATE acts SET
    ho_line = e.value ->> 'ho_line',
    sender = e.value ->> 'sender',
    receiver = e.value ->> 'receiver',
    item = e.value ->> 'item',
    ask = e.value ->> 'ask',
    profile = e.value ->> 'profile',
    likeness = e.value ->> 'likeness',
    created_at = e.value ->> 'created_at'
FROM jsonb_each($3) AS e
WHERE acts.act_id = e.value ->> 'act_id' AND acts.ho_line = '';

UPDATE acts SET likeness = e.value ->> 'likeness'
FROM jsonb_each($3) AS e
WHERE acts.act_id = e.value ->> 'act_id' AND acts.likeness IS NOT e.value ->> 'likeness';

INSERT INTO acts (
    act_id, thread, handoff_id, version, state, ho_line, sender, receiver, item, ask, profile, principal, attempt,
    created_at, updated_at, due_at, limit_at, seq, head, lines, long_ids, undo_of, likeness, released_by,
    profile_digest, contract, tokens, waiting, stage
)
SELECT
    e.value ->> 'act_id', e.value ->> 'thread', e.value ->> 'handoff_id', e.value ->> 'version',
    e.value ->> 'state', e.value ->> 'ho_line', e.value ->> 'sender', e.value ->> 'receiver', e.value ->> 'item',
    e.value ->> 'ask', e.value ->> 'profile', e.value ->> 'principal', e.value ->> 'attempt',
    e.value ->> 'created_at', e.value ->> 'updated_at', e.value ->> 'due_at', e.value ->> 'limit_at',
    e.value ->> 'seq', e.value ->> 'head', e.value ->> 'lines', e.value ->> 'long_ids', e.value ->> 'undo_of',
    e.value ->> 'likeness', e.value ->> 'released_by', e.value ->> 'profile_digest', e.value -> 'contract',
    e.value -> 'tokens', e.value -> 'waiting', e.value -> 'stage'
FROM jsonb_each($4) AS e;

INSERT INTO journal (act_id, seq, kind, thread, message_id, body, body_sha256, principal, at, hash)
SELECT
    e.value ->> 'act_id', e.value ->> 'seq', e.value ->> 'kind', e.value ->> 'thread', e.value ->> 'message_id',
    e.value ->> 'body', e.value ->> 'body_sha256', e.value ->> 'principal', e.value ->> 'at', e.value ->> 'hash'
FROM jsonb_each($5) AS e;

COMMIT"
);

/// Takes the reversals off the acts in $1 before [`WRITE`] sets them anew, so that one write can pass a reversal from
/// one act to another.
pub(super) const LET_GO: &str = "
UPDATE acts SET undo_of = NULL
WHERE undo_of IS NOT NULL AND act_id IN (SELECT value ->> 'act_id' FROM json_each($1))";

/// Erases the bodies of the journals of the acts in $1 (ids) and the lines of their handoffs, before [`WRITE`] writes the
/// acts without them.
pub(super) const ERASE: &str = "
UPDATE journal SET body = NULL
WHERE act_id IN (SELECT value FROM json_each($1)) AND body IS NOT NULL;

UPDATE acts SET ho_line = '' WHERE act_id IN (SELECT value FROM json_each($1))";

/// The highest instant ever written.
pub(super) const HIGHEST: &str = "SELECT highest FROM clock WHERE one = 1";

/// Writes something, so that what was left in the log by a COMMIT that failed can never come back.
pub(super) const SETTLE: &str = "UPDATE clock SET highest = max(highest, $1) WHERE one = 1";

/// Moves the whole log into the database and empties it; the first column is 1 where a reader was in the way.
pub(super) const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Where each act in $1 (ids) stands: which of a doubtful batch's writes were made.
pub(super) const STAND: &str = "
SELECT act_id, version, head FROM acts WHERE act_id IN (SELECT value FROM json_each($1))";

/// Every act that bears on a batch: by id ($1), by thread and handoff id ($2), by what it reverses ($3).
pub(super) const IN_THE_WAY: &str = concat!(
    "SELECT ",
    act_columns!(),
    " FROM acts WHERE act_id IN (SELECT value FROM json_each($1))
UNION
SELECT ",
    act_columns!(),
    " FROM json_each($2) AS e JOIN acts
  ON acts.thread = e.value ->> 'thread' AND acts.handoff_id = e.value ->> 'id'
UNION
SELECT ",
    act_columns!(),
    " FROM json_each($3) AS e JOIN acts ON acts.undo_of = e.value"
);

/// The earliest twin of each guard in $1, with the guard's place.
pub(super) const TWINS: &str = concat!(
    "SELECT found.place, ",
    act_columns!(),
    " FROM (",
    twins!("$1", "spans.place AS place, min(acts.act_id) AS twin"),
    " GROUP BY spans.place) AS found JOIN acts ON acts.act_id = found.twin"
);

/// Which of the message ids in $1 are taken in their threads.
pub(super) const MESSAGES_TAKEN: &str = "
SELECT journal.thread, journal.message_id FROM json_each($1) AS e JOIN journal
  ON journal.thread = e.value ->> 'thread' AND journal.message_id = e.value ->> 'id'";

/// One act by its id.
pub(super) const ACT: &str = concat!("SELECT ", act_columns!(), " FROM acts WHERE act_id = $1");

/// The one act that holds a handoff's id in a thread.
pub(super) const ACT_BY_HANDOFF: &str = concat!(
    "SELECT ",
    act_columns!(),
    " FROM acts WHERE thread = $1 AND handoff_id = $2"
);

/// The one act whose journal gave out a message id in a thread, and that row's body.
pub(super) const ACT_BY_MESSAGE: &str = concat!(
    "SELECT ",
    act_columns!(),
    ", journal.body FROM journal JOIN acts ON acts.act_id = journal.act_id
WHERE journal.thread = $1 AND journal.message_id = $2"
);

/// The one act that reverses another.
pub(super) const ACT_UNDOING: &str = concat!("SELECT ", act_columns!(), " FROM acts WHERE undo_of = $1");

// The four lists differ in the index they walk, in its order, so that a page costs the same wherever it starts. Each
// answers acts before $1 (an id), newest first, at most $2; $3 an ask, $4 a thread, $5 a JSON array of senders, $6 a JSON
// array of states, each null for all.
macro_rules! list {
    ($walk:literal) => {
        concat!(
            "SELECT ",
            act_columns!(),
            " FROM acts WHERE ",
            $walk,
            " AND act_id < $1
  AND ($3 IS NULL OR ask = $3)
  AND ($4 IS NULL OR thread = $4)
  AND ($5 IS NULL OR sender IN (SELECT value FROM json_each($5)))
  AND ($6 IS NULL OR state IN (SELECT value FROM json_each($6)))
ORDER BY act_id DESC LIMIT $2"
        )
    };
}

/// A page of all acts.
pub(super) const LIST: &str = list!("1 = 1");
/// A page of the acts of thread $7.
pub(super) const LIST_OF_THREAD: &str = list!("thread = $7");
/// A page of the acts in state $7.
pub(super) const LIST_OF_STATE: &str = list!("state = $7");
/// A page of the acts of sender $7.
pub(super) const LIST_OF_SENDER: &str = list!("sender = $7");

/// What is due at $1, the most overdue first, at most $2. Final acts have no `due_at`.
pub(super) const DUE: &str = concat!(
    "SELECT ",
    act_columns!(),
    " FROM acts WHERE due_at <= $1 ORDER BY due_at, act_id LIMIT $2"
);

/// What is due at $1 in thread $2. Walks what is due, which is short, and never the thread, which may be long.
pub(super) const DUE_IN_THREAD: &str = concat!(
    "WITH overdue AS MATERIALIZED (SELECT act_id, due_at FROM acts WHERE due_at <= $1)
SELECT ",
    act_columns!(),
    " FROM overdue CROSS JOIN acts ON acts.act_id = overdue.act_id
WHERE acts.thread = $2 ORDER BY acts.due_at, acts.act_id"
);

/// Every act that is claimed and not settled, oldest first.
pub(super) const CLAIMED: &str = concat!(
    "SELECT ",
    act_columns!(),
    " FROM acts WHERE state IN ('executing', 'in_doubt') ORDER BY act_id"
);

/// Closed acts that still have their handoff's line and were last written before $1, the oldest first, after the place $2,
/// $3, at most $4.
pub(super) const OLD: &str = concat!(
    "SELECT ",
    act_columns!(),
    " FROM acts WHERE due_at IS NULL AND ho_line <> '' AND updated_at < $1 AND (updated_at, act_id) > ($2, $3)
ORDER BY updated_at, act_id LIMIT $4"
);

/// A thread's lines in the order they entered it, after the place $2, $3, $4, at most $5.
pub(super) const THREAD: &str = "
SELECT at, act_id, seq, body FROM journal
WHERE thread = $1 AND kind = 'line' AND (at, act_id, seq) > ($2, $3, $4)
ORDER BY at, act_id, seq LIMIT $5";

/// An act's journal from its first row.
pub(super) const JOURNAL: &str = "
SELECT act_id, seq, kind, message_id, body, body_sha256, principal, at, hash FROM journal
WHERE act_id = $1 ORDER BY seq";

/// How many acts stand in each state, read from the index alone.
pub(super) const COUNTS: &str = "SELECT state, count(*) FROM acts GROUP BY state";
