//! Owns the tests with text that is made to break a parser: it must end, say that it was not understood, and never
//! panic. Random text comes from a fixed generator.

use super::super::{Class, classify};

/// As long as a text may be that is not refused by its length.
const LONG: usize = 16 * 1024;

fn assert_not_understood(command: &str) {
    let judgement = classify(command);
    assert_eq!(judgement.class, Class::Destructive, "{:.40}", command);
    assert!(judgement.reason.contains("was not understood"), "{:.40}: {}", command, judgement.reason);
}

#[test]
fn text_that_is_too_long_is_not_read() {
    for unit in ["(", "$(", "a|", "a && ", "`", "{ ", "a <<E\n", "x"] {
        assert_not_understood(&unit.repeat(100_000));
    }
    assert_not_understood(&format!("echo {}", "x".repeat(LONG)));
    assert_eq!(classify(&format!("echo {}", "x".repeat(LONG - 5))).class, Class::Safe);
}

#[test]
fn nesting_of_any_kind_ends() {
    for unit in [
        "(",
        "$(",
        "`",
        "{ ",
        "\"$(",
        "${a:-",
        "$((",
        "((",
        "[[ ",
        "if a; then ",
        "case a in a) ",
        "a <<E\n",
        "<(",
        "!(",
        "while ",
        "for i in $(",
        "f() { ",
        "x=(",
        "a[",
        "'",
        "\"",
        "eval '",
        "[",
        "$'",
        "<<E$[\t\t",
        "<<<",
    ] {
        assert_not_understood(&format!("{}a", unit.repeat(LONG / unit.len() - 1)));
    }
    for (open, close) in
        [("(", ")"), ("$(", ")"), ("{ ", "; }"), ("echo $(", ")"), ("if a; then ", "; fi"), ("(a;", ")")]
    {
        for n in [101, 1000] {
            let command = format!("{}ls{}", open.repeat(n), close.repeat(n));
            assert_not_understood(&command);
        }
    }
}

#[test]
fn brackets_and_here_marks_are_counted_before_parsing() {
    for (unit, n) in [("(", 60), ("{", 60), ("[", 60), ("<<", 200)] {
        assert_eq!(classify(&format!("echo '{}'", unit.repeat(n))).class, Class::Safe);
        assert_not_understood(&format!("echo '{}'", unit.repeat(n + 1)));
    }
}

#[test]
fn a_pattern_longer_than_a_name_is_taken_to_match() {
    assert_eq!(classify(&format!("cat {}", "x?".repeat(127))).class, Class::Safe);
    assert_eq!(classify(&format!("cat {}", "x?".repeat(128))).class, Class::Sensitive);
}

/// A search for repairs that went to its end would know that the grammar is at fault.
#[test]
fn a_text_without_a_reading_is_given_up_at_once() {
    assert!(classify(&")".repeat(300)).reason.contains("or takes too long to read"));
}

#[test]
fn long_lists_end() {
    for unit in ["a | ", "a && ", "a; ", "a & ", "a\n", "A=b ", "$(a) ", "a <<< b; ", "! "] {
        let command = format!("{}a", unit.repeat(LONG / unit.len() - 1));
        assert_ne!(classify(&command).class, Class::External);
    }
    assert_not_understood(&format!("{}ls", "ls; ".repeat(super::super::COMMANDS_MAX)));
    assert_eq!(classify(&format!("{}ls", "ls; ".repeat(super::super::COMMANDS_MAX - 1))).class, Class::Safe);
}

#[test]
fn scripts_within_scripts_are_read_to_depth_four() {
    let deep = |n: usize| {
        (0..n).fold("ls".to_owned(), |inner, _| format!("bash -c '{}'", inner.replace('\'', "'\\''")))
    };
    assert_eq!(classify(&deep(4)).class, Class::Safe);
    assert_not_understood(&deep(5));
}

#[test]
fn many_scripts_in_one_text_are_not_read() {
    assert_eq!(classify(&"eval ls; ".repeat(super::super::SCRIPTS_MAX - 1)).class, Class::Safe);
    assert_not_understood(&"eval ls; ".repeat(super::super::SCRIPTS_MAX));
}

/// A fixed generator (xorshift): the same text on each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

fn assert_well_formed(command: &str) {
    let judgement = classify(command);
    assert!(
        judgement.reason.ends_with('.') && !judgement.reason.contains('\n'),
        "{command:?}: {judgement:?}"
    );
}

