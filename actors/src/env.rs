//! Owns the way in of time, ids and randomness, so that tests can drive them.
//! Never does anything else. Tested through the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gent_protocol::Millis;

/// Where time, ids and randomness come from.
pub trait Source: Send + Sync {
    /// Wall clock, for display and for rows.
    fn now(&self) -> Millis;
    /// A clock that never steps back, for durations.
    fn monotonic(&self) -> Duration;
    /// A new id, unique over all servers.
    fn new_id(&self) -> String;
    /// A number of 0 to 1.
    fn uniform(&self) -> f64;
}

/// A shared [`Source`].
#[derive(Clone)]
pub struct Env(Arc<dyn Source>);

impl Env {
    /// The real clock and real randomness.
    pub fn real() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
        Self(Arc::new(RealSource { origin: Instant::now() }))
    }

    /// A clock that advances by one millisecond at each look, and ids that count up: for tests.
    pub fn counting() -> Self {
        Self(Arc::new(CountingSource { ticks: AtomicU64::new(0) }))
    }

    /// Any other source.
    pub fn of(source: Arc<dyn Source>) -> Self {
        Self(source)
    }

    /// See [`Source::now`].
    pub fn now(&self) -> Millis {
        self.0.now()
    }

    /// See [`Source::monotonic`].
    pub fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    /// See [`Source::new_id`].
    pub fn new_id(&self) -> String {
        self.0.new_id()
    }

    /// See [`Source::uniform`].
    pub fn uniform(&self) -> f64 {
        self.0.uniform()
    }
}

struct RealSource {
    origin: Instant,
}

impl Source for RealSource {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is where ids enter")]
    fn new_id(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }

    #[expect(clippy::disallowed_methods, reason = "this is where randomness enters")]
    fn uniform(&self) -> f64 {
        let bits = uuid::Uuid::new_v4().as_u64_pair().1 >> 11;
        // 53 random bits fill a double's mantissa.
        bits as f64 / (1u64 << 53) as f64
    }
}

struct CountingSource {
    ticks: AtomicU64,
}

impl CountingSource {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Source for CountingSource {
    fn now(&self) -> Millis {
        Millis(1_700_000_000_000 + i64::try_from(self.tick()).unwrap_or(0))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.tick())
    }

    fn new_id(&self) -> String {
        format!("id-{:08}", self.tick())
    }

    fn uniform(&self) -> f64 {
        0.5
    }
}
