//! Owns the tests of the prompt as a host gets it.

use std::path::Path;

use gent_extension_api::protocol::AgentName;
use gent_extension_api::{
    AgentDefinition, Contribution, Extension, Hook, TurnProjection, TurnProjectionInput,
};

use super::Agents;
use crate::test_context::{TestContext, TestHost};

async fn project(context: &TestContext) -> TurnProjection {
    let host = TestHost::of(&Agents);
    let [Hook::TurnProjection(handler)] = host.hooks.as_slice() else { panic!("one handler") };
    let agent = AgentDefinition::new(AgentName::parse("main").unwrap());
    handler.project(context.context(), TurnProjectionInput { agent, interactive: true }).await.unwrap()
}

fn make(directory: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(directory.join(name).parent().unwrap()).unwrap();
    std::fs::write(directory.join(name), text).unwrap();
}

#[tokio::test]
async fn the_prompt_is_this() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path(), "home/.gent/AGENTS.md", "Answer in English.\n");
    make(directory.path(), "project/.git/HEAD", "");
    make(directory.path(), "project/AGENTS.md", "Use tabs.\n");
    let context =
        TestContext::at(directory.path().join("project")).gent_home(directory.path().join("home/.gent"));
    let projection = project(&context).await;
    assert_eq!((&projection.notices, &projection.tool_policy), (&Vec::new(), &None));
    let sections: Vec<String> = projection
        .prompt_sections
        .iter()
        .map(|section| format!("=== {} {}\n{}", section.priority, section.id, section.content))
        .collect();
    let prompt = sections.join("\n\n").replace(&*directory.path().to_string_lossy(), "");
    insta::assert_snapshot!("prompt", prompt);
}

#[tokio::test]
async fn the_prompt_is_the_same_from_turn_to_turn_and_has_no_section_without_text() {
    let directory = tempfile::tempdir().unwrap();
    let context = TestContext::at(directory.path());
    let first = project(&context).await;
    assert_eq!(first, project(&context).await);
    let ids: Vec<&str> = first.prompt_sections.iter().map(|section| section.id.as_str()).collect();
    assert_eq!(ids, ["identity", "work", "communication", "boundaries"]);
}

#[tokio::test]
async fn cut_instructions_are_a_notice() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path(), "AGENTS.md", &"x".repeat(70 * 1024));
    let projection = project(&TestContext::at(directory.path())).await;
    assert_eq!(projection.notices.len(), 1);
    assert!(projection.notices[0].content.contains("AGENTS.md"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_tree_full_of_link_cycles_is_never_walked() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path(), "AGENTS.md", "top");
    for n in 0..200 {
        let package = directory.path().join(format!("node_modules/{n}"));
        make(&package, "AGENTS.md", "package");
        std::os::unix::fs::symlink("../..", package.join("up")).unwrap();
    }
    let projection = project(&TestContext::at(directory.path())).await;
    let section = projection.prompt_sections.last().unwrap();
    assert!(section.content.contains("top") && !section.content.contains("package"));
}

#[test]
fn one_agent_is_registered_that_leaves_every_choice_to_the_host() {
    let host = TestHost::of(&Agents);
    let [Contribution::Agent(main)] = host.contributions.as_slice() else { panic!("one agent") };
    let mut expected = AgentDefinition::new(AgentName::parse("main").unwrap());
    expected.description = main.description.clone();
    assert_eq!(*main, expected);
    assert!(main.description.is_some());
    assert_eq!(Agents.id().as_str(), "@gent/agents");
}
