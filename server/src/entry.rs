//! Owns what a server leaves in its data directory for others: the lock that makes it the only one, the token of
//! this start and the entry that names it.
//! Never signals anybody, and removes an entry only while it is its own.
//! Tested below with real files.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gent_client::{Entry, entry_path, read_entry, token_path};

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// Another server owns it.
    #[error("{}", owned_sentence(data_dir, pid.as_ref(), url.as_deref()))]
    Owned {
        /// The data directory.
        data_dir: PathBuf,
        /// The owner's process, where it has said so already.
        pid: Option<u32>,
        /// Where it listens, where it has said so already.
        url: Option<String>,
    },
    /// A file could not be made, read or written.
    #[error("{} cannot be {doing}: check that the data directory is yours and that its disk is writable and not full", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

fn owned_sentence(data_dir: &Path, pid: Option<&u32>, url: Option<&str>) -> String {
    let dir = data_dir.display();
    match (pid, url) {
        (Some(pid), Some(url)) => format!(
            "a gent server (pid {pid}) at {url} owns {dir} already: use it, or end it with `gent server stop`"
        ),
        _ => format!("another gent server owns {dir} and has not named itself yet: try again in a moment"),
    }
}

/// Makes a directory that only its user may enter, parents included, and narrows one that is there.
pub(crate) fn make_private_dir(path: &Path) -> Result<(), EntryError> {
    let failed = |doing| {
        let path = path.to_path_buf();
        move |source| EntryError::File { path, doing, source }
    };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("made"))?;
    let mode = std::fs::metadata(path).map_err(failed("read"))?.permissions().mode();
    if mode & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed("made private"))?;
    }
    Ok(())
}

/// The locks of one server; released when dropped, or with the process however it ends.
#[derive(Debug)]
pub(crate) struct Ownership {
    _locks: Vec<File>,
}

impl Ownership {
    /// Takes the data directory, and the database where that lies elsewhere. Never waits.
    pub(crate) fn take(data_dir: &Path, lock: &Path, other_lock: Option<&Path>) -> Result<Self, EntryError> {
        let mut locks = Vec::new();
        for path in std::iter::once(lock).chain(other_lock) {
            let failed = |source| EntryError::File { path: path.to_path_buf(), doing: "locked", source };
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(failed)?;
            match file.try_lock() {
                Ok(()) => locks.push(file),
                Err(TryLockError::WouldBlock) => return Err(owned(data_dir)),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        Ok(Self { _locks: locks })
    }
}

/// The error that names the owner as far as its entry does.
pub(crate) fn owned(data_dir: &Path) -> EntryError {
    let entry = read_entry(data_dir).ok().flatten();
    EntryError::Owned {
        data_dir: data_dir.to_path_buf(),
        pid: entry.as_ref().map(|entry| entry.pid),
        url: entry.map(|entry| entry.url),
    }
}

/// Makes the token of this start and stores it: 64 hex digits, 244 random bits, readable by the user alone.
pub(crate) fn write_token(data_dir: &Path) -> Result<String, EntryError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the token is the program's own randomness, never replayed"
    )]
    let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    write_private(&token_path(data_dir), &token)?;
    Ok(token)
}

/// A server's entry while it stands.
#[derive(Debug)]
pub(crate) struct Written {
    data_dir: PathBuf,
    entry: Entry,
}

impl Written {
    /// Writes the entry of a server that listens.
    pub(crate) fn write(data_dir: &Path, entry: Entry) -> Result<Self, EntryError> {
        let written = Self { data_dir: data_dir.to_path_buf(), entry };
        written.restore()?;
        Ok(written)
    }

    /// Writes it again.
    pub(crate) fn restore(&self) -> Result<(), EntryError> {
        let path = entry_path(&self.data_dir);
        let text = serde_json::to_string_pretty(&self.entry).map_err(|error| EntryError::File {
            path: path.clone(),
            doing: "written",
            source: io::Error::other(error),
        })?;
        write_private(&path, &text)
    }

    /// Removes it, unless it is another server's by now.
    pub(crate) fn remove(&self) {
        let is_ours = matches!(read_entry(&self.data_dir), Ok(Some(found)) if found == self.entry);
        if is_ours && let Err(error) = std::fs::remove_file(entry_path(&self.data_dir)) {
            tracing::warn!(error = %error, "entry.stays");
        }
    }
}

