//! Owns the id types: one newtype for each kind of id, parsed once at the edge.
//! Never makes an id up: random ids come from the caller's `Env`, derived ones from `derived`.
//! Tested below and in `protocol/tests/wire.rs`.

use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("{kind} is empty")]
    Empty {
        /// Which id.
        kind: &'static str,
    },
    /// The text is longer than its kind allows.
    #[error("{kind} has {length} characters, {max} are allowed")]
    TooLong {
        /// Which id.
        kind: &'static str,
        /// Its length in characters.
        length: usize,
        /// The most its kind allows.
        max: usize,
    },
    /// The text holds a control character.
    #[error("{kind} holds a control character")]
    Control {
        /// Which id.
        kind: &'static str,
    },
    /// The text has not the form its kind asks for.
    #[error("{kind} must be {form}")]
    Form {
        /// Which id.
        kind: &'static str,
        /// The form it must have.
        form: &'static str,
    },
}

fn check(kind: &'static str, text: &str, max: usize) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { kind });
    }
    let length = text.chars().count();
    if length > max {
        return Err(IdError::TooLong { kind, length, max });
    }
    if text.chars().any(char::is_control) {
        return Err(IdError::Control { kind });
    }
    Ok(())
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:literal, $form:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The most characters this id may have.
            pub const MAX_CHARS: usize = $max;

            /// Parses `text`; fails when it is empty, too long, holds a control character or has the wrong form.
            pub fn parse(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                check($kind, text, $max)?;
                let form: fn(&str) -> Result<(), &'static str> = $form;
                form(text).map_err(|form| IdError::Form { kind: $kind, form })?;
                Ok(Self(Arc::from(text)))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "minLength": 1, "maxLength": $max })
            }
        }
    };
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:literal) => {
        string_id!($(#[$doc])* $name, $kind, $max, |_| Ok(()));
    };
}

string_id!(
    /// One conversation.
    SessionId, "session id", 128
);
string_id!(
    /// One line of messages of a session.
    BranchId, "branch id", 128
);
string_id!(
    /// One message; unique within its branch. Derived ids append to it, so it is the longest.
    MessageId, "message id", 1024
);
string_id!(
    /// One call of a tool, as the model or the driver named it; unique within its assistant message.
    ToolCallId, "tool call id", 1200
);
string_id!(
    /// A caller's idempotency key: a repeat gets the first outcome.
    RequestId, "request id", 128
);
string_id!(
    /// A command's id from the edge to its reply, the same over every re-send.
    ActorCommandId, "command id", 256
);
string_id!(
    /// A question that waits for an answer.
    InteractionRequestId, "interaction request id", 256
);
string_id!(
    /// An extension, such as `@gent/fs-tools`.
    ExtensionId, "extension id", 128
);
string_id!(
    /// An agent, such as `main`.
    AgentName, "agent name", 64
);
string_id!(
    /// A model driver: the part of a model id before the first `/`.
    ProviderId, "provider id", 64,
    |text| if text.contains('/') { Err("a name without `/`") } else { Ok(()) }
);
string_id!(
    /// `provider/name`, split at the first `/`; both sides are non-empty.
    ModelId, "model id", 256,
    |text| match text.split_once('/') {
        Some((provider, name)) if !provider.is_empty() && !name.is_empty() => Ok(()),
        _ => Err("`provider/name`, both sides non-empty"),
    }
);
string_id!(
    /// One start or resume of a turn; a report of an earlier run is ignored.
    RunId, "run id", 64
);
string_id!(
    /// One stream of a connection.
    SubscriptionId, "subscription id", 64
);
string_id!(
    /// The life of a store: new when it is made or restored. A cursor of another one is invalid.
    StoreIncarnation, "store incarnation", 64
);
string_id!(
    /// SHA-256, in lower-case hex, of a working directory.
    WorkspaceId, "workspace id", 64,
    |text| {
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if text.len() == 64 && text.chars().all(is_hex) { Ok(()) } else { Err("64 lower-case hex digits") }
    }
);

macro_rules! from_parts {
    ($($name:ident)*) => {
        $(impl $name {
            /// Wraps a text that this crate made itself out of parsed ids.
            pub(crate) fn from_parts(text: String) -> Self {
                Self(Arc::from(text))
            }
        })*
    };
}

from_parts!(MessageId ToolCallId ProviderId WorkspaceId);

impl ModelId {
    /// Joins a provider and a model name; fails when either side is empty or the whole is too long.
    pub fn join(provider: &ProviderId, name: &str) -> Result<Self, IdError> {
        Self::parse(format!("{provider}/{name}"))
    }

    /// The driver that serves this model.
    pub fn provider(&self) -> ProviderId {
        ProviderId::from_parts(self.split().0.to_owned())
    }

    /// The model's name at its provider.
    pub fn name(&self) -> &str {
        self.split().1
    }

    fn split(&self) -> (&str, &str) {
        // `parse` has seen the slash; a text without one would be all name.
        self.0.split_once('/').unwrap_or(("", &self.0))
    }
}

impl WorkspaceId {
    /// The id of an absolute directory: SHA-256 of its path after `.` and `..` are resolved lexically.
    /// Symlinks are not followed: client and server must agree without looking at the disk.
    pub fn for_directory(directory: &Path) -> Self {
        let mut resolved = PathBuf::new();
        for component in directory.components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => {
                    resolved.pop();
                }
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                    resolved.push(component);
                }
            }
        }
        let digest = Sha256::digest(resolved.as_os_str().as_encoded_bytes());
        let mut hex = String::with_capacity(64);
        for byte in digest {
            hex.push_str(&format!("{byte:02x}"));
        }
        Self::from_parts(hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_of_129_characters_is_refused_a13() {
        assert!(RequestId::parse("é".repeat(128)).is_ok());
        assert_eq!(
            RequestId::parse("é".repeat(129)),
            Err(IdError::TooLong { kind: "request id", length: 129, max: 128 })
        );
    }

    #[test]
    fn a_model_id_is_split_at_its_first_slash() {
        let model = ModelId::parse("local/8080/qwen/3").unwrap();
        assert_eq!((model.provider().as_str(), model.name()), ("local", "8080/qwen/3"));
        assert!(ModelId::parse("/x").is_err());
        assert!(ModelId::parse("x/").is_err());
        assert!(ModelId::parse("x").is_err());
    }

    #[test]
    fn a_workspace_id_is_the_hash_of_the_lexically_resolved_path() {
        let plain = WorkspaceId::for_directory(Path::new("/a/b"));
        assert_eq!(plain, WorkspaceId::for_directory(Path::new("/a/./c/../b/")));
        assert_eq!(plain.as_str(), "662b7b62a798bb2d53e67cad9778e12e48297c79eae98d3aae7197be825d768f");
        assert!(WorkspaceId::parse("0".repeat(63)).is_err());
        assert!(WorkspaceId::parse("A".repeat(64)).is_err());
        assert!(WorkspaceId::parse("0".repeat(64)).is_ok());
    }
}
