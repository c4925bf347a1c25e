//! Owns what must hold of what was told: the events of each subscriber, the questions and their answers.

use std::collections::BTreeMap;

use gent_protocol::{AgentEvent, EventSeq, InteractionRequestId};

use crate::calls::{Call, Outcome, What};
use crate::clients::Run;
use crate::watch::Watcher;
use crate::world::Rows;

/// The tag of what is told and need not stay.
const PERISHABLE: &str = "StreamChunk";
/// The tag of what is never stored.
const MARKER: &str = "StreamSynchronized";

/// Checks what one subscriber got against what its session has.
pub(crate) fn check_watcher(rows: &Rows, watcher: &Watcher) {
    let stored: BTreeMap<EventSeq, (&str, &str)> =
        rows.told.iter().map(|(item, _)| (item.id, (item.tag, &*item.json))).collect();
    let got = watcher.got.borrow();
    let mut last = watcher.after;
    let mut n_markers = 0;
    for (seq, tag, text) in &got.items {
        if tag == MARKER {
            n_markers += 1;
            assert!(*seq >= last, "the marker stands at {seq}, behind {last}");
            continue;
        }
        assert!(*seq > last, "{tag} {seq} comes after {last}");
        let missed = stored.range(EventSeq(last.0 + 1)..*seq).find(|(_, (tag, _))| *tag != PERISHABLE);
        assert_eq!(missed, None, "a subscriber after {} misses it before {seq}", watcher.after);
        last = *seq;
        if tag != PERISHABLE {
            let (_, of_store) =
                stored.get(seq).unwrap_or_else(|| panic!("{tag} {seq} was told and is not stored"));
            assert_eq!(text, of_store, "{tag} {seq} was told otherwise");
        }
    }
    assert!(n_markers <= 1, "a subscriber is told twice that it has caught up");
    // One that is connected has everything.
    if !watcher.is_disconnected() {
        assert_eq!(got.end, None, "the subscription lives");
        assert_eq!(n_markers, 1, "a subscriber is told that it has caught up");
        let missed = stored.range(EventSeq(last.0 + 1)..).find(|(_, (tag, _))| *tag != PERISHABLE);
        assert_eq!(missed, None, "a subscriber after {} misses it at the end", watcher.after);
    }
}

/// Checks the questions of a branch: one at a time is shown, the first answer counts, and calls were given it.
pub(crate) fn check_questions(run: &Run, number: usize, rows: &Rows, all: &[Call]) {
    let mut texts: BTreeMap<InteractionRequestId, String> = BTreeMap::new();
    let mut answers: BTreeMap<InteractionRequestId, (bool, Option<String>)> = BTreeMap::new();
    let mut open: Option<InteractionRequestId> = None;
    for envelope in rows.events() {
        match &envelope.event {
            AgentEvent::InteractionPresented { request_id, text, .. } => {
                assert_eq!(open, None, "{request_id} is shown beside another question");
                let before = texts.insert(request_id.clone(), text.clone());
                assert_eq!(before, None, "{request_id} is shown twice");
                open = Some(request_id.clone());
            }
            AgentEvent::InteractionResolved { request_id, approved, notes, dismissed, .. } => {
                assert!(texts.contains_key(request_id), "{request_id} is over and was never shown");
                if open.as_ref() == Some(request_id) {
                    open = None;
                }
                if !dismissed {
                    let answer = (*approved, notes.clone());
                    let first = answers.entry(request_id.clone()).or_insert_with(|| answer.clone());
                    assert_eq!(*first, answer, "{request_id} has two answers");
                }
            }
            _ => {}
        }
    }
    assert_eq!(open, None, "no question stays open");
    for call in all {
        let What::Answer { question, approved, notes } = &call.what else { continue };
        let of_here = texts.contains_key(question);
        let is_it = answers.get(question) == Some(&(*approved, Some(notes.clone())));
        match call.outcome() {
            Some(Outcome::Done) if call.branch == number => {
                assert!(of_here && is_it, "{question} was answered here: {call:?}, but {answers:?}");
            }
            Some(Outcome::Conflict) if of_here => {
                assert!(answers.contains_key(question) && !is_it, "no other answer: {call:?}");
            }
            Some(Outcome::Done) => assert!(!of_here, "{question} was answered from elsewhere: {call:?}"),
            _ => {}
        }
    }
    calls_were_given_answers(run, &texts, &answers);
}

fn calls_were_given_answers(
    run: &Run,
    texts: &BTreeMap<InteractionRequestId, String>,
    answers: &BTreeMap<InteractionRequestId, (bool, Option<String>)>,
) {
    let given = run.world.seen.given();
    for text in texts.values() {
        let of_text: Vec<_> = given.iter().filter(|given| given.question == *text).collect();
        let allowed: Vec<_> =
            texts.iter().filter(|(_, of)| *of == text).filter_map(|(id, _)| answers.get(id)).collect();
        for given in &of_text {
            let answer = (given.approved, given.notes.clone());
            assert!(allowed.contains(&&answer), "{given:?} is not an answer: {allowed:?}");
            // A call that asks on runs again from its beginning, with the answers it has had.
            let n_runs = allowed.len() * (given.n_after + 1);
            assert!(of_text.len() <= n_runs, "a call came past {text:?} {} times", of_text.len());
        }
    }
}
