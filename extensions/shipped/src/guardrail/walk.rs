//! Owns the walk over a syntax tree: it finds each command, whatever it stands in, and hands over its words, its
//! assignments and where its input comes from. Never knows a program by name. Tested in `tests`.

use tree_sitter::Node;

use super::words::{self, Word};
use super::{Class, Judge, here_documents, lexical, paths, syntax, variables};

/// Scripts within scripts (`bash -c "bash -c …"`). Deeper ones ask: nobody writes them to be understood.
const NESTING_MAX: usize = 4;

/// Levels of all trees on the way to a command. The walk recurses, and a thread's stack is small.
const LEVELS_MAX: usize = 120;

/// Commands that look through to other commands, one within the other (`sudo env nice …`).
const WRAPPERS_MAX: usize = 12;

/// Where a command stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    nesting: usize,
    level: usize,
    n_wrappers: usize,
    /// Its input is the output of another command, so far as its surroundings say.
    piped: bool,
}

impl Place {
    /// The text that was given.
    pub(super) const fn outermost() -> Self {
        Self { nesting: 0, level: 0, n_wrappers: 0, piped: false }
    }

    /// A script that stands in a command here.
    pub(super) const fn nested(self) -> Self {
        Self { nesting: self.nesting + 1, level: self.level + 1, n_wrappers: 0, piped: self.piped }
    }

    /// A command that another command here runs. `None` when there are too many.
    pub(super) const fn wrapped(self) -> Option<Self> {
        if self.n_wrappers >= WRAPPERS_MAX {
            return None;
        }
        Some(Self { n_wrappers: self.n_wrappers + 1, ..self })
    }

    const fn below(self) -> Self {
        Self { level: self.level + 1, ..self }
    }
}

/// Where a command reads from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// From where the whole command reads.
    Inherited,
    /// From another command, or from text that is put together when it runs.
    Unknown,
    /// From a file.
    File,
    /// From this text.
    Text(String),
}

/// One command with all that is known of it.
#[derive(Debug)]
pub(super) struct Command<'a> {
    /// Its text, for the reason.
    pub(super) segment: &'a str,
    /// Its words; the first is the program.
    pub(super) words: &'a [Word],
    /// Where it reads from.
    pub(super) input: &'a Input,
    /// Where it stands.
    pub(super) place: Place,
}

impl Judge {
    /// Judges a script: the text that was given or one that stands in it.
    pub(super) fn script(&mut self, source: &str, place: Place) {
        self.n_scripts += 1;
        if place.nesting > NESTING_MAX || place.level > LEVELS_MAX || self.n_scripts > super::SCRIPTS_MAX {
            return self.not_understood(source, "holds too many scripts within scripts");
        }
        if let Some(why) = lexical::refuse(source) {
            return self.not_understood("", why);
        }
        match syntax::parse(source) {
            Ok(tree) => self.node(tree.root_node(), source, place),
            Err(why) => self.not_understood(source, why),
        }
    }

    fn children(&mut self, node: Node<'_>, source: &str, place: Place) {
        for child in node.named_children(&mut node.walk()) {
            self.node(child, source, place);
        }
    }

    fn node(&mut self, node: Node<'_>, source: &str, place: Place) {
        if self.is_settled() {
            return;
        }
        if place.level > LEVELS_MAX {
            return self.not_understood(source, "is nested too deeply");
        }
        let below = place.below();
        match node.kind() {
            "command" => self.simple(node, source, below, &[]),
            "redirected_statement" => self.redirected(node, source, below),
            "pipeline" => {
                for (n, child) in node.named_children(&mut node.walk()).enumerate() {
                    self.node(child, source, Place { piped: below.piped || n > 0, ..below });
                }
            }
            "heredoc_redirect" | "file_redirect" | "herestring_redirect" => {
                self.redirect(node, source);
                self.children(node, source, Place { piped: true, ..below });
            }
            "process_substitution" => {
                let reads = words::text(node, source).is_some_and(|text| text.starts_with('>'));
                self.children(node, source, Place { piped: below.piped || reads, ..below });
            }
            "function_definition" => self.children(node, source, Place { piped: true, ..below }),
            "variable_assignment" => {
                self.assignment(node, source);
                self.children(node, source, below);
            }
            "declaration_command" => {
                self.declaration(node, source);
                self.children(node, source, below);
            }
            "for_statement" | "case_statement" => {
                let variable =
                    node.child_by_field_name("variable").and_then(|name| words::text(name, source));
                if variable.is_some_and(|name| variables::changes_what_runs(name, &Word::unknown(""))) {
                    self.find(Class::Destructive, source, "changes what later commands run");
                }
                self.name_paths(node, source);
                self.children(node, source, below);
            }
            _ => self.children(node, source, below),
        }
    }

