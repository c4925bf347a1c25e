//! Owns the part of a branch's messages that a turn works on: read from the newest backwards until the window
//! is full, then grown message by message. Each message is bounded once and shared from then on, so that every
//! request begins with the bytes of the one before. Tested below and end to end (E19, H20).

use std::collections::HashSet;
use std::sync::Arc;

use gent_extension_api::HostMessage;
use gent_protocol::{
    BranchId, Message, MessageId, MessageKind, Ordinal, Part, Role, ToolCallId, ToolOutcome,
    tool_result_message_id,
};
use gent_storage::{StoreError, StoredMessage, messages_before};
use serde_json::json;

use super::bound::bound_message;
use super::outcome::Unrun;
use super::window::{Entry, tokens};
use crate::limits::{WINDOW_PAGE, WINDOW_PAGE_BYTES};
use crate::profile::wire_name;
use crate::store::StoreHandle;

/// The messages a turn works on.
pub(crate) struct Conversation {
    entries: Vec<Entry>,
    /// Messages of the branch that were not loaded.
    older: u64,
    next: Ordinal,
}

impl Conversation {
    /// Reads the newest messages until they outgrow `window` tokens.
    pub(crate) async fn load(
        store: &StoreHandle,
        branch: &BranchId,
        window: u64,
    ) -> Result<Self, StoreError> {
        let mut loaded: Vec<StoredMessage> = Vec::new();
        let mut chars: u64 = 0;
        loop {
            let before = loaded.first().map(|oldest| oldest.ordinal);
            let branch = branch.clone();
            let page = store
                .read("window.page", move |txn| {
                    messages_before(txn, &branch, before, WINDOW_PAGE, WINDOW_PAGE_BYTES)
                })
                .await?;
            let is_last = page.is_empty() || page.first().is_some_and(|oldest| oldest.ordinal.0 <= 1);
            chars += page.iter().map(|stored| size(&stored.message)).sum::<u64>();
            loaded = page.into_iter().chain(loaded).collect();
            if is_last || tokens(usize::try_from(chars).unwrap_or(usize::MAX)) > window {
                return Ok(Self::of(loaded));
            }
        }
    }

    fn of(mut loaded: Vec<StoredMessage>) -> Self {
        // What was cut off in the middle of a group cannot be sent: it begins with results without calls.
        let is_cut = loaded.first().is_some_and(|oldest| oldest.ordinal.0 > 1);
        let whole =
            loaded.iter().position(|stored| stored.message.role != Role::Tool).unwrap_or(loaded.len());
        if is_cut {
            loaded.drain(..whole);
        }
        let older = loaded.first().map_or(0, |oldest| u64::try_from(oldest.ordinal.0 - 1).unwrap_or(0));
        let next = Ordinal(loaded.last().map_or(1, |newest| newest.ordinal.0 + 1));
        let mut conversation = Self { entries: Vec::new(), older, next };
        for stored in loaded {
            conversation.append(stored.ordinal, stored.message);
        }
        conversation
    }

    fn append(&mut self, ordinal: Ordinal, message: Message) {
        self.entries.push(Entry::new(ordinal, Arc::new(bound_message(on_wire(message)))));
        self.next = Ordinal(ordinal.0 + 1);
    }

