//! Owns the rows of unfinished turns: from being taken in flight to the receipt, at most one a branch.
//! Never decides what becomes of one. A damaged value of a row is absent, so that the branch stays usable; the row stays
//! as it is until its turn is written again.
//! Tested in `storage/tests/it/rows.rs`, `questions.rs` and `damage.rs` there.

use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use gent_protocol::{Approval, BranchId, MessageId, Millis, RunId, SessionId, WorkspaceId};
use serde_json::Value;

use crate::codec::{count, id, json, to_json, to_word, word};
use crate::messages::branch_has_history;
use crate::schema::{branch_queue, questions, sessions, turns};
use crate::{Reader, StoreError, WriteTxn};

/// What an unfinished turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnState {
    /// It runs, or ran when the process died.
    Running,
    /// It waits for an answer.
    Parked,
    /// It was put aside in an orderly way and is to go on.
    Drained,
}

impl TurnState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Drained => "drained",
        }
    }

    /// A word of a later version reads as running: then the turn is looked at, and not forgotten.
    fn from_text(text: &str) -> Self {
        match text {
            "parked" => Self::Parked,
            "drained" => Self::Drained,
            _ => Self::Running,
        }
    }
}

/// An unfinished turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRow {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// The opening message.
    pub message_id: MessageId,
    /// What it does.
    pub state: TurnState,
    /// Openings that found it running since a step was last committed.
    pub attempts: u32,
    /// The run.
    pub run: RunId,
    /// The last committed step; 0 before the first.
    pub step: u32,
    /// Continuation instructions so far.
    pub continuations: u32,
    /// When it started.
    pub started_at: Millis,
    /// For this turn alone; the session's own when absent.
    pub approval: Option<Approval>,
    /// The route it was given.
    pub route: Option<Value>,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// Its running totals.
    pub totals: Value,
}

/// An unfinished turn with its workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedTurn {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The turn.
    pub row: TurnRow,
}

/// Stores a turn's row, replacing the one it has. Another turn's row on the same branch is a `Conflict`: it must have
/// its receipt first.
pub fn turn_put(txn: &mut WriteTxn<'_>, row: &TurnRow) -> Result<(), StoreError> {
    let columns = (
        turns::state.eq(row.state.as_str()),
        turns::attempts.eq(i64::from(row.attempts)),
        turns::run.eq(row.run.as_str()),
        turns::step.eq(i64::from(row.step)),
        turns::continuations.eq(i64::from(row.continuations)),
        turns::started_at.eq(row.started_at.0),
        turns::approval.eq(row.approval.as_ref().map(to_word).transpose()?),
        turns::route_json.eq(row.route.as_ref().map(to_json).transpose()?),
        turns::waiting_for.eq(row.waiting_for.as_deref()),
        turns::totals_json.eq(to_json(&row.totals)?),
    );
    let open: Option<String> = turns::table
        .find(row.branch_id.as_str())
        .select(turns::message_id)
        .first(txn.connection())
        .optional()?;
    match open {
        Some(open) if open == row.message_id.as_str() => {
            diesel::update(turns::table.find(row.branch_id.as_str()))
                .set(columns)
                .execute(txn.connection())?;
        }
        Some(open) => {
            return Err(StoreError::Conflict {
                message: format!(
                    "branch {} still has the unfinished turn {open}: end it before {}",
                    row.branch_id, row.message_id
                ),
            });
        }
        None => {
            diesel::insert_into(turns::table)
                .values((
                    turns::branch_id.eq(row.branch_id.as_str()),
                    turns::session_id.eq(row.session_id.as_str()),
                    turns::message_id.eq(row.message_id.as_str()),
                    columns,
                ))
                .execute(txn.connection())?;
        }
    }
    Ok(())
}

/// Reads a branch's unfinished turn. Its approval, route or totals are absent where they do not decode, with an error
/// for the operator.
pub fn turn_get(r: &mut impl Reader, branch: &BranchId) -> Result<Option<TurnRow>, StoreError> {
    let found: Option<TurnColumns> = turns::table.find(branch.as_str()).first(r.connection()).optional()?;
    found.map(TurnColumns::into_row).transpose()
}

/// Removes a turn's row: with its receipt. Another turn's row stays.
pub fn turn_delete(txn: &mut WriteTxn<'_>, branch: &BranchId, message: &MessageId) -> Result<(), StoreError> {
    let row = turns::table.find(branch.as_str()).filter(turns::message_id.eq(message.as_str()));
    diesel::delete(row).execute(txn.connection())?;
    Ok(())
}

/// The turns that are to go on, oldest first: running ones, drained ones, and parked ones that have an answer. Not those
/// of sessions that are being deleted. A row that does not decode hides itself, with an error for the operator.
pub fn turns_unfinished(r: &mut impl Reader) -> Result<Vec<UnfinishedTurn>, StoreError> {
    let mut rows: Vec<(String, TurnColumns)> = turns::table
        .inner_join(sessions::table.on(sessions::id.eq(turns::session_id)))
        .filter(sessions::deleting_at.is_null())
        .filter(sql::<Bool>("turns.state <> 'parked'"))
        .select((sessions::workspace_id, turns::all_columns))
        .load(r.connection())?;
    // A statement of its own: with an `OR` neither half would be read by its index.
    let answered: Vec<(String, TurnColumns)> = turns::table
        .inner_join(sessions::table.on(sessions::id.eq(turns::session_id)))
        .inner_join(
            questions::table.on(questions::branch_id
                .eq(turns::branch_id)
                .and(questions::turn_message_id.eq(turns::message_id))
                .and(sql::<Bool>("questions.status = 'answered'"))),
        )
        .filter(sessions::deleting_at.is_null())
        .filter(sql::<Bool>("turns.state = 'parked'"))
        .select((sessions::workspace_id, turns::all_columns))
        .load(r.connection())?;
    rows.extend(answered);
    Ok(oldest_first(rows))
}

