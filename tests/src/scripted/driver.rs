//! Owns the scripted model as a driver: the same script, without a network, for an engine in the test's process.
//! Never speaks a provider's format.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use gent_extension_api::{
    Access, CredentialSpec, DefaultModel, DriverError, FailureKind, FinishReason, LanguageModel, ModelDriver,
    ModelRequest, ModelStream, ProviderFailure, StreamPart, StreamedCall,
};
use gent_protocol::{Model, ModelId, ProviderId};

use super::answer::{Answer, Ending, Piece};
use super::book::{Book, Script};
use super::gate::{Gate, Gates};

/// A driver named `scripted`, with one model of that name.
pub struct ScriptedDriver {
    id: ProviderId,
    facts: Model,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    book: Mutex<Book>,
    gates: Gates,
    requests: Mutex<Vec<ModelRequest>>,
}

impl ScriptedDriver {
    /// A driver that answers with `script`.
    pub fn new(script: Script) -> anyhow::Result<Arc<Self>> {
        let id = ProviderId::parse("scripted")?;
        let facts = Model {
            id: ModelId::join(&id, "scripted")?,
            name: "Scripted".into(),
            provider: id.clone(),
            context_length: Some(128_000),
            input_limit: None,
            output_limit: Some(16_384),
            pricing: None,
            release_date: None,
            reasoning: None,
        };
        let shared = Arc::new(Shared { book: Mutex::new(Book::new(script)), ..Shared::default() });
        Ok(Arc::new(Self { id, facts, shared }))
    }

    /// Its gate of this name.
    pub fn gate(&self, name: &str) -> Gate {
        self.shared.gates.get(name)
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ModelDriver for ScriptedDriver {
    fn id(&self) -> ProviderId {
        self.id.clone()
    }

    fn name(&self) -> &str {
        "Scripted"
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
        let reason = "the test is scripted".to_owned();
        async move { Ok(Some(DefaultModel { id: self.facts.id.clone(), reason })) }.boxed()
    }

    fn list_models<'a>(&'a self, _access: &'a Access) -> BoxFuture<'a, Result<Vec<Model>, DriverError>> {
        async move { Ok(vec![self.facts.clone()]) }.boxed()
    }

    fn resolve<'a>(
        &'a self,
        _name: &'a str,
        _access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn LanguageModel>, DriverError>> {
        let model = ScriptedModel { facts: self.facts.clone(), shared: Arc::clone(&self.shared) };
        async move { Ok(Arc::new(model) as Arc<dyn LanguageModel>) }.boxed()
    }
}

struct ScriptedModel {
    facts: Model,
    shared: Arc<Shared>,
}

impl LanguageModel for ScriptedModel {
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
        async move {
            let last_user = request.messages.iter().rev().find(|m| m.role == gent_protocol::Role::User);
            let last_user = last_user.map(|message| message.text()).unwrap_or_default();
            self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
            let answer =
                self.shared.book.lock().unwrap_or_else(PoisonError::into_inner).answer(&last_user, None);
            if let Some(refusal) = &answer.refusal {
                let kind = match refusal.status {
                    401 | 403 => FailureKind::Auth,
                    429 => FailureKind::RateLimited,
                    500.. => FailureKind::Transient,
                    _ => FailureKind::Refused,
                };
                return Err(ProviderFailure::new(kind, refusal.body.to_string()));
            }
            Ok(parts(answer, self.shared.gates.clone()))
        }
        .boxed()
    }
}

fn parts(answer: Answer, gates: Gates) -> ModelStream {
    let reason = match &answer.ending {
        Ending::CutAfter(_) => None,
        Ending::Length => Some(FinishReason::Length),
        Ending::Word(_) => Some(FinishReason::Unknown),
        Ending::Natural if answer.has_calls() => Some(FinishReason::ToolCalls),
        Ending::Natural => Some(FinishReason::Stop),
    };
    let pieces: Vec<Piece> = answer.sent_pieces().to_vec();
    let sent = stream::iter(pieces).filter_map(move |piece| {
        let gates = gates.clone();
        async move { part(piece, &gates).await }
    });
    let usage = answer.usage.map(|usage| Ok(StreamPart::Usage(usage)));
    let end = match reason {
        Some(reason) => Ok(StreamPart::Finish { reason }),
        None => Err(ProviderFailure::new(FailureKind::Transient, "the script cuts the stream")),
    };
    sent.chain(stream::iter(usage.into_iter().chain([end]))).boxed()
}

async fn part(piece: Piece, gates: &Gates) -> Option<Result<StreamPart, ProviderFailure>> {
    match piece {
        Piece::Text(text) => Some(Ok(StreamPart::Text { text })),
        Piece::Reasoning(text) => {
            Some(Ok(StreamPart::Reasoning { id: "thinking".into(), text, options: None }))
        }
        Piece::Call { id, name, input } => {
            Some(Ok(StreamPart::ToolCall(StreamedCall { id, name, params: input, options: None })))
        }
        Piece::RawCall { name, input } => {
            let call = StreamedCall { id: None, name, params: input.into(), options: None };
            Some(Ok(StreamPart::ToolCall(call)))
        }
        Piece::Gate(name) => {
            gates.get(&name).pass().await;
            None
        }
        Piece::StreamError(message) => Some(Err(ProviderFailure::new(FailureKind::Transient, message))),
    }
}
