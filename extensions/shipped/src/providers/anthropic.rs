//! Owns the `anthropic` driver: the Messages interface, at Anthropic or at the server `ANTHROPIC_BASE_URL` names.
//! Never changes a thought that carries a signature. Tested in `anthropic/body_tests.rs` and `tests/it/providers_anthropic.rs`.

mod decode;
mod encode;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::protocol::{Model, ProviderId};
use gent_extension_api::{
    Access, CredentialSpec, DefaultModel, DriverError, FailureKind, LanguageModel, ModelDriver, ModelRequest,
    ModelStream, ProviderFailure, ToolChoice,
};
use reqwest::header::HeaderName;

use super::answer::read_answer;
use super::catalog::{ANTHROPIC_DEFAULT, facts};
use super::failure;
use super::fragments::{FragmentCache, HeadCache};
use super::http::{Headers, SharedHttp};
use super::openai::{
    DEFAULT_TIMEOUT, LIST_TIMEOUT, first_listed, listed_names, missing_key, own_default, unusable_name,
};
use super::peer::{Peer, PeerSpec, is_own_endpoint};
use super::provider_id;

use decode::MessagesDecoder;
use encode::{MARKER, MessagesStyle};

const ID: &str = "anthropic";
const VERSION: &str = "2023-06-01";
/// The most bytes of images in one request, encoded: the interface refuses bodies of 32 MB.
const IMAGE_BUDGET: usize = 24 * 1024 * 1024;

const SPEC: PeerSpec = PeerSpec {
    name: "Anthropic",
    own_host: Some("api.anthropic.com"),
    own_base: "https://api.anthropic.com",
    key_variable: Some("ANTHROPIC_API_KEY"),
    endpoint_variable: Some("ANTHROPIC_BASE_URL"),
};

/// The driver.
pub(super) struct AnthropicDriver {
    http: SharedHttp,
}

impl AnthropicDriver {
    /// A driver that sends through `http`.
    pub(super) fn new(http: SharedHttp) -> Self {
        Self { http }
    }

    async fn names(&self, peer: &Peer, limit: Duration) -> Result<Vec<String>, ProviderFailure> {
        let list = self.http.get_json(peer, "/v1/models?limit=1000", &headers(peer), limit).await?;
        Ok(listed_names(&list))
    }
}

fn headers(peer: &Peer) -> Headers {
    let mut headers = vec![(HeaderName::from_static("anthropic-version"), VERSION.to_owned())];
    if let Some(key) = &peer.key {
        headers.push((HeaderName::from_static("x-api-key"), key.expose().to_owned()));
    }
    headers
}

impl ModelDriver for AnthropicDriver {
    fn id(&self) -> ProviderId {
        provider_id(ID)
    }

    fn name(&self) -> &str {
        SPEC.name
    }

    fn credentials(&self) -> CredentialSpec {
        CredentialSpec { key_variable: SPEC.key_variable, endpoint_variable: SPEC.endpoint_variable }
    }

    fn needs_key(&self, endpoint: Option<&str>) -> bool {
        is_own_endpoint(SPEC, endpoint)
    }

    fn default_model<'a>(
        &'a self,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Option<DefaultModel>, DriverError>> {
        async move {
            // An address alone does not choose this driver: the search goes by the key.
            if access.key.is_none() {
                return match access.endpoint {
                    None => Ok(None),
                    Some(_) => Err(DriverError::Unavailable {
                        message: "ANTHROPIC_BASE_URL is set, but without ANTHROPIC_API_KEY no model is chosen there"
                            .to_owned(),
                    }),
                };
            }
            let peer = Peer::new(SPEC, access)?;
            if peer.is_own {
                return Ok(own_default(&peer, ANTHROPIC_DEFAULT, &self.id()));
            }
            first_listed(&peer, self.names(&peer, DEFAULT_TIMEOUT).await, &self.id()).map(Some)
        }
        .boxed()
    }

    fn list_models<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<Vec<Model>, DriverError>> {
        async move {
            let peer = Peer::new(SPEC, access)?;
            if let Some(error) = missing_key(&peer) {
                return Err(error);
            }
            let names = self.names(&peer, LIST_TIMEOUT).await.map_err(failure::for_driver)?;
            let models = names.iter().filter_map(|name| facts(ID, name, peer.is_own).ok());
            Ok(models.map(|(model, _)| model).collect())
        }
        .boxed()
    }

    fn resolve<'a>(
        &'a self,
        name: &'a str,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn LanguageModel>, DriverError>> {
        async move {
            let peer = Peer::new(SPEC, access)?;
            if let Some(error) = missing_key(&peer) {
                return Err(error);
            }
            let (facts, is_assumed) = facts(ID, name, peer.is_own).map_err(|error| unusable_name(&error))?;
            let model = MessagesModel {
                facts,
                is_assumed,
                http: Arc::clone(&self.http),
                headers: headers(&peer),
                peer,
                style: MessagesStyle::new(name),
                has_bad_thoughts: AtomicBool::new(false),
                heads: HeadCache::default(),
                fragments: FragmentCache::default(),
            };
            Ok(Arc::new(model) as Arc<dyn LanguageModel>)
        }
        .boxed()
    }
}

