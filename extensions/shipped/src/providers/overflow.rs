//! Owns how a refusal for length is told from every other refusal, by the wordings of the known servers.
//! Pure; never asked about a failure that may be retried. Tested below.

/// Wordings that speak of a rate, not of a length. They win.
const EXCLUDED: [&str; 2] = ["rate limit", "too many requests"];

/// Wordings of a request that is longer than the model takes, in lower case. `*` stands for up to 60 characters,
/// `#` for a number. The byte cap (`request_too_large`) is none of them: fewer tokens would not help.
const OVERFLOWS: [&str; 24] = [
    "prompt is too long",
    "exceed context limit",
    "input is too long for requested model",
    "exceeds the context window",
    "exceeds*maximum context length",
    "input token count*exceeds the maximum",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum context length is # tokens",
    "longer than the model's context length",
    "too large for model with # maximum context length",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "prompt too long; exceeded*context length",
    "context length exceeded",
    "context_length_exceeded",
    "model_context_window_exceeded",
    "maximum allowed input length",
    "prompt token count*exceeds the limit of #",
    "prompt contains*input tokens",
    "but the configured context size is",
    "token limit exceeded",
];

/// The most characters a `*` stands for.
const GAP: usize = 60;

/// Whether code and message of a refusal say that the request was too long for the model.
pub(super) fn is_overflow(code: &str, message: &str) -> bool {
    let text = format!("{code} {message}").to_lowercase();
    if EXCLUDED.iter().any(|word| text.contains(word)) {
        return false;
    }
    OVERFLOWS.iter().any(|pattern| is_found(&text, pattern))
}

fn is_found(text: &str, pattern: &str) -> bool {
    text.char_indices().any(|(at, _)| text.get(at..).is_some_and(|rest| starts_with(rest, pattern)))
}

fn starts_with(text: &str, pattern: &str) -> bool {
    let Some(special) = pattern.find(['*', '#']) else { return text.starts_with(pattern) };
    let (literal, rest) = pattern.split_at(special);
    let Some(text) = text.strip_prefix(literal) else { return false };
    if let Some(rest) = rest.strip_prefix('#') {
        let after = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
        return after.len() < text.len() && starts_with(after, rest);
    }
    let rest = rest.strip_prefix('*').unwrap_or(rest);
    text.char_indices().take(GAP).any(|(at, _)| text.get(at..).is_some_and(|text| starts_with(text, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wordings_of_known_servers_are_overflows() {
        for (code, message) in [
            ("invalid_request_error", "Prompt is too long: 215000 tokens > 200000 maximum"),
            ("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000"),
            ("", "Input is too long for requested model."),
            ("", "Your input exceeds the context window of this model."),
            ("", "This request exceeds the model's maximum context length of 8192 tokens"),
            ("", "The input token count (1200000) exceeds the maximum number of tokens allowed"),
            ("", "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
            ("", "Please reduce the length of the messages or completion."),
            ("", "This endpoint's maximum context length is 32,768 tokens. However, you requested more"),
            ("", "`inputs` is longer than the model's context length"),
            ("", "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
            ("", "the request exceeds the available context size, try increasing it"),
            ("", "tokens to keep from the initial prompt is greater than the context length"),
            ("", "invalid params, context window exceeds limit (2013)"),
            ("", "Your request exceeded model token limit: 131072"),
            ("", "prompt too long; exceeded max context length by 12 tokens"),
            ("context_length_exceeded", "too long"),
            ("", "Context length exceeded"),
            ("", "model_context_window_exceeded"),
            ("", "the prompt is over the maximum allowed input length"),
            ("", "prompt token count of 140000 exceeds the limit of 128000"),
            ("", "your prompt contains at least 16385 input tokens"),
            ("", "prompt has 9000 tokens, but the configured context size is 8192"),
        ] {
            assert!(is_overflow(code, message), "{code} {message}");
        }
    }

    #[test]
    fn rates_byte_caps_and_other_refusals_are_none() {
        for (code, message) in [
            ("", "Rate limit reached: prompt is too long for this minute"),
            ("", "Too many requests: maximum context length is 8192 tokens"),
            ("request_too_large", "Request exceeds the maximum allowed number of bytes"),
            ("", "maximum prompt length is unknown"),
            ("invalid_api_key", "Incorrect API key provided"),
            ("", "max_tokens must be at least 1"),
        ] {
            assert!(!is_overflow(code, message), "{code} {message}");
        }
    }
}
