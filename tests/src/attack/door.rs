//! Owns the attacks before the upgrade: who may not come in, and who stays in the door.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Gent, RawSocket, within};

async fn status(gent: &Gent, headers: &[(&str, &str)]) -> Result<u16> {
    Ok(RawSocket::upgrade(gent, headers).await?.err().unwrap_or(101))
}

/// No token, a wrong one, one of an earlier start, odd forms: all 401.
pub(crate) async fn wrong_tokens(gent: &Gent) -> Result<Value> {
    let old = std::fs::read_to_string(gent.place().root().join("old-token"))?;
    let right = gent.token()?.expose().to_owned();
    let long = "x".repeat(3000);
    let odd = [
        String::new(),
        "Bearer ".to_owned(),
        "Bearer wrong".to_owned(),
        format!("Bearer {old}"),
        format!("Bearer {right} "),
        format!("bearer{right}"),
        format!("Basic {right}"),
        format!("Bearer {long}"),
    ];
    let mut statuses = vec![status(gent, &[]).await?];
    for value in odd.iter().filter(|value| value.trim() != format!("Bearer {right}")) {
        statuses.push(status(gent, &[("Authorization", value)]).await?);
    }
    let holds = statuses.iter().all(|status| *status == 401);
    Ok(json!({ "statuses": statuses, "expected": 401, "holds": holds }))
}

/// Origins and hosts that are not ours: all 403, also with the right token.
pub(crate) async fn foreign_places(gent: &Gent) -> Result<Value> {
    let right = format!("Bearer {}", gent.token()?.expose());
    let origins = [
        "null",
        "http://evil.example",
        "http://localhost.evil.example",
        "http://localhost:80@evil.example",
        "file://",
        "https://127.0.0.1.evil.example",
    ];
    let hosts = [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1:1",
        "169.254.169.254",
    ];
    let mut statuses = Vec::new();
    for origin in origins {
        statuses.push(status(gent, &[("Authorization", &right), ("Origin", origin)]).await?);
    }
    for host in hosts {
        statuses.push(status(gent, &[("Authorization", &right), ("Host", host)]).await?);
    }
    let holds = statuses.iter().all(|status| *status == 403);
    Ok(json!({ "statuses": statuses, "expected": 403, "holds": holds }))
}

/// 300 sockets that send half a request and nothing more: every one is closed by the server.
pub(crate) async fn half_open(gent: &Gent) -> Result<Value> {
    let mut sockets = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect((gent.url.host(), gent.url.port())).await?;
        let half = format!("GET /rpc HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\n", gent.url.authority());
        // The server may have closed it already.
        let _closed = stream.write_all(half.as_bytes()).await.is_err();
        sockets.push(stream);
    }
    let mut closed = 0;
    within("the server to close half-open sockets", async {
        for stream in &mut sockets {
            let mut bytes = Vec::new();
            // An error is a reset: closed as well.
            let _reset = stream.read_to_end(&mut bytes).await.is_err();
            closed += 1;
        }
        Ok(())
    })
    .await?;
    Ok(json!({ "sockets": 300, "closed": closed, "holds": closed == 300 }))
}
