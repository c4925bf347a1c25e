//! Owns the model drivers that ship with gent: `anthropic`, `openai`, `local` and `demo`, each an extension of its own.
//! Never keeps a credential and never opens a connection before the first request.
//! Tested in each file and, over recorded streams, in `extensions/shipped/tests/it/providers.rs`.

use std::sync::Arc;
use std::time::Duration;

use gent_extension_api::protocol::{ExtensionId, ProviderId};
use gent_extension_api::{Contribution, Extension, Host, ModelDriver, SetupError};

mod answer;
mod anthropic;
mod catalog;
mod chat;
mod demo;
mod failure;
mod fragments;
mod http;
mod json_text;
mod local;
mod openai;
mod overflow;
mod peer;
mod sse;
#[cfg(test)]
mod test_messages;

pub use demo::{DEMO_PROMPT, REPORT_FILE, is_demo_command};

use crate::revision;
use http::Http;

/// The providers whose drivers ship with gent, in the order in which a default model is looked for.
pub const PROVIDERS: [&str; 4] = ["anthropic", "openai", "local", "demo"];

/// How long an answer may bring no data before it counts as dead: asked for anew at each request.
#[derive(Clone)]
pub struct StreamIdle(Arc<dyn Fn() -> Duration + Send + Sync>);

impl StreamIdle {
    /// What `ask` says at each use.
    pub fn asked(ask: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// What holds for a request that begins now.
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl From<Duration> for StreamIdle {
    fn from(always: Duration) -> Self {
        Self::asked(move || always)
    }
}

impl std::fmt::Debug for StreamIdle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StreamIdle").field(&self.now()).finish()
    }
}

/// What the drivers are built with.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// How long an answer may bring no data before it counts as dead; comments and pings are not data.
    pub stream_idle: StreamIdle,
    /// The ports of 127.0.0.1 on which a model server is looked for, in this order.
    pub local_ports: Vec<u16>,
}

impl Default for ProviderSettings {
    /// 300 s (contract, "Models and keys"), and the ports of the usual local servers.
    fn default() -> Self {
        Self { stream_idle: Duration::from_secs(300).into(), local_ports: vec![11434, 1234, 8080] }
    }
}

/// The driver extensions, in the order in which a default model is looked for. They share one HTTP client, which is
/// built at the first request; its connections live on the runtime that makes the requests.
pub fn provider_extensions(settings: &ProviderSettings) -> Vec<Arc<dyn Extension>> {
    let http = Arc::new(Http::new(settings.stream_idle.clone()));
    let drivers: [(&'static str, Arc<dyn ModelDriver>); 4] = [
        ("@gent/provider-anthropic", Arc::new(anthropic::AnthropicDriver::new(Arc::clone(&http)))),
        ("@gent/provider-openai", Arc::new(openai::OpenAiDriver::new(Arc::clone(&http)))),
        ("@gent/provider-local", Arc::new(local::LocalDriver::new(http, settings.local_ports.clone()))),
        ("@gent/provider-demo", Arc::new(demo::DemoDriver)),
    ];
    drivers
        .into_iter()
        .map(|(id, driver)| Arc::new(DriverExtension { id, driver }) as Arc<dyn Extension>)
        .collect()
}

struct DriverExtension {
    id: &'static str,
    driver: Arc<dyn ModelDriver>,
}

impl Extension for DriverExtension {
    #[expect(clippy::expect_used, reason = "the four ids above are constants; a test parses each")]
    fn id(&self) -> ExtensionId {
        ExtensionId::parse(self.id).expect("a constant extension id")
    }

    fn revision(&self) -> Option<String> {
        revision()
    }

    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        host.register(Contribution::ModelDriver(Arc::clone(&self.driver)));
        Ok(())
    }
}

/// A driver's own id; only called with constants.
#[expect(clippy::expect_used, reason = "called with constants alone; a test parses each")]
fn provider_id(id: &'static str) -> ProviderId {
    ProviderId::parse(id).expect("a constant provider id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_driver_has_its_own_extension_in_the_order_in_which_a_default_is_looked_for() {
        let ids: Vec<String> = provider_extensions(&ProviderSettings::default())
            .iter()
            .map(|extension| extension.id().as_str().to_owned())
            .collect();
        assert_eq!(ids, PROVIDERS.map(|provider| format!("@gent/provider-{provider}")));
    }
}
