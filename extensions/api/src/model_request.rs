//! Owns what a driver is asked to send. Never says how it looks at a provider: that is the driver's business.
//! Tested through the drivers.

use std::sync::Arc;

use gent_protocol::{Message, ReasoningEffort, SessionId};
use serde_json::Value;

/// A message as the model sees it: tool results are bounded. The same value is handed over at every step, so a
/// driver may keep what it made of it and compare by pointer.
pub type HostMessage = Arc<Message>;

/// A tool as the provider is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct WireTool {
    /// A name every provider takes: `.` became `_`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its input.
    pub parameters: Value,
}

/// Whether the model may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// It must not: the last step of a turn. The tools are still sent, so that the prefix stays the same.
    None,
}

/// One request. Prompt, tools and messages do not change from step to step but by growing at the end.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The system prompt: what is shared, then what is the agent's own. Either may be missing.
    pub system: Arc<[String]>,
    /// The conversation, oldest first.
    pub messages: Vec<HostMessage>,
    /// Host status that follows the conversation; never from a user.
    pub notice: Option<String>,
    /// The tools.
    pub tools: Arc<[WireTool]>,
    /// Whether they may be called.
    pub tool_choice: ToolChoice,
    /// The most output.
    pub max_output_tokens: u64,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// How hard to think; nothing is sent unless set.
    pub reasoning: Option<ReasoningEffort>,
    /// Where the provider may keep what it has read.
    pub cache_key: Option<SessionId>,
}
