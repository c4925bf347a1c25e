//! Owns the graph of extensions that serves a working directory: built once, leased for a turn.
//! An extension whose setup fails or panics contributes nothing and is reported; the others go on.
//! Never runs a tool. Tested below.

mod hooks;
mod prompt;

pub(crate) use hooks::{Projected, loop_open, project_turn, session_deleted, turn_after};
pub(crate) use prompt::{PromptInput, build_prompt};

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gent_extension_api::{
    AgentDefinition, Contribution, Extension, Hook, Host, HostFacts, LoopOpenHandler, ModelDriver,
    SessionDeletedHandler, SetupError, Tool, TurnAfterHandler, TurnProjectionHandler,
};
use gent_protocol::{AgentName, ExtensionId, ProviderId};
use tracing::warn;

use crate::limits::PROFILES;
use crate::turn::panic_message;

/// A tool with the extension it comes from.
#[derive(Clone)]
pub(crate) struct ProfileTool {
    pub(crate) tool: Arc<dyn Tool>,
    /// Its name at providers: `.` became `_`.
    pub(crate) wire_name: String,
    /// The extension.
    pub(crate) extension: ExtensionId,
    /// The extension's version, where it names one.
    pub(crate) revision: Option<String>,
}

/// The extensions of one place.
pub(crate) struct Profile {
    pub(crate) facts: Arc<HostFacts>,
    pub(crate) tools: Vec<ProfileTool>,
    pub(crate) agents: BTreeMap<AgentName, AgentDefinition>,
    /// In the order in which a default model is looked for.
    pub(crate) drivers: Vec<Arc<dyn ModelDriver>>,
    pub(crate) turn_projections: Vec<(ExtensionId, Arc<dyn TurnProjectionHandler>)>,
    pub(crate) turn_afters: Vec<(ExtensionId, Arc<dyn TurnAfterHandler>)>,
    pub(crate) loop_opens: Vec<(ExtensionId, Arc<dyn LoopOpenHandler>)>,
    pub(crate) session_deleteds: Vec<(ExtensionId, Arc<dyn SessionDeletedHandler>)>,
}

impl Profile {
    /// The driver of this id.
    pub(crate) fn driver(&self, id: &ProviderId) -> Option<&Arc<dyn ModelDriver>> {
        self.drivers.iter().find(|driver| driver.id() == *id)
    }
}

/// Where profiles come from. One for each working directory is kept; a lease is an `Arc`.
pub(crate) struct ProfileDirectory {
    extensions: Vec<Arc<dyn Extension>>,
    base: HostFacts,
    profiles: Mutex<Kept>,
    has_turn_after: AtomicBool,
}

#[derive(Default)]
struct Kept {
    by_cwd: HashMap<PathBuf, (u64, Arc<Profile>)>,
    uses: u64,
}

impl ProfileDirectory {
    /// Profiles of these extensions; `base` is what is true whatever the working directory.
    pub(crate) fn new(extensions: Vec<Arc<dyn Extension>>, base: HostFacts) -> Self {
        Self { extensions, base, profiles: Mutex::default(), has_turn_after: AtomicBool::new(false) }
    }

    /// The profile of a working directory.
    pub(crate) fn lease(&self, cwd: &Path) -> Arc<Profile> {
        let mut kept = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let now = kept.uses;
        if let Some((last_use, profile)) = kept.by_cwd.get_mut(cwd) {
            *last_use = now;
            return Arc::clone(profile);
        }
        let profile = Arc::new(self.build(cwd));
        if kept.by_cwd.len() >= PROFILES
            && let Some(oldest) =
                kept.by_cwd.iter().min_by_key(|(_, (used, _))| *used).map(|(cwd, _)| cwd.clone())
        {
            kept.by_cwd.remove(&oldest);
        }
        kept.by_cwd.insert(cwd.to_owned(), (now, Arc::clone(&profile)));
        profile
    }

    /// A profile that was leased has a handler of `turnAfter`.
    pub(crate) fn has_turn_after(&self) -> bool {
        self.has_turn_after.load(Ordering::Acquire)
    }

    /// The profile for what has no session: the home directory's, else the root's.
    pub(crate) fn lease_default(&self) -> Arc<Profile> {
        self.lease(self.base.home.as_deref().unwrap_or(Path::new("/")))
    }

