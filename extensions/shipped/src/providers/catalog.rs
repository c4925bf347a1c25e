//! Owns what is known of models without asking: a small table, the default of each driver, and what is assumed of
//! any other model. Never fetches. The figures are those the providers published on 2026-11-30. Tested below.

use gent_extension_api::protocol::{IdError, Model, ModelId, Pricing};

use super::provider_id;

/// The model of `OPENAI_API_KEY` alone. Newer ones want another interface than Chat Completions to think with tools. (2026-11-30)
pub(super) const OPENAI_DEFAULT: &str = "gpt-5.4";
/// The model of `ANTHROPIC_API_KEY` alone. (2026-11-30)
pub(super) const ANTHROPIC_DEFAULT: &str = "claude-sonnet-5";

/// Window and output of a model nobody knows (contract, "Models and keys").
pub(super) const ASSUMED_WINDOW: u64 = 128_000;
pub(super) const ASSUMED_OUTPUT: u64 = 16_384;
/// Window of a local model whose server does not say (contract, "Models and keys").
pub(super) const ASSUMED_LOCAL_WINDOW: u64 = 32_768;

struct Known {
    name: &'static str,
    label: &'static str,
    context: u64,
    input_limit: Option<u64>,
    output: u64,
    input_price: f64,
    output_price: f64,
    cache_read: f64,
    cache_write: Option<f64>,
    released: Option<&'static str>,
}

const fn openai(
    name: &'static str,
    label: &'static str,
    context: u64,
    input: f64,
    output: f64,
    cached: f64,
) -> Known {
    Known {
        name,
        label,
        context,
        input_limit: Some(context - 128_000),
        output: 128_000,
        input_price: input,
        output_price: output,
        cache_read: cached,
        cache_write: None,
        released: None,
    }
}

const fn anthropic(
    name: &'static str,
    label: &'static str,
    context: u64,
    max: u64,
    input: f64,
    output: f64,
) -> Known {
    Known {
        name,
        label,
        context,
        input_limit: None,
        output: max,
        input_price: input,
        output_price: output,
        cache_read: input / 10.0,
        cache_write: Some(input * 1.25),
        released: None,
    }
}

const OPENAI: [Known; 7] = [
    Known { released: Some("2026-04-23"), ..openai("gpt-5.5", "GPT-5.5", 1_050_000, 5.0, 30.0, 0.5) },
    Known { released: Some("2026-03-05"), ..openai("gpt-5.4", "GPT-5.4", 1_050_000, 2.5, 15.0, 0.25) },
    Known { released: Some("2025-12-11"), ..openai("gpt-5.2", "GPT-5.2", 400_000, 1.75, 14.0, 0.175) },
    Known { released: Some("2025-11-13"), ..openai("gpt-5.1", "GPT-5.1", 400_000, 1.25, 10.0, 0.125) },
    Known { released: Some("2025-08-07"), ..openai("gpt-5", "GPT-5", 400_000, 1.25, 10.0, 0.125) },
    Known { released: Some("2025-08-07"), ..openai("gpt-5-mini", "GPT-5 mini", 400_000, 0.25, 2.0, 0.025) },
    Known {
        input_limit: None,
        output: 32_768,
        released: Some("2025-04-14"),
        ..openai("gpt-4.1", "GPT-4.1", 1_047_576, 2.0, 8.0, 0.5)
    },
];

