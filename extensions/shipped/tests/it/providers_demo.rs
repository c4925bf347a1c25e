//! Owns the tests of the demo: the driver alone, with its tools played by the test, in real directories.

use std::path::Path;
use std::sync::Arc;

use gent_extension_api::protocol::{Part, Role};
use gent_extension_api::{Access, FinishReason, HostMessage, LanguageModel, StreamPart, ToolChoice};
use gent_extensions::{DEMO_PROMPT, REPORT_FILE, is_demo_command};
use serde_json::{Value, json};

use crate::providers::{collect, driver, joined};
use crate::test_messages::{call, message, outcome, request, tool, user};

/// What a run of the demo left behind.
struct Run {
    answer: String,
    tools: Vec<String>,
}

fn shell(directory: &Path, command: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "the test plays the shell tool")]
    let output = std::process::Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Lines as `read` shows them.
fn numbered(content: &str) -> String {
    let lines = content.lines().enumerate().map(|(at, line)| format!("{:>5}\t{line}", at + 1));
    lines.collect::<Vec<_>>().join("\n")
}

/// Plays the tools, as far as the demo uses them.
fn play(directory: &Path, name: &str, params: &Value) -> Result<Value, String> {
    let text = |field: &str| params[field].as_str().unwrap().to_owned();
    match name {
        "bash" => {
            assert!(is_demo_command(&text("command")), "{params}");
            let stdout = shell(directory, &text("command"));
            assert!(stdout.len() < 4_000, "the listing stays far below the bound of results");
            Ok(json!({"stdout": stdout, "stderr": "", "exitCode": 0}))
        }
        "grep" => {
            let place = params["path"].as_str().unwrap_or(".");
            let pattern = text("pattern").replace("\\w", "[a-z]");
            let found =
                shell(directory, &format!("grep -HrnE --exclude-dir=.git '{pattern}' '{place}' || true"));
            let matches = found.lines().take(5).map(|line| {
                let mut fields = line.splitn(3, ':');
                let mut next = || fields.next().unwrap().to_owned();
                json!({"file": next(), "line": next().parse::<u64>().unwrap(), "content": next()})
            });
            Ok(json!({"matches": matches.collect::<Vec<_>>(), "truncated": false}))
        }
        "read" => std::fs::read_to_string(directory.join(text("path")))
            .map(|content| json!({"content": numbered(&content), "path": text("path")}))
            .map_err(|error| error.to_string()),
        "write" => std::fs::write(directory.join(text("path")), text("content"))
            .map(|()| json!({"path": text("path"), "bytesWritten": 1}))
            .map_err(|error| error.to_string()),
        other => panic!("the demo asked for {other}"),
    }
}

async fn demo_model() -> Arc<dyn LanguageModel> {
    driver("demo").resolve("demo", &Access::default()).await.unwrap()
}

/// Runs the demo to its end; `refuse` names a tool that fails.
async fn run(directory: &Path, task: &str, refuse: &str) -> Run {
    let mut messages: Vec<HostMessage> = vec![user(task)];
    let mut tools = Vec::new();
    for step in 0..10 {
        let mut request = request(messages.clone());
        request.tools = Arc::from(["bash", "grep", "read", "write"].map(tool));
        let (parts, failure) = collect(demo_model().await.stream(&request).await.unwrap()).await;
        assert_eq!(failure, None);
        let said = joined(&parts);
        let Some(StreamPart::Text { text }) = said.first() else { panic!("no words: {said:?}") };
        let Some(StreamPart::ToolCall(asked)) = said.get(1) else {
            assert_eq!(said.last(), Some(&StreamPart::Finish { reason: FinishReason::Stop }));
            assert!(parts.len() > 20, "the answer is streamed in small pieces");
            return Run { answer: text.clone(), tools };
        };
        assert_eq!(said.last(), Some(&StreamPart::Finish { reason: FinishReason::ToolCalls }));
        tools.push(asked.name.clone());
        let played = if asked.name == refuse {
            Err("blocked".to_owned())
        } else {
            play(directory, &asked.name, &asked.params)
        };
        let id = format!("c{step}");
        messages.push(message(
            Role::Assistant,
            vec![Part::text(text.clone()), call(&id, &asked.name, asked.params.clone())],
        ));
        let result = match played {
            Ok(result) => outcome(&id, &asked.name, false, result),
            Err(error) => outcome(&id, &asked.name, true, json!({ "error": error })),
        };
        messages.push(message(Role::Tool, vec![result]));
    }
    panic!("the demo does not end: {tools:?}");
}

fn repository() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("src")).unwrap();
    std::fs::write(directory.path().join("README.md"), "\n# Näme of it\n\nText.\n").unwrap();
    std::fs::write(directory.path().join("src/main of.rs"), "fn main() {}\n").unwrap();
    std::fs::write(directory.path().join("untracked.py"), "x = 1\n").unwrap();
    shell(directory.path(), "git init -q . && git add README.md src");
    directory
}

fn report(directory: &Path) -> String {
    std::fs::read_to_string(directory.join(REPORT_FILE)).unwrap()
}

#[tokio::test]
async fn in_a_repository_the_report_is_true_and_says_what_it_is() {
    let directory = repository();
    let run = run(directory.path(), DEMO_PROMPT, "").await;
    assert_eq!(run.tools, ["bash", "grep", "read", "write"]);
    let report = report(directory.path());
    assert!(report.starts_with("# gent demo report\n"), "{report}");
    for text in [&run.answer, &report] {
        for fact in [
            "fixed rules, not by a language model",
            "Git tracks 2 files here.",
            "- README.md, 22 bytes",
            "- src/main of.rs, 13 bytes",
            "Rust (1 file)",
            "src/main of.rs:1:",
            "fn main() {}",
            "README.md begins with: # Näme of it\n",
        ] {
            assert!(text.contains(fact), "{fact} is not in:\n{text}");
        }
        assert!(!text.contains("untracked.py"));
    }
    assert!(
        run.answer.contains("delete it when you are done;\n- set ANTHROPIC_API_KEY")
            && run.answer.contains(&format!("written down in {REPORT_FILE}"))
    );
}

