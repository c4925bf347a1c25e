//! Owns how streamed text becomes what a terminal shows: deltas as they come, the message as the truth.
//! A gap stops the stream until the message; another run of a step voids what was collected of it.
//! Pure. Tested below.

use gent_protocol::RunId;

/// The text of the step that streams.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    step: Option<(u32, RunId)>,
    /// What was shown of the step.
    shown: String,
    /// A delta is missing: only the message can tell.
    has_gap: bool,
    /// The last shown character was no newline.
    is_line_open: bool,
}

impl Answer {
    /// What was collected of a step whose message has not come.
    pub(crate) fn collected(&self) -> &str {
        &self.shown
    }

    /// True while what was shown does not end with a newline.
    pub(crate) fn is_line_open(&self) -> bool {
        self.is_line_open
    }

    /// A step begins; shows the end of a line that an earlier run left open, and tells whether it left any text.
    pub(crate) fn start(&mut self, step: u32, run: &RunId) -> (String, bool) {
        let is_repeat = self.step.as_ref().is_some_and(|(known, _)| *known == step) && !self.shown.is_empty();
        self.step = Some((step, run.clone()));
        self.shown.clear();
        self.has_gap = false;
        (self.end_line(), is_repeat)
    }

    /// A delta of a step; `offset` in bytes of the step's text.
    pub(crate) fn delta(&mut self, step: u32, run: &RunId, offset: u64, chunk: &str) -> String {
        if self.step.as_ref().is_none_or(|(known, by)| *known != step || by != run) {
            // Its start was not seen: its place is not known either.
            self.step = Some((step, run.clone()));
            self.shown.clear();
            self.has_gap = offset != 0;
        }
        let collected = self.shown.len() as u64;
        if self.has_gap || offset < collected {
            return String::new();
        }
        if offset > collected {
            self.has_gap = true;
            return String::new();
        }
        self.shown.push_str(chunk);
        self.show(chunk)
    }

    /// The whole text of the step.
    pub(crate) fn message(&mut self, text: &str) -> String {
        let shown = std::mem::take(&mut self.shown);
        self.step = None;
        self.has_gap = false;
        let mut out = match text.strip_prefix(shown.as_str()) {
            Some(rest) => self.show(rest),
            // What was shown is not how it went: the message is shown whole on lines of its own.
            None => {
                let end = self.end_line();
                end + &self.show(text)
            }
        };
        out.push_str(&self.end_line());
        out
    }

    /// Ends an open line.
    pub(crate) fn end_line(&mut self) -> String {
        if std::mem::take(&mut self.is_line_open) { "\n".to_owned() } else { String::new() }
    }

    fn show(&mut self, text: &str) -> String {
        if !text.is_empty() {
            self.is_line_open = !text.ends_with('\n');
        }
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> RunId {
        RunId::parse(name).unwrap()
    }

    #[test]
    fn deltas_are_shown_as_they_come_and_the_message_adds_what_is_missing() {
        let mut answer = Answer::default();
        assert_eq!(answer.start(1, &run("r")), (String::new(), false));
        assert_eq!(answer.delta(1, &run("r"), 0, "Hé"), "Hé");
        assert_eq!(answer.delta(1, &run("r"), 3, "llo"), "llo");
        assert_eq!(answer.message("Héllo world"), " world\n");
        assert_eq!(answer.message("done\n"), "done\n");
    }

    #[test]
    fn after_a_gap_the_message_is_waited_for() {
        let mut answer = Answer::default();
        answer.start(1, &run("r"));
        assert_eq!(answer.delta(1, &run("r"), 0, "ab"), "ab");
        assert_eq!(answer.delta(1, &run("r"), 4, "ef"), "");
        assert_eq!(answer.delta(1, &run("r"), 6, "gh"), "");
        assert_eq!(answer.message("abcdefgh"), "cdefgh\n");
    }

    #[test]
    fn a_delta_that_comes_twice_is_shown_once() {
        let mut answer = Answer::default();
        answer.start(1, &run("r"));
        answer.delta(1, &run("r"), 0, "ab");
        assert_eq!(answer.delta(1, &run("r"), 0, "ab"), "");
        assert_eq!(answer.delta(1, &run("r"), 2, "c"), "c");
    }

    #[test]
    fn another_run_of_the_step_voids_what_was_collected() {
        let mut answer = Answer::default();
        answer.start(1, &run("one"));
        answer.delta(1, &run("one"), 0, "half an ans");
        assert_eq!(answer.start(1, &run("two")), ("\n".to_owned(), true));
        assert_eq!(answer.delta(1, &run("two"), 0, "Whole"), "Whole");
        // A late delta of the first run is not this step's text.
        assert_eq!(answer.message("Whole answer"), " answer\n");
        assert_eq!(answer.start(2, &run("two")), (String::new(), false));
    }

    #[test]
    fn a_message_that_says_otherwise_is_shown_whole() {
        let mut answer = Answer::default();
        answer.start(1, &run("r"));
        answer.delta(1, &run("r"), 0, "wrong");
        assert_eq!(answer.message("right"), "\nright\n");
    }

    #[test]
    fn a_stream_whose_start_was_not_seen_waits_for_its_message() {
        let mut answer = Answer::default();
        assert_eq!(answer.delta(3, &run("r"), 9, "tail"), "");
        assert_eq!(answer.message("the whole tail"), "the whole tail\n");
    }
}
