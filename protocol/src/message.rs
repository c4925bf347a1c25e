//! Owns messages and their parts. Never decides what a model sees: that is the window's business.
//! Tested below and in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BranchId, ExtensionId, MessageId, Millis, SessionId, ToolCallId};

/// What a provider wants back with a part on later requests (signatures, item ids), keyed by provider id.
pub type ProviderOptions = Map<String, Value>;

/// Whether a message was sent as such or pushed into a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// Any message but a steer.
    Regular,
    /// A steer; its role is always user.
    Interjection,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, a program, or the runtime on their behalf.
    User,
    /// The model.
    Assistant,
    /// The host.
    System,
    /// Results of tool calls.
    Tool,
}

/// The runtime's own kinds of user-role messages. None of them opens a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CustomType {
    /// Asks the model to carry on.
    Continuation,
    /// Marks where the current window begins.
    ContextWindow,
    /// Announces the last step.
    MaxSteps,
    /// Announces another model.
    ModelChange,
}

/// Facts about a message that are not its content.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageMetadata {
    /// A runtime type, or a free text of an extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_type: Option<String>,
    /// The extension that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_id: Option<ExtensionId>,
    /// A client sent it; set by the server alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub from_client: bool,
    /// In the transcript, not shown to the model.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// It joined a running turn, so it opens none of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub joined_turn: bool,
    /// Details for the custom type's own readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

impl MessageMetadata {
    /// True when nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The runtime type, where `custom_type` names one.
    pub fn runtime_type(&self) -> Option<CustomType> {
        match self.custom_type.as_deref() {
            Some("continuation") => Some(CustomType::Continuation),
            Some("context-window") => Some(CustomType::ContextWindow),
            Some("max-steps") => Some(CustomType::MaxSteps),
            Some("model-change") => Some(CustomType::ModelChange),
            Some(_) | None => None,
        }
    }
}

impl CustomType {
    /// The text that stands in `customType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Continuation => "continuation",
            Self::ContextWindow => "context-window",
            Self::MaxSteps => "max-steps",
            Self::ModelChange => "model-change",
        }
    }
}

/// One message of a branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// `regular` or `interjection`.
    #[serde(rename = "_tag")]
    pub kind: MessageKind,
    /// Its id, unique within the branch.
    pub id: MessageId,
    /// The session it belongs to.
    pub session_id: SessionId,
    /// The branch it belongs to.
    pub branch_id: BranchId,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// When it was stored, for display only: order is by place in the branch.
    pub created_at: Millis,
    /// How long the turn it opened took; present once that turn has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_duration_ms: Option<Millis>,
    /// Facts that are not content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MessageMetadata>,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// What the provider wants back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<ProviderOptions>,
    },
    /// A file; images only are sent to models.
    File {
        /// Its media type.
        media_type: String,
        /// A data URL.
        data: String,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_name: Option<String>,
        /// What the provider wants back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<ProviderOptions>,
    },
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// What came of it.
    ToolResult(ToolOutcome),
    /// What the model thought aloud. May be empty where only `options` matter.
    Reasoning {
        /// The text.
        text: String,
        /// What the provider wants back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<ProviderOptions>,
    },
    /// A provider asks whether a call of its own may run.
    ToolApprovalRequest {
        /// The provider's id of the question.
        approval_id: String,
        /// The call in question.
        tool_call_id: ToolCallId,
    },
    /// The answer to that.
    ToolApprovalResponse {
        /// The provider's id of the question.
        approval_id: String,
        /// The answer.
        approved: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The call's id, unique within its message.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// Its input: an object, or the raw text as a string where the model's JSON did not parse.
    pub params: Value,
    /// The provider ran it itself.
    #[serde(default)]
    pub provider_executed: bool,
    /// What the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ProviderOptions>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutcome {
    /// The call's id.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// The tool failed or did not run.
    pub is_failure: bool,
    /// The whole result, unbounded; the model sees a bounded view.
    pub result: Value,
    /// The provider ran it itself.
    #[serde(default)]
    pub provider_executed: bool,
    /// What the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ProviderOptions>,
}

impl Part {
    /// A plain text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), options: None }
    }
}

impl Message {
    /// The text parts, joined.
    pub fn text(&self) -> String {
        let mut all = String::new();
        for part in &self.parts {
            if let Part::Text { text, .. } = part {
                all.push_str(text);
            }
        }
        all
    }

    /// The calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. }
            | Part::File { .. }
            | Part::ToolResult(_)
            | Part::Reasoning { .. }
            | Part::ToolApprovalRequest { .. }
            | Part::ToolApprovalResponse { .. } => None,
        })
    }

    /// The results, in order.
    pub fn tool_outcomes(&self) -> impl Iterator<Item = &ToolOutcome> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolResult(outcome) => Some(outcome),
            Part::Text { .. }
            | Part::File { .. }
            | Part::ToolCall(_)
            | Part::Reasoning { .. }
            | Part::ToolApprovalRequest { .. }
            | Part::ToolApprovalResponse { .. } => None,
        })
    }

    /// True for a user message of the runtime's own, and for one that joined a turn: neither opens a turn.
    pub fn is_runtime(&self) -> bool {
        self.metadata.as_ref().is_some_and(|m| m.joined_turn || m.runtime_type().is_some())
    }

    /// True when the model must not see it.
    pub fn is_hidden(&self) -> bool {
        self.metadata.as_ref().is_some_and(|m| m.hidden)
    }
}
