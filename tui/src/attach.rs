//! Owns how a run gets its connection: a server found or started by the program, connected, told the workspace and the
//! provider keys, again after each loss. Never starts a process itself. Tested in `tui/tests/it`.

use gent_client::{Attached, Cause, Client, ConnectError, Connector, LinkError, connect};
use gent_protocol::{OfferCredentials, WorkspaceId};

/// Finds a proved server, or starts one.
pub trait ServerStarter: Send {
    /// The server to talk to. Called again after each loss of the connection.
    fn ensure(&mut self) -> impl Future<Output = Result<Attached, Cause>> + Send;
}

/// Connects to whatever server its starter names.
#[derive(Debug)]
pub struct ServerConnector<S> {
    starter: S,
    workspace: WorkspaceId,
    credentials: OfferCredentials,
    was_connected: bool,
}

impl<S: ServerStarter> ServerConnector<S> {
    /// A connector for a workspace that offers `credentials` on each connection.
    pub fn new(starter: S, workspace: WorkspaceId, credentials: OfferCredentials) -> Self {
        Self { starter, workspace, credentials, was_connected: false }
    }
}

impl<S: ServerStarter> Connector for ServerConnector<S> {
    async fn connect(&mut self) -> Result<Client, LinkError> {
        let attached = self.starter.ensure().await.map_err(|cause| {
            // At first the reason is shown at once; a server that was there gets time to come back.
            if self.was_connected { LinkError::Unreachable(cause) } else { LinkError::Refused(cause) }
        })?;
        let client = connect(&attached.url, &attached.token).await.map_err(|error| match error {
            // It was there a moment ago: it is being replaced.
            ConnectError::Refused { .. } | ConnectError::Unauthorized { .. } | ConnectError::Late { .. } => {
                LinkError::Unreachable(error.into())
            }
            ConnectError::Forbidden { .. } | ConnectError::Handshake { .. } => {
                LinkError::Refused(error.into())
            }
        })?;
        let client = client.with_workspace(&self.workspace);
        if !self.credentials.variables.is_empty() {
            client.call_with(&self.credentials).await?;
        }
        self.was_connected = true;
        Ok(client)
    }
}
