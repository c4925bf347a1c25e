//! Owns a socket without manners: frames and headers as a test wants them, for what the client never does.
//! Never retries, never answers for the test.

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{self, ClientRequestBuilder, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{Gent, within};

/// An upgraded connection.
pub struct RawSocket {
    socket: WebSocketStream<TcpStream>,
}

impl RawSocket {
    /// Upgrades with the server's own token.
    pub async fn open(gent: &Gent) -> Result<Self> {
        let token = format!("Bearer {}", gent.token()?.expose());
        match Self::upgrade(gent, &[("Authorization", &token)]).await? {
            Ok(socket) => Ok(socket),
            Err(status) => bail!("the upgrade was refused with {status}"),
        }
    }

    /// Tries to upgrade with these headers alone; the status when it is refused.
    pub async fn upgrade(gent: &Gent, headers: &[(&str, &str)]) -> Result<Result<Self, u16>> {
        let stream = TcpStream::connect((gent.url.host(), gent.url.port())).await?;
        let host = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host.map_or_else(|| gent.url.authority(), |(_, value)| (*value).to_owned());
        let mut request = ClientRequestBuilder::new(format!("ws://{authority}/rpc").parse()?);
        for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host")) {
            request = request.with_header(*name, *value);
        }
        let upgraded = within("an upgrade", async { Ok(client_async(request, stream).await) }).await?;
        match upgraded {
            Ok((socket, _)) => Ok(Ok(Self { socket })),
            Err(tungstenite::Error::Http(response)) => Ok(Err(response.status().as_u16())),
            Err(other) => Err(other.into()),
        }
    }

    /// Sends a text message as it is.
    pub async fn send(&mut self, text: &str) -> Result<()> {
        Ok(self.socket.send(Message::text(text)).await?)
    }

    /// The next text message as JSON; a close is an error that names its code.
    pub async fn next(&mut self) -> Result<Value> {
        loop {
            match self.message().await? {
                Message::Text(text) => return Ok(serde_json::from_str(text.as_str())?),
                Message::Close(frame) => bail!("closed with {:?}", frame.map(|frame| u16::from(frame.code))),
                _ => {}
            }
        }
    }

    async fn message(&mut self) -> Result<Message> {
        within("a frame of the server", async {
            Ok(self.socket.next().await.context("the connection is gone")??)
        })
        .await
    }

    /// Reads on until the server closes, and returns its code; none when the connection just broke.
    pub async fn close_code(&mut self) -> Result<Option<u16>> {
        loop {
            match self.message().await {
                Ok(Message::Close(frame)) => return Ok(frame.map(|frame| frame.code.into())),
                Ok(_) => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Sends one request and returns its response.
    pub async fn call(&mut self, method: &str, params: Value, meta: Value) -> Result<Value> {
        self.send(
            &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params, "meta": meta })
                .to_string(),
        )
        .await?;
        self.next().await
    }

    /// The connection underneath, for bytes that are no frames at all.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.socket.get_mut()
    }
}