struct MessagesModel {
    facts: Model,
    is_assumed: bool,
    http: SharedHttp,
    peer: Peer,
    headers: Headers,
    style: MessagesStyle,
    /// The server refused a signed thought: none is sent from here on.
    has_bad_thoughts: AtomicBool,
    heads: HeadCache<()>,
    fragments: FragmentCache,
}

impl MessagesModel {
    /// The body of `request`, the messages last.
    ///
    /// The moving cache marker is the last field of the last block of the last message. Markers do not count for
    /// what the provider compares, and in this place the one of the request before stands within the last 64
    /// bytes of its body: all earlier bytes are the same in the next one.
    fn body(&self, request: &ModelRequest) -> Bytes {
        let head = self.heads.head(request, (), || self.style.head(request));
        let notice = request.notice.as_deref().map(encode::host_status);
        let with_thoughts = !self.has_bad_thoughts.load(Ordering::Acquire);
        self.fragments.assemble(
            &request.messages,
            IMAGE_BUDGET,
            |message, images| self.style.message(message, images, with_thoughts),
            |fragments| {
                let mut body = Vec::with_capacity(head.len() + 64 * 1024);
                body.extend_from_slice(&head);
                let mut open: Option<bool> = None;
                let mut mark_at = None;
                for fragment in fragments {
                    encode::open_message(&mut body, &mut open, fragment.is_assistant);
                    if let Some(at) = fragment.mark_at {
                        mark_at = Some(body.len() + at);
                    }
                    body.extend_from_slice(&fragment.bytes);
                }
                if let (Some(at), Some(_key)) = (mark_at, &request.cache_key) {
                    let tail = body.split_off(at.min(body.len()));
                    body.extend_from_slice(MARKER.as_bytes());
                    body.extend_from_slice(&tail);
                }
                if let Some(notice) = &notice {
                    encode::open_message(&mut body, &mut open, false);
                    body.extend_from_slice(notice);
                }
                body.extend_from_slice(if open.is_some() { b"]}]" } else { b"]" });
                if request.tool_choice == ToolChoice::None && !request.tools.is_empty() {
                    body.extend_from_slice(br#","tool_choice":{"type":"none"}"#);
                }
                body.extend_from_slice(b"}");
                Bytes::from(body)
            },
        )
    }
}

impl LanguageModel for MessagesModel {
    fn facts(&self) -> &Model {
        &self.facts
    }

    fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
    ) -> BoxFuture<'a, Result<ModelStream, ProviderFailure>> {
        async move {
            loop {
                match self.http.post(&self.peer, "/v1/messages", &self.headers, self.body(request)).await {
                    Ok(response) => {
                        let decoder = MessagesDecoder::new(self.peer.clone(), self.style.model());
                        return Ok(read_answer(Arc::clone(&self.http), self.peer.clone(), response, decoder));
                    }
                    Err(failure)
                        if failure.kind == FailureKind::Refused
                            && encode::names_a_thought(&failure.message)
                            && !self.has_bad_thoughts.swap(true, Ordering::AcqRel) =>
                    {
                        // Without thoughts the conversation is poorer but goes on; with them it would be refused for ever.
                        tracing::warn!("model.thoughts_refused");
                        self.fragments.clear();
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
#[path = "anthropic/body_tests.rs"]
mod tests;
