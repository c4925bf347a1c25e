//! Owns how the system's allocator is told to give memory back after a burst. It reads its settings from the
//! environment before `main`, so a server that was started without them starts itself once more, in place.
//! Never changes what somebody has set. Tested below; measured by `gent-bench --only sessions`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// One arena for a dozen threads: memory that one thread freed serves another. Fixed thresholds: by itself the allocator
/// raises them after the first large block, and keeps tens of megabytes. Blocks from 256 KiB on are given back at once,
/// so that answers which a client never reads leave nothing between smaller blocks.
pub(crate) const SETTINGS: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "1"), ("MALLOC_TRIM_THRESHOLD_", "1048576"), ("MALLOC_MMAP_THRESHOLD_", "262144")];

/// True where the allocator reads these settings and nobody has made them.
fn is_due(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    cfg!(all(target_os = "linux", target_env = "gnu"))
        && SETTINGS.iter().all(|(name, _)| variable(name).is_none())
}

/// Starts this program once more in place with the settings, where they are due. Returns when they are not, or
/// when it could not be done: the server then runs with what there is.
pub fn restart_with_settings(
    exe: &Path,
    arguments: &[OsString],
    variable: impl Fn(&str) -> Option<OsString>,
) {
    if !is_due(variable) {
        return;
    }
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_os_str(), rest),
        None => (OsStr::new("gent"), arguments),
    };
    #[expect(clippy::disallowed_methods, reason = "the server itself goes on, not a process for an agent")]
    let mut command = Command::new(exe);
    // It does not return where it succeeds.
    let error = command.arg0(name).args(rest).envs(SETTINGS).exec();
    tracing::debug!(%error, "allocator.settings_failed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_user_stay_as_they_are() {
        let has = |set: &'static str| move |name: &str| (name == set).then(|| OsString::from("8"));
        assert!(!is_due(has("MALLOC_ARENA_MAX")));
        assert!(!is_due(has("MALLOC_TRIM_THRESHOLD_")));
        assert_eq!(is_due(has("PATH")), cfg!(all(target_os = "linux", target_env = "gnu")));
    }
}
