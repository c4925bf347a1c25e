//! Owns a session that somebody follows and speaks into, live and in plain text: what is typed goes out, what happens is
//! shown, over every loss of the server. Never decides what a line or an event looks like: `attached/view` does.
//! Tested in `tui/tests/it/attached.rs`.

mod calls;
mod open;
mod state;
mod view;

use std::convert::Infallible;
use std::pin::pin;

use gent_client::{Connector, FollowFrom, Following, Link, follow};
use gent_protocol::{BranchId, RequestId, SessionId};
use tokio::sync::mpsc;

use crate::keyboard::Keyboard;
use crate::lines::Line;
use crate::outcome::RunError;
use crate::output::Output;
use crate::run::{at, outcome_of};
use crate::sanitize::one_line;
use crate::signals::Interrupt;
use crate::stopping::Leave;
use state::Attached;

/// Events that are put together into one write.
const BATCH: usize = 256;

/// What to attach to.
#[derive(Debug, Clone)]
pub struct AttachRequest {
    /// The session.
    pub session_id: SessionId,
    /// The branch; else the one the session shows first.
    pub branch_id: Option<BranchId>,
    /// The directory, absolute: files that are handed back are looked for in it.
    pub cwd: String,
    /// The stem of the idempotency keys of everything that is typed.
    pub id: RequestId,
    /// Quiet lines may be dimmed: standard output is a terminal and `NO_COLOR` is not set.
    pub dim: bool,
    /// Errors are shown with their causes.
    pub verbose: bool,
}

/// Follows a session until somebody leaves; gives the exit code: 0, 1 when it failed or, with a pipe for a keyboard, a
/// prompt of it was not answered, 130 after Ctrl-C, 143 after SIGTERM.
pub async fn attach<C, O>(
    connector: C,
    request: &AttachRequest,
    interrupts: &mut mpsc::Receiver<Interrupt>,
    keyboard: &mut Keyboard,
    output: &mut O,
) -> u8
where
    C: Connector + 'static,
    O: Output,
{
    let mut link = Link::new(connector);
    let looked = tokio::select! {
        biased;
        Some(interrupt) = interrupts.recv() => Err(End::Left(exit_code(interrupt))),
        looked = open::look(&mut link, request) => looked.map_err(End::Failed),
    };
    let end = match looked {
        Err(end) => end,
        Ok(snapshot) => {
            let from = FollowFrom {
                session_id: snapshot.session_id.clone(),
                branch_id: Some(snapshot.branch_id.clone()),
                after: Some(snapshot.last_event_id),
                store: Some(snapshot.store.clone()),
            };
            let mut attached = Attached::new(request, &snapshot, keyboard.is_terminal());
            let following = follow(link, from);
            let end = match attached.follow(following, interrupts, keyboard, output).await {
                Err(end) => end,
                Ok(never) => match never {},
            };
            attached.part(output).await;
            end
        }
    };
    match end {
        End::Left(exit_code) => exit_code,
        End::Failed(error) => {
            output.note(&Line::Error(error.message).render(false)).await;
            for cause in error.causes.iter().filter(|_| request.verbose) {
                output.note(&format!("  because: {}", one_line(cause, 400))).await;
            }
            1
        }
    }
}

/// Why it is over.
#[derive(Debug)]
enum End {
    /// Somebody left.
    Left(u8),
    /// It cannot go on.
    Failed(RunError),
}

fn exit_code(interrupt: Interrupt) -> u8 {
    match interrupt {
        Interrupt::CtrlC => 130,
        Interrupt::Terminate => 143,
    }
}

impl Attached<'_> {
    async fn follow<O: Output>(
        &mut self,
        mut following: Following,
        interrupts: &mut mpsc::Receiver<Interrupt>,
        keyboard: &mut Keyboard,
        output: &mut O,
    ) -> Result<Infallible, End> {
        loop {
            if self.may_take_held()
                && let Some(line) = self.held.take()
            {
                self.obey(&line).await?;
            }
            self.write(interrupts, output).await?;
            if keyboard.is_ended() && (self.is_terminal || self.is_at_rest()) {
                return Err(self.leave());
            }
            tokio::select! {
                biased;
                Some(interrupt) = interrupts.recv() => self.hear(interrupt)?,
                () = at(self.settle_at()) => self.settle(),
                typed = keyboard.next(), if self.held.is_none() && !keyboard.is_ended() => {
                    self.take_typed(typed).await?;
                }
                (ask, outcome) = self.calls.next() => self.take_report(ask, outcome),
                followed = following.next() => {
                    self.take(followed)?;
                    self.take_ready(&mut following).await?;
                }
            }
        }
    }

    /// Takes what has come already, so that it is written at once.
    async fn take_ready(&mut self, following: &mut Following) -> Result<(), End> {
        for _ in 0..BATCH {
            tokio::select! {
                biased;
                followed = following.next() => self.take(followed)?,
                () = std::future::ready(()) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Writes what gathered. A reader that is behind does not keep an interrupt from being heard.
    async fn write<O: Output>(
        &mut self,
        interrupts: &mut mpsc::Receiver<Interrupt>,
        output: &mut O,
    ) -> Result<(), End> {
        let text = self.view.take();
        if text.is_empty() {
            return Ok(());
        }
        let mut writing = pin!(output.answer(&text));
        let written = loop {
            tokio::select! {
                biased;
                written = &mut writing => break written,
                Some(interrupt) = interrupts.recv() => self.hear(interrupt)?,
            }
        };
        outcome_of(written).map_err(|leave| match leave {
            Leave::Failed(error) => End::Failed(error),
            // Nobody reads on: nothing can be said either.
            Leave::Unread | Leave::Left | Leave::Ended => End::Left(1),
        })
    }

    /// Says what goes on without this client.
    async fn part<O: Output>(&self, output: &mut O) {
        if self.view.running().is_some() {
            let text = format!("the turn goes on; `gent attach {}` comes back to it", self.session_id);
            output.note(&Line::Notice(text).render(self.request.dim)).await;
        }
    }
}
