//! Owns the tests of how trees end: by time, by cancel, by drop, with their helper, with their server.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use gent_extension_api::{Exec, ExecError, ProcessEnd};

use crate::bed::{Bed, text};
use crate::cases;

cases![
    time_that_is_up_returns_what_there_is,
    a_cancel_returns_what_there_is_and_ends_the_tree,
    a_child_in_a_session_of_its_own_ends_too,
    an_orphan_of_an_orphan_ends_too,
    what_ignores_term_is_killed,
    what_is_stopped_ends_too,
    the_scope_is_free_after_a_cancel_whatever_holds_the_pipe,
    a_cancelled_scope_runs_nothing,
    dropping_the_run_ends_the_tree,
    a_killed_helper_is_an_error_and_takes_its_program_along,
    a_killed_helper_takes_along_what_was_left_running,
    a_killed_server_takes_its_tree_along,
    a_killed_server_takes_along_what_was_left_running,
    a_command_whose_server_is_gone_does_not_start,
    a_helper_hands_on_nothing_of_its_own_environment,
    a_helper_without_a_socket_does_nothing,
];

/// Holds the pipe `w` open as descriptor 3, hands it on to all children, and says that it is there.
const HELD: &str = "exec 3>w; echo $$ >&3; ";

async fn time_that_is_up_returns_what_there_is(bed: Bed) {
    bed.make_pipe("w");
    let mut request = bed.shell(&format!("{HELD} echo begun; sleep 300"));
    request.timeout = Some(Duration::from_secs(1));
    let exec = bed.exec();
    let run = tokio::spawn(async move { exec.run(request).await });
    let witness = bed.witness("w").await;
    let outcome = run.await.unwrap().unwrap();
    assert_eq!((outcome.end, text(&outcome.stdout)), (ProcessEnd::TimedOut, "begun\n".into()));
    witness.end().await;
}

async fn a_cancel_returns_what_there_is_and_ends_the_tree(bed: Bed) {
    bed.make_pipe("w");
    let run = bed.spawn("exec 3>w; echo begun; echo ready >&3; sleep 300");
    let (_, witness) = bed.witness("w").await.line().await;
    bed.cancelled.cancel();
    let outcome = run.await.unwrap().unwrap();
    assert_eq!((outcome.end, text(&outcome.stdout)), (ProcessEnd::Cancelled, "begun\n".into()));
    witness.end().await;
    bed.all_gone().await;
}

async fn a_child_in_a_session_of_its_own_ends_too(bed: Bed) {
    bed.make_pipe("w");
    let run = bed.spawn("exec 3>w; setsid sh -c 'echo ready >&3; exec sleep 300' & wait");
    let (_, witness) = bed.witness("w").await.line().await;
    bed.cancelled.cancel();
    assert_eq!(run.await.unwrap().unwrap().end, ProcessEnd::Cancelled);
    witness.end().await;
    bed.all_gone().await;
}

async fn an_orphan_of_an_orphan_ends_too(bed: Bed) {
    bed.make_pipe("w");
    let run = bed
        .spawn("exec 3>w; (setsid sh -c '(setsid sh -c \"echo ready >&3; exec sleep 300\" &)' &); sleep 300");
    let (_, witness) = bed.witness("w").await.line().await;
    bed.cancelled.cancel();
    run.await.unwrap().unwrap();
    witness.end().await;
    bed.all_gone().await;
}

async fn what_ignores_term_is_killed(bed: Bed) {
    bed.make_pipe("w");
    let run = bed.spawn(&format!("trap '' TERM; {HELD} while :; do sleep 300; done"));
    let (_, witness) = bed.witness("w").await.line().await;
    bed.cancelled.cancel();
    run.await.unwrap().unwrap();
    witness.end().await;
    bed.all_gone().await;
}

async fn what_is_stopped_ends_too(bed: Bed) {
    bed.make_pipe("w");
    let run = bed.spawn("exec 3>w; trap 'echo asked >&3; exit' TERM; echo ready >&3; kill -STOP $$");
    let (_, witness) = bed.witness("w").await.line().await;
    bed.cancelled.cancel();
    run.await.unwrap().unwrap();
    // It was asked before it was killed, although it was stopped.
    assert_eq!(witness.end().await, "asked\n");
}

