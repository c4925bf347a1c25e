//! Owns the tool `bash`: one command in a shell, in the foreground; one that is not safe after somebody allowed it.
//! Never changes the command, and never takes a non-zero exit for a failure of its own. Tested below; what
//! happens to the processes is tested where the host starts them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gent_extension_api::{
    ApprovalRequest, CappedOutput, ExecError, ProcessEnd, ProcessOutcome, SpawnPurpose, SpawnRequest, Tool,
    ToolContext, ToolDeclaration, ToolError, tool_fn,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::guardrail::{Class, Judgement, classify};

/// Time a command has when the model names none: a test run of a middle-sized project fits.
const TIMEOUT_DEFAULT_MS: u64 = 120_000;

/// Longest time the model can give.
const TIMEOUT_MAX_MS: u64 = 600_000;

/// Bytes kept from the head of each stream, and as many from its tail.
const KEEP_BYTES: usize = 1024 * 1024;

/// Characters of a tool result that a model is shown; output beyond it is worth a hint.
const SHOWN_CHARS: usize = 8_000;

/// The exit code that stands for "its time was up", as of the `timeout` command.
const EXIT_TIMED_OUT: i32 = 124;

/// The exit code that stands for "stopped by the user", as of a shell after Ctrl-C.
const EXIT_INTERRUPTED: i32 = 130;

