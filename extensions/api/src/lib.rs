//! Owns the one surface that an extension may use: what it registers, what it is handed, what it answers.
//! Never does anything itself: every power is a trait that the host implements, and the shipped extensions
//! have no other. Tested beside each part, and by the shipped set that is written against it alone.

mod agent;
mod context;
mod driver;
mod exec;
mod extension;
mod file_lock;
mod hook;
mod interaction;
mod model_request;
mod model_stream;
mod prompt;
mod redact;
mod retry;
mod session;
mod tool;

pub use agent::AgentDefinition;
pub use context::{Context, ContextParts, ToolContext};
pub use driver::{Access, CredentialSpec, DefaultModel, DriverError, LanguageModel, ModelDriver};
pub use exec::{
    CappedOutput, Exec, ExecError, LeftRunning, ProcessEnd, ProcessOutcome, SpawnPurpose, SpawnRequest,
};
pub use extension::{Contribution, Extension, Host, HostFacts, SetupError};
pub use file_lock::{FileLock, FileLockGuard};
pub use hook::{
    Hook, HookKind, KnownUsage, LoopOpenHandler, Notice, SessionDeletedHandler, ToolPolicy, TurnAfterHandler,
    TurnAfterInput, TurnProjection, TurnProjectionHandler, TurnProjectionInput,
};
pub use interaction::{ApprovalRequest, Decision, Interaction, InteractionError};
pub use model_request::{HostMessage, ModelRequest, ToolChoice, WireTool};
pub use model_stream::{FailureKind, FinishReason, ModelStream, ProviderFailure, StreamPart, StreamedCall};
pub use prompt::{AGENT_PROMPT_PRIORITY, PromptSection};
pub use redact::Redactor;
pub use retry::RetryPolicy;
pub use session::{
    BranchTarget, FollowUp, ResidentHold, SOURCE_ID_CHARS, SessionError, SessionResult, SessionVerbs,
    SteerMessage, TurnMessage,
};
pub use tool::{Tool, ToolDeclaration, ToolError, tool_fn};

pub use gent_protocol as protocol;
