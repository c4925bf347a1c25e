//! Owns the dispatch of hooks: order, deadline, and what an error means.
//! Class Projection: an error, a panic or a late answer contributes nothing this time. Tested below.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{Context, HookKind, Notice, PromptSection, TurnAfterInput, TurnProjectionInput};
use gent_protocol::{ExtensionId, SessionId};
use tracing::warn;

use super::Profile;
use crate::limits::HOOK_DEADLINE;
use crate::turn::panic_message;

/// What all handlers contributed to a turn.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Projected {
    pub(crate) sections: Vec<PromptSection>,
    pub(crate) notices: Vec<Notice>,
    /// The last policy that named one.
    pub(crate) model_set: Option<BTreeSet<String>>,
    /// What went wrong, for the transcript.
    pub(crate) failures: Vec<String>,
}

/// Asks every handler of `turnProjection`, in order.
pub(crate) async fn project_turn(
    profile: &Profile,
    context_of: impl Fn(&ExtensionId) -> Context,
    input: &TurnProjectionInput,
) -> Projected {
    let mut all = Projected::default();
    for (extension, handler) in &profile.turn_projections {
        let asked = AssertUnwindSafe(handler.project(context_of(extension), input.clone())).catch_unwind();
        let failure = match tokio::time::timeout(HOOK_DEADLINE, asked).await {
            Ok(Ok(Ok(projection))) => {
                all.sections.extend(projection.prompt_sections);
                let is_blank = |notice: &Notice| notice.content.trim().is_empty();
                all.notices.extend(projection.notices.into_iter().filter(|notice| !is_blank(notice)));
                if let Some(set) = projection.tool_policy.and_then(|policy| policy.model_set) {
                    all.model_set = Some(set);
                }
                continue;
            }
            Ok(Ok(Err(error))) => error,
            Ok(Err(payload)) => format!("it broke: {}", panic_message(payload)),
            Err(_) => format!("it took longer than {} s", HOOK_DEADLINE.as_secs()),
        };
        warn!(extension.id = %extension, hook = "turnProjection", error = failure, "hook.failed");
        all.failures.push(format!("the extension {extension} contributed nothing to this turn: {failure}"));
    }
    all
}

/// Tells every handler of `turnAfter`, one after the other.
pub(crate) async fn turn_after(
    profile: &Profile,
    context_of: impl Fn(&ExtensionId) -> Context,
    input: &TurnAfterInput,
) {
    for (extension, handler) in &profile.turn_afters {
        guarded(extension, HookKind::TurnAfter, handler.turn_after(context_of(extension), input.clone()))
            .await;
    }
}

/// Tells every handler of `loopOpen`, one after the other.
pub(crate) async fn loop_open(profile: &Profile, context_of: impl Fn(&ExtensionId) -> Context) {
    for (extension, handler) in &profile.loop_opens {
        guarded(extension, HookKind::LoopOpen, handler.loop_open(context_of(extension))).await;
    }
}

/// Tells every handler of `sessionDeleted`, one after the other.
pub(crate) async fn session_deleted(profile: &Profile, session: &SessionId) {
    for (extension, handler) in &profile.session_deleteds {
        guarded(extension, HookKind::SessionDeleted, handler.session_deleted(session.clone())).await;
    }
}

/// Runs one handler that can change nothing: what goes wrong with it is reported, and nothing else.
async fn guarded(extension: &ExtensionId, kind: HookKind, handler: BoxFuture<'_, Result<(), String>>) {
    let handled = AssertUnwindSafe(handler).catch_unwind();
    let failure = match tokio::time::timeout(HOOK_DEADLINE, handled).await {
        Ok(Ok(Ok(()))) => return,
        Ok(Ok(Err(error))) => error,
        Ok(Err(payload)) => format!("it broke: {}", panic_message(payload)),
        Err(_) => format!("it took longer than {} s", HOOK_DEADLINE.as_secs()),
    };
    warn!(extension.id = %extension, hook = kind.name(), error = failure, "hook.failed");
}
