//! Owns how the system prompt is put together: sections by priority, cut in what is shared and what is the
//! agent's own. The same turn gives the same bytes at every step. Pure. Tested below (H20).

use std::collections::HashSet;

use gent_extension_api::{
    AGENT_PROMPT_PRIORITY, AgentDefinition, HostFacts, Notice, PromptSection, ToolDeclaration,
};

/// What a prompt is made of.
pub(crate) struct PromptInput<'a> {
    pub(crate) facts: &'a HostFacts,
    pub(crate) agent: &'a AgentDefinition,
    /// What the model is shown, in order.
    pub(crate) tools: Vec<&'a ToolDeclaration>,
    pub(crate) sections: Vec<PromptSection>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) is_repository: bool,
    /// The day of the session's start, such as `2026-01-31 (Europe/Berlin)`.
    pub(crate) started: String,
    /// Today, when that is another day.
    pub(crate) today: Option<String>,
}

/// A prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// What is shared with child agents, then what is the agent's own; either may be missing.
    pub(crate) blocks: Vec<String>,
    /// What follows the conversation.
    pub(crate) notice: Option<String>,
}

/// Puts a prompt together.
pub(crate) fn build_prompt(input: PromptInput<'_>) -> Prompt {
    let mut sections = vec![
        PromptSection::new("environment", 60, environment(input.facts, input.is_repository)),
        PromptSection::new("date", 61, format!("Date when this session began: {}", input.started)),
    ];
    sections.extend(tool_sections(&input.tools));
    if let Some(addendum) = &input.agent.system_prompt_addendum {
        let text = format!("# Agent: {}\n\n{addendum}", input.agent.name);
        sections.push(PromptSection::new("agent-addendum", 190, text));
    }
    for section in input.sections {
        sections.retain(|known| known.id != section.id);
        sections.push(section);
    }
    sections.retain(|section| !section.content.trim().is_empty());
    sections.sort_by_key(|section| section.priority);
    let (shared, own): (Vec<_>, Vec<_>) =
        sections.into_iter().partition(|section| section.priority < AGENT_PROMPT_PRIORITY);
    let blocks = [shared, own].into_iter().filter(|block| !block.is_empty()).map(join).collect();
    Prompt { blocks, notice: notice(input.today, &input.notices) }
}

fn join(sections: Vec<PromptSection>) -> String {
    let contents: Vec<String> = sections.into_iter().map(|section| section.content).collect();
    contents.join("\n\n")
}

fn environment(facts: &HostFacts, is_repository: bool) -> String {
    format!(
        "# Environment\n\n- Working directory: {}\n- Platform: {}\n- Shell: {}\n- Git repository: {}",
        facts.cwd.display(),
        facts.platform,
        facts.shell.as_deref().unwrap_or("unknown"),
        if is_repository { "yes" } else { "no" },
    )
}

fn tool_sections(tools: &[&ToolDeclaration]) -> Vec<PromptSection> {
    let bullets: Vec<String> = tools
        .iter()
        .filter_map(|tool| tool.prompt_snippet.as_ref().map(|line| format!("- {}: {line}", tool.name)))
        .collect();
    let mut seen = HashSet::new();
    let guidelines: Vec<String> = tools
        .iter()
        .flat_map(|tool| &tool.prompt_guidelines)
        .filter(|line| seen.insert(line.as_str()))
        .map(|line| format!("- {line}"))
        .collect();
    let mut sections = Vec::new();
    if !bullets.is_empty() {
        let text = format!("# Tools\n\n{}", bullets.join("\n"));
        sections.push(PromptSection::new("tool-list", 102, text));
    }
    if !guidelines.is_empty() {
        let text = format!("# Tool guidelines\n\n{}", guidelines.join("\n"));
        sections.push(PromptSection::new("tool-guidelines", 104, text));
    }
    sections
}

fn notice(today: Option<String>, notices: &[Notice]) -> Option<String> {
    let mut parts: Vec<String> = today.map(|day| format!("Today's date: {day}")).into_iter().collect();
    parts.extend(notices.iter().map(|notice| notice.content.trim().to_owned()));
    if parts.is_empty() {
        return None;
    }
    Some(format!(
        "Host status. This comes from the program you run in, not from the user; do not answer it.\n\n{}",
        parts.join("\n\n")
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use gent_protocol::AgentName;
    use serde_json::json;

    use super::*;

    fn tool(name: &str, guideline: &str) -> ToolDeclaration {
        ToolDeclaration {
            name: name.into(),
            description: "d".into(),
            parameters: json!({}),
            readonly: true,
            destructive: false,
            interactive: false,
            prompt_snippet: Some(format!("does {name}")),
            prompt_guidelines: vec![guideline.into()],
        }
    }

    fn build(sections: Vec<PromptSection>, today: Option<String>) -> Prompt {
        let facts = HostFacts {
            cwd: PathBuf::from("/w"),
            home: None,
            gent_home: None,
            platform: "linux (6.1)".into(),
            shell: None,
        };
        let mut agent = AgentDefinition::new(AgentName::parse("main").unwrap());
        agent.system_prompt_addendum = Some("Be kind.".into());
        build_prompt(PromptInput {
            facts: &facts,
            agent: &agent,
            tools: vec![&tool("read", "same"), &tool("write", "same")],
            sections,
            notices: vec![],
            is_repository: true,
            started: "2026-01-31 (UTC)".into(),
            today,
        })
    }

    #[test]
    fn sections_stand_by_priority_and_are_cut_where_the_agents_own_begin() {
        let prompt = build(
            vec![PromptSection::new("work", 10, "Work well."), PromptSection::new("identity", 0, "You are.")],
            None,
        );
        assert_eq!(
            prompt.blocks,
            [
                "You are.\n\nWork well.\n\n# Environment\n\n- Working directory: /w\n- Platform: linux (6.1)\n\
                 - Shell: unknown\n- Git repository: yes\n\nDate when this session began: 2026-01-31 (UTC)",
                "# Tools\n\n- read: does read\n- write: does write\n\n# Tool guidelines\n\n- same\n\n\
                 # Agent: main\n\nBe kind.",
            ]
        );
        assert_eq!(prompt.notice, None);
    }

    #[test]
    fn what_changes_rides_behind_the_conversation_h20() {
        let one = build(vec![], None);
        let two = build(vec![], Some("2026-02-01 (UTC)".into()));
        assert_eq!(one.blocks, two.blocks);
        assert!(two.notice.unwrap().ends_with("Today's date: 2026-02-01 (UTC)"));
    }
}