const ANTHROPIC: [Known; 8] = [
    Known {
        cache_read: 0.2,
        ..anthropic("claude-opus-5-5", "Claude Opus 5.5", 1_000_000, 128_000, 4.0, 20.0)
    },
    Known {
        released: Some("2026-07-24"),
        ..anthropic("claude-opus-5", "Claude Opus 5", 1_000_000, 128_000, 5.0, 25.0)
    },
    anthropic("claude-sonnet-5", "Claude Sonnet 5", 1_000_000, 128_000, 2.0, 10.0),
    Known {
        released: Some("2026-02-05"),
        ..anthropic("claude-opus-4-6", "Claude Opus 4.6", 1_000_000, 128_000, 5.0, 25.0)
    },
    anthropic("claude-sonnet-4-6", "Claude Sonnet 4.6", 1_000_000, 64_000, 3.0, 15.0),
    Known {
        released: Some("2025-10-01"),
        ..anthropic("claude-haiku-4-5", "Claude Haiku 4.5", 200_000, 64_000, 1.0, 5.0)
    },
    Known {
        released: Some("2025-11-01"),
        ..anthropic("claude-opus-4-5", "Claude Opus 4.5", 200_000, 64_000, 5.0, 25.0)
    },
    Known {
        released: Some("2025-09-29"),
        ..anthropic("claude-sonnet-4-5", "Claude Sonnet 4.5", 200_000, 64_000, 3.0, 15.0)
    },
];

/// What is known or assumed of a model; true when assumed. `is_own_host` is false where a server that is not the
/// provider serves a model of that name: its price is then not known.
pub(super) fn facts(provider: &'static str, name: &str, is_own_host: bool) -> Result<(Model, bool), IdError> {
    let table: &[Known] = match provider {
        "openai" => &OPENAI,
        "anthropic" => &ANTHROPIC,
        _ => &[],
    };
    let Some(known) = table.iter().find(|known| is_version_of(known.name, name)) else {
        return Ok((assumed(provider, name, ASSUMED_WINDOW, ASSUMED_OUTPUT)?, true));
    };
    let pricing = Pricing {
        input: known.input_price,
        output: known.output_price,
        cache_read: Some(known.cache_read),
        cache_write: known.cache_write,
    };
    let model = Model {
        name: known.label.to_owned(),
        context_length: Some(known.context),
        input_limit: known.input_limit,
        output_limit: Some(known.output),
        pricing: is_own_host.then_some(pricing),
        release_date: known.released.map(str::to_owned),
        reasoning: Some(known.name != "gpt-4.1"),
        ..assumed(provider, name, known.context, known.output)?
    };
    Ok((model, false))
}

/// A model of which nothing but its name and these two figures is known.
pub(super) fn assumed(
    provider: &'static str,
    name: &str,
    window: u64,
    output: u64,
) -> Result<Model, IdError> {
    let provider = provider_id(provider);
    Ok(Model {
        id: ModelId::join(&provider, name)?,
        name: name.to_owned(),
        provider,
        context_length: Some(window),
        input_limit: None,
        output_limit: Some(output),
        pricing: None,
        release_date: None,
        reasoning: None,
    })
}

/// `name` is `known` or a dated version of it.
fn is_version_of(known: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(known) else { return false };
    rest.is_empty()
        || rest.strip_prefix("-20").is_some_and(|date| date.chars().all(|c| c.is_ascii_digit() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_the_table_and_priced() {
        for (provider, name) in [("openai", OPENAI_DEFAULT), ("anthropic", ANTHROPIC_DEFAULT)] {
            let (model, is_assumed) = facts(provider, name, true).unwrap();
            assert!(!is_assumed && model.pricing.is_some(), "{name}");
            assert!(facts(provider, name, false).unwrap().0.pricing.is_none(), "{name}");
        }
    }

    #[test]
    fn a_dated_version_is_known_and_a_longer_name_is_not() {
        let (model, is_assumed) = facts("anthropic", "claude-haiku-4-5-20251001", true).unwrap();
        assert_eq!((model.context_length, is_assumed), (Some(200_000), false));
        assert_eq!(model.id.as_str(), "anthropic/claude-haiku-4-5-20251001");
        assert!(!facts("openai", "gpt-5-2025-08-07", true).unwrap().1);
        for name in ["gpt-5-nano", "gpt-5.9", "my-model"] {
            let (model, is_assumed) = facts("openai", name, true).unwrap();
            assert!(is_assumed, "{name}");
            assert_eq!((model.context_length, model.output_limit), (Some(128_000), Some(16_384)));
            assert_eq!(model.pricing, None);
        }
        assert!(facts("openai", "", true).is_err());
    }
}
