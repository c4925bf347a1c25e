//! Owns gates: places in an answer where the server waits until a test says go on.
//! Never opens by time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::sync::watch;

use crate::harness::within;

/// One gate. Once open it stays open.
#[derive(Debug, Clone)]
pub struct Gate {
    name: String,
    open: watch::Sender<bool>,
    reached: watch::Sender<usize>,
}

impl Gate {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), open: watch::Sender::new(false), reached: watch::Sender::new(0) }
    }

    /// Lets whoever waits here go on, now and later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until `count` answers have come to this gate.
    pub async fn reached(&self, count: usize) -> Result<()> {
        let mut seen = self.reached.subscribe();
        within(&format!("an answer at the gate {:?}", self.name), async {
            seen.wait_for(|reached| *reached >= count).await?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn pass(&self) {
        self.reached.send_modify(|reached| *reached += 1);
        let mut open = self.open.subscribe();
        // The sender lives in `self`: the wait cannot fail before it succeeds.
        let _passed = open.wait_for(|open| *open).await.is_ok();
    }
}

/// The gates of one server, made when first named.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<HashMap<String, Gate>>>);

impl Gates {
    pub(crate) fn get(&self, name: &str) -> Gate {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(name.to_owned()).or_insert_with(|| Gate::new(name)).clone()
    }
}