    /// A statement and its redirections: they belong to its command, or to all within it.
    fn redirected(&mut self, node: Node<'_>, source: &str, place: Place) {
        let mut redirects = Vec::new();
        let mut body = None;
        for child in node.named_children(&mut node.walk()) {
            match child.kind() {
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => redirects.push(child),
                _ => body = Some(child),
            }
        }
        for redirect in &redirects {
            self.node(*redirect, source, place);
        }
        let reads = redirects.iter().any(|redirect| is_input(*redirect, source));
        match body {
            Some(body) if body.kind() == "command" => self.simple(body, source, place, &redirects),
            // The last command of a list or a pipeline may be the one that reads: all are taken for such.
            Some(body) => self.node(body, source, Place { piped: place.piped || reads, ..place }),
            None => {}
        }
    }

    fn redirect(&mut self, node: Node<'_>, source: &str) {
        let Some(segment) = words::text(node, source) else { return };
        if node.kind() != "file_redirect" {
            return;
        }
        let writes = segment.contains('>');
        let access = if writes { paths::Access::Writes } else { paths::Access::Reads };
        // Only the first is a name; what follows belongs to the command.
        let Some(target) = node.child_by_field_name("destination") else { return };
        if target.kind() == "process_substitution" {
            return;
        }
        match words::read(target, source) {
            Some(word) => self.path(&word, segment, access),
            None => self.not_understood(segment, "redirects to a name that cannot be read"),
        }
    }

