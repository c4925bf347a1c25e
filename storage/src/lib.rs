//! Owns everything that must survive: rows, events, and the writes that keep them together, over SQLite or
//! PostgreSQL. Diesel and SQL appear in this crate alone.
//! Never awaits, reads a clock, makes an id up, or knows tokio, actix or the wire's frames: times and ids come in.
//! Tested in `storage/tests/it/` (one suite for both databases) and beside the pure parts.
//!
//! A write has a name and is one transaction: everything in it is stored, with its events, or nothing. It may be run
//! more than once, so it has no effect outside its transaction. Callers name their writes; this is *what commits with
//! what*. Every write of a branch begins with `fence_check`.
//!
//! | write | contents |
//! | --- | --- |
//! | `session.create` | outcome looked up, else session + branch `main` + owner row + counter + `SessionStarted` + outcome |
//! | `session.updateSettings` | merged settings + `SessionSettingsUpdated`; no event when nothing changed |
//! | `session.setEnvironment` | the session's environment |
//! | `session.delete` | marks of the deletion set, its owner rows removed, surviving handoffs detached |
//! | `session.sweep` (bulk) | a portion of a marked session's rows and the content nothing else uses |
//! | `branch.open` | the next epoch + what a death left: attempts and run of the turn row, its deltas removed |
//! | `branch.admit` | receipt and cancel looked up, else message + `MessageReceived` + turn row, or a queue item |
//! | `branch.takeNext` | queue item removed + message + `MessageReceived` + turn row |
//! | `branch.steer` | outcome of the order + queue item; nothing for a message that waits, is stored or is stopped |
//! | `branch.answer` | the shown question answered + `InteractionResolved` + the next one shown, `InteractionPresented` |
//! | `branch.cancel` | outcome of the order + cancel of the named message, each looked up first + a steer it names taken back |
//! | `branch.dequeue` | a follow-up's queue item removed |
//! | `branch.drain` | outcome looked up, else all queue items removed + outcome |
//! | `branch.park` | the turn row, parked; nothing where the answer or a cancel has come |
//! | `branch.putAside` | the turn row, drained + what it waits for, told once |
//! | `branch.receipt` | results of calls without an end + questions closed, the shown one as dismissed + settled mark + `ErrorOccurred`, where there is one + `TurnCompleted`, or neither when it was settled; turn row and deltas removed |
//! | `question.ask` | binding of the call + question, shown with `InteractionPresented` or waiting; or the answer it has, taken |
//! | `turn.notices` | `ErrorOccurred` notices |
//! | `turn.joinSteers` | what the step before left to store + turn row + queue items of steers removed + their messages, each with `MessageReceived` |
//! | `turn.project` | boundary messages + turn row + `ModelContextProjected` + `StreamStarted` |
//! | `turn.modelAttempt` | one more of a turn's counted requests, or none |
//! | `turn.retry` | `ProviderRetrying` |
//! | `turn.delta` | one `StreamChunk`, a perishable row |
//! | `turn.streamEnd` | `StreamEnded` + metrics + `ErrorOccurred`, where it broke + assistant message + results of calls that do not run + their events + turn row; the step's deltas removed |
//! | `turn.toolStart` | `ToolCallStarted` of a call that had to wait, for a place or an answer |
//! | `turn.toolEnd` | the call's end with its whole result |
//! | `turn.messages` | tool message or instruction + `MessageReceived` + turn row |
//! | `turn.settle` | tool message of calls that a death cut + their events + turn row; or, while a call has or waits for an answer, the ends of the others that were cut |
//!
//! `WriteTxn::append` alone makes an envelope; after COMMIT the writer hands the envelopes of a group to the
//! [`Publisher`], in order, and only then answers the callers.

mod bindings;
mod branches;
mod codec;
mod connection;
mod deltas;
mod error;
mod events;
pub mod failpoint;
mod inspect;
mod lane;
mod messages;
mod metrics;
mod opening;
mod operations;
mod owners;
#[cfg(feature = "postgres")]
mod postgres;
mod questions;
mod queue;
mod reader;
mod schema;
mod session_delete;
mod sessions;
mod settler;
mod snapshot;
mod store;
mod turns;
mod txn;
mod writer;

pub use bindings::{bindings_get, bindings_put};
pub use branches::{branch_get, branch_list, branch_locate};
pub use connection::Location;
pub use deltas::{deltas_drop_step, deltas_drop_turn, streaming_text};
pub use error::{OpenError, StoreError};
pub use events::{EventPage, ToolTerminal, event_last, events_after, tool_terminals};
pub use inspect::{Inspection, inspect};
pub use messages::{
    MessageInserted, StoredMessage, branch_has_history, message_get, message_insert, message_list,
    message_settle, messages_before,
};
pub use metrics::{BranchMetrics, metrics_get};
pub use operations::{StoredOperation, operation_get, operation_put, operation_reserve};
pub use owners::{BranchFence, branch_take, fence_check};
pub use questions::{
    Answered, Asked, NewQuestion, QuestionRow, QuestionStatus, question_answer, question_ask, question_close,
    question_get, question_shown, question_take, questions_close_turn, questions_of_step,
};
pub use queue::{QueueItem, QueueKind, QueueSender, queue_append, queue_clear, queue_items, queue_remove};
pub use session_delete::{session_delete_begin, session_delete_portion, sessions_deleting};
pub use sessions::{
    NewSession, SessionCreated, SessionRow, session_create, session_find, session_get, session_list,
    session_set_env, session_update_settings,
};
pub use snapshot::{SnapshotRows, snapshot_read};
pub use store::{Mode, Published, Publisher, Queue, Store, StoreConfig, Synchronous};
pub use turns::{
    TurnRow, TurnState, UnfinishedTurn, branches_with_queue, turn_delete, turn_get, turn_put, turns_parked,
    turns_unfinished,
};
pub use txn::{ReadTxn, Reader, WriteTxn};