    fn build(&self, cwd: &Path) -> Profile {
        let facts = HostFacts { cwd: cwd.to_owned(), ..self.base.clone() };
        let mut profile = Profile {
            facts: Arc::new(facts),
            tools: Vec::new(),
            agents: BTreeMap::new(),
            drivers: Vec::new(),
            turn_projections: Vec::new(),
            turn_afters: Vec::new(),
            loop_opens: Vec::new(),
            session_deleteds: Vec::new(),
        };
        for extension in &self.extensions {
            let mut registration = Registration {
                facts: Arc::clone(&profile.facts),
                contributions: Vec::new(),
                hooks: Vec::new(),
            };
            let setup = AssertUnwindSafe(|| {
                (extension.id(), extension.revision(), extension.setup(&mut registration))
            });
            let outcome = match catch_unwind(setup) {
                Ok((id, revision, Ok(()))) => admit(&mut profile, &id, revision, registration),
                Ok((id, _, Err(error))) => Err((id.to_string(), error)),
                Err(payload) => Err(("unknown".to_owned(), SetupError::new(panic_message(payload)))),
            };
            if let Err((id, error)) = outcome {
                warn!(extension.id = id, error = %error, "extension.degraded");
            }
        }
        self.has_turn_after.fetch_or(!profile.turn_afters.is_empty(), Ordering::AcqRel);
        profile
    }
}

/// Takes an extension's contributions in, all or none.
fn admit(
    profile: &mut Profile,
    id: &ExtensionId,
    revision: Option<String>,
    from: Registration,
) -> Result<(), (String, SetupError)> {
    let refuse = |message: String| Err((id.to_string(), SetupError::new(message)));
    for contribution in &from.contributions {
        match contribution {
            Contribution::Tool(tool) => {
                let declaration = tool.declaration();
                let wire = wire_name(&declaration.name);
                if profile.tools.iter().any(|known| known.wire_name == wire) {
                    return refuse(format!("the tool name {wire} is taken"));
                }
                if declaration.description.trim().is_empty() {
                    return refuse(format!("the tool {wire} has no description"));
                }
            }
            Contribution::Agent(agent) if profile.agents.contains_key(&agent.name) => {
                return refuse(format!("the agent name {} is taken", agent.name));
            }
            Contribution::ModelDriver(driver) if profile.driver(&driver.id()).is_some() => {
                return refuse(format!("the driver name {} is taken", driver.id()));
            }
            Contribution::Agent(_) | Contribution::ModelDriver(_) => {}
        }
    }
    for contribution in from.contributions {
        match contribution {
            Contribution::Tool(tool) => {
                let wire_name = wire_name(&tool.declaration().name);
                let (extension, revision) = (id.clone(), revision.clone());
                profile.tools.push(ProfileTool { tool, wire_name, extension, revision });
            }
            Contribution::Agent(agent) => {
                profile.agents.insert(agent.name.clone(), agent);
            }
            Contribution::ModelDriver(driver) => profile.drivers.push(driver),
        }
    }
    for hook in from.hooks {
        match hook {
            Hook::TurnProjection(handler) => profile.turn_projections.push((id.clone(), handler)),
            Hook::TurnAfter(handler) => profile.turn_afters.push((id.clone(), handler)),
            Hook::LoopOpen(handler) => profile.loop_opens.push((id.clone(), handler)),
            Hook::SessionDeleted(handler) => profile.session_deleteds.push((id.clone(), handler)),
        }
    }
    Ok(())
}

/// The name a provider takes.
pub(crate) fn wire_name(name: &str) -> String {
    name.replace('.', "_")
}

struct Registration {
    facts: Arc<HostFacts>,
    contributions: Vec<Contribution>,
    hooks: Vec<Hook>,
}

impl Host for Registration {
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Agents(&'static str, &'static [&'static str], bool);

    impl Extension for Agents {
        fn id(&self) -> ExtensionId {
            ExtensionId::parse(self.0).unwrap()
        }

        fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
            for name in self.1 {
                let name = AgentName::parse(name).unwrap();
                host.register(Contribution::Agent(AgentDefinition::new(name)));
            }
            assert!(!self.2, "setup breaks");
            Ok(())
        }
    }

    fn directory(extensions: Vec<Arc<dyn Extension>>) -> ProfileDirectory {
        let base = HostFacts {
            cwd: PathBuf::new(),
            home: None,
            gent_home: None,
            platform: "test".into(),
            shell: None,
        };
        ProfileDirectory::new(extensions, base)
    }

    #[test]
    fn an_extension_counts_whole_or_not_at_all_and_never_takes_another_down() {
        let directory = directory(vec![
            Arc::new(Agents("a", &["main"], false)),
            Arc::new(Agents("b", &["other", "main"], false)),
            Arc::new(Agents("c", &["third"], true)),
            Arc::new(Agents("d", &["fourth"], false)),
        ]);
        let profile = directory.lease(Path::new("/x"));
        let names: Vec<&str> = profile.agents.keys().map(AgentName::as_str).collect();
        assert_eq!(names, ["fourth", "main"]);
    }

    #[test]
    fn a_place_keeps_its_profile_and_the_one_unused_longest_leaves() {
        let directory = directory(vec![]);
        let first = directory.lease(Path::new("/0"));
        assert!(Arc::ptr_eq(&first, &directory.lease(Path::new("/0"))));
        for n in 1..=PROFILES {
            directory.lease(Path::new(&format!("/{n}")));
        }
        assert!(!Arc::ptr_eq(&first, &directory.lease(Path::new("/0"))));
    }
}
