//! Owns the tests of what a process sees: its environment, its input, its terminal, its open files.

use std::collections::BTreeSet;

use gent_extension_api::{Exec, ProcessEnd};

use crate::bed::{Bed, text};
use crate::cases;

cases![
    the_environment_is_that_of_the_policy_and_nothing_of_the_server,
    an_explicit_variable_reaches_exactly_its_process,
    a_test_can_mark_its_processes,
    the_helper_shows_no_environment,
    input_is_at_its_end_and_there_is_no_terminal,
    no_file_of_the_server_is_open_in_a_process,
    two_runs_cannot_reach_each_other_and_not_the_server,
];

async fn the_environment_is_that_of_the_policy_and_nothing_of_the_server(bed: Bed) {
    bed.secrets.add(["known-secret"]);
    let environment = [
        ("LANG", "C.UTF-8"),
        ("OPENAI_API_KEY", "sk-test-123"),
        ("SOME_THING", "x"),
        ("LC_ALL", "known-secret"),
    ];
    let exec = bed.exec_with(environment.map(|(name, value)| (name.into(), value.into())));
    let mut request = bed.shell("");
    (request.program, request.arguments) = ("env".into(), Vec::new());
    let shown = text(&exec.run(request).await.unwrap().stdout);
    let names: BTreeSet<&str> = shown.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let expected = [
        "GCM_INTERACTIVE",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
        "LANG",
        "PAGER",
        "PATH",
        "TERM",
    ];
    assert_eq!(names, BTreeSet::from(expected));
}

async fn an_explicit_variable_reaches_exactly_its_process(bed: Bed) {
    let mut request = bed.shell("echo $MY_TOKEN");
    request.environment.insert("MY_TOKEN".into(), Some("for this one".into()));
    assert_eq!(text(&bed.exec().run(request).await.unwrap().stdout), "for this one\n");
    assert_eq!(text(&bed.run("echo $MY_TOKEN").await.stdout), "\n");
}

async fn a_test_can_mark_its_processes(bed: Bed) {
    let exec = bed.exec_with([("GENT_TEST_MARK".into(), "here".into())]);
    let outcome = exec.run(bed.shell("echo $GENT_TEST_MARK")).await.unwrap();
    assert_eq!(text(&outcome.stdout), "here\n");
}

async fn the_helper_shows_no_environment(bed: Bed) {
    let outcome = bed.run("tr '\\0' '\\n' < /proc/$PPID/environ | wc -c").await;
    assert_eq!(text(&outcome.stdout).trim(), "0");
}

async fn input_is_at_its_end_and_there_is_no_terminal(bed: Bed) {
    assert_eq!(text(&bed.run("read x; echo got:$x").await.stdout), "got:\n");
    assert_eq!(bed.run(": < /dev/tty").await.end, ProcessEnd::Exited(1));
    // The sixth field of its row is its session: the helper's, which has no terminal and can get none.
    let outcome = bed.run("cut -d' ' -f6 /proc/$$/stat; echo $PPID").await;
    let shown = text(&outcome.stdout);
    let (session, helper) = shown.trim().split_once('\n').unwrap();
    assert_eq!(session, helper);
}

async fn no_file_of_the_server_is_open_in_a_process(bed: Bed) {
    let outcome = bed.run("exec ls /proc/self/fd").await;
    let shown = text(&outcome.stdout);
    let open: BTreeSet<&str> = shown.lines().collect();
    let handed_on = handed_on_by_whoever_started_us();
    let ours: Vec<&str> = open.into_iter().filter(|file| !handed_on.contains(*file)).collect();
    // The fourth is the listing's own.
    assert_eq!(ours, ["0", "1", "2", "3"]);
}

/// Files that were open when this program started, and that every program it starts gets.
fn handed_on_by_whoever_started_us() -> BTreeSet<String> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let files = std::fs::read_dir("/proc/self/fdinfo").unwrap().filter_map(|file| {
        let file = file.unwrap();
        let facts = std::fs::read_to_string(file.path()).ok()?;
        let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
        (flags & CLOSE_ON_EXEC == 0).then(|| file.file_name().into_string().unwrap())
    });
    files.filter(|file| !["0", "1", "2"].contains(&file.as_str())).collect()
}

async fn two_runs_cannot_reach_each_other_and_not_the_server(bed: Bed) {
    let outcome = bed.run("kill -TERM 0; echo not reached").await;
    assert_eq!(outcome.end, ProcessEnd::Signalled(15));
    assert_eq!(text(&bed.run("echo still here").await.stdout), "still here\n");
}
