//! Owns the tests of finding model servers on this machine and asking them for their windows.

use gent_extension_api::protocol::ModelId;
use gent_extension_api::{Access, DriverError, ModelDriver};
use gent_extensions::ProviderSettings;
use serde_json::{Value, json};

use std::sync::Arc;

use crate::providers::{collect, driver_with};
use crate::providers_server::{End, Reply, Server, fixture};
use crate::test_messages::{request, user};

fn local(servers: &[&Server]) -> Arc<dyn ModelDriver> {
    let local_ports = servers.iter().map(|server| server.port).collect();
    driver_with("local", &ProviderSettings { local_ports, ..ProviderSettings::default() })
}

/// A server with these models that also answers `path` with `value`.
async fn serving(models: &'static [&'static str], path: &'static str, value: Value) -> Server {
    Server::start(move |seen| {
        let at = seen.line.split(' ').nth(1).unwrap().to_owned();
        if at == "/v1/models" {
            let data: Vec<Value> = models.iter().map(|id| json!({ "id": id })).collect();
            Reply::json(200, json!({ "data": data }))
        } else if at == path {
            Reply::json(200, value.clone())
        } else if at == "/v1/chat/completions" {
            Reply::stream(fixture("chat_text.sse"))
        } else {
            Reply::json(404, json!({}))
        }
    })
    .await
}

async fn window(server: &Server, name: &str) -> (Option<u64>, Option<u64>, bool) {
    let model = local(&[server]).resolve(name, &Access::default()).await.unwrap();
    (model.facts().context_length, model.facts().output_limit, model.is_assumed())
}

#[tokio::test]
async fn one_server_gives_plain_names_and_is_asked_once_in_thirty_seconds() {
    let server = serving(&["qwen:8b", "llama"], "/", json!({})).await;
    let driver = local(&[&server]);
    let default = driver.default_model(&Access::default()).await.unwrap().unwrap();
    assert_eq!(default.id, ModelId::parse("local/qwen:8b").unwrap());
    assert_eq!(default.reason, format!("a model server answers on 127.0.0.1:{}", server.port));
    driver.default_model(&Access::default()).await.unwrap();
    let asked = server.seen().iter().filter(|seen| seen.line.starts_with("GET /v1/models")).count();
    assert_eq!(asked, 1);
    let listed = driver.list_models(&Access::default()).await.unwrap();
    let ids: Vec<String> = listed.iter().map(|model| model.id.to_string()).collect();
    assert_eq!(ids, ["local/qwen:8b", "local/llama"]);
}

#[tokio::test]
async fn several_servers_give_names_with_ports_and_both_forms_are_understood() {
    let (one, two) = (serving(&["a"], "/", json!({})).await, serving(&["b"], "/", json!({})).await);
    let driver = local(&[&one, &two]);
    let listed = driver.list_models(&Access::default()).await.unwrap();
    let ids: Vec<String> = listed.iter().map(|model| model.id.to_string()).collect();
    assert_eq!(ids, [format!("local/{}/a", one.port), format!("local/{}/b", two.port)]);
    for name in [format!("{}/b", two.port), "b".to_owned()] {
        let model = driver.resolve(&name, &Access::default()).await.unwrap();
        assert_eq!(model.facts().id.to_string(), format!("local/{name}"));
        collect(model.stream(&request(vec![user("hi")])).await.unwrap()).await;
        let seen = two.seen().pop().unwrap();
        assert_eq!(
            (seen.line.as_str(), &seen.json()["model"]),
            ("POST /v1/chat/completions HTTP/1.1", &json!("b"))
        );
        assert!(!seen.head.contains("authorization"));
    }
}

#[tokio::test]
async fn each_kind_of_server_is_asked_for_the_window_where_it_tells_it() {
    let show =
        json!({"model_info": {"llama.context_length": 131_072}, "parameters": "stop \"x\"\nnum_ctx 8192"});
    let server = serving(&["m"], "/api/show", show).await;
    assert_eq!(window(&server, "m").await, (Some(8_192), Some(2_048), false));
    assert_eq!(
        server.seen().iter().find(|seen| seen.line.contains("/api/show")).unwrap().json(),
        json!({"model": "m"})
    );
    let server = serving(&["m"], "/api/show", json!({"model_info": {"llama.context_length": 131_072}})).await;
    assert_eq!(window(&server, "m").await, (Some(131_072), Some(16_384), false));
    let server = serving(&["m"], "/props", json!({"default_generation_settings": {"n_ctx": 4_096}})).await;
    assert_eq!(window(&server, "m").await, (Some(4_096), Some(1_024), false));
    let server = serving(&["m"], "/api/v0/models/m", json!({"max_context_length": 65_536})).await;
    assert_eq!(window(&server, "m").await, (Some(65_536), Some(16_384), false));
    let server =
        Server::start(|_| Reply::json(200, json!({"data": [{"id": "m", "max_model_len": 40_960}]}))).await;
    assert_eq!(window(&server, "m").await, (Some(40_960), Some(10_240), false));
}

#[tokio::test]
async fn a_server_that_does_not_tell_has_the_documented_window() {
    let server = serving(&["m"], "/", json!({})).await;
    assert_eq!(window(&server, "m").await, (Some(32_768), Some(8_192), true));
}

#[tokio::test]
async fn what_is_no_model_server_is_passed_over_and_nothing_found_is_a_sentence() {
    let page = Server::start(|_| Reply {
        headers: vec![("content-type", "text/html".into())],
        ..Reply::stream("<html>")
    })
    .await;
    let silent = Server::start(|_| Reply::json(200, json!({})).end(End::Silent)).await;
    let driver = local(&[&page, &silent]);
    assert_eq!(driver.default_model(&Access::default()).await, Ok(None));
    let Err(DriverError::Unavailable { message }) = driver.resolve("m", &Access::default()).await else {
        panic!("resolved without a server")
    };
    let ports = format!("(ports {}, {})", page.port, silent.port);
    assert!(message.contains(&ports) && message.contains("start one"), "{message}");
    assert!(!driver.needs_key(None));
}
