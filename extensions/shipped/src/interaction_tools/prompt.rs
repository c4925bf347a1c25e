//! Owns the tool `prompt`: a text for a person to see, to confirm or to review.
//! Never waits where a text is only shown: it reaches the user as the call's own input. Tested in `tests/prompt.rs`.

use std::path::Path;
use std::sync::Arc;

use gent_extension_api::{ApprovalRequest, Tool, ToolContext, ToolDeclaration, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::review_file::ReviewFile;
use super::{ask, words};

#[derive(Debug, Deserialize, JsonSchema)]
struct PromptInput {
    /// `present` shows the text and does not wait; `confirm` asks for yes or no; `review` lets the user change it first.
    mode: Mode,
    /// The text, in Markdown.
    content: String,
    /// A heading for it.
    title: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Mode {
    Present,
    Confirm,
    Review,
}

#[derive(Debug, Serialize, Deserialize)]
struct PromptOutput {
    mode: Mode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decision: Option<Word>,
    /// Where a reviewed text is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// What the user made of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// What was said with the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Shown,
}

/// What the user decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Yes,
    No,
    Edit,
}

/// The tool.
pub(super) fn tool() -> Arc<dyn Tool> {
    let declaration = ToolDeclaration {
        name: "prompt".into(),
        description: "Shows the user a text. `present` shows it and goes on at once; `confirm` waits for a yes or no; \
                      `review` writes it to a file and waits for a yes, a no or an edited text. After an edit \
                      `content` and the file at `path` hold the user's version: work with that one."
            .into(),
        parameters: Value::Null,
        readonly: false,
        destructive: false,
        interactive: true,
        prompt_snippet: Some("Show the user a text, to see, confirm or review".into()),
        prompt_guidelines: vec![
            "Use `prompt` with `review` for a plan or text that the user should agree to before you act on it, and with \
             `confirm` for a plain yes or no."
                .into(),
        ],
    };
    tool_fn(declaration, Some(summarize), run)
}

fn summarize(input: &PromptInput, output: &PromptOutput) -> String {
    let outcome = match output.decision {
        None => "shown",
        Some(Word::Yes) => "yes",
        Some(Word::No) => "no",
        Some(Word::Edit) => "edited",
    };
    match title(input) {
        Some(title) => format!("{outcome} · {title}"),
        None => outcome.to_owned(),
    }
}

/// The title, where there is one to show.
fn title(input: &PromptInput) -> Option<&str> {
    input.title.as_deref().map(str::trim).filter(|title| !title.is_empty())
}

async fn run(context: ToolContext, input: PromptInput) -> Result<PromptOutput, ToolError> {
    if input.content.trim().is_empty() {
        return Err(ToolError::TellModel("prompt needs a content that is not empty".into()));
    }
    match input.mode {
        Mode::Present => Ok(PromptOutput { status: Some(Status::Shown), ..output(Mode::Present) }),
        Mode::Confirm => confirm(context, input).await,
        Mode::Review => review(context, input).await,
    }
}

async fn confirm(context: ToolContext, input: PromptInput) -> Result<PromptOutput, ToolError> {
    let text = match title(&input) {
        Some(title) => format!("{title}\n\n{}", input.content),
        None => input.content.clone(),
    };
    let decision = ask(&context, ApprovalRequest { text, metadata: Some(facts(&input, None)) }).await?;
    let word = if decision.approved { Word::Yes } else { Word::No };
    Ok(PromptOutput { decision: Some(word), notes: words(decision.notes), ..output(Mode::Confirm) })
}

async fn review(context: ToolContext, input: PromptInput) -> Result<PromptOutput, ToolError> {
    let file = ReviewFile::of(&context, title(&input), &input.content);
    // Before the ask, so that it happens again in each run of the call: what is there already is left alone.
    file.provide(&context, &input.content).await?;
    let path = file.path();
    // The text is the content and nothing else: what a person edits is what they were shown.
    let metadata = Some(facts(&input, Some(path)));
    let decision = ask(&context, ApprovalRequest { text: input.content, metadata }).await?;
    let word = match (&decision.edited_content, decision.approved) {
        (Some(edited), _) => {
            file.replace(&context, edited).await?;
            Word::Edit
        }
        (None, true) => Word::Yes,
        (None, false) => Word::No,
    };
    Ok(PromptOutput {
        decision: Some(word),
        path: Some(path.to_string_lossy().into_owned()),
        content: decision.edited_content,
        notes: words(decision.notes),
        ..output(Mode::Review)
    })
}

/// What a client that knows this question draws it from.
#[derive(Serialize)]
struct Facts<'a> {
    r#type: &'static str,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

fn facts(input: &PromptInput, path: Option<&Path>) -> Value {
    let path = path.map(|path| path.to_string_lossy().into_owned());
    json!(Facts { r#type: "prompt", mode: input.mode, title: title(input), path })
}

fn output(mode: Mode) -> PromptOutput {
    PromptOutput { mode, status: None, decision: None, path: None, content: None, notes: None }
}
