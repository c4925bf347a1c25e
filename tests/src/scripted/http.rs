//! Owns the few lines of HTTP/1.1 that a model server needs: one request after the other on a connection, bodies
//! by length or in chunks, answers in chunks. Never TLS, never anything but loopback.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The longest body that is taken.
const MAX_BODY: usize = 64 << 20;

/// One request.
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// One connection.
pub(crate) struct HttpConnection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    pub(crate) peer_port: u16,
}

impl HttpConnection {
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        let peer_port = stream.peer_addr()?.port();
        let (reader, writer) = stream.into_split();
        Ok(Self { reader: BufReader::with_capacity(64 << 10, reader), writer, peer_port })
    }

    async fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        Ok(Some(line.trim_end().to_owned()))
    }

    /// The next request; none when the client is gone.
    pub(crate) async fn request(&mut self) -> Result<Option<HttpRequest>> {
        let Some(first) = self.line().await? else { return Ok(None) };
        let mut words = first.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let path = words.next().context("a request line without a path")?.to_owned();
        let mut headers = HashMap::new();
        loop {
            let line = self.line().await?.context("the head was cut")?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("a header without a colon")?;
            headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
        let body = self.body(&headers).await?;
        Ok(Some(HttpRequest { method, path, headers, body }))
    }

    async fn body(&mut self, headers: &HashMap<String, String>) -> Result<Vec<u8>> {
        if headers.get("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            return self.chunked().await;
        }
        let length: usize =
            headers.get("content-length").map(|value| value.parse()).transpose()?.unwrap_or(0);
        self.exactly(length).await
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        if length > MAX_BODY {
            bail!("a body of {length} bytes");
        }
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    async fn chunked(&mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let size = self.line().await?.context("the body was cut")?;
            let size = usize::from_str_radix(size.trim(), 16)?;
            let chunk = self.exactly(size).await?;
            self.line().await?;
            if size == 0 {
                return Ok(all);
            }
            all.extend_from_slice(&chunk);
        }
    }

    /// Sends a whole JSON answer.
    pub(crate) async fn json(
        &mut self,
        status: u16,
        body: &Value,
        headers: &[(String, String)],
    ) -> Result<()> {
        let body = body.to_string();
        let mut head = format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.writer.write_all((head + "\r\n" + &body).as_bytes()).await?;
        Ok(())
    }

    /// Begins a stream of events.
    pub(crate) async fn begin_stream(&mut self) -> Result<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        self.writer.write_all(head.as_bytes()).await?;
        Ok(())
    }

    /// Sends a part of the stream.
    pub(crate) async fn chunk(&mut self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.writer.write_all(chunk_of(text).as_bytes()).await?;
        Ok(())
    }

    /// Sends the last part of the stream and its end in one write.
    pub(crate) async fn last_chunk(&mut self, text: &str) -> Result<()> {
        let frame = if text.is_empty() { String::new() } else { chunk_of(text) };
        self.writer.write_all((frame + "0\r\n\r\n").as_bytes()).await?;
        Ok(())
    }
}

fn chunk_of(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
