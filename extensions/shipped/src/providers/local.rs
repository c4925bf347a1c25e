//! Owns the `local` driver: model servers found on this machine that speak Chat Completions.
//! Never looks further than 127.0.0.1 and never sends a key. Tested in `tests/it/providers_local.rs`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use gent_extension_api::protocol::{Model, ModelId, ProviderId};
use gent_extension_api::{Access, CredentialSpec, DefaultModel, DriverError, LanguageModel, ModelDriver};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::catalog::{ASSUMED_LOCAL_WINDOW, ASSUMED_OUTPUT, assumed};
use super::chat::{ChatModel, Remembered};
use super::http::SharedHttp;
use super::json_text::count;
use super::openai::{listed_names, unusable_name};
use super::peer::{Peer, PeerSpec};
use super::provider_id;

const ID: &str = "local";

/// How long a server may take to say what it serves, and how long that is believed. The contract gives the whole
/// search 300 ms; a little of it is left for the way back.
const PROBE_TIMEOUT: Duration = Duration::from_millis(280);
const REMEMBER: Duration = Duration::from_secs(30);
/// How many windows are remembered.
const MAX_WINDOWS: usize = 256;

const SPEC: PeerSpec = PeerSpec {
    name: "the local model server",
    own_host: None,
    own_base: "http://127.0.0.1/v1",
    key_variable: None,
    endpoint_variable: None,
};

/// A server that answered.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    port: u16,
    list: Value,
    names: Vec<String>,
}

#[derive(Default)]
struct Known {
    /// What the last search found, and when.
    servers: Option<(Instant, Vec<Found>)>,
    windows: HashMap<(u16, String), (Instant, Option<u64>)>,
}

/// The driver.
pub(super) struct LocalDriver {
    http: SharedHttp,
    ports: Vec<u16>,
    remembered: Arc<Remembered>,
    known: Mutex<Known>,
}

impl LocalDriver {
    /// A driver that looks on `ports` of 127.0.0.1, in this order.
    pub(super) fn new(http: SharedHttp, ports: Vec<u16>) -> Self {
        Self { http, ports, remembered: Arc::default(), known: Mutex::default() }
    }

    /// The servers that answer, in the order of the ports.
    async fn servers(&self) -> Vec<Found> {
        if let Some((at, servers)) = &self.known.lock().unwrap_or_else(PoisonError::into_inner).servers
            && at.elapsed() < REMEMBER
        {
            return servers.clone();
        }
        let began = Instant::now();
        let servers: Vec<Found> =
            join_all(self.ports.iter().map(|port| self.probe(*port))).await.into_iter().flatten().collect();
        // Finding nothing at once is cheap to repeat, and somebody may just be starting a server.
        if !servers.is_empty() || began.elapsed() >= PROBE_TIMEOUT {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.servers = Some((Instant::now(), servers.clone()));
        }
        servers
    }

    async fn probe(&self, port: u16) -> Option<Found> {
        let list =
            self.http.get_json(&peer(port).ok()?, "/v1/models", &Vec::new(), PROBE_TIMEOUT).await.ok()?;
        let names = listed_names(&list);
        (!names.is_empty()).then_some(Found { port, list, names })
    }

    /// The server and the name there of the model `name`.
    fn place(&self, servers: &[Found], name: &str) -> Option<(u16, String)> {
        if let Some((port, rest)) = name.split_once('/')
            && let Ok(port) = port.parse::<u16>()
            && self.ports.contains(&port)
            && !rest.is_empty()
        {
            return Some((port, rest.to_owned()));
        }
        let listed = servers.iter().find(|server| server.names.iter().any(|listed| listed == name));
        listed.or_else(|| servers.first()).map(|server| (server.port, name.to_owned()))
    }

    /// The window of a model as its server tells it.
    async fn window(&self, servers: &[Found], port: u16, name: &str) -> Option<u64> {
        let key = (port, name.to_owned());
        if let Some((at, window)) =
            self.known.lock().unwrap_or_else(PoisonError::into_inner).windows.get(&key)
            && at.elapsed() < REMEMBER
        {
            return *window;
        }
        let window = self.ask_window(servers, port, name).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.windows.len() >= MAX_WINDOWS {
            known.windows.clear();
        }
        known.windows.insert(key, (Instant::now(), window));
        window
    }

    /// Servers tell the window in different places; what is in force comes before what the model was trained for.
    async fn ask_window(&self, servers: &[Found], port: u16, name: &str) -> Option<u64> {
        let entry = servers
            .iter()
            .find(|server| server.port == port)
            .and_then(|server| entry_of(&server.list, name))
            .cloned()
            .unwrap_or_default();
        let fields = |value: &Value, fields: &[&str]| {
            fields.iter().find_map(|field| positive(count(value.pointer(field))))
        };
        if let Some(window) = fields(
            &entry,
            &["/n_ctx", "/loaded_context_length", "/context_length", "/max_model_len", "/meta/n_ctx"],
        ) {
            return Some(window);
        }
        let peer = peer(port).ok()?;
        let no_headers = Vec::new();
        let details_path = format!("/api/v0/models/{name}");
        let shown = json!({"model": name});
        let (props, details, show) = tokio::join!(
            self.http.get_json(&peer, "/props", &no_headers, PROBE_TIMEOUT),
            self.http.get_json(&peer, &details_path, &no_headers, PROBE_TIMEOUT),
            self.http.post_for_json(&peer, "/api/show", &shown, PROBE_TIMEOUT),
        );
        props
            .ok()
            .and_then(|props| fields(&props, &["/default_generation_settings/n_ctx", "/n_ctx"]))
            .or_else(|| fields(&details.ok()?, &["/loaded_context_length", "/max_context_length"]))
            .or_else(|| shown_window(&show.ok()?))
            .or_else(|| fields(&entry, &["/max_context_length", "/meta/n_ctx_train"]))
    }

