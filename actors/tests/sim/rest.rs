//! Owns how a run comes to rest: faults end, questions are answered, time passes, the engine is started once more. Then
//! everything is asked again, and each branch gets one more prompt.

use std::collections::BTreeSet;
use std::time::Duration;

use gent_protocol::{AgentEvent, MessageId, RequestId, client_message_id};

use crate::calls::{Call, Outcome, What};
use crate::clients::{Run, Weather};
use crate::later;

/// Longer than any wait of the engine but the idle time.
const ROUND: Duration = Duration::from_secs(5);
/// Rounds in which a run comes to rest: the longest chain of questions is shorter.
const ROUNDS: usize = 80;

impl Run {
    /// Brings everything to rest.
    pub(crate) async fn rest(&mut self, kills: bool) {
        self.n_faults = gent_storage::failpoint::disarm_here();
        self.world.script.calm();
        let unrest = self.settle().await;
        // A start that takes nothing up, and a branch that was given up, need the next start.
        if self.weather == Weather::Fair {
            assert_eq!(unrest, None, "nothing went wrong, and it does not come to rest");
        }
        self.log.push(format!("the last restart: kills {kills}"));
        self.start_again(kills, true).await;
        let unrest = self.settle().await;
        assert_eq!(unrest, None, "after the last start it does not come to rest");
    }

    async fn settle(&mut self) -> Option<String> {
        for _ in 0..ROUNDS {
            for branch in 0..self.world.branches.len() {
                self.answer_shown(branch);
            }
            later(ROUND).await;
            self.unrest()?;
        }
        self.unrest()
    }

    fn unrest(&self) -> Option<String> {
        let of_branch = (0..self.world.branches.len()).find_map(|branch| self.world.unrest(branch));
        let open = self.calls.open().first().map(|call| format!("a call has no answer: {call:?}"));
        of_branch.or(open)
    }

    /// Asks everything again: each call answers as the first did, and nothing happens.
    pub(crate) async fn ask_again(&mut self) {
        // What nobody knows is asked until it is known.
        for call in self.calls.all() {
            if matches!(call.what, What::Drain { .. }) && !self.is_known(&call) {
                self.calls.made(&self.world, call.branch, call.what).await;
            }
        }
        let all = self.calls.all();
        let ids =
            |branch| self.world.rows(branch).messages.into_iter().map(|stored| stored.message.id).collect();
        let stored: Vec<BTreeSet<MessageId>> = (0..self.world.branches.len()).map(ids).collect();
        let before: Vec<_> = (0..self.world.branches.len()).map(|branch| self.world.last(branch)).collect();
        for call in &all {
            let Some(expected) = self.expected(call, &stored[call.branch]) else { continue };
            let again = self.calls.made(&self.world, call.branch, call.what.clone()).await;
            assert_eq!(again, expected, "asked again: {call:?}");
        }
        later(ROUND).await;
        let after: Vec<_> = (0..self.world.branches.len()).map(|branch| self.world.last(branch)).collect();
        assert_eq!(before, after, "something happened because everything was asked again");
    }

    fn is_known(&self, call: &Call) -> bool {
        self.calls
            .all()
            .iter()
            .any(|other| other.branch == call.branch && other.what == call.what && other.is_done())
    }

    /// What a repeat is answered now; none where it would be something new.
    fn expected(&self, call: &Call, stored: &BTreeSet<MessageId>) -> Option<Outcome> {
        if !self.is_known(call) {
            return None;
        }
        match &call.what {
            What::Send { request: None, .. } => None,
            What::Send { request: Some(request), .. } => {
                // One that was taken out of the queue would run now.
                let id = client_message_id(&RequestId::parse(request).unwrap());
                stored.contains(&id).then_some(Outcome::Done)
            }
            What::Steer { .. } | What::Stop { .. } | What::Answer { .. } => Some(Outcome::Done),
            What::Drain { .. } => {
                let same =
                    |other: &&Call| other.branch == call.branch && other.what == call.what && other.is_done();
                self.calls.all().iter().find(same).and_then(|first| first.outcome().cloned())
            }
        }
    }

    /// Each branch takes one more prompt and answers it.
    pub(crate) async fn prompt_all(&mut self) {
        for branch in 0..self.world.branches.len() {
            let (request, outcome) = self.prompt(branch).await;
            assert_eq!(outcome, Outcome::Done, "the next prompt of branch {branch}");
            let id = client_message_id(&RequestId::parse(request).unwrap());
            let rows = self.world.rows(branch);
            let answered = rows.events().any(|envelope| {
                matches!(&envelope.event, AgentEvent::TurnCompleted {
                    message_id, interrupted: false, stream_failed: false, unanswered: false, ..
                } if *message_id == id)
            });
            assert!(answered, "the next prompt of branch {branch} is answered");
        }
        later(ROUND).await;
    }
}
