//! Owns what handlers and tools of a turn are handed: facets bound to this turn.
//! Never outlives the turn's scope. Tested end to end.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{
    ApprovalRequest, Context, ContextParts, Decision, Exec, HostFacts, Interaction, InteractionError,
};
use gent_protocol::{Approval, ModelId};
use gent_storage::SessionRow;
use tokio_util::sync::CancellationToken;

use crate::branch::Scope;
use crate::process::{ProcessExec, ProcessScope};
use crate::redact::SecretSet;
use crate::services::{Services, StandingApproval};

/// What the contexts of a turn have in common.
pub(crate) struct TurnFacets {
    pub(crate) session: Arc<SessionRow>,
    pub(crate) facts: Arc<HostFacts>,
    pub(crate) cwd: PathBuf,
    pub(crate) secrets: Arc<SecretSet>,
    pub(crate) interaction: Arc<dyn Interaction>,
    services: Arc<Services>,
    scope: Scope,
}

impl TurnFacets {
    /// The facets of a turn; `model` decides which calls have a standing approval.
    pub(crate) fn new(
        services: Arc<Services>,
        scope: Scope,
        session: Arc<SessionRow>,
        facts: Arc<HostFacts>,
        approval: Approval,
        model: Option<ModelId>,
    ) -> Self {
        let standing = Arc::clone(&services.standing_approval);
        Self {
            cwd: facts.cwd.clone(),
            session,
            facts,
            secrets: Arc::clone(&services.secrets),
            interaction: Arc::new(FixedAnswer { approval, model, standing }),
            services,
            scope,
        }
    }

    /// A context whose work ends with `cancelled`.
    pub(crate) fn context(&self, branch: &gent_protocol::BranchId, cancelled: CancellationToken) -> Context {
        Context::new(ContextParts {
            session_id: self.session.session.id.clone(),
            branch_id: branch.clone(),
            cwd: self.cwd.clone(),
            session_created_at: self.session.session.created_at,
            facts: Arc::clone(&self.facts),
            exec: self.exec(cancelled.clone()),
            cancelled,
            interaction: Arc::clone(&self.interaction),
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

/// The answer where nobody can be asked: the session's own, or one that stands for a few known calls.
struct FixedAnswer {
    approval: Approval,
    model: Option<ModelId>,
    standing: Arc<dyn StandingApproval>,
}

impl Interaction for FixedAnswer {
    fn approve<'a>(&'a self, request: ApprovalRequest) -> BoxFuture<'a, Result<Decision, InteractionError>> {
        let stands = self.model.as_ref().is_some_and(|model| self.standing.allows(model, &request));
        let decision = if self.approval == Approval::Approve || stands {
            Decision { approved: true, notes: None }
        } else {
            Decision {
                approved: false,
                notes: Some(
                    "nobody can be asked here: start the run with --approve-all to allow such calls".into(),
                ),
            }
        };
        futures_util::future::ready(Ok(decision)).boxed()
    }
}
