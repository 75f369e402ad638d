-- Likely twins: who let one go on, and an index that answers quickly. Told in the SQLite migration of this number.

ALTER TABLE acts ADD COLUMN released_by TEXT COLLATE "C";

CREATE INDEX acts_by_likeness ON acts ((created_at / 1382400000000), substr(likeness, 1, 16)) WHERE likeness IS NOT NULL;

-- Where several daemons write at once, two twins could each be written because neither sees the other yet. So a write that
-- could make an act a twin of others counts up here, in the row of the likeness's first four digits, and only from the
-- count it saw when it looked: of two at once, the second finds the count moved and looks again. A row per likeness would
-- be an index that grows at random places for ever; these are 65,536 rows at most, and two likenesses that share one now
-- and then wait for each other.
CREATE TABLE likeness_parts (
    part   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    writes BIGINT NOT NULL
);
-- Room for a new copy of each row on its own page, so that counting up touches no index.
ALTER TABLE likeness_parts SET (fillfactor = 50);
