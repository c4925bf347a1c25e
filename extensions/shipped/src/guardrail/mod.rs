//! Owns the judgement of a shell command before it runs: what it would touch, by its text alone.
//! Never reads a file, a variable or the network, and never runs anything. It is no sandbox: a program it does not
//! know is safe to it, and so is the project's own code (`make`, `cargo test`, `python script.py`, `sh build.sh`).
//! What it cannot read asks. Tested in `tests`, the parts beside them.

mod commands;
mod git;
mod here_documents;
mod lexical;
mod options;
mod paths;
mod programs;
mod rules;
mod scripts;
mod syntax;
mod variables;
mod walk;
mod words;
mod wrappers;

#[cfg(test)]
mod tests;

/// What a command may do, from harmless to worst. All but [`Class::Safe`] ask before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Nothing that is worth a question was found.
    Safe,
    /// It reads or changes secrets, or a file that decides what runs later.
    Sensitive,
    /// It publishes something.
    External,
    /// It destroys what may not come back, or it was not understood.
    Destructive,
}

impl Class {
    /// Its word in the facts of a question.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Sensitive => "sensitive",
            Self::External => "external",
            Self::Destructive => "destructive",
        }
    }
}

/// The class of a command and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// The worst class of all parts.
    pub(crate) class: Class,
    /// One sentence that names the part and says why. Of several parts of the worst class the first.
    pub(crate) reason: String,
}

/// Judges the text of a command for `bash -c`. Pure and bounded: text of any length and content returns quickly.
pub(crate) fn classify(command: &str) -> Judgement {
    let mut judge = Judge::default();
    judge.script(command, walk::Place::outermost());
    judge.worst.unwrap_or_else(|| Judgement {
        class: Class::Safe,
        reason: "Nothing in the command is known to destroy, publish or touch secrets.".into(),
    })
}

/// Commands judged in one text with all its nested scripts. More than a person reads before saying yes; beyond it
/// the command asks.
const COMMANDS_MAX: usize = 400;

/// Scripts parsed for one text. Each costs a run of the parser; beyond it the command asks.
const SCRIPTS_MAX: usize = 64;

/// Characters of a part that are shown in a reason.
const SHOWN_CHARS: usize = 80;

/// What was found so far.
#[derive(Debug, Default)]
struct Judge {
    worst: Option<Judgement>,
    n_commands: usize,
    n_scripts: usize,
}

impl Judge {
    /// Takes a finding down. `why` continues the sentence that begins with the part.
    fn find(&mut self, class: Class, segment: &str, why: &str) {
        if self.worst.as_ref().is_some_and(|worst| worst.class >= class) {
            return;
        }
        let one_line = segment.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut shown: String = one_line.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
        if one_line.chars().count() > SHOWN_CHARS {
            shown.push('…');
        }
        let reason =
            if shown.is_empty() { format!("The command {why}.") } else { format!("`{shown}` {why}.") };
        self.worst = Some(Judgement { class, reason });
    }

    /// What cannot be read asks.
    fn not_understood(&mut self, segment: &str, why: &str) {
        self.find(Class::Destructive, segment, &format!("was not understood: it {why}"));
    }

    /// Nothing can be worse: the rest need not be read.
    fn is_settled(&self) -> bool {
        self.worst.as_ref().is_some_and(|worst| worst.class == Class::Destructive)
    }
}
