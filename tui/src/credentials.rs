//! Owns which variables of a client's environment are offered to a server, which keeps them in memory.
//! Never shows a value.
//! Tested below.

use gent_protocol::{OfferCredentials, Secret};

/// Provider variables that are offered at attach, when they are set.
pub const PROVIDER_VARIABLES: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"];

/// The offer of an environment.
pub fn provider_credentials<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> OfferCredentials {
    let variables = variables
        .into_iter()
        .filter(|(name, value)| PROVIDER_VARIABLES.contains(name) && !value.is_empty())
        .map(|(name, value)| (name.to_owned(), Secret::new(value)))
        .collect();
    OfferCredentials { variables }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVIRONMENT: [(&str, &str); 4] =
        [("OPENAI_API_KEY", "sk-1"), ("ANTHROPIC_API_KEY", ""), ("OPENAI_ORG", "o"), ("PATH", "/bin")];

    #[test]
    fn only_provider_variables_that_are_set_are_offered_and_never_shown() {
        let offer = provider_credentials(ENVIRONMENT);
        assert_eq!(offer.variables.keys().collect::<Vec<_>>(), ["OPENAI_API_KEY"]);
        assert!(!format!("{offer:?}").contains("sk-1"));
    }
}
