//! Owns who may come in: the tables of hosts and origins and the comparison of tokens. Pure.
//! Never reads a request itself and never says which part of a token was wrong.
//! Tested below.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use subtle::ConstantTimeEq;

/// Origins of web pages that may connect. None: a program sends no `Origin`, a page always does.
pub(crate) const ORIGINS: &[&str] = &[];

/// The subprotocol prefix under which a browser, which cannot set headers, brings its token.
const TOKEN_PROTOCOL: &str = "gent.token.";

/// What a refused request is answered: a status and one sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The `Host` is not ours: the request was meant for another name.
    Host,
    /// A web page of a place that nobody allowed.
    Origin,
    /// No token, a wrong one, or one of an earlier start.
    Token,
    /// Not an upgrade to a socket.
    Upgrade,
}

impl Refusal {
    /// The status of the answer.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Host | Self::Origin => 403,
            Self::Token => 401,
            Self::Upgrade => 426,
        }
    }

    /// The body of the answer.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Host => "This Host is not served here: use the URL in server.json.",
            Self::Origin => "Web pages of this Origin may not connect.",
            Self::Token => {
                "The token is missing, wrong or of an earlier start: send the content of the token file as \
                 `Authorization: Bearer`."
            }
            Self::Upgrade => "This address takes WebSocket connections only: send an upgrade request.",
        }
    }
}

/// The names under which a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hosts {
    port: u16,
    extra: Option<String>,
}

impl Hosts {
    /// Loopback and, where it is another, the host that was asked for; always with the port that is listened on.
    pub(crate) fn new(host: &str, port: u16) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Self { port, extra: (!host.is_empty()).then(|| host.to_ascii_lowercase()) }
    }

    /// Whether a request may name `host`, the whole value of its header. `local` is the address it came in on: when
    /// the server listens on every address, a client may name the one it dialled, which no foreign name can be.
    pub(crate) fn allow(&self, host: Option<&str>, local: Option<IpAddr>) -> bool {
        let Some((name, port)) = host.and_then(split_host) else { return false };
        if port.unwrap_or(80) != self.port {
            return false;
        }
        let name = name.to_ascii_lowercase();
        if name == "localhost" || self.extra.as_deref() == Some(&*name) {
            return true;
        }
        let Ok(address) = name.parse::<IpAddr>() else { return false };
        let is_everywhere = self.extra.as_deref().and_then(|extra| extra.parse::<IpAddr>().ok());
        address == IpAddr::V4(Ipv4Addr::LOCALHOST)
            || address == IpAddr::V6(Ipv6Addr::LOCALHOST)
            || (is_everywhere.is_some_and(|listened| listened.is_unspecified()) && local == Some(address))
    }
}

/// Name and port of a `Host` header; `None` for anything that is not exactly that.
fn split_host(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = if let Some(rest) = host.strip_prefix('[') {
        let (name, rest) = rest.split_once(']')?;
        name.parse::<Ipv6Addr>().ok()?;
        (name, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
    } else {
        match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        }
    };
    match port {
        None => Some((name, None)),
        // `parse` alone would take a sign.
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((name, Some(port.parse().ok()?)))
        }
        Some(_) => None,
    }
}

/// Whether a request with these `Origin` headers may connect: none, or exactly one of the list.
pub(crate) fn allow_origin(mut origins: impl Iterator<Item = Option<String>>, allowed: &[&str]) -> bool {
    match (origins.next(), origins.next()) {
        (None, _) => true,
        (Some(Some(origin)), None) => allowed.contains(&origin.as_str()),
        (Some(_), _) => false,
    }
}

/// The token of a request, from its `Authorization` or from its subprotocols.
pub(crate) fn offered_token<'a>(
    authorization: Option<&'a str>,
    protocols: Option<&'a str>,
) -> Option<&'a str> {
    if let Some(authorization) = authorization {
        let (scheme, token) = authorization.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim());
    }
    protocols?.split(',').find_map(|protocol| protocol.trim().strip_prefix(TOKEN_PROTOCOL))
}

