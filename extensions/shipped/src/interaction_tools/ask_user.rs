//! Owns the tool `ask_user`: up to five questions to a person, asked and answered together.
//! Never judges an answer: what a person says is passed on as it is, whether or not it was among the options.
//! Tested in `tests/ask_user.rs`.

use std::sync::Arc;

use gent_extension_api::{ApprovalRequest, Decision, Tool, ToolContext, ToolDeclaration, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ask, words};

/// Questions of one call: more are a form to fill in and not a conversation. Beyond it the call is refused.
const QUESTIONS: usize = 5;

/// Characters of a header: it is shown as a label beside the others. Beyond it the call is refused.
const HEADER_CHARS: usize = 30;

/// Options of one question: what is left is said in the person's own words. Beyond it the call is refused.
const OPTIONS: usize = 4;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct AskUserInput {
    /// What is asked, all at once: 1 to 5 questions.
    #[schemars(length(min = 1, max = 5))]
    questions: Vec<AskedQuestion>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct AskedQuestion {
    /// The question, in one sentence.
    question: String,
    /// A label for it, at most 30 characters.
    #[schemars(length(max = 30))]
    header: String,
    /// What has to be known to answer it, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<String>,
    /// Up to 4 answers to choose from; the user can always answer in other words. None: any words.
    #[schemars(length(max = 4))]
    #[serde(skip_serializing_if = "offers_nothing")]
    options: Option<Vec<Choice>>,
    /// More than one option can be chosen. Default: false.
    multiple: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Choice {
    /// The answer, in a few words.
    label: String,
    /// What it means or entails.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AskUserOutput {
    /// For each question what was chosen or said; empty where nothing was.
    answers: Vec<Vec<String>>,
    /// The user does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cancelled: Option<bool>,
    /// What was said instead of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
}

/// The tool.
pub(super) fn tool() -> Arc<dyn Tool> {
    let declaration = ToolDeclaration {
        name: "ask_user".into(),
        description: "Asks the user one to five questions at once and waits for the answers. `answers` holds a list for \
                      each question, in their order: what was chosen or said, or nothing where no answer was given. \
                      `cancelled` says that the user does not answer: do not ask again, and go on as you think best \
                      or say what you need."
            .into(),
        parameters: Value::Null,
        readonly: true,
        destructive: false,
        interactive: true,
        prompt_snippet: Some("Ask the user and wait for the answer".into()),
        prompt_guidelines: vec![
            "Use `ask_user` when a wrong guess would be costly and the project does not hold the answer; ask all of it \
             in one call and offer options where you can."
                .into(),
        ],
    };
    tool_fn(declaration, Some(summarize), run)
}

fn summarize(input: &AskUserInput, output: &AskUserOutput) -> String {
    if output.cancelled == Some(true) {
        return "not answered".into();
    }
    let answered = input.questions.iter().zip(&output.answers).map(|(asked, answer)| {
        let answer = if answer.is_empty() { "–".to_owned() } else { answer.join(", ") };
        format!("{}: {answer}", asked.header)
    });
    answered.collect::<Vec<_>>().join(" · ").replace(['\r', '\n'], " ")
}

async fn run(context: ToolContext, mut input: AskUserInput) -> Result<AskUserOutput, ToolError> {
    check(&input.questions)?;
    for asked in &mut input.questions {
        asked.multiple.get_or_insert(false);
    }
    let request = ApprovalRequest {
        text: to_text(&input.questions),
        metadata: Some(json!({ "type": "ask-user", "questions": input.questions })),
    };
    let decision = ask(&context, request).await?;
    Ok(output_of(decision, input.questions.len()))
}

/// Refuses what a person could not be shown.
fn check(questions: &[AskedQuestion]) -> Result<(), ToolError> {
    let refuse = |sentence: String| Err(ToolError::TellModel(sentence));
    let n_questions = questions.len();
    if !(1..=QUESTIONS).contains(&n_questions) {
        return refuse(format!("ask_user takes 1 to {QUESTIONS} questions, not {n_questions}"));
    }
    for (number, asked) in (1..).zip(questions) {
        let n_header = asked.header.chars().count();
        let options = asked.options.as_deref().unwrap_or_default();
        if asked.question.trim().is_empty() || asked.header.trim().is_empty() {
            return refuse(format!("question {number} needs a text and a header that are not empty"));
        }
        if n_header > HEADER_CHARS {
            return refuse(format!(
                "the header of question {number} has {n_header} characters, {HEADER_CHARS} are allowed: shorten it"
            ));
        }
        if options.len() > OPTIONS {
            return refuse(format!(
                "question {number} has {} options, {OPTIONS} are allowed: leave out the least likely",
                options.len()
            ));
        }
        if options.iter().any(|option| option.label.trim().is_empty()) {
            return refuse(format!("an option of question {number} needs a label that is not empty"));
        }
    }
    Ok(())
}

/// The questions for a client that shows text alone.
fn to_text(questions: &[AskedQuestion]) -> String {
    let is_one = questions.len() == 1;
    let texts = (1..).zip(questions).map(|(number, asked)| {
        let number = if is_one { String::new() } else { format!("{number}. ") };
        let mut text = format!("{number}[{}] {}", asked.header.trim(), asked.question.trim());
        if let Some(markdown) = &asked.markdown {
            text.push_str("\n\n");
            text.push_str(markdown.trim_end());
            text.push('\n');
        }
        for option in asked.options.iter().flatten() {
            text.push_str("\n- ");
            text.push_str(&option.label);
            if let Some(description) = &option.description {
                text.push_str(": ");
                text.push_str(description);
            }
        }
        if asked.multiple == Some(true) && !offers_nothing(&asked.options) {
            text.push_str("\n(more than one can be chosen)");
        }
        text
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// The result: one list for each question, whatever the client sent.
fn output_of(decision: Decision, n_questions: usize) -> AskUserOutput {
    let mut answers = vec![Vec::new(); n_questions];
    let notes = words(decision.notes);
    if !decision.approved {
        return AskUserOutput { answers, cancelled: Some(true), notes };
    }
    if let Some(said) = notes {
        // A client that does not know these questions has one field for what is said, and the first one is on top.
        let given = serde_json::from_str::<Vec<Vec<String>>>(&said).unwrap_or_else(|_| vec![vec![said]]);
        for (answer, given) in answers.iter_mut().zip(given) {
            *answer = given;
        }
    }
    AskUserOutput { answers, cancelled: None, notes: None }
}

#[expect(clippy::ref_option, reason = "the form that serde asks for")]
fn offers_nothing(options: &Option<Vec<Choice>>) -> bool {
    options.as_ref().is_none_or(Vec::is_empty)
}
