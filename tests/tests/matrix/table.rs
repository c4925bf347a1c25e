//! Owns which writes there are: the table in the store's documentation, what the engine's sources name, and which of
//! them the script cannot reach. Reads the sources as text.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// Writes of the table that the script does not pass, each with its reason.
pub(crate) const UNREACHED: [(&str, &str); 8] = [
    ("session.updateSettings", "no part of a turn, and repeated it changes nothing"),
    ("session.delete", "takes away what is to be checked"),
    ("session.sweep", "takes away what is to be checked"),
    ("branch.dequeue", "no client can order it"),
    ("branch.drain", "takes away the prompt that is to run next"),
    ("branch.putAside", "belongs to an orderly stop or a missing key, and the server is killed here"),
    ("turn.modelAttempt", "only an agent that bounds its requests makes it, and no shipped agent does"),
    ("turn.retry", "comes after a wait of two seconds of real time"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names in the first column of the store's table of writes.
pub(crate) fn documented() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("storage/src/lib.rs"))?;
    let rows = text.lines().skip_while(|line| !line.starts_with("//! | write |")).skip(2);
    let names = rows.map_while(|line| line.strip_prefix("//! | ")?.split('|').next()).flat_map(names_in);
    let names: BTreeSet<String> = names.collect();
    ensure!(!names.is_empty(), "storage/src/lib.rs has no table of writes");
    Ok(names)
}

/// What stands between code marks.
fn names_in(cell: &str) -> impl Iterator<Item = String> + '_ {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The names with which the engine's sources call for a write.
pub(crate) fn named_in_sources() -> Result<BTreeSet<String>> {
    let (mut names, mut directories) = (BTreeSet::new(), vec![root().join("actors/src")]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                names.extend(names_of(&std::fs::read_to_string(path)?));
            }
        }
    }
    Ok(names)
}

/// The first text of each call of `write` and `write_bulk` that is given one.
fn names_of(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for call in ["write(", "write_bulk("] {
        for (at, found) in text.match_indices(call) {
            let arguments = text.get(at + found.len()..).unwrap_or_default();
            let Some((before, rest)) = arguments.split_once('"') else { continue };
            let is_argument = !before.contains([')', '{', ';', '|', '/']);
            let name = rest.split('"').next().unwrap_or_default();
            if is_argument && name.contains('.') {
                names.push(name.to_owned());
            }
        }
    }
    names
}
