//! Owns what may reach a terminal: text of models, tools and files loses its control characters and escape sequences,
//! so that it can neither move the cursor, nor set a title, nor answer for the keyboard, nor reorder what is read.
//! Tested below.

/// Strips one stream of text; sequences may be cut anywhere between two pieces.
#[derive(Debug, Default, Clone)]
pub struct Sanitizer {
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// In a control sequence.
    Control,
    /// In a string (title, clipboard, device text).
    Text,
    /// After ESC in a string.
    TextEscape,
}

impl Sanitizer {
    /// What of `text` may be shown. Newlines and tabs stay; a string that is never closed ends with its line.
    pub fn strip(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            self.take(c, &mut shown);
        }
        shown
    }

    fn take(&mut self, c: char, shown: &mut String) {
        self.state = match (self.state, c) {
            (_, '\n') => {
                shown.push('\n');
                State::Ground
            }
            (State::Text, '\u{1b}') => State::TextEscape,
            (State::Text, '\u{7}' | '\u{9c}') => State::Ground,
            (State::Text, _) => State::Text,
            (State::TextEscape, '\\') => State::Ground,
            (State::TextEscape, '\u{1b}') => State::TextEscape,
            (State::TextEscape, _) => State::Text,
            (_, '\u{1b}') => State::Escape,
            (_, '\u{9b}') | (State::Escape, '[') => State::Control,
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') | (State::Escape, ']' | 'P' | 'X' | '^' | '_') => {
                State::Text
            }
            (State::Escape, ' '..='/') => State::Escape,
            (State::Control, ' '..='?') => State::Control,
            (State::Escape | State::Control, ' '..='~') => State::Ground,
            (State::Ground | State::Escape | State::Control, c) => {
                if may_be_shown(c) {
                    shown.push(c);
                }
                State::Ground
            }
        };
    }
}

fn may_be_shown(c: char) -> bool {
    // Overrides and isolates of direction make text read otherwise than it is.
    let turns_text = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c == '\t' || !(c.is_control() || turns_text)
}

/// A text as one line of at most `max` characters.
pub fn one_line(text: &str, max: usize) -> String {
    let stripped = Sanitizer::default().strip(text);
    let mut line = String::new();
    for (n_chars, c) in stripped.trim().chars().enumerate() {
        if n_chars == max {
            line.push('…');
            break;
        }
        line.push(if c == '\n' || c == '\t' { ' ' } else { c });
    }
    line
}

/// A line of which everything is seen: what does not show, or shows as something else, is written out (`\u{1b}`).
/// For what a person is asked to allow; at most `max` characters of the line, then how many more there are.
pub(crate) fn visible(line: &str, max: usize) -> String {
    let mut shown = String::new();
    for c in line.chars().take(max) {
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    let n_more = line.chars().skip(max).count();
    if n_more > 0 {
        shown.push_str(&format!("… ({n_more} more characters)"));
    }
    shown
}

/// Control characters, blanks that are no space, and what takes no place of its own on a terminal.
fn is_hidden(c: char) -> bool {
    let is_ignorable = matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    c.is_control() || is_ignorable || (c.is_whitespace() && c != ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(text: &str) -> String {
        Sanitizer::default().strip(text)
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(strip("a\tb\nünïcödé 漢字 🦀\n"), "a\tb\nünïcödé 漢字 🦀\n");
    }

    #[test]
    fn nothing_that_steers_a_terminal_passes() {
        for (text, shown) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[1;1Hx", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]52;c;aGk=\u{1b}\\x", "x"),
            ("\u{1b}Pq#0\u{1b}\\x", "x"),
            ("\u{9b}31mx", "x"),
            ("\u{9d}0;t\u{9c}x", "x"),
            ("\u{1b}(Bx", "x"),
            ("\u{1b}cx", "x"),
            ("a\rb", "ab"),
            ("a\u{8}\u{7f}\u{0}b", "ab"),
            ("a\u{202e}b\u{2066}c", "abc"),
            ("\u{1b}\u{1b}[31mx", "x"),
            ("\u{1b}]0;never closed\nnext", "\nnext"),
            ("\u{1b}[31\nx", "\nx"),
        ] {
            assert_eq!(strip(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_sequence_cut_between_two_pieces_is_still_one() {
        let text = "a\u{1b}]0;t\u{7}b\u{1b}[3;1mc";
        for cut in 0..text.len() {
            let mut sanitizer = Sanitizer::default();
            let (head, tail) = text.split_at(cut);
            assert_eq!(sanitizer.strip(head) + &sanitizer.strip(tail), "abc", "{cut}");
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line(" a\nb\tc\u{1b}[0m ", 80), "a b c");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }

    #[test]
    fn nothing_of_a_line_is_hidden_from_whoever_allows_it() {
        for (line, shown) in [
            ("rm -rf 'ünïcödé'", "rm -rf 'ünïcödé'"),
            ("a\tb\r", "a\\tb\\r"),
            ("ls \u{1b}[8mrm x", "ls \\u{1b}[8mrm x"),
            ("a\u{202e}b\u{200b}c\u{a0}d", "a\\u{202e}b\\u{200b}c\\u{a0}d"),
            ("a\u{e0041}b\u{9b}", "a\\u{e0041}b\\u{9b}"),
        ] {
            assert_eq!(visible(line, 80), shown, "{line:?}");
        }
        assert_eq!(visible("abcdef", 4), "abcd… (2 more characters)");
    }
}
