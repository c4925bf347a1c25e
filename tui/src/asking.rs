//! Owns the question of one branch from the moment it is shown to its answer: what a typed line comes to, what is sent,
//! and what is said when the server does not take it. Never draws a question: `question` does.
//! Tested below and in `tui/tests/it`.

use std::path::{Path, PathBuf};

use gent_client::CallError;
use gent_protocol::{
    BranchId, InteractionRequestId, OpenQuestion, QuestionDecision, RespondInteraction, RpcError, SessionId,
};

use crate::question::{Asked, Reply};

/// Bytes of a file that is handed back: a document for people is smaller, and a request has its own bound.
const FILE_BYTES: u64 = 1024 * 1024;

/// What a typed line came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Text to show, with its newline.
    Say(String),
    /// The answer to send.
    Answer(RespondInteraction),
}

/// The question of a branch, if there is one.
#[derive(Debug)]
pub(crate) struct Asking {
    session_id: SessionId,
    branch_id: BranchId,
    /// Where a file is looked for.
    base: PathBuf,
    asked: Option<Asked>,
    /// Answered, and the server has not said yet that it counts.
    answered: Option<(Asked, RespondInteraction)>,
}

impl Asking {
    pub(crate) fn new(session_id: SessionId, branch_id: BranchId, base: impl Into<PathBuf>) -> Self {
        Self { session_id, branch_id, base: base.into(), asked: None, answered: None }
    }

    /// True while a typed line would answer.
    pub(crate) fn is_open(&self) -> bool {
        self.asked.is_some()
    }

    /// A question is shown; gives its text, none where it is known already.
    pub(crate) fn present(&mut self, question: &OpenQuestion) -> Option<String> {
        let is_same = |asked: &Asked| *asked.request_id() == question.request_id;
        if self.asked.as_ref().is_some_and(is_same)
            || self.answered.as_ref().is_some_and(|(asked, _)| is_same(asked))
        {
            return None;
        }
        let asked = Asked::new(question);
        let text = asked.text();
        self.asked = Some(asked);
        Some(text)
    }

    /// A question is over, by whomever; true when it was still to be answered here.
    pub(crate) fn resolve(&mut self, request_id: &InteractionRequestId) -> bool {
        self.answered.take_if(|(asked, _)| asked.request_id() == request_id);
        self.asked.take_if(|asked| asked.request_id() == request_id).is_some()
    }

    /// The turn is over, and its questions with it.
    pub(crate) fn end(&mut self) {
        self.asked = None;
        self.answered = None;
    }

    /// The answer that the server has not confirmed.
    pub(crate) fn unconfirmed(&self) -> Option<&RespondInteraction> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// Takes a typed line; nothing where no question is open.
    pub(crate) async fn take(&mut self, line: &str) -> Option<Taken> {
        let asked = self.asked.as_mut()?;
        let decision = match asked.take(line) {
            Reply::Decided(decision) => decision,
            Reply::Next => return Some(Taken::Say(asked.text())),
            Reply::Unclear(usage) => return Some(Taken::Say(format!("  {usage}\n"))),
            Reply::Edited(file) => match read_text(&self.base.join(&file)).await {
                Ok(text) => QuestionDecision { approved: true, notes: None, edited_content: Some(text) },
                Err(why) => {
                    let file = crate::sanitize::one_line(&file, 200);
                    return Some(Taken::Say(format!("  {file} {why}\n")));
                }
            },
        };
        self.decide(decision).map(Taken::Answer)
    }

    /// Answers for nobody; gives the question in one line.
    pub(crate) fn refuse(&mut self) -> Option<String> {
        let asked = self.asked.as_ref()?;
        let (summary, refusal) = (asked.summary(), asked.refusal());
        self.decide(refusal).map(|_answer| summary)
    }

    fn decide(&mut self, decision: QuestionDecision) -> Option<RespondInteraction> {
        let asked = self.asked.take()?;
        let answer = RespondInteraction {
            request_id: asked.request_id().clone(),
            session_id: self.session_id.clone(),
            branch_id: self.branch_id.clone(),
            decision,
        };
        self.answered = Some((asked, answer.clone()));
        Some(answer)
    }

    /// The answer could not be sent: the question is open as before.
    pub(crate) fn take_back(&mut self, request_id: &InteractionRequestId) {
        if let Some((asked, _)) = self.answered.take_if(|(asked, _)| asked.request_id() == request_id) {
            self.asked.get_or_insert(asked);
        }
    }

    /// The text of the question, while it is open.
    pub(crate) fn text(&self) -> Option<String> {
        self.asked.as_ref().map(Asked::text)
    }

    /// The server has the answer.
    pub(crate) fn confirm(&mut self, request_id: &InteractionRequestId) {
        self.answered.take_if(|(asked, _)| asked.request_id() == request_id);
    }

