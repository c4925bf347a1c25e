//! Owns the contract that every driver with a wire keeps, whatever its format, and the harness of their tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use gent_extension_api::protocol::Secret;
use gent_extension_api::{
    Access, Contribution, DriverError, FailureKind, FinishReason, Hook, Host, HostFacts, LanguageModel,
    ModelDriver, ModelStream, ProviderFailure, StreamPart,
};
use gent_extensions::{ProviderSettings, provider_extensions};
use serde_json::json;

use crate::providers_server::{End, Reply, Server, fixture};
use crate::test_messages::{request, user};

struct Registry {
    facts: HostFacts,
    drivers: Vec<Arc<dyn ModelDriver>>,
}

impl Host for Registry {
    fn register(&mut self, contribution: Contribution) {
        if let Contribution::ModelDriver(driver) = contribution {
            self.drivers.push(driver);
        }
    }

    fn on(&mut self, _hook: Hook) {}

    fn facts(&self) -> &HostFacts {
        &self.facts
    }
}

/// The shipped driver of this id, built with these settings.
pub(crate) fn driver_with(id: &str, settings: &ProviderSettings) -> Arc<dyn ModelDriver> {
    let cwd = PathBuf::from("/");
    let facts = HostFacts { cwd, home: None, gent_home: None, platform: String::new(), shell: None };
    let mut registry = Registry { facts, drivers: Vec::new() };
    for extension in provider_extensions(settings) {
        extension.setup(&mut registry).unwrap();
    }
    registry.drivers.into_iter().find(|driver| driver.id().as_str() == id).unwrap()
}

pub(crate) fn driver(id: &str) -> Arc<dyn ModelDriver> {
    driver_with(id, &ProviderSettings::default())
}

/// Settings under which an answer without data is given up at once.
pub(crate) fn impatient() -> ProviderSettings {
    ProviderSettings { stream_idle: Duration::from_millis(40).into(), ..ProviderSettings::default() }
}

/// The address and key of a driver that is pointed at `server`.
pub(crate) fn access(id: &str, server: &Server) -> Access {
    let path = if id == "openai" { "/v1" } else { "" };
    Access { endpoint: Some(format!("{}{path}", server.url())), key: Some(Secret::new("key-topsecret")) }
}

pub(crate) async fn model(driver: &Arc<dyn ModelDriver>, server: &Server) -> Arc<dyn LanguageModel> {
    driver.resolve("model-x", &access(driver.id().as_str(), server)).await.unwrap()
}

pub(crate) type Collected = (Vec<StreamPart>, Option<ProviderFailure>);

/// All parts of a stream and how it failed.
pub(crate) async fn collect(mut stream: ModelStream) -> Collected {
    let mut parts = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(part) => parts.push(part),
            Err(failure) => {
                assert!(stream.next().await.is_none(), "nothing follows a failure");
                return (parts, Some(failure));
            }
        }
    }
    (parts, None)
}

/// What a driver makes of one answer.
pub(crate) async fn answer(id: &str, settings: &ProviderSettings, reply: Reply) -> Collected {
    let server = Server::script(vec![reply]).await;
    let model = model(&driver_with(id, settings), &server).await;
    collect(model.stream(&request(vec![user("hi")])).await.unwrap()).await
}

/// The parts with neighbouring text joined, so that cuts do not matter.
pub(crate) fn joined(parts: &[StreamPart]) -> Vec<StreamPart> {
    let mut joined: Vec<StreamPart> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(StreamPart::Text { text }), StreamPart::Text { text: more }) => text.push_str(more),
            _ => joined.push(part.clone()),
        }
    }
    joined
}

pub(crate) async fn refused(id: &str, reply: Reply) -> ProviderFailure {
    let server = Server::script(vec![reply]).await;
    let model = model(&driver(id), &server).await;
    match model.stream(&request(vec![user("hi")])).await {
        Ok(_) => panic!("the request was accepted"),
        Err(failure) => failure,
    }
}

/// Each driver with a wire: its id, and recordings of a text and of a step with tools.
const WIRES: [(&str, &str, &str); 2] =
    [("openai", "chat_text.sse", "chat_tools.sse"), ("anthropic", "messages_text.sse", "messages_tools.sse")];

#[tokio::test]
async fn every_driver_reads_the_same_parts_however_an_answer_is_cut_into_packets() {
    for (id, text, tools) in WIRES {
        for name in [text, tools] {
            let whole = answer(id, &ProviderSettings::default(), Reply::stream(fixture(name))).await;
            assert_eq!(whole.1, None, "{name}");
            assert!(matches!(whole.0.last(), Some(StreamPart::Finish { .. })), "{name}");
            for piece in [1, 7] {
                let reply = Reply::stream(fixture(name)).pieces(piece);
                assert_eq!(answer(id, &ProviderSettings::default(), reply).await, whole, "{name} in {piece}");
            }
        }
        let (parts, _) = answer(id, &ProviderSettings::default(), Reply::stream(fixture(text))).await;
        assert_eq!(joined(&parts)[0], StreamPart::Text { text: "Grüße, 漢字 🦀.".into() });
    }
}

