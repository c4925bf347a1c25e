//! Owns when a branch tells extensions of its life: `turnAfter` behind a receipt and before the next turn, `loopOpen`
//! beside everything. Never waits for one on the actor: hooks run in the activation's scope.
//! Tested in `actors/tests/it/` (G2, G16–G19).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use gent_extension_api::{HostFacts, TurnAfterInput};
use gent_protocol::{AgentName, Approval, ExtensionId, RunId};
use gent_storage::SessionRow;
use tokio_util::sync::CancellationToken;

use super::actor::BranchActor;
use super::state::Input;
use crate::profile::{loop_open, turn_after};
use crate::turn::{Asking, NoCall, TurnFacets};

impl BranchActor {
    /// Runs the hooks of a turn that has ended; the branch takes its next turn after them.
    pub(super) fn run_turn_after(
        &mut self,
        ctx: &mut Context<Self>,
        run: RunId,
        input: impl FnOnce(AgentName) -> TurnAfterInput,
    ) {
        let session = self.session.clone().filter(|_| self.services.profiles.has_turn_after());
        let Some(session) = session else {
            self.advance(ctx, Input::ReceiptWritten { run });
            return;
        };
        let input = input(crate::route::agent_name(&session.session));
        let context_of = self.contexts(session.clone());
        let services = Arc::clone(&self.services);
        let told = self.shared.scope.spawn(async move {
            let profile = services.profiles.lease(&cwd_of(&session));
            turn_after(&profile, |extension| context_of(&profile.facts, extension), &input).await;
        });
        ctx.spawn(told.into_actor(self).map(move |_ended, actor, ctx| {
            actor.advance(ctx, Input::ReceiptWritten { run });
            actor.pump(ctx);
        }));
    }

    /// Tells that the branch is in memory. It stays there until everybody has heard.
    pub(super) fn run_loop_open(&self) {
        let Some(session) = self.session.clone() else { return };
        let context_of = self.contexts(session.clone());
        let (services, hold) = (Arc::clone(&self.services), self.shared.holds.hold());
        drop(self.shared.scope.spawn(async move {
            let profile = services.profiles.lease(&cwd_of(&session));
            loop_open(&profile, |extension| context_of(&profile.facts, extension)).await;
            drop(hold);
        }));
    }

    /// What hooks of this activation are handed.
    fn contexts(
        &self,
        session: Arc<SessionRow>,
    ) -> impl Fn(&Arc<HostFacts>, &ExtensionId) -> gent_extension_api::Context + Send + Sync + 'static {
        let (services, scope, key) =
            (Arc::clone(&self.services), self.shared.scope.clone(), self.key.clone());
        let holds = self.shared.holds.clone();
        move |facts, extension| {
            let asking = Asking {
                approval: Approval::Ask,
                can_ask: false,
                model: None,
                standing: Arc::clone(&services.standing_approval),
            };
            let facets = TurnFacets::new(
                Arc::clone(&services),
                scope.clone(),
                Arc::clone(&session),
                Arc::clone(facts),
                asking,
                holds.clone(),
            );
            facets.context(&key, extension, CancellationToken::new(), Arc::new(NoCall))
        }
    }
}

fn cwd_of(session: &SessionRow) -> PathBuf {
    session.session.cwd.as_ref().map_or_else(|| Path::new("/").to_owned(), PathBuf::from)
}
