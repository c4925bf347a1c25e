//! Owns how much of a tool's result the model sees. Storage, events and transcript keep all of it.
//! Pure: the same result gives the same bytes at every step and after every restart. Tested below (E19).

use gent_protocol::{Message, Part, ToolOutcome};
use serde_json::{Map, Value, json};

use crate::limits::{RESULT_CHARS, RESULT_STRING_CHARS};

/// The message as the model sees it: every result within [`RESULT_CHARS`] characters of JSON.
pub(crate) fn bound_message(message: Message) -> Message {
    let is_long = |part: &Part| matches!(part, Part::ToolResult(outcome) if !fits(&outcome.result));
    if !message.parts.iter().any(is_long) {
        return message;
    }
    let parts = message.parts.into_iter().map(|part| match part {
        Part::ToolResult(outcome) if !fits(&outcome.result) => {
            let result = bound_result(&outcome.result);
            Part::ToolResult(ToolOutcome { result, ..outcome })
        }
        part => part,
    });
    Message { parts: parts.collect(), ..message }
}

fn fits(result: &Value) -> bool {
    chars(result) <= RESULT_CHARS
}

fn chars(value: &Value) -> usize {
    value.to_string().chars().count()
}

/// A result that was too long: its long strings cut to head and tail, or, where that is not enough, its JSON.
fn bound_result(result: &Value) -> Value {
    let total = chars(result);
    let wrapped = |field: &str, value: Value, omitted: usize| json!({ "truncated": true, "totalChars": total, "omittedChars": omitted, field: value });
    let mut cap = longest_string(result);
    let mut low = RESULT_STRING_CHARS;
    let mut best = None;
    while low <= cap {
        let middle = low.midpoint(cap);
        let mut omitted = 0;
        let cut = cut_strings(result, middle, &mut omitted);
        let candidate = wrapped("result", cut, omitted);
        if fits(&candidate) {
            best = Some(candidate);
            low = middle + 1;
        } else {
            cap = middle - 1;
        }
    }
    if let Some(best) = best {
        return best;
    }
    // Many short values: their JSON as one text. Escaping can double it, so the cap is searched again.
    let text = result.to_string();
    let mut keep = RESULT_CHARS;
    loop {
        let mut omitted = 0;
        let cut = cut_text(&text, keep, &mut omitted);
        let candidate = wrapped("text", Value::String(cut), omitted);
        if fits(&candidate) || keep <= RESULT_STRING_CHARS {
            return candidate;
        }
        keep = keep * 3 / 4;
    }
}

fn longest_string(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.iter().map(longest_string).max().unwrap_or(0),
        Value::Object(fields) => fields.values().map(longest_string).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn cut_strings(value: &Value, cap: usize, omitted: &mut usize) -> Value {
    match value {
        Value::String(text) => Value::String(cut_text(text, cap, omitted)),
        Value::Array(items) => items.iter().map(|item| cut_strings(item, cap, omitted)).collect(),
        Value::Object(fields) => {
            let cut = |(key, field): (&String, &Value)| (key.clone(), cut_strings(field, cap, omitted));
            Value::Object(fields.iter().map(cut).collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Head and tail of a text that is longer than `cap` characters, with a mark between them.
fn cut_text(text: &str, cap: usize, omitted: &mut usize) -> String {
    let length = text.chars().count();
    if length <= cap {
        return text.to_owned();
    }
    let head = cap * 2 / 3;
    let tail = cap - head;
    let left_out = length - head - tail;
    *omitted += left_out;
    let mut cut: String = text.chars().take(head).collect();
    cut.push_str(&format!("\n[… {left_out} characters left out …]\n"));
    cut.extend(text.chars().skip(length - tail));
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_200_000_characters_is_shown_within_8_000_with_head_and_tail_e19() {
        let text: String = (0..200_000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
        let bounded = bound_result(&json!({ "stdout": text, "exitCode": 0 }));
        let shown = chars(&bounded);
        assert!((7_000..=RESULT_CHARS).contains(&shown), "{shown} characters");
        assert_eq!(bounded["truncated"], json!(true));
        assert_eq!(bounded["result"]["exitCode"], json!(0));
        assert!(bounded["result"]["stdout"].as_str().unwrap().starts_with("abcdef"));
        assert_eq!(bounded, bound_result(&json!({ "stdout": text, "exitCode": 0 })));
    }

    #[test]
    fn a_result_of_many_short_values_is_shown_as_cut_text() {
        let many: Vec<Value> = (0..5_000).map(|n| json!({ "n": n, "quote": "\"" })).collect();
        let bounded = bound_result(&Value::Array(many));
        assert!(chars(&bounded) <= RESULT_CHARS);
        assert!(bounded["text"].is_string());
    }

    #[test]
    fn a_short_result_is_unchanged() {
        assert!(fits(&json!({ "a": "x".repeat(7_000) })));
        assert!(!fits(&json!({ "a": "x".repeat(8_000) })));
    }
}
