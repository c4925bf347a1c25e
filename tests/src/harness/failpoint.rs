//! Owns pipes whose opening is an event, and stops: failpoints that park the server at a named place and say so by
//! opening such a pipe.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::net::unix::pipe::{OpenOptions, Receiver};

use super::{Place, within};

/// A named pipe. Whoever opens it for writing, such as a command of a tool (`: > pipe`), is noticed.
pub struct Pipe {
    path: PathBuf,
    receiver: Receiver,
}

impl Pipe {
    /// A new pipe in the root of the place.
    pub fn new(place: &Place, name: &str) -> Result<Self> {
        let path = place.root().join(format!("pipe-{}", name.replace([':', '@', '/'], "-")));
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let receiver = OpenOptions::new().open_receiver(&path)?;
        Ok(Self { path, receiver })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until somebody has opened it for writing.
    pub async fn opened(&self) -> Result<()> {
        within(&format!("a writer of {}", self.path.display()), async {
            self.receiver.readable().await?;
            Ok(())
        })
        .await
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path).is_err();
    }
}

/// A place where the server stops for good.
pub struct Stop {
    spec: String,
    pipe: Pipe,
}

impl Stop {
    /// The stop at `failpoint`, such as `store.after_commit:session.create` or `store.in_write@3`.
    pub fn at(place: &Place, failpoint: &str) -> Result<Self> {
        let pipe = Pipe::new(place, failpoint)?;
        Ok(Self { spec: format!("{failpoint}=stop:{}", pipe.path().display()), pipe })
    }

    /// What the server is told in `GENT_FAILPOINTS`.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Waits until the server stands there.
    pub async fn reached(&self) -> Result<()> {
        self.pipe.opened().await
    }
}