/// Writes a whole file that only its user may read: to a neighbour first, so that nobody ever reads half of it.
fn write_private(path: &Path, text: &str) -> Result<(), EntryError> {
    let failed = |source| EntryError::File { path: path.to_path_buf(), doing: "written", source };
    let neighbour = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&neighbour)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_data()))
        .and_then(|()| std::fs::rename(&neighbour, path));
    written.map_err(|source| {
        // What is half written must not stay; the first failure is the one to tell.
        let _left = std::fs::remove_file(&neighbour).is_err();
        failed(source)
    })
}

#[cfg(test)]
mod tests {
    use gent_protocol::{Millis, PROTOCOL};

    use super::*;

    fn entry(data_dir: &Path, pid: u32) -> Entry {
        Entry {
            url: "http://127.0.0.1:7".into(),
            pid,
            protocol: PROTOCOL,
            build: "b".into(),
            started: Millis(1),
            token_file: token_path(data_dir),
        }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn of_many_that_take_the_lock_at_once_one_gets_it_i16() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("gent.lock");
        let barrier = std::sync::Barrier::new(8);
        let taken: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        Ownership::take(dir.path(), &lock, None)
                    })
                })
                .collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        for refused in taken.into_iter().filter_map(Result::err) {
            assert!(refused.to_string().contains("not named itself yet"), "{refused}");
        }
        assert!(Ownership::take(dir.path(), &lock, None).is_ok(), "the lock goes with its owner");
    }

    #[test]
    fn a_refused_start_names_the_owner_i20() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("gent.lock");
        let _owner = Ownership::take(dir.path(), &lock, None).unwrap();
        let _written = Written::write(dir.path(), entry(dir.path(), 4711)).unwrap();
        let refused = Ownership::take(dir.path(), &lock, None).unwrap_err();
        assert!(refused.to_string().contains("pid 4711"), "{refused}");
        assert!(refused.to_string().contains("http://127.0.0.1:7"), "{refused}");
    }

    #[test]
    fn a_database_elsewhere_is_locked_as_well() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let elsewhere = other.path().join("data.db.lock");
        let _owner = Ownership::take(dir.path(), &dir.path().join("gent.lock"), Some(&elsewhere)).unwrap();
        let second = tempfile::tempdir().unwrap();
        let refused = Ownership::take(second.path(), &second.path().join("gent.lock"), Some(&elsewhere));
        assert!(matches!(refused, Err(EntryError::Owned { .. })));
    }

    #[test]
    fn an_entry_of_a_later_server_is_not_removed_i17() {
        let dir = tempfile::tempdir().unwrap();
        let earlier = Written::write(dir.path(), entry(dir.path(), 1)).unwrap();
        let later = Written::write(dir.path(), entry(dir.path(), 2)).unwrap();
        earlier.remove();
        assert_eq!(read_entry(dir.path()).unwrap().unwrap().pid, 2);
        later.remove();
        assert!(read_entry(dir.path()).unwrap().is_none());
        later.restore().unwrap();
        assert_eq!(read_entry(dir.path()).unwrap().unwrap().pid, 2);
    }

    #[test]
    fn directory_token_and_entry_are_the_user_s_alone_and_a_token_is_new_at_each_start() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("a").join("b");
        std::fs::create_dir_all(&data_dir).unwrap();
        std::fs::set_permissions(&data_dir, Permissions::from_mode(0o755)).unwrap();
        make_private_dir(&data_dir).unwrap();
        assert_eq!(mode(&data_dir), 0o700);
        let first = write_token(&data_dir).unwrap();
        let second = write_token(&data_dir).unwrap();
        assert_ne!(first, second);
        assert_eq!((second.len(), mode(&token_path(&data_dir))), (64, 0o600));
        assert_eq!(std::fs::read_to_string(token_path(&data_dir)).unwrap(), second);
        Written::write(&data_dir, entry(&data_dir, 1)).unwrap();
        assert_eq!(mode(&entry_path(&data_dir)), 0o600);
        let names: Vec<_> = std::fs::read_dir(&data_dir).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "nothing half written stays: {names:?}");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = make_private_dir(&file.join("x")).unwrap_err().to_string();
        assert!(refused.contains("cannot be made") && !refused.contains('\n'), "{refused}");
    }
}