    /// The server did not take an answer; gives what is to be said. Where the question is still open, it is asked again.
    pub(crate) fn reject(&mut self, request_id: &InteractionRequestId, error: &CallError) -> String {
        match error {
            CallError::Rpc(RpcError::InteractionDecisionConflictError { .. }) => {
                self.confirm(request_id);
                "somebody else has answered this question already: the first answer counts".to_owned()
            }
            CallError::Rpc(
                RpcError::InteractionRequestMismatchError { .. } | RpcError::NotFoundError { .. },
            ) => {
                self.confirm(request_id);
                "the answer came too late: this question is no longer open".to_owned()
            }
            CallError::Rpc(_)
            | CallError::UnknownRpc(_)
            | CallError::Closed { .. }
            | CallError::TooLarge { .. }
            | CallError::Protocol { .. } => {
                self.take_back(request_id);
                format!("the answer could not be given, answer again: {error}")
            }
        }
    }
}

/// The text of a file; else what is wrong with it.
async fn read_text(path: &Path) -> Result<String, String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        // A pipe would be waited for, a device never ends.
        let facts = std::fs::metadata(&path).map_err(|error| format!("cannot be read: {error}"))?;
        if !facts.is_file() {
            return Err("is no file".to_owned());
        }
        if facts.len() > FILE_BYTES {
            return Err(format!("is larger than {} KiB: hand back less", FILE_BYTES / 1024));
        }
        std::fs::read_to_string(&path).map_err(|error| format!("cannot be read: {error}"))
    });
    read.await.unwrap_or_else(|_gone| Err("could not be read".to_owned()))
}

#[cfg(test)]
mod tests {
    use gent_protocol::Question;
    use serde_json::json;

    use super::*;

    fn id(text: &str) -> InteractionRequestId {
        InteractionRequestId::parse(text).unwrap()
    }

    fn open(request_id: &str) -> OpenQuestion {
        let metadata = Some(json!({ "type": "prompt", "mode": "review" }));
        OpenQuestion { request_id: id(request_id), question: Question { text: "Plan".into(), metadata } }
    }

    fn asking(base: &Path) -> Asking {
        Asking::new(SessionId::parse("s").unwrap(), BranchId::parse("b").unwrap(), base)
    }

    #[tokio::test]
    async fn a_file_is_handed_back_as_the_text_of_the_answer() {
        let dir = std::env::temp_dir().join(format!("gent-asking-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("plan.md"), "better").unwrap();
        std::fs::write(dir.join("large"), vec![b'x'; FILE_BYTES as usize + 1]).unwrap();
        let mut asking = asking(&dir);
        asking.present(&open("q")).unwrap();
        for (line, why) in [
            ("/edit missing", "  missing cannot be read: No such file or directory (os error 2)\n"),
            ("/edit .", "  . is no file\n"),
            ("/edit large", "  large is larger than 1024 KiB: hand back less\n"),
        ] {
            assert_eq!(asking.take(line).await, Some(Taken::Say(why.to_owned())));
        }
        let Some(Taken::Answer(answer)) = asking.take("/edit plan.md").await else { panic!("no answer") };
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(
            (answer.decision.approved, answer.decision.edited_content.as_deref()),
            (true, Some("better"))
        );
    }

    #[tokio::test]
    async fn a_question_that_is_shown_again_while_its_answer_travels_is_not_asked_again() {
        let mut asking = asking(Path::new("/"));
        assert!(asking.present(&open("q")).is_some());
        assert_eq!(asking.present(&open("q")), None);
        assert!(matches!(asking.take("y").await, Some(Taken::Answer(_))));
        assert_eq!(asking.present(&open("q")), None);
        assert!(!asking.is_open());
        asking.confirm(&id("q"));
        assert!(asking.present(&open("q")).is_some());
        assert!(!asking.resolve(&id("other")));
        assert!(asking.resolve(&id("q")));
    }

    #[tokio::test]
    async fn an_answer_that_failed_is_asked_for_again_and_one_that_lost_is_not() {
        let message = String::new();
        let failed = CallError::Rpc(RpcError::StorageError { message: message.clone() });
        let lost =
            CallError::Rpc(RpcError::InteractionDecisionConflictError { message, request_id: id("q") });
        for (error, is_open, said) in [
            (failed, true, "the answer could not be given, answer again: "),
            (lost, false, "somebody else has answered this question already: the first answer counts"),
        ] {
            let mut asking = asking(Path::new("/"));
            asking.present(&open("q"));
            asking.take("y").await;
            assert_eq!(asking.reject(&id("q"), &error), said);
            assert_eq!((asking.is_open(), asking.unconfirmed()), (is_open, None));
        }
    }
}
