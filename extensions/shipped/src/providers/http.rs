//! Owns the one HTTP client of the drivers: built at the first request, no redirects, no proxy for loopback.
//! Never logs a body, an address or a key. Its connections live on the runtime that makes the requests.
//! Tested in `tests/it/providers.rs`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gent_extension_api::{FailureKind, ProviderFailure};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, redirect};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::peer::Peer;
use super::{StreamIdle, failure};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the body of a refusal may take, and how much of it is read.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);
const REFUSAL_BYTES: usize = 64 * 1024;
/// The most bytes of a list of models.
const LIST_BYTES: usize = 8 * 1024 * 1024;
/// What is left of a finished answer is read so that its connection can serve the next request: at most this much,
/// this long, and this many at once. Beyond it the connection is closed, which costs a new one and nothing else.
const DRAIN_BYTES: usize = 64 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_DRAINS: usize = 64;

/// Headers of a request, the secret ones marked as such.
pub(super) type Headers = Vec<(HeaderName, String)>;

/// The client.
pub(super) struct Http {
    /// How long a request or its answer may bring nothing.
    pub idle: StreamIdle,
    /// For plain loopback addresses: no proxy, no certificates.
    loopback: Mutex<Option<Client>>,
    /// For loopback addresses behind TLS: no proxy.
    secure_loopback: Mutex<Option<Client>>,
    remote: Mutex<Option<Client>>,
    drains: Mutex<JoinSet<()>>,
}

impl Http {
    /// A client that gives up on an answer after `idle` without data. Builds nothing yet: that costs milliseconds
    /// of CPU which a server that never asks a model should not pay.
    pub(super) fn new(idle: impl Into<StreamIdle>) -> Self {
        Self {
            idle: idle.into(),
            loopback: Mutex::new(None),
            secure_loopback: Mutex::new(None),
            remote: Mutex::new(None),
            drains: Mutex::new(JoinSet::new()),
        }
    }

    /// Posts `body` with its length and returns the answer's head, once it is a success.
    pub(super) async fn post(
        &self,
        peer: &Peer,
        path: &str,
        headers: &Headers,
        body: Bytes,
    ) -> Result<Response, ProviderFailure> {
        let request = self
            .client(peer)?
            .post(format!("{}{path}", peer.base))
            .headers(header_map(peer, headers)?)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response = match timeout(self.idle.now(), request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failure::unreachable(peer, &failure::cause_of(&error))),
            Err(_elapsed) => return Err(failure::broken(peer, "did not begin in time; try again")),
        };
        if response.status().as_u16() != 200 {
            return Err(refusal(peer, response).await);
        }
        if is_content(&response, "text/html") {
            return Err(ProviderFailure::new(
                FailureKind::Refused,
                format!(
                    "{} answered with a web page instead of a model's answer; check {}",
                    peer.label(),
                    peer.spec.endpoint_variable.unwrap_or("the address")
                ),
            ));
        }
        Ok(response)
    }

    /// Gets a JSON document within `limit`.
    pub(super) async fn get_json(
        &self,
        peer: &Peer,
        path: &str,
        headers: &Headers,
        limit: Duration,
    ) -> Result<Value, ProviderFailure> {
        let request =
            self.client(peer)?.get(format!("{}{path}", peer.base)).headers(header_map(peer, headers)?);
        self.json(peer, request, limit).await
    }

    /// Posts a small JSON document and gets one within `limit`.
    pub(super) async fn post_for_json(
        &self,
        peer: &Peer,
        path: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<Value, ProviderFailure> {
        let request = self
            .client(peer)?
            .post(format!("{}{path}", peer.base))
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        self.json(peer, request, limit).await
    }

    async fn json(
        &self,
        peer: &Peer,
        request: reqwest::RequestBuilder,
        limit: Duration,
    ) -> Result<Value, ProviderFailure> {
        let work = async {
            let response = match request.send().await {
                Ok(response) => response,
                Err(error) => return Err(failure::unreachable(peer, &failure::cause_of(&error))),
            };
            if response.status().as_u16() != 200 {
                return Err(refusal(peer, response).await);
            }
            let body = read_bounded(response, LIST_BYTES).await;
            serde_json::from_slice(&body)
                .map_err(|error| failure::broken(peer, &format!("is not JSON ({error}); check the address")))
        };
        match timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(failure::unreachable(peer, "no answer in time")),
        }
    }

    /// Reads what is left of a finished answer, so that its connection is kept.
    pub(super) fn drain(&self, response: Response) {
        let mut drains = self.drains.lock().unwrap_or_else(PoisonError::into_inner);
        while drains.try_join_next().is_some() {}
        if drains.len() < MAX_DRAINS {
            drains.spawn(async move {
                // Out of time, the response is dropped and with it the connection: that is all that is lost.
                drop(timeout(DRAIN_TIMEOUT, read_bounded(response, DRAIN_BYTES)).await);
            });
        }
    }

    fn client(&self, peer: &Peer) -> Result<Client, ProviderFailure> {
        let slot = match (peer.is_loopback, peer.is_https) {
            (true, false) => &self.loopback,
            (true, true) => &self.secure_loopback,
            (false, _) => &self.remote,
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = slot.as_ref() {
            return Ok(client.clone());
        }
        let client = build(peer).map_err(|error| {
            ProviderFailure::new(
                FailureKind::Refused,
                format!(
                    "cannot set up connections ({}); check that the system's certificates are installed",
                    failure::cause_of(&error)
                ),
            )
        })?;
        *slot = Some(client.clone());
        Ok(client)
    }
}

fn build(peer: &Peer) -> Result<Client, reqwest::Error> {
    if rustls::crypto::CryptoProvider::get_default().is_none()
        && rustls::crypto::ring::default_provider().install_default().is_err()
    {
        // Somebody else installed one between the two calls: theirs serves as well.
        tracing::debug!("crypto_provider.present");
    }
    let mut builder = Client::builder()
        .user_agent(concat!("gent/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Duration::from_secs(30))
        // A redirect would carry the key to a host it was not given for.
        .redirect(redirect::Policy::none());
    if peer.is_loopback {
        builder = builder.no_proxy();
        if !peer.is_https {
            builder = builder.tls_certs_only([]);
        }
    }
    builder.build()
}

fn header_map(peer: &Peer, headers: &Headers) -> Result<HeaderMap, ProviderFailure> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let Ok(mut value) = HeaderValue::from_str(value) else {
            return Err(ProviderFailure::new(
                FailureKind::Auth,
                format!(
                    "the key for {} holds characters that no key has; set {} again",
                    peer.label(),
                    peer.spec.key_variable.unwrap_or("it")
                ),
            ));
        };
        value.set_sensitive(true);
        map.insert(name, value);
    }
    Ok(map)
}

/// Whether the answer's content type begins with `kind`.
pub(super) fn is_content(response: &Response, kind: &str) -> bool {
    response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with(kind))
}

async fn refusal(peer: &Peer, response: Response) -> ProviderFailure {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    // A refusal without its words is still one.
    let body = timeout(REFUSAL_TIMEOUT, read_bounded(response, REFUSAL_BYTES)).await.unwrap_or_default();
    failure::of_status(peer, status, &headers, &body)
}

/// The body up to `max` bytes, or what arrived of it.
async fn read_bounded(mut response: Response, max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() >= max {
            body.truncate(max);
            break;
        }
    }
    body
}

/// A client behind a shared pointer.
pub(super) type SharedHttp = Arc<Http>;