#[derive(Debug, Deserialize, JsonSchema)]
struct BashInput {
    /// The command, run by `bash -c`. It has no terminal and no input.
    command: String,
    /// Milliseconds after which it is stopped. Default 120000, at most 600000.
    timeout: Option<u64>,
    /// Where it runs: absolute, from the working directory, or from the home with `~`. Default: the working
    /// directory.
    cwd: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BashOutput {
    exit_code: i32,
    /// Absent when the command ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    /// What the model should know besides the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    stdout: String,
    stderr: String,
    /// Processes that outlived the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_running: Vec<StillRunning>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Status {
    /// Nobody allowed it: it did not run.
    Blocked,
    /// Its time was up.
    TimedOut,
    /// The call was stopped.
    Interrupted,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StillRunning {
    pid: u32,
    name: String,
}

/// The tool.
pub(super) fn tool() -> Arc<dyn Tool> {
    let declaration = ToolDeclaration {
        name: "bash".into(),
        description: "Runs a command with `bash -c` and returns what it wrote and its exit code. There is no \
                      terminal and no input: what would ask a question fails instead. It returns when the shell \
                      exits; processes left in the background are named and end with the server."
            .into(),
        parameters: Value::Null,
        readonly: false,
        destructive: true,
        interactive: false,
        prompt_snippet: Some("Run a shell command".into()),
        prompt_guidelines: vec![
            "Use `bash` for git, package managers, builds, tests and other programs.".into(),
            "Use `read`, `grep`, `edit` and `write` for files, not `cat`, `grep`, `sed` or redirection in `bash`."
                .into(),
            "Keep output small: ask programs for less, or pipe through `head`, `tail` or `grep`.".into(),
        ],
    };
    tool_fn(declaration, Some(summarize), run)
}

fn summarize(_input: &BashInput, output: &BashOutput) -> String {
    let n_lines = output.stdout.lines().count() + output.stderr.lines().count();
    let lines = if n_lines == 1 { "line" } else { "lines" };
    match output.status {
        Some(Status::Blocked) => "blocked".into(),
        Some(Status::TimedOut) => format!("timed out · {n_lines} {lines}"),
        Some(Status::Interrupted) => format!("stopped · {n_lines} {lines}"),
        None => format!("exit {} · {n_lines} {lines}", output.exit_code),
    }
}

async fn run(context: ToolContext, input: BashInput) -> Result<BashOutput, ToolError> {
    let timeout_ms = input.timeout.unwrap_or(TIMEOUT_DEFAULT_MS).min(TIMEOUT_MAX_MS);
    if timeout_ms == 0 || input.command.trim().is_empty() {
        return Err(ToolError::TellModel(
            "bash needs a command that is not empty, and a timeout above 0 if any".into(),
        ));
    }
    let cwd = resolve_cwd(&context, input.cwd.as_deref());
    if let Some(question) = question(&input.command, &cwd).await? {
        let reason = question.1;
        let decision = context
            .interaction()
            .approve(question.0)
            .await
            .map_err(|error| ToolError::TellModel(format!("the command did not run: {error}")))?;
        if !decision.approved {
            return Ok(blocked(&reason, decision.notes));
        }
    }
    let mut request = SpawnRequest {
        purpose: SpawnPurpose::Shell,
        program: "bash".into(),
        arguments: vec!["-c".into(), input.command],
        cwd,
        environment: BTreeMap::new(),
        timeout: Some(Duration::from_millis(timeout_ms)),
        keep_bytes: KEEP_BYTES,
    };
    let mut messages = Vec::new();
    let outcome = match context.exec().run(request.clone()).await {
        Err(ExecError::NotFound { .. }) => {
            // Most commands mean the same in any shell; one that does not says so by its error.
            messages.push("There is no bash on this machine: the command ran in sh.".to_owned());
            request.program = "sh".into();
            context.exec().run(request).await
        }
        outcome => outcome,
    };
    let outcome =
        outcome.map_err(|error| ToolError::TellModel(format!("the command did not run: {error}")))?;
    Ok(output_of(outcome, timeout_ms, messages))
}

/// The question that a command needs before it may run, with why; none for a safe one. The whole command stands in the
/// question, so an answer holds for no other one.
async fn question(command: &str, cwd: &Path) -> Result<Option<(ApprovalRequest, String)>, ToolError> {
    let text = command.to_owned();
    // Reading a long command takes a while, and other calls share this thread.
    let judged = tokio::task::spawn_blocking(move || classify(&text)).await;
    let Judgement { class, reason } = judged.map_err(|_broke| {
        ToolError::TellModel("the command could not be judged, so it did not run".into())
    })?;
    if class == Class::Safe {
        return Ok(None);
    }
    let request = ApprovalRequest {
        text: format!("Run this command in {}?\n{command}\n({reason})", cwd.display()),
        metadata: Some(json!({
            "type": "bash-guardrail",
            "class": class.as_str(),
            "reason": reason,
            "command": command,
            "cwd": cwd.to_string_lossy(),
        })),
    };
    Ok(Some((request, reason)))
}

fn resolve_cwd(context: &ToolContext, cwd: Option<&str>) -> PathBuf {
    let Some(cwd) = cwd.filter(|cwd| !cwd.is_empty()) else { return context.cwd().to_path_buf() };
    match (cwd.strip_prefix('~'), context.home()) {
        (Some(""), Some(home)) => home.to_path_buf(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => context.cwd().join(cwd),
    }
}

fn blocked(reason: &str, notes: Option<String>) -> BashOutput {
    let said = notes.filter(|notes| !notes.trim().is_empty()).unwrap_or_else(|| "it was declined".into());
    BashOutput {
        exit_code: 1,
        status: Some(Status::Blocked),
        message: None,
        stdout: String::new(),
        stderr: format!("The command was blocked and did not run ({reason}): {said}"),
        left_running: Vec::new(),
    }
}

fn output_of(outcome: ProcessOutcome, timeout_ms: u64, mut messages: Vec<String>) -> BashOutput {
    let (exit_code, status) = match outcome.end {
        ProcessEnd::Exited(code) => (code, None),
        ProcessEnd::Signalled(signal) => {
            messages.push(format!("The command was ended by signal {signal}."));
            (128 + signal, None)
        }
        ProcessEnd::TimedOut => {
            messages.push(format!(
                "The command was stopped after {timeout_ms} ms; this is what it wrote until then. Give it a longer \
                 timeout (at most {TIMEOUT_MAX_MS} ms) or less to do."
            ));
            (EXIT_TIMED_OUT, Some(Status::TimedOut))
        }
        ProcessEnd::Cancelled => {
            messages.push("The command was stopped; this is what it wrote until then.".into());
            (EXIT_INTERRUPTED, Some(Status::Interrupted))
        }
    };
    messages.extend(narrowing(&outcome.stdout, &outcome.stderr));
    let left_running: Vec<StillRunning> = outcome
        .left_running
        .into_iter()
        .map(|left| StillRunning { pid: left.pid, name: left.name })
        .collect();
    if !left_running.is_empty() {
        messages.push("What is listed under leftRunning still runs, and ends with the server.".into());
    }
    BashOutput {
        exit_code,
        status,
        message: (!messages.is_empty()).then(|| messages.join(" ")),
        stdout: outcome.stdout.to_text(),
        stderr: outcome.stderr.to_text(),
        left_running,
    }
}

/// How to see less, when there is more than is shown.
fn narrowing(stdout: &CappedOutput, stderr: &CappedOutput) -> Option<String> {
    let omitted = stdout.omitted.saturating_add(stderr.omitted);
    let n_kept = [stdout, stderr].map(|stream| stream.head.len() + stream.tail.len()).iter().sum::<usize>();
    if omitted == 0 && n_kept <= SHOWN_CHARS {
        return None;
    }
    let dropped = if omitted == 0 { String::new() } else { format!(" {omitted} bytes of it were not kept.") };
    Some(format!(
        "The output is long and not shown whole.{dropped} To see a part, run the command again through head, tail \
         or grep, or send its output to a file and look with read or grep."
    ))
}

#[cfg(test)]
mod tests;
