//! Owns session rows: one conditional write each. Never touches queue, turn or question rows, and no owner row
//! but that of a branch it makes; deleting is in `session_delete`.
//! Tested in `storage/tests/it/sessions.rs`.

use diesel::prelude::*;
use gent_protocol::{
    AgentEvent, Approval, BranchId, EnvironmentMap, Millis, ModelId, Page, ReasoningEffort, RequestId,
    Session, SessionAdmission, SessionId, UpdatedSettings, WorkspaceId,
};
use serde_json::json;

use crate::codec::{bad_cursor, id, json, optional_id, to_json, to_word, word};
use crate::operations::{operation_get, operation_put};
use crate::schema::{branch_owners, branches, session_counters, sessions};
use crate::{Reader, StoreError, WriteTxn};

/// A session to be made.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Its id.
    pub session: SessionId,
    /// The id of its first branch.
    pub branch: BranchId,
    /// Its name.
    pub name: String,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Its model.
    pub model: Option<ModelId>,
    /// Its effort.
    pub reasoning: Option<ReasoningEffort>,
    /// What its turns run under.
    pub admission: Option<SessionAdmission>,
    /// Whether its tool calls need somebody's leave.
    pub approval: Approval,
    /// What its processes start from.
    pub env: EnvironmentMap,
    /// The prompt that is sent after it; kept with the outcome.
    pub initial_prompt: Option<String>,
    /// Idempotency key.
    pub request: Option<RequestId>,
    /// The time.
    pub at: Millis,
}

/// The outcome of `session_create`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCreated {
    /// The session.
    pub session_id: SessionId,
    /// Its first branch.
    pub branch_id: BranchId,
    /// Its name.
    pub name: String,
    /// The request was known: this is its first outcome, nothing was written now.
    pub replayed: bool,
}

/// A session with what the wire does not show.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// The session as clients see it; `updatedAt` is the greatest of its row and its counter.
    pub session: Session,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// What its processes start from.
    pub env: EnvironmentMap,
    /// It is being deleted.
    pub deleting: bool,
}

/// The operation under which outcomes of `session_create` are kept.
pub(crate) const CREATE: &str = "session.create";

/// The name of a session's first branch.
const FIRST_BRANCH: &str = "main";

/// Makes a session with its first branch, its owner row, its counter, `SessionStarted` and, for a keyed request, the
/// outcome. A repeated request gets the first outcome whatever its input.
pub fn session_create(txn: &mut WriteTxn<'_>, new: &NewSession) -> Result<SessionCreated, StoreError> {
    if let Some(request) = &new.request
        && let Some(first) = operation_get(txn, &new.workspace, CREATE, request.as_str())?
    {
        let name = first.result.get("name").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
        return Ok(SessionCreated {
            session_id: first.session,
            branch_id: first.branch,
            name,
            replayed: true,
        });
    }
    session_insert(txn, new)?;
    diesel::insert_into(session_counters::table)
        .values((
            session_counters::session_id.eq(new.session.as_str()),
            session_counters::workspace_id.eq(Some(new.workspace.as_str())),
            session_counters::next_seq.eq(1),
            session_counters::updated_at.eq(new.at.0),
        ))
        .execute(txn.connection())?;
    diesel::insert_into(branches::table)
        .values((
            branches::id.eq(new.branch.as_str()),
            branches::session_id.eq(new.session.as_str()),
            branches::ordinal.eq(1),
            branches::name.eq(Some(FIRST_BRANCH)),
            branches::created_at.eq(new.at.0),
        ))
        .execute(txn.connection())?;
    diesel::insert_into(branch_owners::table)
        .values((
            branch_owners::branch_id.eq(new.branch.as_str()),
            branch_owners::session_id.eq(new.session.as_str()),
            branch_owners::node_start.eq(""),
            branch_owners::epoch.eq(0),
        ))
        .execute(txn.connection())?;
    txn.append(
        &AgentEvent::SessionStarted { session_id: new.session.clone(), branch_id: new.branch.clone() },
        new.at,
    )?;
    if let Some(request) = &new.request {
        let mut result = json!({ "sessionId": new.session, "branchId": new.branch, "name": new.name });
        if let (Some(fields), Some(prompt)) = (result.as_object_mut(), &new.initial_prompt) {
            fields.insert("initialPrompt".to_owned(), json!(prompt));
        }
        let (session, branch) = (&new.session, &new.branch);
        operation_put(txn, &new.workspace, CREATE, request.as_str(), &result, session, branch, new.at)?;
    }
    Ok(SessionCreated {
        session_id: new.session.clone(),
        branch_id: new.branch.clone(),
        name: new.name.clone(),
        replayed: false,
    })
}