/// The turns that wait for an answer, oldest first, also those that have one and have not gone on yet. Not those of
/// sessions that are being deleted. A row that does not decode hides itself, with an error for the operator.
pub fn turns_parked(r: &mut impl Reader) -> Result<Vec<UnfinishedTurn>, StoreError> {
    let rows: Vec<(String, TurnColumns)> = turns::table
        .inner_join(sessions::table.on(sessions::id.eq(turns::session_id)))
        .filter(sessions::deleting_at.is_null())
        .filter(sql::<Bool>("turns.state = 'parked'"))
        .select((sessions::workspace_id, turns::all_columns))
        .load(r.connection())?;
    Ok(oldest_first(rows))
}

/// The turns that decode, each once.
fn oldest_first(mut rows: Vec<(String, TurnColumns)>) -> Vec<UnfinishedTurn> {
    rows.sort_by(|(_, a), (_, b)| (a.started_at, &a.branch_id).cmp(&(b.started_at, &b.branch_id)));
    // A turn with several answers was found by each of them.
    rows.dedup_by(|(_, a), (_, b)| a.branch_id == b.branch_id);
    rows.into_iter()
        .filter_map(|(workspace, columns)| {
            let branch = columns.branch_id.clone();
            let turn = id(&workspace, || format!("the workspace of branch {branch}"))
                .and_then(|workspace| Ok(UnfinishedTurn { workspace, row: columns.into_row()? }));
            match turn {
                Ok(turn) => Some(turn),
                Err(error) => {
                    tracing::error!(branch.id = branch, %error, "turn.undecodable");
                    None
                }
            }
        })
        .collect()
}

/// The branches that are to be woken at start: their queue has an item that wakes, or any item while the branch has
/// history. Not those of sessions that are being deleted. A row that does not decode hides itself, with an error for the
/// operator.
pub fn branches_with_queue(
    r: &mut impl Reader,
) -> Result<Vec<(WorkspaceId, SessionId, BranchId)>, StoreError> {
    let rows: Vec<(String, String, String, bool)> = branch_queue::table
        .inner_join(sessions::table.on(sessions::id.eq(branch_queue::session_id)))
        .filter(sessions::deleting_at.is_null())
        .select((sessions::workspace_id, sessions::id, branch_queue::branch_id, branch_queue::wake))
        .order((branch_queue::branch_id, branch_queue::ordinal))
        .load(r.connection())?;
    let mut waking: Vec<(WorkspaceId, SessionId, BranchId)> = Vec::new();
    for (workspace, session, branch, wakes) in rows {
        if waking.last().is_some_and(|(_, _, last)| last.as_str() == branch) {
            continue;
        }
        let (workspace, session, branch) = match queue_place(&workspace, &session, &branch) {
            Ok(place) => place,
            Err(error) => {
                tracing::error!(branch.id = branch, %error, "queue.undecodable");
                continue;
            }
        };
        if wakes || branch_has_history(r, &branch)? {
            waking.push((workspace, session, branch));
        }
    }
    Ok(waking)
}

fn queue_place(
    workspace: &str,
    session: &str,
    branch: &str,
) -> Result<(WorkspaceId, SessionId, BranchId), StoreError> {
    let place = || format!("the queue of branch {branch}");
    Ok((id(workspace, place)?, id(session, place)?, id(branch, place)?))
}

/// The value, or none with an error for the operator that names the row.
fn lenient<T>(value: Result<T, StoreError>) -> Option<T> {
    value.inspect_err(|error| tracing::error!(%error, "turn.value_undecodable")).ok()
}

#[derive(Queryable)]
struct TurnColumns {
    branch_id: String,
    session_id: String,
    message_id: String,
    state: String,
    attempts: i64,
    run: String,
    step: i64,
    continuations: i64,
    started_at: i64,
    approval: Option<String>,
    route_json: Option<String>,
    waiting_for: Option<String>,
    totals_json: String,
}

impl TurnColumns {
    fn into_row(self) -> Result<TurnRow, StoreError> {
        let place = || format!("the unfinished turn of branch {}", self.branch_id);
        Ok(TurnRow {
            session_id: id(&self.session_id, place)?,
            branch_id: id(&self.branch_id, place)?,
            message_id: id(&self.message_id, place)?,
            state: TurnState::from_text(&self.state),
            attempts: count(self.attempts, place)?,
            run: id(&self.run, place)?,
            step: count(self.step, place)?,
            continuations: count(self.continuations, place)?,
            started_at: Millis(self.started_at),
            approval: self
                .approval
                .as_deref()
                // Unreadable, it asks: to allow more than was said would be worse.
                .map(|text| {
                    lenient(word(text, || format!("the approval of {}", place()))).unwrap_or(Approval::Ask)
                }),
            route: self
                .route_json
                .as_deref()
                .and_then(|text| lenient(json(text, || format!("the route of {}", place())))),
            totals: lenient(json(&self.totals_json, || format!("the totals of {}", place())))
                .unwrap_or_default(),
            waiting_for: self.waiting_for.clone(),
        })
    }
}