    async fn model(
        &self,
        servers: &[Found],
        port: u16,
        name: &str,
        id: &str,
    ) -> Result<(Model, bool), DriverError> {
        let told = self.window(servers, port, name).await;
        let window = told.unwrap_or(ASSUMED_LOCAL_WINDOW);
        // A quarter for the answer: in a small window the usual cap would leave no room for the conversation.
        let model = assumed(ID, id, window, ASSUMED_OUTPUT.min((window / 4).max(1)));
        Ok((model.map_err(|error| unusable_name(&error))?, told.is_none()))
    }

    fn nothing_found(&self) -> DriverError {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        DriverError::Unavailable {
            message: format!(
                "no model server answers on 127.0.0.1 (ports {}); start one or choose another model",
                ports.join(", ")
            ),
        }
    }
}

fn peer(port: u16) -> Result<Peer, DriverError> {
    Peer::new(SPEC, &Access { endpoint: Some(format!("http://127.0.0.1:{port}")), key: None })
}

/// What a model is called: the port only where it is needed.
fn listed_id(servers: &[Found], port: u16, name: &str) -> String {
    if servers.len() > 1 { format!("{port}/{name}") } else { name.to_owned() }
}

fn entry_of<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    let entries = list.get("data").or_else(|| list.get("models"))?.as_array()?;
    entries
        .iter()
        .find(|entry| entry.get("id").or_else(|| entry.get("name")).and_then(Value::as_str) == Some(name))
}

/// The window in an answer of `/api/show`: the one that is set, else the one of the model.
fn shown_window(show: &Value) -> Option<u64> {
    let set = show.get("parameters").and_then(Value::as_str).and_then(|parameters| {
        parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse::<u64>().ok())
    });
    let of_model = || {
        let info = show.get("model_info")?.as_object()?;
        info.iter()
            .find_map(|(key, value)| if key.ends_with(".context_length") { count(Some(value)) } else { None })
    };
    positive(set).or_else(|| positive(of_model()))
}

fn positive(count: Option<u64>) -> Option<u64> {
    count.filter(|count| *count > 0)
}

impl ModelDriver for LocalDriver {
    fn id(&self) -> ProviderId {
        provider_id(ID)
    }

    fn name(&self) -> &str {
        "Local model server"
    }

    fn credentials(&self) -> CredentialSpec {
        CredentialSpec::default()
    }

    fn needs_key(&self, _endpoint: Option<&str>) -> bool {
        false
    }

    fn default_model<'a>(
        &'a self,
        _access: &'a Access,
    ) -> BoxFuture<'a, Result<Option<DefaultModel>, DriverError>> {
        async move {
            let servers = self.servers().await;
            Ok(servers.first().and_then(|first| {
                let name = first.names.first()?;
                let id = ModelId::join(&self.id(), &listed_id(&servers, first.port, name)).ok()?;
                let reason = format!("a model server answers on 127.0.0.1:{}", first.port);
                Some(DefaultModel { id, reason })
            }))
        }
        .boxed()
    }

    fn list_models<'a>(&'a self, _access: &'a Access) -> BoxFuture<'a, Result<Vec<Model>, DriverError>> {
        async move {
            let servers = self.servers().await;
            if servers.is_empty() {
                return Err(self.nothing_found());
            }
            let asked = servers.iter().flat_map(|server| {
                let servers = &servers;
                server.names.iter().map(move |name| async move {
                    self.model(servers, server.port, name, &listed_id(servers, server.port, name)).await
                })
            });
            Ok(join_all(asked).await.into_iter().filter_map(Result::ok).map(|(model, _)| model).collect())
        }
        .boxed()
    }

    fn resolve<'a>(
        &'a self,
        name: &'a str,
        _access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn LanguageModel>, DriverError>> {
        async move {
            let servers = self.servers().await;
            let (port, wire_model) = self.place(&servers, name).ok_or_else(|| self.nothing_found())?;
            let facts = self.model(&servers, port, &wire_model, name).await?;
            let mut peer = peer(port)?;
            peer.base.push_str("/v1");
            let model = ChatModel::new(
                Arc::clone(&self.http),
                peer,
                Arc::clone(&self.remembered),
                facts,
                &wire_model,
            );
            Ok(Arc::new(model) as Arc<dyn LanguageModel>)
        }
        .boxed()
    }
}
