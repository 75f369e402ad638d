//! The statements that both databases understand, each with what it guarantees.
//!
//! They differ in how a JSON array is read as rows, and in how SQLite is told the order of a join, which Postgres finds by
//! itself; [`shared_statements!`] takes these three as parameters, so that every other word stands here once.

macro_rules! act_columns {
    () => {
        "acts.act_id, acts.thread, acts.handoff_id, acts.version, acts.state, acts.ho_line, acts.sender, \
         acts.receiver, acts.item, acts.ask, acts.profile, acts.principal, acts.attempt, acts.created_at, \
         acts.updated_at, acts.due_at, acts.limit_at, acts.seq, acts.head, acts.lines, acts.long_ids, acts.undo_of, \
         acts.likeness, acts.released_by, acts.profile_digest, acts.contract, acts.tokens, acts.waiting, acts.stage"
    };
}

// What of the acts that the guards in $guards (JSON) are against: $what. The index is walked part by part, from the
// first there is at or after the one the guard begins with (none, if there is none), to the one it ends with. The zero is
// for SQLite, which takes no cast as the bound of an index over an expression.
macro_rules! twins {
    ($texts:ident, $objects:ident, $join:ident, $guards:literal, $what:literal) => {
        concat!(
            "
WITH RECURSIVE spans (place, guard, likeness, since, span, last) AS (
    SELECT CAST(g.value ->> 'place' AS BIGINT), g.value, g.value ->> 'likeness', CAST(g.value ->> 'since' AS BIGINT),
        (SELECT acts.created_at / 1382400000000 FROM acts
         WHERE acts.likeness IS NOT NULL
           AND acts.created_at / 1382400000000 >= CAST(g.value ->> 'first' AS BIGINT) + 0
         ORDER BY acts.created_at / 1382400000000 LIMIT 1),
        CAST(g.value ->> 'last' AS BIGINT)
    FROM ",
            $objects!($guards),
            " AS g
    UNION ALL
    SELECT place, guard, likeness, since, span + 1, last FROM spans WHERE span < last
)
SELECT ",
            $what,
            " FROM spans ",
            $join!(),
            " acts ON acts.created_at / 1382400000000 = spans.span
    AND substr(acts.likeness, 1, 16) = substr(spans.likeness, 1, 16)
WHERE acts.likeness IS NOT NULL AND acts.likeness = spans.likeness
  AND acts.created_at >= spans.since
  AND acts.state IN (SELECT value FROM ",
            $texts!("spans.guard -> 'states'"),
            ")
  AND acts.act_id NOT IN (SELECT value FROM ",
            $texts!("spans.guard -> 'except'"),
            ")
  AND NOT EXISTS (SELECT 1 FROM acts AS undo WHERE undo.undo_of = acts.act_id AND undo.state = 'done')"
        )
    };
}

// The four lists differ in the index they walk, in its order, so that a page costs the same wherever it starts. Each
// answers acts before $1 (an id), newest first, at most $2; $3 an ask, $4 a thread, $5 a JSON array of senders, $6 a JSON
// array of states, each null for all; $7 is what the index is walked by, null for all. The walk is a range and not an
// equality, and its order names the whole index: an equality would let Postgres walk all acts by their ids and pick, which
// is quick only where what is looked for is not rare.
macro_rules! list {
    ($texts:ident, $walk:literal, $order:literal) => {
        concat!(
            "SELECT ",
            act_columns!(),
            " FROM acts WHERE ",
            $walk,
            "
  AND ($3 IS NULL OR ask = $3)
  AND ($4 IS NULL OR thread = $4)
  AND ($5 IS NULL OR sender IN (SELECT value FROM ",
            $texts!("$5"),
            "))
  AND ($6 IS NULL OR state IN (SELECT value FROM ",
            $texts!("$6"),
            "))
ORDER BY ",
            $order,
            " LIMIT $2"
        )
    };
}

/// The statements themselves: `$texts!(j)` reads the JSON array `j` as a column `value` of texts, `$objects!(j)` as one
/// of objects, and `$join!()` joins what stands left of it, row by row, to what stands right.
macro_rules! shared_statements {
    ($texts:ident, $objects:ident, $join:ident) => {
        /// Every act that bears on a batch: by id ($1), by thread and handoff id ($2), by what it reverses ($3).
        pub(crate) const IN_THE_WAY: &str = concat!(
            "SELECT ",
            act_columns!(),
            " FROM acts WHERE act_id IN (SELECT value FROM ",
            $texts!("$1"),
            ")
UNION
SELECT ",
            act_columns!(),
            " FROM ",
            $objects!("$2"),
            " AS e JOIN acts ON acts.thread = e.value ->> 'thread' AND acts.handoff_id = e.value ->> 'id'
UNION
SELECT ",
            act_columns!(),
            " FROM ",
            $texts!("$3"),
            " AS e JOIN acts ON acts.undo_of = e.value"
        );

        /// The earliest twin of each guard in $1, with the guard's place.
        pub(crate) const TWINS: &str = concat!(
            "SELECT found.place, ",
            act_columns!(),
            " FROM (",
            twins!(
                $texts,
                $objects,
                $join,
                "$1",
                "spans.place AS place, min(acts.act_id) AS twin"
            ),
            " GROUP BY spans.place) AS found ",
            $join!(),
            " acts ON acts.act_id = found.twin"
        );

        /// Which of the message ids in $1 are taken in their threads.
        pub(crate) const MESSAGES_TAKEN: &str = concat!(
            "SELECT journal.thread, journal.message_id FROM ",
            $objects!("$1"),
            " AS e JOIN journal ON journal.thread = e.value ->> 'thread' AND journal.message_id = e.value ->> 'id'"
        );

        /// One act by its id.
        pub(crate) const ACT: &str = concat!("SELECT ", act_columns!(), " FROM acts WHERE act_id = $1");

        /// The one act that holds a handoff's id in a thread.
        pub(crate) const ACT_BY_HANDOFF: &str = concat!(
            "SELECT ",
            act_columns!(),
            " FROM acts WHERE thread = $1 AND handoff_id = $2"
        );

        /// The one act whose journal gave out a message id in a thread, and that row's body.
        pub(crate) const ACT_BY_MESSAGE: &str = concat!(
            "SELECT ",
            act_columns!(),
            ", journal.body FROM journal JOIN acts ON acts.act_id = journal.act_id
WHERE journal.thread = $1 AND journal.message_id = $2"
        );

        /// The one act that reverses another.
        pub(crate) const ACT_UNDOING: &str =
            concat!("SELECT ", act_columns!(), " FROM acts WHERE undo_of = $1");

        /// A page of all acts.
        pub(crate) const LIST: &str = list!($texts, "$7 IS NULL AND act_id < $1", "act_id DESC");
        /// A page of the acts of thread $7.
        pub(crate) const LIST_OF_THREAD: &str = list!(
            $texts,
            "thread >= $7 AND (thread, act_id) < ($7, $1)",
            "thread DESC, act_id DESC"
        );
        /// A page of the acts in state $7.
        pub(crate) const LIST_OF_STATE: &str = list!(
            $texts,
            "state >= $7 AND (state, act_id) < ($7, $1)",
            "state DESC, act_id DESC"
        );
        /// A page of the acts of sender $7.
        pub(crate) const LIST_OF_SENDER: &str = list!(
            $texts,
            "sender >= $7 AND (sender, act_id) < ($7, $1)",
            "sender DESC, act_id DESC"
        );

        /// What is due at $1, the most overdue first, at most $2. Final acts have no `due_at`.
        pub(crate) const DUE: &str = concat!(
            "SELECT ",
            act_columns!(),
            " FROM acts WHERE due_at <= $1 ORDER BY due_at, act_id LIMIT $2"
        );

        /// What is due at $1 in thread $2. Walks what is due, which is short, and never the thread, which may be long.
        pub(crate) const DUE_IN_THREAD: &str = concat!(
            "WITH overdue AS MATERIALIZED (SELECT act_id, due_at FROM acts WHERE due_at <= $1)
SELECT ",
            act_columns!(),
            " FROM overdue ",
            $join!(),
            " acts ON acts.act_id = overdue.act_id
WHERE acts.thread = $2 ORDER BY acts.due_at, acts.act_id"
        );

        /// Every act that is claimed and not settled, oldest first. They are few and put in order afterwards: by no index's
        /// order, so that none is walked from end to end for it.
        pub(crate) const CLAIMED: &str = concat!(
            "SELECT ",
            act_columns!(),
            " FROM acts WHERE state IN ('executing', 'in_doubt') ORDER BY act_id || ''"
        );

        /// Closed acts that still have their handoff's line and were last written before $1, the oldest first, after the
        /// place $2, $3, at most $4.
        pub(crate) const OLD: &str = concat!(
            "SELECT ",
            act_columns!(),
            " FROM acts
WHERE due_at IS NULL AND ho_line <> '' AND updated_at < $1 AND (updated_at, act_id) > ($2, $3)
ORDER BY updated_at, act_id LIMIT $4"
        );

        /// A thread's lines in the order they entered it, after the place $2, $3, $4, at most $5.
        pub(crate) const THREAD: &str = "
SELECT at, act_id, seq, body FROM journal
WHERE thread = $1 AND kind = 'line' AND (at, act_id, seq) > ($2, $3, $4)
ORDER BY at, act_id, seq LIMIT $5";

        /// An act's journal from its first row.
        pub(crate) const JOURNAL: &str = "
SELECT act_id, seq, kind, message_id, body, body_sha256, principal, at, hash FROM journal
WHERE act_id = $1 ORDER BY seq";

        /// How many acts stand in each state, read from the index alone.
        pub(crate) const COUNTS: &str = "SELECT state, count(*) AS acts FROM acts GROUP BY state";

        /// The highest instant ever written.
        pub(crate) const HIGHEST: &str = "SELECT highest FROM clock WHERE one = 1";

        /// Each of them by its name, for tests that look at all.
        #[cfg(test)]
        #[allow(dead_code)]
        pub(crate) const SHARED: [(&str, &str); 19] = [
            ("IN_THE_WAY", IN_THE_WAY),
            ("TWINS", TWINS),
            ("MESSAGES_TAKEN", MESSAGES_TAKEN),
            ("ACT", ACT),
            ("ACT_BY_HANDOFF", ACT_BY_HANDOFF),
            ("ACT_BY_MESSAGE", ACT_BY_MESSAGE),
            ("ACT_UNDOING", ACT_UNDOING),
            ("LIST", LIST),
            ("LIST_OF_THREAD", LIST_OF_THREAD),
            ("LIST_OF_STATE", LIST_OF_STATE),
            ("LIST_OF_SENDER", LIST_OF_SENDER),
            ("DUE", DUE),
            ("DUE_IN_THREAD", DUE_IN_THREAD),
            ("CLAIMED", CLAIMED),
            ("OLD", OLD),
            ("THREAD", THREAD),
            ("JOURNAL", JOURNAL),
            ("COUNTS", COUNTS),
            ("HIGHEST", HIGHEST),
        ];
    };
}
