//! Owns the tests of the tool `bash`, with a host that answers from a script.

use std::sync::Arc;

use gent_extension_api::{Decision, LeftRunning};

use super::*;
use crate::test_context::{ScriptedExec, ScriptedInteraction, TestContext};

struct Bed {
    exec: Arc<ScriptedExec>,
    interaction: Arc<ScriptedInteraction>,
}

impl Bed {
    fn answering(approved: bool, notes: Option<&str>) -> Self {
        let interaction = ScriptedInteraction::default();
        let decision = Decision { approved, notes: notes.map(Into::into), edited_content: None };
        interaction.answers.lock().unwrap().push_back(decision);
        Self { exec: Arc::default(), interaction: Arc::new(interaction) }
    }

    fn approving() -> Self {
        Self::answering(true, None)
    }

    fn with(self, outcome: Result<ProcessOutcome, ExecError>) -> Self {
        self.exec.outcomes.lock().unwrap().push_back(outcome);
        self
    }

    async fn call(&self, input: Value) -> Result<Value, ToolError> {
        let context = TestContext::at("/place")
            .home("/home/me")
            .exec(self.exec.clone())
            .interaction(self.interaction.clone());
        tool().run(context.tool(), input).await
    }

    fn requests(&self) -> Vec<SpawnRequest> {
        self.exec.started.lock().unwrap().clone()
    }
}

fn ended(end: ProcessEnd, stdout: &str, stderr: &str) -> Result<ProcessOutcome, ExecError> {
    let stream = |text: &str| CappedOutput { head: text.into(), omitted: 0, tail: Vec::new() };
    Ok(ProcessOutcome { end, stdout: stream(stdout), stderr: stream(stderr), left_running: Vec::new() })
}

#[tokio::test]
async fn a_command_runs_as_it_is_in_bash_and_its_exit_code_is_a_normal_result() {
    let bed = Bed::approving().with(ended(ProcessEnd::Exited(3), "out\n", "err\n"));
    let result = bed.call(json!({ "command": "cd x && make & git commit" })).await.unwrap();
    assert_eq!(result, json!({ "exitCode": 3, "stdout": "out\n", "stderr": "err\n" }));
    let requests = bed.requests();
    let request = requests.first().unwrap();
    assert_eq!((request.program.as_str(), request.purpose), ("bash", SpawnPurpose::Shell));
    assert_eq!(request.arguments, ["-c", "cd x && make & git commit"]);
    assert_eq!(request.cwd, PathBuf::from("/place"));
    assert_eq!(request.timeout, Some(Duration::from_secs(120)));
    assert_eq!(request.keep_bytes, 1024 * 1024);
}

#[tokio::test]
async fn leave_is_asked_for_before_anything_runs() {
    let bed = Bed::approving().with(ended(ProcessEnd::Exited(0), "", ""));
    bed.call(json!({ "command": "rm -rf target", "cwd": "sub" })).await.unwrap();
    let asked = bed.interaction.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    let facts = asked[0].metadata.as_ref().unwrap();
    let fact = |name: &str| facts[name].as_str().unwrap().to_owned();
    assert_eq!((fact("type"), fact("class")), ("bash-guardrail".to_owned(), "destructive".to_owned()));
    assert_eq!((fact("command"), fact("cwd")), ("rm -rf target".to_owned(), "/place/sub".to_owned()));
    assert!(fact("reason").contains("rm") && asked[0].text.contains("rm -rf target"));
}

#[tokio::test]
async fn a_safe_command_runs_without_a_question() {
    let bed = Bed::approving().with(ended(ProcessEnd::Exited(0), "", ""));
    bed.call(json!({ "command": "cargo test | tail -n 5" })).await.unwrap();
    assert!(bed.interaction.asked.lock().unwrap().is_empty());
    assert_eq!(bed.requests().len(), 1);
}

#[tokio::test]
async fn a_declined_command_does_not_run_and_the_model_learns_why() {
    let bed = Bed::answering(false, Some("not on a Friday"));
    let result = bed.call(json!({ "command": "git push origin main" })).await.unwrap();
    assert_eq!((&result["exitCode"], &result["status"]), (&json!(1), &json!("blocked")));
    let said = result["stderr"].as_str().unwrap();
    assert!(
        said.starts_with("The command was blocked and did not run (") && said.contains("git push"),
        "{said}"
    );
    assert!(said.ends_with("): not on a Friday"), "{said}");
    assert!(bed.requests().is_empty());
}

#[tokio::test]
async fn time_that_is_up_keeps_the_output_and_says_what_to_do() {
    let bed = Bed::approving().with(ended(ProcessEnd::TimedOut, "so far\n", ""));
    let result = bed.call(json!({ "command": "make", "timeout": 5 })).await.unwrap();
    assert_eq!((&result["status"], &result["exitCode"]), (&json!("timedOut"), &json!(124)));
    assert_eq!(result["stdout"], "so far\n");
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("after 5 ms") && message.contains("600000"), "{message}");
}

