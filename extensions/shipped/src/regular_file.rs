//! Owns opening a path that ought to be an ordinary file without ever waiting for it: a pipe, a device or a
//! socket in its place is refused, not opened. Never reads; says nothing of where the path may lie.
//! Tested below and through `fs_tools` and `agents`.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Why a path could not be opened as an ordinary file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// It is a directory.
    #[error("it is a directory")]
    Directory,
    /// It is a pipe, a device, a socket.
    #[error("it is {kind}, not a regular file")]
    Special {
        /// What it is, with its article.
        kind: &'static str,
    },
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Opens an ordinary file for reading; symbolic links are followed. The metadata are those of the open file.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata), OpenError> {
    // Looked at before it is opened, since opening a device can already do something.
    check_kind(&std::fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe that took the file's place in between must not hold the thread for ever.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check_kind(&metadata)?;
    Ok((file, metadata))
}

/// Refuses what is no ordinary file.
pub(crate) fn check_kind(metadata: &Metadata) -> Result<(), OpenError> {
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        return Err(OpenError::Directory);
    }
    if !file_type.is_file() {
        return Err(OpenError::Special { kind: special_kind(file_type) });
    }
    Ok(())
}

#[cfg(unix)]
fn special_kind(file_type: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if file_type.is_fifo() {
        "a named pipe"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special_kind(_: FileType) -> &'static str {
    "a special file"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_and_a_directory_are_refused_by_name() {
        let device = open_regular(Path::new("/dev/null")).unwrap_err();
        assert_eq!(device.to_string(), "it is a device, not a regular file");
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(open_regular(directory.path()), Err(OpenError::Directory)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_without_a_writer_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        crate::test_context::make_pipe(&pipe);
        let refused = open_regular(&pipe).unwrap_err();
        assert_eq!(refused.to_string(), "it is a named pipe, not a regular file");
    }
}
