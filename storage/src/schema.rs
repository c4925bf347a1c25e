//! Owns the columns as Diesel knows them; `migrations/` owns the tables themselves.
//! Only types that both databases have: text, 64-bit integers, booleans, doubles, bytes.
//! Tested by every test that touches a table, on both databases.

diesel::table! {
    store_meta (id) {
        id -> BigInt,
        incarnation -> Text,
        boot_id -> Nullable<Text>,
        orderly -> Bool,
        created_at -> BigInt,
    }
}

diesel::table! {
    sessions (id) {
        id -> Text,
        workspace_id -> Text,
        name -> Nullable<Text>,
        cwd -> Nullable<Text>,
        model_id -> Nullable<Text>,
        reasoning_level -> Nullable<Text>,
        active_branch_id -> Nullable<Text>,
        parent_session_id -> Nullable<Text>,
        parent_branch_id -> Nullable<Text>,
        thread_id -> Text,
        admission_json -> Nullable<Text>,
        approval -> Text,
        env_json -> Text,
        created_at -> BigInt,
        updated_at -> BigInt,
        deleting_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    session_counters (session_id) {
        session_id -> Text,
        workspace_id -> Nullable<Text>,
        next_seq -> BigInt,
        updated_at -> BigInt,
    }
}

diesel::table! {
    branches (id) {
        id -> Text,
        session_id -> Text,
        ordinal -> BigInt,
        name -> Nullable<Text>,
        parent_branch_id -> Nullable<Text>,
        parent_message_id -> Nullable<Text>,
        created_at -> BigInt,
    }
}

diesel::table! {
    branch_owners (branch_id) {
        branch_id -> Text,
        session_id -> Text,
        node_start -> Text,
        epoch -> BigInt,
    }
}

diesel::table! {
    messages (branch_id, ordinal) {
        branch_id -> Text,
        ordinal -> BigInt,
        id -> Text,
        session_id -> Text,
        kind -> Text,
        role -> Text,
        created_at -> BigInt,
        turn_duration_ms -> Nullable<BigInt>,
        metadata_json -> Nullable<Text>,
        event_seq -> Nullable<BigInt>,
        bytes -> BigInt,
    }
}

diesel::table! {
    content_chunks (id) {
        id -> Binary,
        part_json -> Text,
    }
}

diesel::table! {
    message_chunks (branch_id, message_ordinal, ordinal) {
        branch_id -> Text,
        message_ordinal -> BigInt,
        ordinal -> BigInt,
        chunk_id -> Binary,
    }
}

diesel::table! {
    events (session_id, seq) {
        session_id -> Text,
        seq -> BigInt,
        branch_id -> Nullable<Text>,
        tag -> Text,
        event_json -> Text,
        created_at -> BigInt,
    }
}

diesel::table! {
    stream_deltas (session_id, seq) {
        session_id -> Text,
        seq -> BigInt,
        branch_id -> Text,
        message_id -> Text,
        step -> BigInt,
        run -> Text,
        byte_offset -> BigInt,
        text_json -> Text,
        created_at -> BigInt,
    }
}

diesel::table! {
    turns (branch_id) {
        branch_id -> Text,
        session_id -> Text,
        message_id -> Text,
        state -> Text,
        attempts -> BigInt,
        run -> Text,
        step -> BigInt,
        continuations -> BigInt,
        started_at -> BigInt,
        approval -> Nullable<Text>,
        route_json -> Nullable<Text>,
        waiting_for -> Nullable<Text>,
        totals_json -> Text,
    }
}

diesel::table! {
    branch_queue (branch_id, ordinal) {
        branch_id -> Text,
        ordinal -> BigInt,
        session_id -> Text,
        message_id -> Text,
        kind -> Text,
        wake -> Bool,
        approval -> Nullable<Text>,
        message_json -> Text,
        queued_at -> BigInt,
        sender_json -> Nullable<Text>,
    }
}

diesel::table! {
    questions (request_id) {
        request_id -> Text,
        session_id -> Text,
        branch_id -> Text,
        ordinal -> BigInt,
        turn_message_id -> Text,
        assistant_message_id -> Text,
        tool_call_id -> Text,
        occurrence -> BigInt,
        question_json -> Text,
        status -> Text,
        decision_json -> Nullable<Text>,
        created_at -> BigInt,
    }
}

diesel::table! {
    tool_call_bindings (branch_id, assistant_message_id, tool_call_id) {
        branch_id -> Text,
        assistant_message_id -> Text,
        tool_call_id -> Text,
        binding_json -> Text,
        created_at -> BigInt,
    }
}

diesel::table! {
    durable_operations (workspace_id, operation, request_id) {
        workspace_id -> Text,
        operation -> Text,
        request_id -> Text,
        result_json -> Text,
        session_id -> Text,
        branch_id -> Text,
        created_at -> BigInt,
    }
}

diesel::table! {
    branch_metrics (branch_id) {
        branch_id -> Text,
        turns -> BigInt,
        duration_ms -> BigInt,
        cost_usd -> Double,
        last_input_tokens -> BigInt,
        context_json -> Nullable<Text>,
        last_model -> Nullable<Text>,
        last_measure_json -> Nullable<Text>,
    }
}

diesel::allow_tables_to_appear_in_same_query!(
    sessions,
    session_counters,
    branches,
    branch_owners,
    messages,
    content_chunks,
    message_chunks,
    turns,
    branch_queue,
    questions,
    tool_call_bindings,
);
