//! Owns the branch: one actor for each (workspace, session, branch) that has something to do.
//!
//! ```text
//! BranchHandle ──permit──► mailbox ──► lanes ──pump, one at a time──► a write ──► memory takes over
//! ```
//!
//! Nothing else writes admission, queue or receipt of a branch. Tested beside each part and end to end.

mod actor;
mod admission;
mod ending;
mod handle;
mod key;
mod lanes;
mod latch;
mod messages;
mod opening;
mod scope;
mod state;
mod status;
mod stop;
mod waiters;
mod writer;

pub(crate) use actor::{BranchActor, GoneNote};
pub(crate) use admission::{admit_behind, has_cancel};
pub(crate) use ending::{Receipt, store_receipt};
pub(crate) use handle::{AskError, BranchHandle, Lane, Shared};
pub(crate) use key::BranchKey;
pub(crate) use messages::{BranchError, CancelTurn, CredentialOffered, Idle, Order, Submit, Verdict};
pub(crate) use scope::Scope;
pub(crate) use status::StatusCell;
pub(crate) use stop::record_stop;
pub(crate) use writer::{BranchWriter, Rank};
