//! Owns what one word of a command is after the shell has removed its quotes: what is known of it and what is not.
//! Never expands a variable, a pattern or a command; a word with one of them is known in part. Tested below.

use tree_sitter::Node;

/// One word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// The word as it is written, for the reason.
    pub(super) raw: String,
    /// What is known from the start of the word, up to the first part that is not.
    pub(super) prefix: String,
    /// What is known after the last part that is not known; empty for a word that is known whole.
    suffix: String,
    dynamic: bool,
    /// A part that is not known stands outside quotes: it may become several words.
    pub(super) splits: bool,
    /// It holds `*`, `?` or `[` outside quotes.
    pub(super) pattern: bool,
}

impl Word {
    /// A word that is known whole.
    pub(super) fn literal(text: &str) -> Self {
        Self { raw: text.to_owned(), prefix: text.to_owned(), ..Self::default() }
    }

    /// A word of which nothing is known, such as what `xargs` appends.
    pub(super) fn unknown(raw: &str) -> Self {
        Self { raw: raw.to_owned(), dynamic: true, ..Self::default() }
    }

    /// The whole word, if it is known and no pattern.
    pub(super) fn known(&self) -> Option<&str> {
        (!self.dynamic && !self.pattern).then_some(self.prefix.as_str())
    }

    /// The known end of the word: all of it when nothing is unknown.
    pub(super) fn known_end(&self) -> &str {
        if self.dynamic { &self.suffix } else { &self.prefix }
    }

    /// A part of it is not known. A pattern is not meant: it becomes names of files.
    pub(super) fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// Whether the shell may hand it over as an option.
    pub(super) fn may_be_option(&self) -> bool {
        if self.dynamic && self.prefix.is_empty() {
            !self.is_below_home()
        } else {
            self.prefix.starts_with('-')
        }
    }

    /// `"$HOME/…"` and `"$PWD/…"` begin with a slash.
    fn is_below_home(&self) -> bool {
        let bare = self.raw.trim_start_matches('"');
        ["$HOME/", "${HOME}/", "$PWD/", "${PWD}/"].iter().any(|start| bare.starts_with(start))
    }

    /// The same word after each `token` in it was replaced by something unknown.
    pub(super) fn with_unknown(&self, token: &str) -> Self {
        let Some((before, _)) = self.raw.split_once(token) else { return self.clone() };
        let after = self.raw.rsplit_once(token).map_or("", |(_, after)| after);
        let suffix = after.trim_matches(['\'', '"']).to_owned();
        Self { prefix: before.trim_matches(['\'', '"']).to_owned(), suffix, dynamic: true, ..self.clone() }
    }

    fn push(&mut self, text: &str) {
        if self.dynamic { self.suffix.push_str(text) } else { self.prefix.push_str(text) }
    }

    fn push_unknown(&mut self, quoted: bool) {
        self.dynamic = true;
        self.splits |= !quoted;
        self.suffix.clear();
    }
}

/// Reads the word of a node. `None`: the node is not understood as a word.
pub(super) fn read(node: Node<'_>, source: &str) -> Option<Word> {
    let mut word = Word { raw: text(node, source)?.to_owned(), ..Word::default() };
    add(&mut word, node, source)?;
    if has_brace_expansion(&word) {
        word.push_unknown(false);
        word.prefix.clear();
    }
    Some(word)
}

/// The source of a node.
pub(super) fn text<'source>(node: Node<'_>, source: &'source str) -> Option<&'source str> {
    source.get(node.byte_range())
}

