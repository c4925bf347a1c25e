//! Owns the branch actors: the only maker of them, and the judge of which may live.
//! Opens on demand, lets go the idle, restarts the dead, gives up the hopeless. Awaits no branch.
//! Tested below (the rules) and end to end (restart, `Faulted`, passivation).

mod deaths;
mod rows;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, ArbiterHandle, AsyncContext, Context, Handler, Message, MessageResult,
    ResponseFuture, WrapFuture,
};
use futures_util::FutureExt;
use gent_protocol::{ActorRow, SessionId};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::branch::{
    BranchActor, BranchHandle, BranchKey, GoneNote, Idle, Scope, Shared, StatusCell, Verdict,
};
use crate::limits::SCOPE_CLOSE;
use crate::services::Services;
use deaths::Deaths;

/// Why there is no activation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenFailure {
    /// It died too often; `revive` tries once more.
    Faulted(String),
    /// The session is being deleted.
    Terminated,
    /// The server stops.
    Stopping,
}

type Opened = Result<BranchHandle, OpenFailure>;

/// Gives the activation of a branch, opening one where there is none.
#[derive(Message)]
#[rtype(result = "Opened")]
pub(crate) struct Open {
    pub(crate) key: BranchKey,
    /// Also where it is given up: one attempt, unless its last tasks still run.
    pub(crate) revive: bool,
}

/// Shows every branch that is in memory or given up.
#[derive(Message)]
#[rtype(result = "Vec<ActorRow>")]
pub(crate) struct Show;

/// Ends every activation of a session and lets none open until [`Forget`].
#[derive(Message)]
#[rtype(result = "Vec<BranchHandle>")]
pub(crate) struct Terminate(pub(crate) Vec<SessionId>);

/// The sessions are deleted, or their delete failed: nothing is remembered of them.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Forget(pub(crate) Vec<SessionId>);

/// The activations that live; with `stopping` no new one opens.
#[derive(Message)]
#[rtype(result = "Vec<BranchHandle>")]
pub(crate) struct Living {
    pub(crate) stopping: bool,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Gone(GoneNote);

/// What the directory knows of a branch.
struct Entry {
    slot: Slot,
    deaths: Deaths,
    restarts: u32,
    last_error: Option<String>,
}

enum Slot {
    Live(BranchHandle),
    /// The activation is gone, its tasks are ending; the next one opens then.
    Closing {
        handle: BranchHandle,
        waiting: Vec<Waiting>,
        reopens: bool,
    },
    /// Given up. While tasks of the last activation run, no other one begins beside them.
    Faulted {
        reason: String,
        since: Duration,
        last: Scope,
    },
    /// There is none; the entry remembers its deaths.
    Gone,
}

/// Somebody who waits for the next activation.
struct Waiting {
    opened: oneshot::Sender<Opened>,
    revive: bool,
}

/// See the module.
pub(crate) struct BranchDirectory {
    services: Arc<Services>,
    arbiters: Vec<ArbiterHandle>,
    entries: HashMap<BranchKey, Entry>,
    terminated: std::collections::HashSet<SessionId>,
    generations: u64,
    gone: mpsc::UnboundedSender<GoneNote>,
    notes: Option<mpsc::UnboundedReceiver<GoneNote>>,
    is_stopping: bool,
}

impl BranchDirectory {
    pub(crate) fn new(services: Arc<Services>, arbiters: Vec<ArbiterHandle>) -> Self {
        // Bounded by the living actors: each sends one note, when it is dropped.
        let (gone, notes) = mpsc::unbounded_channel();
        Self {
            services,
            arbiters,
            entries: HashMap::new(),
            terminated: std::collections::HashSet::new(),
            generations: 0,
            gone,
            notes: Some(notes),
            is_stopping: false,
        }
    }

    fn now(&self) -> Duration {
        self.services.env.monotonic()
    }

    /// Starts the next activation of a branch; a revival is one of a branch that was given up.
    fn start(&mut self, key: &BranchKey, is_revival: bool, directory: Addr<Self>) -> BranchHandle {
        self.generations += 1;
        let generation = self.generations;
        let shared = Shared::new(StatusCell::new(self.now()), Scope::new(self.services.io.clone()));
        let actor = BranchActor::new(
            Arc::clone(&self.services),
            key.clone(),
            generation,
            directory,
            self.gone.clone(),
            shared.clone(),
            is_revival,
        );
        let addr = match self.arbiter_of(key) {
            Some(arbiter) => BranchActor::start_in_arbiter(&arbiter, move |_| actor),
            None => actor.start(),
        };
        let handle = BranchHandle::new(generation, addr, shared);
        let slot = Slot::Live(handle.clone());
        match self.entries.get_mut(key) {
            Some(entry) => entry.slot = slot,
            None => {
                let entry = Entry { slot, deaths: Deaths::default(), restarts: 0, last_error: None };
                self.entries.insert(key.clone(), entry);
            }
        }
        handle
    }

