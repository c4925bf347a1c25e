//! Owns what must be true of a killed and restarted server: read from its database at the kill and at the end, and from
//! what clients saw. Never starts or asks anything.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use gent_protocol::{AgentEvent, EventEnvelope, EventSeq, MessageId};
use gent_storage::QuestionStatus;

use crate::model::{FIRST, NEXT, SECOND};
use crate::script::{Known, opening, steer_message};
use crate::stored::Stored;

/// One case, all of it.
pub(crate) struct Evidence {
    /// What the client knew at the kill.
    pub(crate) known: Known,
    /// What the client of the restarted server knew at the end.
    pub(crate) known_after: Known,
    /// What was stored at the kill.
    pub(crate) killed: Stored,
    /// What was stored at the end.
    pub(crate) after: Stored,
    /// The ids of the calls that ran, in order.
    pub(crate) ran: Vec<String>,
    /// Without a kill nothing may be cut.
    pub(crate) was_killed: bool,
}

impl Evidence {
    /// Fails with the first thing that is not as it must be.
    pub(crate) fn check(&self) -> Result<()> {
        self.events_are_kept().context("events")?;
        self.answers_are_kept().context("what was acknowledged")?;
        self.epochs_rise().context("the right to write")?;
        self.transcript_is_whole().context("the transcript")?;
        self.turns_end_once().context("the turns")?;
        for call in ["c1", "c2", "c3"] {
            self.call_ran_as_told(call).with_context(|| format!("the call {call}"))?;
        }
        self.question_was_answered_once().context("the question")
    }

    /// What a client saw was stored at the kill under its number; what was stored then is stored at the end; what the
    /// last client saw from the first event on is what is stored.
    fn events_are_kept(&self) -> Result<()> {
        let seen = |known: &Known| known.session.as_ref().map(|session| session.events.lasting());
        let in_order = |events: &[EventEnvelope]| events.is_sorted_by(|a, b| a.id < b.id);
        let before = seen(&self.known).unwrap_or_default();
        let last = seen(&self.known_after).context("no client at the end")?;
        ensure!(in_order(&before) && in_order(&last), "a client saw numbers twice or out of order");
        let killed: Vec<&EventEnvelope> = self.killed.lasting().collect();
        let after: Vec<&EventEnvelope> = self.after.lasting().collect();
        for envelope in &before {
            ensure!(killed.contains(&envelope), "seen and not stored: {envelope:?}");
        }
        for envelope in &killed {
            ensure!(after.contains(envelope), "stored and lost: {envelope:?}");
        }
        ensure!(last.iter().eq(after.iter().copied()), "the last client saw something else than is stored");
        Ok(())
    }

    fn answers_are_kept(&self) -> Result<()> {
        let (known, killed) = (&self.known, &self.killed);
        ensure!(known.session.is_none() || killed.has_session, "the session is lost");
        ensure!(!known.second || killed.count(&opening(SECOND)?) == 1, "the queued prompt is lost");
        ensure!(!known.steer || killed.count(&steer_message()?) == 1, "the steer is lost");
        let decision = killed.question.as_ref().and_then(|question| question.decision.as_ref());
        ensure!(!known.answer || decision.is_some_and(|decision| decision.approved), "the answer is lost");
        ensure!(!known.cancel || killed.has_stop, "the cancel is lost");
        ensure!(self.after.has_stop, "the cancel is not stored");
        Ok(())
    }

    fn epochs_rise(&self) -> Result<()> {
        let before = self.known.epochs.iter().copied().max().unwrap_or(0);
        let later = self.known_after.epochs.iter().copied().min().context("nobody looked")?;
        ensure!(before <= self.killed.epoch, "an epoch above the stored one");
        if self.was_killed {
            ensure!(later > self.killed.epoch, "epoch {later} after {}", self.killed.epoch);
        }
        ensure!(later <= self.after.epoch, "the epoch fell to {}", self.after.epoch);
        Ok(())
    }

    /// Every message once, in order, each told once; nothing is left to do.
    fn transcript_is_whole(&self) -> Result<()> {
        let after = &self.after;
        let ids: BTreeSet<&MessageId> = after.messages.iter().map(|stored| &stored.message.id).collect();
        ensure!(ids.len() == after.messages.len(), "a message is there twice");
        ensure!(after.messages.is_sorted_by(|a, b| a.ordinal < b.ordinal), "two messages at one place");
        ensure!(after.messages.is_sorted_by(|a, b| a.event < b.event), "told in another order than stored");
        let told: Vec<(&MessageId, Option<EventSeq>)> = after
            .events
            .iter()
            .filter_map(|envelope| match &envelope.event {
                AgentEvent::MessageReceived { message } => Some((&message.id, Some(envelope.id))),
                _ => None,
            })
            .collect();
        let stored: Vec<_> = after.messages.iter().map(|stored| (&stored.message.id, stored.event)).collect();
        ensure!(told == stored, "told: {told:?}\nstored: {stored:?}");
        ensure!(after.queue.is_empty(), "still waiting: {:?}", after.queue);
        ensure!(after.turn.is_none(), "still unfinished: {:?}", after.turn);
        let text = after.events.iter().find(|e| matches!(e.event, AgentEvent::StreamChunk { .. }));
        ensure!(text.is_none(), "text of a turn that is over: {text:?}");
        Ok(())
    }

