//! Owns what handlers and tools of a turn are handed: facets bound to this turn.
//! Never outlives the turn's scope. Tested end to end.

use std::path::PathBuf;
use std::sync::Arc;

use gent_extension_api::{Context, ContextParts, Exec, HostFacts, Interaction};
use gent_protocol::ExtensionId;
use gent_storage::SessionRow;
use tokio_util::sync::CancellationToken;

use super::questions::Asking;
use crate::branch::{BranchKey, HoldCounter, Scope};
use crate::host::HostVerbs;
use crate::process::{ProcessExec, ProcessScope};
use crate::redact::SecretSet;
use crate::services::Services;

/// What the contexts of a turn have in common.
pub(crate) struct TurnFacets {
    pub(crate) session: Arc<SessionRow>,
    pub(crate) facts: Arc<HostFacts>,
    pub(crate) cwd: PathBuf,
    pub(crate) secrets: Arc<SecretSet>,
    pub(crate) asking: Asking,
    holds: HoldCounter,
    services: Arc<Services>,
    scope: Scope,
}

impl TurnFacets {
    /// The facets of a turn.
    pub(crate) fn new(
        services: Arc<Services>,
        scope: Scope,
        session: Arc<SessionRow>,
        facts: Arc<HostFacts>,
        asking: Asking,
        holds: HoldCounter,
    ) -> Self {
        Self {
            cwd: facts.cwd.clone(),
            session,
            facts,
            secrets: Arc::clone(&services.secrets),
            asking,
            holds,
            services,
            scope,
        }
    }

    /// A context whose work ends with `cancelled` and which asks through `interaction`.
    pub(crate) fn context(
        &self,
        key: &BranchKey,
        extension: &ExtensionId,
        cancelled: CancellationToken,
        interaction: Arc<dyn Interaction>,
    ) -> Context {
        Context::new(ContextParts {
            session_id: self.session.session.id.clone(),
            branch_id: key.branch.clone(),
            cwd: self.cwd.clone(),
            session_created_at: self.session.session.created_at,
            facts: Arc::clone(&self.facts),
            exec: self.exec(cancelled.clone()),
            cancelled,
            session: Arc::new(HostVerbs {
                services: Arc::clone(&self.services),
                key: key.clone(),
                extension: extension.clone(),
                holds: self.holds.clone(),
            }),
            interaction,
            file_lock: self.services.file_locks.clone(),
            redactor: self.secrets.clone(),
        })
    }

    fn exec(&self, cancelled: CancellationToken) -> Arc<dyn Exec> {
        let scope = ProcessScope {
            environment: self.session.env.clone(),
            time_zone: None,
            secrets: Arc::clone(&self.secrets),
            cancelled,
            tasks: self.scope.tasks().clone(),
        };
        Arc::new(ProcessExec::new(Arc::clone(&self.services.processes), scope))
    }
}