/// Compares in a time that does not depend on where two tokens differ.
pub(crate) fn is_token(offered: Option<&str>, token: &str) -> bool {
    offered.is_some_and(|offered| bool::from(offered.as_bytes().ct_eq(token.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_with_our_port_are_hosts() {
        let hosts = Hosts::new("127.0.0.1", 4096);
        for host in ["127.0.0.1:4096", "localhost:4096", "LocalHost:4096", "[::1]:4096", "[0:0::1]:4096"] {
            assert!(hosts.allow(Some(host), None), "{host}");
        }
        for host in [
            "",
            "localhost",
            "localhost:4097",
            "localhost.:4096",
            "localhost.evil.com:4096",
            "evil.com:4096",
            "127.0.0.2:4096",
            "127.1:4096",
            "0.0.0.0:4096",
            "[::1]",
            "[::1]x:4096",
            "::1:4096",
            "localhost:+4096",
            "localhost:04096x",
            "user@localhost:4096",
            "localhost:4096:4096",
            "[::ffff:127.0.0.1]:4096",
            "null",
            "127.0.0.1:4096 ",
            "[localhost]:4096",
            "lоcalhost:4096",
            "localhost:",
        ] {
            assert!(!hosts.allow(Some(host), None), "{host}");
        }
        assert!(!hosts.allow(None, None), "HTTP/1.0 without Host");
    }

    #[test]
    fn a_port_may_be_left_out_only_where_it_is_the_scheme_s_own() {
        assert!(Hosts::new("127.0.0.1", 80).allow(Some("localhost"), None));
        assert!(!Hosts::new("127.0.0.1", 8080).allow(Some("localhost"), None));
    }

    #[test]
    fn the_host_that_was_asked_for_is_allowed_beside_loopback() {
        let hosts = Hosts::new("Devbox.lan", 9);
        assert!(hosts.allow(Some("devbox.LAN:9"), None));
        assert!(hosts.allow(Some("localhost:9"), None));
        assert!(!hosts.allow(Some("devbox.lan.evil.com:9"), None));
    }

    #[test]
    fn a_server_on_every_address_takes_the_address_that_was_dialled_and_no_other() {
        let hosts = Hosts::new("0.0.0.0", 9);
        let local = "10.0.0.7".parse().ok();
        assert!(hosts.allow(Some("10.0.0.7:9"), local));
        assert!(!hosts.allow(Some("10.0.0.8:9"), local));
        assert!(!hosts.allow(Some("evil.com:9"), local));
        assert!(!Hosts::new("127.0.0.1", 9).allow(Some("10.0.0.7:9"), local));
    }

    #[test]
    fn a_page_may_connect_only_from_a_listed_origin_written_exactly_so() {
        let one = |origin: &str| [Some(origin.to_owned())].into_iter();
        assert!(allow_origin([].into_iter(), ORIGINS), "a program");
        for origin in
            ["null", "http://localhost.evil.com", "http://localhost:9", "http://localhost", "", "file://"]
        {
            assert!(!allow_origin(one(origin), ORIGINS), "{origin}");
        }
        let allowed = &["http://localhost:9"];
        assert!(allow_origin(one("http://localhost:9"), allowed));
        for origin in [
            "http://LOCALHOST:9",
            "http://localhost.:9",
            "https://localhost:9",
            "http://localhost:90",
            "http://localhost:9/",
        ] {
            assert!(!allow_origin(one(origin), allowed), "{origin}");
        }
        let two = [Some("http://localhost:9".to_owned()), Some("null".to_owned())];
        assert!(!allow_origin(two.into_iter(), allowed), "two headers");
        assert!(!allow_origin([None].into_iter(), allowed), "a header that is no text");
    }

    #[test]
    fn a_token_comes_as_bearer_or_as_subprotocol_and_must_be_whole() {
        assert_eq!(offered_token(Some("Bearer abc"), None), Some("abc"));
        assert_eq!(offered_token(Some("bearer abc"), Some("gent.token.x")), Some("abc"));
        assert_eq!(offered_token(Some("Basic abc"), Some("gent.token.abc")), None);
        assert_eq!(offered_token(None, Some("gent, gent.token.abc")), Some("abc"));
        assert_eq!(offered_token(None, Some("gent")), None);
        assert!(is_token(Some("abc"), "abc"));
        for wrong in [None, Some(""), Some("ab"), Some("abcd"), Some("abd")] {
            assert!(!is_token(wrong, "abc"));
        }
    }
}
