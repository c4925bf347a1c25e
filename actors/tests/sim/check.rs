//! Owns what must hold of the transcript and the turns of a branch, whatever happened in its run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gent_protocol::{AgentEvent, EventSeq, Message, MessageId, Part, Role};

use crate::calls::{Call, Outcome, What};
use crate::clients::{Run, Weather};
use crate::world::Rows;

/// What is known of one branch.
pub(crate) struct Branch<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) calls: Vec<&'a Call>,
}

/// A turn as its events tell of it.
#[derive(Debug, Default)]
struct Turn {
    began: Option<EventSeq>,
    ends: Vec<Ending>,
    /// Requests to the model, by the number of the event.
    streams: Vec<EventSeq>,
}

#[derive(Debug)]
struct Ending {
    at: EventSeq,
    interrupted: bool,
}

/// Checks a branch that is at rest.
pub(crate) fn check_branch(run: &Run, number: usize, rows: &Rows, all: &[Call]) {
    let calls = all.iter().filter(|call| call.branch == number).collect();
    let branch = Branch { rows, calls };
    assert!(branch.rows.turn.is_none(), "no turn is left");
    assert!(branch.rows.shown.is_none(), "no question is left");
    let turns = turns(rows);
    messages_are_whole(&branch);
    every_turn_ends_once(&branch, &turns);
    one_turn_at_a_time(rows);
    prompts_are_kept(&branch);
    steers_are_kept(&branch);
    prompts_keep_their_order(&branch, run.weather);
    drains_are_told_once(&branch);
    stops_hold(&branch, &turns);
    calls_end_once(rows);
}

fn opens(message: &Message) -> bool {
    let said = message.metadata.as_ref();
    message.role == Role::User && said.is_some_and(|said| said.from_client && !said.joined_turn)
}

fn turns(rows: &Rows) -> BTreeMap<MessageId, Turn> {
    let mut turns: BTreeMap<MessageId, Turn> = BTreeMap::new();
    for envelope in rows.events() {
        match &envelope.event {
            AgentEvent::MessageReceived { message } if opens(message) => {
                turns.entry(message.id.clone()).or_default().began = Some(envelope.id);
            }
            AgentEvent::StreamStarted { message_id, .. } => {
                turns.entry(message_id.clone()).or_default().streams.push(envelope.id);
            }
            AgentEvent::TurnCompleted { message_id, interrupted, .. } => {
                let ending = Ending { at: envelope.id, interrupted: *interrupted };
                turns.entry(message_id.clone()).or_default().ends.push(ending);
            }
            _ => {}
        }
    }
    turns
}

/// No id twice, no hole in the order, each message told of once.
fn messages_are_whole(branch: &Branch<'_>) {
    let mut ids = BTreeSet::new();
    for (place, stored) in branch.rows.messages.iter().enumerate() {
        assert!(ids.insert(&stored.message.id), "the message {} is there twice", stored.message.id);
        assert_eq!(usize::try_from(stored.ordinal.0).unwrap(), place + 1, "the order has a hole");
    }
    let told: Vec<&MessageId> = branch
        .rows
        .events()
        .filter_map(|envelope| match &envelope.event {
            AgentEvent::MessageReceived { message } => Some(&message.id),
            _ => None,
        })
        .collect();
    let stored: Vec<&MessageId> = branch.rows.messages.iter().map(|stored| &stored.message.id).collect();
    assert_eq!(told, stored, "the messages are not those that were told of");
}

fn every_turn_ends_once(branch: &Branch<'_>, turns: &BTreeMap<MessageId, Turn>) {
    for stored in &branch.rows.messages {
        let Message { id, turn_duration_ms, .. } = &stored.message;
        let n_ends = turns.get(id).map_or(0, |turn| turn.ends.len());
        if opens(&stored.message) {
            assert_eq!(n_ends, 1, "the turn of {id} ends once");
            assert!(turn_duration_ms.is_some(), "the message {id} says that its turn has ended");
        } else {
            assert_eq!(n_ends, 0, "the message {id} opens no turn");
        }
    }
    for (id, turn) in turns {
        let Some(began) = turn.began else { panic!("the turn of {id} has no message") };
        let [ending] = turn.ends.as_slice() else { panic!("the turn of {id} ends once: {turn:?}") };
        assert!(began < ending.at, "the turn of {id} ends before it begins");
        for stream in &turn.streams {
            assert!(began < *stream && *stream < ending.at, "the turn of {id} asks a model outside of it");
        }
    }
}

