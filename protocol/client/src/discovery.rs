//! Owns how a client finds the server of a data directory: the directory's rule, the entry, the token, the proof.
//! Never starts, stops or signals a process, never takes a lock, never reads the environment itself.
//! Tested below.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use gent_protocol::{Identity, Millis, ProtocolVersion, Secret};
use serde::{Deserialize, Serialize};

use crate::limits::ENTRY_BYTES;
use crate::{IdentityError, ServerUrl, prove};

/// There is no place for the data directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no data directory: set GENT_DATA_DIR, because HOME is not set")]
pub struct NoDataDirectory;

/// The data directory: `GENT_DATA_DIR` when set and not empty, else `.gent` in the home directory.
/// A relative path is taken from `cwd`.
pub fn data_directory(
    gent_data_dir: Option<&OsStr>,
    home: Option<&OsStr>,
    cwd: &Path,
) -> Result<PathBuf, NoDataDirectory> {
    let is_set = |value: &&OsStr| !value.is_empty();
    if let Some(directory) = gent_data_dir.filter(is_set) {
        return Ok(cwd.join(directory));
    }
    let home = home.filter(is_set).ok_or(NoDataDirectory)?;
    Ok(cwd.join(home).join(".gent"))
}

/// The entry of the server that owns a data directory.
pub fn entry_path(data_dir: &Path) -> PathBuf {
    data_dir.join("server.json")
}

/// The token of the server that owns a data directory.
pub fn token_path(data_dir: &Path) -> PathBuf {
    data_dir.join("token")
}

/// What a server says of itself in its data directory, for clients of the same user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Where it listens: `http://host:port`.
    pub url: String,
    /// Its process.
    pub pid: u32,
    /// What it speaks.
    pub protocol: ProtocolVersion,
    /// Its build.
    pub build: String,
    /// When it started.
    pub started: Millis,
    /// The file that holds its token.
    pub token_file: PathBuf,
}

/// Why the entry of a data directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// It could not be read.
    #[error("{path} could not be read: check that the data directory belongs to you")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A server that was found and proved.
#[derive(Debug, Clone)]
pub struct Attached {
    /// Where it listens.
    pub url: ServerUrl,
    /// Its token.
    pub token: Secret,
    /// What it said of itself.
    pub identity: Identity,
    /// Its process, where its entry named it.
    pub pid: Option<u32>,
}

/// What came of looking for a server.
#[derive(Debug)]
pub enum Attach {
    /// It is there and holds the token.
    Attached(Box<Attached>),
    /// No entry that can be read: none runs, or one is just starting. Whoever can take the lock knows which.
    NoServer,
    /// An entry, but nobody listens there: its server was killed, or is just going.
    Silent {
        /// The entry.
        entry: Entry,
    },
    /// Something listens there and does not answer in time: leave it alone, name it.
    Stuck {
        /// The entry.
        entry: Entry,
    },
    /// What listens there does not hold the token: neither attach nor signal.
    WrongProof {
        /// The entry.
        entry: Entry,
    },
    /// It is ours, proved itself and speaks another major version: `server.retire` is understood all the same.
    OtherMajor {
        /// The entry.
        entry: Entry,
        /// Where it listens.
        url: ServerUrl,
        /// Its token.
        token: Secret,
        /// Its major version.
        major: u32,
    },
}

/// Looks for the server of a data directory and checks its proof. `nonce`: 16 to 64 hex digits, new each time.
pub async fn find_server(data_dir: &Path, nonce: &str) -> Result<Attach, EntryError> {
    let Some(entry) = read_entry(data_dir)? else { return Ok(Attach::NoServer) };
    let Ok(url) = entry.url.parse::<ServerUrl>() else { return Ok(Attach::NoServer) };
    let token = match read_small(&entry.token_file) {
        Ok(Some(token)) => Secret::new(token.trim()),
        // The entry outlived its token: a server is being replaced, or was removed by hand.
        Ok(None) => return Ok(Attach::Silent { entry }),
        Err(source) => return Err(EntryError::Read { path: entry.token_file, source }),
    };
    Ok(match prove(&url, &token, nonce).await {
        Ok(identity) => Attach::Attached(Box::new(Attached { url, token, identity, pid: Some(entry.pid) })),
        Err(IdentityError::Refused { .. }) => Attach::Silent { entry },
        Err(IdentityError::Late { .. }) => Attach::Stuck { entry },
        Err(IdentityError::Foreign { .. } | IdentityError::WrongProof { .. }) => Attach::WrongProof { entry },
        Err(IdentityError::OtherMajor { major, .. }) => Attach::OtherMajor { entry, url, token, major },
    })
}

/// Checks the server at a given address, for a client that was told where to go.
pub async fn attach_at(url: ServerUrl, token: Secret, nonce: &str) -> Result<Attached, IdentityError> {
    let identity = prove(&url, &token, nonce).await?;
    Ok(Attached { url, token, identity, pid: None })
}

