//! Owns the count of sockets, the table of connections that have not become one, and the handle that cuts a
//! connection whose peer takes nothing any more.
//! Never reads or writes. Tested in `socket_tests.rs`.

use std::any::Any;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::dev::Extensions;
use rustix::net::Shutdown;
use tokio::sync::watch;

/// Connections without an accepted upgrade. Beyond it: the oldest of them is closed. A client that means it needs
/// milliseconds for its upgrade, so those that only stand there cannot keep it out.
pub(crate) const WAITING: usize = 32;

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Those without an accepted upgrade, in the order in which they came.
    waiting: Mutex<VecDeque<Arc<OwnedFd>>>,
    open: watch::Sender<usize>,
}

impl Connections {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::default(), open: watch::Sender::new(0) }
    }

    fn enter_waiting(&self, stream: &Arc<OwnedFd>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(Arc::clone(stream));
        while waiting.len() > WAITING {
            let Some(oldest) = waiting.pop_front() else { break };
            tracing::debug!("connection.displaced");
            shut(&oldest);
        }
    }

    fn leave_waiting(&self, stream: &Arc<OwnedFd>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// As if so many sockets were open.
    #[cfg(test)]
    pub(crate) fn set_open(&self, open: usize) {
        self.open.send_replace(open);
    }

    /// Sockets that are open.
    pub(crate) fn open(&self) -> usize {
        *self.open.borrow()
    }

    /// Returns once the number of open sockets passes `is_wanted`.
    pub(crate) async fn open_until(&self, is_wanted: impl Fn(usize) -> bool) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let reached = self.open.subscribe().wait_for(|open| is_wanted(*open)).await.is_ok();
        debug_assert!(reached, "the sender outlives the wait");
    }
}

/// One TCP connection; lives as long as the longer of its HTTP side and its socket task.
pub(crate) struct Peer {
    connections: Arc<Connections>,
    stream: Option<Arc<OwnedFd>>,
    local: Option<IpAddr>,
}

impl Peer {
    /// Called for each accepted connection; puts a `Rc<Peer>` into its data.
    pub(crate) fn accept(connections: &Arc<Connections>, io: &dyn Any, data: &mut Extensions) {
        let Some(stream) = io.downcast_ref::<actix_web::rt::net::TcpStream>() else { return };
        let handle = stream.as_fd().try_clone_to_owned().ok().map(Arc::new);
        match &handle {
            Some(handle) => connections.enter_waiting(handle),
            // Without a handle a dead connection could not be cut; that happens when file descriptors run out.
            None => {
                tracing::debug!("connection.refused");
                shut(stream);
            }
        }
        let peer = Self {
            connections: Arc::clone(connections),
            stream: handle,
            local: stream.local_addr().ok().map(|address| address.ip()),
        };
        data.insert(Rc::new(peer));
    }

    /// The address it came in on.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// The upgrade was accepted: it counts as a socket until the guard is dropped.
    pub(crate) fn open(self: &Rc<Self>) -> OpenSocket {
        self.leave_waiting();
        self.connections.open.send_modify(|open| *open += 1);
        OpenSocket(Rc::clone(self))
    }

    /// Ends the connection in both directions, whatever waits to be written.
    pub(crate) fn cut(&self) {
        if let Some(stream) = &self.stream {
            shut(stream);
        }
    }

    fn leave_waiting(&self) {
        if let Some(stream) = &self.stream {
            self.connections.leave_waiting(stream);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.leave_waiting();
    }
}

fn shut(stream: impl AsFd) {
    // The peer may have been faster: then it is shut already.
    if let Err(error) = rustix::net::shutdown(stream, Shutdown::Both) {
        tracing::debug!(%error, "connection.cut_late");
    }
}

/// Counts one open socket.
pub(crate) struct OpenSocket(Rc<Peer>);

impl OpenSocket {
    /// Its connection.
    pub(crate) fn peer(&self) -> &Rc<Peer> {
        &self.0
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.0.connections.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}
