//! Owns the reading of a program's options from its words. Never knows which program it is. Tested in `tests`.

use super::words::Word;

/// Whether one of these stands among the words: `short` letters, alone or in a cluster (`-rf`), or `long` names
/// without their dashes, which may be shortened as GNU programs allow.
pub(super) fn has(words: &[Word], short: &[char], long: &[&str]) -> bool {
    before_end(words).any(|word| {
        let text = word.prefix.as_str();
        match text.strip_prefix("--") {
            Some(name) => {
                let name = name.split('=').next().unwrap_or_default();
                !name.is_empty() && long.iter().any(|long| long.starts_with(name))
            }
            None => text.strip_prefix('-').is_some_and(|letters| letters.contains(short)),
        }
    })
}

/// Whether exactly this word stands before `--`: for options that make a command harmless, which nothing may imitate.
pub(super) fn has_exactly(words: &[Word], option: &str) -> bool {
    before_end(words).any(|word| word.known() == Some(option))
}

/// The words in front that are options.
pub(super) fn leading(words: &[Word]) -> &[Word] {
    let n = words.iter().take_while(|word| word.prefix.starts_with('-') && !word.is_dynamic()).count();
    words.get(..n).unwrap_or_default()
}

/// A word that the shell may turn into an option nobody can see.
pub(super) fn has_hidden(words: &[Word]) -> bool {
    before_end(words)
        .any(|word| word.is_dynamic() && (word.may_be_option() || word.splits && word.prefix.is_empty()))
}

/// The words that are no options.
pub(super) fn positionals(words: &[Word]) -> Vec<&Word> {
    let n_before = before_end(words).count();
    let after = words.iter().skip(n_before).filter(|word| word.prefix != "--" || word.is_dynamic());
    before_end(words).filter(|word| word.is_dynamic() || !word.prefix.starts_with('-')).chain(after).collect()
}

fn before_end(words: &[Word]) -> impl Iterator<Item = &Word> {
    words.iter().take_while(|word| word.known() != Some("--"))
}

/// The options of a program that runs another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grammar {
    /// Options without a value; single letters may stand in a cluster.
    pub(super) flags: &'static [&'static str],
    /// Options whose value is the next word, or the rest of this one.
    pub(super) valued: &'static [&'static str],
}

/// What stands after the options: the index of the first word that is none. `None`: an option is not known, so
/// nobody can say where they end.
pub(super) fn end(words: &[Word], grammar: Grammar) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word.is_dynamic() && word.may_be_option() {
            return if word.prefix.is_empty() { Some(at) } else { None };
        }
        let text = word.prefix.as_str();
        if text == "--" {
            return Some(at + 1);
        }
        if !text.starts_with('-') || text == "-" && !grammar.flags.contains(&"-") {
            return Some(at);
        }
        at += width(text, grammar)?;
    }
    Some(at)
}

/// How many words an option takes.
fn width(text: &str, grammar: Grammar) -> Option<usize> {
    if grammar.flags.contains(&text) {
        return Some(1);
    }
    if grammar.valued.contains(&text) {
        return Some(2);
    }
    if text.starts_with("--") {
        let (name, _) = text.split_once('=')?;
        return (grammar.valued.contains(&name) || grammar.flags.contains(&name)).then_some(1);
    }
    let mut letters = text.chars().skip(1).peekable();
    while let Some(letter) = letters.next() {
        let option = format!("-{letter}");
        if grammar.valued.contains(&option.as_str()) {
            return Some(if letters.peek().is_none() { 2 } else { 1 });
        }
        if !grammar.flags.contains(&option.as_str()) {
            return None;
        }
    }
    Some(1)
}
