//! Owns the address of a server: host and port, read from `http://…` or `ws://…`.
//! Never resolves a name.
//! Tested below.

use std::fmt;
use std::str::FromStr;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerUrl {
    host: String,
    port: u16,
}

/// Why a text is no address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// TLS is not spoken.
    #[error(
        "`{0}` asks for TLS, which the client does not speak: use http://host:port, through a tunnel if need be"
    )]
    Tls(String),
    /// It has another form.
    #[error("`{0}` is no address of a server: write http://host:port")]
    Form(String),
}

impl ServerUrl {
    /// The address of a port of a host.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The host, an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as they stand in a `Host` header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The address of the socket.
    pub(crate) fn socket(&self) -> String {
        format!("ws://{}/rpc", self.authority())
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let form = || UrlError::Form(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(form)?;
        match scheme {
            "http" | "ws" => {}
            "https" | "wss" => return Err(UrlError::Tls(text.to_owned())),
            _ => return Err(form()),
        }
        let authority = match rest.split_once('/') {
            None => rest,
            Some((authority, "" | "rpc")) => authority,
            Some(_) => return Err(form()),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(form)?,
            None => authority.rsplit_once(':').ok_or_else(form)?,
        };
        let is_bare_ipv6 = !authority.starts_with('[') && host.contains(':');
        let has_odd =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '?' | '#' | '[' | ']');
        if host.is_empty() || is_bare_ipv6 || host.chars().any(has_odd) {
            return Err(form());
        }
        let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(form)?;
        Ok(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_or_without_its_path() {
        for text in
            ["http://127.0.0.1:80", "http://127.0.0.1:80/", "ws://127.0.0.1:80/rpc", "ws://127.0.0.1:80"]
        {
            assert_eq!(text.parse::<ServerUrl>().unwrap(), ServerUrl::new("127.0.0.1", 80), "{text}");
        }
        let v6: ServerUrl = "http://[::1]:9".parse().unwrap();
        assert_eq!((v6.host(), v6.port(), v6.to_string()), ("::1", 9, "http://[::1]:9".to_owned()));
        assert_eq!(v6.socket(), "ws://[::1]:9/rpc");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "127.0.0.1:80",
            "http://",
            "http://host",
            "http://host:0",
            "http://host:99999",
            "http://u@h:1",
            "http://h:1/x",
            "http://::1:80",
            "ftp://h:1",
        ] {
            assert!(matches!(text.parse::<ServerUrl>(), Err(UrlError::Form(_))), "{text}");
        }
        assert!(matches!("https://h:1".parse::<ServerUrl>(), Err(UrlError::Tls(_))));
    }
}
