//! Owns the credentials that clients have offered since the server started: in memory, by workspace, each bound
//! to the address it came with. Never stores, logs or shows one. Tested below.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gent_extension_api::{Access, CredentialSpec};
use gent_protocol::{OfferCredentials, OfferedCredentials, ProviderId, Secret, WorkspaceId};

use crate::limits::CREDENTIAL_WORKSPACES;

/// What clients have offered. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Credentials(Arc<Mutex<Offers>>);

#[derive(Default)]
struct Offers {
    by_workspace: HashMap<WorkspaceId, HashMap<ProviderId, Vec<Access>>>,
    /// The providers of each workspace's newest offer: among them a default is looked for.
    newest: HashMap<WorkspaceId, Vec<ProviderId>>,
    order: Vec<WorkspaceId>,
    /// Offers since the server started.
    count: u64,
}

impl Credentials {
    fn offers(&self) -> std::sync::MutexGuard<'_, Offers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a client offers. A provider whose variables it does not have keeps what was offered before. What
    /// cannot be used is ignored, and so is a key whose address cannot be: it must not go to another one.
    pub(crate) fn offer(
        &self,
        workspace: &WorkspaceId,
        specs: &[(ProviderId, CredentialSpec)],
        offer: OfferCredentials,
    ) -> OfferedCredentials {
        let variable = |name: Option<&'static str>| {
            let value = offer.variables.get(name?)?;
            (!value.expose().trim().is_empty()).then(|| value.clone())
        };
        let mut offers = self.offers();
        offers.count += 1;
        let mut accepted = Vec::new();
        let mut offered = Vec::new();
        for (provider, spec) in specs {
            let key = variable(spec.key_variable);
            let endpoint = variable(spec.endpoint_variable);
            let is_usable = |value: &Secret| !value.expose().trim().contains(char::is_control);
            if endpoint.as_ref().is_some_and(|url| !is_usable(url) || !is_http(url.expose().trim())) {
                continue;
            }
            let key = key.filter(is_usable);
            accepted.extend(key.as_ref().and(spec.key_variable).map(str::to_owned));
            accepted.extend(endpoint.as_ref().and(spec.endpoint_variable).map(str::to_owned));
            if key.is_none() && endpoint.is_none() {
                continue;
            }
            let endpoint = endpoint.map(|url| url.expose().trim().trim_end_matches('/').to_owned());
            let of_provider = offers
                .by_workspace
                .entry(workspace.clone())
                .or_default()
                .entry(provider.clone())
                .or_default();
            of_provider.retain(|known| known.endpoint != endpoint);
            of_provider.push(Access { endpoint, key });
            offered.push(provider.clone());
            // A handful of addresses for one provider is a person changing their mind; more is a mistake.
            if of_provider.len() > 8 {
                of_provider.remove(0);
            }
        }
        // An offer of nothing takes no place among those that are kept.
        if !offered.is_empty() {
            offers.newest.insert(workspace.clone(), offered);
            offers.order.retain(|known| known != workspace);
            offers.order.push(workspace.clone());
        }
        if offers.order.len() > CREDENTIAL_WORKSPACES {
            let forgotten = offers.order.remove(0);
            offers.by_workspace.remove(&forgotten);
            offers.newest.remove(&forgotten);
        }
        let is_known = |name: &String| accepted.contains(name);
        let ignored = offer.variables.keys().filter(|name| !is_known(name)).cloned().collect();
        OfferedCredentials { accepted, ignored }
    }

    /// The access to a provider that the workspace's newest offer held: what a default may be chosen by. An older
    /// offer serves only who names its provider.
    pub(crate) fn for_default(&self, workspace: &WorkspaceId, provider: &ProviderId) -> Access {
        let is_newest = self.offers().newest.get(workspace).is_some_and(|held| held.contains(provider));
        if is_newest { self.newest(workspace, provider) } else { Access::default() }
    }

    /// The newest access to a provider that was offered for a workspace.
    pub(crate) fn newest(&self, workspace: &WorkspaceId, provider: &ProviderId) -> Access {
        let offers = self.offers();
        let of_provider = offers.by_workspace.get(workspace).and_then(|known| known.get(provider));
        of_provider.and_then(|known| known.last()).cloned().unwrap_or_default()
    }

    /// The key that was offered for exactly this address.
    pub(crate) fn key_for(
        &self,
        workspace: &WorkspaceId,
        provider: &ProviderId,
        endpoint: Option<&str>,
    ) -> Option<Secret> {
        let offers = self.offers();
        let of_provider = offers.by_workspace.get(workspace)?.get(provider)?;
        of_provider.iter().rev().find(|known| known.endpoint.as_deref() == endpoint)?.key.clone()
    }

    /// How many offers there have been: whoever missed a key looks again when this has changed.
    pub(crate) fn count(&self) -> u64 {
        self.offers().count
    }

    /// Something has been offered for a workspace since the server started.
    pub(crate) fn has_offer(&self, workspace: &WorkspaceId) -> bool {
        self.offers().by_workspace.contains_key(workspace)
    }
}

