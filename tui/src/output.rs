//! Owns the two streams a run writes to. Writing never blocks the runtime: a reader that is behind holds up the answer,
//! not the signals. Tested end to end.

use tokio::io::{AsyncWriteExt, Stderr, Stdout};

/// Where a run is shown.
pub trait Output: Send {
    /// Writes to standard output and flushes.
    fn answer(&mut self, text: &str) -> impl Future<Output = std::io::Result<()>> + Send;
    /// Writes one line to standard error; a failure is nobody's business.
    fn note(&mut self, line: &str) -> impl Future<Output = ()> + Send;
}

/// The process's own streams.
#[derive(Debug)]
pub struct Console {
    stdout: Stdout,
    stderr: Stderr,
}

impl Console {
    /// The streams of this process.
    pub fn new() -> Self {
        Self { stdout: tokio::io::stdout(), stderr: tokio::io::stderr() }
    }
}

impl Default for Console {
    fn default() -> Self {
        Self::new()
    }
}

impl Output for Console {
    async fn answer(&mut self, text: &str) -> std::io::Result<()> {
        self.stdout.write_all(text.as_bytes()).await?;
        self.stdout.flush().await
    }

    async fn note(&mut self, line: &str) {
        let line = format!("{line}\n");
        if self.stderr.write_all(line.as_bytes()).await.is_ok() {
            let _closed = self.stderr.flush().await;
        }
    }
}
