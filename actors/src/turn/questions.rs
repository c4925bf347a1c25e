//! Owns how a call asks: a stored question and a call that waits without a task. The first ask of a call that runs again
//! takes the answer, in one write, before the call goes on: so it is taken once, whatever dies.
//! Fails closed: what cannot be stored is not asked, and what is not answered is not allowed.
//! Tested in `actors/tests/it/` (F1–F15).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{ApprovalRequest, Decision, Interaction, InteractionError, Redactor};
use gent_protocol::{
    Approval, InteractionRequestId, MessageId, ModelId, Question, QuestionDecision, ToolCallId,
};
use gent_storage::{
    Asked, NewQuestion, QuestionStatus, StoreError, WriteTxn, bindings_put, question_ask, question_take,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::branch::{BranchKey, BranchWriter, Rank, has_cancel};
use crate::limits::QUESTION_BYTES;
use crate::redact::SecretSet;
use crate::services::{Services, StandingApproval};

/// What is said where a spawned session's own prompt would have to be answered.
const NOBODY: &str = "nobody can be asked in this session: report back to whoever started it what you would have done \
                      and why";

/// Who answers the questions of a turn.
#[derive(Clone)]
pub(crate) struct Asking {
    pub(crate) approval: Approval,
    /// Somebody can be asked.
    pub(crate) can_ask: bool,
    pub(crate) model: Option<ModelId>,
    pub(crate) standing: Arc<dyn StandingApproval>,
}

impl Asking {
    /// The answer that needs no question.
    fn fixed(&self, request: &ApprovalRequest) -> Option<Decision> {
        let stands = self.model.as_ref().is_some_and(|model| self.standing.allows(model, request));
        match (self.approval, self.can_ask) {
            (Approval::Approve, _) => Some(Decision::yes()),
            (Approval::Ask, _) if stands => Some(Decision::yes()),
            (Approval::Ask, false) => Some(Decision::no(NOBODY)),
            (Approval::Ask, true) => None,
        }
    }
}

/// Asking outside of a call: there is nobody whose call could wait.
pub(crate) struct NoCall;

impl Interaction for NoCall {
    fn approve<'a>(&'a self, _: ApprovalRequest) -> BoxFuture<'a, Result<Decision, InteractionError>> {
        let failed = InteractionError::Failed { message: "only a tool's call can ask".to_owned() };
        futures_util::future::ready(Err(failed)).boxed()
    }
}

/// The questions of one run of one call.
pub(crate) struct CallQuestions {
    pub(crate) asking: Asking,
    pub(crate) services: Arc<Services>,
    pub(crate) secrets: Arc<SecretSet>,
    pub(crate) writer: BranchWriter,
    pub(crate) key: BranchKey,
    pub(crate) turn: MessageId,
    pub(crate) assistant: MessageId,
    pub(crate) call: ToolCallId,
    /// Which tool the call is meant for.
    pub(crate) binding: Value,
    /// Asks so far.
    pub(crate) asked: AtomicU32,
    /// Fires when the call is to wait: whoever runs it lets it go.
    pub(crate) parked: CancellationToken,
}

/// What came of an ask.
enum Outcome {
    Answer(QuestionDecision),
    Waits,
    Stopped,
}

impl Interaction for CallQuestions {
    fn approve<'a>(&'a self, request: ApprovalRequest) -> BoxFuture<'a, Result<Decision, InteractionError>> {
        async move {
            if let Some(decision) = self.asking.fixed(&request) {
                return Ok(decision);
            }
            let new = self.question(request)?;
            let (key, binding, at) = (self.key.clone(), self.binding.clone(), new.at);
            let bindings = [(self.call.clone(), binding)];
            let write = self.writer.write(Rank::Step, "question.ask", move |txn| {
                if has_cancel(txn, &key, &new.turn)? {
                    return Ok(Outcome::Stopped);
                }
                bindings_put(txn, &key.branch, &new.assistant, &bindings, at)?;
                ask(txn, &new)
            });
            match write.await {
                Ok(Outcome::Answer(decision)) => Ok(Decision {
                    approved: decision.approved,
                    notes: decision.notes,
                    edited_content: decision.edited_content,
                }),
                Ok(Outcome::Waits) => {
                    self.parked.cancel();
                    futures_util::future::pending().await
                }
                Ok(Outcome::Stopped) => Err(InteractionError::Stopped),
                Err(error) => Err(InteractionError::Failed { message: error.to_string() }),
            }
        }
        .boxed()
    }
}

/// Stores the question, or takes the answer it has.
fn ask(txn: &mut WriteTxn<'_>, new: &NewQuestion) -> Result<Outcome, StoreError> {
    let (Asked::Stored(row) | Asked::Known(row)) = question_ask(txn, new)?;
    match (row.status, row.decision) {
        (QuestionStatus::Answered, Some(decision)) => {
            question_take(txn, &row.request_id)?;
            Ok(Outcome::Answer(decision))
        }
        (QuestionStatus::Taken, Some(decision)) => Ok(Outcome::Answer(decision)),
        _ => Ok(Outcome::Waits),
    }
}

impl CallQuestions {
    /// The next question of this run, without secrets and within its bound.
    fn question(&self, request: ApprovalRequest) -> Result<NewQuestion, InteractionError> {
        let failed = |message: String| InteractionError::Failed { message };
        let mut metadata = request.metadata;
        if let Some(facts) = &mut metadata {
            self.secrets.redact_value(facts);
        }
        let text = self.secrets.redact(&request.text);
        let bytes = text.len() + metadata.as_ref().map_or(0, |facts| facts.to_string().len());
        if bytes > QUESTION_BYTES {
            return Err(failed(format!("it has {bytes} bytes, {QUESTION_BYTES} are allowed")));
        }
        let request_id = InteractionRequestId::parse(self.services.env.new_id())
            .map_err(|_unfit| failed("it could not be given an id".to_owned()))?;
        Ok(NewQuestion {
            request_id,
            session_id: self.key.session.clone(),
            branch_id: self.key.branch.clone(),
            turn: self.turn.clone(),
            assistant: self.assistant.clone(),
            call: self.call.clone(),
            occurrence: self.asked.fetch_add(1, Ordering::Relaxed),
            question: Question { text, metadata },
            at: self.services.env.now(),
        })
    }
}
