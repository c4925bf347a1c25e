DROP TABLE tool_call_bindings;
DROP TABLE questions;
ALTER TABLE branch_queue DROP COLUMN sender_json;
DROP INDEX turns_parked;
ALTER TABLE turns ADD COLUMN partial_usage BOOLEAN NOT NULL DEFAULT FALSE;
