//! Owns what the system says of a process: memory, processor time, environment. Linux only.
//! Never guesses: a figure that cannot be read is an error.

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal};

/// Private dirty memory in KiB, from `/proc/<pid>/smaps_rollup`.
pub fn private_dirty_kib(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let figure = line.and_then(|line| line.split_whitespace().next()).context("no Private_Dirty line")?;
    Ok(figure.parse()?)
}

/// Clock ticks of processor time, user and system, from `/proc/<pid>/stat`.
pub fn cpu_ticks(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name stands in parentheses and may hold spaces.
    let (_, rest) = text.rsplit_once(')').context("no name in stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let user: u64 = fields.get(11).context("no utime")?.parse()?;
    let system: u64 = fields.get(12).context("no stime")?.parse()?;
    Ok(user + system)
}

/// Processor time in nanoseconds of all threads that live, from their `schedstat`.
pub fn cpu_nanos(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end while they are read.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
        sum += text.split_whitespace().next().context("schedstat is empty")?.parse::<u64>()?;
    }
    Ok(sum)
}

/// Processes whose environment holds `marker` (`NAME=value`).
pub fn processes_with_env_marker(marker: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Processes of others, and those that end meanwhile, cannot be read.
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Whether a process of this id is there and no zombie.
pub fn is_alive(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Sends a signal.
pub fn send_signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid)?).context("no process has the id 0")?;
    Ok(rustix::process::kill_process(pid, signal)?)
}
