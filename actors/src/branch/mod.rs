//! Owns the branch: one actor for each (workspace, session, branch) that has something to do.
//!
//! ```text
//! BranchHandle ──permit──► mailbox ──► lanes ──pump, one at a time──► a write ──► memory takes over
//! ```
//!
//! Nothing else writes admission, queue or receipt of a branch. Tested beside each part and end to end.

mod actor;
mod admission;
mod answer;
mod ending;
mod handle;
mod hooks;
mod key;
mod lanes;
mod latch;
mod mailbox;
mod messages;
mod opening;
mod queue;
mod scope;
mod state;
mod status;
mod steering;
mod stop;
mod waiters;
mod writer;

pub(crate) use actor::{BranchActor, GoneNote, WAITS_FOR_ANSWER};
pub(crate) use admission::admit_behind;
pub(crate) use answer::store_answer;
pub(crate) use ending::{Receipt, store_receipt};
pub(crate) use handle::{AskError, BranchHandle, Lane, Shared};
pub(crate) use key::BranchKey;
pub(crate) use messages::{
    Answer, BranchError, CredentialOffered, Dequeue, DrainAll, Idle, Interject, Interjection, Order, Stop,
    StopOrder, Submission, Submit, SubmitKind, Verdict,
};
pub(crate) use queue::{queue_snapshot, take_all};
pub(crate) use scope::Scope;
pub(crate) use status::{Hold, HoldCounter, StatusCell};
pub(crate) use steering::{Interjected, SteerFlag, interject, join_steers};
pub(crate) use stop::{has_cancel, record_stop};
pub(crate) use writer::{BranchWriter, Rank};
