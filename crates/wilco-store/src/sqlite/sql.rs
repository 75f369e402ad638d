//! The statements of the SQLite keeper, beside those it shares with the other database.
//!
//! A batch is written by a handful of statements over JSON arrays, not by one per member: what they cost is then shared by
//! all members.

macro_rules! texts {
    ($json:literal) => {
        concat!("json_each(", $json, ")")
    };
}

macro_rules! objects {
    ($json:literal) => {
        concat!("json_each(", $json, ")")
    };
}

// SQLite takes this as the order to join in.
macro_rules! join {
    () => {
        "CROSS JOIN"
    };
}

shared_statements!(texts, objects, join);

/// Takes the write lock at once, so that what is read from here on is what the write will meet.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// Undoes everything since [`BEGIN`]; an error where no transaction is open.
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// The statements of a text that holds several, one after the other.
pub(super) fn each(statements: &'static str) -> impl Iterator<Item = &'static str> {
    statements.split(";\n")
}

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
    twins!(texts, objects, join, "$7", "1"),
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

/// Writes something, so that what was left in the log by a COMMIT that failed can never come back.
pub(super) const SETTLE: &str = "UPDATE clock SET highest = max(highest, $1) WHERE one = 1";

/// Moves the whole log into the database and empties it; the first column is 1 where a reader was in the way.
pub(super) const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Where each act in $1 (ids) stands: which of a doubtful batch's writes were made.
pub(super) const STAND: &str = "
SELECT act_id, version, head FROM acts WHERE act_id IN (SELECT value FROM json_each($1))";
