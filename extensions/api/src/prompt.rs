//! Owns the pieces a system prompt is made of. Never joins them: the host does, in order of priority.
//! Tested in `actors`.

/// Sections below it are shared byte for byte with child agents; at or above it stands what is the agent's own.
pub const AGENT_PROMPT_PRIORITY: i32 = 100;

/// One section of the system prompt. Its content must not change from step to step: what changes is a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSection {
    /// Its id; a later section of the same id replaces an earlier one.
    pub id: String,
    /// Its text.
    pub content: String,
    /// Its place, ascending.
    pub priority: i32,
}

impl PromptSection {
    /// A section.
    pub fn new(id: impl Into<String>, priority: i32, content: impl Into<String>) -> Self {
        Self { id: id.into(), content: content.into(), priority }
    }
}