fn one_turn_at_a_time(rows: &Rows) {
    let mut current: Option<&MessageId> = None;
    for envelope in rows.events() {
        match &envelope.event {
            AgentEvent::MessageReceived { message } if opens(message) => {
                assert_eq!(current, None, "{} opens a turn in the middle of another", message.id);
                current = Some(&message.id);
            }
            AgentEvent::TurnCompleted { message_id, .. } => {
                assert_eq!(current, Some(message_id), "it ends a turn that does not run");
                current = None;
            }
            _ => {}
        }
    }
}

impl Branch<'_> {
    fn with_text(&self, say: &str) -> Vec<&Message> {
        let messages = self.rows.messages.iter().map(|stored| &stored.message);
        messages.filter(|message| message.role == Role::User && message.text() == say).collect()
    }

    fn place_of(&self, say: &str) -> Option<usize> {
        self.rows.messages.iter().position(|stored| stored.message.text() == say)
    }

    fn is_drained(&self, say: &str) -> bool {
        self.calls.iter().any(|call| match call.outcome() {
            Some(Outcome::Drained(taken)) => taken.iter().any(|(_, text)| text == say),
            _ => false,
        })
    }

    /// A stop that names the message was asked for.
    fn is_stop_asked(&self, id: &MessageId) -> bool {
        self.calls.iter().any(|call| match &call.what {
            What::Stop { message: Some(message), .. } => message == id.as_str(),
            _ => false,
        })
    }
}

fn prompts_are_kept(branch: &Branch<'_>) {
    let mut texts: HashMap<&str, Vec<&Call>> = HashMap::new();
    for call in &branch.calls {
        if let What::Send { say, .. } = &call.what {
            texts.entry(say).or_default().push(call);
        }
    }
    for (say, calls) in texts {
        let stored = branch.with_text(say);
        assert!(stored.len() <= 1, "{say:?} is there {} times", stored.len());
        if let (Some(id), Some(message)) = (calls[0].message(), stored.first()) {
            assert_eq!(message.id, id, "{say:?} has an id of its own");
        }
        let is_acknowledged = calls.iter().any(|call| call.is_done());
        let is_drained = branch.is_drained(say);
        if is_acknowledged {
            assert!(stored.len() == 1 || is_drained, "{say:?} was acknowledged and is gone");
        }
        let is_refused = calls.iter().all(|call| matches!(call.outcome(), Some(Outcome::Refused(_))));
        if is_refused || (is_drained && calls.len() == 1) {
            assert!(stored.is_empty(), "{say:?} was refused or taken back, and ran");
        }
    }
    // Nobody speaks for a client.
    for stored in branch.rows.messages.iter().filter(|stored| opens(&stored.message)) {
        let text = stored.message.text();
        let is_said = branch.calls.iter().any(
            |call| matches!(&call.what, What::Send { say, .. } | What::Steer { say, .. } if *say == text),
        );
        assert!(is_said, "nobody said {text:?}");
    }
}

fn steers_are_kept(branch: &Branch<'_>) {
    for call in &branch.calls {
        let (What::Steer { say, .. }, Some(id)) = (&call.what, call.message()) else { continue };
        let stored = branch.with_text(say);
        assert!(stored.len() <= 1, "{say:?} is there {} times", stored.len());
        let waits = branch.rows.queue.iter().any(|item| item.message.id == id);
        let is_taken_back = branch.is_drained(say) || branch.is_stop_asked(&id);
        assert!(!waits || stored.is_empty(), "{say:?} waits and has joined");
        if call.is_done() {
            assert!(stored.len() == 1 || waits || is_taken_back, "{say:?} was acknowledged and is gone");
        }
        if branch.is_drained(say) {
            assert!(stored.is_empty(), "{say:?} was taken back, and was said");
        }
    }
}

