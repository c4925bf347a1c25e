//! Owns the rows of questions to a person: at most one of a branch is shown, the others wait in the order in which they
//! were asked. The event that tells of a question is appended by the write that shows, answers or closes it.
//! Never decides who asks or what an answer means. A closed row stays, so that a late repeat of its answer is told apart.
//! Tested in `storage/tests/it/questions.rs`.

use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use gent_protocol::{
    AgentEvent, BranchId, InteractionRequestId, MessageId, Millis, Question, QuestionDecision, SessionId,
    ToolCallId,
};

use crate::codec::{count, id, json, to_json};
use crate::schema::questions;
use crate::{Reader, StoreError, WriteTxn};

/// Where a question is on its way from the ask to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionStatus {
    /// Another one of the branch is shown.
    Waiting,
    /// A person may answer it.
    Shown,
    /// It is answered, and the call that asked has not taken the answer.
    Answered,
    /// The call that asked has taken the answer.
    Taken,
    /// It is over: a repeat of the ask is another question.
    Closed,
}

impl QuestionStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Shown => "shown",
            Self::Answered => "answered",
            Self::Taken => "taken",
            Self::Closed => "closed",
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        let all = [Self::Waiting, Self::Shown, Self::Answered, Self::Taken, Self::Closed];
        all.into_iter().find(|status| status.as_str() == text)
    }
}

/// A question that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewQuestion {
    /// Its id.
    pub request_id: InteractionRequestId,
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// The opening message of the turn that asks.
    pub turn: MessageId,
    /// The message that holds the call that asks.
    pub assistant: MessageId,
    /// The call that asks.
    pub call: ToolCallId,
    /// Which ask of that call, from 0.
    pub occurrence: u32,
    /// What is asked.
    pub question: Question,
    /// The time.
    pub at: Millis,
}

/// A stored question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionRow {
    /// Its id.
    pub request_id: InteractionRequestId,
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// The opening message of the turn that asks.
    pub turn: MessageId,
    /// The message that holds the call that asks.
    pub assistant: MessageId,
    /// The call that asks.
    pub call: ToolCallId,
    /// Which ask of that call, from 0.
    pub occurrence: u32,
    /// What is asked.
    pub question: Question,
    /// Where it is on its way.
    pub status: QuestionStatus,
    /// The answer: always there when answered or taken, perhaps when closed.
    pub decision: Option<QuestionDecision>,
    /// When it was asked.
    pub created_at: Millis,
}

/// The outcome of `question_ask`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It is stored now: shown, or waiting behind the one that is.
    Stored(QuestionRow),
    /// The same ask of the call had the same question already; its row, perhaps with the answer.
    Known(QuestionRow),
}

/// The outcome of `question_answer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// The question was shown and has this answer now.
    First {
        /// The question, answered.
        row: Box<QuestionRow>,
    },
    /// It has the same answer already; nothing was written. Only one that is still `Answered` is to be taken: of a
    /// `Taken` or `Closed` one the call has had its answer.
    Same {
        /// The question as it is stored.
        row: Box<QuestionRow>,
    },
    /// It has another answer; nothing was written.
    Different,
    /// No such question of this branch may be answered: unknown, waiting, or closed without an answer.
    Unknown {
        /// The one that may.
        shown: Option<InteractionRequestId>,
    },
}

/// Stores a question and shows it, or lets it wait behind the one that is shown. The same ask with the same question is
/// known; with another question the old one is closed. All of earlier steps are closed with it: their calls have ended, or a
/// later step could not ask.
pub fn question_ask(txn: &mut WriteTxn<'_>, new: &NewQuestion) -> Result<Asked, StoreError> {
    let question_json = to_json(&new.question)?;
    let mut known = None;
    for open in open_rows(txn, &new.branch_id)? {
        let columns = &open.columns;
        let is_of_message = columns.assistant_message_id == new.assistant.as_str();
        let is_same_ask = is_of_message
            && columns.tool_call_id == new.call.as_str()
            && columns.occurrence == i64::from(new.occurrence);
        // By value or by text: a value that JSON changes on its way is still the same question.
        let is_same_question =
            |row: &QuestionRow| row.question == new.question || columns.question_json == question_json;
        if is_same_ask && open.row.as_ref().is_some_and(is_same_question) {
            known = open.row.map(|row| row.request_id);
        } else if is_same_ask || !is_of_message {
            close_row(txn, columns, new.at)?;
        }
    }
    let is_known = known.is_some();
    let request_id = known.unwrap_or_else(|| new.request_id.clone());
    if !is_known {
        insert(txn, new, &question_json)?;
    }
    show_next(txn, &new.branch_id, new.at)?;
    let row = question_get(txn, &request_id)?
        .ok_or_else(|| StoreError::NotFound { what: "question", id: request_id.to_string() })?;
    Ok(if is_known { Asked::Known(row) } else { Asked::Stored(row) })
}

