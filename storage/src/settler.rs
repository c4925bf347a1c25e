//! Owns the checkpoints of an SQLite log while the store works: on a thread and a connection of its own, so that
//! no write waits for the disk to have the pages it settles. Never blocks the writer: a passive checkpoint takes
//! what it can get. Behind it stand the writer's automatic checkpoint and its bound on the log.
//! Tested below.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use diesel::connection::SimpleConnection;

use crate::Location;
use crate::connection::{AnyConnection, Connector, Purpose};

/// Groups between two checkpoints: at some twenty pages a group, about the thousand pages that SQLite settles by
/// default.
const GROUPS: u32 = 48;

/// The writer's end: counts its groups and rings.
pub(crate) struct Bell {
    ring: SyncSender<()>,
    groups: u32,
}

impl Bell {
    /// A group was committed. Never waits: while a checkpoint runs the next one is already asked for.
    pub(crate) fn group_committed(&mut self) {
        self.groups += 1;
        if self.groups < GROUPS {
            return;
        }
        self.groups = 0;
        match self.ring.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => tracing::debug!("store.settler_gone"),
        }
    }
}

/// Starts the thread for an SQLite database; none is needed for another. It ends when the bell is dropped.
pub(crate) fn start(connector: &Arc<Connector>) -> std::io::Result<Option<(Bell, JoinHandle<()>)>> {
    match connector.location {
        Location::Sqlite(_) => {}
        #[cfg(feature = "postgres")]
        Location::Postgres(_) => return Ok(None),
    }
    let (ring, rung) = sync_channel(1);
    let connector = Arc::clone(connector);
    let settler = std::thread::Builder::new()
        .name("store-settler".to_owned())
        .spawn(move || settle_when_rung(&connector, &rung))?;
    Ok(Some((Bell { ring, groups: 0 }, settler)))
}

fn settle_when_rung(connector: &Connector, rung: &Receiver<()>) {
    let mut kept = None;
    while rung.recv().is_ok() {
        let connection = match kept.take() {
            Some(connection) => Ok(connection),
            None => connector.connect(Purpose::Read),
        };
        match connection {
            Ok(mut connection) => {
                if let Err(error) = settle(&mut connection) {
                    tracing::warn!(%error, "store.log_not_settled");
                } else {
                    kept = Some(connection);
                }
            }
            Err(error) => tracing::warn!(%error, "store.log_not_settled"),
        }
    }
}

fn settle(connection: &mut AnyConnection) -> diesel::QueryResult<()> {
    match connection {
        AnyConnection::Sqlite(sqlite) => sqlite.batch_execute("PRAGMA wal_checkpoint(PASSIVE);"),
        #[cfg(feature = "postgres")]
        AnyConnection::Postgres(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use diesel::prelude::*;

    use super::*;
    use crate::Synchronous;

    #[test]
    fn the_log_is_settled_after_some_groups_without_the_writer() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("data.db");
        let connector = Arc::new(Connector::new(Location::Sqlite(path.clone()), Synchronous::Normal));
        let mut writer = connector.connect(Purpose::Write).unwrap();
        writer.batch_execute("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000));").unwrap();
        let before = std::fs::metadata(&path).unwrap().len();
        let (mut bell, settler) = start(&connector).unwrap().unwrap();
        (0..GROUPS).for_each(|_| bell.group_committed());
        drop(bell);
        settler.join().unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() > before + 100_000, "the pages are in the file");
        diesel::sql_query("INSERT INTO t VALUES (1)").execute(&mut writer).unwrap();
    }
}