    fn arbiter_of(&self, key: &BranchKey) -> Option<ArbiterHandle> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let count = u64::try_from(self.arbiters.len()).ok().filter(|count| *count > 0)?;
        self.arbiters.get(usize::try_from(hasher.finish() % count).ok()?).cloned()
    }

    fn gone(&mut self, note: GoneNote, ctx: &mut Context<Self>) {
        let now = self.now();
        let Some(entry) = self.entries.get_mut(&note.key) else { return };
        let (handle, waiting) = match &mut entry.slot {
            Slot::Live(handle) if handle.generation == note.generation => (handle.clone(), Vec::new()),
            Slot::Closing { handle, waiting, .. } if handle.generation == note.generation => {
                (handle.clone(), std::mem::take(waiting))
            }
            Slot::Live(_) | Slot::Closing { .. } | Slot::Faulted { .. } | Slot::Gone => return,
        };
        let status = handle.status();
        entry.last_error = status.last_error.or(entry.last_error.take());
        let mut backoff = Duration::ZERO;
        if !note.is_orderly {
            entry.restarts += 1;
            entry.last_error = Some("the actor broke and was rebuilt from its rows".to_owned());
            backoff = entry.deaths.add(now);
            warn!(branch = %note.key, restarts = entry.restarts, "branch.died");
        }
        entry.slot = Slot::Closing { handle: handle.clone(), waiting, reopens: !note.is_orderly };
        let scope = handle.scope().clone();
        let emptied = async move {
            let is_empty = scope.emptied(SCOPE_CLOSE).await;
            tokio::time::sleep(backoff).await;
            is_empty
        };
        let (key, generation) = (note.key, note.generation);
        ctx.spawn(emptied.into_actor(self).map(move |is_empty, directory, ctx| {
            directory.emptied(&key, generation, is_empty, ctx);
        }));
    }

    /// The tasks of an activation have ended, or did not in time.
    fn emptied(&mut self, key: &BranchKey, generation: u64, is_empty: bool, ctx: &mut Context<Self>) {
        let now = self.now();
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Slot::Closing { handle, waiting, reopens } = &mut entry.slot else { return };
        if handle.generation != generation {
            return;
        }
        let (waiting, reopens) = (std::mem::take(waiting), *reopens);
        let fault = if !is_empty {
            Some(format!("tasks of its last activation did not end within {} s", SCOPE_CLOSE.as_secs()))
        } else if entry.deaths.are_too_many(now) {
            Some(format!("its actor died {} times within a minute", Deaths::MAX))
        } else {
            None
        };
        if let Some(reason) = fault {
            warn!(branch = %key, reason, "branch.faulted");
            entry.last_error = Some(reason.clone());
            let last = handle.scope().clone();
            let may_revive = is_empty && !self.is_stopping && !self.terminated.contains(&key.session);
            entry.slot = Slot::Faulted { reason: reason.clone(), since: now, last };
            // Whoever came with something to store has one attempt, also when the death came first.
            let (revivers, others): (Vec<Waiting>, Vec<Waiting>) =
                waiting.into_iter().partition(|waits| waits.revive && may_revive);
            for waits in others {
                drop(waits.opened.send(Err(OpenFailure::Faulted(reason.clone()))));
            }
            if !revivers.is_empty() {
                let handle = self.start(key, true, ctx.address());
                for waits in revivers {
                    drop(waits.opened.send(Ok(handle.clone())));
                }
            }
            return;
        }
        let is_barred = self.is_stopping || self.terminated.contains(&key.session);
        if is_barred || (waiting.is_empty() && !reopens) {
            if entry.deaths.is_recent(now) {
                entry.slot = Slot::Gone;
            } else {
                self.entries.remove(key);
                // A map keeps the room of its largest day.
                if self.entries.len() < self.entries.capacity() / 4 {
                    self.entries.shrink_to_fit();
                }
            }
            let why = if self.is_stopping { OpenFailure::Stopping } else { OpenFailure::Terminated };
            for waits in waiting {
                drop(waits.opened.send(Err(why.clone())));
            }
            return;
        }
        let handle = self.start(key, false, ctx.address());
        for waits in waiting {
            drop(waits.opened.send(Ok(handle.clone())));
        }
    }
}

impl Actor for BranchDirectory {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1_024);
        let Some(mut notes) = self.notes.take() else { return };
        let address = ctx.address();
        let hear = async move {
            while let Some(note) = notes.recv().await {
                if address.send(Gone(note)).await.is_err() {
                    // The directory is gone, and with it whoever could care.
                    return;
                }
            }
        };
        ctx.spawn(hear.into_actor(self));
    }
}

impl Handler<Gone> for BranchDirectory {
    type Result = ();

    fn handle(&mut self, note: Gone, ctx: &mut Self::Context) {
        self.gone(note.0, ctx);
    }
}

