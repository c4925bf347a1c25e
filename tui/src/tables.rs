//! Owns how lists are shown to a person: sessions of a directory, branch actors of a server.
//! Pure: the time comes in. Cells are one line and free of control characters. Tested below.

use gent_protocol::{ActorRow, ActorState, Millis, Session};

use crate::sanitize::one_line;

/// The most characters of a name or an error.
const CELL_CHARS: usize = 60;

/// Sessions, in the order given; `now` since the Unix epoch.
pub fn sessions_table(sessions: &[Session], now: Millis) -> String {
    let rows = sessions.iter().map(|session| {
        [
            session.id.to_string(),
            age(Millis(now.0 - session.updated_at.0)),
            session.model_id.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            session.name.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    });
    table(["SESSION", "CHANGED", "MODEL", "NAME"], rows)
}

/// Branch actors, in the order given.
pub fn actors_table(actors: &[ActorRow]) -> String {
    let rows = actors.iter().map(|actor| {
        [
            actor.session_id.to_string(),
            actor.branch_id.to_string(),
            state(actor.state).to_owned(),
            age(actor.since_ms),
            actor.generation.to_string(),
            actor.epoch.to_string(),
            format!("{}/{}", actor.lanes.control, actor.lanes.data),
            actor.restarts.to_string(),
            note(actor),
        ]
    });
    table(["SESSION", "BRANCH", "STATE", "SINCE", "GEN", "EPOCH", "LANES", "DEATHS", "NOTE"], rows)
}

fn state(state: ActorState) -> &'static str {
    match state {
        ActorState::Opening => "opening",
        ActorState::Idle => "idle",
        ActorState::Running => "running",
        ActorState::Waiting => "waiting",
        ActorState::Retiring => "retiring",
        ActorState::Faulted => "faulted",
        ActorState::Drained => "drained",
    }
}

fn note(actor: &ActorRow) -> String {
    let mut notes = Vec::new();
    if let Some(what) = &actor.waiting_for {
        notes.push(format!("waits for a {what}"));
    }
    if let Some(attempts) = actor.attempts {
        notes.push(format!("attempt {attempts}"));
    }
    if !actor.holds.is_empty() {
        notes.push(format!("held by {}", actor.holds.join(", ")));
    }
    if let Some(error) = &actor.last_error {
        notes.push(error.clone());
    }
    if notes.is_empty() { "-".to_owned() } else { notes.join("; ") }
}

/// A duration in its largest unit.
fn age(duration: Millis) -> String {
    let seconds = duration.0.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = rows.map(|row| row.map(|cell| one_line(&cell, CELL_CHARS))).collect();
    let mut widths = head.map(|cell| cell.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    push_row(&mut out, &head, &widths);
    for row in &rows {
        push_row(&mut out, row, &widths);
    }
    out
}

fn push_row<S: AsRef<str>>(out: &mut String, row: &[S], widths: &[usize]) {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        line.push_str(&format!("{:<width$}  ", cell.as_ref()));
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use gent_protocol::{BranchId, LaneDepth, SessionId, WorkspaceId};
    use serde_json::json;

    use super::*;

    #[test]
    fn sessions_are_a_table_with_their_age() {
        let session = |id: &str, name: &str, updated: i64| -> Session {
            let value = json!({ "id": id, "name": name, "modelId": "demo/demo", "createdAt": 0, "updatedAt": updated });
            serde_json::from_value(value).unwrap()
        };
        let rows = [session("s-1", "Fix the build", 9_000), session("s-22", "a\u{1b}[2Jb", 0)];
        let expected = "\
SESSION  CHANGED  MODEL      NAME
s-1      51s      demo/demo  Fix the build
s-22     1m       demo/demo  ab
";
        assert_eq!(sessions_table(&rows, Millis(60_000)), expected);
        assert_eq!(sessions_table(&[], Millis(0)), "SESSION  CHANGED  MODEL  NAME\n");
    }

    #[test]
    fn actors_show_what_they_wait_for_and_what_went_wrong() {
        let row = ActorRow {
            workspace_id: WorkspaceId::parse("0".repeat(64)).unwrap(),
            session_id: SessionId::parse("s").unwrap(),
            branch_id: BranchId::parse("b").unwrap(),
            state: ActorState::Drained,
            since_ms: Millis(7_200_000),
            generation: 2,
            epoch: 5,
            holds: vec!["turn".into()],
            lanes: LaneDepth { control: 1, data: 2 },
            restarts: 3,
            attempts: Some(1),
            waiting_for: Some("credential".into()),
            last_error: Some("it died\nagain".into()),
        };
        let expected = "\
SESSION  BRANCH  STATE    SINCE  GEN  EPOCH  LANES  DEATHS  NOTE
s        b       drained  2h     2    5      1/2    3       waits for a credential; attempt 1; held by turn; it died aga…
";
        assert_eq!(actors_table(&[row]), expected);
    }

    #[test]
    fn an_age_has_one_unit_and_never_runs_backwards() {
        let ages = [-5, 59_999, 60_000, 3_600_000, 172_800_000].map(|ms| age(Millis(ms)));
        assert_eq!(ages, ["0s", "59s", "1m", "1h", "2d"]);
    }
}
