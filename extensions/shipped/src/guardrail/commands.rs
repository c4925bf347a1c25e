//! Owns the judgement of one command: which program it is, through all that stands before it, and which rules hold.
//! Tables are in `rules`; what a program's options change is in `programs`, `git` and `scripts`. Tested in `tests`.

use super::paths::Access;
use super::walk::{Command, Input, Place};
use super::words::Word;
use super::wrappers::{self, Inner};
use super::{Class, Judge, options, rules, scripts};

/// A command after its program is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// Its text, for the reason.
    pub(super) segment: &'a str,
    /// The name of the program, without directories, in small letters.
    pub(super) name: &'a str,
    /// What stands after it.
    pub(super) arguments: &'a [Word],
    /// Where it reads from.
    pub(super) input: &'a Input,
    /// Where it stands.
    pub(super) place: Place,
}

impl Judge {
    /// Judges a command.
    pub(super) fn command(&mut self, command: &Command<'_>) {
        let Some((program, arguments)) = command.words.split_first() else { return };
        let name = match program_name(program) {
            Ok(name) => name,
            Err(why) => return self.not_understood(command.segment, why),
        };
        let call = Call {
            segment: command.segment,
            name: &name,
            arguments,
            input: command.input,
            place: command.place,
        };
        self.by_table(&call);
        if !self.wrapped(&call) && !self.runs_script(&call) {
            self.by_program(&call);
        }
        // Last: what a program does says more than what it does it to.
        self.files(&call);
        self.whole_trees(&call);
    }

    /// The same command with other words: what a wrapper runs.
    pub(super) fn inner(&mut self, call: &Call<'_>, words: &[Word]) {
        let n = wrappers::n_assignments(words);
        for assignment in words.iter().take(n) {
            self.declared(assignment, call.segment);
        }
        let words = words.get(n..).unwrap_or_default();
        match call.place.wrapped() {
            Some(place) => self.command(&Command { segment: call.segment, words, input: call.input, place }),
            None => self.not_understood(call.segment, "holds too many commands one within the other"),
        }
    }

    fn wrapped(&mut self, call: &Call<'_>) -> bool {
        if call.name == "command" && options::has(options::leading(call.arguments), &['v', 'V'], &[]) {
            // It only says where the program is.
            return true;
        }
        let Some(inner) = wrappers::look_through(call.name, call.arguments) else { return false };
        for word in
            call.arguments.iter().filter(|word| !word.prefix.starts_with('-') && word.prefix.contains('='))
        {
            if wrappers::n_assignments(std::slice::from_ref(word)) == 1
                && matches!(call.name, "env" | "sudo" | "doas")
            {
                self.declared(word, call.segment);
            }
        }
        match inner {
            Inner::Unknown => self.not_understood(call.segment, "has an option that is not known here"),
            Inner::Script(words) => self.joined(call, words),
            Inner::Words(words) => {
                let elevated = matches!(call.name, "sudo" | "doas" | "pkexec" | "run0");
                if elevated
                    && words.first().and_then(Word::known).is_some_and(|program| base_name(program) == "rm")
                {
                    self.find(
                        Class::Destructive,
                        call.segment,
                        "removes files with the rights of another user",
                    );
                }
                self.inner(call, words);
            }
        }
        true
    }

    /// Words that become one script: `eval`, `ssh host …`, `watch …`.
    pub(super) fn joined(&mut self, call: &Call<'_>, words: &[Word]) {
        let known: Option<Vec<&str>> = words.iter().map(Word::known).collect();
        match known {
            Some(known) if known.is_empty() => {}
            Some(known) => self.script(&known.join(" "), call.place.nested()),
            None => self.not_understood(call.segment, "runs a script that is not known before it runs"),
        }
    }

