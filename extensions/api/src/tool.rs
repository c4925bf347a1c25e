//! Owns what a tool is: a declaration the model reads and a function the host runs.
//! Never runs one: decoding, guards, redaction, bounding and recording are the host's pipeline.
//! Tested below and through every shipped tool.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ToolContext;

/// What the model and the host know of a tool before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDeclaration {
    /// Its name; a dotted path.
    pub name: String,
    /// What it does, for the model. Not empty.
    pub description: String,
    /// JSON Schema of its input: an object.
    pub parameters: Value,
    /// It changes nothing. A hint, not a grant.
    pub readonly: bool,
    /// It changes files or state. A hint, not a grant.
    pub destructive: bool,
    /// It needs a user; withheld where nobody can be asked.
    pub interactive: bool,
    /// One line for the tool list of the prompt.
    pub prompt_snippet: Option<String>,
    /// Bullets for the guidelines of the prompt.
    pub prompt_guidelines: Vec<String>,
}

/// Why a call has no result. Both are failed results for the model; neither ends the turn.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The model can do something about it: it is told this sentence.
    #[error("{0}")]
    TellModel(String),
    /// As above, with a result of the tool's own making.
    #[error("{message}")]
    TellModelWith {
        /// The sentence, for people and logs.
        message: String,
        /// The result the model sees.
        result: Value,
    },
    /// The tool itself is broken: the model is told so, the operator finds it in the log.
    #[error("{message}")]
    Broken {
        /// What broke.
        message: String,
    },
}

/// A tool.
pub trait Tool: Send + Sync {
    /// What is known of it before it runs. The same for the life of the value.
    fn declaration(&self) -> &ToolDeclaration;

    /// Runs one call. `input` has not been checked against the schema. When the call is stopped its future is
    /// dropped after a short grace in which it may return what it has.
    fn run<'a>(&'a self, context: ToolContext, input: Value) -> BoxFuture<'a, Result<Value, ToolError>>;

    /// One line for people, from input and result; the host makes its own when there is none.
    fn summary(&self, input: &Value, output: &Value) -> Option<String> {
        let _ = (input, output);
        None
    }
}

type Summary<I, O> = fn(&I, &O) -> String;

struct ToolFn<I, O, F> {
    declaration: ToolDeclaration,
    run: F,
    summary: Option<Summary<I, O>>,
    shape: std::marker::PhantomData<fn(I) -> O>,
}

/// Makes a tool of a function. The schema of `declaration.parameters` is replaced by that of `I`.
///
/// The error of an input that does not decode begins with `Tool '<name>' input failed`.
pub fn tool_fn<I, O, F, Fut>(
    mut declaration: ToolDeclaration,
    summary: Option<fn(&I, &O) -> String>,
    run: F,
) -> Arc<dyn Tool>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(ToolContext, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    declaration.parameters = input_schema::<I>();
    Arc::new(ToolFn { declaration, run, summary, shape: std::marker::PhantomData })
}

/// The schema of a tool's input without what providers have no use for.
fn input_schema<I: JsonSchema>() -> Value {
    let generator = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    let mut schema = generator.into_root_schema_for::<I>().to_value();
    if let Value::Object(fields) = &mut schema {
        fields.remove("title");
    }
    schema
}

impl<I, O, F, Fut> Tool for ToolFn<I, O, F>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(ToolContext, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    fn run<'a>(&'a self, context: ToolContext, input: Value) -> BoxFuture<'a, Result<Value, ToolError>> {
        let decoded: I = match serde_json::from_value(input) {
            Ok(decoded) => decoded,
            Err(error) => {
                let message = format!("Tool '{}' input failed: {error}", self.declaration.name);
                return futures_util::future::ready(Err(ToolError::TellModel(message))).boxed();
            }
        };
        let running = (self.run)(context, decoded);
        async move {
            let output = running.await?;
            serde_json::to_value(output).map_err(|error| ToolError::Broken {
                message: format!("the result of '{}' does not encode: {error}", self.declaration.name),
            })
        }
        .boxed()
    }

    fn summary(&self, input: &Value, output: &Value) -> Option<String> {
        let summary = self.summary?;
        let input = serde_json::from_value(input.clone()).ok()?;
        let output = serde_json::from_value(output.clone()).ok()?;
        Some(summary(&input, &output))
    }
}
