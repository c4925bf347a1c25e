//! Owns the tests of what a run returns, and when.

use gent_extension_api::{Exec, ExecError, ProcessEnd};

use crate::bed::{Bed, text};
use crate::cases;

cases![
    output_and_exit_code_come_back,
    a_signal_is_told_from_an_exit,
    a_child_that_holds_the_pipe_does_not_hold_the_run,
    a_child_that_holds_no_pipe_is_named_all_the_same,
    what_a_short_child_still_writes_is_there,
    a_program_left_in_the_background_may_go_on_writing,
    a_tree_left_running_needs_nobody_once_it_ended_by_itself,
    much_output_keeps_head_and_tail_in_flat_memory,
    an_output_full_of_secrets_shows_no_half_of_one_at_the_cut,
    a_missing_program_and_a_missing_directory_are_told_apart,
    what_the_system_refuses_is_an_error_with_its_reason,
    many_runs_at_once_do_not_mix,
    it_runs_in_its_directory_even_one_with_an_odd_name,
];

async fn output_and_exit_code_come_back(bed: Bed) {
    let outcome = bed.run("echo out; echo err >&2; exit 3").await;
    assert_eq!(outcome.end, ProcessEnd::Exited(3));
    assert_eq!((text(&outcome.stdout), text(&outcome.stderr)), ("out\n".into(), "err\n".into()));
    assert_eq!(outcome.left_running, []);
    bed.all_gone().await;
}

async fn a_signal_is_told_from_an_exit(bed: Bed) {
    assert_eq!(bed.run("kill -SEGV $$").await.end, ProcessEnd::Signalled(11));
}

async fn a_child_that_holds_the_pipe_does_not_hold_the_run(bed: Bed) {
    let outcome = bed.run("sleep 600 & echo hi").await;
    assert_eq!((outcome.end, text(&outcome.stdout)), (ProcessEnd::Exited(0), "hi\n".into()));
    let names: Vec<&str> = outcome.left_running.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(names, ["sleep"]);
    assert_eq!(bed.host.n_trees_left(), 1);
    bed.host.close().await;
    bed.all_gone().await;
}

async fn a_child_that_holds_no_pipe_is_named_all_the_same(bed: Bed) {
    let outcome = bed.run("sleep 600 >/dev/null 2>&1 & echo $!").await;
    let pids: Vec<String> = outcome.left_running.iter().map(|left| left.pid.to_string()).collect();
    assert_eq!(pids, [text(&outcome.stdout).trim()]);
    bed.host.close().await;
}

async fn what_a_short_child_still_writes_is_there(bed: Bed) {
    // The shell does not wait for what reads in a process substitution.
    let outcome = bed.run("for i in 1 2 3; do echo $i; done > >(cat; echo end)").await;
    assert_eq!(text(&outcome.stdout), "1\n2\n3\nend\n");
    assert_eq!(outcome.left_running, []);
}

async fn a_program_left_in_the_background_may_go_on_writing(bed: Bed) {
    bed.make_pipe("go");
    bed.make_pipe("done");
    let outcome = bed.run("(read x < go; seq 100000; echo $? > done) & echo hi").await;
    assert_eq!(text(&outcome.stdout), "hi\n");
    bed.go("go").await;
    let (line, done) = bed.witness("done").await.line().await;
    assert_eq!(line, "0");
    done.end().await;
}

async fn a_tree_left_running_needs_nobody_once_it_ended_by_itself(bed: Bed) {
    bed.make_pipe("go");
    bed.run("(read x < go) & echo hi").await;
    bed.go("go").await;
    bed.all_gone().await;
}

async fn much_output_keeps_head_and_tail_in_flat_memory(bed: Bed) {
    const MIB: u64 = 1024 * 1024;
    let mut request = bed.shell("printf begin; head -c 256M /dev/zero; printf end");
    request.keep_bytes = 1024 * 1024;
    let before = peak_memory_kib();
    let outcome = bed.exec().run(request).await.unwrap();
    let kept = (outcome.stdout.head.len() as u64, outcome.stdout.tail.len() as u64);
    assert_eq!((kept, outcome.stdout.omitted), ((MIB, MIB), 254 * MIB + 8));
    assert!(outcome.stdout.head.starts_with(b"begin\0") && outcome.stdout.tail.ends_with(b"\0end"));
    let grown = peak_memory_kib() - before;
    // Other cases run beside it; what counts is that it is far from 256 MiB.
    assert!(grown < 64 * 1024, "{grown} KiB for 256 MiB of output");
}

fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn an_output_full_of_secrets_shows_no_half_of_one_at_the_cut(bed: Bed) {
    use gent_extension_api::Redactor as _;
    bed.secrets.add(["wx-secret-yz"]);
    let mut request = bed.shell("for i in {1..1000}; do printf wx-secret-yz; done");
    request.keep_bytes = 1003;
    let outcome = bed.exec().run(request).await.unwrap();
    let shown = bed.secrets.redact(&text(&outcome.stdout)).replace("[REDACTED]", "");
    assert_eq!(shown, format!("\n[… {} bytes left out …]\n", outcome.stdout.omitted));
}

async fn a_missing_program_and_a_missing_directory_are_told_apart(bed: Bed) {
    let mut request = bed.shell("");
    request.program = "no-such-program".into();
    let error = bed.exec().run(request).await.unwrap_err();
    assert!(matches!(&error, ExecError::NotFound { program } if program == "no-such-program"), "{error}");
    let mut request = bed.shell("");
    request.cwd = bed.path("nowhere");
    let error = bed.exec().run(request).await.unwrap_err();
    assert!(matches!(&error, ExecError::NoDirectory { cwd } if *cwd == bed.path("nowhere")), "{error}");
    bed.all_gone().await;
}

async fn what_the_system_refuses_is_an_error_with_its_reason(bed: Bed) {
    let too_long = format!(": {}", "x".repeat(4 * 1024 * 1024));
    for command in [too_long.as_str(), "echo \0"] {
        let error = bed.exec().run(bed.shell(command)).await.unwrap_err();
        assert!(matches!(&error, ExecError::Refused { reason } if !reason.is_empty()), "{error}");
    }
    bed.all_gone().await;
}

async fn many_runs_at_once_do_not_mix(bed: Bed) {
    let runs: Vec<_> = (0..20).map(|number| bed.spawn(&format!("echo {number}"))).collect();
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(text(&run.await.unwrap().unwrap().stdout), format!("{number}\n"));
    }
    bed.all_gone().await;
}

async fn it_runs_in_its_directory_even_one_with_an_odd_name(bed: Bed) {
    use std::os::unix::ffi::OsStrExt as _;
    let mut request = bed.shell("echo here > mark");
    request.cwd = bed.directory.path().join(std::ffi::OsStr::from_bytes(b"odd \xff name"));
    std::fs::create_dir(&request.cwd).unwrap();
    let mark = request.cwd.join("mark");
    bed.exec().run(request).await.unwrap();
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "here\n");
}