    fn files(&mut self, call: &Call<'_>) {
        if rules::NAMES_ONLY.contains(&call.name) || scripts::is_shell(call.name) {
            return;
        }
        let is_pattern_first = rules::PATTERN_FIRST.contains(&call.name);
        let pattern = call.arguments.iter().position(|word| !word.prefix.starts_with('-'));
        let edits = matches!(call.name, "sed" | "gsed" | "perl" | "ruby") && edits_in_place(call);
        let writes = rules::WRITERS.contains(&call.name) || edits;
        if writes && options::has_hidden(call.arguments) {
            self.not_understood(call.segment, "changes files whose names are not known before it runs");
        }
        for (at, word) in call.arguments.iter().enumerate() {
            if is_pattern_first && Some(at) == pattern {
                continue;
            }
            let mode = at == 0 && matches!(call.name, "chmod" | "chown" | "chgrp");
            let is_option = word.prefix.starts_with('-') && !word.is_dynamic();
            let access = if writes && !mode && !is_option { Access::Writes } else { Access::Reads };
            self.path(word, call.segment, access);
        }
    }

    fn by_table(&mut self, call: &Call<'_>) {
        if call.name.starts_with("mkfs") {
            self.find(Class::Destructive, call.segment, "formats a device");
        }
        if let Some((_, why)) = rules::DESTRUCTIVE.iter().find(|(name, _)| *name == call.name) {
            self.find(Class::Destructive, call.segment, why);
        }
        let listed: Vec<_> = rules::SUBCOMMANDS.iter().filter(|(name, ..)| *name == call.name).collect();
        if listed.is_empty()
            || options::has_exactly(call.arguments, "--dry-run")
            || options::has_exactly(call.arguments, "--help")
        {
            return;
        }
        let leading = leading(call.arguments);
        if leading.words.first().is_some_and(|word| word.is_dynamic()) {
            return self.not_understood(call.segment, "has a subcommand that is not known before it runs");
        }
        for (_, subcommand, class, why) in listed {
            if leading.may_be(subcommand) {
                self.find(*class, call.segment, why);
            }
        }
    }
}

/// `sed -i`, `perl -pi`: files are changed in place.
fn edits_in_place(call: &Call<'_>) -> bool {
    call.arguments.iter().any(|word| {
        let text = word.prefix.as_str();
        text.starts_with("--in")
            || text.strip_prefix('-').is_some_and(|rest| {
                !rest.starts_with('-')
                    && rest.split(['e', 'f']).next().is_some_and(|flags| flags.contains('i'))
            })
    })
}

/// The words in front among which the subcommand is.
struct Leading<'a> {
    words: Vec<&'a Word>,
    /// How many of them may be values of options instead.
    n_doubtful: usize,
}

/// Words in front that are looked at: a subcommand has two at most, the rest may be values of options.
const LEADING_MAX: usize = 8;

fn leading(words: &[Word]) -> Leading<'_> {
    let mut found = Leading { words: Vec::new(), n_doubtful: 0 };
    let mut after_option = false;
    for word in words {
        if word.prefix.starts_with(['-', '+']) && !word.is_dynamic() {
            after_option = word.prefix.starts_with('-') && !word.prefix.contains('=');
            continue;
        }
        found.words.push(word);
        found.n_doubtful += usize::from(after_option);
        after_option = false;
        if found.words.len() >= LEADING_MAX {
            break;
        }
    }
    found
}

impl Leading<'_> {
    /// Whether the subcommand stands first, or after words that may be values: `npm run publish` is the project's own.
    fn may_be(&self, subcommand: &[&str]) -> bool {
        self.words.windows(subcommand.len()).take(self.n_doubtful + 1).any(|window| {
            window.iter().map(|word| word.known()).eq(subcommand.iter().map(|word| Some(*word)))
        })
    }
}

/// The name of the program a word stands for.
fn program_name(word: &Word) -> Result<String, &'static str> {
    if word.pattern {
        return Err("names its program by a pattern");
    }
    let text = if word.is_dynamic() {
        // "$HOME/bin/tool": the directory is not known, the program is.
        let is_sure = !word.splits && word.known_end().contains('/') && !word.raw.starts_with('{');
        if !is_sure {
            return Err("runs a program that is not known before it runs");
        }
        word.known_end()
    } else {
        word.prefix.as_str()
    };
    let name = base_name(text);
    if name.is_empty() && text != "." {
        return Err("has no name for its program");
    }
    if !name.chars().all(|c| c.is_ascii_graphic()) {
        return Err("names its program with characters that look like others");
    }
    if rules::RESERVED.contains(&name) {
        return Err("has a word of the shell where a program is expected");
    }
    // Some file systems do not tell `RM` from `rm`.
    Ok(name.to_ascii_lowercase())
}

/// A name without its directories.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
