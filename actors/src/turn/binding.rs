//! Owns which tool a call was meant for: so that one that waited for an answer, perhaps over a restart, runs only if its
//! tool is still the same. Stored with the call's first question: no other call is ever run again.
//! Pure. Tested below and in `actors/tests/it/` (E9–E12).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::outcome::Unrun;
use crate::profile::ProfileTool;

/// A tool's identity as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Binding {
    tool: String,
    extension: String,
    source: Source,
    /// Hash of name, description and parameter schema.
    schema: String,
}

/// What tells one version of a tool's code from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Source {
    /// The extension names its version.
    Static { revision: String },
    /// It does not: the code is known to be the same only while this server runs.
    ProcessLocal { start: String },
}

impl Binding {
    /// The identity of a tool; `start` is this start of this server.
    pub(crate) fn of(tool: &ProfileTool, start: &str) -> Self {
        let declaration = tool.tool.declaration();
        let source = match &tool.revision {
            Some(revision) => Source::Static { revision: revision.clone() },
            None => Source::ProcessLocal { start: start.to_owned() },
        };
        let mut hash = Sha256::new();
        for part in [&declaration.name, &declaration.description, &declaration.parameters.to_string()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let schema = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { tool: declaration.name.clone(), extension: tool.extension.to_string(), source, schema }
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }
}

/// Why a call may not run again with the tool that has its name now; nothing when it may.
pub(crate) fn mismatch(stored: Option<&Value>, now: Option<&ProfileTool>, start: &str) -> Option<Unrun> {
    let Some(stored) = stored.and_then(|value| serde_json::from_value::<Binding>(value.clone()).ok()) else {
        return Some(Unrun::MissingBinding);
    };
    let Some(now) = now else { return Some(Unrun::ToolUnavailable) };
    let now = Binding::of(now, start);
    match (&stored.source, &now.source) {
        // The server that knew it is gone.
        (Source::ProcessLocal { start: then }, _) if then != start => Some(Unrun::MissingBinding),
        (Source::Static { .. }, Source::ProcessLocal { .. }) => Some(Unrun::MissingSourceIdentity),
        (then, now_source) if then != now_source || stored.extension != now.extension => {
            Some(Unrun::SourceMismatch)
        }
        _ if stored.tool != now.tool => Some(Unrun::ToolUnavailable),
        _ if stored.schema != now.schema => Some(Unrun::SchemaMismatch),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gent_extension_api::{ToolDeclaration, tool_fn};
    use gent_protocol::ExtensionId;
    use serde_json::json;

    use super::*;

    fn tool(name: &str, extension: &str, revision: Option<&str>, description: &str) -> ProfileTool {
        let declaration = ToolDeclaration {
            name: name.into(),
            description: description.into(),
            parameters: json!({}),
            readonly: true,
            destructive: false,
            interactive: false,
            prompt_snippet: None,
            prompt_guidelines: vec![],
        };
        ProfileTool {
            tool: tool_fn(declaration, None, |_, input: Value| async move { Ok(input) }),
            wire_name: name.into(),
            extension: ExtensionId::parse(extension).unwrap(),
            revision: revision.map(str::to_owned),
        }
    }

    #[test]
    fn a_call_runs_again_only_with_the_same_tool() {
        let was = tool("ask", "@a/one", Some("1"), "asks");
        let stored = Binding::of(&was, "start-1").to_value();
        let with = |now: ProfileTool| mismatch(Some(&stored), Some(&now), "start-2");
        assert_eq!(with(was.clone()), None);
        assert_eq!(with(tool("ask", "@a/one", Some("2"), "asks")), Some(Unrun::SourceMismatch));
        assert_eq!(with(tool("ask", "@a/two", Some("1"), "asks")), Some(Unrun::SourceMismatch));
        assert_eq!(with(tool("ask", "@a/one", None, "asks")), Some(Unrun::MissingSourceIdentity));
        assert_eq!(with(tool("ask", "@a/one", Some("1"), "asks more")), Some(Unrun::SchemaMismatch));
        assert_eq!(mismatch(Some(&stored), None, "start-2"), Some(Unrun::ToolUnavailable));
        assert_eq!(mismatch(None, Some(&was), "start-2"), Some(Unrun::MissingBinding));
        assert_eq!(mismatch(Some(&json!(7)), Some(&was), "start-2"), Some(Unrun::MissingBinding));
    }

    #[test]
    fn a_tool_without_a_version_is_the_same_only_while_the_server_runs() {
        let was = tool("ask", "@a/one", None, "asks");
        let stored = Binding::of(&was, "start-1").to_value();
        assert_eq!(mismatch(Some(&stored), Some(&was), "start-1"), None);
        assert_eq!(mismatch(Some(&stored), Some(&was), "start-2"), Some(Unrun::MissingBinding));
    }
}
