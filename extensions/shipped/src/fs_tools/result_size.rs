//! Owns how much of a model's window a result of these tools may take, and how that is counted.
//! Never counts tokens. Tested below.

/// Characters of JSON that the model sees of one result before the host cuts it (contract, "Tools").
pub(super) const RESULT_CHARS: usize = 8_000;

/// Characters `text` takes inside a JSON string, without its quotes.
pub(super) fn json_chars(text: &str) -> usize {
    text.chars().map(json_char_cost).sum()
}

/// The longest head of `text` that takes at most `budget` characters inside a JSON string.
pub(super) fn cut_to_json_chars(text: &str, budget: usize) -> &str {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += json_char_cost(character);
        if used > budget {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

fn json_char_cost(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_what_the_encoder_writes() {
        let every = (0..=0x2fff_u32).filter_map(char::from_u32).collect::<String>();
        let encoded = serde_json::to_string(&every).unwrap();
        assert_eq!(json_chars(&every), encoded.chars().count() - 2);
    }

    #[test]
    fn a_cut_never_splits_a_character_or_its_escape() {
        assert_eq!(cut_to_json_chars("é\té", 2), "é");
        assert_eq!(cut_to_json_chars("é\té", 3), "é\t");
        assert_eq!(cut_to_json_chars("é\té", 9), "é\té");
    }
}
