//! Owns the rows of text deltas: numbered like events, gone with the message that holds the text.
//! Never the only place of a text for longer than its step.
//! Tested in `storage/tests/it/events.rs`.

use diesel::prelude::*;
use gent_protocol::{BranchId, MessageId, StreamingText};

use crate::codec::{count, id, json};
use crate::schema::{branches, stream_deltas};
use crate::{Reader, StoreError, WriteTxn};

/// Drops the deltas of a step: in the write that stores its message.
pub fn deltas_drop_step(
    txn: &mut WriteTxn<'_>,
    branch: &BranchId,
    message: &MessageId,
    step: u32,
) -> Result<(), StoreError> {
    let Some(session) = session_of(txn, branch)? else { return Ok(()) };
    let of_step = stream_deltas::table
        .filter(stream_deltas::session_id.eq(session))
        .filter(stream_deltas::branch_id.eq(branch.as_str()))
        .filter(stream_deltas::message_id.eq(message.as_str()))
        .filter(stream_deltas::step.eq(i64::from(step)));
    diesel::delete(of_step).execute(txn.connection())?;
    Ok(())
}

/// Drops the deltas of a turn: with its receipt, and in the write that resumes or closes a broken run.
pub fn deltas_drop_turn(
    txn: &mut WriteTxn<'_>,
    branch: &BranchId,
    message: &MessageId,
) -> Result<(), StoreError> {
    let Some(session) = session_of(txn, branch)? else { return Ok(()) };
    let of_turn = stream_deltas::table
        .filter(stream_deltas::session_id.eq(session))
        .filter(stream_deltas::branch_id.eq(branch.as_str()))
        .filter(stream_deltas::message_id.eq(message.as_str()));
    diesel::delete(of_turn).execute(txn.connection())?;
    Ok(())
}

/// The text of the step that streams on a branch, of its newest run; none when nothing streams.
pub fn streaming_text(r: &mut impl Reader, branch: &BranchId) -> Result<Option<StreamingText>, StoreError> {
    let Some(session) = session_of(r, branch)? else { return Ok(None) };
    let of_branch = stream_deltas::table
        .filter(stream_deltas::session_id.eq(session))
        .filter(stream_deltas::branch_id.eq(branch.as_str()));
    let newest: Option<(String, i64, String)> = of_branch
        .clone()
        .select((stream_deltas::message_id, stream_deltas::step, stream_deltas::run))
        .order(stream_deltas::seq.desc())
        .first(r.connection())
        .optional()?;
    let Some((message, step, run)) = newest else { return Ok(None) };
    let texts: Vec<String> = of_branch
        .filter(stream_deltas::message_id.eq(&message))
        .filter(stream_deltas::step.eq(step))
        .filter(stream_deltas::run.eq(&run))
        .select(stream_deltas::text_json)
        .order(stream_deltas::seq)
        .load(r.connection())?;
    let place = || format!("the streaming text of branch {branch}");
    let mut text = String::new();
    for delta in &texts {
        text.push_str(&json::<String>(delta, place)?);
    }
    let offset = text.len() as u64;
    Ok(Some(StreamingText {
        message_id: id(&message, place)?,
        step: count(step, place)?,
        run: id(&run, place)?,
        text,
        offset,
    }))
}

/// Deltas are keyed by session, where only what streams now is found: no further index is worth its writes.
fn session_of(r: &mut impl Reader, branch: &BranchId) -> Result<Option<String>, StoreError> {
    Ok(branches::table.find(branch.as_str()).select(branches::session_id).first(r.connection()).optional()?)
}
