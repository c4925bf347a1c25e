//! Owns the model of the crash matrix: what it says depends on the conversation alone, so that a step which is asked
//! for again after a restart is answered as before. Never counts requests.

use gent_e2e::scripted::{Answer, Body, Piece};
use serde_json::{Value, json};

/// Opens a turn of two calls, one of which asks.
pub(crate) const FIRST: &str = "prompt-first";
/// Opens a turn of one call that runs until it is stopped.
pub(crate) const SECOND: &str = "prompt-second";
/// Is said to the first turn.
pub(crate) const STEER: &str = "prompt-steer";
/// Opens a turn of one answer.
pub(crate) const NEXT: &str = "prompt-next";

/// The file of the working directory to which every call that runs adds its id.
pub(crate) const RAN: &str = "ran";

/// Holds the first answer until its first text was seen.
pub(crate) const GATE: &str = "text";
/// Holds an answer that is to be stopped; never opened.
const NEVER: &str = "never";

fn call(id: &str, command: String) -> Piece {
    Piece::Call { id: Some(id.to_owned()), name: "bash".to_owned(), input: json!({ "command": command }) }
}

fn says(message: &Value, marker: &str) -> bool {
    message.get("role") == Some(&json!("user"))
        && message.get("content").is_some_and(|content| content.to_string().contains(marker))
}

/// Answers a request by its newest prompt and what follows it.
pub(crate) fn rule(body: &Body) -> Option<Answer> {
    let messages = body.messages();
    let newest = |marker: &&str| messages.iter().rposition(|message| says(message, marker));
    let has_after = |marker: &str, role: &str| {
        let after = messages.iter().skip(newest(&marker).unwrap_or(messages.len()));
        after.into_iter().any(|message| message.get("role") == Some(&json!(role)))
    };
    let marker = [FIRST, SECOND, STEER, NEXT].into_iter().max_by_key(newest)?;
    newest(&marker)?;
    // Said before the turn's first step, it changes nothing of what the turn is to do.
    let is_early = marker == STEER && newest(&SECOND).is_some() && !has_after(SECOND, "assistant");
    let marker = if is_early { SECOND } else { marker };
    let has_results = has_after(marker, "tool");
    let text = |text: &str| Piece::Text(text.to_owned());
    let pieces = match (marker, has_results) {
        (FIRST, false) => vec![
            text("two calls"),
            Piece::Gate(GATE.to_owned()),
            call("c1", format!("echo c1 >> {RAN}")),
            call("c2", format!("rm -rf scratch; echo c2 >> {RAN}")),
        ],
        (SECOND, false) => vec![text("one call"), call("c3", format!("echo c3 >> {RAN}; sleep 600"))],
        (SECOND, true) => vec![text("held"), Piece::Gate(NEVER.to_owned())],
        _ => vec![text("done")],
    };
    Some(Answer { pieces, ..Answer::default() })
}
