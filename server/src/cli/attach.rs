//! Owns how `gent attach` becomes a request to the client. Everything taken from the process is taken here.
//! Never shows a session itself. Tested end to end.

use std::io::IsTerminal;
use std::path::Path;

use gent_protocol::{RequestId, WorkspaceId};
use gent_server::{Environment, Paths, nonce};
use gent_tui::{AttachRequest, Console, Keyboard, ServerConnector, listen, provider_credentials};

use super::arguments::AttachOptions;
use super::failure::Failure;
use super::run::{directory, given};
use super::runtime::block_on;
use super::starter::Starter;

/// `gent attach`.
pub(crate) fn attach(
    options: AttachOptions,
    environment: &Environment,
    is_verbose: bool,
) -> Result<u8, Failure> {
    let cwd = directory(environment, options.cwd.as_deref())?;
    let workspace = WorkspaceId::for_directory(Path::new(&cwd));
    let starter = match &options.connect {
        Some(url) => given(url, environment)?,
        None => Starter::Shared { paths: Paths::find(environment, None)?, environment: environment.clone() },
    };
    let credentials = provider_credentials(environment.variables());
    let request = AttachRequest {
        session_id: options.session,
        branch_id: options.branch,
        cwd,
        id: RequestId::parse(nonce())?,
        dim: std::io::stdout().is_terminal() && environment.var_os("NO_COLOR").is_none(),
        verbose: is_verbose,
    };
    block_on(async {
        let mut interrupts = listen()?;
        let mut keyboard = Keyboard::stdin(std::io::stdin().is_terminal());
        let connector = ServerConnector::new(starter, workspace, credentials);
        let mut console = Console::new();
        Ok(gent_tui::attach(connector, &request, &mut interrupts, &mut keyboard, &mut console).await)
    })
}