fn add(word: &mut Word, node: Node<'_>, source: &str) -> Option<()> {
    let source_text = text(node, source)?;
    match node.kind() {
        "command_name" | "concatenation" => {
            let mut end = node.start_byte();
            for child in node.children(&mut node.walk()) {
                // A blank between the parts would be the end of the word for the shell.
                if child.start_byte() != end {
                    return None;
                }
                end = child.end_byte();
                add(word, child, source)?;
            }
            (end == node.end_byte()).then_some(())
        }
        "raw_string" => {
            word.push(source_text.strip_prefix('\'')?.strip_suffix('\'')?);
            Some(())
        }
        "ansi_c_string" => {
            match decode_ansi_c(source_text.strip_prefix("$'")?.strip_suffix('\'')?) {
                Some(decoded) => word.push(&decoded),
                None => word.push_unknown(true),
            }
            Some(())
        }
        "string" | "translated_string" => add_string(word, node, source),
        "simple_expansion"
        | "expansion"
        | "command_substitution"
        | "arithmetic_expansion"
        | "process_substitution"
        | "brace_expression" => {
            word.push_unknown(false);
            Some(())
        }
        // Everything else that stands in a word is plain text: `word`, `number`, and tokens such as `[` or `==`.
        _ => add_plain(word, source_text),
    }
}

fn add_string(word: &mut Word, node: Node<'_>, source: &str) -> Option<()> {
    let source_text = text(node, source)?;
    let opened = if source_text.starts_with('$') { 2 } else { 1 };
    let mut at = node.start_byte() + opened;
    let end = node.end_byte().checked_sub(1)?;
    for child in node.named_children(&mut node.walk()) {
        match child.kind() {
            "string_content" => {}
            "string" if source_text.starts_with('$') => return add(word, child, source),
            _ => {
                word.push(&unescape_quoted(source.get(at..child.start_byte())?)?);
                word.push_unknown(true);
                at = child.end_byte();
            }
        }
    }
    word.push(&unescape_quoted(source.get(at..end)?)?);
    Some(())
}

/// Text between double quotes, or of a here-document: a backslash counts before four characters alone. `None`: the
/// grammar passed over an expansion.
pub(super) fn unescape_quoted(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\n')) => {
                chars.next();
            }
            ('\\', Some(&next @ ('$' | '`' | '"' | '\\'))) => {
                out.push(next);
                chars.next();
            }
            ('`', _) => return None,
            ('$', Some(next)) if is_expansion_start(*next) => return None,
            _ => out.push(c),
        }
    }
    Some(out)
}

fn is_expansion_start(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '(' | '{' | '[' | '_' | '@' | '*' | '#' | '?' | '-' | '$' | '!')
}

fn add_plain(word: &mut Word, text: &str) -> Option<()> {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.push(chars.next()?.encode_utf8(&mut [0; 4])),
            ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '`' | '"' | '\'' => return None,
            '$' if text.len() > 1 => return None,
            c => {
                word.pattern |= matches!(c, '*' | '?' | '[');
                word.push(c.encode_utf8(&mut [0; 4]));
            }
        }
    }
    Some(())
}

/// `{a,b}` and `{1..3}` become several words. Quoted braces are taken for such too: that only asks more.
fn has_brace_expansion(word: &Word) -> bool {
    if word.raw.starts_with(['\'', '"']) {
        return false;
    }
    let Some((_, inside)) = word.raw.split_once('{') else { return false };
    let Some((inside, _)) = inside.rsplit_once('}') else { return false };
    !word.raw.contains("${") && (inside.contains(',') || inside.contains(".."))
}

/// The text of `$'…'`. `None` for escapes that are not worth knowing.
fn decode_ansi_c(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            c @ ('\\' | '\'' | '"' | '?') => out.push(c),
            'x' => out.push(take_number(&mut chars, 16, 2, None)?),
            'u' => out.push(take_number(&mut chars, 16, 4, None)?),
            'U' => out.push(take_number(&mut chars, 16, 8, None)?),
            c @ '0'..='7' => out.push(take_number(&mut chars, 8, 2, c.to_digit(8))?),
            _ => return None,
        }
    }
    Some(out)
}

fn take_number(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    radix: u32,
    n_digits: usize,
    first: Option<u32>,
) -> Option<char> {
    let mut number = first;
    for _ in 0..n_digits {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
        chars.next();
        number = Some(number.unwrap_or(0).checked_mul(radix)?.checked_add(digit)?);
    }
    // A control character, or a byte of a longer sequence, is nothing that a plain word holds.
    number.and_then(char::from_u32).filter(|c| c.is_ascii() && (*c == '\n' || *c == '\t' || !c.is_control()))
}
