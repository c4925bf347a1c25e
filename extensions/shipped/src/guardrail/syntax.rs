//! Owns the way from text to a syntax tree, and the doubt about it: a tree is used only when each byte of the text
//! is accounted for, because a grammar that passes over a part would hide a command.
//! Never judges. Bounded in time by a budget of parser steps, not by a clock. Tested in `tests`.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::{here_documents, words};

/// Reports of progress (each about a hundred parser steps) before parsing is given up. A text of full length with
/// words of usual length needs about thirty; one that is made to be repaired again and again needs hundreds, and each
/// step of that may look ahead to the end.
const PROGRESS_MAX: usize = 50;

/// Levels of a tree. The walk over it recurses, and a thread's stack is small.
const LEVELS_MAX: usize = 100;

/// Nodes within which a line end would end the command for the shell.
const ONE_LINE: &[&str] = &[
    "command",
    "redirected_statement",
    "declaration_command",
    "unset_command",
    "file_redirect",
    "herestring_redirect",
    "variable_assignments",
];

/// Nodes that stand for text that a shell may expand.
const WORDS: &[&str] =
    &["word", "number", "concatenation", "string", "translated_string", "raw_string", "command_name"];

/// Parses a script. The error continues the sentence "it …".
pub(super) fn parse(source: &str) -> Result<Tree, &'static str> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).map_err(|_error| "found no parser")?;
    let mut n_reports = 0_usize;
    // Once no reading is free of errors, the parser searches for repairs: that is dear, and of no use here.
    let mut progress = |state: &ParseState| {
        n_reports += 1;
        if n_reports > PROGRESS_MAX || state.has_error() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let tree = parser
        .parse_with_options(&mut |at, _| source.as_bytes().get(at..).unwrap_or_default(), None, Some(options))
        .ok_or("does not follow the grammar that is known here, or takes too long to read")?;
    if tree.root_node().has_error() {
        return Err("does not follow the grammar that is known here");
    }
    audit(tree.root_node(), source)?;
    Ok(tree)
}

fn audit(root: Node<'_>, source: &str) -> Result<(), &'static str> {
    const DOUBT: &str = "was read in part only";
    if !is_blank(source.get(..root.start_byte()), false) || !is_blank(source.get(root.end_byte()..), false) {
        return Err(DOUBT);
    }
    let mut waiting = vec![(root, 0_usize)];
    while let Some((node, level)) = waiting.pop() {
        if level > LEVELS_MAX {
            return Err("is nested too deeply");
        }
        let text = words::text(node, source).ok_or(DOUBT)?;
        let kind = node.kind();
        let sound = match kind {
            "comment" => is_comment(node, source),
            "heredoc_redirect" => here_documents::is_sound(node, source) && has_sound_gaps(node, source),
            "heredoc_body" | "heredoc_content" | "string_content" => true,
            "command_substitution" => {
                // In backquotes a backslash is taken away before the script is read.
                (!text.starts_with('`') || !text.contains('\\')) && has_sound_gaps(node, source)
            }
            // `@P` runs the commands that stand in the value.
            "expansion" => !text.contains("@P") && has_sound_gaps(node, source),
            // A subscript in a text runs what is in it where the text is taken for a number.
            "ansi_c_string" => !has_subscript(text),
            "raw_string" if has_subscript(text) => false,
            kind if WORDS.contains(&kind) => words::read(node, source).is_some(),
            _ if node.child_count() == 0 && node.is_named() => !may_hide_command(text),
            _ => has_sound_gaps(node, source),
        };
        if !sound {
            return Err(DOUBT);
        }
        waiting.extend(node.children(&mut node.walk()).map(|child| (child, level + 1)));
    }
    Ok(())
}

/// `a[$(…)]` in single quotes.
fn has_subscript(text: &str) -> bool {
    let before_bracket = |head: &str| head.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('[') {
        let inside = tail.split(']').next().unwrap_or_default();
        if before_bracket(head) && (inside.contains("$(") || inside.contains('`')) {
            return true;
        }
        rest = tail;
    }
    false
}

fn may_hide_command(text: &str) -> bool {
    text.contains('`') || ["$(", "${", "$[", "<(", ">("].iter().any(|start| text.contains(start))
}

/// A `#` within a word is no comment to the shell.
fn is_comment(node: Node<'_>, source: &str) -> bool {
    let before = source.get(..node.start_byte()).and_then(|head| head.chars().next_back());
    let starts = before.is_none_or(|c| c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')'));
    starts && words::text(node, source).is_some_and(|text| text.starts_with('#') && !text.contains('\n'))
}

fn has_sound_gaps(node: Node<'_>, source: &str) -> bool {
    let mut one_line = ONE_LINE.contains(&node.kind());
    if node.child_count() == 0 {
        return true;
    }
    let mut end = node.start_byte();
    for child in node.children(&mut node.walk()) {
        let gap = source.get(end..child.start_byte());
        if !is_blank(gap, one_line) && !here_documents::has_lost_dash(child, source) {
            return false;
        }
        // The text of a here-document stands on lines of its own.
        one_line &= child.kind() != "heredoc_redirect";
        end = child.end_byte();
    }
    is_blank(source.get(end..node.end_byte()), one_line)
}

fn is_blank(gap: Option<&str>, one_line: bool) -> bool {
    let Some(gap) = gap else { return false };
    let gap = gap.replace("\\\n", " ");
    gap.chars().all(|c| c == ' ' || c == '\t' || (c == '\n' && !one_line))
}