impl Handler<Open> for BranchDirectory {
    type Result = ResponseFuture<Opened>;

    fn handle(&mut self, order: Open, ctx: &mut Self::Context) -> Self::Result {
        let ready = |opened: Opened| FutureExt::boxed_local(futures_util::future::ready(opened));
        if self.is_stopping {
            return ready(Err(OpenFailure::Stopping));
        }
        if self.terminated.contains(&order.key.session) {
            return ready(Err(OpenFailure::Terminated));
        }
        let revive = order.revive;
        let (opened, opening) = oneshot::channel();
        let later = async move { opening.await.unwrap_or(Err(OpenFailure::Stopping)) };
        match self.entries.get_mut(&order.key).map(|entry| &mut entry.slot) {
            Some(Slot::Live(handle)) if handle.is_connected() => ready(Ok(handle.clone())),
            Some(Slot::Faulted { reason, last, .. }) if !revive || !last.is_empty() => {
                ready(Err(OpenFailure::Faulted(reason.clone())))
            }
            Some(Slot::Closing { waiting, .. }) => {
                waiting.push(Waiting { opened, revive });
                FutureExt::boxed_local(later)
            }
            // Its note is on the way: its successor opens when it has come.
            Some(slot @ Slot::Live(_)) => {
                if let Slot::Live(handle) = slot {
                    let handle = handle.clone();
                    let waiting = vec![Waiting { opened, revive }];
                    *slot = Slot::Closing { handle, waiting, reopens: false };
                }
                FutureExt::boxed_local(later)
            }
            Some(Slot::Faulted { .. }) => {
                info!(branch = %order.key, "branch.revived");
                ready(Ok(self.start(&order.key, true, ctx.address())))
            }
            Some(Slot::Gone) | None => {
                info!(branch = %order.key, "branch.opened");
                ready(Ok(self.start(&order.key, false, ctx.address())))
            }
        }
    }
}

impl Handler<Idle> for BranchDirectory {
    type Result = Verdict;

    fn handle(&mut self, report: Idle, _: &mut Self::Context) -> Verdict {
        let Some(entry) = self.entries.get_mut(&report.key) else { return Verdict::Retire };
        match &entry.slot {
            Slot::Live(handle) if handle.generation == report.generation => {
                if handle.has_orders() {
                    return Verdict::Stay;
                }
                let handle = handle.clone();
                entry.slot = Slot::Closing { handle, waiting: Vec::new(), reopens: false };
                Verdict::Retire
            }
            Slot::Live(_) | Slot::Closing { .. } | Slot::Faulted { .. } | Slot::Gone => Verdict::Retire,
        }
    }
}

impl Handler<Show> for BranchDirectory {
    type Result = MessageResult<Show>;

    fn handle(&mut self, _: Show, _: &mut Self::Context) -> Self::Result {
        let now = self.now();
        let mut rows: Vec<ActorRow> =
            self.entries.iter().filter_map(|(key, entry)| rows::row(key, entry, now)).collect();
        rows.sort_by(|a, b| (&a.session_id, &a.branch_id).cmp(&(&b.session_id, &b.branch_id)));
        MessageResult(rows)
    }
}

impl Handler<Terminate> for BranchDirectory {
    type Result = MessageResult<Terminate>;

    fn handle(&mut self, order: Terminate, _: &mut Self::Context) -> Self::Result {
        self.terminated.extend(order.0);
        let is_barred = |key: &BranchKey| self.terminated.contains(&key.session);
        let living = self.entries.iter().filter(|(key, _)| is_barred(key)).filter_map(|(_, entry)| {
            match &entry.slot {
                Slot::Live(handle) => Some(handle.clone()),
                Slot::Closing { .. } | Slot::Faulted { .. } | Slot::Gone => None,
            }
        });
        MessageResult(living.collect())
    }
}

impl Handler<Forget> for BranchDirectory {
    type Result = ();

    fn handle(&mut self, order: Forget, _: &mut Self::Context) {
        for session in &order.0 {
            self.terminated.remove(session);
        }
        let is_gone = |key: &BranchKey| order.0.contains(&key.session);
        let is_at_rest = |entry: &Entry| matches!(entry.slot, Slot::Faulted { .. } | Slot::Gone);
        self.entries.retain(|key, entry| !(is_gone(key) && is_at_rest(entry)));
    }
}

impl Handler<Living> for BranchDirectory {
    type Result = MessageResult<Living>;

    fn handle(&mut self, ask: Living, _: &mut Self::Context) -> Self::Result {
        self.is_stopping |= ask.stopping;
        // Also those on their way out: their tasks may still run.
        let living = self.entries.values().filter_map(|entry| match &entry.slot {
            Slot::Live(handle) | Slot::Closing { handle, .. } => Some(handle.clone()),
            Slot::Faulted { .. } | Slot::Gone => None,
        });
        MessageResult(living.collect())
    }
}
