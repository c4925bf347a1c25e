-- One row: the store's life and how it last ended.
CREATE TABLE store_meta (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    incarnation TEXT COLLATE "C" NOT NULL,
    boot_id TEXT COLLATE "C",
    orderly BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE sessions (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C",
    cwd TEXT COLLATE "C",
    model_id TEXT COLLATE "C",
    reasoning_level TEXT COLLATE "C",
    active_branch_id TEXT COLLATE "C",
    parent_session_id TEXT COLLATE "C" REFERENCES sessions (id) ON DELETE SET NULL,
    parent_branch_id TEXT COLLATE "C",
    thread_id TEXT COLLATE "C" NOT NULL,
    admission_json TEXT COLLATE "C",
    approval TEXT COLLATE "C" NOT NULL,
    env_json TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleting_at BIGINT
);
CREATE INDEX sessions_by_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
CREATE INDEX sessions_deleting ON sessions (deleting_at) WHERE deleting_at IS NOT NULL;

-- The numbers of a session's events. No foreign key: it outlives its session, so that no number is given twice.
-- The workspace makes the list of sessions an index walk; it is cleared when the session is gone.
CREATE TABLE session_counters (
    session_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id TEXT COLLATE "C",
    next_seq BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX session_counters_by_change ON session_counters (workspace_id, updated_at, session_id)
    WHERE workspace_id IS NOT NULL;

CREATE TABLE branches (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    ordinal BIGINT NOT NULL,
    name TEXT COLLATE "C",
    parent_branch_id TEXT COLLATE "C",
    parent_message_id TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    UNIQUE (session_id, ordinal)
);

-- Who may write a branch: the activation that took the newest epoch.
CREATE TABLE branch_owners (
    branch_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES branches (id),
    session_id TEXT COLLATE "C" NOT NULL,
    node_start TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL
);

CREATE TABLE messages (
    branch_id TEXT COLLATE "C" NOT NULL REFERENCES branches (id),
    ordinal BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    turn_duration_ms BIGINT,
    metadata_json TEXT COLLATE "C",
    event_seq BIGINT,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (branch_id, ordinal),
    UNIQUE (branch_id, id)
);

-- Parts by the SHA-256 of their JSON; equal parts are stored once.
CREATE TABLE content_chunks (
    id BYTEA NOT NULL PRIMARY KEY,
    part_json TEXT COLLATE "C" NOT NULL
);

CREATE TABLE message_chunks (
    branch_id TEXT COLLATE "C" NOT NULL,
    message_ordinal BIGINT NOT NULL,
    ordinal BIGINT NOT NULL,
    chunk_id BYTEA NOT NULL REFERENCES content_chunks (id),
    PRIMARY KEY (branch_id, message_ordinal, ordinal),
    FOREIGN KEY (branch_id, message_ordinal) REFERENCES messages (branch_id, ordinal)
);
CREATE INDEX message_chunks_by_chunk ON message_chunks (chunk_id);

CREATE TABLE events (
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    branch_id TEXT COLLATE "C",
    tag TEXT COLLATE "C" NOT NULL,
    event_json TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, seq)
);

-- Text that is still streaming: numbered like events, gone with the message that holds the text.
CREATE TABLE stream_deltas (
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    branch_id TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    step BIGINT NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    byte_offset BIGINT NOT NULL,
    text_json TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, seq)
);

-- Unfinished turns, at most one a branch.
CREATE TABLE turns (
    branch_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES branches (id),
    session_id TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    step BIGINT NOT NULL,
    continuations BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    approval TEXT COLLATE "C",
    route_json TEXT COLLATE "C",
    waiting_for TEXT COLLATE "C",
    partial_usage BOOLEAN NOT NULL,
    totals_json TEXT COLLATE "C" NOT NULL
);
CREATE INDEX turns_to_go_on ON turns (started_at) WHERE state <> 'parked';

CREATE TABLE branch_queue (
    branch_id TEXT COLLATE "C" NOT NULL REFERENCES branches (id),
    ordinal BIGINT NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    wake BOOLEAN NOT NULL,
    approval TEXT COLLATE "C",
    message_json TEXT COLLATE "C" NOT NULL,
    queued_at BIGINT NOT NULL,
    PRIMARY KEY (branch_id, ordinal),
    UNIQUE (branch_id, message_id)
);

-- First outcomes of keyed commands.
CREATE TABLE durable_operations (
    workspace_id TEXT COLLATE "C" NOT NULL,
    operation TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    result_json TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    branch_id TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, operation, request_id)
);
CREATE INDEX durable_operations_by_session ON durable_operations (session_id);

-- Running totals, kept by the write that appends the event they come from.
CREATE TABLE branch_metrics (
    branch_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES branches (id),
    turns BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    last_input_tokens BIGINT NOT NULL,
    context_json TEXT COLLATE "C",
    last_model TEXT COLLATE "C",
    last_measure_json TEXT COLLATE "C"
);
