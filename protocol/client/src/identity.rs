//! Owns the proof by which a server shows that it holds the token before the token is sent to it.
//! Never sends the token. Plain HTTP over one short connection: no HTTP library for one request.
//! Tested below.

use gent_protocol::{Identity, PROTOCOL, Secret};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::ServerUrl;
use crate::limits::{IDENTITY, IDENTITY_BYTES};

/// Why a server was not identified.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Nobody listens there.
    #[error("no server answers at {url}")]
    Refused {
        /// Where.
        url: ServerUrl,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It took the connection and did not answer within 3 s.
    #[error("the server at {url} did not say who it is within 3 s")]
    Late {
        /// Where.
        url: ServerUrl,
    },
    /// What answered is no gent server.
    #[error("what answers at {url} is no gent server: {detail}")]
    Foreign {
        /// Where.
        url: ServerUrl,
        /// What is wrong with the answer.
        detail: String,
    },
    /// It does not hold the token.
    #[error("the server at {url} does not hold the token of this data directory")]
    WrongProof {
        /// Where.
        url: ServerUrl,
    },
    /// It holds the token and speaks another major version.
    #[error("the server at {url} speaks protocol {major}, this client {ours}: use the program of the same version", ours = PROTOCOL.major)]
    OtherMajor {
        /// Where.
        url: ServerUrl,
        /// Its major version.
        major: u32,
        /// Its build.
        build: String,
    },
}

/// The proof of a token: lower-case hex of HMAC-SHA256(token, "gent.identity.1" 0 nonce 0 port), the port in decimal.
/// `port` is the listener's own for the server and the dialled one for a client, so a relay on another port fails.
pub fn identity_proof(token: &str, nonce: &str, port: u16) -> String {
    // Any length is a key for HMAC; the empty text stands for the failure that cannot happen and equals no proof.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(token.as_bytes()) else { return String::new() };
    mac.update(b"gent.identity.1\0");
    mac.update(nonce.as_bytes());
    mac.update(b"\0");
    mac.update(port.to_string().as_bytes());
    let digest = mac.finalize().into_bytes();
    let mut hex = String::with_capacity(64);
    for byte in digest {
        hex.push_str(&format!("{byte:02x}"));
    }
    hex
}

/// Asks who listens at `url` and checks its proof of `token` and its major version. `nonce` is 16 to 64 hex digits,
/// new for each call. Bounded by 3 s and 16 KiB; the token does not leave this process.
pub async fn prove(url: &ServerUrl, token: &Secret, nonce: &str) -> Result<Identity, IdentityError> {
    let identity = fetch_identity(url, nonce).await?;
    let expected = identity_proof(token.expose(), nonce, url.port());
    if expected.is_empty() || expected != identity.proof {
        return Err(IdentityError::WrongProof { url: url.clone() });
    }
    if identity.protocol.major != PROTOCOL.major {
        return Err(IdentityError::OtherMajor {
            url: url.clone(),
            major: identity.protocol.major,
            build: identity.build,
        });
    }
    Ok(identity)
}

/// Asks who listens at `url`, without checking anything.
pub async fn fetch_identity(url: &ServerUrl, nonce: &str) -> Result<Identity, IdentityError> {
    let answer = match timeout(IDENTITY, exchange(url, nonce)).await {
        Ok(answer) => answer?,
        Err(_elapsed) => return Err(IdentityError::Late { url: url.clone() }),
    };
    parse_answer(&answer).map_err(|detail| IdentityError::Foreign { url: url.clone(), detail })
}

async fn exchange(url: &ServerUrl, nonce: &str) -> Result<Vec<u8>, IdentityError> {
    let refused = |source| IdentityError::Refused { url: url.clone(), source };
    let mut stream = TcpStream::connect((url.host(), url.port())).await.map_err(refused)?;
    let request = format!(
        "GET /_gent/identity?nonce={nonce} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        url.authority()
    );
    stream.write_all(request.as_bytes()).await.map_err(refused)?;
    let mut answer = Vec::with_capacity(1024);
    loop {
        if is_complete(&answer) {
            return Ok(answer);
        }
        if answer.len() >= IDENTITY_BYTES {
            let detail = format!("its answer is longer than {IDENTITY_BYTES} bytes");
            return Err(IdentityError::Foreign { url: url.clone(), detail });
        }
        if stream.read_buf(&mut answer).await.map_err(refused)? == 0 {
            return Ok(answer);
        }
    }
}

/// Header text and the body so far.
fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    Some((head, answer.get(end + 4..)?))
}