async fn the_scope_is_free_after_a_cancel_whatever_holds_the_pipe(bed: Bed) {
    bed.make_pipe("w");
    let run = bed.spawn(&format!("{HELD} (trap '' TERM; setsid sleep 300) & wait"));
    let (_, witness) = bed.witness("w").await.line().await;
    bed.cancelled.cancel();
    run.await.unwrap().unwrap();
    bed.tasks.close();
    bed.tasks.wait().await;
    // The scope is empty only when the last process is gone: the other end of the pipe is closed already.
    assert_eq!(witness.end().await, "");
    bed.all_gone().await;
}

async fn a_cancelled_scope_runs_nothing(bed: Bed) {
    bed.cancelled.cancel();
    assert_eq!(bed.run("touch ran").await.end, ProcessEnd::Cancelled);
    bed.all_gone().await;
    assert!(!bed.path("ran").exists());
}

async fn dropping_the_run_ends_the_tree(bed: Bed) {
    bed.make_pipe("w");
    let run = bed.spawn(&format!("{HELD} sleep 300 & wait"));
    let (_, witness) = bed.witness("w").await.line().await;
    run.abort();
    witness.end().await;
    bed.all_gone().await;
}

async fn a_killed_helper_is_an_error_and_takes_its_program_along(bed: Bed) {
    bed.make_pipe("w");
    let run = bed.spawn("exec 3>w; echo $PPID >&3; sleep 300 & wait");
    let (helper, witness) = bed.witness("w").await.line().await;
    kill(&helper);
    let error = run.await.unwrap().unwrap_err();
    assert!(matches!(error, ExecError::Refused { .. }), "{error}");
    witness.end().await;
}

async fn a_killed_helper_takes_along_what_was_left_running(bed: Bed) {
    bed.make_pipe("w");
    let run = bed.spawn("exec 3>w; echo $PPID >&3; sleep 300 & exit");
    let (helper, witness) = bed.witness("w").await.line().await;
    assert_eq!(run.await.unwrap().unwrap().left_running.len(), 1);
    kill(&helper);
    witness.end().await;
}

async fn a_killed_server_takes_its_tree_along(bed: Bed) {
    bed.make_pipe("w");
    let mut server = server(&bed, "trap '' TERM; exec 3>$W; echo ready >&3; setsid sleep 300 & wait");
    let (_, witness) = bed.witness("w").await.line().await;
    server.kill().unwrap();
    server.wait().unwrap();
    bed.all_gone().await;
    // The lock is free only when the last process is gone.
    witness.has_ended();
}

async fn a_killed_server_takes_along_what_was_left_running(bed: Bed) {
    bed.make_pipe("w");
    let mut server = server(&bed, "exec 3>$W; echo ready >&3; setsid sleep 300 & echo hi");
    let (_, witness) = bed.witness("w").await.line().await;
    let mut answer = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "hi\n");
    server.kill().unwrap();
    server.wait().unwrap();
    witness.end().await;
    bed.all_gone().await;
}

async fn a_command_whose_server_is_gone_does_not_start(bed: Bed) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mark = bed.path("ran");
    ours.write_all(&order("touch", &[mark.to_str().unwrap()])).unwrap();
    drop(ours);
    let status = helper(&bed).stdin(Stdio::from(OwnedFd::from(theirs))).status().unwrap();
    assert!(status.success());
    assert!(!mark.exists());
}

async fn a_helper_hands_on_nothing_of_its_own_environment(bed: Bed) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&order("env", &[])).unwrap();
    let output =
        helper(&bed).env("OF_THE_HELPER", "x").stdin(Stdio::from(OwnedFd::from(theirs))).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "PATH=/bin:/usr/bin\n");
}

async fn a_helper_without_a_socket_does_nothing(bed: Bed) {
    assert_eq!(helper(&bed).stdin(Stdio::null()).status().unwrap().code(), Some(2));
}

/// A launch order as it goes over the socket.
fn order(program: &str, arguments: &[&str]) -> Vec<u8> {
    let environment = serde_json::json!({ "PATH": "/bin:/usr/bin" });
    let order = serde_json::json!({ "program": program, "arguments": arguments, "environment": environment });
    let body = serde_json::to_vec(&order).unwrap();
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    [length.as_slice(), &body].concat()
}

fn helper(bed: &Bed) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("__child").arg(bed.path("children.lock"));
    command
}

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
}

fn server(bed: &Bed, command: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .arg("__server")
        .arg(bed.path("children.lock"))
        .arg(format!("W={}; {command}", bed.path("w").display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}
