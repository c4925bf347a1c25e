//! Owns the `demo` driver: a model made of rules that shows a whole turn without an account or a network.
//! Never pretends to think: it says what it is. It keeps nothing: each step follows from the conversation alone.
//! Tested in `tests/it/providers_demo.rs`.

mod listing;
mod report;
mod survey;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, stream};
use gent_extension_api::protocol::{Model, ProviderId};
use gent_extension_api::{
    Access, CredentialSpec, DefaultModel, DriverError, FinishReason, LanguageModel, ModelDriver,
    ModelRequest, ModelStream, ProviderFailure, StreamPart, StreamedCall, ToolChoice,
};

use super::catalog::{ASSUMED_OUTPUT, ASSUMED_WINDOW, assumed};
use super::openai::unusable_name;
use super::provider_id;

pub use listing::is_demo_command;
use survey::{Step, Survey};

const ID: &str = "demo";

/// The prompt of a demo that was given no task.
pub const DEMO_PROMPT: &str = "Look around in this directory and tell me what is here.";

/// The file the demo writes, in the working directory; never over one that it did not write itself.
pub const REPORT_FILE: &str = "gent-demo-report.md";

/// The driver.
pub(super) struct DemoDriver;

impl ModelDriver for DemoDriver {
    fn id(&self) -> ProviderId {
        provider_id(ID)
    }

    fn name(&self) -> &str {
        "Demo (made of rules)"
    }

    fn credentials(&self) -> CredentialSpec {
        CredentialSpec::default()
    }

    fn needs_key(&self, _endpoint: Option<&str>) -> bool {
        false
    }

    /// Nobody gets the demo for want of a model.
    fn default_model<'a>(
        &'a self,
        _access: &'a Access,
    ) -> BoxFuture<'a, Result<Option<DefaultModel>, DriverError>> {
        async { Ok(None) }.boxed()
    }

    fn list_models<'a>(&'a self, _access: &'a Access) -> BoxFuture<'a, Result<Vec<Model>, DriverError>> {
        async { Ok(vec![demo_facts("demo")?]) }.boxed()
    }

    fn resolve<'a>(
        &'a self,
        name: &'a str,
        _access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn LanguageModel>, DriverError>> {
        async move { Ok(Arc::new(DemoModel { facts: demo_facts(name)? }) as Arc<dyn LanguageModel>) }.boxed()
    }
}

fn demo_facts(name: &str) -> Result<Model, DriverError> {
    assumed(ID, name, ASSUMED_WINDOW, ASSUMED_OUTPUT).map_err(|error| unusable_name(&error))
}

struct DemoModel {
    facts: Model,
}

impl LanguageModel for DemoModel {
    fn facts(&self) -> &Model {
        &self.facts
    }

    fn is_assumed(&self) -> bool {
        false
    }

    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
    ) -> BoxFuture<'a, Result<ModelStream, ProviderFailure>> {
        let survey = Survey::of(&request.messages);
        let may_call = |name: &str| {
            request.tool_choice == ToolChoice::Auto && request.tools.iter().any(|tool| tool.name == name)
        };
        let parts = match survey.next_step(&may_call) {
            Step::Call { words, name, params } => {
                let mut parts = deltas(words);
                let call = StreamedCall { id: None, name: name.to_owned(), params, options: None };
                parts.push(StreamPart::ToolCall(call));
                parts.push(StreamPart::Finish { reason: FinishReason::ToolCalls });
                parts
            }
            Step::Answer { text } => {
                let mut parts = deltas(&text);
                parts.push(StreamPart::Finish { reason: FinishReason::Stop });
                parts
            }
        };
        async move { Ok(Box::pin(stream::iter(parts.into_iter().map(Ok))) as ModelStream) }.boxed()
    }
}

/// Text word by word, as a model streams it.
fn deltas(text: &str) -> Vec<StreamPart> {
    text.split_inclusive([' ', '\n']).map(|word| StreamPart::Text { text: word.to_owned() }).collect()
}