fn content_length(head: &str) -> Option<usize> {
    head.lines().skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") { value.trim().parse().ok() } else { None }
    })
}

fn is_complete(answer: &[u8]) -> bool {
    split(answer).is_some_and(|(head, body)| content_length(head).is_some_and(|length| body.len() >= length))
}

fn parse_answer(answer: &[u8]) -> Result<Identity, String> {
    let Some((head, body)) = split(answer) else { return Err("it does not speak HTTP".to_owned()) };
    let status = head.lines().next().unwrap_or_default();
    let code = status.split(' ').nth(1).unwrap_or_default();
    if !status.starts_with("HTTP/1.") || code != "200" {
        return Err(format!("it answered with status {:?}", code.chars().take(3).collect::<String>()));
    }
    let body = match content_length(head) {
        Some(length) => body.get(..length).ok_or("its answer is cut")?,
        None => body,
    };
    serde_json::from_slice(body).map_err(|_unfit| "its answer is no identity".to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_proof_is_the_documented_one_and_depends_on_each_input() {
        let proof = identity_proof("secret", "00112233445566778899aabbccddeeff", 4711);
        assert_eq!(proof, "d7e4927966fa76f7697df7f40648b452dd2de7b2398aa33cbbcafe56f687c307");
        assert_ne!(proof, identity_proof("secret", "00112233445566778899aabbccddeeff", 4712));
        assert_ne!(proof, identity_proof("secret", "00112233445566778899aabbccddeefe", 4711));
        assert_ne!(proof, identity_proof("Secret", "00112233445566778899aabbccddeeff", 4711));
    }

    async fn answer_once(answer: impl FnOnce(u16) -> String + Send + 'static) -> ServerUrl {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let n_read = stream.read(&mut request).await.unwrap();
            assert!(!String::from_utf8_lossy(&request[..n_read]).contains("secret"));
            stream.write_all(answer(port).as_bytes()).await.unwrap();
        });
        ServerUrl::new("127.0.0.1", port)
    }

    fn http(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    const NONCE: &str = "0011223344556677";

    #[tokio::test]
    async fn a_server_that_holds_the_token_is_proved_for_the_port_that_was_dialled() {
        let url = answer_once(|port| {
            let proof = identity_proof("secret", NONCE, port);
            http(&format!(r#"{{"protocol":{{"major":1,"minor":9}},"build":"b","proof":"{proof}"}}"#))
        })
        .await;
        let identity = prove(&url, &Secret::new("secret"), NONCE).await.unwrap();
        assert_eq!(identity.build, "b");
    }

    #[tokio::test]
    async fn a_proof_relayed_from_another_port_is_wrong_i19() {
        let url = answer_once(|port| {
            let proof = identity_proof("secret", NONCE, port.wrapping_add(1));
            http(&format!(r#"{{"protocol":{{"major":1,"minor":0}},"build":"b","proof":"{proof}"}}"#))
        })
        .await;
        let error = prove(&url, &Secret::new("secret"), NONCE).await.unwrap_err();
        assert!(matches!(error, IdentityError::WrongProof { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn another_major_version_is_named_only_after_the_proof() {
        let url = answer_once(|port| {
            let proof = identity_proof("secret", NONCE, port);
            http(&format!(r#"{{"protocol":{{"major":2,"minor":0}},"build":"b","proof":"{proof}"}}"#))
        })
        .await;
        let error = prove(&url, &Secret::new("secret"), NONCE).await.unwrap_err();
        assert!(matches!(error, IdentityError::OtherMajor { major: 2, .. }), "{error:?}");
        let url =
            answer_once(|_| http(r#"{"protocol":{"major":2,"minor":0},"build":"b","proof":"x"}"#)).await;
        let error = prove(&url, &Secret::new("secret"), NONCE).await.unwrap_err();
        assert!(matches!(error, IdentityError::WrongProof { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn what_is_no_gent_server_is_called_so_and_an_endless_answer_is_cut_off() {
        for answer in [http("{}"), "SSH-2.0-x\r\n".to_owned(), "HTTP/1.1 404 Not Found\r\n\r\n".to_owned()] {
            let url = answer_once(move |_| answer).await;
            let error = prove(&url, &Secret::new("secret"), NONCE).await.unwrap_err();
            assert!(matches!(error, IdentityError::Foreign { .. }), "{error:?}");
        }
        let url = answer_once(|_| "x".repeat(IDENTITY_BYTES + 1)).await;
        let error = prove(&url, &Secret::new("secret"), NONCE).await.unwrap_err();
        assert!(matches!(error, IdentityError::Foreign { .. }), "{error:?}");
    }
}