#[tokio::test]
async fn a_second_demo_replaces_its_own_report_and_mentions_its_task() {
    let directory = repository();
    run(directory.path(), DEMO_PROMPT, "").await;
    let again = run(directory.path(), "Explain the tests", "").await;
    assert_eq!(again.tools.last().unwrap(), "write");
    assert!(
        again.answer.contains("Your task, \"Explain the tests\", needs a real model"),
        "{}",
        again.answer
    );
}

#[tokio::test]
async fn a_file_of_somebody_else_is_left_as_it_is() {
    for content in ["my notes\n", ""] {
        let directory = repository();
        std::fs::write(directory.path().join(REPORT_FILE), content).unwrap();
        let run = run(directory.path(), DEMO_PROMPT, "").await;
        assert_eq!(run.tools, ["bash", "grep", "read"]);
        assert_eq!(report(directory.path()), content);
        assert!(run.answer.contains("somebody else's file"), "{}", run.answer);
        assert!(!run.answer.contains("delete it"), "{}", run.answer);
    }
}

#[tokio::test]
async fn a_file_of_somebody_else_is_counted_and_searched_like_any_other() {
    for (with_git, sentence) in [
        (false, "This directory holds 1 file, and git does not track it."),
        (true, "Git tracks no file here yet; 1 file could be added."),
    ] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(REPORT_FILE), "my notes\n").unwrap();
        if with_git {
            shell(directory.path(), "git init -q .");
        }
        let answer = run(directory.path(), DEMO_PROMPT, "").await.answer;
        let found = format!("A search found {REPORT_FILE}:1:\n    my notes");
        assert!(answer.contains(sentence) && answer.contains(&found), "{answer}");
        assert!(!answer.contains("Explain gent-demo-report.md"), "{answer}");
    }
}

#[tokio::test]
async fn a_repository_that_git_refuses_to_read_is_told_of() {
    let directory = repository();
    shell(directory.path(), "git config core.repositoryformatversion 99");
    let answer = run(directory.path(), DEMO_PROMPT, "").await.answer;
    assert!(answer.contains("holds 3 files; git refuses to read its repository"), "{answer}");
}

#[tokio::test]
async fn a_search_that_found_nothing_is_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("numbers.txt"), "1 2 3\n").unwrap();
    let run = run(directory.path(), DEMO_PROMPT, "").await;
    assert_eq!(run.tools, ["bash", "grep", "read", "write"]);
    assert!(run.answer.contains("numbers.txt begins with: 1 2 3\n"), "{}", run.answer);
}

#[tokio::test]
async fn without_git_the_files_are_counted_and_the_report_is_not_one_of_them() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("notes.txt"), "Some words\n").unwrap();
    for _ in 0..2 {
        let run = run(directory.path(), DEMO_PROMPT, "").await;
        assert!(
            run.answer.contains("This directory holds 1 file, and git does not track it."),
            "{}",
            run.answer
        );
        assert!(
            run.answer.contains("notes.txt:1:") && run.answer.contains("- notes.txt, 11 bytes"),
            "{}",
            run.answer
        );
    }
}

#[tokio::test]
async fn in_a_repository_without_a_tracked_file_the_untracked_ones_are_told_of() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.py"), "def f():\n").unwrap();
    shell(directory.path(), "git init -q .");
    for _ in 0..2 {
        let run = run(directory.path(), DEMO_PROMPT, "").await;
        assert!(run.answer.contains("Git tracks no file here yet; 1 file could be added."), "{}", run.answer);
        assert!(run.answer.contains("a.py:1:"), "{}", run.answer);
    }
}

#[tokio::test]
async fn an_empty_directory_gets_a_sensible_answer() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(directory.path(), DEMO_PROMPT, "").await;
    assert_eq!(run.tools, ["bash", "write"]);
    assert!(run.answer.contains("This directory has no files yet"), "{}", run.answer);
    assert!(run.answer.contains("What to try next"));
}

#[tokio::test]
async fn where_nothing_can_be_written_the_answer_says_so() {
    let directory = repository();
    let run = run(directory.path(), DEMO_PROMPT, "write").await;
    assert!(run.answer.contains("could not be written: blocked."), "{}", run.answer);
    assert!(!run.answer.contains("delete it"), "{}", run.answer);
    assert!(run.answer.contains("Git tracks 2 files here."));
}

#[tokio::test]
async fn without_a_shell_nothing_is_claimed_and_nothing_is_written() {
    let directory = repository();
    let run = run(directory.path(), DEMO_PROMPT, "bash").await;
    assert_eq!(run.tools, ["bash", "grep"]);
    assert!(run.answer.contains("could not be listed: blocked."), "{}", run.answer);
    assert!(!directory.path().join(REPORT_FILE).exists());
}

#[tokio::test]
async fn without_tools_the_demo_answers_at_once() {
    let mut request = request(vec![user(DEMO_PROMPT)]);
    request.tool_choice = ToolChoice::None;
    let (parts, _) = collect(demo_model().await.stream(&request).await.unwrap()).await;
    assert_eq!(parts.last(), Some(&StreamPart::Finish { reason: FinishReason::Stop }));
    assert_eq!(driver("demo").default_model(&Access::default()).await, Ok(None));
    assert_eq!(driver("demo").list_models(&Access::default()).await.unwrap()[0].id.as_str(), "demo/demo");
}
