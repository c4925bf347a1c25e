//! Where a prompt goes: a new session, a named one, the newest of the directory.

use gent_protocol::{AgentName, ModelId, SessionId};
use gent_tui::{Grant, OutputFormat, SessionChoice};
use serde_json::json;

use crate::scene::{Peer, begin, request, snapshot};

async fn finish(mut peer: Peer) {
    peer.prompt_received().await;
    peer.completed(json!({})).await;
}

#[tokio::test]
async fn a_new_session_gets_name_directory_agent_model_leave_and_environment_once() {
    let mut request = request(OutputFormat::Json);
    request.session = SessionChoice::New { agent: Some(AgentName::parse("main").unwrap()) };
    request.model = Some(ModelId::parse("demo/demo").unwrap());
    request.grant = Grant::Session;
    request.env.insert("TZ".into(), "UTC".into());
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    let create = peer.expect("session.create").await;
    assert_eq!(
        create["params"],
        json!({
            "name": "Hello there", "cwd": "/w", "admission": { "agent": "main" }, "modelId": "demo/demo",
            "approval": "approve", "env": { "TZ": "UTC" }, "requestId": "create",
        })
    );
    peer.answer(&create, json!({ "sessionId": "s", "branchId": "b", "name": "n" })).await;
    assert_eq!(peer.follow().await, json!({ "sessionId": "s", "branchId": "b", "after": 0 }));
    let send = peer.expect("message.send").await;
    peer.tell_model().await;
    let expected = json!({
        "sessionId": "s", "branchId": "b", "content": "Hello there\nfriend", "requestId": "r",
    });
    assert_eq!(send["params"], expected);
    finish(peer).await;
    assert_eq!(scene.end().await.0.exit_code, 0);
}

#[tokio::test]
async fn an_older_session_is_followed_from_where_it_stands_and_gets_leave_for_this_turn_alone() {
    let mut request = request(OutputFormat::Text);
    request.session = SessionChoice::Existing(SessionId::parse("s").unwrap());
    request.model = Some(ModelId::parse("demo/demo").unwrap());
    request.grant = Grant::Session;
    request.env.insert("TZ".into(), "UTC".into());
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    let get = peer.expect("session.get").await;
    peer.answer(&get, json!({ "id": "s", "activeBranchId": "b", "createdAt": 1, "updatedAt": 1 })).await;
    let update = peer.expect("session.updateSettings").await;
    assert_eq!(update["params"], json!({ "sessionId": "s", "modelId": "demo/demo" }));
    peer.answer(&update, json!({ "modelId": "demo/demo" })).await;
    let ask = peer.expect("session.getSnapshot").await;
    peer.answer(&ask, snapshot(41)).await;
    peer.last = 41;
    let follow = peer.follow().await;
    assert_eq!(follow, json!({ "sessionId": "s", "branchId": "b", "after": 41, "store": "st" }));
    let send = peer.expect("message.send").await;
    assert_eq!(send["params"]["approval"], "approve");
    assert_eq!(send["params"]["env"], json!({ "TZ": "UTC" }));
    finish(peer).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 0);
    assert_eq!(written.err(), ["· model demo/demo: it was asked for"]);
}

#[tokio::test]
async fn continue_takes_the_newest_session_that_no_other_one_made() {
    let mut request = request(OutputFormat::Json);
    request.session = SessionChoice::Newest;
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    let list = peer.expect("session.list").await;
    let child = json!({ "id": "child", "parentSessionId": "p", "createdAt": 1, "updatedAt": 9 });
    peer.answer(&list, json!({ "items": [child], "next": "more" })).await;
    let list = peer.expect("session.list").await;
    assert_eq!(list["params"]["cursor"], "more");
    let top = json!({ "id": "s", "createdAt": 1, "updatedAt": 1 });
    peer.answer(&list, json!({ "items": [top] })).await;
    let get = peer.expect("session.get").await;
    assert_eq!(get["params"]["sessionId"], "s");
    peer.answer(&get, json!(null)).await;
    let branches = peer.expect("branch.list").await;
    peer.refuse(&branches, "NotFoundError", json!({})).await;
    scene.end().await;
}

#[tokio::test]
async fn nothing_to_continue_is_one_sentence_with_the_hint_and_exit_one() {
    let mut request = request(OutputFormat::Text);
    request.session = SessionChoice::Newest;
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    let list = peer.expect("session.list").await;
    peer.answer(&list, json!({ "items": [] })).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 1);
    assert_eq!(written.err(), ["error: there is no session of /w to continue: start one without --continue"]);
}

#[tokio::test]
async fn a_session_of_another_directory_is_refused_with_the_server_s_own_sentence() {
    let mut request = request(OutputFormat::Json);
    request.session = SessionChoice::Existing(SessionId::parse("s").unwrap());
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    let get = peer.expect("session.get").await;
    peer.answer(&get, json!(null)).await;
    let branches = peer.expect("branch.list").await;
    assert_eq!(branches["params"]["sessionId"], "s");
    peer.refuse(&branches, "NotFoundError", json!({})).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 1);
    assert_eq!(outcome.result.error.unwrap().tag, "NotFoundError");
    assert!(written.out().contains(r#""outcome":"failed""#));
    assert_eq!(written.err(), ["error: refused as NotFoundError"]);
}
