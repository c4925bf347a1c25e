//! Owns what the documents must say: the tables of `docs/PROTOCOL.md` are those of the code, the rows of
//! `docs/BEHAVIOUR.md` have tests and the tests' rows are there.

use std::collections::{BTreeMap, BTreeSet};

use gent_protocol::{AgentEvent, Method, RpcError};

use crate::tree::{root, test_names};

fn document(name: &str) -> String {
    let path = root().join("docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// The cells of the table rows under a heading, code marks removed; the two lines of the table's head are left out.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines().skip_while(|line| line.trim() != heading).skip(1);
    let section = lines.by_ref().take_while(|line| !line.starts_with("## "));
    let rows = section.filter(|line| line.trim_start().starts_with('|'));
    let cells = |line: &str| {
        let inner = line.trim().trim_matches('|');
        inner.split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    rows.skip(2).map(cells).collect()
}

fn yes(fact: bool) -> &'static str {
    if fact { "yes" } else { "no" }
}

/// `## Methods`: name, parameters, result, mutates, streams, workspace, then free text.
#[test]
fn the_method_table_is_that_of_the_code() {
    let facts = Method::ALL.iter().map(|method| method.facts());
    let expected: Vec<Vec<String>> = facts
        .map(|f| {
            let words = [f.name, f.params, f.result, yes(f.mutates), yes(f.streams), yes(f.workspace)];
            words.map(|word| word.replace(' ', "")).to_vec()
        })
        .collect();
    let written = table(&document("PROTOCOL.md"), "## Methods");
    let written: Vec<Vec<String>> = written
        .into_iter()
        .map(|row| row.into_iter().take(6).map(|cell| cell.replace(' ', "")).collect())
        .collect();
    let rows = expected.iter().map(|row| format!("| `{}` |\n", row.join("` | `"))).collect::<String>();
    assert_eq!(written, expected, "the rows must begin with\n{rows}");
}

/// `## Events`: the tag, then free text.
#[test]
fn the_event_table_is_that_of_the_code() {
    let written = table(&document("PROTOCOL.md"), "## Events");
    let tags: Vec<String> = written.into_iter().filter_map(|row| row.into_iter().next()).collect();
    assert_eq!(tags, AgentEvent::TAGS);
}

/// `## Errors`: the tag, the code, then free text.
#[test]
fn the_error_table_is_that_of_the_code() {
    let written = table(&document("PROTOCOL.md"), "## Errors");
    let written: Vec<(String, String)> =
        written.into_iter().map(|row| (row[0].clone(), row[1].replace('−', "-"))).collect();
    let expected: Vec<(String, String)> =
        RpcError::TABLE.iter().map(|(tag, code)| ((*tag).to_owned(), code.to_string())).collect();
    assert_eq!(written, expected);
}

/// A letter from `a` to `i` and one or two digits.
fn is_row(text: &str) -> bool {
    let mut letters = text.chars();
    let is_group = letters.next().is_some_and(|letter| ('a'..='i').contains(&letter));
    let digits = letters.as_str();
    is_group && (1..=2).contains(&digits.len()) && digits.chars().all(|digit| digit.is_ascii_digit())
}

/// The rows that a test names: the last words of its name that look like `a1`.
fn rows_of(test: &str) -> impl Iterator<Item = String> {
    test.rsplit('_').take_while(|word| is_row(word)).map(str::to_uppercase)
}

/// A row of `docs/BEHAVIOUR.md` is a line of a table that begins with its number, such as `| A1 |`.
#[test]
fn every_row_of_behaviour_has_a_test_and_every_tests_row_is_there() {
    let text = document("BEHAVIOUR.md");
    let firsts = text.lines().filter_map(|line| line.trim().strip_prefix('|')?.split('|').next());
    let written: BTreeSet<String> =
        firsts.map(|cell| cell.trim().to_owned()).filter(|cell| is_row(&cell.to_lowercase())).collect();
    let mut tested = BTreeMap::new();
    for (name, file) in test_names() {
        for row in rows_of(&name) {
            tested.insert(row, format!("{file}: {name}"));
        }
    }
    let untested: Vec<&String> = written.iter().filter(|row| !tested.contains_key(*row)).collect();
    assert!(untested.is_empty(), "rows of BEHAVIOUR.md without a test: {untested:?}");
    let unknown: Vec<_> = tested.iter().filter(|(row, _)| !written.contains(*row)).collect();
    assert!(unknown.is_empty(), "tests name rows that BEHAVIOUR.md does not have: {unknown:?}");
    assert!(!written.is_empty(), "BEHAVIOUR.md has no rows");
}
