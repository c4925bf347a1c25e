//! Owns every bound of the engine, each with its reason and what happens beyond it.
//! Never read from configuration: a bound that a user may set lives in `EngineConfig`.
//! Tested where each is applied; `docs/BEHAVIOUR.md` lists them.

use std::time::Duration;

/// Commands that wait in one lane of a branch. Beyond it: data waits [`DATA_PERMIT_WAIT`], then `Busy`; control is
/// `Busy` at once.
pub const LANE: usize = 64;
/// How long a data command waits for a place in its lane.
pub const DATA_PERMIT_WAIT: Duration = Duration::from_secs(5);
/// Callers of `message.send` that wait on one branch. Beyond it: `LimitExceeded`.
pub const SEND_WAITERS: usize = 256;
/// Follow-ups that wait on one branch. Beyond it: `LimitExceeded{limit:"followUps"}`, nothing is dropped.
pub const FOLLOW_UPS: usize = 10;
/// Steers that wait on one branch. Beyond it: `LimitExceeded{limit:"steers"}`, nothing is dropped.
pub const STEERS: usize = 32;
/// Bytes of text and facts of one question. Beyond it the question fails and the call is told.
pub const QUESTION_BYTES: usize = 64 * 1024;
/// Bytes of an answer's notes and edited text. Beyond it: `LimitExceeded`, the question stays open.
pub const ANSWER_TEXT_BYTES: usize = 1024 * 1024;
/// Re-sends of a command to a branch that moved or died. Beyond it: `Busy`.
pub const RESENDS: u32 = 8;
/// Deaths of one branch's actor within [`DEATH_WINDOW`] that make it `Faulted`.
pub const DEATHS: usize = 3;
/// See [`DEATHS`].
pub const DEATH_WINDOW: Duration = Duration::from_secs(60);
/// How long a closed scope may take to become empty. Beyond it the branch is `Faulted`, never doubled.
pub const SCOPE_CLOSE: Duration = Duration::from_secs(10);
/// Branches that the resume pass opens at once.
pub const RESUME_AT_ONCE: usize = 4;
/// Starts of one turn that may end in the death of the server before it is closed as failed.
pub const TURN_ATTEMPTS: u32 = 3;
/// Model steps of one turn; an agent can only lower it. At the last one tools are refused.
pub const STEPS: u32 = 200;
/// Instructions to go on that one turn may give. Beyond it the turn ends as it stands.
pub const CONTINUATIONS: u32 = 2;
/// Tool calls of one step that run at once; the others wait.
pub const TOOLS_AT_ONCE: usize = 8;
/// Characters of JSON of one tool result that the model sees. Beyond it: head and tail of each long string.
pub const RESULT_CHARS: usize = 8_000;
/// The shortest cut of one string inside a bounded result.
pub const RESULT_STRING_CHARS: usize = 256;
/// Characters of a tool's summary line. Beyond it: cut, then `...`.
pub const SUMMARY_CHARS: usize = 100;
/// Output tokens that are reserved and asked for, at most.
pub const OUTPUT_RESERVE: u64 = 32_000;
/// The wait between two deltas of one turn; text that arrives meanwhile joins the next.
pub const DELTA_WAIT: Duration = Duration::from_millis(25);
/// Bytes of one delta, beyond which it is written without the wait.
pub const DELTA_BYTES: usize = 1_024;
/// Bytes of text, thinking and calls of one answer. Beyond it the stream counts as failed, what came is kept.
pub const ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// Tool calls of one answer. Beyond it the stream counts as failed.
pub const ANSWER_CALLS: usize = 128;
/// Envelopes that a session's ring keeps. Beyond it the oldest leave; a slow subscriber reads the store.
pub const RING_ENVELOPES: usize = 1_024;
/// Bytes that a session's ring keeps.
pub const RING_BYTES: usize = 1024 * 1024;
/// Items of one batch of a subscription.
pub const BATCH_ITEMS: u32 = 64;
/// Bytes of one batch of a subscription; a single larger item is a batch of its own.
pub const BATCH_BYTES: usize = 256 * 1024;
/// Messages of one snapshot.
pub const SNAPSHOT_MESSAGES: u32 = 1_000;
/// Bytes of one snapshot's messages.
pub const SNAPSHOT_BYTES: usize = 8 * 1024 * 1024;
/// Items of a page when the caller names no limit.
pub const PAGE_DEFAULT: u32 = 100;
/// Items of a page, at most.
pub const PAGE_MAX: u32 = 1_000;
/// Messages that one read of the window takes; it reads on until the window is full.
pub const WINDOW_PAGE: u32 = 256;
/// Bytes that one read of the window takes.
pub const WINDOW_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How long an extension may take for one hook. Beyond it: as if it had failed.
pub const HOOK_DEADLINE: Duration = Duration::from_secs(10);
/// How long a stopped tool call may take to return what it has. Beyond it its future is dropped.
pub const TOOL_STOP_GRACE: Duration = Duration::from_secs(2);
/// Profiles that are kept, one for each working directory. Beyond it the one unused longest leaves.
pub const PROFILES: usize = 64;
/// Dead letters whose reason is kept.
pub const DEAD_LETTERS: usize = 100;
/// How long drain waits for turns to reach a step boundary.
pub const DRAIN: Duration = Duration::from_secs(10);
/// How long `server.retire` waits for the same.
pub const RETIRE: Duration = Duration::from_secs(60);
/// Rows that one portion of a delete removes.
pub const SWEEP_ROWS: usize = 500;
/// Bytes of one prompt. Beyond it: `LimitExceeded`, nothing is stored.
pub const PROMPT_BYTES: usize = 4 * 1024 * 1024;
/// Workspaces whose offered credentials are kept. Beyond it the one offered longest ago is forgotten.
pub const CREDENTIAL_WORKSPACES: usize = 1_024;