/// Answers the shown question of a branch, tells of it, and shows the oldest one that waits.
pub fn question_answer(
    txn: &mut WriteTxn<'_>,
    branch: &BranchId,
    request_id: &InteractionRequestId,
    decision: &QuestionDecision,
    at: Millis,
) -> Result<Answered, StoreError> {
    let row = question_get(txn, request_id)?.filter(|row| row.branch_id == *branch);
    match row {
        Some(mut row) if row.status == QuestionStatus::Shown => {
            diesel::update(questions::table.find(request_id.as_str()))
                .set((
                    questions::status.eq(QuestionStatus::Answered.as_str()),
                    questions::decision_json.eq(Some(to_json(decision)?)),
                ))
                .execute(txn.connection())?;
            txn.append(
                &AgentEvent::InteractionResolved {
                    session_id: row.session_id.clone(),
                    branch_id: branch.clone(),
                    request_id: request_id.clone(),
                    approved: decision.approved,
                    notes: decision.notes.clone(),
                    edited_content: decision.edited_content.clone(),
                    dismissed: false,
                },
                at,
            )?;
            show_next(txn, branch, at)?;
            row.status = QuestionStatus::Answered;
            row.decision = Some(decision.clone());
            Ok(Answered::First { row: Box::new(row) })
        }
        Some(row) if row.decision.as_ref() == Some(decision) => Ok(Answered::Same { row: Box::new(row) }),
        Some(row) if row.decision.is_some() => Ok(Answered::Different),
        Some(_) | None => {
            let shown = question_shown(txn, branch)?.map(|row| row.request_id);
            Ok(Answered::Unknown { shown })
        }
    }
}

/// Marks an answer as taken by the call that asked; false when there was none to take.
pub fn question_take(txn: &mut WriteTxn<'_>, request_id: &InteractionRequestId) -> Result<bool, StoreError> {
    let answered = questions::table
        .find(request_id.as_str())
        .filter(questions::status.eq(QuestionStatus::Answered.as_str()));
    let taken = diesel::update(answered)
        .set(questions::status.eq(QuestionStatus::Taken.as_str()))
        .execute(txn.connection())?;
    Ok(taken > 0)
}

/// Closes a question. Where it was shown, that is told as dismissed and the oldest one that waits is shown. One that is
/// closed or not there stays so.
pub fn question_close(
    txn: &mut WriteTxn<'_>,
    request_id: &InteractionRequestId,
    at: Millis,
) -> Result<(), StoreError> {
    let Some(columns) = columns_of(txn, request_id)? else { return Ok(()) };
    if columns.status == QuestionStatus::Closed.as_str() {
        return Ok(());
    }
    let branch: BranchId = id(&columns.branch_id, || columns.place())?;
    close_row(txn, &columns, at)?;
    show_next(txn, &branch, at)
}

/// Closes all questions of a turn, with its receipt. The shown one is told as dismissed; the waiting ones were never
/// shown and are not told of.
pub fn questions_close_turn(
    txn: &mut WriteTxn<'_>,
    branch: &BranchId,
    turn: &MessageId,
    at: Millis,
) -> Result<(), StoreError> {
    for open in open_rows(txn, branch)? {
        if open.columns.turn_message_id == turn.as_str() {
            close_row(txn, &open.columns, at)?;
        }
    }
    // Only now: of the turn that ends none may be shown for a moment.
    show_next(txn, branch, at)
}

/// Reads a question in whatever state. One that does not decode is none, with an error for the operator.
pub fn question_get(
    r: &mut impl Reader,
    request_id: &InteractionRequestId,
) -> Result<Option<QuestionRow>, StoreError> {
    let Some(columns) = columns_of(r, request_id)? else { return Ok(None) };
    if columns.status == QuestionStatus::Closed.as_str() {
        return Ok(columns.decode());
    }
    let branch: BranchId = id(&columns.branch_id, || columns.place())?;
    let open = open_rows(r, &branch)?.into_iter().filter_map(|open| open.row);
    Ok(open.into_iter().find(|row| row.request_id == *request_id))
}

