//! Owns the ways a command comes to a server: the shared one, started if need be; a private one; a given one.
//! Never connects. Tested end to end.

use std::sync::{Arc, Mutex, PoisonError};

use gent_client::{Attached, Cause, ServerUrl, attach_at};
use gent_protocol::Secret;
use gent_server::{Environment, Isolated, Paths, ensure_server, nonce, start_isolated};
use gent_tui::ServerStarter;

/// A private server on its way out with the run that started it.
pub(crate) type PrivateServer = Arc<Mutex<Option<Isolated>>>;

/// Where the server of a command comes from.
pub(crate) enum Starter {
    /// Shared by all; started in the background where none runs.
    Shared {
        /// Its data directory.
        paths: Paths,
        /// What it starts from.
        environment: Environment,
    },
    /// Private to this run.
    Private {
        /// The user's paths, of which it takes the configuration.
        paths: Paths,
        /// What it starts from.
        environment: Environment,
        /// Where it is kept until the run is over.
        server: PrivateServer,
    },
    /// At a given address.
    Given {
        /// Where.
        url: ServerUrl,
        /// Its token.
        token: Secret,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("the private server of this run has ended: run again without --isolate to keep what it does")]
struct PrivateServerGone;

impl ServerStarter for Starter {
    async fn ensure(&mut self) -> Result<Attached, Cause> {
        match self {
            Self::Shared { paths, environment } => Ok(ensure_server(paths, environment).await?),
            Self::Given { url, token } => Ok(attach_at(url.clone(), token.clone(), &nonce()).await?),
            Self::Private { paths, environment, server } => {
                let is_started = server.lock().unwrap_or_else(PoisonError::into_inner).is_some();
                if is_started {
                    // Its data directory is gone with it.
                    return Err(PrivateServerGone.into());
                }
                let isolated = start_isolated(paths, environment).await?;
                let attached = isolated.attached().clone();
                *server.lock().unwrap_or_else(PoisonError::into_inner) = Some(isolated);
                Ok(attached)
            }
        }
    }
}
