DROP TABLE tool_call_bindings;
DROP TABLE questions;
ALTER TABLE branch_queue DROP COLUMN sender_json;
DROP INDEX turns_parked;
ALTER TABLE turns ADD COLUMN partial_usage INTEGER NOT NULL DEFAULT 0 CHECK (partial_usage IN (0, 1));
