//! Owns the places where a test stops, breaks, kills or listens to a debug build. A release build has none of them.
//! Never does anything unless `arm` was called.
//! Tested below and by the crash tests.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

/// What happens at an armed failpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    /// Opens the file for writing (a FIFO will do), writes a line and parks the thread for ever.
    Stop(PathBuf),
    /// Panics.
    Panic,
    /// Fails, where the place can fail.
    Error,
    /// Adds a line to the file at every hit: the detail, or the name of a place without one.
    Log(PathBuf),
}

#[derive(Debug)]
struct Armed {
    name: String,
    /// Hits until it acts; 0: it has acted.
    left: u64,
    action: Action,
    /// Hits on other threads do not count.
    thread: Option<ThreadId>,
}

static ANY: AtomicBool = AtomicBool::new(false);
static ARMED: Mutex<Vec<Armed>> = Mutex::new(Vec::new());

/// Arms failpoints: `name[@N]=stop:FILE`, `name[@N]=panic` or `name[@N]=error`, joined by commas. It acts once, on
/// the N-th hit (the first without `@N`). `name=log:FILE` acts on every hit. In a release build it says that there are
/// none.
pub fn arm(spec: &str) -> Result<(), String> {
    arm_on(spec, None)
}

/// As [`arm`], for hits on the calling thread alone: for tests that share a process and work on one thread each.
pub fn arm_here(spec: &str) -> Result<(), String> {
    arm_on(spec, Some(std::thread::current().id()))
}

/// Takes back what was armed on the calling thread alone; says how many of it have acted.
pub fn disarm_here() -> usize {
    let here = std::thread::current().id();
    let mut armed = ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let n_acted = armed.iter().filter(|point| point.thread == Some(here) && point.left == 0).count();
    armed.retain(|point| point.thread != Some(here));
    n_acted
}

fn arm_on(spec: &str, thread: Option<ThreadId>) -> Result<(), String> {
    if !cfg!(debug_assertions) {
        return Err("this build has no failpoints".to_owned());
    }
    let mut parsed = spec.split(',').map(parse).collect::<Result<Vec<Armed>, String>>()?;
    for point in &mut parsed {
        point.thread = thread;
    }
    let mut armed = ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    armed.extend(parsed);
    ANY.store(true, Ordering::SeqCst);
    Ok(())
}

fn parse(entry: &str) -> Result<Armed, String> {
    let form =
        || format!("failpoint {entry:?} must be name[@N]=stop:FILE, =panic or =error, or name=log:FILE");
    let (place, action) = entry.trim().split_once('=').ok_or_else(form)?;
    let (name, left) = match place.split_once('@') {
        Some((name, count)) => (name, count.parse().ok().filter(|n| *n > 0).ok_or_else(form)?),
        None => (place, 1),
    };
    let action = match action.split_once(':') {
        Some(("stop", file)) if !file.is_empty() => Action::Stop(file.into()),
        Some(("log", file)) if !file.is_empty() && !place.contains('@') => Action::Log(file.into()),
        None if action == "panic" => Action::Panic,
        None if action == "error" => Action::Error,
        Some(_) | None => return Err(form()),
    };
    Ok(Armed { name: name.to_owned(), left, action, thread: None })
}

/// Passes the place `name`, and `name:detail` where there is a detail. True when it is armed to fail here.
pub fn hit(name: &str, detail: Option<&str>) -> bool {
    if !ANY.load(Ordering::Relaxed) {
        return false;
    }
    match take(name, detail) {
        None | Some(Action::Log(_)) => false,
        Some(Action::Error) => true,
        Some(Action::Stop(file)) => stop(&file),
        #[expect(clippy::panic, reason = "a test asked for it; release builds cannot be armed")]
        Some(Action::Panic) => panic!("failpoint {name}"),
    }
}

fn take(name: &str, detail: Option<&str>) -> Option<Action> {
    let narrowed = detail.map(|detail| format!("{name}:{detail}"));
    let mut armed = ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (mut action, here) = (None, std::thread::current().id());
    for point in armed.iter_mut() {
        if point.thread.is_some_and(|thread| thread != here) {
            continue;
        }
        if point.name != name && Some(&point.name) != narrowed.as_ref() {
            continue;
        }
        if let Action::Log(file) = &point.action {
            // Under the lock: lines of two threads do not mix.
            log(file, detail.unwrap_or(name));
        } else if point.left > 0 {
            point.left -= 1;
            if point.left == 0 && action.is_none() {
                action = Some(point.action.clone());
            }
        }
    }
    action
}

fn log(file: &PathBuf, line: &str) {
    let told = OpenOptions::new().append(true).create(true).open(file);
    if let Err(error) = told.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
        tracing::error!(%error, "failpoint.unlogged");
    }
}

fn stop(file: &PathBuf) -> ! {
    let told = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(file)
        .and_then(|mut file| file.write_all(b"stopped\n"));
    if let Err(error) = told {
        tracing::error!(%error, "failpoint.untold");
    }
    loop {
        std::thread::park();
    }
}

/// Passes a failpoint: nothing unless a test armed it, and nothing at all in a release build. `error` does nothing
/// here: only the store's own places can fail.
#[cfg(debug_assertions)]
#[macro_export]
macro_rules! failpoint {
    ($name:expr) => {{
        let _fails: bool = $crate::failpoint::hit($name, None);
    }};
}

/// Passes a failpoint: nothing in a release build.
#[cfg(not(debug_assertions))]
#[macro_export]
macro_rules! failpoint {
    ($name:expr) => {{
        let _: &str = $name;
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_acts_once_on_its_nth_hit_and_may_be_narrowed() {
        arm("test.nth@2=error,test.narrow:write.a=error").unwrap();
        assert!(!hit("test.nth", None));
        assert!(hit("test.nth", Some("x")));
        assert!(!hit("test.nth", None));
        assert!(!hit("test.narrow", Some("write.b")));
        assert!(hit("test.narrow", Some("write.a")));
    }

    #[test]
    fn a_failpoint_of_one_thread_is_not_there_on_another() {
        arm_here("test.here=error").unwrap();
        assert!(!std::thread::spawn(|| hit("test.here", None)).join().unwrap());
        assert!(hit("test.here", None));
    }

    #[test]
    fn a_failpoint_of_one_thread_can_be_taken_back() {
        arm_here("test.back=error,test.acts=error").unwrap();
        assert!(hit("test.acts", None));
        assert_eq!(disarm_here(), 1);
        assert!(!hit("test.back", None));
    }

    #[test]
    fn a_malformed_failpoint_is_refused_with_its_form() {
        for bad in ["x", "x=go", "x@0=panic", "x=stop:", "x@n=error", "x=log:", "x@2=log:f"] {
            assert!(arm(bad).unwrap_err().contains("name[@N]"), "{bad}");
        }
    }

    #[test]
    fn a_logged_failpoint_notes_every_hit_and_changes_nothing() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("hits");
        arm(&format!("test.logged=log:{},test.logged:b=error", file.display())).unwrap();
        assert!(!hit("test.logged", Some("a")));
        assert!(hit("test.logged", Some("b")));
        assert!(!hit("test.logged", None));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\nb\ntest.logged\n");
    }

    #[test]
    fn a_stop_tells_its_file_and_never_returns() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("stopped");
        arm(&format!("test.stop=stop:{}", file.display())).unwrap();
        let thread = std::thread::spawn(|| hit("test.stop", None));
        while std::fs::read(&file).map_or(true, |text| text.is_empty()) {
            std::thread::yield_now();
        }
        assert!(!thread.is_finished());
    }
}