/// The questions of a step's calls that are not closed, in the order in which they were asked. One that does not decode
/// is left out, with an error for the operator; one whose answer does not decode is asked again.
pub fn questions_of_step(
    r: &mut impl Reader,
    branch: &BranchId,
    assistant: &MessageId,
) -> Result<Vec<QuestionRow>, StoreError> {
    let open = open_rows(r, branch)?.into_iter().filter_map(|open| open.row);
    Ok(open.filter(|row| row.assistant == *assistant).collect())
}

/// The question of a branch that a person may answer.
pub fn question_shown(r: &mut impl Reader, branch: &BranchId) -> Result<Option<QuestionRow>, StoreError> {
    let mut open = open_rows(r, branch)?.into_iter().filter_map(|open| open.row);
    Ok(open.find(|row| row.status == QuestionStatus::Shown))
}

/// A row that is not closed.
struct Open {
    /// As it stands.
    columns: QuestionColumns,
    /// As it is read; none where it does not decode. Its status is another one than the stored where its answer is lost.
    row: Option<QuestionRow>,
}

impl Open {
    fn is(&self, status: QuestionStatus) -> bool {
        self.row.as_ref().is_some_and(|row| row.status == status)
    }
}

/// The rows of a branch that are not closed, in the order of the asks; few, since a turn's end closes its own and an ask
/// those of earlier steps. Of the rows whose answer is lost the first reads as shown where no other is.
fn open_rows(r: &mut impl Reader, branch: &BranchId) -> Result<Vec<Open>, StoreError> {
    let mut rows: Vec<QuestionColumns> = questions::table
        .filter(questions::branch_id.eq(branch.as_str()))
        // As a literal: a bound value would not be seen to fit the index of the open rows.
        .filter(sql::<Bool>("questions.status <> 'closed'"))
        .load(r.connection())?;
    // Here and not in the statement: SQLite would take the index that has the order, and read all closed rows by it.
    rows.sort_by_key(|columns| columns.ordinal);
    let mut open: Vec<Open> =
        rows.into_iter().map(|columns| Open { row: columns.decode(), columns }).collect();
    if !open.iter().any(|open| open.is(QuestionStatus::Shown)) {
        let lost = open.iter_mut().find(|open| open.columns.had_answer() && open.is(QuestionStatus::Waiting));
        if let Some(row) = lost.and_then(|open| open.row.as_mut()) {
            row.status = QuestionStatus::Shown;
        }
    }
    Ok(open)
}

/// Makes the rows what they read as, and shows the oldest that waits where none is shown.
fn show_next(txn: &mut WriteTxn<'_>, branch: &BranchId, at: Millis) -> Result<(), StoreError> {
    let open = open_rows(txn, branch)?;
    // A shown row that does not decode would keep all others of the branch from being shown.
    for open in open.iter().filter(|open| open.row.is_none()) {
        if open.columns.status == QuestionStatus::Shown.as_str() {
            close_row(txn, &open.columns, at)?;
        }
    }
    let shown = open.iter().position(|open| open.is(QuestionStatus::Shown));
    let shown = shown.or_else(|| open.iter().position(|open| open.is(QuestionStatus::Waiting)));
    for (idx, open) in open.iter().enumerate() {
        let Some(row) = &open.row else { continue };
        let status = if Some(idx) == shown { QuestionStatus::Shown } else { row.status };
        if open.columns.status == status.as_str() {
            continue;
        }
        diesel::update(questions::table.find(row.request_id.as_str()))
            .set((questions::status.eq(status.as_str()), questions::decision_json.eq(None::<String>)))
            .execute(txn.connection())?;
        if status == QuestionStatus::Shown {
            txn.append(
                &AgentEvent::InteractionPresented {
                    session_id: row.session_id.clone(),
                    branch_id: row.branch_id.clone(),
                    request_id: row.request_id.clone(),
                    text: row.question.text.clone(),
                    metadata: row.question.metadata.clone(),
                },
                at,
            )?;
        }
    }
    Ok(())
}

