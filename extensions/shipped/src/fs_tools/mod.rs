//! Owns the extension `@gent/fs-tools`: the tools that read, write, change and search files.
//! Never starts a process and keeps no file open between calls. Every call does its work in one hop to a
//! blocking thread. Tested in each file and in `tests`.

mod atomic;
mod edit;
mod grep;
mod matching;
mod page;
mod path;
mod placeholder;
mod read;
mod result_size;
mod seen;
mod text_encoding;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use gent_extension_api::protocol::ExtensionId;
use gent_extension_api::{
    Contribution, Extension, FileLockGuard, Host, SetupError, ToolContext, ToolDeclaration, ToolError,
};
use serde_json::Value;

use crate::revision;
use seen::SeenFiles;

/// The extension `@gent/fs-tools`. Its activations share the memory of which file a branch has seen.
#[derive(Default)]
pub struct FsTools {
    seen: Arc<SeenFiles>,
}

impl Extension for FsTools {
    #[expect(clippy::expect_used, reason = "the id is a constant, tested below")]
    fn id(&self) -> ExtensionId {
        ExtensionId::parse("@gent/fs-tools").expect("a valid id")
    }

    fn revision(&self) -> Option<String> {
        revision()
    }

    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        host.register(Contribution::Tool(read::tool(Arc::clone(&self.seen))));
        host.register(Contribution::Tool(write::tool(Arc::clone(&self.seen))));
        host.register(Contribution::Tool(edit::tool(Arc::clone(&self.seen))));
        host.register(Contribution::Tool(grep::tool()));
        Ok(())
    }
}

/// A declaration without hints; its schema is made from the input type.
fn declaration(name: &str, description: &str, prompt_snippet: &str) -> ToolDeclaration {
    ToolDeclaration {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: Value::Null,
        readonly: false,
        destructive: false,
        interactive: false,
        prompt_snippet: Some(prompt_snippet.to_owned()),
        prompt_guidelines: Vec::new(),
    }
}

/// The answer of a call that was stopped before it did anything.
fn stopped() -> ToolError {
    ToolError::TellModel("the call was stopped before it did anything".to_owned())
}

/// Waits for the lock of `path`, or for the call to be stopped.
async fn lock_file(context: &ToolContext, path: &std::path::Path) -> Result<FileLockGuard, ToolError> {
    tokio::select! {
        biased;
        () = context.cancelled().cancelled() => Err(stopped()),
        guard = context.file_lock().lock(path) => Ok(guard),
    }
}

/// Runs `work` on a blocking thread with `guard` held until it ends, also when the caller is gone by then: a
/// write that is under way must not meet the next one.
async fn run_locked<T: Send + 'static>(
    context: &ToolContext,
    guard: FileLockGuard,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let cancelled = context.cancelled().clone();
    let task = tokio::task::spawn_blocking(move || {
        let _held = guard;
        if cancelled.is_cancelled() {
            return Err(stopped());
        }
        work()
    });
    task.await.unwrap_or_else(|error| {
        Err(ToolError::Broken { message: format!("a file tool ended abnormally: {error}") })
    })
}
