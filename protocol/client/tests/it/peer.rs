//! Owns the other end of the socket: what the test says as the server.

use futures_util::{SinkExt, StreamExt};
use gent_client::{Client, ConnectError, ServerUrl, connect_over};
use gent_protocol::Secret;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// The server's end of one connection.
pub(crate) struct Peer {
    socket: WebSocketStream<DuplexStream>,
}

#[expect(clippy::result_large_err, reason = "the signature is the library's")]
pub(crate) fn check_token(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if token == Some("Bearer secret") {
        return Ok(response);
    }
    let mut refusal = ErrorResponse::new(Some("no".into()));
    *refusal.status_mut() = 401.try_into().unwrap();
    Err(refusal)
}

/// Connects a client with `token` to a peer that wants `secret`.
pub(crate) async fn connect_with(token: &str) -> Result<(Client, Peer), ConnectError> {
    // Small, so that a stream's backpressure reaches the peer after a few frames.
    let (near, far) = tokio::io::duplex(4096);
    let url = ServerUrl::new("127.0.0.1", 1);
    let token = Secret::new(token);
    let (client, socket) =
        tokio::join!(connect_over(near, &url, &token), tokio_tungstenite::accept_hdr_async(far, check_token));
    Ok((client?, Peer { socket: socket.unwrap() }))
}

pub(crate) async fn connected() -> (Client, Peer) {
    connect_with("secret").await.unwrap()
}

impl Peer {
    /// The next frame of the client.
    pub(crate) async fn receive(&mut self) -> Value {
        loop {
            match self.socket.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(_) => return json!("closed"),
                _ => {}
            }
        }
    }

    pub(crate) async fn say(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i32, tag: &str, fields: Value) {
        let mut data = fields;
        data["tag"] = json!(tag);
        let error = json!({ "code": code, "message": format!("no: {tag}"), "data": data });
        self.say(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    pub(crate) async fn items(&mut self, subscription: &str, items: Value) {
        let params = json!({ "subscription": subscription, "items": items });
        self.say(json!({ "jsonrpc": "2.0", "method": "stream.item", "params": params })).await;
    }

    pub(crate) async fn end(&mut self, subscription: &str, reason: &str) {
        let params = json!({ "subscription": subscription, "reason": reason });
        self.say(json!({ "jsonrpc": "2.0", "method": "stream.end", "params": params })).await;
    }

    pub(crate) async fn close(mut self, code: u16, reason: &'static str) {
        self.socket.close(Some(CloseFrame { code: code.into(), reason: reason.into() })).await.unwrap();
    }
}