/// Of two prompts the one that was acknowledged before the other was sent comes first; where nothing went wrong, the one
/// that was sent first.
fn prompts_keep_their_order(branch: &Branch<'_>, weather: Weather) {
    let sends: Vec<(&Call, usize)> = branch
        .calls
        .iter()
        .filter_map(|call| match &call.what {
            What::Send { say, .. } if !branch.is_drained(say) => Some((*call, branch.place_of(say)?)),
            _ => None,
        })
        .collect();
    for (first, first_place) in &sends {
        for (second, second_place) in &sends {
            let is_before = match &first.ended {
                Some(ended) if first.is_done() => ended.at < second.began,
                _ => false,
            };
            let is_first_try = |call: &Call| {
                let tries = sends.iter().filter(|(other, _)| other.what == call.what);
                tries.map(|(other, _)| other.began).min() == Some(call.began)
            };
            let is_sent_before = weather == Weather::Fair
                && first.began < second.began
                && is_first_try(first)
                && is_first_try(second)
                && !matches!(first.outcome(), Some(Outcome::Refused(_)))
                && !matches!(second.outcome(), Some(Outcome::Refused(_)));
            if first.what != second.what && is_first_try(second) && (is_before || is_sent_before) {
                assert!(first_place < second_place, "{:?} was sent before {:?}", first.what, second.what);
            }
        }
    }
}

fn drains_are_told_once(branch: &Branch<'_>) {
    let mut first: HashMap<&What, &Outcome> = HashMap::new();
    let mut owners: HashMap<(MessageId, String), &What> = HashMap::new();
    for call in &branch.calls {
        let (What::Drain { .. }, Some(outcome @ Outcome::Drained(taken))) = (&call.what, call.outcome())
        else {
            continue;
        };
        assert_eq!(*first.entry(&call.what).or_insert(outcome), outcome, "a repeat is answered otherwise");
        for entry in taken {
            let is_steer = entry.0.as_str().ends_with(":interjection");
            let owner = *owners.entry(entry.clone()).or_insert(&call.what);
            // A prompt may be sent again after it was taken back.
            assert!(owner == &call.what || !is_steer, "{entry:?} is taken back by two");
        }
    }
}

/// A message whose stop was acknowledged before it began asks no model; one that ran asks at most once more.
fn stops_hold(branch: &Branch<'_>, turns: &BTreeMap<MessageId, Turn>) {
    for call in &branch.calls {
        let What::Stop { message: Some(message), .. } = &call.what else { continue };
        let Some(last) = call.ended.as_ref().filter(|_| call.is_done()).and_then(|ended| ended.last) else {
            continue;
        };
        let Some(turn) = turns.get(&MessageId::parse(message.clone()).unwrap()) else { continue };
        let n_after = turn.streams.iter().filter(|stream| **stream > last).count();
        if turn.began.is_some_and(|began| began > last) {
            assert_eq!(n_after, 0, "{message} was stopped before it began, and asks a model");
            assert!(turn.ends.iter().all(|end| end.interrupted), "{message} was stopped before it began");
        }
        // A request may be on its way into the store when the stop is.
        assert!(n_after <= 1, "{message} was stopped and goes on asking");
    }
}

/// Each call of the transcript has one result, and one event that ends it.
fn calls_end_once(rows: &Rows) {
    let mut called: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for stored in &rows.messages {
        for part in &stored.message.parts {
            match part {
                Part::ToolCall(call) => drop(called.insert(call.id.to_string(), (0, 0))),
                Part::ToolResult(outcome) => {
                    let of = called.get_mut(outcome.id.as_str());
                    of.unwrap_or_else(|| panic!("a result of {} without its call", outcome.id)).0 += 1;
                }
                _ => {}
            }
        }
    }
    for envelope in rows.events() {
        if let AgentEvent::ToolCallSucceeded { tool_call_id, .. }
        | AgentEvent::ToolCallFailed { tool_call_id, .. } = &envelope.event
        {
            let of = called.get_mut(tool_call_id.as_str());
            of.unwrap_or_else(|| panic!("an end of {tool_call_id} without its call")).1 += 1;
        }
    }
    for (call, (n_results, n_ends)) in called {
        assert_eq!((n_results, n_ends), (1, 1), "results and ends of {call}");
    }
}
