//! Owns the rules for source files and tests: length, header, no sleeping, no words that do not belong here.

use crate::tree::{files, rust_files};

/// Fails with all faults at once.
fn expect_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_source_file_opens_with_what_it_owns_and_is_under_500_lines() {
    let mut faults = Vec::new();
    for file in rust_files() {
        let lines = file.text.lines().count();
        if lines > 500 {
            faults.push(format!("{} has {lines} lines, 500 are allowed: split it by owner", file.path));
        }
        if !file.text.starts_with("//!") {
            faults.push(format!("{} does not open with `//!`", file.path));
        }
    }
    expect_none(&faults);
}

/// The lines of each test function of a file: name and length with its attribute and braces.
fn test_lengths(text: &str) -> Vec<(String, usize)> {
    let (mut lengths, lines) = (Vec::new(), text.lines().collect::<Vec<_>>());
    for (place, line) in lines.iter().enumerate() {
        if !line.trim_start().starts_with("#[tokio::test") && line.trim() != "#[test]" {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", " ".repeat(indent));
        let body = lines[place..].iter().position(|line| *line == closing).unwrap_or(0);
        let name = lines[place + 1].trim().to_owned();
        lengths.push((name, body + 1));
    }
    lengths
}

#[test]
fn every_end_to_end_test_reads_as_documentation_in_under_30_lines() {
    let mut faults = Vec::new();
    for file in rust_files().iter().filter(|file| file.path.starts_with("tests/tests/")) {
        let long = test_lengths(&file.text).into_iter().filter(|(_, lines)| *lines >= 30);
        faults.extend(long.map(|(name, lines)| format!("{}: {name} has {lines} lines", file.path)));
    }
    expect_none(&faults);
}

#[test]
fn no_test_sleeps() {
    let words = [["thread::", "sleep("].concat(), ["time::", "sleep("].concat(), [" ", "sleep("].concat()];
    let mut faults = Vec::new();
    for file in rust_files() {
        let is_test_file = file.path.starts_with("tests/") || file.path.contains("/tests/");
        let from = if is_test_file { 0 } else { file.text.find("#[cfg(test)]").unwrap_or(file.text.len()) };
        let tested = file.text.get(from..).unwrap_or_default();
        // On a paused clock the test itself moves the time: nobody waits.
        if tested.contains("start_paused = true") {
            continue;
        }
        if words.iter().any(|word| tested.contains(word.as_str())) {
            faults.push(format!("{}: a test waits for an event, not for time", file.path));
        }
    }
    expect_none(&faults);
}

#[test]
fn no_test_is_ignored() {
    let word = ["#[", "ignore"].concat();
    let ignored = rust_files().into_iter().filter(|file| file.text.contains(&word));
    expect_none(&ignored.map(|file| file.path).collect::<Vec<_>>());
}

/// Paths of some machine, and names of other programs of this kind: the project speaks of itself alone.
#[test]
fn no_file_names_a_machines_path_or_another_product() {
    let words = [
        ["/work/", "main"],
        ["/work/", "shared"],
        ["/work/", "."],
        ["/tmp/", "brief"],
        ["open", "code"],
        ["claude", " code"],
        ["vol", "canic"],
        ["ai", "der "],
    ];
    let mut faults = Vec::new();
    for file in files() {
        let text = file.text.to_lowercase();
        for word in words.map(|parts| parts.concat()) {
            if text.contains(&word) {
                faults.push(format!("{} holds {word:?}", file.path));
            }
        }
    }
    expect_none(&faults);
}
