//! Owns the arrow diagram of `docs/ARCHITECTURE.md`: which crate may import which, and what stays in one place.

use std::collections::BTreeSet;

use crate::tree::{files, header, root, rust_files};

/// A crate's directory and the crates of ours it may depend on.
const ARROWS: [(&str, &[&str]); 8] = [
    ("protocol", &[]),
    ("protocol/client", &["gent-protocol"]),
    ("storage", &["gent-protocol"]),
    ("extensions/api", &["gent-protocol"]),
    ("extensions/shipped", &["gent-extension-api"]),
    ("actors", &["gent-extension-api", "gent-protocol", "gent-storage"]),
    ("tui", &["gent-client", "gent-protocol"]),
    (
        "server",
        &[
            "gent-actors",
            "gent-client",
            "gent-extension-api",
            "gent-extensions",
            "gent-protocol",
            "gent-storage",
            "gent-tui",
        ],
    ),
];

/// Libraries that belong to some crates alone.
const LIBRARIES: [(&str, &[&str]); 6] = [
    ("diesel", &["storage"]),
    ("actix", &["actors", "server"]),
    ("actix-web", &["server"]),
    ("reqwest", &["extensions/shipped"]),
    ("tokio-tungstenite", &["protocol/client", "server", "tests", "tui"]),
    ("clap", &["server"]),
];

/// The names under `[dependencies]`.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    let own = lines.take_while(|line| !line.starts_with('['));
    let named = own.filter_map(|line| line.split(['.', '=', ' ']).next()).filter(|name| !name.is_empty());
    named.filter(|name| !name.starts_with('#')).map(str::to_owned).collect()
}

fn manifest(directory: &str) -> String {
    std::fs::read_to_string(root().join(directory).join("Cargo.toml")).expect("a manifest")
}

#[test]
fn crates_depend_on_each_other_only_along_the_arrows() {
    for (directory, allowed) in ARROWS {
        let ours = dependencies(&manifest(directory)).into_iter().filter(|name| name.starts_with("gent-"));
        for name in ours {
            assert!(allowed.contains(&name.as_str()), "{directory} may not depend on {name}");
        }
    }
}

#[test]
fn a_library_that_belongs_to_one_place_is_nowhere_else() {
    for file in files().iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let directory = file.path.trim_end_matches("/Cargo.toml");
        for (library, owners) in LIBRARIES {
            let has = dependencies(&file.text).contains(library);
            assert!(!has || owners.contains(&directory), "{directory} may not depend on {library}");
        }
    }
}

#[test]
fn the_protocol_and_the_store_know_no_runtime() {
    for directory in ["protocol", "storage"] {
        let names = dependencies(&manifest(directory));
        assert!(
            !names.iter().any(|name| name == "tokio" || name.starts_with("actix")),
            "{directory}: {names:?}"
        );
    }
}

/// A file says that it is pure by the word `Pure` in its header, at the beginning of a sentence.
#[test]
fn a_file_that_calls_itself_pure_imports_no_runtime_and_no_store() {
    for file in rust_files().iter().filter(|file| header(&file.text).contains("Pure")) {
        for import in ["use actix", "use tokio", "use gent_storage", "tokio::spawn", "actix::spawn"] {
            let place = file.text.find("#[cfg(test)]").unwrap_or(file.text.len());
            let code = file.text.get(..place).unwrap_or_default();
            assert!(!code.contains(import), "{} is pure and has `{import}`", file.path);
        }
    }
}
