//! Owns who a request goes to: address, key, and how messages for people name it.
//! Never lets a key travel to another host than the one it came with. Tested below.

use gent_extension_api::protocol::Secret;
use gent_extension_api::{Access, DriverError};
use reqwest::Url;

/// What is fixed about a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerSpec {
    /// Its name in messages.
    pub name: &'static str,
    /// The host that is the provider itself, where there is one.
    pub own_host: Option<&'static str>,
    /// The address without an endpoint variable.
    pub own_base: &'static str,
    /// The variable of the key.
    pub key_variable: Option<&'static str>,
    /// The variable of the address.
    pub endpoint_variable: Option<&'static str>,
}

/// Who a request goes to.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub spec: PeerSpec,
    /// The base address without a slash at its end.
    pub base: String,
    /// `host` or `host:port`, for messages and as the key of what was learned about it.
    pub authority: String,
    pub is_loopback: bool,
    pub is_https: bool,
    /// The provider itself and not a server that speaks its language.
    pub is_own: bool,
    pub key: Option<Secret>,
}

impl Peer {
    /// The peer that `access` describes. Fails when the address is none.
    pub(super) fn new(spec: PeerSpec, access: &Access) -> Result<Self, DriverError> {
        let address = access.endpoint.as_deref().map_or(spec.own_base, str::trim).trim_end_matches('/');
        let unusable = || DriverError::Unavailable {
            message: format!(
                "{} is not an address; set it to something like {}",
                spec.endpoint_variable.unwrap_or("the endpoint"),
                spec.own_base
            ),
        };
        // The parse error and the address itself stay out of the message: an address may hold a password.
        let Ok(url) = Url::parse(address) else { return Err(unusable()) };
        let (Some(host), "http" | "https") = (url.host_str(), url.scheme()) else { return Err(unusable()) };
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let key = access.key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty());
        Ok(Self {
            spec,
            base: address.to_owned(),
            is_loopback: is_loopback(host),
            is_https: url.scheme() == "https",
            is_own: spec.own_host.is_some_and(|own| own.eq_ignore_ascii_case(host)),
            authority,
            key: key.map(Secret::new),
        })
    }

    /// The address as a person may see it: whatever could hold a secret is left out.
    pub(super) fn shown_address(&self) -> String {
        let path = Url::parse(&self.base).map(|url| url.path().trim_end_matches('/').to_owned());
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, path.unwrap_or_default())
    }

    /// What messages call it.
    pub(super) fn label(&self) -> String {
        if self.is_own {
            self.spec.name.to_owned()
        } else {
            format!("the model server at {}", self.authority)
        }
    }
}

/// Whether `endpoint` is the provider itself: nothing else is known to need a key.
pub(super) fn is_own_endpoint(spec: PeerSpec, endpoint: Option<&str>) -> bool {
    let Some(endpoint) = endpoint else { return true };
    let host = Url::parse(endpoint.trim()).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| spec.own_host.is_some_and(|own| own.eq_ignore_ascii_case(&host)))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: PeerSpec = PeerSpec {
        name: "OpenAI",
        own_host: Some("api.openai.com"),
        own_base: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        endpoint_variable: Some("OPENAI_BASE_URL"),
    };

    fn access(endpoint: &str) -> Access {
        Access { endpoint: Some(endpoint.into()), key: Some(Secret::new(" sk-1\n")) }
    }

    #[test]
    fn an_address_is_taken_apart_once_and_a_key_loses_its_line_end() {
        let peer = Peer::new(SPEC, &access("http://127.0.0.1:9100/v1/")).unwrap();
        assert_eq!(
            (peer.base.as_str(), peer.authority.as_str()),
            ("http://127.0.0.1:9100/v1", "127.0.0.1:9100")
        );
        assert!(peer.is_loopback && !peer.is_own && !peer.is_https);
        assert_eq!(peer.key.unwrap().expose(), "sk-1");
        let own = Peer::new(SPEC, &Access::default()).unwrap();
        assert!(own.is_own && own.is_https && !own.is_loopback);
    }

    #[test]
    fn the_shown_address_holds_no_user_information_and_no_query() {
        let shown = |url: &str| Peer::new(SPEC, &access(url)).unwrap().shown_address();
        assert_eq!(shown("http://127.0.0.1:9/v1/"), "http://127.0.0.1:9/v1");
        assert_eq!(shown("https://user:hunter2@host?token=hunter3#x"), "https://host");
    }

    #[test]
    fn an_address_that_is_none_is_not_repeated_in_the_message() {
        let error = Peer::new(SPEC, &access("user:hunter2@host")).unwrap_err().to_string();
        assert!(error.starts_with("OPENAI_BASE_URL is not an address"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        assert!(Peer::new(SPEC, &access("file:///etc/passwd")).is_err());
    }

    #[test]
    fn only_the_provider_itself_is_known_to_need_a_key() {
        assert!(is_own_endpoint(SPEC, None));
        assert!(is_own_endpoint(SPEC, Some("https://API.openai.com/v1")));
        assert!(!is_own_endpoint(SPEC, Some("http://127.0.0.1:9100/v1")));
        assert!(is_loopback("[::1]") && is_loopback("localhost") && !is_loopback("127.example.org"));
    }
}
