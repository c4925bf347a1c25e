//! Owns where log lines go: JSON lines into one file that rotates, and standard error of a server in the foreground.
//! Never blocks the caller: lines that the writer cannot keep up with are counted and said, not waited for.
//! Tested below.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::Environment;

/// Bytes of one log file. Beyond it: it moves aside.
const FILE_BYTES: u64 = 10 * 1024 * 1024;
/// Files that are kept, the newest included.
const FILES: u32 = 3;
/// Lines that wait for the writer. Beyond it: dropped and counted.
const LINES: usize = 1_024;
/// How long the end of the program waits for the last lines.
const FLUSH: Duration = Duration::from_secs(1);

/// How a server in the foreground writes its log to standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Keeps the log open. Dropping it waits for the last lines.
#[derive(Debug)]
pub(crate) struct LogGuard(Lines);

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Begins to log. `stderr` is none for a server in the background.
pub(crate) fn start(
    path: &Path,
    stderr: Option<LogFormat>,
    environment: &Environment,
) -> io::Result<LogGuard> {
    let (level, complaint) = parse_level(environment.var("GENT_LOG_LEVEL"));
    let lines = Lines::open(path)?;
    let file = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(lines.clone());
    let is_coloured = io::stderr().is_terminal() && environment.var_os("NO_COLOR").is_none();
    let shown: Option<Box<dyn Layer<_> + Send + Sync>> = stderr.map(|format| match format {
        LogFormat::Text => {
            tracing_subscriber::fmt::layer().with_ansi(is_coloured).with_writer(io::stderr).boxed()
        }
        LogFormat::Json => {
            tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed()
        }
    });
    let begun = Registry::default().with(targets(level)).with(file).with(shown).try_init();
    if begun.is_err() {
        return Err(io::Error::other("a log is written already"));
    }
    log_panics();
    if let Some(complaint) = complaint {
        tracing::warn!(complaint, "log.level_unknown");
    }
    Ok(LogGuard(lines))
}

/// Ours at the chosen level, libraries only when something is wrong. The HTTP library reports every malformed
/// request of a stranger as an error: that is nobody's business here.
fn targets(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("actix_http", LevelFilter::OFF)
        .with_target("gent", level)
}

fn parse_level(text: Option<&str>) -> (LevelFilter, Option<String>) {
    let level = match text.map(str::to_ascii_lowercase).as_deref() {
        None | Some("info") => Level::INFO,
        Some("trace") => Level::TRACE,
        Some("debug") => Level::DEBUG,
        Some("warn") => Level::WARN,
        Some("error") => Level::ERROR,
        Some("off") => return (LevelFilter::OFF, None),
        Some(_) => {
            let complaint = "GENT_LOG_LEVEL must be trace, debug, info, warn, error or off".to_owned();
            return (LevelFilter::INFO, Some(complaint));
        }
    };
    (LevelFilter::from_level(level), None)
}

/// Panics go to the log with their place. A text that was put together at run time may hold what a user wrote, so
/// only constant ones are logged.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let words = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("(not shown)");
        tracing::error!(place, words, "process.panicked");
    }));
}

