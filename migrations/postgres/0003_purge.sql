-- Purge: the texts of closed acts are erased once they are old. Told in the SQLite migration of this number.
CREATE INDEX acts_by_age ON acts (updated_at, act_id) WHERE due_at IS NULL AND ho_line <> '';
