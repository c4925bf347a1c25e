//! Owns the offer of credentials and the type that keeps a secret out of every `Debug` text.
//! Never stores one. Tested below and in `protocol/tests/wire.rs`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A secret on its way. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself: for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

/// Parameters of `auth.offer`: provider variables of the client's environment. Kept in memory, for this workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferCredentials {
    /// Variable name to value, such as `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
    pub variables: BTreeMap<String, Secret>,
}

/// Result of `auth.offer`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedCredentials {
    /// Names that were taken.
    pub accepted: Vec<String>,
    /// Names that no driver knows.
    pub ignored: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_shows_in_debug_text() {
        assert_eq!(format!("{:?}", Secret::new("sk-test")), "[REDACTED]");
    }
}