enum Order {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// The way to the writer thread. Clones share it.
#[derive(Debug, Clone)]
struct Lines {
    orders: SyncSender<Order>,
    dropped: Arc<AtomicU64>,
}

impl Lines {
    fn open(path: &Path) -> io::Result<Self> {
        let file = RotatingFile::open(path, FILE_BYTES)?;
        let (orders, waiting) = sync_channel(LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        std::thread::Builder::new()
            .name("log".into())
            .stack_size(128 * 1024)
            .spawn(move || write_all(file, &waiting, &counted))?;
        Ok(Self { orders, dropped })
    }

    fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.orders.send(Order::Flush(done)).is_ok() && wait.recv_timeout(FLUSH).is_err() {
            // The disk does not answer; the end of the program does not wait for it.
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(mut file: RotatingFile, waiting: &Receiver<Order>, dropped: &AtomicU64) {
    // A log that cannot be written has nobody to tell.
    while let Ok(order) = waiting.recv() {
        match order {
            Order::Line(line) => {
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let note =
                        format!("{{\"level\":\"WARN\",\"message\":\"log.dropped\",\"lines\":{lost}}}\n");
                    file.write_line(note.as_bytes());
                }
                file.write_line(&line);
            }
            Order::Flush(done) => {
                // Nobody waits any more when the deadline has passed.
                let _late = done.send(()).is_err();
            }
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.orders.try_send(Order::Line(line.to_vec())) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that moves aside when it is full.
struct RotatingFile {
    path: PathBuf,
    limit: u64,
    file: Option<File>,
    length: u64,
}

impl RotatingFile {
    fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let (file, length) = open_log(path)?;
        Ok(Self { path: path.to_path_buf(), limit, file: Some(file), length })
    }

    fn write_line(&mut self, line: &[u8]) {
        let added = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.length > 0 && self.length.saturating_add(added) > self.limit {
            self.rotate();
        }
        if let Some(file) = &mut self.file
            && file.write_all(line).is_ok()
        {
            self.length = self.length.saturating_add(added);
        }
    }

    fn rotate(&mut self) {
        for n in (1..FILES).rev() {
            let from = if n == 1 { self.path.clone() } else { numbered(&self.path, n - 1) };
            // The older file may not exist yet.
            let _missing = std::fs::rename(from, numbered(&self.path, n)).is_err();
        }
        match open_log(&self.path) {
            Ok((file, length)) => (self.file, self.length) = (Some(file), length),
            // Goes on in the old file: the next line tries again.
            Err(_) => self.length = 0,
        }
    }
}

fn numbered(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

fn open_log(path: &Path) -> io::Result<(File, u64)> {
    // To open a pipe is to wait for its reader.
    if std::fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return Err(io::Error::other("it is no regular file"));
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_moves_aside_and_three_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        let mut file = RotatingFile::open(&path, 10).unwrap();
        for n in 0..5 {
            file.write_line(format!("line {n}\n").as_bytes());
        }
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), "line 4\n");
        assert_eq!(read(&numbered(&path, 1)), "line 3\n");
        assert_eq!(read(&numbered(&path, 2)), "line 2\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_log_is_gone_on_with_and_counts_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        std::fs::write(&path, "12345678").unwrap();
        let mut file = RotatingFile::open(&path, 10).unwrap();
        file.write_line(b"abc");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "abc");
    }

    #[test]
    fn a_pipe_in_the_place_of_the_log_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(RotatingFile::open(&path, 10).is_err());
    }

    #[test]
    fn lines_that_do_not_fit_are_counted_and_said_in_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        let lines = Lines::open(&path).unwrap();
        lines.dropped.store(7, Ordering::Relaxed);
        lines.clone().write_all(b"next\n").unwrap();
        lines.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"level\":\"WARN\",\"message\":\"log.dropped\",\"lines\":7}\nnext\n");
    }

    #[test]
    fn a_level_that_does_not_exist_is_said_and_info_is_taken() {
        assert_eq!(parse_level(None), (LevelFilter::INFO, None));
        assert_eq!(parse_level(Some("DEBUG")).0, LevelFilter::DEBUG);
        assert_eq!(parse_level(Some("off")).0, LevelFilter::OFF);
        let (level, complaint) = parse_level(Some("loud"));
        assert_eq!(level, LevelFilter::INFO);
        assert!(complaint.unwrap().contains("GENT_LOG_LEVEL"));
    }

    #[test]
    fn libraries_speak_only_when_something_is_wrong() {
        let targets = targets(LevelFilter::TRACE);
        assert!(targets.would_enable("gent_server::serve", &Level::TRACE));
        assert!(!targets.would_enable("actix_server", &Level::INFO));
        assert!(!targets.would_enable("actix_http::h1", &Level::ERROR));
    }
}
