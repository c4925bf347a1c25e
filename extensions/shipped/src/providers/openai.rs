//! Owns the `openai` driver: Chat Completions at OpenAI or at the server that `OPENAI_BASE_URL` names.
//! Never sends a key elsewhere. Tested in `tests/it/providers_chat.rs`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::protocol::{Model, ModelId, ProviderId};
use gent_extension_api::{
    Access, CredentialSpec, DefaultModel, DriverError, LanguageModel, ModelDriver, ProviderFailure,
};
use serde_json::Value;

use super::catalog::{OPENAI_DEFAULT, facts};
use super::chat::{ChatModel, Remembered, bearer};
use super::failure;
use super::http::SharedHttp;
use super::peer::{Peer, PeerSpec, is_own_endpoint};
use super::provider_id;

const ID: &str = "openai";

pub(super) const SPEC: PeerSpec = PeerSpec {
    name: "OpenAI",
    own_host: Some("api.openai.com"),
    own_base: "https://api.openai.com/v1",
    key_variable: Some("OPENAI_API_KEY"),
    endpoint_variable: Some("OPENAI_BASE_URL"),
};

/// How long a list of models may take.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the search for a default model may take: the contract says 300 ms, the way back included.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_millis(280);

/// Models of OpenAI's list that do not speak Chat Completions.
const NO_CHAT: [&str; 9] =
    ["audio", "realtime", "image", "tts", "transcribe", "search", "instruct", "embedding", "codex"];

/// The driver.
pub(super) struct OpenAiDriver {
    http: SharedHttp,
    remembered: Arc<Remembered>,
}

impl OpenAiDriver {
    /// A driver that sends through `http`.
    pub(super) fn new(http: SharedHttp) -> Self {
        Self { http, remembered: Arc::default() }
    }

    async fn names(&self, peer: &Peer, limit: Duration) -> Result<Vec<String>, ProviderFailure> {
        let list = self.http.get_json(peer, "/models", &bearer(peer), limit).await?;
        Ok(listed_names(&list))
    }
}

/// The names in an answer of `GET /models`.
pub(super) fn listed_names(list: &Value) -> Vec<String> {
    let entries = list.get("data").or_else(|| list.get("models")).unwrap_or(list);
    let name = |entry: &Value| entry.get("id").or_else(|| entry.get("name"))?.as_str().map(str::to_owned);
    entries.as_array().into_iter().flatten().filter_map(name).filter(|name| !name.is_empty()).collect()
}

/// The sentence for a request that needs a key and has none.
pub(super) fn missing_key(peer: &Peer) -> Option<DriverError> {
    let variable = peer.spec.key_variable?;
    (peer.is_own && peer.key.is_none())
        .then(|| DriverError::Auth { message: format!("{} needs a key; set {variable}", peer.label()) })
}

/// The default at the provider itself: a constant, for who has a key.
pub(super) fn own_default(peer: &Peer, own: &str, provider: &ProviderId) -> Option<DefaultModel> {
    peer.key.as_ref()?;
    let reason = format!("{} is set", peer.spec.key_variable?);
    Some(DefaultModel { id: ModelId::join(provider, own).ok()?, reason })
}

/// The default at another server: the first model it lists.
pub(super) fn first_listed(
    peer: &Peer,
    names: Result<Vec<String>, ProviderFailure>,
    provider: &ProviderId,
) -> Result<DefaultModel, DriverError> {
    let variable = peer.spec.endpoint_variable.unwrap_or("the endpoint");
    let of_no_use = |why: &str| DriverError::Unavailable {
        message: format!("{variable} is set, but {} {why}", peer.shown_address()),
    };
    let names = names
        .map_err(|failure| of_no_use(&format!("does not answer with its models: {}", failure.message)))?;
    let id = names.first().and_then(|name| ModelId::join(provider, name).ok());
    let id = id.ok_or_else(|| of_no_use("lists no model"))?;
    Ok(DefaultModel { id, reason: format!("{variable} is set and it is the first model listed there") })
}

/// The sentence for a model name that cannot be one.
pub(super) fn unusable_name(error: &gent_extension_api::protocol::IdError) -> DriverError {
    DriverError::Unavailable { message: format!("this model name cannot be used: {error}; choose another") }
}

impl ModelDriver for OpenAiDriver {
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
            if access.key.is_none() && access.endpoint.is_none() {
                return Ok(None);
            }
            let peer = Peer::new(SPEC, access)?;
            if peer.is_own {
                return Ok(own_default(&peer, OPENAI_DEFAULT, &self.id()));
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
            let is_chat = |name: &str| {
                let is_family =
                    ["gpt-", "chatgpt-", "o1", "o3", "o4"].iter().any(|family| name.starts_with(family));
                !peer.is_own || (is_family && !NO_CHAT.iter().any(|word| name.contains(word)))
            };
            let models = names
                .iter()
                .filter(|name| is_chat(name))
                .filter_map(|name| facts(ID, name, peer.is_own).ok());
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
            let facts = facts(ID, name, peer.is_own).map_err(|error| unusable_name(&error))?;
            let model =
                ChatModel::new(Arc::clone(&self.http), peer, Arc::clone(&self.remembered), facts, name);
            Ok(Arc::new(model) as Arc<dyn LanguageModel>)
        }
        .boxed()
    }
}
