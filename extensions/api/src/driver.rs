//! Owns what a model driver is: a source of models behind one name.
//! Never keeps a credential: it is handed one for each use. Tested through the shipped drivers.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gent_protocol::{Model, ModelId, ProviderId, Secret};

use crate::{ModelRequest, ModelStream, ProviderFailure, RetryPolicy};

/// The variables by which a client offers access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CredentialSpec {
    /// Holds the key.
    pub key_variable: Option<&'static str>,
    /// Holds the address of the server that takes it.
    pub endpoint_variable: Option<&'static str>,
}

/// What a driver is handed to reach its provider. A key goes to no other address than the one it came with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The address; the driver's own when absent.
    pub endpoint: Option<String>,
    /// The key.
    pub key: Option<Secret>,
}

/// The model a driver would take when nobody named one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultModel {
    /// The model.
    pub id: ModelId,
    /// Why this one, in words that follow "because".
    pub reason: String,
}

/// Why a driver cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The credential is missing or refused.
    #[error("{message}")]
    Auth {
        /// One sentence with what to do.
        message: String,
    },
    /// Anything else.
    #[error("{message}")]
    Unavailable {
        /// One sentence with what to do.
        message: String,
    },
}

/// A source of models.
pub trait ModelDriver: Send + Sync {
    /// The part of a model id before the first `/`.
    fn id(&self) -> ProviderId;

    /// Its name for people.
    fn name(&self) -> &str;

    /// By which variables a client offers access.
    fn credentials(&self) -> CredentialSpec;

    /// Whether a request to `endpoint` needs a key. A turn whose key is missing after a restart waits for one.
    fn needs_key(&self, endpoint: Option<&str>) -> bool;

    /// The model to take when nobody named one, or none when this driver has nothing to offer by itself.
    /// Drivers are asked in the order in which the host looks; a driver answers within 300 ms or not at all.
    /// Fails where `access` was meant for it and is of no use: the sentence is told when no other driver has one.
    fn default_model<'a>(
        &'a self,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Option<DefaultModel>, DriverError>>;

    /// What it can serve now.
    fn list_models<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<Vec<Model>, DriverError>>;

    /// A model, ready to be asked for the length of a turn. An unknown name is not an error: its facts are then
    /// the documented assumptions.
    fn resolve<'a>(
        &'a self,
        name: &'a str,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn LanguageModel>, DriverError>>;

    /// When a failed request is tried again.
    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy::default()
    }
}

/// A model with its access baked in.
pub trait LanguageModel: Send + Sync {
    /// What is known or assumed of it; `context_length` and `output_limit` are set.
    fn facts(&self) -> &Model;

    /// True when the facts are assumptions: a turn says so once.
    fn is_assumed(&self) -> bool;

    /// Sends one request. The future ends when the provider has accepted it; dropping it ends the request.
    fn stream<'a>(&'a self, request: &'a ModelRequest)
    -> BoxFuture<'a, Result<ModelStream, ProviderFailure>>;
}
