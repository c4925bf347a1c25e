//! Owns what a person is asked and what they answer. Never knows who asks or how long it waits.
//! Tested in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Its text.
    pub text: String,
    /// Facts for a client that draws it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionDecision {
    /// The answer.
    pub approved: bool,
    /// What they said with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// What they made of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_content: Option<String>,
}
