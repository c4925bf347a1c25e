//! Owns the subscribers of a run: each follows one session from some event on, until it is disconnected.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gent_protocol::{EventSeq, SessionEvents};
use tokio::task::JoinHandle;

use crate::world::World;

/// What a subscriber got.
#[derive(Debug, Default)]
pub(crate) struct Got {
    /// Number, tag, text.
    pub(crate) items: Vec<(EventSeq, String, String)>,
    /// How its stream ended, where it did.
    pub(crate) end: Option<String>,
}

/// One subscriber.
pub(crate) struct Watcher {
    pub(crate) branch: usize,
    /// It asked for what comes after this.
    pub(crate) after: EventSeq,
    pub(crate) got: Rc<RefCell<Got>>,
    is_disconnected: Cell<bool>,
    task: JoinHandle<()>,
}

impl Watcher {
    pub(crate) fn new(world: &World, branch: usize, after: EventSeq) -> Self {
        let got: Rc<RefCell<Got>> = Rc::default();
        let (engine, workspace, heard) = (world.engine.clone(), world.workspace.clone(), Rc::clone(&got));
        let session_id = world.branches[branch].session_id.clone();
        let ask = SessionEvents { session_id, branch_id: None, after: Some(after), store: None };
        let task = tokio::task::spawn_local(async move {
            let end = match engine.subscribe(&workspace, ask).await {
                Err(error) => error.chain(),
                Ok(mut stream) => loop {
                    match stream.next_batch().await {
                        Ok(Some(batch)) => {
                            let mut heard = heard.borrow_mut();
                            let items = batch.into_iter();
                            heard.items.extend(
                                items.map(|item| (item.id, item.tag.to_owned(), item.json.to_string())),
                            );
                        }
                        Ok(None) => break "the session is gone".to_owned(),
                        Err(error) => break error.chain(),
                    }
                },
            };
            heard.borrow_mut().end = Some(end);
        });
        Self { branch, after, got, is_disconnected: Cell::new(false), task }
    }

    /// Ends the subscription.
    pub(crate) fn disconnect(&self) {
        self.is_disconnected.set(true);
        self.task.abort();
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.is_disconnected.get()
    }
}
