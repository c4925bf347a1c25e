//! Owns which agent, model, driver and address a turn uses. The turn and the snapshot ask here, so that they
//! agree. A route without its secrets is stored with the turn: a restart goes on where it was.
//! Tested below and end to end (G10, G15).

use std::sync::Arc;

use gent_extension_api::{Access, AgentDefinition, LanguageModel, ModelDriver};
use gent_protocol::{AgentName, ModelId, ReasoningEffort, Session, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::profile::Profile;
use crate::services::Services;
use crate::turn::TurnFailure;

/// The agent that is used when a session names none.
pub(crate) const MAIN_AGENT: &str = "main";

/// Where a turn's requests go, without secrets: what is stored with the turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Route {
    pub(crate) model: ModelId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// A key was used: without one the turn waits.
    #[serde(default)]
    pub(crate) has_key: bool,
}

/// A model that was chosen, and why.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) model: ModelId,
    pub(crate) reason: String,
}

/// The name of a session's agent.
pub(crate) fn agent_name(session: &Session) -> AgentName {
    let named = session.admission.as_ref().and_then(|admission| admission.agent.clone());
    #[expect(clippy::expect_used, reason = "the constant is a valid name, which the test below shows")]
    named.unwrap_or_else(|| AgentName::parse(MAIN_AGENT).expect("a valid name"))
}

/// How hard a session's model thinks.
pub(crate) fn reasoning(session: &Session, agent: &AgentDefinition) -> Option<ReasoningEffort> {
    session.reasoning_level.or(agent.reasoning_effort)
}

/// Chooses a model: session, agent, user configuration, then the first driver that has one to offer.
pub(crate) async fn choose_model(
    services: &Services,
    profile: &Profile,
    workspace: &WorkspaceId,
    session: &Session,
    agent: Option<&AgentDefinition>,
) -> Result<Choice, TurnFailure> {
    if let Some(model) = &session.model_id {
        return Ok(Choice { model: model.clone(), reason: "the session is set to it".into() });
    }
    if let Some(model) = agent.and_then(|agent| agent.model.clone()) {
        return Ok(Choice { model, reason: "its agent names it".into() });
    }
    if let Some(model) = services.settings.model() {
        return Ok(Choice { model, reason: "`model` in the user configuration names it".into() });
    }
    let mut faults = Vec::new();
    for driver in &profile.drivers {
        let access = services.credentials.for_default(workspace, &driver.id());
        match driver.default_model(&access).await {
            Ok(Some(found)) => return Ok(Choice { model: found.id, reason: found.reason }),
            Ok(None) => {}
            Err(error) => faults.push(error.to_string()),
        }
    }
    let variables: Vec<&str> = profile
        .drivers
        .iter()
        .map(|driver| driver.credentials())
        .flat_map(|spec| [spec.key_variable, spec.endpoint_variable])
        .flatten()
        .collect();
    Err(TurnFailure::Route { message: nothing_found(&variables, &faults, &services.settings.notices()) })
}

/// The sentence for a search without a find: what was set in vain, else what could be set. A fault of the
/// configuration is told too: it may be why its `model` was not seen.
fn nothing_found(variables: &[&str], faults: &[String], notices: &[String]) -> String {
    let mut message = if faults.is_empty() {
        format!(
            "no model was found: looked for --model, `model` in ~/.gent/config.json, {} and a model server on \
             this machine (ports 11434, 1234, 8080); set one of them, or try `gent demo`",
            variables.join(", ")
        )
    } else {
        format!(
            "no model was found: {}; correct that, name a model with --model, or try `gent demo`",
            faults.join("; ")
        )
    };
    for notice in notices {
        message.push_str("; besides, ");
        message.push_str(notice);
    }
    message
}

/// The driver of a model.
pub(crate) fn driver_of<'a>(
    profile: &'a Profile,
    model: &ModelId,
) -> Result<&'a Arc<dyn ModelDriver>, TurnFailure> {
    profile.driver(&model.provider()).ok_or_else(|| {
        let known: Vec<String> = profile.drivers.iter().map(|driver| driver.id().to_string()).collect();
        TurnFailure::Route {
            message: format!(
                "no provider {} for the model {model}: the providers are {}",
                model.provider(),
                known.join(", ")
            ),
        }
    })
}

/// Decides where a turn's requests go: the stored route of a resumed turn, else the newest offer.
pub(crate) fn route_to(
    services: &Services,
    profile: &Profile,
    workspace: &WorkspaceId,
    model: ModelId,
) -> Result<(Route, Access), TurnFailure> {
    let driver = driver_of(profile, &model)?;
    let access = services.credentials.newest(workspace, &driver.id());
    let route = Route {
        model,
        endpoint: access.endpoint.clone().filter(|url| !holds_secret(url)),
        has_key: access.key.is_some()
            || access.endpoint.as_deref().is_some_and(holds_secret)
            || driver.needs_key(access.endpoint.as_deref()),
    };
    Ok((route, access))
}

/// The access of a stored route; `None` when its key has not been offered since the server started.
pub(crate) fn access_again(services: &Services, workspace: &WorkspaceId, route: &Route) -> Option<Access> {
    let provider = route.model.provider();
    if !route.has_key {
        return Some(Access { endpoint: route.endpoint.clone(), key: None });
    }
    let key = services.credentials.key_for(workspace, &provider, route.endpoint.as_deref());
    match (key, &route.endpoint) {
        (Some(key), endpoint) => Some(Access { endpoint: endpoint.clone(), key: Some(key) }),
        (None, Some(_)) => None,
        // An address that held a secret was not stored: whatever is offered now is it.
        (None, None) => {
            let newest = services.credentials.newest(workspace, &provider);
            (newest.key.is_some() || newest.endpoint.is_some()).then_some(newest)
        }
    }
}

/// Resolves the model of a route for the length of a turn.
pub(crate) async fn resolve(
    profile: &Profile,
    route: &Route,
    access: &Access,
) -> Result<(Arc<dyn ModelDriver>, Arc<dyn LanguageModel>), TurnFailure> {
    let driver = driver_of(profile, &route.model)?;
    let model = driver.resolve(route.model.name(), access).await?;
    Ok((Arc::clone(driver), model))
}

/// True for an address with user information in it.
fn holds_secret(url: &str) -> bool {
    url.split_once("://")
        .map_or(url, |(_, rest)| rest)
        .split(['/', '?', '#'])
        .next()
        .is_some_and(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_agent_has_a_valid_name() {
        assert!(AgentName::parse(MAIN_AGENT).is_ok());
    }

    #[test]
    fn who_set_something_in_vain_is_told_of_that_and_not_to_set_it() {
        let plain = nothing_found(&["X_API_KEY", "X_BASE_URL"], &[], &[]);
        assert!(plain.contains("X_API_KEY, X_BASE_URL") && plain.contains("set one of them"), "{plain}");
        let fault = "X_BASE_URL is set, but http://h/v1 does not answer".to_owned();
        let told = nothing_found(&["X_BASE_URL"], std::slice::from_ref(&fault), &["/c: no key `m`".into()]);
        assert!(told.contains(&fault) && !told.contains("set one of them"), "{told}");
        assert!(told.ends_with("besides, /c: no key `m`"), "{told}");
    }

    #[test]
    fn an_address_with_user_information_counts_as_a_secret() {
        assert!(holds_secret("http://user:pass@host/v1"));
        assert!(!holds_secret("http://host/v1?x=a@b"));
        assert!(!holds_secret("http://127.0.0.1:8080/v1"));
    }
}