fn session_insert(txn: &mut WriteTxn<'_>, new: &NewSession) -> Result<(), StoreError> {
    // An admission of nothing is none: a stored `{}` would stop a handoff from inheriting.
    let admission = new.admission.as_ref().filter(|admission| **admission != SessionAdmission::default());
    diesel::insert_into(sessions::table)
        .values((
            sessions::id.eq(new.session.as_str()),
            sessions::workspace_id.eq(new.workspace.as_str()),
            sessions::name.eq(Some(&new.name)),
            sessions::cwd.eq(new.cwd.as_deref()),
            sessions::model_id.eq(new.model.as_ref().map(ModelId::as_str)),
            sessions::reasoning_level.eq(new.reasoning.as_ref().map(to_word).transpose()?),
            sessions::active_branch_id.eq(Some(new.branch.as_str())),
            sessions::thread_id.eq(new.session.as_str()),
            sessions::admission_json.eq(admission.map(to_json).transpose()?),
            sessions::approval.eq(to_word(&new.approval)?),
            sessions::env_json.eq(to_json(&new.env)?),
            sessions::created_at.eq(new.at.0),
            sessions::updated_at.eq(new.at.0),
        ))
        .execute(txn.connection())?;
    Ok(())
}

/// Reads a session of a workspace; one of another workspace or one that is being deleted is none (I15).
pub fn session_get(
    r: &mut impl Reader,
    workspace: &WorkspaceId,
    id: &SessionId,
) -> Result<Option<SessionRow>, StoreError> {
    let found = session_find(r, id)?;
    Ok(found.filter(|row| row.workspace == *workspace && !row.deleting))
}

/// Reads a session of any workspace, also one that is being deleted. For the engine, and to name the directory that
/// a session belongs to; what a client of another workspace may see is `session_get`.
pub fn session_find(r: &mut impl Reader, id: &SessionId) -> Result<Option<SessionRow>, StoreError> {
    let found: Option<(SessionColumns, Option<i64>)> = sessions::table
        .left_join(session_counters::table.on(session_counters::session_id.eq(sessions::id)))
        .filter(sessions::id.eq(id.as_str()))
        .select((sessions::all_columns, session_counters::updated_at.nullable()))
        .first(r.connection())
        .optional()?;
    found.map(|(columns, changed)| columns.into_row(changed)).transpose()
}

/// Lists the sessions of a workspace, newest change first; those that are being deleted are left out. A row that
/// does not decode hides itself, with a warning. A cursor from elsewhere is refused.
pub fn session_list(
    r: &mut impl Reader,
    workspace: &WorkspaceId,
    limit: u32,
    cursor: Option<&str>,
) -> Result<Page<Session>, StoreError> {
    let mut query = session_counters::table
        .inner_join(sessions::table.on(sessions::id.eq(session_counters::session_id)))
        .filter(session_counters::workspace_id.eq(workspace.as_str()))
        .filter(sessions::deleting_at.is_null())
        .select((sessions::all_columns, session_counters::updated_at))
        .order((session_counters::updated_at.desc(), session_counters::session_id.desc()))
        .limit(i64::from(limit) + 1)
        .into_boxed();
    if let Some(cursor) = cursor {
        let (changed, session) = cursor
            .split_once(':')
            .and_then(|(changed, session)| Some((changed.parse::<i64>().ok()?, session)))
            .ok_or_else(|| bad_cursor("sessions"))?;
        query = query.filter(session_counters::updated_at.lt(changed).or(
            session_counters::updated_at.eq(changed).and(session_counters::session_id.lt(session.to_owned())),
        ));
    }
    let mut rows: Vec<(SessionColumns, i64)> = query.load(r.connection())?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|(columns, changed)| format!("{changed}:{}", columns.id));
    let items = rows
        .into_iter()
        .filter_map(|(columns, changed)| match columns.into_row(Some(changed)) {
            Ok(row) => Some(row.session),
            Err(error) => {
                tracing::warn!(%error, "session.undecodable");
                None
            }
        })
        .collect();
    Ok(Page { items, next })
}