/// Stores a new question as waiting.
fn insert(txn: &mut WriteTxn<'_>, new: &NewQuestion, question_json: &str) -> Result<(), StoreError> {
    let newest: Option<i64> = questions::table
        .filter(questions::branch_id.eq(new.branch_id.as_str()))
        .select(questions::ordinal)
        .order(questions::ordinal.desc())
        .first(txn.connection())
        .optional()?;
    diesel::insert_into(questions::table)
        .values((
            questions::request_id.eq(new.request_id.as_str()),
            questions::session_id.eq(new.session_id.as_str()),
            questions::branch_id.eq(new.branch_id.as_str()),
            questions::ordinal.eq(newest.unwrap_or_default() + 1),
            questions::turn_message_id.eq(new.turn.as_str()),
            questions::assistant_message_id.eq(new.assistant.as_str()),
            questions::tool_call_id.eq(new.call.as_str()),
            questions::occurrence.eq(i64::from(new.occurrence)),
            questions::question_json.eq(question_json),
            questions::status.eq(QuestionStatus::Waiting.as_str()),
            questions::created_at.eq(new.at.0),
        ))
        .execute(txn.connection())?;
    Ok(())
}

/// Closes one row; that a shown one was dismissed is told.
fn close_row(txn: &mut WriteTxn<'_>, columns: &QuestionColumns, at: Millis) -> Result<(), StoreError> {
    diesel::update(questions::table.find(&columns.request_id))
        .set(questions::status.eq(QuestionStatus::Closed.as_str()))
        .execute(txn.connection())?;
    if columns.status != QuestionStatus::Shown.as_str() {
        return Ok(());
    }
    let place = || columns.place();
    txn.append(
        &AgentEvent::InteractionResolved {
            session_id: id(&columns.session_id, place)?,
            branch_id: id(&columns.branch_id, place)?,
            request_id: id(&columns.request_id, place)?,
            approved: false,
            notes: None,
            edited_content: None,
            dismissed: true,
        },
        at,
    )?;
    Ok(())
}

fn columns_of(
    r: &mut impl Reader,
    request_id: &InteractionRequestId,
) -> Result<Option<QuestionColumns>, StoreError> {
    Ok(questions::table.find(request_id.as_str()).first(r.connection()).optional()?)
}

#[derive(Queryable)]
struct QuestionColumns {
    request_id: String,
    session_id: String,
    branch_id: String,
    ordinal: i64,
    turn_message_id: String,
    assistant_message_id: String,
    tool_call_id: String,
    occurrence: i64,
    question_json: String,
    status: String,
    decision_json: Option<String>,
    created_at: i64,
}

impl QuestionColumns {
    fn place(&self) -> String {
        format!("question {} of branch {}", self.request_id, self.branch_id)
    }

    fn had_answer(&self) -> bool {
        [QuestionStatus::Answered.as_str(), QuestionStatus::Taken.as_str()].contains(&self.status.as_str())
    }

    /// The row, or none with an error for the operator.
    fn decode(&self) -> Option<QuestionRow> {
        self.to_row().inspect_err(|error| tracing::error!(%error, "question.undecodable")).ok()
    }

    fn to_row(&self) -> Result<QuestionRow, StoreError> {
        let place = || self.place();
        let stored = QuestionStatus::from_text(&self.status).ok_or_else(|| StoreError::Conflict {
            message: format!("{} is of status {:?}", self.place(), self.status),
        })?;
        let decision: Option<QuestionDecision> = self.decision_json.as_deref().and_then(|text| {
            let decoded = json(text, || format!("the answer to {}", self.place()));
            decoded.inspect_err(|error| tracing::error!(%error, "question.answer_undecodable")).ok()
        });
        // A lost answer is asked for again.
        let is_lost = self.had_answer() && decision.is_none();
        Ok(QuestionRow {
            request_id: id(&self.request_id, place)?,
            session_id: id(&self.session_id, place)?,
            branch_id: id(&self.branch_id, place)?,
            turn: id(&self.turn_message_id, place)?,
            assistant: id(&self.assistant_message_id, place)?,
            call: id(&self.tool_call_id, place)?,
            occurrence: count(self.occurrence, place)?,
            question: json(&self.question_json, place)?,
            status: if is_lost { QuestionStatus::Waiting } else { stored },
            decision,
            created_at: Millis(self.created_at),
        })
    }
}
