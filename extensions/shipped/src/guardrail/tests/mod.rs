//! Owns the tests of the judgement as a whole: tables of commands with the class each must have, and text that
//! nobody would write, which must end quickly.

use super::{Class, classify};

mod adversarial;
mod everyday;
mod hostile;
mod nested;

/// What a row expects. A class that is known must not come from a part that was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Safe,
    Sensitive,
    External,
    Destructive,
    /// Asks because it was not understood.
    Unread,
}

/// Checks a table. All rows that fail are named at once.
fn check(table: &[(Expected, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .filter_map(|(expected, command)| {
            let judgement = classify(command);
            let found = match judgement.class {
                Class::Destructive if judgement.reason.contains("was not understood") => Expected::Unread,
                Class::Destructive => Expected::Destructive,
                Class::External => Expected::External,
                Class::Sensitive => Expected::Sensitive,
                Class::Safe => Expected::Safe,
            };
            (found != *expected).then(|| format!("{command:?}: expected {expected:?}: {judgement:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}
