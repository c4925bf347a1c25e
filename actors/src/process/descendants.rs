//! Owns how the processes below one process, or in one session, are found and signalled.
//! Never waits. On Linux it reads `/proc`; elsewhere it finds nothing, and groups are all there is.
//! Tested below and in `actors/tests/process`.

use rustix::process::{Pid, Signal};

/// A process as the system lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) pid: i32,
    pub(super) name: String,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// It has ended and waits to be collected.
    pub(super) is_ended: bool,
}

/// Every process below `root`, however deep, `root` itself left out.
pub(super) fn descendants_of(root: i32) -> Vec<Listed> {
    below(root, every_process())
}

/// Every process whose session is `leader`, the leader itself left out.
pub(super) fn members_of_session(leader: i32) -> Vec<Listed> {
    every_process().into_iter().filter(|process| process.session == leader && process.pid != leader).collect()
}

/// Sends a signal to one process. It may have ended meanwhile: that is what was wanted.
pub(super) fn signal_process(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        rustix::process::kill_process(pid, signal).ok();
    }
}

fn below(root: i32, mut others: Vec<Listed>) -> Vec<Listed> {
    let mut found: Vec<Listed> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let (children, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|process| process.parent == parent && process.pid != root);
        parents.extend(children.iter().map(|child| child.pid));
        found.extend(children);
        others = rest;
    }
    found
}

#[cfg(target_os = "linux")]
fn every_process() -> Vec<Listed> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let pid: i32 = name.to_str()?.parse().ok()?;
            // It may end between the listing and this read.
            parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn every_process() -> Vec<Listed> {
    Vec::new()
}

/// One line of `/proc/<pid>/stat`: `pid (name) state parent group session …`. The name may hold anything,
/// spaces, brackets and line ends included, so it ends at the last bracket.
#[cfg(any(target_os = "linux", test))]
fn parse_stat(line: &[u8]) -> Option<Listed> {
    let line = String::from_utf8_lossy(line);
    let (pid, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    Some(Listed {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
        is_ended: matches!(state, "Z" | "X"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pid: i32, parent: i32) -> Listed {
        Listed { pid, name: String::new(), parent, group: pid, session: 1, is_ended: false }
    }

    #[test]
    fn a_name_full_of_brackets_and_spaces_does_not_shift_the_fields() {
        let parsed = parse_stat(b"41 (a) Z 9 (b) S 7 41 5 0 -1\n").unwrap();
        assert_eq!(
            parsed,
            Listed { pid: 41, name: "a) Z 9 (b".into(), parent: 7, group: 41, session: 5, is_ended: false }
        );
    }

    #[test]
    fn only_what_is_below_the_root_is_found_whatever_the_order_of_the_listing() {
        let all = vec![listed(30, 20), listed(40, 1), listed(20, 10), listed(10, 1), listed(21, 10)];
        let mut pids: Vec<i32> = below(10, all).iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [20, 21, 30]);
    }
}
