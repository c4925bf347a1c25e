//! Owns the patience of a client: how long a lost or busy server is looked for, and with which pauses.
//! Repeats only what the server can tell apart by its request id, or what changes nothing: that is the caller's choice.
//! Tested below.

use std::time::Duration;

use gent_protocol::Call;
use tokio::time::{Instant, sleep};

use crate::error::Repeat;
use crate::limits::{LINK_WINDOW, LINK_WINDOW_DRAINING, PAUSE_FIRST, PAUSE_MAX};
use crate::{CallError, Client};

/// An error with its causes.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Finds or starts a server and connects to it, ready for use. Called again whenever the connection is lost.
pub trait Connector: Send {
    /// One attempt. `Unreachable` is tried again, `Refused` is final.
    fn connect(&mut self) -> impl Future<Output = Result<Client, LinkError>> + Send;
}

/// Why there is no server to talk to, or why it will not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Not reachable just now.
    #[error(transparent)]
    Unreachable(Cause),
    /// Trying again would not help.
    #[error(transparent)]
    Refused(Cause),
    /// It was looked for long enough.
    #[error("the server did not come back within {seconds} s: {last}")]
    GaveUp {
        /// How long it was looked for.
        seconds: u64,
        /// The last failure.
        last: String,
    },
    /// It answered, and the answer is final.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The time that repeats may take since the last success.
#[derive(Debug, Default)]
struct Patience {
    since: Option<Instant>,
    draining: bool,
    n_failed: u32,
}

impl Patience {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn window(&self) -> Duration {
        if self.draining { LINK_WINDOW_DRAINING } else { LINK_WINDOW }
    }

    /// The pause before the next try; none when the window is over.
    fn fail(&mut self, now: Instant, repeat: Repeat) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        self.draining |= repeat.draining;
        let doubled = PAUSE_FIRST.saturating_mul(1_u32 << self.n_failed.min(8));
        self.n_failed = self.n_failed.saturating_add(1);
        let pause = repeat.wait.unwrap_or(doubled).clamp(PAUSE_FIRST, PAUSE_MAX);
        (now.duration_since(since) + pause <= self.window()).then_some(pause)
    }
}

/// A connection that is made anew when it is lost.
#[derive(Debug)]
pub struct Link<C> {
    connector: C,
    client: Option<Client>,
    patience: Patience,
}

impl<C: Connector> Link<C> {
    /// A link that connects with its first use.
    pub fn new(connector: C) -> Self {
        Self { connector, client: None, patience: Patience::default() }
    }

    /// The connection, made anew if need be; looks for a server for 30 s, 90 s while it drains.
    pub async fn client(&mut self) -> Result<Client, LinkError> {
        loop {
            match &self.client {
                Some(client) if !client.is_closed() => return Ok(client.clone()),
                Some(_) | None => self.client = None,
            }
            match self.connector.connect().await {
                Ok(client) => self.client = Some(client),
                Err(LinkError::Unreachable(cause)) => {
                    self.pause(Repeat { draining: false, wait: None }, cause.to_string()).await?;
                }
                Err(LinkError::Call(error)) => self.failed(error).await?,
                Err(error @ (LinkError::Refused(_) | LinkError::GaveUp { .. })) => return Err(error),
            }
        }
    }

    /// Calls a method until it is answered. Only for calls that may be repeated.
    pub async fn call<P: Call + Sync>(&mut self, params: &P) -> Result<P::Reply, LinkError> {
        loop {
            let client = self.client().await?;
            match client.call_with(params).await {
                Ok(reply) => {
                    self.progressed();
                    return Ok(reply);
                }
                Err(error) => self.failed(error).await?,
            }
        }
    }

    /// Takes note of a failure: returns after a pause when a repeat makes sense, else gives the error back.
    pub async fn failed(&mut self, error: CallError) -> Result<(), LinkError> {
        let repeat = match &error {
            CallError::Closed { reason, .. } if reason.may_reconnect() => {
                self.client = None;
                Repeat { draining: *reason == crate::CloseReason::Going, wait: None }
            }
            other => match other.repeat_after() {
                Some(repeat) => repeat,
                None => return Err(LinkError::Call(error)),
            },
        };
        self.pause(repeat, error.to_string()).await
    }

    /// Takes note that the server did something: its next failure begins a new window.
    pub fn progressed(&mut self) {
        self.patience.reset();
    }

    /// Lets the connection go, so that the next use makes a new one.
    pub(crate) fn disconnect(&mut self) {
        self.client = None;
    }

    async fn pause(&mut self, repeat: Repeat, last: String) -> Result<(), LinkError> {
        match self.patience.fail(Instant::now(), repeat) {
            Some(pause) => {
                sleep(pause).await;
                Ok(())
            }
            None => Err(LinkError::GaveUp { seconds: self.patience.window().as_secs(), last }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Repeat = Repeat { draining: false, wait: None };

    struct Nobody {
        n_tries: u32,
    }

    impl Connector for Nobody {
        async fn connect(&mut self) -> Result<Client, LinkError> {
            self.n_tries += 1;
            Err(LinkError::Unreachable("nobody listens".into()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_server_is_looked_for_for_thirty_seconds() {
        let begin = Instant::now();
        let mut link = Link::new(Nobody { n_tries: 0 });
        let error = link.client().await.unwrap_err();
        assert_eq!(error.to_string(), "the server did not come back within 30 s: nobody listens");
        let took = begin.elapsed().as_secs();
        assert!((28..=30).contains(&took), "{took}");
        assert!(link.connector.n_tries > 20, "{}", link.connector.n_tries);
    }

    #[test]
    fn pauses_grow_to_a_second_and_a_success_begins_anew() {
        let now = Instant::now();
        let mut patience = Patience::default();
        let pauses: Vec<u128> = (0..7).map(|_| patience.fail(now, PLAIN).unwrap().as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(patience.fail(now + LINK_WINDOW, PLAIN), None);
        patience.reset();
        assert!(patience.fail(now + LINK_WINDOW, PLAIN).is_some());
    }

    #[test]
    fn a_server_that_drains_gets_ninety_seconds_and_names_its_own_pause() {
        let now = Instant::now();
        let mut patience = Patience::default();
        let draining = Repeat { draining: true, wait: Some(Duration::from_millis(700)) };
        assert_eq!(patience.fail(now, draining), Some(Duration::from_millis(700)));
        assert!(patience.fail(now + Duration::from_secs(80), PLAIN).is_some());
        assert_eq!(patience.fail(now + Duration::from_secs(91), PLAIN), None);
        let endless = Repeat { draining: true, wait: Some(Duration::from_secs(3600)) };
        assert_eq!(Patience::default().fail(now, endless), Some(PAUSE_MAX));
    }
}
