//! Owns how a path of a tool call becomes a place on the disk, and how failures there are told.
//! Never limits where a path may lie: that is a policy of the host. Tested below.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use gent_extension_api::{ToolContext, ToolError};

use super::result_size::cut_to_json_chars;
use crate::regular_file::OpenError;

/// JSON characters of a path in a result; the limit of common systems is 4,096 bytes, and eight thousand is
/// all a result has.
const SHOWN_PATH_CHARS: usize = 1_000;

/// The place `text` names: absolute as it is, `~` in the user's home, everything else under the working
/// directory.
pub(super) fn resolve(context: &ToolContext, text: &str) -> Result<PathBuf, ToolError> {
    if text.is_empty() {
        return Err(tell("the path is empty; name a file or a directory"));
    }
    let below_home = match text.strip_prefix('~') {
        Some("") => Some(""),
        Some(rest) => rest.strip_prefix('/'),
        None => None,
    };
    let Some(below_home) = below_home else {
        // Taken apart and joined again, which drops `.` and doubled separators and keeps `..` for the system,
        // the only one who knows what it means behind a symbolic link.
        return Ok(context.cwd().join(text).components().collect());
    };
    match context.home() {
        Some(home) => Ok(home.join(below_home).components().collect()),
        None => {
            Err(tell(format!("no home directory is known, so {text} cannot be resolved; give the full path")))
        }
    }
}

/// `path` for a result or a sentence.
pub(super) fn show(path: &Path) -> String {
    let text = path.to_string_lossy();
    let cut = cut_to_json_chars(&text, SHOWN_PATH_CHARS);
    if cut.len() == text.len() { text.into_owned() } else { format!("{cut}…") }
}

/// A sentence for the model.
pub(super) fn tell(sentence: impl Into<String>) -> ToolError {
    ToolError::TellModel(sentence.into())
}

/// What it means for the model that `path` could not be used to `verb` it.
pub(super) fn tell_io(verb: &str, path: &Path, error: &Error) -> ToolError {
    let shown = show(path);
    tell(match error.kind() {
        ErrorKind::NotFound => {
            format!("cannot {verb} {shown}: there is no such file; check the path or search with grep")
        }
        ErrorKind::PermissionDenied => {
            format!("cannot {verb} {shown}: permission denied; leave it alone or ask the user")
        }
        ErrorKind::NotADirectory => {
            format!("cannot {verb} {shown}: a part of the path is a file, not a directory; check the path")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("cannot {verb} {shown}: the disk is full; nothing was changed, tell the user")
        }
        ErrorKind::ReadOnlyFilesystem => {
            format!("cannot {verb} {shown}: the file system is read-only; choose another place")
        }
        ErrorKind::InvalidInput => format!("cannot {verb} {shown}: that is not a valid path; check it"),
        _ => format!("cannot {verb} {shown}: {error}"),
    })
}

/// What it means for the model that `path` could not be opened as a file.
pub(super) fn tell_open(verb: &str, path: &Path, error: &OpenError) -> ToolError {
    let shown = show(path);
    match error {
        OpenError::Directory => tell(format!(
            "cannot {verb} {shown}: it is a directory; list it with bash or search it with grep"
        )),
        OpenError::Special { kind } => {
            tell(format!("cannot {verb} {shown}: it is {kind}, not a regular file; name a regular file"))
        }
        OpenError::Io(error) => tell_io(verb, path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_context::TestContext;

    #[test]
    fn relative_paths_lie_in_the_working_directory_and_a_tilde_in_the_home() {
        let context = TestContext::at("/w").home("/home/u").tool();
        let resolved = |text: &str| resolve(&context, text).unwrap();
        assert_eq!(resolved("a/./b"), Path::new("/w/a/b"));
        assert_eq!(resolved("."), Path::new("/w"));
        assert_eq!(resolved("../x"), Path::new("/w/../x"));
        assert_eq!(resolved("/etc//hosts"), Path::new("/etc/hosts"));
        assert_eq!(resolved("~"), Path::new("/home/u"));
        assert_eq!(resolved("~/n"), Path::new("/home/u/n"));
        assert_eq!(resolved("~n"), Path::new("/w/~n"));
    }

    #[test]
    fn an_empty_path_and_an_unknown_home_are_told() {
        let context = TestContext::at("/w").tool();
        assert!(resolve(&context, "").unwrap_err().to_string().contains("path is empty"));
        assert!(resolve(&context, "~/n").unwrap_err().to_string().contains("no home directory"));
    }

    #[test]
    fn an_endless_path_is_cut_where_it_is_shown() {
        let shown = show(Path::new(&"\u{1}".repeat(4_000)));
        assert!(super::super::result_size::json_chars(&shown) <= SHOWN_PATH_CHARS + 1);
    }
}