#[tokio::test]
async fn every_driver_reports_an_answer_that_was_cut_anywhere_and_never_calls_it_whole() {
    for (id, text, tools) in WIRES {
        for name in [text, tools] {
            let bytes = fixture(name);
            let settled = String::from_utf8_lossy(&bytes).find(if id == "openai" {
                "_reason\": \""
            } else {
                "message_delta"
            });
            for at in (0..bytes.len()).step_by(23) {
                let reply = Reply::stream(&bytes[..at]).end(End::Cut);
                let (parts, failure) = answer(id, &ProviderSettings::default(), reply).await;
                let is_whole = matches!(parts.last(), Some(StreamPart::Finish { .. }));
                assert_eq!(is_whole, failure.is_none(), "{name} cut at {at}");
                if let Some(failure) = failure {
                    assert_eq!(failure.kind, FailureKind::Transient, "{name} cut at {at}: {failure}");
                } else {
                    assert!(settled.is_some_and(|settled| at > settled), "{name} cut at {at}");
                }
            }
        }
    }
}

#[tokio::test]
async fn every_driver_gives_up_on_an_answer_that_brings_only_pings() {
    for (id, text, _) in WIRES {
        let bytes = fixture(text);
        let half = &bytes[..bytes.windows(2).position(|window| window == b"\n\n").unwrap() + 2];
        let pings = if id == "anthropic" { End::Pings } else { End::Comments };
        for end in [End::Silent, End::Comments, pings] {
            let (_, failure) = answer(id, &impatient(), Reply::stream(half).end(end)).await;
            let failure = failure.unwrap();
            assert_eq!(failure.kind, FailureKind::Transient);
            assert!(failure.message.contains("brought nothing for 0.04 s"), "{failure}");
        }
    }
}

#[tokio::test]
async fn every_driver_ends_an_answer_whose_end_was_told_though_its_connection_hangs() {
    for (id, text, _) in WIRES {
        let all = String::from_utf8(fixture(text)).unwrap();
        let told = all.replace("data: [DONE]\n\n", "");
        let told = told.split("event: message_stop").next().unwrap();
        let (parts, failure) = answer(id, &impatient(), Reply::stream(told).end(End::Silent)).await;
        assert_eq!(failure, None, "{id}");
        assert_eq!(parts.last(), Some(&StreamPart::Finish { reason: FinishReason::Stop }), "{id}");
    }
}

#[tokio::test]
async fn every_driver_keeps_its_connection_for_the_next_request_and_sends_a_length() {
    for (id, text, _) in WIRES {
        let replies = (0..20).map(|_| Reply::stream(fixture(text))).collect();
        let server = Server::script(replies).await;
        let model = model(&driver(id), &server).await;
        for _ in 0..20 {
            let stream = model.stream(&request(vec![user("hi")])).await.unwrap();
            assert_eq!(collect(stream).await.1, None);
        }
        let seen = server.seen();
        let n_connections = seen.iter().map(|seen| seen.connection).max().unwrap();
        assert!(seen.len() == 20 && n_connections <= 10, "{id}: {n_connections} connections");
        for seen in seen {
            assert!(seen.head.contains(&format!("content-length: {}", seen.body.len())), "{}", seen.head);
            assert!(!seen.head.contains("transfer-encoding"), "{}", seen.head);
            assert!(
                seen.head.contains(concat!("user-agent: gent/", env!("CARGO_PKG_VERSION"))),
                "{}",
                seen.head
            );
        }
    }
}

#[tokio::test]
async fn every_driver_says_which_variable_to_set_and_never_shows_the_key() {
    for (id, variable) in [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")] {
        let body = json!({"error": {"message": "bad key key-topsecret", "type": "authentication_error"}});
        let failure = refused(id, Reply::json(401, body)).await;
        assert_eq!(failure.kind, FailureKind::Auth);
        assert!(failure.message.contains(variable) && !failure.message.contains("topsecret"), "{failure}");
        let Err(error) = driver(id).resolve("m", &Access::default()).await else {
            panic!("resolved without a key")
        };
        assert!(matches!(&error, DriverError::Auth { message } if message.contains(variable)), "{error}");
        assert!(driver(id).needs_key(None) && !driver(id).needs_key(Some("http://127.0.0.1:1/v1")));
        assert_eq!(driver(id).credentials().key_variable, Some(variable));
    }
}

#[tokio::test]
async fn every_driver_waits_as_long_as_it_is_told() {
    for (id, _, _) in WIRES {
        let failure = refused(id, Reply::json(429, json!({})).header("retry-after", "3")).await;
        assert_eq!(
            (failure.kind, failure.retry_after),
            (FailureKind::RateLimited, Some(Duration::from_secs(3)))
        );
        let failure = refused(id, Reply::json(529, json!({"error": {"type": "overloaded_error"}}))).await;
        assert_eq!(failure.kind, FailureKind::Transient);
    }
}

