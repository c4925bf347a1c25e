//! Owns which files a search looks into, and in what order: by path, without what git ignores, without `.git`,
//! without following a symbolic link. Never reads a file. Tested in `tests`.

use std::path::Path;

use gent_extension_api::ToolError;
use ignore::gitignore::Gitignore;
use ignore::{DirEntry, Match, WalkBuilder};

use super::super::path::{show, tell_io};
use super::glob::Glob;
use super::results::Results;
use super::search::Search;
use super::stop::Stop;

/// Files one search looks into (spec A.5.5).
pub(super) const MAX_FILES: usize = 100_000;

/// Directories in which version control keeps its own; their files are nobody's text.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// Whether the walk came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walked {
    /// It did, or the results were full, or it was stopped.
    All,
    /// There are more files than one search looks into.
    TooMany,
}

/// Looks into the file `path`, or into every file below the directory `path`, until the results are full or
/// the sign is set.
pub(super) fn walk(
    cwd: &Path,
    path: &Path,
    is_directory: bool,
    glob: Option<&Glob>,
    stop: &Stop,
    results: &mut Results,
    search: &Search,
) -> Result<Walked, ToolError> {
    // A result names files the way the caller can name them: from the working directory where they lie in it.
    let shown_root = path.strip_prefix(cwd).unwrap_or(path);
    if !is_directory {
        let name = Path::new(path.file_name().unwrap_or(path.as_os_str()));
        if glob.is_none_or(|glob| glob.admits(name)) {
            search.look_into(path, &show(shown_root), stop, results);
        }
        return Ok(Walked::All);
    }
    let root = path.canonicalize().map_err(|error| tell_io("search", path, &error))?;
    let mut n_files = 0;
    for entry in files_below(cwd, &root).build() {
        if stop.is_set() || results.why_full().is_some() {
            return Ok(Walked::All);
        }
        let Ok(entry) = entry else {
            results.count_unreadable();
            continue;
        };
        let relative = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        if !is_regular(&entry) || !glob.is_none_or(|glob| glob.admits(relative)) {
            continue;
        }
        n_files += 1;
        if n_files > MAX_FILES {
            return Ok(Walked::TooMany);
        }
        search.look_into(entry.path(), &show(&shown_root.join(relative)), stop, results);
    }
    Ok(Walked::All)
}

fn is_regular(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|file_type| file_type.is_file())
}

fn files_below(cwd: &Path, root: &Path) -> WalkBuilder {
    let repository = root.ancestors().find(|directory| directory.join(".git").exists());
    // Inside a repository its own rules hold and end at its root. Outside, the rules of the working directory
    // and below hold: those further up belong to something else, such as a home full of ignored files.
    let mut outer_rules = match repository {
        Some(repository) => outer_rules(repository, root),
        None => outer_rules(&cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned()), root),
    };
    // Whoever searches what is ignored wants to know what is in it.
    let is_own_top = root.ancestors().any(|directory| is_ignored(&outer_rules, directory, true));
    let is_in_repository = repository.is_some() && !is_own_top;
    if is_in_repository || is_own_top {
        outer_rules.clear();
    }
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .follow_links(false)
        .parents(is_in_repository)
        .require_git(is_in_repository)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| {
            let is_version_control =
                VERSION_CONTROL.iter().any(|name| entry.file_name() == std::ffi::OsStr::new(name));
            let is_directory = entry.file_type().is_some_and(|file_type| file_type.is_dir());
            entry.depth() == 0
                || !(is_version_control || is_ignored(&outer_rules, entry.path(), is_directory))
        });
    builder
}

/// The ignore files from the searched directory's parent up to `top`, nearest first.
fn outer_rules(top: &Path, root: &Path) -> Vec<Gitignore> {
    root.ancestors()
        .skip(1)
        .take_while(|directory| directory.starts_with(top))
        .map(|directory| Gitignore::new(directory.join(".gitignore")).0)
        .collect()
}

/// True when the nearest rule about `path` itself says so. Rules speak of what lies below them.
fn is_ignored(rules: &[Gitignore], path: &Path, is_directory: bool) -> bool {
    let decided = rules
        .iter()
        .filter(|rules| path != rules.path() && path.starts_with(rules.path()))
        .map(|rules| rules.matched(path, is_directory))
        .find(|found| !found.is_none());
    matches!(decided, Some(Match::Ignore(_)))
}
