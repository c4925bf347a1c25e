//! Owns the extension `@gent/agents`: the agent `main`, the text every agent works under, and the instruction
//! files of user and project. Never resolves a model and never changes a prompt from step to step.
//! Tested below and in `tests`.

mod instructions;
mod prompt;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::protocol::{AgentName, ExtensionId};
use gent_extension_api::{
    AgentDefinition, Context, Contribution, Extension, Hook, Host, Notice, PromptSection, SetupError,
    TurnProjection, TurnProjectionHandler, TurnProjectionInput,
};

use crate::revision;
use instructions::{Places, read_instructions};

/// The extension `@gent/agents`.
#[derive(Debug, Default)]
pub struct Agents;

impl Extension for Agents {
    #[expect(clippy::expect_used, reason = "the id is a constant, tested below")]
    fn id(&self) -> ExtensionId {
        ExtensionId::parse("@gent/agents").expect("a valid id")
    }

    fn revision(&self) -> Option<String> {
        revision()
    }

    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        let name = AgentName::parse("main").map_err(|error| SetupError::new(error.to_string()))?;
        let mut main = AgentDefinition::new(name);
        main.description = Some("Works on the task at hand with every tool there is".to_owned());
        host.register(Contribution::Agent(main));
        host.on(Hook::TurnProjection(Arc::new(Prompt)));
        Ok(())
    }
}

/// Contributes the sections every agent works under.
struct Prompt;

impl TurnProjectionHandler for Prompt {
    fn project<'a>(
        &'a self,
        context: Context,
        _: TurnProjectionInput,
    ) -> BoxFuture<'a, Result<TurnProjection, String>> {
        project(context).boxed()
    }
}

async fn project(context: Context) -> Result<TurnProjection, String> {
    let places = Places { gent_home: context.facts().gent_home.clone(), cwd: context.cwd().to_owned() };
    let instructions = tokio::task::spawn_blocking(move || read_instructions(&places))
        .await
        .map_err(|error| format!("the instruction files could not be read: {error}"))?;
    let mut projection = TurnProjection { prompt_sections: prompt::sections(), ..TurnProjection::default() };
    if let Some(text) = instructions.text {
        let section = PromptSection::new("project-instructions", prompt::INSTRUCTIONS_PRIORITY, text);
        projection.prompt_sections.push(section);
    }
    if let Some(content) = instructions.cut {
        projection.notices.push(Notice {
            id: "project-instructions-cut".to_owned(),
            content,
            keys: Vec::new(),
        });
    }
    Ok(projection)
}
