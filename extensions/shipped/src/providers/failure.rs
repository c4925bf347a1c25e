//! Owns what a provider's refusals mean, and the sentence a person reads.
//! Never shows a secret: every foreign text is scrubbed and cut. Pure. Tested below.

use std::time::Duration;

use gent_extension_api::{DriverError, FailureKind, ProviderFailure};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::overflow::is_overflow;
use super::peer::Peer;

/// The most characters of a provider's own words in a message.
const MAX_FOREIGN_CHARS: usize = 300;

/// What a provider said in the body of a refusal or in an error event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Said {
    code: String,
    message: String,
}

/// The failure behind an HTTP answer that is no success.
pub(super) fn of_status(peer: &Peer, status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderFailure {
    let said = said_in_body(body);
    let (label, words) = (peer.label(), words(peer, &said));
    let mut failure = match status {
        300..=399 => ProviderFailure::new(
            FailureKind::Refused,
            format!(
                "{label} answered with a redirect ({status}), which is not followed with a key; set {} to the final address",
                peer.spec.endpoint_variable.unwrap_or("the endpoint")
            ),
        ),
        401 | 403 => ProviderFailure::new(FailureKind::Auth, auth_sentence(peer, status, &words)),
        429 if said.code.contains("insufficient_quota") => ProviderFailure::new(
            FailureKind::Refused,
            format!("the quota at {label} is used up (429){words}; raise it there or choose another model"),
        ),
        429 => {
            ProviderFailure::new(FailureKind::RateLimited, format!("{label} asks to slow down (429){words}"))
        }
        408 | 409 | 425 | 500 | 502..=504 | 506..=599 => ProviderFailure::new(
            FailureKind::Transient,
            format!("{label} has a problem of its own ({status}){words}; try again in a moment"),
        ),
        _ if is_overflow(&said.code, &said.message) => ProviderFailure::new(
            FailureKind::ContextOverflow,
            format!("the conversation is longer than the model at {label} takes ({status}){words}"),
        ),
        413 => ProviderFailure::new(
            FailureKind::Refused,
            format!(
                "the request has more bytes than {label} takes (413){words}; leave out large files or images"
            ),
        ),
        404 => ProviderFailure::new(
            FailureKind::Refused,
            format!(
                "{label} does not know this model or address (404){words}; check the model's name{}",
                peer.spec.endpoint_variable.map(|name| format!(" and {name}")).unwrap_or_default()
            ),
        ),
        _ => ProviderFailure::new(
            FailureKind::Refused,
            format!("{label} refused the request ({status}){words}"),
        ),
    };
    if matches!(failure.kind, FailureKind::RateLimited | FailureKind::Transient) {
        failure.retry_after = retry_after(headers);
    }
    failure
}

/// The failure behind an error that came inside a stream. Which of them may be tried again is decided by code and
/// type alone, never by the words.
pub(super) fn of_event(peer: &Peer, error: &Value) -> ProviderFailure {
    let said = said_in(error);
    let (label, words) = (peer.label(), words(peer, &said));
    let number = said.code.split_whitespace().find_map(|word| word.parse::<u16>().ok());
    let has = |words: &[&str]| words.iter().any(|word| said.code.contains(word));
    let kind = if number == Some(429) || has(&["rate_limit"]) {
        FailureKind::RateLimited
    } else if number.is_some_and(|number| number >= 500)
        || has(&["overloaded", "server_error", "api_error", "timeout", "unavailable", "internal"])
    {
        FailureKind::Transient
    } else if matches!(number, Some(401 | 403)) || has(&["authentication", "invalid_api_key", "permission"]) {
        FailureKind::Auth
    } else if is_overflow(&said.code, &said.message) {
        FailureKind::ContextOverflow
    } else {
        FailureKind::Refused
    };
    if kind == FailureKind::Auth {
        return ProviderFailure::new(kind, auth_sentence(peer, number.unwrap_or(401), &words));
    }
    ProviderFailure::new(kind, format!("{label} broke off its answer{words}"))
}

/// A stream that cannot be read on: cut, silent, or not what it should be.
pub(super) fn broken(peer: &Peer, what: &str) -> ProviderFailure {
    ProviderFailure::new(FailureKind::Transient, format!("the answer of {} {what}", peer.label()))
}

/// No connection, or one that broke before an answer.
pub(super) fn unreachable(peer: &Peer, cause: &str) -> ProviderFailure {
    let advice =
        if peer.is_loopback { "check that it is running" } else { "check the address and the network" };
    ProviderFailure::new(
        FailureKind::Transient,
        format!("cannot reach {} ({}); {advice}", peer.label(), clean(peer, cause)),
    )
}

/// The last cause of an HTTP error, without the address, which may hold a password.
pub(super) fn cause_of(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    let mut text =
        if error.is_timeout() { "no answer in time".to_owned() } else { "connection failed".to_owned() };
    while let Some(inner) = cause.source() {
        text = inner.to_string();
        cause = inner;
    }
    text
}

/// The same failure where a driver is asked and not a model.
pub(super) fn for_driver(failure: ProviderFailure) -> DriverError {
    match failure.kind {
        FailureKind::Auth => DriverError::Auth { message: failure.message },
        FailureKind::Transient
        | FailureKind::RateLimited
        | FailureKind::ContextOverflow
        | FailureKind::Refused => DriverError::Unavailable { message: failure.message },
    }
}

fn auth_sentence(peer: &Peer, status: u16, words: &str) -> String {
    let label = peer.label();
    match (peer.spec.key_variable, &peer.key) {
        (Some(variable), None) => format!("{label} wants a key ({status}){words}; set {variable}"),
        (Some(variable), Some(_)) => {
            format!(
                "{label} does not accept the key ({status}){words}; set {variable} to one that is valid there"
            )
        }
        (None, _) => format!("{label} refuses access ({status}){words}"),
    }
}

fn words(peer: &Peer, said: &Said) -> String {
    let text = clean(peer, &said.message);
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

fn said_in_body(body: &[u8]) -> Said {
    let text = String::from_utf8_lossy(body);
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(fields)) => match fields.get("error") {
            Some(error) if !error.is_null() => said_in(error),
            _ => said_in(&Value::Object(fields)),
        },
        Ok(Value::Array(items)) => match items.first() {
            Some(first) => said_in(first.get("error").unwrap_or(first)),
            None => Said::default(),
        },
        // A page for browsers says nothing to a reader of one sentence.
        _ if text.trim_start().starts_with('<') => Said::default(),
        _ => Said { code: String::new(), message: text.into_owned() },
    }
}

