//! How a connection is made ready: workspace, provider keys, and what is tried again.

use std::collections::VecDeque;

use futures_util::{SinkExt, StreamExt};
use gent_client::{Attached, Cause, Connector, LinkError, ServerUrl};
use gent_protocol::{Identity, PROTOCOL, Secret, Status, WorkspaceId};
use gent_tui::{ServerConnector, ServerStarter, provider_credentials};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

/// Names the servers of a list, then none.
struct Listed(VecDeque<ServerUrl>);

impl ServerStarter for Listed {
    async fn ensure(&mut self) -> Result<Attached, Cause> {
        let url = self.0.pop_front().ok_or("no server could be started")?;
        let identity =
            Identity { protocol: PROTOCOL, build: "b".into(), proof: "p".into(), pid: None, data_dir: None };
        Ok(Attached { url, token: Secret::new("secret"), identity, pid: None })
    }
}

fn connector(urls: &[ServerUrl], variables: &[(&str, &str)]) -> ServerConnector<Listed> {
    let workspace = WorkspaceId::parse("a".repeat(64)).unwrap();
    let credentials = provider_credentials(variables.iter().copied());
    ServerConnector::new(Listed(urls.iter().cloned().collect()), workspace, credentials)
}

/// A server that answers each call of one connection with `{}` fields and tells what it was asked.
async fn serve() -> (ServerUrl, tokio::task::JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = ServerUrl::new("127.0.0.1", listener.local_addr().unwrap().port());
    let asked = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let mut asked = Vec::new();
        while let Some(Ok(Message::Text(text))) = socket.next().await {
            let frame: Value = serde_json::from_str(&text).unwrap();
            let result = json!({ "accepted": [], "ignored": [] });
            let answer = json!({ "jsonrpc": "2.0", "id": frame["id"], "result": result });
            socket.send(Message::text(answer.to_string())).await.unwrap();
            asked.push(frame);
        }
        asked
    });
    (url, asked)
}

#[tokio::test]
async fn keys_are_offered_for_the_workspace_before_anything_else() {
    let (url, asked) = serve().await;
    let mut connector = connector(&[url], &[("OPENAI_API_KEY", "sk-1"), ("HOME", "/h")]);
    let client = connector.connect().await.unwrap();
    // The answer does not fit, which is of no importance here: the call was made after the offer.
    assert!(client.call(Status {}).await.is_err());
    drop(client);
    let asked = asked.await.unwrap();
    let methods: Vec<&Value> = asked.iter().map(|frame| &frame["method"]).collect();
    assert_eq!(methods, ["auth.offer", "server.status"]);
    assert_eq!(asked[0]["params"], json!({ "variables": { "OPENAI_API_KEY": "sk-1" } }));
    assert_eq!(asked[0]["meta"]["workspace"], "a".repeat(64));
}

#[tokio::test]
async fn without_keys_nothing_is_offered() {
    let (url, asked) = serve().await;
    drop(connector(&[url], &[]).connect().await.unwrap());
    assert_eq!(asked.await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_final_at_first_and_waited_for_once_it_was_there() {
    let error = connector(&[], &[]).connect().await.unwrap_err();
    assert!(matches!(&error, LinkError::Refused(_)), "{error:?}");
    assert_eq!(error.to_string(), "no server could be started");
    let (url, _asked) = serve().await;
    let mut connector = connector(&[url], &[]);
    drop(connector.connect().await.unwrap());
    let error = connector.connect().await.unwrap_err();
    assert!(matches!(error, LinkError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_that_went_away_between_its_proof_and_the_socket_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = ServerUrl::new("127.0.0.1", listener.local_addr().unwrap().port());
    drop(listener);
    let error = connector(&[url], &[]).connect().await.unwrap_err();
    assert!(matches!(error, LinkError::Unreachable(_)), "{error:?}");
}
