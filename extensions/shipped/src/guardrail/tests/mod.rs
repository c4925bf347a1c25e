//! Owns the tests of the judgement as a whole: tables of commands with the class each must have, and text that
//! nobody would write, which must end quickly.

use super::{Class, classify};

mod adversarial;
mod everyday;
mod hostile;
mod nested;

/// Checks a table. All rows that fail are named at once.
fn check(table: &[(Class, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .filter_map(|(expected, command)| {
            let judgement = classify(command);
            (judgement.class != *expected).then(|| {
                format!("{command:?}: expected {expected:?}, got {:?}: {}", judgement.class, judgement.reason)
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}