fn said_in(error: &Value) -> Said {
    let Value::Object(fields) = error else {
        let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        return Said { code: String::new(), message };
    };
    let plain = |name: &str| {
        fields.get(name).filter(|value| !value.is_null()).map(|value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        })
    };
    let mut message = ["message", "detail", "error", "msg"].into_iter().find_map(plain).unwrap_or_default();
    // Gateways keep what the server behind them said apart from their own sentence.
    if let Some(raw) = fields.get("metadata").and_then(|m| m.get("raw")).and_then(Value::as_str) {
        message = format!("{message}: {raw}");
    }
    let code: Vec<String> = ["code", "type", "status"].into_iter().filter_map(plain).collect();
    Said { code: code.join(" ").to_lowercase(), message }
}

/// Foreign text on one line, without secrets, cut to length.
fn clean(peer: &Peer, text: &str) -> String {
    let mut text = text.split_whitespace().map(hide_token).collect::<Vec<_>>().join(" ");
    if let Some(key) = &peer.key
        && key.expose().len() >= 4
    {
        text = text.replace(key.expose(), "[REDACTED]");
    }
    match text.char_indices().nth(MAX_FOREIGN_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// A word that holds what looks like a key: providers repeat parts of keys in their refusals.
fn hide_token(word: &str) -> String {
    let Some(at) = word.find("sk-") else { return word.to_owned() };
    let (before, token) = word.split_at(at);
    let end = token.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.')));
    let (token, after) = token.split_at(end.unwrap_or(token.len()));
    if token.len() < 8 { word.to_owned() } else { format!("{before}[REDACTED]{after}") }
}

/// How long the provider asks to wait: milliseconds, seconds, or a date, which is measured against the answer's own
/// date so that no clock of ours is needed.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let wait = http_date(value)?.saturating_sub(http_date(text(DATE.as_str())?)?);
    Some(Duration::from_secs(u64::try_from(wait).unwrap_or(0)))
}

/// Seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<i64> {
    let mut words = text.split_whitespace().skip(1);
    let day: i64 = words.next()?.parse().ok()?;
    let month_name = words.next()?;
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = i64::try_from(months.iter().position(|name| *name == month_name)?).ok()? + 1;
    let year: i64 = words.next()?.parse().ok()?;
    let mut clock = words.next()?.split(':').map(|number| number.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if !(1970..=9999).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 by counting years from March, so that the leap day comes last.
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let shifted_month = (month + 9) % 12;
    let days = 365 * shifted_year + shifted_year / 4 - shifted_year / 100
        + shifted_year / 400
        + (153 * shifted_month + 2) / 5
        + day
        - 1
        - 719_468;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
