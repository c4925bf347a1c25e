//! Owns locks by key: one for each key that somebody holds or waits for, fair in the order of arrival.
//! Never keeps a lock that nobody needs. Tested below.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// Locks by key.
pub(crate) struct KeyedLocks<K>(Mutex<HashMap<K, Weak<tokio::sync::Mutex<()>>>>);

impl<K> Default for KeyedLocks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> KeyedLocks<K> {
    fn of(&self, key: K) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(key, Arc::downgrade(&lock));
        lock
    }

    /// Waits for the key's lock; the place in its line is taken when the future is first polled.
    pub(crate) async fn lock(&self, key: K) -> OwnedMutexGuard<()> {
        self.of(key).lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_lock_is_handed_on_in_the_order_of_arrival_and_forgotten_when_nobody_needs_it() {
        let locks = KeyedLocks::default();
        let held = locks.lock("a").await;
        let mut second = Box::pin(locks.lock("a"));
        let mut third = Box::pin(locks.lock("a"));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(held);
        assert!((&mut third).now_or_never().is_none());
        drop(second.await);
        drop(third.await);
        drop(locks.lock("b").await);
        assert_eq!(locks.0.lock().unwrap().len(), 1);
    }
}