    /// Every message that opened a turn has one end, nothing else has.
    fn turns_end_once(&self) -> Result<()> {
        let after = &self.after;
        let ends = |turn: &MessageId| -> Vec<(bool, bool, bool)> {
            let facts = after.events.iter().filter_map(|envelope| match &envelope.event {
                AgentEvent::TurnCompleted { message_id, interrupted, stream_failed, unanswered, .. } => {
                    (message_id == turn).then_some((*interrupted, *stream_failed, *unanswered))
                }
                _ => None,
            });
            facts.collect()
        };
        let plain = (false, false, false);
        let stopped = (true, false, false);
        for (prompt, end) in [(FIRST, plain), (SECOND, stopped), (NEXT, plain)] {
            let (turn, id) = (ends(&opening(prompt)?), opening(prompt)?);
            ensure!(turn == [end], "{prompt} ended as {turn:?}");
            ensure!(after.count(&id) == 1, "{prompt} is there {} times", after.count(&id));
        }
        let id = steer_message()?;
        let steer = after.messages.iter().find(|stored| stored.message.id == id).context("no steer")?;
        let has_joined = steer.message.metadata.as_ref().is_some_and(|facts| facts.joined_turn);
        let expected = if has_joined { Vec::new() } else { vec![plain] };
        ensure!(ends(&id) == expected, "the steer, joined: {has_joined}, ended as {:?}", ends(&id));
        ensure!(self.was_killed || has_joined, "the steer did not join the turn that it was said to");
        let all = after.events.iter().filter(|e| matches!(e.event, AgentEvent::TurnCompleted { .. })).count();
        ensure!(all == 3 + expected.len(), "{all} ends");
        Ok(())
    }

    /// A call has one end and one result, the same; it ran at most once; what it is said to have done it did; it was cut
    /// only where the kill cut it.
    fn call_ran_as_told(&self, call: &str) -> Result<()> {
        let (killed, after) = (&self.killed, &self.after);
        let (ends, results) = (after.ends(call), after.results(call));
        let ran = self.ran.iter().filter(|id| *id == call).count();
        ensure!(ran <= 1, "it ran {ran} times");
        let ([(_, json, failed)], [result]) = (ends.as_slice(), results.as_slice()) else {
            anyhow::bail!("{} ends and {} results", ends.len(), results.len());
        };
        let told: serde_json::Value = serde_json::from_str(json)?;
        ensure!(told == result.result, "its end says {json}, its result {}", result.result);
        ensure!(*failed == result.is_failure, "its end and its result disagree");
        // The second turn's call runs until it is stopped.
        if call == "c3" {
            return Ok(());
        }
        let question = killed.question.as_ref().filter(|question| question.call.as_str() == call);
        let may_run_again = question.is_some_and(|question| {
            matches!(question.status, QuestionStatus::Shown | QuestionStatus::Answered)
        });
        let is_cut = killed.has_call(call) && killed.ends(call).is_empty() && !may_run_again;
        let is_interrupted = result.is_failure && result.result.get("reason") == Some(&"Interrupted".into());
        ensure!(is_cut == is_interrupted, "cut by the kill: {is_cut}, its result: {}", result.result);
        ensure!(is_cut || !result.is_failure, "it failed: {}", result.result);
        ensure!(is_cut || ran == 1, "it is said to have run, and did not");
        Ok(())
    }

    /// Asked once, answered before the call ran, and over at the end.
    fn question_was_answered_once(&self) -> Result<()> {
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        for envelope in &self.after.events {
            match &envelope.event {
                AgentEvent::InteractionPresented { request_id, .. } => asked.push(request_id),
                AgentEvent::InteractionResolved { request_id, approved, dismissed, .. } => {
                    ensure!(*approved && !dismissed, "it was resolved as {envelope:?}");
                    answered.push((request_id, envelope.id));
                }
                _ => {}
            }
        }
        let was_cut = asked.is_empty();
        ensure!(asked.len() <= 1, "it was asked {} times", asked.len());
        ensure!(answered.len() == asked.len(), "it was answered {} times", answered.len());
        ensure!(self.was_killed || !was_cut, "nobody was asked");
        let has_run = self.ran.iter().any(|id| id == "c2");
        let end = self.after.ends("c2").first().map(|(at, ..)| *at);
        let was_before = answered.iter().any(|(_, at)| Some(*at) < end);
        ensure!(!has_run || was_before, "the call ran without an answer");
        ensure!(answered.iter().all(|(id, _)| asked.contains(id)), "another question was answered");
        let status = self.after.question.as_ref().map(|question| question.status);
        ensure!(was_cut || status == Some(QuestionStatus::Closed), "the question is {status:?}");
        Ok(())
    }
}
