//! Owns the answer to a question: the first one counts, and the turn that waits for it goes on at once.
//! Tested in `actors/tests/it/` (F1, F5–F9, F13, D11).

use actix::Context;
use gent_protocol::{AgentEvent, BranchId, InteractionRequestId, Millis, QuestionDecision};
use gent_storage::{Answered, QuestionRow, QuestionStatus, StoreError, WriteTxn, question_answer};

use super::actor::{BranchActor, Origin};
use super::lanes::Reply;
use super::messages::BranchError;
use super::state::{BranchState, Input};

impl BranchActor {
    pub(super) fn answer(
        &mut self,
        ctx: &mut Context<Self>,
        question: InteractionRequestId,
        decision: QuestionDecision,
        reply: Reply,
    ) {
        let (branch, of, at) = (self.key.branch.clone(), question.clone(), self.services.env.now());
        self.write(
            ctx,
            "branch.answer",
            move |txn| store_answer(txn, &branch, &of, &decision, at),
            move |actor, ctx, answered| match answered {
                Ok(Answered::First { row } | Answered::Same { row }) => {
                    drop(reply.send(Ok(())));
                    if row.status == QuestionStatus::Answered {
                        actor.go_on(ctx, &row);
                    }
                }
                Ok(Answered::Different) => drop(reply.send(Err(BranchError::OtherAnswer { question }))),
                Ok(Answered::Unknown { shown }) => {
                    drop(reply.send(Err(BranchError::NotAsked { question, shown })))
                }
                Err(error) => {
                    drop(reply.send(Err(BranchError::Store(error.clone()))));
                    actor.failed(ctx, &error);
                }
            },
        );
    }

    /// The turn that waits goes on. One that runs looks for the answer when it would wait.
    fn go_on(&mut self, ctx: &mut Context<Self>, answered: &QuestionRow) {
        if self.state == BranchState::Waiting
            && !self.services.drain.is_cancelled()
            && let Some(row) = self.parked.take_if(|row| row.message_id == answered.turn)
        {
            let run = self.start(row, Origin::Row, false, true);
            self.advance(ctx, Input::Resumed { run });
        }
    }
}

/// Stores the first answer of a question; tells of a repeat that nobody has taken yet once more.
pub(crate) fn store_answer(
    txn: &mut WriteTxn<'_>,
    branch: &BranchId,
    question: &InteractionRequestId,
    decision: &QuestionDecision,
    at: Millis,
) -> Result<Answered, StoreError> {
    let answered = question_answer(txn, branch, question, decision, at)?;
    if let Answered::Same { row } = &answered
        && row.status == QuestionStatus::Answered
    {
        // Whoever repeats it has not seen that it was heard.
        txn.append(&resolved(row, decision), at)?;
    }
    Ok(answered)
}

fn resolved(row: &QuestionRow, decision: &QuestionDecision) -> AgentEvent {
    AgentEvent::InteractionResolved {
        session_id: row.session_id.clone(),
        branch_id: row.branch_id.clone(),
        request_id: row.request_id.clone(),
        approved: decision.approved,
        notes: decision.notes.clone(),
        edited_content: decision.edited_content.clone(),
        dismissed: false,
    }
}
