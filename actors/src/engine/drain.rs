//! Owns the beginning and the end of an engine's work: the resume pass at start, and the drain before a stop.
//! Tested end to end (I6) and by the crash tests.

use std::time::Duration;

use futures_util::StreamExt;
use gent_protocol::ActorState;
use gent_storage::{TurnRow, TurnState, branch_take, branches_with_queue, turn_put, turns_parked};
use tracing::{info, warn};

use super::Engine;
use super::operator::key_of;
use crate::branch::{BranchKey, has_cancel};
use crate::error::EngineError;
use crate::limits::RESUME_AT_ONCE;

impl Engine {
    /// Starts the resume pass: every branch with an unfinished turn or a queue that wakes is opened, oldest first,
    /// four at a time, behind what clients ask meanwhile. `turns` off: only deletes go on.
    pub fn resume(&self, turns: bool) {
        let engine = self.clone();
        self.beside(async move {
            let resumed = engine.resume_all(turns).await;
            if let Err(error) = resumed {
                warn!(error = %error.chain(), "resume.failed");
            }
        });
    }

    async fn resume_all(&self, turns: bool) -> Result<(), EngineError> {
        self.resume_sweeps().await?;
        if !turns {
            return Ok(());
        }
        let mut keys: Vec<BranchKey> = self.unfinished().await?.iter().map(key_of).collect();
        let stopped = self.stopped_while_waiting().await?;
        let waking = self.store().read("queue.waking", |txn| branches_with_queue(txn)).await?;
        let waking =
            waking.into_iter().map(|(workspace, session, branch)| BranchKey { workspace, session, branch });
        for key in stopped.into_iter().chain(waking) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        info!(n_branches = keys.len(), "resume.started");
        let open = |key: BranchKey| async move {
            match self.open(&key, false).await {
                Ok(handle) => handle.opened().await,
                Err(error) => warn!(branch = %key, error = %error, "resume.branch_failed"),
            }
        };
        futures_util::stream::iter(keys).for_each_concurrent(RESUME_AT_ONCE, open).await;
        Ok(())
    }

    /// The branches whose turn waits for an answer although it was stopped: the server died before its receipt.
    async fn stopped_while_waiting(&self) -> Result<Vec<BranchKey>, EngineError> {
        let read = self.store().read("turns.stopped", |txn| {
            let mut keys = Vec::new();
            for turn in turns_parked(txn)? {
                let key = key_of(&turn);
                if has_cancel(txn, &key, &turn.row.message_id)? {
                    keys.push(key);
                }
            }
            Ok(keys)
        });
        Ok(read.await?)
    }

    /// Takes no new turns and puts running ones aside at their next step boundary. Returns when none runs any
    /// more, or after `deadline`; what still runs then goes on at the next start.
    pub async fn drain(&self, deadline: Duration) {
        self.services().drain.cancel();
        let none_runs = async {
            loop {
                let is_running =
                    self.living(false).await.iter().any(|handle| {
                        matches!(handle.status().state, ActorState::Running | ActorState::Opening)
                    });
                if !is_running {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(deadline, none_runs).await.is_err() {
            info!("drain.deadline_reached");
        }
    }

    /// Marks what was cut as put aside: an orderly stop is no death, however long a model was silent.
    async fn put_running_aside(&self) -> Result<(), EngineError> {
        for turn in self.unfinished().await? {
            if turn.row.state != TurnState::Running {
                continue;
            }
            let node = self.services().node_start.clone();
            let write = self.store().write("branch.putAside", move |txn| {
                branch_take(txn, &turn.row.session_id, &turn.row.branch_id, &node)?;
                let row = TurnRow { state: TurnState::Drained, attempts: 0, ..turn.row.clone() };
                turn_put(txn, &row)
            });
            write.await?;
        }
        Ok(())
    }

    /// Ends every activation. What runs is cut, and goes on at the next start.
    pub async fn stop(&self) {
        self.services().drain.cancel();
        let living = self.living(true).await;
        futures_util::future::join_all(living.iter().map(|handle| handle.close())).await;
        for handle in &living {
            handle.scope().emptied(crate::limits::SCOPE_CLOSE).await;
        }
        self.services().processes.close().await;
        if let Err(error) = self.put_running_aside().await {
            warn!(error = %error.chain(), "stop.turns_not_put_aside");
        }
        self.0.stop.cancel();
    }
}
