//! Owns the place in which the file tools are tested: a directory of its own and the tools as a host runs them.

mod edit;
mod read;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gent_extension_api::{Extension, Tool, ToolError};
use serde_json::Value;
use tempfile::TempDir;

use super::FsTools;
use crate::test_context::{TestContext, TestHost};

/// A directory, the tools of one activation, and the context of one branch.
pub(super) struct Workplace {
    directory: TempDir,
    tools: Arc<TestHost>,
    pub(super) context: TestContext,
}

impl Workplace {
    pub(super) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let context = TestContext::at(directory.path().canonicalize().unwrap());
        Self { tools: Arc::new(TestHost::of(&FsTools::default())), context, directory }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// Makes a file and the directories on the way.
    pub(super) fn make(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("").join(directory)).unwrap();
        let name =
            |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }

    pub(super) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools.tool(name)
    }

    /// Calls a tool as this branch.
    pub(super) async fn call(&self, name: &str, input: Value) -> Result<Value, ToolError> {
        self.call_as(&self.context, name, input).await
    }

    pub(super) async fn call_as(
        &self,
        context: &TestContext,
        name: &str,
        input: Value,
    ) -> Result<Value, ToolError> {
        self.tool(name).run(context.tool(), input).await
    }

    /// The sentence the model is told about a call that fails.
    pub(super) async fn failure(&self, name: &str, input: Value) -> String {
        match self.call(name, input).await.unwrap_err() {
            ToolError::TellModel(sentence) => sentence,
            other => panic!("not a sentence for the model: {other:?}"),
        }
    }
}

#[test]
fn the_four_tools_are_registered_with_what_the_prompt_needs() {
    let host = TestHost::of(&FsTools::default());
    let hints: Vec<_> = host
        .tools()
        .iter()
        .map(|tool| {
            let declaration = tool.declaration();
            assert!(!declaration.description.is_empty());
            assert!(declaration.prompt_snippet.is_some());
            assert!(!declaration.prompt_guidelines.is_empty());
            assert_eq!(declaration.parameters["type"], "object");
            (declaration.name.clone(), declaration.readonly, declaration.destructive)
        })
        .collect();
    let expected =
        [("read", true, false), ("write", false, true), ("edit", false, true), ("grep", true, false)];
    assert_eq!(hints, expected.map(|(name, readonly, destructive)| (name.to_owned(), readonly, destructive)));
    assert_eq!(FsTools::default().id().as_str(), "@gent/fs-tools");
}

#[tokio::test]
async fn a_stopped_call_neither_waits_for_a_lock_nor_does_anything() {
    let place = Workplace::new();
    place.make("f", "a");
    place.context.cancelled().cancel();
    for (tool, input) in [
        ("read", serde_json::json!({"path": "f"})),
        ("write", serde_json::json!({"path": "g", "content": "x"})),
        ("edit", serde_json::json!({"path": "f", "oldString": "a", "newString": "b"})),
    ] {
        let sentence = place.failure(tool, input).await;
        assert!(sentence.contains("stopped before it did anything"), "{sentence}");
    }
    assert_eq!((place.names(""), place.bytes("f")), (vec!["f".to_owned()], b"a".to_vec()));
}