/// Replaces what the session's processes start from.
pub fn session_set_env(
    txn: &mut WriteTxn<'_>,
    id: &SessionId,
    env: &EnvironmentMap,
) -> Result<(), StoreError> {
    let row = sessions::table.find(id.as_str()).filter(sessions::deleting_at.is_null());
    let changed = diesel::update(row).set(sessions::env_json.eq(to_json(env)?)).execute(txn.connection())?;
    if changed == 0 {
        return Err(StoreError::Terminated { session: id.clone() });
    }
    Ok(())
}

/// Changes a session's settings: the outer none keeps what is stored, the inner one clears it. Appends
/// `SessionSettingsUpdated` with all settings, unless nothing changed.
pub fn session_update_settings(
    txn: &mut WriteTxn<'_>,
    workspace: &WorkspaceId,
    id: &SessionId,
    model: Option<Option<ModelId>>,
    reasoning: Option<Option<ReasoningEffort>>,
    at: Millis,
) -> Result<UpdatedSettings, StoreError> {
    let Some(row) = session_get(txn, workspace, id)? else {
        return Err(StoreError::NotFound { what: "session", id: id.to_string() });
    };
    let stored = (row.session.model_id, row.session.reasoning_level);
    let wanted = (model.unwrap_or_else(|| stored.0.clone()), reasoning.unwrap_or(stored.1));
    if wanted != stored {
        diesel::update(sessions::table.find(id.as_str()))
            .set((
                sessions::model_id.eq(wanted.0.as_ref().map(ModelId::as_str)),
                sessions::reasoning_level.eq(wanted.1.as_ref().map(to_word).transpose()?),
                sessions::updated_at.eq(at.0),
            ))
            .execute(txn.connection())?;
        txn.append(
            &AgentEvent::SessionSettingsUpdated {
                session_id: id.clone(),
                model_id: wanted.0.clone(),
                reasoning_level: wanted.1,
            },
            at,
        )?;
    }
    Ok(UpdatedSettings { model_id: wanted.0, reasoning_level: wanted.1 })
}

#[derive(Queryable)]
struct SessionColumns {
    id: String,
    workspace_id: String,
    name: Option<String>,
    cwd: Option<String>,
    model_id: Option<String>,
    reasoning_level: Option<String>,
    active_branch_id: Option<String>,
    parent_session_id: Option<String>,
    parent_branch_id: Option<String>,
    thread_id: String,
    admission_json: Option<String>,
    approval: String,
    env_json: String,
    created_at: i64,
    updated_at: i64,
    deleting_at: Option<i64>,
}

impl SessionColumns {
    fn into_row(self, changed: Option<i64>) -> Result<SessionRow, StoreError> {
        let place = || format!("session {}", self.id);
        // An effort of a later version reads as unset: the model's own default is a sensible stand-in.
        let reasoning_level =
            self.reasoning_level.as_deref().and_then(|text| word::<ReasoningEffort>(text, place).ok());
        Ok(SessionRow {
            session: Session {
                id: id(&self.id, place)?,
                model_id: optional_id(self.model_id.as_deref(), place)?,
                reasoning_level,
                active_branch_id: optional_id(self.active_branch_id.as_deref(), place)?,
                parent_session_id: optional_id(self.parent_session_id.as_deref(), place)?,
                parent_branch_id: optional_id(self.parent_branch_id.as_deref(), place)?,
                thread_id: Some(id(&self.thread_id, place)?),
                admission: self.admission_json.as_deref().map(|text| json(text, place)).transpose()?,
                // What is not understood must not allow more than what is.
                approval: word(&self.approval, place).unwrap_or(Approval::Ask),
                created_at: Millis(self.created_at),
                updated_at: Millis(self.updated_at.max(changed.unwrap_or(i64::MIN))),
                name: self.name.clone(),
                cwd: self.cwd.clone(),
            },
            workspace: id(&self.workspace_id, place)?,
            env: json(&self.env_json, place)?,
            deleting: self.deleting_at.is_some(),
        })
    }
}