    fn simple(&mut self, node: Node<'_>, source: &str, place: Place, outer: &[Node<'_>]) {
        let segment = words::text(node, source).unwrap_or_default();
        self.n_commands += 1;
        if self.n_commands > super::COMMANDS_MAX {
            return self.not_understood("", "holds more commands than are judged");
        }
        let mut words = Vec::new();
        let mut redirects = outer.to_vec();
        let mut assignments = Vec::new();
        for child in node.named_children(&mut node.walk()) {
            match child.kind() {
                "variable_assignment" => assignments.push(child),
                "file_redirect" | "herestring_redirect" => redirects.push(child),
                _ => {}
            }
        }
        let mut cursor = node.walk();
        let arguments = node.children(&mut cursor).enumerate().filter_map(|(at, child)| {
            let field = u32::try_from(at).ok().and_then(|at| node.field_name_for_child(at));
            matches!(field, Some("name" | "argument")).then_some(child)
        });
        let mut parts: Vec<Node<'_>> = arguments.collect();
        for redirect in outer.iter().filter(|redirect| redirect.kind() != "file_redirect") {
            parts.extend(redirect.children_by_field_name("argument", &mut redirect.walk()));
        }
        // More than one name after `>` is a name and arguments to the grammar.
        for redirect in redirects.iter().filter(|redirect| redirect.kind() == "file_redirect") {
            parts.extend(redirect.children_by_field_name("destination", &mut redirect.walk()).skip(1));
        }
        for part in parts {
            match words::read(part, source) {
                Some(word) => words.push(word),
                None => return self.not_understood(segment, "holds a word that cannot be read"),
            }
        }
        if outer.iter().any(|redirect| here_documents::has_lost_dash(*redirect, source)) {
            words.push(Word::literal("-"));
        }
        let program = words.first().and_then(Word::known).unwrap_or_default().to_owned();
        for assignment in assignments {
            // `IFS= read` is how a line is read unchanged.
            let is_plain_read = program == "read"
                && words::text(assignment, source).is_some_and(|text| text.starts_with("IFS="));
            if !is_plain_read {
                self.assignment(assignment, source);
            }
            self.children(assignment, source, place);
        }
        let input = input_of(&redirects, source, place);
        self.command(&Command { segment, words: &words, input: &input, place });
        for child in node.named_children(&mut node.walk()) {
            if child.kind() != "variable_assignment" {
                self.node(child, source, place);
            }
        }
    }

    fn assignment(&mut self, node: Node<'_>, source: &str) {
        let segment = words::text(node, source).unwrap_or_default();
        let name =
            node.child_by_field_name("name").and_then(|name| words::text(name, source)).unwrap_or_default();
        let name = name.split('[').next().unwrap_or_default();
        let value = match node.child_by_field_name("value") {
            None => Some(Word::literal("")),
            Some(value) if value.kind() == "array" => {
                self.name_paths(value, source);
                Some(Word::unknown(""))
            }
            Some(value) => words::read(value, source),
        };
        let Some(value) = value else {
            return self.not_understood(segment, "sets a variable to a value that cannot be read");
        };
        if variables::changes_what_runs(name, &value) {
            self.find(Class::Destructive, segment, "changes what later commands run");
        }
        self.path(&value, segment, paths::Access::Reads);
    }

    fn declaration(&mut self, node: Node<'_>, source: &str) {
        let segment = words::text(node, source).unwrap_or_default();
        for child in node.named_children(&mut node.walk()) {
            if matches!(child.kind(), "word" | "string" | "raw_string" | "concatenation" | "ansi_c_string") {
                match words::read(child, source) {
                    Some(word) => self.declared(&word, segment),
                    None => self.not_understood(segment, "holds a word that cannot be read"),
                }
            }
        }
    }

    /// `export "PATH=…"`, `env A=b`: an assignment that is a word to the grammar.
    pub(super) fn declared(&mut self, word: &Word, segment: &str) {
        if let Some((name, value)) = word.prefix.split_once('=') {
            let value = if word.is_dynamic() { Word::unknown("") } else { Word::literal(value) };
            if variables::changes_what_runs(name.trim_end_matches('+'), &value) {
                self.find(Class::Destructive, segment, "changes what later commands run");
            }
            self.path(&value, segment, paths::Access::Reads);
        } else if word.is_dynamic() {
            self.not_understood(segment, "declares a name that is not known before it runs");
        }
    }

    /// Words that stand in no command may be read by one through a variable.
    fn name_paths(&mut self, node: Node<'_>, source: &str) {
        let segment = words::text(node, source).unwrap_or_default();
        for child in node.named_children(&mut node.walk()) {
            if matches!(child.kind(), "word" | "string" | "raw_string" | "concatenation" | "ansi_c_string")
                && let Some(word) = words::read(child, source)
            {
                self.path(&word, segment, paths::Access::Reads);
            }
        }
    }
}

fn is_input(redirect: Node<'_>, source: &str) -> bool {
    words::text(redirect, source)
        .is_some_and(|text| text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('<'))
}

/// The last redirection of the input counts. A here-document whose command stands in its own node has an unknown one.
fn input_of(redirects: &[Node<'_>], source: &str, place: Place) -> Input {
    let Some(last) = redirects.iter().rev().find(|redirect| is_input(**redirect, source)) else {
        return if place.piped { Input::Unknown } else { Input::Inherited };
    };
    match last.kind() {
        "heredoc_redirect" => here_documents::document(*last, source).map_or(Input::Unknown, Input::Text),
        "herestring_redirect" => last
            .named_children(&mut last.walk())
            .last()
            .and_then(|child| words::read(child, source))
            .and_then(|word| word.known().map(str::to_owned))
            .map_or(Input::Unknown, Input::Text),
        _ => {
            let target = last.child_by_field_name("destination").and_then(|child| words::read(child, source));
            match target.as_ref().and_then(Word::known) {
                Some(path) if !path.starts_with("/dev/") && !path.starts_with('&') => Input::File,
                Some("/dev/null") => Input::Text(String::new()),
                _ => Input::Unknown,
            }
        }
    }
}