/// Whether a text is an `http` or `https` address with a host.
fn is_http(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let is_scheme = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_scheme
        && !rest.starts_with(['/', '?', '#', ':'])
        && !rest.is_empty()
        && !rest.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: CredentialSpec =
        CredentialSpec { key_variable: Some("X_API_KEY"), endpoint_variable: Some("X_BASE_URL") };

    fn offer(variables: &[(&str, &str)]) -> OfferCredentials {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value)));
        OfferCredentials { variables: pairs.collect() }
    }

    #[test]
    fn a_key_is_given_only_to_the_address_and_the_workspace_it_came_with() {
        let credentials = Credentials::default();
        let provider = ProviderId::parse("x").unwrap();
        let here = WorkspaceId::parse("0".repeat(64)).unwrap();
        let elsewhere = WorkspaceId::parse("1".repeat(64)).unwrap();
        let specs = [(provider.clone(), SPEC)];
        let taken = credentials.offer(
            &here,
            &specs,
            offer(&[("X_API_KEY", "secret"), ("X_BASE_URL", "http://a/v1/"), ("OTHER", "1")]),
        );
        assert_eq!(taken.accepted, ["X_API_KEY", "X_BASE_URL"]);
        assert_eq!(taken.ignored, ["OTHER"]);
        assert_eq!(credentials.key_for(&here, &provider, Some("http://a/v1")), Some(Secret::new("secret")));
        assert_eq!(credentials.key_for(&here, &provider, None), None);
        assert_eq!(credentials.key_for(&elsewhere, &provider, Some("http://a/v1")), None);
        credentials.offer(&here, &specs, offer(&[("X_API_KEY", "other")]));
        assert_eq!(credentials.newest(&here, &provider).endpoint, None);
        assert_eq!(credentials.key_for(&here, &provider, Some("http://a/v1")), Some(Secret::new("secret")));
    }

    #[test]
    fn an_offer_of_nothing_takes_nobodys_place() {
        let credentials = Credentials::default();
        let provider = ProviderId::parse("x").unwrap();
        let specs = [(provider.clone(), SPEC)];
        let here = WorkspaceId::parse("0".repeat(64)).unwrap();
        credentials.offer(&here, &specs, offer(&[("X_API_KEY", "k")]));
        for other in 1..=CREDENTIAL_WORKSPACES {
            credentials.offer(&WorkspaceId::parse(format!("{other:064x}")).unwrap(), &specs, offer(&[]));
        }
        assert_eq!(credentials.key_for(&here, &provider, None), Some(Secret::new("k")));
    }

    #[test]
    fn what_cannot_be_used_is_ignored_and_a_key_goes_to_no_other_address_than_its_own() {
        let credentials = Credentials::default();
        let provider = ProviderId::parse("x").unwrap();
        let here = WorkspaceId::parse("0".repeat(64)).unwrap();
        let specs = [(provider.clone(), SPEC)];
        for url in ["ftp://a/v1", "a:80", "http://", "https:///v1", "http://a b", "http://a/\u{7}v1"] {
            let taken = credentials.offer(&here, &specs, offer(&[("X_API_KEY", "k"), ("X_BASE_URL", url)]));
            assert_eq!((taken.accepted.len(), taken.ignored.len()), (0, 2), "{url}");
        }
        let taken = credentials.offer(&here, &specs, offer(&[("X_API_KEY", "a\r\nb")]));
        assert_eq!(taken.ignored, ["X_API_KEY"]);
        assert!(!credentials.has_offer(&here));
        let taken =
            credentials.offer(&here, &specs, offer(&[("X_API_KEY", "a\0b"), ("X_BASE_URL", "HTTPS://a")]));
        assert_eq!((taken.accepted, taken.ignored), (vec!["X_BASE_URL".into()], vec!["X_API_KEY".into()]));
        assert_eq!(credentials.newest(&here, &provider).key, None);
    }

    #[test]
    fn a_default_is_looked_for_in_the_newest_offer_alone() {
        let credentials = Credentials::default();
        let (old, new) = (ProviderId::parse("old").unwrap(), ProviderId::parse("new").unwrap());
        let here = WorkspaceId::parse("0".repeat(64)).unwrap();
        let spec = |key: &'static str| CredentialSpec { key_variable: Some(key), endpoint_variable: None };
        let specs = [(old.clone(), spec("OLD_API_KEY")), (new.clone(), spec("NEW_API_KEY"))];
        credentials.offer(&here, &specs, offer(&[("OLD_API_KEY", "first")]));
        credentials.offer(&here, &specs, offer(&[("NEW_API_KEY", "second")]));
        assert_eq!(credentials.for_default(&here, &old), Access::default());
        assert!(credentials.for_default(&here, &new).key.is_some());
        assert!(credentials.newest(&here, &old).key.is_some(), "whoever names it still has it");
    }
}
