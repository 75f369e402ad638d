-- Purge: the texts of closed acts are erased once they are old.
--
-- The handoff's line, which is empty in a tombstone, is empty in an act that was purged too; its SHA-256 is then in the
-- stage. So this index holds what is closed and not yet purged, and a round of the purge costs what it erases, however
-- many acts there are.
CREATE INDEX acts_by_age ON acts (updated_at, act_id) WHERE due_at IS NULL AND ho_line <> '';
