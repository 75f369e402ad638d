-- Likely twins: who let one go on, and an index that answers quickly.

-- The operator who let the act go on although a likely twin stands; null where nobody had to.
ALTER TABLE acts ADD COLUMN released_by TEXT;

-- Whether a twin stands is asked in every write that states or claims an act, while everybody else waits: 90 looks for 90
-- days are too many. So the first part of the key is sixteen days long (a span of 90 days is at most eight looks, one
-- ahead of today), which still leaves all pages but those of the current span alone. Likeness is a hash: sixteen digits of
-- it tell acts apart as well as all, and more of them fit a page.
DROP INDEX acts_by_likeness;
CREATE INDEX acts_by_likeness ON acts (created_at / 1382400000000, substr(likeness, 1, 16)) WHERE likeness IS NOT NULL;
