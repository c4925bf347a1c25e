-- Nothing ever read it.
ALTER TABLE turns DROP COLUMN partial_usage;
CREATE INDEX turns_parked ON turns (started_at) WHERE state = 'parked';

-- Who queued the message, where that was another session's turn.
ALTER TABLE branch_queue ADD COLUMN sender_json TEXT COLLATE "C";

-- Questions to a person, in the order of a branch in which they were asked.
CREATE TABLE questions (
    request_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    branch_id TEXT COLLATE "C" NOT NULL REFERENCES branches (id),
    ordinal BIGINT NOT NULL,
    turn_message_id TEXT COLLATE "C" NOT NULL,
    assistant_message_id TEXT COLLATE "C" NOT NULL,
    tool_call_id TEXT COLLATE "C" NOT NULL,
    occurrence BIGINT NOT NULL,
    question_json TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    decision_json TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    UNIQUE (branch_id, ordinal)
);
-- One open question for each ask of a call; also the way to the open questions of a branch.
CREATE UNIQUE INDEX questions_open ON questions (branch_id, assistant_message_id, tool_call_id, occurrence)
    WHERE status <> 'closed';
CREATE UNIQUE INDEX questions_shown ON questions (branch_id) WHERE status = 'shown';
CREATE INDEX questions_answered ON questions (branch_id) WHERE status = 'answered';

-- What a call was bound to before it ran; never changed.
CREATE TABLE tool_call_bindings (
    branch_id TEXT COLLATE "C" NOT NULL REFERENCES branches (id),
    assistant_message_id TEXT COLLATE "C" NOT NULL,
    tool_call_id TEXT COLLATE "C" NOT NULL,
    binding_json TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (branch_id, assistant_message_id, tool_call_id)
);