#[tokio::test]
async fn every_driver_keeps_its_key_from_the_target_of_a_redirect() {
    for (id, _, _) in WIRES {
        let other = Server::script(vec![]).await;
        let failure = refused(id, Reply::json(307, json!({})).header("location", &other.url())).await;
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.message.contains("redirect") && other.seen().is_empty(), "{failure}");
    }
}

#[tokio::test]
async fn every_driver_tells_a_long_conversation_from_a_large_body() {
    for (id, _, _) in WIRES {
        let long = json!({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}});
        assert_eq!(refused(id, Reply::json(400, long)).await.kind, FailureKind::ContextOverflow);
        let large =
            json!({"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}});
        assert_eq!(refused(id, Reply::json(413, large)).await.kind, FailureKind::Refused);
    }
}

#[tokio::test]
async fn every_driver_names_a_server_that_is_not_there_or_no_model_server() {
    for (id, _, _) in WIRES {
        let page = Reply { headers: vec![("content-type", "text/html".into())], ..Reply::stream("<html>") };
        let failure = refused(id, page).await;
        assert!(failure.kind == FailureKind::Refused && failure.message.contains("web page"), "{failure}");
        // A port that was free a moment ago.
        let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let access = Access { endpoint: Some(format!("http://{gone}/v1")), key: None };
        let model = driver(id).resolve("m", &access).await.unwrap();
        let failure = model.stream(&request(vec![user("hi")])).await.err().unwrap();
        assert_eq!(failure.kind, FailureKind::Transient);
        assert!(
            failure.message.contains(&gone.to_string()) && failure.message.contains("running"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn every_driver_takes_its_own_default_with_its_key_and_the_first_listed_model_at_another_server() {
    for (id, variable, own) in [
        ("openai", "OPENAI_API_KEY", "openai/gpt-5.4"),
        ("anthropic", "ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5"),
    ] {
        let key = Access { endpoint: None, key: Some(Secret::new("k")) };
        let default = driver(id).default_model(&key).await.unwrap().unwrap();
        assert_eq!((default.id.as_str(), default.reason), (own, format!("{variable} is set")));
        assert_eq!(driver(id).default_model(&Access::default()).await, Ok(None));
        let server =
            Server::script(vec![Reply::json(200, json!({"data": [{"id": "big/one"}, {"id": "two"}]}))]).await;
        let default = driver(id).default_model(&access(id, &server)).await.unwrap().unwrap();
        assert_eq!(default.id.as_str(), format!("{id}/big/one"));
        assert_eq!(
            server.seen()[0].line.split('?').next().unwrap().trim_end_matches(" HTTP/1.1"),
            "GET /v1/models"
        );
        let silent = Server::script(vec![Reply::json(200, json!({})).end(End::Silent)]).await;
        assert!(driver(id).default_model(&access(id, &silent)).await.is_err());
    }
}

#[tokio::test]
async fn an_address_of_no_use_is_named_with_its_variable_and_without_its_password() {
    for (id, variable) in [("openai", "OPENAI_BASE_URL"), ("anthropic", "ANTHROPIC_BASE_URL")] {
        let why = async |access: Access| driver(id).default_model(&access).await.unwrap_err().to_string();
        let gone = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let key = Some(Secret::new("k"));
        let said =
            why(Access { endpoint: Some(format!("http://u:hunter2@{gone}/v1")), key: key.clone() }).await;
        let wanted = format!("{variable} is set, but http://{gone}/v1 does not answer");
        assert!(said.starts_with(&wanted) && !said.contains("hunter2"), "{said}");
        let empty = Server::script(vec![Reply::json(200, json!({"data": []}))]).await;
        assert!(why(access(id, &empty)).await.ends_with("lists no model"));
    }
    let address_alone = Access { endpoint: Some("http://127.0.0.1:9".into()), key: None };
    let said = driver("anthropic").default_model(&address_alone).await.unwrap_err().to_string();
    assert!(said.contains("without ANTHROPIC_API_KEY"), "{said}");
}

#[tokio::test]
async fn dropping_an_answer_ends_the_request() {
    for (id, text, _) in WIRES {
        let bytes = fixture(text);
        let half = Reply::stream(&bytes[..bytes.len() / 2]).end(End::Comments);
        let server = Server::script(vec![half]).await;
        let model = model(&driver(id), &server).await;
        let mut stream = model.stream(&request(vec![user("hi")])).await.unwrap();
        assert!(stream.next().await.is_some());
        drop(stream);
        server.closed().await;
    }
}

#[tokio::test]
async fn a_model_that_nobody_knows_has_the_documented_assumptions() {
    let server = Server::script(vec![]).await;
    let model = model(&driver("openai"), &server).await;
    assert!(model.is_assumed());
    let facts = model.facts();
    assert_eq!(
        (facts.context_length, facts.output_limit, facts.pricing),
        (Some(128_000), Some(16_384), None)
    );
}
