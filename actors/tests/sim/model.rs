//! Owns the model of a run: what it answers depends on the seed and on how many requests came before.
//! Looks at each request as a provider would: every call has its result, nothing is said twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use gent_extension_api::{
    Access, CredentialSpec, DefaultModel, DriverError, FailureKind, FinishReason, LanguageModel, ModelDriver,
    ModelRequest, ModelStream, ProviderFailure, RetryPolicy, StreamPart, StreamedCall,
};
use gent_protocol::{Model, ModelId, Part, ProviderId};
use serde_json::{Value, json};

use crate::later;
use crate::rng::Rng;

/// The longest wait before a part of an answer.
const PAUSE_MS: usize = 400;
/// Characters of a long answer: several deltas.
const LONG: usize = 6_000;

#[derive(Default)]
struct Inside {
    n_asked: u64,
    n_calls: usize,
    /// It answers with text alone.
    is_calm: bool,
    complaints: Vec<String>,
}

/// What the model answers, and what it has to say of the requests. Clones share it; it outlives its engine.
#[derive(Clone)]
pub(crate) struct Script {
    seed: u64,
    inside: Arc<Mutex<Inside>>,
}

/// One answer: how long it keeps silent, then each part after its wait.
struct Answer {
    silence: Duration,
    parts: Result<Vec<Waited>, ProviderFailure>,
}

/// A part and the wait before it.
type Waited = (Duration, Result<StreamPart, ProviderFailure>);

impl Script {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, inside: Arc::default() }
    }

    /// From here on it answers with text alone.
    pub(crate) fn calm(&self) {
        self.inside.lock().unwrap().is_calm = true;
    }

    /// What was wrong with the requests.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.inside.lock().unwrap().complaints.clone()
    }

    fn answer(&self, request: &ModelRequest) -> Answer {
        let mut inside = self.inside.lock().unwrap();
        if let Some(complaint) = complaint(request) {
            inside.complaints.push(complaint);
        }
        inside.n_asked += 1;
        let mut rng = Rng::new(self.seed, 1_000 + inside.n_asked);
        let silence = pause(&mut rng);
        if inside.is_calm {
            return Answer { silence, parts: Ok(text(&mut rng, "well", FinishReason::Stop)) };
        }
        let parts = match rng.below(100) {
            0..40 => Ok(text(&mut rng, "an answer", FinishReason::Stop)),
            40..76 => Ok(calls(&mut rng, &mut inside.n_calls)),
            76..84 => Err(failure(&mut rng)),
            84..90 => {
                let mut parts = text(&mut rng, "the beginning of", FinishReason::Stop);
                parts.pop();
                if rng.percent(30) {
                    parts.extend(calls(&mut rng, &mut inside.n_calls));
                    parts.pop();
                }
                // Cut with an error, or without a word.
                if rng.percent(60) {
                    parts.push((pause(&mut rng), Err(failure(&mut rng))));
                }
                Ok(parts)
            }
            90..94 => Ok(vec![finish(FinishReason::Stop)]),
            94..96 => Ok(text(&mut rng, "as much as fits", FinishReason::Length)),
            _ => Ok(text(&mut rng, &"long ".repeat(LONG / 5), FinishReason::Stop)),
        };
        Answer { silence, parts }
    }
}

fn pause(rng: &mut Rng) -> Duration {
    let millis = if rng.percent(60) { 0 } else { rng.below(PAUSE_MS) };
    Duration::from_millis(u64::try_from(millis).unwrap())
}

fn finish(reason: FinishReason) -> Waited {
    (Duration::ZERO, Ok(StreamPart::Finish { reason }))
}

fn failure(rng: &mut Rng) -> ProviderFailure {
    let kind = *rng.one(&[
        FailureKind::Transient,
        FailureKind::Transient,
        FailureKind::RateLimited,
        FailureKind::Refused,
    ]);
    ProviderFailure::new(kind, "the provider fails")
}

fn text(rng: &mut Rng, words: &str, reason: FinishReason) -> Vec<Waited> {
    let chars: Vec<char> = words.chars().collect();
    let mut parts: Vec<Waited> = chars
        .chunks(1.max(chars.len() / 3))
        .map(|piece| (pause(rng), Ok(StreamPart::Text { text: piece.iter().collect() })))
        .collect();
    parts.push(finish(reason));
    parts
}

fn calls(rng: &mut Rng, n_calls: &mut usize) -> Vec<Waited> {
    let mut parts: Vec<Waited> = Vec::new();
    if rng.percent(30) {
        parts.push((pause(rng), Ok(StreamPart::Text { text: "let me see".into() })));
    }
    let n = *rng.one(&[1, 1, 1, 2, 2, 3, 10]);
    for _ in 0..n {
        *n_calls += 1;
        let id = format!("call-{n_calls}");
        let (name, params) = call(rng, &id);
        let call = StreamedCall { id: Some(id), name: name.into(), params, options: None };
        parts.push((pause(rng), Ok(StreamPart::ToolCall(call))));
    }
    parts.push(finish(FinishReason::ToolCalls));
    parts
}

fn call(rng: &mut Rng, id: &str) -> (&'static str, Value) {
    match rng.below(20) {
        0..7 => ("echo", json!({ "say": id })),
        7..9 => ("fail", json!({ "say": id })),
        9 => ("nonsense", json!({})),
        10 => ("panic", json!({ "say": id })),
        11..14 => ("hold", json!({ "millis": rng.below(8_000) })),
        _ => {
            let questions: Vec<String> = (0..=rng.below(2)).map(|place| format!("{id} {place}")).collect();
            ("ask", json!({ "ask": questions, "millis": rng.below(2) * rng.below(6_000) }))
        }
    }
}

/// What a provider would refuse.
fn complaint(request: &ModelRequest) -> Option<String> {
    let (mut open, mut all) = (BTreeSet::new(), BTreeSet::new());
    let mut said = BTreeSet::new();
    for message in &request.messages {
        for part in &message.parts {
            match part {
                Part::ToolCall(call) => {
                    if !all.insert(call.id.clone()) {
                        return Some(format!("the call {} is in a request twice", call.id));
                    }
                    open.insert(call.id.clone());
                }
                Part::ToolResult(outcome) if !open.remove(&outcome.id) => {
                    return Some(format!("a result of {} without its call, or a second one", outcome.id));
                }
                Part::Text { text, .. } if text.starts_with("say ") && !said.insert(text.clone()) => {
                    return Some(format!("{text:?} is in a request twice"));
                }
                _ => {}
            }
        }
    }
    (!open.is_empty()).then(|| format!("calls without a result in a request: {open:?}"))
}

/// A driver with the model of a run.
pub(crate) struct Scripted(pub(crate) Script);

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
        async { Ok(Some(DefaultModel { id: facts().id, reason: "it is the test's".into() })) }.boxed()
    }
    fn list_models<'a>(&'a self, _: &'a Access) -> BoxFuture<'a, Result<Vec<Model>, DriverError>> {
        async { Ok(vec![facts()]) }.boxed()
    }
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn LanguageModel>, DriverError>> {
        let model: Arc<dyn LanguageModel> =
            Arc::new(ScriptedModel { script: self.0.clone(), facts: facts() });
        async move { Ok(model) }.boxed()
    }
    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy::default()
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
        let Answer { silence, parts } = self.script.answer(request);
        async move {
            later(silence).await;
            let parts = futures_util::stream::iter(parts?);
            let stream: ModelStream = Box::pin(parts.then(|(wait, part)| async move {
                later(wait).await;
                part
            }));
            Ok(stream)
        }
        .boxed()
    }
}
