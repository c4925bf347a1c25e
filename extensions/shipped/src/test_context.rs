//! Owns the context that tests of the shipped tools run in: a place, real locks by path, and fakes for the
//! facets that leave the process. Compiled for tests only; never stands in for the host's own tests.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::protocol::{BranchId, MessageId, Millis, SessionId, ToolCallId};
use gent_extension_api::{
    ApprovalRequest, Context, ContextParts, Contribution, Decision, Exec, ExecError, Extension, FileLock,
    FileLockGuard, Hook, Host, HostFacts, Interaction, InteractionError, ProcessOutcome, Redactor,
    SpawnRequest, Tool, ToolContext,
};
use tokio_util::sync::CancellationToken;

use crate::test_session::NoSession;

/// Builds a context; what is not set is a sensible fake.
#[derive(Clone)]
pub(crate) struct TestContext {
    parts: ContextParts,
}

impl TestContext {
    /// A context whose working directory is `cwd`, in session `session` and branch `branch`. Nobody can be
    /// asked, no process can be started, nothing is secret.
    pub(crate) fn at(cwd: impl Into<PathBuf>) -> Self {
        let cwd = cwd.into();
        let facts = HostFacts {
            cwd: cwd.clone(),
            home: None,
            gent_home: None,
            platform: "test 1.0".to_owned(),
            shell: Some("/bin/sh".to_owned()),
        };
        Self {
            parts: ContextParts {
                session_id: SessionId::parse("session").unwrap(),
                branch_id: BranchId::parse("branch").unwrap(),
                cwd,
                session_created_at: Millis(0),
                facts: Arc::new(facts),
                cancelled: CancellationToken::new(),
                session: Arc::new(NoSession),
                interaction: Arc::new(ScriptedInteraction::default()),
                exec: Arc::new(ScriptedExec::default()),
                file_lock: Arc::new(PathLocks::default()),
                redactor: Arc::new(WordRedactor::default()),
            },
        }
    }

    /// The same context in another branch; locks and the rest are shared.
    pub(crate) fn branch(mut self, branch: &str) -> Self {
        self.parts.branch_id = BranchId::parse(branch).unwrap();
        self
    }

    /// The user's home.
    pub(crate) fn home(self, home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        self.facts(|facts| facts.home = Some(home))
    }

    /// The directory of user configuration.
    pub(crate) fn gent_home(self, gent_home: impl Into<PathBuf>) -> Self {
        let gent_home = gent_home.into();
        self.facts(|facts| facts.gent_home = Some(gent_home))
    }

    /// Changes the facts.
    pub(crate) fn facts(mut self, change: impl FnOnce(&mut HostFacts)) -> Self {
        change(Arc::make_mut(&mut self.parts.facts));
        self
    }

    /// Who answers questions.
    pub(crate) fn interaction(mut self, interaction: Arc<dyn Interaction>) -> Self {
        self.parts.interaction = interaction;
        self
    }

    /// What starts processes.
    pub(crate) fn exec(mut self, exec: Arc<dyn Exec>) -> Self {
        self.parts.exec = exec;
        self
    }

    /// The token that stops the call.
    pub(crate) fn cancelled(&self) -> &CancellationToken {
        &self.parts.cancelled
    }

    /// The context of a hook.
    pub(crate) fn context(&self) -> Context {
        Context::new(self.parts.clone())
    }

    /// The context of a tool call.
    pub(crate) fn tool(&self) -> ToolContext {
        ToolContext {
            context: self.context(),
            tool_call_id: ToolCallId::parse("call").unwrap(),
            assistant_message_id: MessageId::parse("message").unwrap(),
        }
    }
}

/// Keeps what an extension registers.
pub(crate) struct TestHost {
    facts: HostFacts,
    /// The values.
    pub(crate) contributions: Vec<Contribution>,
    /// The handlers.
    pub(crate) hooks: Vec<Hook>,
}

impl TestHost {
    /// Sets an extension up and keeps what it registered.
    pub(crate) fn of(extension: &dyn Extension) -> Self {
        let facts = (*TestContext::at("/").parts.facts).clone();
        let mut host = Self { facts, contributions: Vec::new(), hooks: Vec::new() };
        extension.setup(&mut host).unwrap();
        host
    }

    /// The registered tool of that name.
    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools().into_iter().find(|tool| tool.declaration().name == name).expect("the tool is registered")
    }

    /// Every registered tool, in order.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.contributions
            .iter()
            .filter_map(|contribution| match contribution {
                Contribution::Tool(tool) => Some(Arc::clone(tool)),
                Contribution::Agent(_) | Contribution::ModelDriver(_) => None,
            })
            .collect()
    }
}

impl Host for TestHost {
    fn register(&mut self, contribution: Contribution) {
        self.contributions.push(contribution);
    }

    fn on(&mut self, hook: Hook) {
        self.hooks.push(hook);
    }

    fn facts(&self) -> &HostFacts {
        &self.facts
    }
}

/// Answers questions from a list; past its end the answer is that nobody can be asked.
#[derive(Default)]
pub(crate) struct ScriptedInteraction {
    /// Answers not given yet.
    pub(crate) answers: Mutex<VecDeque<Decision>>,
    /// Questions asked so far.
    pub(crate) asked: Mutex<Vec<ApprovalRequest>>,
}

impl Interaction for ScriptedInteraction {
    fn approve<'a>(&'a self, request: ApprovalRequest) -> BoxFuture<'a, Result<Decision, InteractionError>> {
        self.asked.lock().unwrap().push(request);
        let nobody = || Decision::no("nobody can be asked");
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_else(nobody);
        futures_util::future::ready(Ok(answer)).boxed()
    }
}

/// Answers process starts from a list; past its end every start is refused.
#[derive(Default)]
pub(crate) struct ScriptedExec {
    /// Outcomes not given yet.
    pub(crate) outcomes: Mutex<VecDeque<Result<ProcessOutcome, ExecError>>>,
    /// Starts asked for so far.
    pub(crate) started: Mutex<Vec<SpawnRequest>>,
}

impl Exec for ScriptedExec {
    fn run<'a>(&'a self, request: SpawnRequest) -> BoxFuture<'a, Result<ProcessOutcome, ExecError>> {
        self.started.lock().unwrap().push(request);
        let refused = || Err(ExecError::Refused { reason: "no outcome is scripted".to_owned() });
        let outcome = self.outcomes.lock().unwrap().pop_front().unwrap_or_else(refused);
        futures_util::future::ready(outcome).boxed()
    }
}

/// Real locks, one for each real path.
#[derive(Default)]
pub(crate) struct PathLocks(Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>);

impl FileLock for PathLocks {
    fn lock<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, FileLockGuard> {
        let key = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let lock = Arc::clone(self.0.lock().unwrap().entry(key).or_default());
        lock.lock_owned().boxed()
    }
}

/// Takes a list of words out.
#[derive(Default)]
pub(crate) struct WordRedactor(pub(crate) Vec<String>);

impl Redactor for WordRedactor {
    fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, word| text.replace(word.as_str(), "[REDACTED]"))
    }
}

/// Makes a named pipe that nobody writes to: whoever opens it in the plain way waits for ever.
#[cfg(target_os = "linux")]
pub(crate) fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}
