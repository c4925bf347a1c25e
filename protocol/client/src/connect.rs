//! Owns the way from an address and a token to an open connection.
//! Never checks who listens: prove the server first. Tested in `protocol/client/tests/it`.

use gent_protocol::Secret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::limits::{CONNECT, INCOMING_BYTES, READ_BUFFER};
use crate::{Client, ConnectError, ServerUrl};

/// Connects and upgrades within 5 s. The token goes over the wire: prove the server before.
pub async fn connect(url: &ServerUrl, token: &Secret) -> Result<Client, ConnectError> {
    let attempt = async {
        let refused = |source| ConnectError::Refused { url: url.clone(), source };
        let stream = TcpStream::connect((url.host(), url.port())).await.map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        upgrade(stream, url, token).await
    };
    timeout(CONNECT, attempt).await.unwrap_or_else(|_elapsed| Err(ConnectError::Late { url: url.clone() }))
}

/// Upgrades a stream of bytes that somebody else has opened, within 5 s.
pub async fn connect_over<S>(stream: S, url: &ServerUrl, token: &Secret) -> Result<Client, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    timeout(CONNECT, upgrade(stream, url, token))
        .await
        .unwrap_or_else(|_elapsed| Err(ConnectError::Late { url: url.clone() }))
}

async fn upgrade<S>(stream: S, url: &ServerUrl, token: &Secret) -> Result<Client, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = |detail: String| ConnectError::Handshake { url: url.clone(), detail };
    let address = url.socket().parse().map_err(|_unfit| handshake("its address is malformed".to_owned()))?;
    let request =
        ClientRequestBuilder::new(address).with_header("Authorization", format!("Bearer {}", token.expose()));
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(INCOMING_BYTES))
        .max_frame_size(Some(INCOMING_BYTES));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _response)) => Ok(Client::over(socket)),
        Err(SocketError::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            let detail: String = String::from_utf8_lossy(body).chars().take(500).collect();
            Err(match response.status().as_u16() {
                401 => ConnectError::Unauthorized { url: url.clone() },
                403 => ConnectError::Forbidden { url: url.clone(), detail },
                status => handshake(format!("it answered with status {status}: {detail}")),
            })
        }
        Err(SocketError::Io(source)) => Err(ConnectError::Refused { url: url.clone(), source }),
        Err(other) => Err(handshake(other.to_string())),
    }
}
