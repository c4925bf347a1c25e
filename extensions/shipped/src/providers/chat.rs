//! Owns a model behind the Chat Completions wire format, at OpenAI or at a server that speaks the same.
//! Never decides which server: `openai.rs` and `local.rs` do. Tested in `chat/body_tests.rs` and `tests/it/providers_chat.rs`.

mod calls;
mod decode;
mod encode;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::protocol::Model;
use gent_extension_api::{
    FailureKind, LanguageModel, ModelRequest, ModelStream, ProviderFailure, ToolChoice,
};
use reqwest::header::AUTHORIZATION;

use super::answer::read_answer;
use super::fragments::{FragmentCache, HeadCache};
use super::http::{Headers, SharedHttp};
use super::peer::Peer;

use decode::ChatDecoder;
use encode::ChatStyle;

/// How often one request is changed because the server refused a field of it.
const MAX_ADAPTATIONS: usize = 4;
/// How many servers' quirks are remembered.
const MAX_REMEMBERED: usize = 256;

/// The most bytes of images in one request, encoded: servers refuse bodies of 32 MB and more.
const IMAGE_BUDGET: usize = 24 * 1024 * 1024;

/// What becomes of the effort somebody asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Effort {
    /// It is sent.
    #[default]
    AsAsked,
    /// The server does not know the field.
    Omitted,
    /// The model takes tools in this interface only when told not to think.
    NoneWithTools,
}

/// What a server refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Quirks {
    /// `stream_options`.
    pub no_stream_options: bool,
    /// The name it has for the cap is not the one its host suggests.
    pub other_cap_name: bool,
    /// `reasoning_effort`.
    pub effort: Effort,
}

impl Quirks {
    /// What to change after a refusal in these words, or none when they name nothing that was sent.
    fn learn(self, words: &str, request: &ModelRequest) -> Option<Self> {
        let words = words.to_lowercase();
        let has = |word: &str| words.contains(word);
        if !self.no_stream_options && (has("stream_options") || has("include_usage")) {
            return Some(Self { no_stream_options: true, ..self });
        }
        if !self.other_cap_name && has("max_tokens") && has("max_completion_tokens") {
            return Some(Self { other_cap_name: true, ..self });
        }
        if has("reasoning_effort") {
            if self.effort == Effort::AsAsked && has("tools") && !request.tools.is_empty() {
                return Some(Self { effort: Effort::NoneWithTools, ..self });
            }
            let is_sent = match self.effort {
                Effort::AsAsked => request.reasoning.is_some(),
                Effort::NoneWithTools => true,
                Effort::Omitted => false,
            };
            if is_sent {
                return Some(Self { effort: Effort::Omitted, ..self });
            }
        }
        None
    }
}

/// What was learned about servers, by address and model. Shared by all models of a driver.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    quirks: Mutex<HashMap<String, Quirks>>,
}

impl Remembered {
    fn get(&self, key: &str) -> Quirks {
        self.quirks.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied().unwrap_or_default()
    }

    fn set(&self, key: &str, quirks: Quirks) {
        let mut all = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
        // Forgetting costs one refused request per server: better than a map that only grows.
        if all.len() >= MAX_REMEMBERED {
            all.clear();
        }
        all.insert(key.to_owned(), quirks);
    }
}

/// A model behind Chat Completions.
pub(super) struct ChatModel {
    facts: Model,
    is_assumed: bool,
    http: SharedHttp,
    peer: Peer,
    style: ChatStyle,
    remembered: Arc<Remembered>,
    memory_key: String,
    headers: Headers,
    heads: HeadCache<Quirks>,
    fragments: FragmentCache,
}

impl ChatModel {
    /// A model that the server knows as `wire_model`.
    pub(super) fn new(
        http: SharedHttp,
        peer: Peer,
        remembered: Arc<Remembered>,
        (facts, is_assumed): (Model, bool),
        wire_model: &str,
    ) -> Self {
        let headers = bearer(&peer);
        Self {
            memory_key: format!("{} {wire_model}", peer.authority),
            style: ChatStyle {
                provider: facts.provider.as_str().to_owned(),
                model: wire_model.to_owned(),
                is_own_host: peer.is_own,
            },
            facts,
            is_assumed,
            http,
            peer,
            remembered,
            headers,
            heads: HeadCache::default(),
            fragments: FragmentCache::default(),
        }
    }

    /// The body of `request`. Everything that stays the same comes first and the messages last, so that the next
    /// request begins with the bytes of this one, all but the few that close it.
    fn body(&self, request: &ModelRequest, quirks: Quirks) -> Bytes {
        let head = self.heads.head(request, quirks, || self.style.head(request, quirks));
        let notice = request.notice.as_deref().map(|text| self.style.host_status(text));
        self.fragments.assemble(
            &request.messages,
            IMAGE_BUDGET,
            |message, images| self.style.message(message, images),
            |fragments| {
                let mut body = Vec::with_capacity(head.len() + 64 * 1024);
                body.extend_from_slice(&head);
                let mut is_first = head.last() == Some(&b'[');
                for bytes in fragments.map(|fragment| &fragment.bytes).chain(notice.as_ref()) {
                    if !std::mem::take(&mut is_first) {
                        body.push(b',');
                    }
                    body.extend_from_slice(bytes);
                }
                body.extend_from_slice(b"]");
                // After the messages, so that the last step of a turn still begins like the one before.
                if request.tool_choice == ToolChoice::None && !request.tools.is_empty() {
                    body.extend_from_slice(br#","tool_choice":"none""#);
                }
                body.extend_from_slice(b"}");
                Bytes::from(body)
            },
        )
    }
}

/// The headers of a request.
pub(super) fn bearer(peer: &Peer) -> Headers {
    peer.key.iter().map(|key| (AUTHORIZATION, format!("Bearer {}", key.expose()))).collect()
}

impl LanguageModel for ChatModel {
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
            let mut adaptations = 0;
            loop {
                let quirks = self.remembered.get(&self.memory_key);
                let body = self.body(request, quirks);
                match self.http.post(&self.peer, "/chat/completions", &self.headers, body).await {
                    Ok(response) => {
                        let decoder = ChatDecoder::new(self.peer.clone(), &self.style);
                        return Ok(read_answer(Arc::clone(&self.http), self.peer.clone(), response, decoder));
                    }
                    Err(failure) if failure.kind == FailureKind::Refused && adaptations < MAX_ADAPTATIONS => {
                        let Some(learned) = quirks.learn(&failure.message, request) else {
                            return Err(failure);
                        };
                        self.remembered.set(&self.memory_key, learned);
                        adaptations += 1;
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
#[path = "chat/body_tests.rs"]
mod tests;
