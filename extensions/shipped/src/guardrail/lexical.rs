//! Owns what is refused before a command is parsed at all: too long, and characters that a person does not see as
//! what they are. Never looks at grammar, but for line continuations. Tested in `tests`.

/// Bytes of one command or nested script. A command that a person can judge is far shorter; beyond it the command
/// asks. It also bounds the time of the parser.
const COMMAND_MAX_BYTES: usize = 16 * 1024;

/// Brackets that may be open at once. The parser keeps its state in memory of its own, but its search for a repair
/// of a broken nest costs the square of the depth.
const OPEN_MAX: usize = 60;

/// Marks of here-documents and here-strings in one text. The parser tries many ways at each: beyond it the command
/// asks.
const HERE_MARKS_MAX: usize = 200;

/// Why the text cannot be judged, in words that continue "the command …".
pub(super) fn refuse(command: &str) -> Option<&'static str> {
    if command.len() > COMMAND_MAX_BYTES {
        return Some("is longer than 16 KiB");
    }
    if let Some(why) = command.chars().find_map(refuse_char) {
        return Some(why);
    }
    if is_nested_too_deeply(command) || command.matches("<<").count() > HERE_MARKS_MAX {
        return Some("is nested too deeply");
    }
    has_glued_continuation(command).then_some("joins a word across two lines with a backslash")
}

fn refuse_char(c: char) -> Option<&'static str> {
    match c {
        '\n' | '\t' => None,
        '\r' => Some("holds a carriage return, which the shell takes for a part of a word"),
        c if c.is_control() => Some("holds a control character"),
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some("holds a character that changes the direction of the text")
        }
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => Some("holds an invisible character"),
        c if c != ' ' && c.is_whitespace() => Some("holds a space that the shell does not take for one"),
        _ => None,
    }
}

/// Counts without looking at quotes: that only asks more.
fn is_nested_too_deeply(command: &str) -> bool {
    let mut n_open = 0_usize;
    command.bytes().any(|byte| {
        match byte {
            b'(' | b'{' | b'[' => n_open += 1,
            b')' | b'}' | b']' => n_open = n_open.saturating_sub(1),
            _ => {}
        }
        n_open > OPEN_MAX
    })
}

/// `r\⏎m`: the shell joins the halves, the grammar does not. Beside a blank it separates words for both.
fn has_glued_continuation(command: &str) -> bool {
    let mut rest = command;
    let mut before = '\n';
    while let Some((head, tail)) = rest.split_once("\\\n") {
        before = head.chars().next_back().unwrap_or(before);
        let after = tail.chars().next().unwrap_or('\n');
        let separated = before.is_whitespace() || after.is_whitespace();
        if !separated || (is_operator(before) && is_operator(after)) {
            return true;
        }
        rest = tail;
        before = '\n';
    }
    false
}

fn is_operator(c: char) -> bool {
    matches!(c, '&' | '|' | ';' | '<' | '>' | '(' | ')')
}
