//! Owns reading the workspace as text: every file of ours, none that is built or fetched.

use std::path::{Path, PathBuf};

/// A file of the workspace.
pub(crate) struct SourceFile {
    /// Its path from the workspace's root, with `/`.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_path_buf()
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory of the workspace").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let skipped = ["target", ".git", "node_modules", "Cargo.lock"].iter().any(|skip| name == *skip);
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !skipped => walk(&path, found),
            Ok(kind) if kind.is_file() && !skipped => found.push(path),
            _ => {}
        }
    }
}

/// Every text file of the workspace, sorted by path.
pub(crate) fn files() -> Vec<SourceFile> {
    let (root, mut found) = (root(), Vec::new());
    walk(&root, &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).ok()?;
        let path = path.strip_prefix(&root).ok()?.to_string_lossy().replace('\\', "/");
        Some(SourceFile { path, text })
    };
    found.into_iter().filter_map(read).collect()
}

/// Every Rust file.
pub(crate) fn rust_files() -> Vec<SourceFile> {
    files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

/// The `//!` header of a file.
pub(crate) fn header(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n")
}

/// The names of all test functions, with their files; those of the store's suite are written without an attribute.
pub(crate) fn test_names() -> Vec<(String, String)> {
    let mut names = Vec::new();
    for file in rust_files() {
        let mut is_test = false;
        for line in file.text.lines().map(str::trim) {
            let name =
                line.split_once("fn ").map(|(_, rest)| rest.split(['(', '<']).next().unwrap_or_default());
            match name {
                _ if line.starts_with("#[test]")
                    || line.starts_with("#[tokio::test")
                    || line.starts_with("#[actix::test") =>
                {
                    is_test = true
                }
                Some(name) if is_test || line.ends_with("(db) {") => {
                    names.push((name.to_owned(), file.path.clone()));
                    is_test = false;
                }
                _ => {}
            }
        }
    }
    names
}
