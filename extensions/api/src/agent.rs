//! Owns what an agent is: a name and the choices its turns run under.
//! Never resolves them: precedence is the host's business. Tested in `actors`.

use gent_protocol::{AgentName, ModelId, ReasoningEffort};

/// An agent. What is `None` is decided by the session, the configuration or the driver.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDefinition {
    /// Its name.
    pub name: AgentName,
    /// One line for people.
    pub description: Option<String>,
    /// Its model.
    pub model: Option<ModelId>,
    /// Text at the end of its prompt.
    pub system_prompt_addendum: Option<String>,
    /// Tool patterns in order: `*` matches any run of characters, `!` takes back, the last match decides, no
    /// match is not held. `None`: every tool.
    pub tools: Option<Vec<String>>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// How hard to think.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// A window smaller than the model's, in tokens.
    pub context_length: Option<u64>,
    /// Model steps of one turn; can only lower the host's bound of 200.
    pub max_steps: Option<u32>,
    /// Requests to a model that one turn may make, those of a turn that was started again included: retries count. Beyond
    /// it the turn fails. `None`: no bound but those of steps and retries.
    pub max_model_attempts: Option<u32>,
}

impl AgentDefinition {
    /// An agent that leaves every choice to others.
    pub fn new(name: AgentName) -> Self {
        Self {
            name,
            description: None,
            model: None,
            system_prompt_addendum: None,
            tools: None,
            temperature: None,
            reasoning_effort: None,
            context_length: None,
            max_steps: None,
            max_model_attempts: None,
        }
    }

    /// True when its patterns admit the tool.
    pub fn admits(&self, tool: &str) -> bool {
        let Some(patterns) = &self.tools else { return true };
        patterns
            .iter()
            .rev()
            .find_map(|pattern| match pattern.strip_prefix('!') {
                Some(taken_back) => matches(taken_back, tool).then_some(false),
                None => matches(pattern, tool).then_some(true),
            })
            .unwrap_or(false)
    }
}

/// `*` stands for any run of characters, also none.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(first) = pieces.next() else { return text.is_empty() };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(patterns: &[&str]) -> AgentDefinition {
        let mut agent = AgentDefinition::new(AgentName::parse("a").unwrap());
        agent.tools = Some(patterns.iter().map(|p| (*p).to_owned()).collect());
        agent
    }

    #[test]
    fn the_last_matching_pattern_decides() {
        assert!(AgentDefinition::new(AgentName::parse("a").unwrap()).admits("bash"));
        assert!(!agent(&[]).admits("bash"));
        assert!(agent(&["*", "!bash"]).admits("read"));
        assert!(!agent(&["*", "!bash"]).admits("bash"));
        assert!(agent(&["!*", "web.*"]).admits("web.search.now"));
        assert!(agent(&["a*c*e"]).admits("abcde"));
        assert!(!agent(&["a*c*e"]).admits("abde"));
        assert!(!agent(&["read"]).admits("reads"));
    }
}
