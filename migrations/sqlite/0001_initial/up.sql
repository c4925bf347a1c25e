-- Marks the file as gent's own ("gent" in ASCII): a file without it is refused as foreign.
PRAGMA application_id = 1734700660;

-- One row: the store's life and how it last ended.
CREATE TABLE store_meta (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    incarnation TEXT NOT NULL,
    boot_id TEXT,
    orderly INTEGER NOT NULL CHECK (orderly IN (0, 1)),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    name TEXT,
    cwd TEXT,
    model_id TEXT,
    reasoning_level TEXT,
    active_branch_id TEXT,
    parent_session_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,
    parent_branch_id TEXT,
    thread_id TEXT NOT NULL,
    admission_json TEXT,
    approval TEXT NOT NULL,
    env_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleting_at INTEGER
) STRICT;
CREATE INDEX sessions_by_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
CREATE INDEX sessions_deleting ON sessions (deleting_at) WHERE deleting_at IS NOT NULL;

-- The numbers of a session's events. No foreign key: it outlives its session, so that no number is given twice.
-- The workspace makes the list of sessions an index walk; it is cleared when the session is gone.
CREATE TABLE session_counters (
    session_id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT,
    next_seq INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_counters_by_change ON session_counters (workspace_id, updated_at, session_id)
    WHERE workspace_id IS NOT NULL;

CREATE TABLE branches (
    id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    ordinal INTEGER NOT NULL,
    name TEXT,
    parent_branch_id TEXT,
    parent_message_id TEXT,
    created_at INTEGER NOT NULL,
    UNIQUE (session_id, ordinal)
) STRICT;

-- Who may write a branch: the activation that took the newest epoch.
CREATE TABLE branch_owners (
    branch_id TEXT NOT NULL PRIMARY KEY REFERENCES branches (id),
    session_id TEXT NOT NULL,
    node_start TEXT NOT NULL,
    epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    branch_id TEXT NOT NULL REFERENCES branches (id),
    ordinal INTEGER NOT NULL,
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    turn_duration_ms INTEGER,
    metadata_json TEXT,
    event_seq INTEGER,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (branch_id, ordinal),
    UNIQUE (branch_id, id)
) STRICT, WITHOUT ROWID;

-- Parts by the SHA-256 of their JSON; equal parts are stored once.
CREATE TABLE content_chunks (
    id BLOB NOT NULL PRIMARY KEY,
    part_json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE message_chunks (
    branch_id TEXT NOT NULL,
    message_ordinal INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    chunk_id BLOB NOT NULL REFERENCES content_chunks (id),
    PRIMARY KEY (branch_id, message_ordinal, ordinal),
    FOREIGN KEY (branch_id, message_ordinal) REFERENCES messages (branch_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_chunks_by_chunk ON message_chunks (chunk_id);

CREATE TABLE events (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    branch_id TEXT,
    tag TEXT NOT NULL,
    event_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT;

-- Text that is still streaming: numbered like events, gone with the message that holds the text.
CREATE TABLE stream_deltas (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    branch_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    step INTEGER NOT NULL,
    run TEXT NOT NULL,
    byte_offset INTEGER NOT NULL,
    text_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

-- Unfinished turns, at most one a branch.
CREATE TABLE turns (
    branch_id TEXT NOT NULL PRIMARY KEY REFERENCES branches (id),
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    continuations INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    approval TEXT,
    route_json TEXT,
    waiting_for TEXT,
    partial_usage INTEGER NOT NULL CHECK (partial_usage IN (0, 1)),
    totals_json TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_to_go_on ON turns (started_at) WHERE state <> 'parked';

CREATE TABLE branch_queue (
    branch_id TEXT NOT NULL REFERENCES branches (id),
    ordinal INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    wake INTEGER NOT NULL CHECK (wake IN (0, 1)),
    approval TEXT,
    message_json TEXT NOT NULL,
    queued_at INTEGER NOT NULL,
    PRIMARY KEY (branch_id, ordinal),
    UNIQUE (branch_id, message_id)
) STRICT;

-- First outcomes of keyed commands.
CREATE TABLE durable_operations (
    workspace_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    request_id TEXT NOT NULL,
    result_json TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    branch_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, operation, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX durable_operations_by_session ON durable_operations (session_id);

-- Running totals, kept by the write that appends the event they come from.
CREATE TABLE branch_metrics (
    branch_id TEXT NOT NULL PRIMARY KEY REFERENCES branches (id),
    turns INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    last_input_tokens INTEGER NOT NULL,
    context_json TEXT,
    last_model TEXT,
    last_measure_json TEXT
) STRICT, WITHOUT ROWID;
