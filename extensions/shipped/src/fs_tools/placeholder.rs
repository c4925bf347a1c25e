//! Owns how it is noticed that a model wrote a placeholder where the text of a file should stand.
//! Never judges what the file already had. Tested below.

/// What may stand before the words of a comment.
const COMMENT_STARTS: [&str; 8] = ["//", "#", "/*", "*", "--", "<!--", ";", "{/*"];

/// How the words of a placeholder begin where dots stand beside them.
const WORDS_WITH_DOTS: [&str; 17] = [
    "existing code",
    "existing content",
    "previous code",
    "same as before",
    "remains the same",
    "remaining code",
    "rest unchanged",
    "rest of code",
    "rest of file",
    "rest of function",
    "rest of the code",
    "rest of the file",
    "rest of the function",
    "the rest of the",
    "unchanged",
    "code unchanged",
    "omitted for brevity",
];

/// How the words of a placeholder begin where they stand alone in a comment.
const WORDS_IN_COMMENT: [&str; 4] =
    ["existing code", "rest unchanged", "rest of the code unchanged", "rest of the file unchanged"];

/// The first placeholder in `new` that `file` does not hold already.
pub(super) fn find_placeholder<'a>(new: &'a str, file: &str) -> Option<&'a str> {
    new.lines().find_map(|line| placeholder_of(line).filter(|placeholder| !file.contains(placeholder)))
}

fn placeholder_of(line: &str) -> Option<&str> {
    redaction_of(line).or_else(|| is_elision(line).then(|| line.trim()))
}

/// `[REDACTED]`, also with more behind a colon or a blank.
fn redaction_of(line: &str) -> Option<&str> {
    line.match_indices('[').find_map(|(at, _)| {
        let from = line.get(at..)?;
        let token = from.get(..=from.find(']')?)?;
        let behind = token.strip_prefix("[REDACTED")?;
        behind.starts_with([']', ':', ' ']).then_some(token)
    })
}

fn is_elision(line: &str) -> bool {
    let line = line.trim();
    let words = line.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
    let begins = |list: &[&str]| list.iter().any(|start| words.starts_with(start));
    let has_dots = line.contains("...") || line.contains('…');
    if has_dots && begins(&WORDS_WITH_DOTS) {
        return true;
    }
    COMMENT_STARTS.iter().any(|start| line.starts_with(start)) && begins(&WORDS_IN_COMMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_text_that_was_not_written_is_found() {
        for line in [
            "// ... existing code ...",
            "    // existing code",
            "# … rest of the file …",
            "/* ... rest unchanged ... */",
            "... unchanged",
            "<!-- existing code -->",
            "{/* ... existing code ... */}",
            "key = \"[REDACTED]\"",
            "key = [REDACTED: token]",
        ] {
            assert!(find_placeholder(&format!("a\n{line}\nb"), "").is_some(), "{line}");
        }
    }

    #[test]
    fn ordinary_text_is_not_a_placeholder() {
        for line in [
            "let rest = &list[1..];",
            "for x in 0..rest_of_code {}",
            "println!(\"loading ...\");",
            "// keep the existing code path for old files",
            "let a = map[REDACTED_KEY];",
            "f(...args)",
            "The rest is unchanged.",
            "// unchanged since 1.0",
        ] {
            assert_eq!(find_placeholder(line, ""), None, "{line}");
        }
    }

    #[test]
    fn what_the_file_already_has_may_stay() {
        assert_eq!(find_placeholder("x [REDACTED] y", "a [REDACTED] b"), None);
        assert_eq!(find_placeholder("  // ... existing code ...", "// ... existing code ...\n"), None);
        assert_eq!(find_placeholder("[REDACTED]\n// existing code", "[REDACTED]"), Some("// existing code"));
    }
}
