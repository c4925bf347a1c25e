//! Owns the scripted model: what it answers to each request, when it may, and what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use gent_extension_api::{
    Access, CredentialSpec, DefaultModel, DriverError, FinishReason, LanguageModel, ModelDriver,
    ModelRequest, ModelStream, ProviderFailure, RetryPolicy, StreamPart, StreamedCall,
};
use gent_protocol::{Model, ModelId, Part, ProviderId};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::in_time;

/// What the model answers to one request.
pub(crate) type Answer = Result<Vec<Result<StreamPart, ProviderFailure>>, ProviderFailure>;

/// A place where something waits until a test lets it go on.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    reached: CancellationToken,
    open: CancellationToken,
}

impl Gate {
    /// Lets through whoever waits, and whoever comes.
    pub(crate) fn open(&self) {
        self.open.cancel();
    }

    /// Waits until somebody stands at it.
    pub(crate) async fn reached(&self) {
        in_time("the gate is reached", self.reached.cancelled()).await;
    }

    pub(crate) async fn pass(&self) {
        self.reached.cancel();
        self.open.cancelled().await;
    }
}

/// One answer, and where its stream waits.
struct Planned {
    answer: Answer,
    /// A gate before the part of this place.
    gate: Option<(usize, Gate)>,
}

#[derive(Default)]
struct Inside {
    planned: VecDeque<Planned>,
    asked: Vec<ModelRequest>,
    resolving: Option<Gate>,
}

/// A script: one answer for each request. Clones share it; it outlives its engine.
#[derive(Clone)]
pub(crate) struct Script {
    inside: Arc<Mutex<Inside>>,
    count: Arc<watch::Sender<usize>>,
}

impl Script {
    pub(crate) fn new(answers: Vec<Answer>) -> Self {
        let planned = answers.into_iter().map(|answer| Planned { answer, gate: None }).collect();
        let inside = Arc::new(Mutex::new(Inside { planned, ..Inside::default() }));
        Self { inside, count: Arc::new(watch::Sender::new(0)) }
    }

    /// Holds the n-th answer that is left, from 0, before its part of this place.
    pub(crate) fn hold(&self, n: usize, part: usize) -> Gate {
        let gate = Gate::default();
        self.inside.lock().unwrap().planned[n].gate = Some((part, gate.clone()));
        gate
    }

    /// Holds the next turn before its first step, where it looks for its model.
    pub(crate) fn hold_start(&self) -> Gate {
        let gate = Gate::default();
        self.inside.lock().unwrap().resolving = Some(gate.clone());
        gate
    }

    /// Answers nobody has asked for yet.
    pub(crate) fn left(&self) -> usize {
        self.inside.lock().unwrap().planned.len()
    }

    /// Drops the next answer: the request that it was for was not made.
    pub(crate) fn skip(&self) {
        self.inside.lock().unwrap().planned.pop_front();
    }

    /// Requests that reached the model.
    pub(crate) fn n_asked(&self) -> usize {
        self.inside.lock().unwrap().asked.len()
    }

    /// Waits until so many requests have reached the model.
    pub(crate) async fn asked(&self, n: usize) {
        let mut count = self.count.subscribe();
        in_time("the model is asked", count.wait_for(|count| *count >= n)).await.unwrap();
    }

    /// The n-th request, from 0.
    pub(crate) fn request(&self, n: usize) -> ModelRequest {
        self.inside.lock().unwrap().asked[n].clone()
    }

    /// The messages of the n-th request, from 0, each as its role and what it says.
    pub(crate) fn read(&self, n: usize) -> Vec<String> {
        let request = self.request(n);
        request
            .messages
            .iter()
            .map(|message| {
                let parts: Vec<String> = message.parts.iter().map(part).collect();
                format!("{}: {}", format!("{:?}", message.role).to_lowercase(), parts.join(" "))
            })
            .collect()
    }
}

