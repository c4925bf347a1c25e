//! Owns the wire: ids, messages, events, the method table, frames and errors, each with one JSON form.
//! Never reads a clock, touches a file, awaits, or knows how something is stored.
//! Tested in `protocol/tests/wire.rs` (one golden JSON for every type) and beside the pure parsers.

mod actor;
mod auth;
mod derived;
mod envelope;
mod error;
mod event;
mod frame;
mod ids;
mod interaction;
mod list;
mod message;
mod method;
mod model;
mod runtime;
mod server;
mod session;
mod steer;
mod units;

pub use actor::{ActorRow, ActorState, GetActor, LaneDepth, ListActors};
pub use auth::{OfferCredentials, OfferedCredentials, Secret};
pub use derived::{
    assistant_message_id, client_message_id, continuation_message_id, final_step_message_id,
    follow_up_message_id, initial_prompt_message_id, interjection_message_id, model_change_message_id,
    synthetic_tool_call_id, tool_result_message_id,
};
pub use envelope::{DecodedEvent, EventDecodeError, EventEnvelope, decode_event};
pub use error::{RpcCode, RpcError, UnknownRpcError};
pub use event::{AgentEvent, StepOutcome};
pub use frame::{
    ErrorObject, FrameError, IncomingFrame, Meta, Notification, Request, RequestFrame, Response, ServerFrame,
    StreamCancel, StreamEnd, StreamEndReason, StreamItem, WireId, parse_frame,
};
pub use ids::{
    ActorCommandId, AgentName, BranchId, ExtensionId, IdError, InteractionRequestId, MessageId, ModelId,
    ProviderId, RequestId, RunId, SessionId, StoreIncarnation, SubscriptionId, ToolCallId, WorkspaceId,
};
pub use interaction::{OpenQuestion, Question, QuestionDecision, RespondInteraction};
pub use list::{Page, PageParams};
pub use message::{
    CustomType, Message, MessageKind, MessageMetadata, Part, ProviderOptions, Role, ToolCall, ToolOutcome,
};
pub use method::{Call, Method, MethodFacts, StreamCall};
pub use model::{ListModels, Model, Pricing, ReasoningEffort};
pub use runtime::{
    ContextGauge, DrainQueue, GetQueue, QueueEntry, QueueSnapshot, RuntimeMetrics, RuntimeState, Usage,
};
pub use server::{
    BranchCounts, DatabaseKind, DatabaseStatus, Hello, HelloReply, Identity, Limits, ProtocolVersion, Retire,
    Retired, ServerStatus, Status, StoreStatus, WriterStatus,
};
pub use session::{
    Approval, Branch, CreateSession, CreatedSession, DeleteSession, Done, EnvironmentMap, GetSession,
    GetSnapshot, ListBranches, ListMessages, ListSessions, SendMessage, Session, SessionAdmission,
    SessionEvents, SessionSnapshot, StreamingText, UpdateSettings, UpdatedSettings,
};
pub use steer::{SteerCommand, SteerParams};
pub use units::{EventSeq, Millis, Ordinal};

/// The protocol this build speaks. A different major number is refused with close code 4426.
pub const PROTOCOL: ProtocolVersion = ProtocolVersion { major: 1, minor: 0 };
