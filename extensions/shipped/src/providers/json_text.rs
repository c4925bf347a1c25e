//! Owns what all wire formats need of JSON: tolerant reading, call ids and tool names every provider takes, the text of a result.
//! Never fails on what a model wrote. Pure. Tested below.

use gent_extension_api::protocol::ToolOutcome;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// What stands for a result without text: some servers refuse an empty one.
pub(super) const NO_OUTPUT: &str = "(no tool output)";

/// Reads `text`; where that fails, reads it once more without unpaired surrogate escapes, which some servers
/// write when they cut a character in two.
pub(super) fn parse_lenient<'a, T>(text: &'a str, scratch: &'a mut String) -> Result<T, serde_json::Error>
where
    T: Deserialize<'a>,
{
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) => {
            let Some(cleaned) = without_lone_surrogates(text) else { return Err(error) };
            *scratch = cleaned;
            serde_json::from_str(scratch)
        }
    }
}

/// `text` without escapes of surrogates that have no partner, or none when there are none.
pub(super) fn without_lone_surrogates(text: &str) -> Option<String> {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_changed = false;
    while let Some(at) = rest.find('\\') {
        let (before, tail) = rest.split_at(at);
        cleaned.push_str(before);
        let taken = match surrogate(tail) {
            None => tail.char_indices().nth(2).map_or(tail.len(), |(end, _)| end),
            Some(unit) => {
                let partner = tail.get(6..).and_then(surrogate);
                let is_pair = unit < 0xDC00 && partner.is_some_and(|unit| unit >= 0xDC00);
                if !is_pair {
                    is_changed = true;
                    rest = tail.get(6..).unwrap_or_default();
                    continue;
                }
                12
            }
        };
        cleaned.push_str(tail.get(..taken).unwrap_or(tail));
        rest = tail.get(taken..).unwrap_or_default();
    }
    cleaned.push_str(rest);
    is_changed.then_some(cleaned)
}

/// The surrogate that an escape at the beginning of `text` stands for.
fn surrogate(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let unit = u32::from_str_radix(digits, 16).ok()?;
    (0xD800..0xE000).contains(&unit).then_some(unit)
}

/// The input of a call out of what a model wrote: the object, also with text after it or wrapped in a string; the raw
/// text as a string where there is no object.
pub(super) fn parse_params(raw: &str) -> Value {
    complete_params(raw).unwrap_or_else(|| Value::String(raw.to_owned()))
}

/// As above, but none where there is no whole object. Nothing at all is an empty object.
pub(super) fn complete_params(raw: &str) -> Option<Value> {
    let trimmed = raw.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return Some(Value::Object(Map::new()));
    }
    let first = |text: &str| {
        serde_json::Deserializer::from_str(text).into_iter::<Value>().next().and_then(Result::ok)
    };
    let value = first(trimmed).or_else(|| first(&without_lone_surrogates(trimmed)?))?;
    match value {
        Value::Object(_) => Some(value),
        Value::String(inner) => first(inner.trim()).filter(Value::is_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// The input of a call as an object: a provider takes nothing else, so text that did not parse is wrapped.
pub(super) fn params_object(params: &Value) -> Value {
    match params {
        Value::Object(_) => params.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            json!({ "unparsed": params })
        }
    }
}

/// A call's id as a provider takes it: letters, digits, `_` and `-`, at most `max`. Any other id becomes a short digest,
/// the same for the call and its result.
pub(super) fn call_id(id: &str, max: usize) -> String {
    let is_plain = !id.is_empty()
        && id.len() <= max
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_plain {
        return id.to_owned();
    }
    let mut short = String::from("call_");
    for byte in Sha256::digest(id.as_bytes()).into_iter().take(12) {
        short.push_str(&format!("{byte:02x}"));
    }
    short
}

/// A tool's name as a provider takes it.
pub(super) fn wire_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}

/// A result as text.
pub(super) fn outcome_text(outcome: &ToolOutcome) -> String {
    let text = match &outcome.result {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    };
    if text.trim().is_empty() { NO_OUTPUT.to_owned() } else { text }
}

/// A count out of a provider's numbers: never negative.
pub(super) fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        // A float of a token count is far below 2^53; anything else is no count.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
        (0.0..9e15).contains(&number).then_some(number as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpaired_surrogate_escapes_are_removed_and_pairs_are_kept() {
        for (text, cleaned) in [
            (r#""a\ud83db""#, Some(r#""ab""#)),
            (r#""\ude00x\uD83D""#, Some(r#""x""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ud83d\ude00""#)),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""plain \n é""#, None),
            (r"\", None),
        ] {
            assert_eq!(without_lone_surrogates(text).as_deref(), cleaned, "{text}");
        }
        let mut scratch = String::new();
        assert_eq!(parse_lenient::<String>(r#""a\ud83db""#, &mut scratch).unwrap(), "ab");
    }

    #[test]
    fn the_input_of_a_call_survives_what_models_write_around_it() {
        for (raw, params) in [
            (r#"{"path":"a"}"#, json!({"path": "a"})),
            (r#"{"path":"a"}}"#, json!({"path": "a"})),
            ("{\"path\":\"a\"}\nNow I wait.", json!({"path": "a"})),
            (r#""{\"path\":\"a\"}""#, json!({"path": "a"})),
            (r#"{"path":"a\ud83d"}"#, json!({"path": "a"})),
            ("", json!({})),
            (" null ", json!({})),
            (r#"{"path":"#, json!("{\"path\":")),
            ("[1]", json!("[1]")),
        ] {
            assert_eq!(parse_params(raw), params, "{raw}");
        }
        assert_eq!(params_object(&json!("{bad")), json!({"unparsed": "{bad"}));
    }

    #[test]
    fn foreign_ids_become_short_ones_that_differ_where_they_differed() {
        assert_eq!(call_id("call_abc-1", 40), "call_abc-1");
        let long = format!("{}:0", "m".repeat(200));
        let other = format!("{}:1", "m".repeat(200));
        assert_eq!(call_id(&long, 40).len(), 29);
        assert_eq!(call_id(&long, 40), call_id(&long, 40));
        assert_ne!(call_id(&long, 40), call_id(&other, 40));
        assert_eq!(wire_name("fs.read/é"), "fs_read__");
        assert_eq!(wire_name(""), "unnamed");
    }

    #[test]
    fn counts_are_never_negative() {
        assert_eq!(count(Some(&json!(7))), Some(7));
        assert_eq!(count(Some(&json!(7.0))), Some(7));
        for odd in [json!(-1), json!("7"), json!(null), json!(1e300)] {
            assert_eq!(count(Some(&odd)), None, "{odd}");
        }
    }
}