fn part(part: &Part) -> String {
    match part {
        Part::Text { text, .. } => text.clone(),
        Part::ToolCall(call) => format!("call {}", call.id),
        Part::ToolResult(outcome) => format!("result {} {}", outcome.id, outcome.result),
        other => format!("{other:?}"),
    }
}

/// A whole answer in words.
pub(crate) fn text(text: &str) -> Answer {
    Ok(vec![
        Ok(StreamPart::Text { text: text.into() }),
        Ok(StreamPart::Finish { reason: FinishReason::Stop }),
    ])
}

/// An answer that calls tools, each with its `say`.
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Answer {
    let calls: Vec<_> = calls.iter().map(|(id, name, say)| (*id, *name, json!({ "say": say }))).collect();
    calls_with(&calls)
}

/// An answer that calls tools, each with its input.
pub(crate) fn calls_with(calls: &[(&str, &str, Value)]) -> Answer {
    let mut parts: Vec<_> = calls
        .iter()
        .map(|(id, name, params)| {
            Ok(StreamPart::ToolCall(StreamedCall {
                id: Some((*id).into()),
                name: (*name).into(),
                params: params.clone(),
                options: None,
            }))
        })
        .collect();
    parts.push(Ok(StreamPart::Finish { reason: FinishReason::ToolCalls }));
    Ok(parts)
}

/// A driver that answers by script.
pub(super) struct Scripted {
    pub(super) script: Script,
    pub(super) retry_wait: Duration,
}

fn facts() -> Model {
    Model {
        id: ModelId::parse("scripted/model").unwrap(),
        name: "model".into(),
        provider: ProviderId::parse("scripted").unwrap(),
        context_length: Some(100_000),
        input_limit: None,
        output_limit: Some(8_000),
        pricing: None,
        release_date: None,
        reasoning: None,
    }
}

impl ModelDriver for Scripted {
    fn id(&self) -> ProviderId {
        ProviderId::parse("scripted").unwrap()
    }
    fn name(&self) -> &str {
        "Scripted"
    }
    fn credentials(&self) -> CredentialSpec {
        CredentialSpec::default()
    }
    fn needs_key(&self, _: Option<&str>) -> bool {
        false
    }
    fn default_model<'a>(
        &'a self,
        _: &'a Access,
    ) -> BoxFuture<'a, Result<Option<DefaultModel>, DriverError>> {
        let found = DefaultModel { id: facts().id, reason: "it is the test's".into() };
        async move { Ok(Some(found)) }.boxed()
    }
    fn list_models<'a>(&'a self, _: &'a Access) -> BoxFuture<'a, Result<Vec<Model>, DriverError>> {
        async move { Ok(vec![facts()]) }.boxed()
    }
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn LanguageModel>, DriverError>> {
        let model: Arc<dyn LanguageModel> =
            Arc::new(ScriptedModel { script: self.script.clone(), facts: facts() });
        let gate = self.script.inside.lock().unwrap().resolving.take();
        async move {
            if let Some(gate) = gate {
                gate.pass().await;
            }
            Ok(model)
        }
        .boxed()
    }
    fn retry_policy(&self) -> RetryPolicy {
        let (initial_delay, max_delay) = (self.retry_wait, self.retry_wait.saturating_mul(2));
        RetryPolicy { initial_delay, max_delay, ..RetryPolicy::default() }
    }
}

struct ScriptedModel {
    script: Script,
    facts: Model,
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
        let Planned { answer, gate } = {
            let mut inside = self.script.inside.lock().unwrap();
            inside.asked.push(request.clone());
            inside.planned.pop_front().expect("the script has an answer")
        };
        self.script.count.send_modify(|count| *count += 1);
        async move {
            let parts = futures_util::stream::iter(answer?.into_iter().enumerate());
            let stream: ModelStream = Box::pin(parts.then(move |(place, part)| {
                let gate = gate.clone().filter(|(at, _)| *at == place);
                async move {
                    if let Some((_, gate)) = gate {
                        gate.pass().await;
                    }
                    part
                }
            }));
            Ok(stream)
        }
        .boxed()
    }
}
