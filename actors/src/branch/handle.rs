//! Owns the way to an activation: a permit, then the mailbox. Others hold a handle, never the address.
//! Never opens a branch. Tested through the directory and end to end.

use std::sync::Arc;

use actix::Addr;
use gent_protocol::{LaneDepth, MessageId};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::actor::BranchActor;
use super::latch::LatchSlot;
use super::messages::{BranchError, Close, Order};
use super::scope::Scope;
use super::status::{HoldCounter, StatusCell};
use super::steering::SteerFlag;
use crate::limits::{DATA_PERMIT_WAIT, LANE};

/// Which lane an order goes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// No place: `Busy` at once.
    Control,
    /// No place within 5 s: `Busy`.
    Data,
}

/// Why an order was not carried out.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The lane has no place.
    Busy,
    /// The activation is gone; the order may have been carried out.
    Closed,
    /// The branch said no.
    Refused(BranchError),
}

/// What handle and activation share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(super) latch: LatchSlot,
    pub(super) status: StatusCell,
    pub(super) scope: Scope,
    pub(super) steers: SteerFlag,
    pub(super) holds: HoldCounter,
    /// Fires when the rows have been read and decided on, or the activation is gone.
    pub(super) opened: CancellationToken,
}

impl Shared {
    pub(crate) fn new(status: StatusCell, scope: Scope) -> Self {
        Self {
            latch: LatchSlot::default(),
            status,
            scope,
            steers: SteerFlag::default(),
            holds: HoldCounter::default(),
            opened: CancellationToken::new(),
        }
    }
}

/// The way to one activation. Clones share its permits.
#[derive(Clone)]
pub(crate) struct BranchHandle {
    pub(crate) generation: u64,
    addr: Addr<BranchActor>,
    control: Arc<Semaphore>,
    data: Arc<Semaphore>,
    shared: Shared,
}

impl BranchHandle {
    pub(crate) fn new(generation: u64, addr: Addr<BranchActor>, shared: Shared) -> Self {
        let lane = || Arc::new(Semaphore::new(LANE));
        Self { generation, addr, control: lane(), data: lane(), shared }
    }

    /// Orders something; `make` is given the permit. `line` is held until the order is in the mailbox.
    pub(crate) async fn ask<O: Order>(
        &self,
        lane: Lane,
        line: Option<OwnedMutexGuard<()>>,
        make: impl FnOnce(OwnedSemaphorePermit) -> O,
    ) -> Result<O::Output, AskError>
    where
        BranchActor: actix::Handler<O>,
        <BranchActor as actix::Actor>::Context: actix::dev::ToEnvelope<BranchActor, O>,
    {
        let permit = self.permit(lane).await?;
        let sent = self.addr.send(make(permit));
        drop(line);
        match sent.await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(BranchError::Moved)) | Err(_) => Err(AskError::Closed),
            Ok(Err(error)) => Err(AskError::Refused(error)),
        }
    }

    async fn permit(&self, lane: Lane) -> Result<OwnedSemaphorePermit, AskError> {
        match lane {
            Lane::Control => Arc::clone(&self.control).try_acquire_owned().map_err(|_full| AskError::Busy),
            Lane::Data => {
                let place = Arc::clone(&self.data).acquire_owned();
                match tokio::time::timeout(DATA_PERMIT_WAIT, place).await {
                    Ok(Ok(permit)) => Ok(permit),
                    Ok(Err(_)) | Err(_) => Err(AskError::Busy),
                }
            }
        }
    }

    /// Stops the running turn at once if it is this one; the order that records it comes after.
    pub(crate) fn flip_latch(&self, turn: &MessageId) {
        self.shared.latch.stop(Some(turn));
    }

    /// Ends the activation without recording anything.
    pub(crate) async fn close(&self) {
        self.shared.scope.close();
        if self.addr.send(Close).await.is_err() {
            tracing::debug!("branch.closed_already");
        }
    }

    /// Waits until it has read its rows and decided, or is gone.
    pub(crate) async fn opened(&self) {
        self.shared.opened.cancelled().await;
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.addr.connected()
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    pub(crate) fn status(&self) -> super::status::Status {
        self.shared.status.read()
    }

    /// What waits in the lanes, orders on their way included.
    pub(crate) fn lanes(&self) -> LaneDepth {
        let taken = |lane: &Semaphore| u32::try_from(LANE - lane.available_permits().min(LANE)).unwrap_or(0);
        LaneDepth { control: taken(&self.control), data: taken(&self.data) }
    }

    /// Somebody is on the way to it.
    pub(crate) fn has_orders(&self) -> bool {
        let depth = self.lanes();
        depth.control + depth.data > 0
    }
}