#[test]
fn random_bytes_are_judged() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..2_000 {
        let n = numbers.below(200);
        let bytes: Vec<u8> = (0..n).map(|_| u8::try_from(numbers.below(256)).unwrap()).collect();
        assert_well_formed(&String::from_utf8_lossy(&bytes));
        let printable: String = bytes.iter().map(|byte| char::from(32 + byte % 95)).collect();
        assert_well_formed(&printable);
    }
}

const TOKENS: &[&str] = &[
    "(", ")", "$(", "`", "\"", "'", "{", "}", ";", "&&", "||", "|", "|&", "&", "<<E\n", "<<-'E'\n", "\nE\n",
    "\tE", "\n", "$((", "))", "((", "[[", "]]", "[", "]", "if", "then", "else", "fi", "case", "in", "esac",
    ";;", "for", "while", "do", "done", "function", "f()", "coproc", "time", "!", "$x", "${x", "${x:-", "}",
    "${!x}", "$'", "\\x72", "\\", "\\\n", "<(", ">(", "<<<", ">", ">>", ">|", "&>", "2>&1", "<", "=", "x=",
    "x=(", "x+=", "a", "rm", "-rf", "bash", "-c", "sh", "eval", "git", "push", "-c", "xargs", "find",
    "-exec", "{}", "\\;", "sudo", "env", "A=b", "-", "--", "*", "?", "~", "#", "{a,b}", "é", "🦀", "\u{a0}",
    ".env", "sed", "s/a/b/e", "awk", "psql", "ssh", "timeout", "5", "trap", "alias", "x=y",
];

#[test]
fn random_tokens_are_judged() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    for round in 0..6_000 {
        let n = 1 + numbers.below(if round % 100 == 0 { 400 } else { 12 });
        let glue = if numbers.below(3) == 0 { "" } else { " " };
        let tokens: Vec<&str> = (0..n).map(|_| TOKENS[numbers.below(TOKENS.len())]).collect();
        assert_well_formed(&tokens.join(glue));
    }
}

#[test]
fn a_destructive_part_is_seen_behind_any_text_that_is_understood() {
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    for _ in 0..4_000 {
        let n = 1 + numbers.below(8);
        let tokens: Vec<&str> = (0..n).map(|_| TOKENS[numbers.below(TOKENS.len())]).collect();
        let before = tokens.join(" ");
        // A quote, a comment or a here-document that stays open would make text of what follows.
        if before.contains(['\'', '"', '#', '\\']) || before.contains("<<") {
            continue;
        }
        let judgement = classify(&format!("{before}\nrm -rf x"));
        assert_eq!(judgement.class, Class::Destructive, "{before:?}: {judgement:?}");
    }
}

#[test]
fn a_reason_is_one_sentence_that_names_the_part() {
    for (command, expected) in [
        ("ls && rm -rf  x", "`rm -rf x` removes files recursively or without asking."),
        ("ls | git push", "`git push` publishes commits."),
        ("$X y", "`$X y` was not understood: it runs a program that is not known before it runs."),
        ("ls\u{7}", "The command was not understood: it holds a control character."),
        ("bash -c 'cat .env'", "`cat .env` touches a file that holds or may hold secrets."),
        ("ls", "Nothing in the command is known to destroy, publish or touch secrets."),
    ] {
        assert_eq!(classify(command).reason, expected);
    }
    assert!(classify(&format!("rm -rf {}", "x".repeat(500))).reason.chars().count() < 200);
}

#[test]
fn the_worst_part_counts() {
    for (command, expected) in [
        ("cat .env; git push", Class::External),
        ("git push; cat .env", Class::External),
        ("rm -rf x; git push", Class::Destructive),
        ("ls; cat .env", Class::Sensitive),
    ] {
        assert_eq!(classify(command).class, expected, "{command}");
    }
}

/// A thread of the server has a small stack; half of the usual two megabytes must do.
#[test]
fn the_deepest_text_that_is_read_fits_a_small_stack() {
    let inner = format!("{}ls{}", "( ".repeat(28), " )".repeat(28));
    let deep = (0..3).fold(inner, |inner, _| {
        format!("{}bash -c '{}'{}", "( ".repeat(18), inner.replace('\'', "'\\''"), " )".repeat(18))
    });
    let thread = std::thread::Builder::new().stack_size(1024 * 1024);
    let judgement = thread.spawn(move || classify(&deep)).unwrap().join().unwrap();
    assert!(matches!(judgement.class, Class::Safe | Class::Destructive), "{judgement:?}");
}