/// Reads the entry of a data directory. None when there is no such file, or something else in its place: the lock
/// decides whether a server runs, and the next one writes its entry over it.
pub fn read_entry(data_dir: &Path) -> Result<Option<Entry>, EntryError> {
    let path = entry_path(data_dir);
    let text = match read_small(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(source) => return Err(EntryError::Read { path, source }),
    };
    Ok(serde_json::from_str(&text).ok())
}

/// The text of a small file; none where there is no file, or one without text.
fn read_small(path: &Path) -> std::io::Result<Option<String>> {
    let read = || -> std::io::Result<Option<String>> {
        // To open a pipe is to wait for its writer, and a device may never end.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut text = String::new();
        std::fs::File::open(path)?.take(ENTRY_BYTES).read_to_string(&mut text)?;
        Ok(Some(text))
    };
    match read() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::identity_proof;

    const NONCE: &str = "0011223344556677";

    #[test]
    fn the_data_directory_is_the_one_that_is_named_else_in_the_home_directory() {
        let cwd = Path::new("/work");
        let dir = |named: &str, home: &str| {
            let text = |value: &'static str| if value == "-" { None } else { Some(OsStr::new(value)) };
            data_directory(text(named.to_owned().leak()), text(home.to_owned().leak()), cwd)
        };
        assert_eq!(dir("/d", "/h"), Ok("/d".into()));
        assert_eq!(dir("d", "/h"), Ok("/work/d".into()));
        assert_eq!(dir("-", "/h"), Ok("/h/.gent".into()));
        assert_eq!(dir("", "/h"), Ok("/h/.gent".into()));
        assert_eq!(dir("-", "-"), Err(NoDataDirectory));
        assert_eq!(dir("-", ""), Err(NoDataDirectory));
    }

    fn write_entry(data_dir: &Path, port: u16) {
        std::fs::write(token_path(data_dir), "secret\n").unwrap();
        let entry = Entry {
            url: format!("http://127.0.0.1:{port}"),
            pid: 7,
            protocol: gent_protocol::PROTOCOL,
            build: "b".into(),
            started: Millis(1),
            token_file: token_path(data_dir),
        };
        std::fs::write(entry_path(data_dir), serde_json::to_string(&entry).unwrap()).unwrap();
    }

    #[tokio::test]
    async fn without_an_entry_there_is_no_server() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(find_server(dir.path(), NONCE).await, Ok(Attach::NoServer)));
    }

    #[tokio::test]
    async fn an_entry_that_does_not_decode_is_none_and_blocks_no_start() {
        let dir = tempfile::tempdir().unwrap();
        write_entry(dir.path(), 7);
        let whole = std::fs::read_to_string(entry_path(dir.path())).unwrap();
        let nowhere = whole.replace("http://127.0.0.1:7", "nowhere");
        for text in [&b""[..], b"{", b"\xff\xfe", b"[]", nowhere.as_bytes()] {
            std::fs::write(entry_path(dir.path()), text).unwrap();
            let found = find_server(dir.path(), NONCE).await;
            assert!(matches!(found, Ok(Attach::NoServer)), "{text:?}: {found:?}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_pipe_in_the_place_of_entry_or_token_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = |path: &Path| {
            #[expect(clippy::disallowed_methods, reason = "the library has no call that makes a pipe")]
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        };
        pipe(&entry_path(dir.path()));
        assert!(matches!(find_server(dir.path(), NONCE).await, Ok(Attach::NoServer)));
        std::fs::remove_file(entry_path(dir.path())).unwrap();
        write_entry(dir.path(), 7);
        std::fs::remove_file(token_path(dir.path())).unwrap();
        pipe(&token_path(dir.path()));
        assert!(matches!(find_server(dir.path(), NONCE).await, Ok(Attach::Silent { .. })));
    }

    #[tokio::test]
    async fn an_entry_where_nobody_listens_is_silent_i17() {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        write_entry(dir.path(), listener.local_addr().unwrap().port());
        drop(listener);
        assert!(matches!(find_server(dir.path(), NONCE).await, Ok(Attach::Silent { .. })));
    }

    async fn serve(token: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let n_read = stream.read(&mut request).await.unwrap();
            assert!(n_read > 0);
            let proof = identity_proof(token, NONCE, port);
            let body = format!(r#"{{"protocol":{{"major":1,"minor":0}},"build":"b","proof":"{proof}"}}"#);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        port
    }

    #[tokio::test]
    async fn a_server_with_the_token_is_attached_and_one_without_is_left_alone_i19() {
        let dir = tempfile::tempdir().unwrap();
        write_entry(dir.path(), serve("secret").await);
        let found = find_server(dir.path(), NONCE).await.unwrap();
        let Attach::Attached(attached) = found else { panic!("attached: {found:?}") };
        assert_eq!((attached.pid, attached.token.expose()), (Some(7), "secret"));
        write_entry(dir.path(), serve("another").await);
        assert!(matches!(find_server(dir.path(), NONCE).await, Ok(Attach::WrongProof { .. })));
    }
}
