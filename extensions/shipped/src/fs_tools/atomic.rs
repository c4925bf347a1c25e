//! Owns how a file is replaced: a temporary file beside it is filled and takes its name, so that a reader
//! sees the old file or the new one and a failure leaves the old one. Symbolic links keep pointing where they
//! did; mode and owner stay. Never writes into an existing file. Tested below and through `write` and `edit`.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use gent_extension_api::ToolError;

use super::path::{show, tell, tell_io, tell_open};
use crate::regular_file::{OpenError, check_kind};

/// Names tried for a temporary file; each is unique to this process, so a clash is what an earlier process of
/// the same id left behind.
const NAME_ATTEMPTS: usize = 16;

static NEXT_NAME: AtomicU64 = AtomicU64::new(0);

/// A place that may be written.
#[derive(Debug)]
pub(super) struct Target {
    /// Where the file is or will be, behind every symbolic link.
    pub(super) real_path: PathBuf,
    /// The file that is there now.
    existing: Option<Metadata>,
}

impl Target {
    /// True when there is a file now.
    pub(super) fn exists(&self) -> bool {
        self.existing.is_some()
    }
}

/// Finds out what writing to `path` would replace. Refuses directories, special files, links that lead nowhere
/// and files that may not be written.
pub(super) fn locate(path: &Path) -> Result<Target, ToolError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return locate_new(path),
        Err(error) => return Err(tell_io("write", path, &error)),
    };
    check_kind(&metadata).map_err(|error| tell_open("write", path, &error))?;
    let real_path = path.canonicalize().map_err(|error| tell_io("write", path, &error))?;
    if metadata.permissions().readonly() {
        return Err(tell(format!(
            "cannot write {}: the file is read-only; if it is meant to change, change its mode first",
            show(path)
        )));
    }
    // Taking a file's name asks for leave of the directory alone; whoever may not write the file is refused here.
    match OpenOptions::new().write(true).open(&real_path) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            Err(tell_io("write", path, &error))
        }
        _ => Ok(Target { real_path, existing: Some(metadata) }),
    }
}

fn locate_new(path: &Path) -> Result<Target, ToolError> {
    if std::fs::symlink_metadata(path).is_ok() {
        return Err(tell(format!(
            "cannot write {}: it is a symbolic link to a file that does not exist; write to the link's target \
             itself",
            show(path)
        )));
    }
    if path.file_name().is_none() {
        return Err(tell_open("write", path, &OpenError::Directory));
    }
    Ok(Target { real_path: path.to_owned(), existing: None })
}

/// Puts `bytes` in the place of the target; missing directories are made. Afterwards the target is all of it or
/// what it was before, and nothing else is left behind.
pub(super) fn replace(target: &mut Target, bytes: &[u8]) -> Result<(), ToolError> {
    let Some(parent) = target.real_path.parent().map(Path::to_owned) else {
        return Err(tell_open("write", &target.real_path, &OpenError::Directory));
    };
    let made = MadeDirectories::make(&parent).map_err(|error| tell_io("write", &target.real_path, &error))?;
    fill_and_rename(target, &parent, bytes).map_err(|error| tell_io("write", &target.real_path, &error))?;
    made.keep();
    // The directories exist now: the name under which other calls will find the file is known.
    if let Ok(real_path) = target.real_path.canonicalize() {
        target.real_path = real_path;
    }
    Ok(())
}

fn fill_and_rename(target: &Target, parent: &Path, bytes: &[u8]) -> Result<(), Error> {
    let (mut file, temporary) = TemporaryFile::make(parent, target.existing.is_some())?;
    file.write_all(bytes)?;
    if let Some(existing) = &target.existing {
        keep_owner(&file, existing);
        file.set_permissions(existing.permissions())?;
        // Only what replaces something is forced to the disk: after a loss of power the old text or the new one
        // is there. A new file has nothing to lose.
        file.sync_data()?;
    }
    drop(file);
    std::fs::rename(&temporary.path, &target.real_path)?;
    temporary.keep();
    Ok(())
}

/// Gives the new file the owner of the old one where that is possible: root edits the files of others.
#[cfg(unix)]
fn keep_owner(file: &File, existing: &Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    let is_same = |new: Metadata| new.uid() == existing.uid() && new.gid() == existing.gid();
    if file.metadata().is_ok_and(is_same) {
        return;
    }
    if fchown(file, Some(existing.uid()), Some(existing.gid())).is_err() {
        tracing::debug!("file.owner_not_kept");
    }
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) {}

/// A file that is gone when it is dropped.
struct TemporaryFile {
    path: PathBuf,
    is_kept: bool,
}

impl TemporaryFile {
    fn make(directory: &Path, is_private: bool) -> Result<(File, Self), Error> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if is_private {
            // Until it has the mode of the file it replaces, nobody else may read it.
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let mut last = Error::from(ErrorKind::AlreadyExists);
        for _ in 0..NAME_ATTEMPTS {
            let number = NEXT_NAME.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!(".gent-{}-{number}.tmp", std::process::id()));
            match options.open(&path) {
                Ok(file) => return Ok((file, Self { path, is_kept: false })),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_kept && std::fs::remove_file(&self.path).is_err() {
            tracing::warn!("file.temporary_left");
        }
    }
}

/// Directories that are taken back when they are dropped, innermost first, as far as they are empty.
struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    fn make(directory: &Path) -> Result<Self, Error> {
        let is_missing = |path: &&Path| {
            std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        let missing = directory.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        let made = Self(missing);
        std::fs::create_dir_all(directory)?;
        Ok(made)
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        for directory in &self.0 {
            if std::fs::remove_dir(directory).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_failed_rename_leaves_no_temporary_file_and_no_new_directory() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b/file");
        let mut target = locate(&file).unwrap();
        // The name is taken by a directory between looking and renaming.
        target.real_path = root.path().join("taken");
        std::fs::create_dir_all(target.real_path.join("full")).unwrap();
        assert!(replace(&mut target, b"x").is_err());
        assert_eq!(names(root.path()), ["taken"]);

        let mut target = Target { real_path: root.path().join("new/deep/\0"), existing: None };
        assert!(replace(&mut target, b"x").is_err());
        assert_eq!(names(root.path()), ["taken"]);
    }

    #[test]
    fn a_left_over_name_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let next = NEXT_NAME.load(Ordering::Relaxed);
        for number in next..next + 3 {
            let left = format!(".gent-{}-{number}.tmp", std::process::id());
            std::fs::write(root.path().join(left), "theirs").unwrap();
        }
        let mut target = locate(&root.path().join("file")).unwrap();
        replace(&mut target, b"x").unwrap();
        assert_eq!(std::fs::read(root.path().join("file")).unwrap(), b"x");
        assert_eq!(names(root.path()).len(), 4);
    }
}