#[tokio::test]
async fn a_stopped_command_returns_what_there_is() {
    let bed = Bed::approving().with(ended(ProcessEnd::Cancelled, "so far\n", ""));
    let result = bed.call(json!({ "command": "make" })).await.unwrap();
    assert_eq!((&result["status"], &result["stdout"]), (&json!("interrupted"), &json!("so far\n")));
}

#[tokio::test]
async fn a_signal_is_named_and_counts_as_a_shell_counts_it() {
    let bed = Bed::approving().with(ended(ProcessEnd::Signalled(11), "", ""));
    let result = bed.call(json!({ "command": "crash" })).await.unwrap();
    assert_eq!(result["exitCode"], 139);
    assert!(result["message"].as_str().unwrap().contains("signal 11"));
}

#[tokio::test]
async fn what_was_left_running_is_named() {
    let mut outcome = ended(ProcessEnd::Exited(0), "hi\n", "").unwrap();
    outcome.left_running = vec![LeftRunning { pid: 77, name: "sleep".into() }];
    let bed = Bed::approving().with(Ok(outcome));
    let result = bed.call(json!({ "command": "sleep 600 & echo hi" })).await.unwrap();
    assert_eq!(result["leftRunning"], json!([{ "pid": 77, "name": "sleep" }]));
    assert!(result["message"].as_str().unwrap().contains("leftRunning"));
}

#[tokio::test]
async fn long_output_says_how_to_narrow() {
    let mut outcome = ended(ProcessEnd::Exited(0), "head", "").unwrap();
    (outcome.stdout.omitted, outcome.stdout.tail) = (5_000_000, "tail".into());
    let bed = Bed::approving().with(Ok(outcome));
    let result = bed.call(json!({ "command": "yes" })).await.unwrap();
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("5000000 bytes") && message.contains("grep"), "{message}");
    assert_eq!(result["stdout"], "head\n[… 5000000 bytes left out …]\ntail");

    let bed = Bed::approving().with(ended(ProcessEnd::Exited(0), &"x".repeat(8_001), ""));
    let result = bed.call(json!({ "command": "many" })).await.unwrap();
    assert!(result["message"].as_str().unwrap().contains("not shown whole"));
}

#[tokio::test]
async fn a_machine_without_bash_runs_it_in_sh_and_says_so() {
    let missing = || Err(ExecError::NotFound { program: "bash".into() });
    let bed = Bed::approving().with(missing()).with(ended(ProcessEnd::Exited(0), "hi\n", ""));
    let result = bed.call(json!({ "command": "echo hi" })).await.unwrap();
    assert_eq!(result["stdout"], "hi\n");
    assert!(result["message"].as_str().unwrap().contains("in sh"));
    let programs: Vec<String> = bed.requests().into_iter().map(|request| request.program).collect();
    assert_eq!(programs, ["bash", "sh"]);
}

#[tokio::test]
async fn a_command_that_cannot_start_is_told_in_one_sentence() {
    let bed = Bed::approving().with(Err(ExecError::NoDirectory { cwd: "/nowhere".into() }));
    let error = bed.call(json!({ "command": "ls", "cwd": "/nowhere" })).await.unwrap_err();
    assert_eq!(error, ToolError::TellModel("the command did not run: no such directory: /nowhere".into()));
}

#[tokio::test]
async fn the_directory_is_absolute_relative_or_under_the_home() {
    for (cwd, expected) in [
        ("/else", "/else"),
        ("sub/dir", "/place/sub/dir"),
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("~x", "/place/~x"),
        ("", "/place"),
    ] {
        let bed = Bed::approving().with(ended(ProcessEnd::Exited(0), "", ""));
        bed.call(json!({ "command": "ls", "cwd": cwd })).await.unwrap();
        assert_eq!(bed.requests()[0].cwd, PathBuf::from(expected), "{cwd}");
    }
}

#[tokio::test]
async fn a_time_beyond_the_limit_is_cut_to_it_and_none_at_all_is_refused() {
    let bed = Bed::approving().with(ended(ProcessEnd::Exited(0), "", ""));
    bed.call(json!({ "command": "ls", "timeout": 9_999_999 })).await.unwrap();
    assert_eq!(bed.requests()[0].timeout, Some(Duration::from_secs(600)));
    for input in [json!({ "command": "ls", "timeout": 0 }), json!({ "command": " \n" })] {
        assert!(matches!(Bed::approving().call(input).await, Err(ToolError::TellModel(_))));
    }
}

#[test]
fn the_summary_tells_exit_and_lines() {
    let summary = |output: Value| tool().summary(&json!({ "command": "x" }), &output).unwrap();
    let output = |exit_code: i32, status: Option<&str>, stdout: &str| json!({ "exitCode": exit_code, "status": status, "stdout": stdout, "stderr": "e\n" });
    assert_eq!(summary(output(2, None, "a\nb")), "exit 2 · 3 lines");
    assert_eq!(summary(output(0, None, "")), "exit 0 · 1 line");
    assert_eq!(summary(output(1, Some("blocked"), "")), "blocked");
    assert_eq!(summary(output(124, Some("timedOut"), "a")), "timed out · 2 lines");
    assert_eq!(summary(output(130, Some("interrupted"), "a")), "stopped · 2 lines");
}
