//! Owns how a newer program takes over from an older server: it asks for `server.retire`, the one call that is the same
//! over every major version, and waits for the lock.
//! Never signals a process and never asks a newer server. Tested below and in `server/tests`.

use std::time::Duration;

use gent_client::{Entry, ServerUrl, connect};
use gent_protocol::{PROTOCOL, Retire, Secret};
use tokio::time::{Instant, sleep, timeout};

use crate::Paths;
use crate::background::StartError;
use crate::stop::is_free;

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it may take beyond the time that it named: it closes its sockets and its store.
const MARGIN: Duration = Duration::from_secs(15);
/// The most that is waited, whatever it named.
const MOST: Duration = Duration::from_secs(120);
/// How often the lock is looked at; there is no event for a lock of another process.
const LOOK: Duration = Duration::from_millis(20);

/// Asks a proved server of another major version to hand over and returns once its lock is free. Dropping the future
/// takes nothing back: the server ends all the same.
pub(crate) async fn retire(
    paths: &Paths,
    entry: Entry,
    url: &ServerUrl,
    token: &Secret,
    major: u32,
) -> Result<(), StartError> {
    let entry = Box::new(entry);
    if major > PROTOCOL.major {
        return Err(StartError::Newer { entry, major });
    }
    let within = match timeout(ANSWER, ask(url, token)).await {
        Ok(Ok(within)) => within,
        // Another client was faster, and it is gone or on its way.
        Ok(Err(_)) if is_free(paths) => return Ok(()),
        Ok(Err(why)) => return Err(StartError::NotRetired { entry, major, why: format!("because {why}") }),
        Err(_elapsed) => {
            let why = format!("because it did not answer within {} s", ANSWER.as_secs());
            return Err(StartError::NotRetired { entry, major, why });
        }
    };
    let most = within.saturating_add(MARGIN).min(MOST);
    if !comes_true(|| is_free(paths), most).await {
        let why = format!("it still runs after {} s", most.as_secs());
        return Err(StartError::NotRetired { entry, major, why });
    }
    Ok(())
}

/// Looks again and again; false when it did not come true within `most`.
async fn comes_true(is_true: impl Fn() -> bool, most: Duration) -> bool {
    let deadline = Instant::now() + most;
    while !is_true() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOOK).await;
    }
    true
}

/// The time within which it says it will be gone.
async fn ask(url: &ServerUrl, token: &Secret) -> Result<Duration, String> {
    let client = connect(url, token).await.map_err(|error| error.to_string())?;
    let retired = client.call(Retire {}).await.map_err(|error| error.to_string())?;
    Ok(Duration::from_millis(u64::try_from(retired.within_ms.0).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_waited_for_as_long_as_its_holder_said_and_no_longer() {
        let began = Instant::now();
        let is_late = || began.elapsed() >= Duration::from_secs(60);
        assert!(comes_true(is_late, Duration::from_secs(75)).await);
        assert_eq!(began.elapsed(), Duration::from_secs(60));
        assert!(!comes_true(|| false, Duration::from_secs(75)).await);
        assert_eq!(began.elapsed(), Duration::from_secs(60 + 75));
    }
}
