//! Owns the tests of `failure.rs`: which refusal means what, and that no secret passes.

use gent_extension_api::Access;
use gent_extension_api::protocol::Secret;
use serde_json::json;

use super::*;
use crate::providers::openai::SPEC;

fn peer() -> Peer {
    Peer::new(SPEC, &Access { endpoint: None, key: Some(Secret::new("topsecret-key")) }).unwrap()
}

fn refused(status: u16, body: &str) -> ProviderFailure {
    of_status(&peer(), status, &HeaderMap::new(), body.as_bytes())
}

#[test]
fn each_status_means_what_a_caller_can_do_about_it() {
    use FailureKind::{Auth, ContextOverflow, RateLimited, Refused, Transient};
    let long = r#"{"error":{"message":"prompt is too long: 9 > 8"}}"#;
    let quota = r#"{"error":{"message":"no more","code":"insufficient_quota"}}"#;
    for (status, body, kind) in [
        (401, "", Auth),
        (403, "", Auth),
        (429, "", RateLimited),
        (429, quota, Refused),
        (500, long, Transient),
        (503, "", Transient),
        (529, "", Transient),
        (408, "", Transient),
        (501, "", Refused),
        (400, long, ContextOverflow),
        (413, long, ContextOverflow),
        (
            413,
            r#"{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            Refused,
        ),
        (404, "", Refused),
        (400, r#"{"error":{"message":"bad temperature"}}"#, Refused),
        (308, "", Refused),
    ] {
        assert_eq!(refused(status, body).kind, kind, "{status} {body}");
    }
}

#[test]
fn a_refused_key_names_the_variable_and_never_the_key() {
    let failure = refused(
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-proj-abcdefghijkl, also topsecret-key."}}"#,
    );
    assert_eq!(
        failure.message,
        "OpenAI does not accept the key (401): Incorrect API key provided: [REDACTED], also [REDACTED].; \
         set OPENAI_API_KEY to one that is valid there"
    );
    let mut keyless = peer();
    keyless.key = None;
    let failure = of_status(&keyless, 401, &HeaderMap::new(), b"");
    assert_eq!(failure.message, "OpenAI wants a key (401); set OPENAI_API_KEY");
}

#[test]
fn the_words_of_a_provider_are_found_wherever_it_puts_them_and_cut() {
    for (body, words) in [
        (r#"{"error":"model not loaded"}"#, ": model not loaded"),
        (r#"{"detail":"no such field"}"#, ": no such field"),
        (r#"{"detail":[{"loc":["body","stream_options"]}]}"#, r#": [{"loc":["body","stream_options"]}]"#),
        (r#"[{"error":{"message":"in a list"}}]"#, ": in a list"),
        (r#"{"error":{"message":"upstream","metadata":{"raw":"real cause"}}}"#, ": upstream: real cause"),
        ("plain words", ": plain words"),
        ("<html><body>Bad gateway</body></html>", ""),
        ("", ""),
    ] {
        assert_eq!(refused(400, body).message, format!("OpenAI refused the request (400){words}"), "{body}");
    }
    let long = refused(400, &"é".repeat(1000)).message;
    assert_eq!(long.chars().filter(|c| *c == 'é').count(), MAX_FOREIGN_CHARS);
}

#[test]
fn an_error_inside_a_stream_is_judged_by_its_code_and_not_by_its_words() {
    use FailureKind::{Auth, ContextOverflow, RateLimited, Refused, Transient};
    for (error, kind) in [
        (json!({"type": "overloaded_error", "message": "Overloaded"}), Transient),
        (json!({"code": 502, "message": "bad gateway"}), Transient),
        (json!({"code": "server_error"}), Transient),
        (json!({"code": 429}), RateLimited),
        (json!({"type": "rate_limit_error"}), RateLimited),
        (json!({"type": "authentication_error"}), Auth),
        (json!({"type": "invalid_request_error", "message": "prompt is too long"}), ContextOverflow),
        (json!({"type": "invalid_request_error", "message": "please retry: server overloaded"}), Refused),
        (json!("it broke"), Refused),
    ] {
        assert_eq!(of_event(&peer(), &error).kind, kind, "{error}");
    }
}

#[test]
fn a_wait_is_given_in_seconds_milliseconds_or_as_a_date() {
    let wait = |pairs: &[(&'static str, &'static str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        of_status(&peer(), 429, &headers, b"").retry_after
    };
    assert_eq!(wait(&[("retry-after", "3")]), Some(Duration::from_secs(3)));
    assert_eq!(wait(&[("retry-after-ms", "250"), ("retry-after", "9")]), Some(Duration::from_millis(250)));
    let dates = [("retry-after", "Tue, 01 Mar 2028 00:00:10 GMT"), ("date", "Tue, 29 Feb 2028 23:59:50 GMT")];
    assert_eq!(wait(&dates), Some(Duration::from_secs(20)));
    assert_eq!(wait(&[("retry-after", "soon")]), None);
    assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
}