    /// Takes in a message that has been, or is about to be, stored at the end.
    pub(crate) fn push(&mut self, message: Message) {
        self.append(self.next, message);
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn older(&self) -> u64 {
        self.older
    }

    /// The message of this id, among the newest.
    pub(crate) fn find(&self, id: &MessageId) -> Option<&HostMessage> {
        self.entries.iter().rev().map(|entry| &entry.message).find(|message| message.id == *id)
    }

    /// Gives every call that has no result one that says so, wherever an earlier turn left it: no provider
    /// takes a call without its result. Only what the model sees changes.
    pub(crate) fn close_open_calls(&mut self, except: &MessageId) {
        let mut at = 0;
        while let Some(entry) = self.entries.get(at) {
            let message = Arc::clone(&entry.message);
            let ordinal = entry.ordinal;
            at += 1;
            if message.tool_calls().next().is_none() || message.id == *except {
                continue;
            }
            let mut has_result: HashSet<ToolCallId> = HashSet::new();
            while let Some(next) = self.entries.get(at) {
                if next.message.role != Role::Tool {
                    break;
                }
                has_result.extend(next.message.tool_outcomes().map(|outcome| outcome.id.clone()));
                at += 1;
            }
            let is_open =
                |call: &&gent_protocol::ToolCall| !call.provider_executed && !has_result.contains(&call.id);
            let outcomes: Vec<Part> = message
                .tool_calls()
                .filter(is_open)
                .map(|call| Part::ToolResult(unrun(&call.id, &call.name, Unrun::Interrupted)))
                .collect();
            if outcomes.is_empty() {
                continue;
            }
            let repair = Message {
                kind: MessageKind::Regular,
                id: tool_result_message_id(&message.id, 0),
                role: Role::Tool,
                parts: outcomes,
                metadata: None,
                turn_duration_ms: None,
                ..(*message).clone()
            };
            self.entries.insert(at, Entry::new(ordinal, Arc::new(repair)));
            at += 1;
        }
    }
}

/// The failed result of a call that did not run or whose result is lost.
pub(crate) fn unrun(id: &ToolCallId, name: &str, why: Unrun) -> ToolOutcome {
    ToolOutcome {
        id: id.clone(),
        name: name.to_owned(),
        is_failure: true,
        result: json!({ "error": why.sentence(), "reason": why.reason() }),
        provider_executed: false,
        options: None,
    }
}

/// Tool names as providers take them.
fn on_wire(mut message: Message) -> Message {
    for part in &mut message.parts {
        match part {
            Part::ToolCall(call) if call.name.contains('.') => call.name = wire_name(&call.name),
            Part::ToolResult(outcome) if outcome.name.contains('.') => {
                outcome.name = wire_name(&outcome.name)
            }
            Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Text { .. }
            | Part::File { .. }
            | Part::Reasoning { .. }
            | Part::ToolApprovalRequest { .. }
            | Part::ToolApprovalResponse { .. } => {}
        }
    }
    message
}

/// Characters that a message costs at the least: long results are bounded, so they count up to their bound.
fn size(message: &Message) -> u64 {
    let of_part = |part: &Part| match part {
        Part::Text { text, .. } | Part::Reasoning { text, .. } => text.len(),
        Part::ToolCall(call) => call.params.to_string().len(),
        Part::ToolResult(outcome) => outcome.result.to_string().len().min(crate::limits::RESULT_CHARS),
        Part::File { .. } => 1_000,
        Part::ToolApprovalRequest { .. } | Part::ToolApprovalResponse { .. } => 0,
    };
    message.parts.iter().map(of_part).map(|size| u64::try_from(size).unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use gent_protocol::{Millis, SessionId, ToolCall};

    use super::super::window::project;
    use super::*;

    fn stored(ordinal: i64, role: Role, parts: Vec<Part>) -> StoredMessage {
        let message = Message {
            kind: MessageKind::Regular,
            id: MessageId::parse(format!("m{ordinal}")).unwrap(),
            session_id: SessionId::parse("s").unwrap(),
            branch_id: BranchId::parse("b").unwrap(),
            role,
            parts,
            created_at: Millis(0),
            turn_duration_ms: None,
            metadata: None,
        };
        StoredMessage { ordinal: Ordinal(ordinal), event: None, message }
    }

    fn call(id: &str) -> Part {
        Part::ToolCall(ToolCall {
            id: ToolCallId::parse(id).unwrap(),
            name: "web.search".into(),
            params: json!({}),
            provider_executed: false,
            options: None,
        })
    }

    #[test]
    fn a_call_that_an_earlier_turn_left_open_is_shown_as_interrupted() {
        let mut conversation = Conversation::of(vec![
            stored(1, Role::User, vec![Part::text("a")]),
            stored(2, Role::Assistant, vec![call("c1"), call("c2")]),
            stored(
                3,
                Role::Tool,
                vec![Part::ToolResult(unrun(
                    &ToolCallId::parse("c1").unwrap(),
                    "web.search",
                    Unrun::StepLimit,
                ))],
            ),
            stored(4, Role::User, vec![Part::text("b")]),
        ]);
        conversation.close_open_calls(&MessageId::parse("none").unwrap());
        let projection = project(conversation.entries(), 0, 10_000, None, None).unwrap();
        let repaired: Vec<_> = projection.messages.iter().flat_map(|m| m.tool_outcomes()).collect();
        assert_eq!(repaired.len(), 2);
        assert_eq!(repaired[1].result["reason"], json!("Interrupted"));
        assert_eq!(repaired[1].name, "web_search");
        conversation.push(stored(5, Role::Assistant, vec![Part::text("c")]).message);
        assert_eq!(conversation.entries().last().unwrap().ordinal, Ordinal(5));
    }

    #[test]
    fn results_whose_calls_were_not_loaded_are_left_out() {
        let conversation = Conversation::of(vec![
            stored(
                7,
                Role::Tool,
                vec![Part::ToolResult(unrun(&ToolCallId::parse("c").unwrap(), "x", Unrun::Interrupted))],
            ),
            stored(8, Role::User, vec![Part::text("b")]),
        ]);
        assert_eq!((conversation.entries().len(), conversation.older()), (1, 7));
    }
}
