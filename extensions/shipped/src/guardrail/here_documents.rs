//! Owns what is known of a here-document: where it ends, whether the shell expands it, and its text.
//! Never judges what is in it. Tested in `tests`.

use tree_sitter::Node;

use super::words;

/// Whether the document begins and ends where the shell sees it begin and end, and hides no expansion.
pub(super) fn is_sound(node: Node<'_>, source: &str) -> bool {
    sound(node, source).unwrap_or(false)
}

fn sound(node: Node<'_>, source: &str) -> Option<bool> {
    let (start, body, end) = parts(node)?;
    let delimiter = delimiter(start, source)?;
    let strips = strips_tabs(node, source);
    let after_end = source.get(end.end_byte()..)?;
    if words::text(end, source)?.trim_matches(['\t', '\n']) != delimiter
        || !(after_end.is_empty() || after_end.starts_with('\n') || words::text(end, source)?.ends_with('\n'))
    {
        return Some(false);
    }
    let whole = source.get(start.end_byte()..end.start_byte())?;
    // The line of the `<<` is not part of the document.
    let (_, document) = whole.split_once('\n')?;
    let ends_early = document.lines().any(|line| {
        let line = if strips { line.trim_start_matches('\t') } else { line };
        line == delimiter
    });
    if ends_early || has_sibling(node) {
        return Some(false);
    }
    if is_quoted(start, source)? {
        return Some(true);
    }
    let mut at = end.start_byte().checked_sub(document.len())?;
    for child in body.named_children(&mut body.walk()).filter(|child| child.kind() != "heredoc_content") {
        if words::unescape_quoted(source.get(at..child.start_byte())?).is_none() {
            return Some(false);
        }
        at = child.end_byte();
    }
    Some(words::unescape_quoted(source.get(at..end.start_byte())?).is_some())
}

/// The text that the command reads, if the shell puts nothing into it.
pub(super) fn document(node: Node<'_>, source: &str) -> Option<String> {
    let (start, body, end) = parts(node)?;
    let (_, document) = source.get(start.end_byte()..end.start_byte())?.split_once('\n')?;
    let document: String = if strips_tabs(node, source) {
        document.lines().map(|line| format!("{}\n", line.trim_start_matches('\t'))).collect()
    } else {
        document.to_owned()
    };
    if is_quoted(start, source)? {
        return Some(document);
    }
    let expands = body.named_children(&mut body.walk()).any(|child| child.kind() != "heredoc_content");
    if expands { None } else { words::unescape_quoted(&document) }
}

/// Whether a `-` stands before the mark. The grammar passes over it without an error: `cat - <<EOF`.
pub(super) fn has_lost_dash(redirect: Node<'_>, source: &str) -> bool {
    let Some(before) = redirect.prev_sibling() else { return false };
    redirect.kind() == "heredoc_redirect"
        && before.kind() == "command"
        && source.get(before.end_byte()..redirect.start_byte()).is_some_and(|gap| {
            gap.trim_matches([' ', '\t']) == "-" && gap.starts_with([' ', '\t']) && gap.ends_with([' ', '\t'])
        })
}

fn parts<'tree>(node: Node<'tree>) -> Option<(Node<'tree>, Node<'tree>, Node<'tree>)> {
    let child = |kind: &str| node.named_children(&mut node.walk()).find(|child| child.kind() == kind);
    Some((child("heredoc_start")?, child("heredoc_body")?, child("heredoc_end")?))
}

/// A second document of the same line begins where the first ends: that is not followed.
fn has_sibling(node: Node<'_>) -> bool {
    let Some(parent) = node.parent() else { return true };
    parent.named_children(&mut parent.walk()).filter(|child| child.kind() == "heredoc_redirect").count() > 1
}

fn strips_tabs(node: Node<'_>, source: &str) -> bool {
    words::text(node, source)
        .is_some_and(|text| text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("<<-"))
}

fn is_quoted(start: Node<'_>, source: &str) -> Option<bool> {
    Some(words::text(start, source)?.contains(['\'', '"', '\\']))
}

/// The word that ends it. Only plain ones are followed.
fn delimiter<'source>(start: Node<'_>, source: &'source str) -> Option<&'source str> {
    let text = words::text(start, source)?;
    let bare = ["'", "\""]
        .iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .or_else(|| text.strip_prefix('\\'))
        .unwrap_or(text);
    let is_plain = !bare.is_empty() && bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_plain.then_some(bare)
}
