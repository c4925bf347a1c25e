//! Owns what a process may know of the environment: which variables a session takes over from its client, and
//! which of them reach a process.
//! Never reads the environment itself. Tested below.

use std::collections::BTreeMap;

use crate::redact::SecretSet;

/// Variables a session may take over from its client; a `*` at the end stands for any rest. An allow list
/// and not only a deny list: nobody can name every variable that holds a secret.
pub const SESSION_ENVIRONMENT_ALLOW: &[&str] = &[
    // Who and where.
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TEMP",
    "TMP",
    "TMPDIR",
    "USER",
    "XDG_*",
    // Language, time and terminal.
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "NO_COLOR",
    "TERM",
    "TZ",
    // The socket of an agent that signs without handing out its keys.
    "SSH_AUTH_SOCK",
    // Chosen toolchains.
    "CARGO_HOME",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "VIRTUAL_ENV",
    // The way out; an address with a password in it is left out by value.
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Test builds only: tests find their processes by such a variable.
const TEST_PREFIX: &str = "GENT_TEST_";

/// Ends of names that hold secrets, with and without something before them.
const DENIED_ENDINGS: &[&str] = &[
    "ACCESS_KEY",
    "API_KEY",
    "APIKEY",
    "AUTH_KEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "MASTER_KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "SECRET_KEY",
    "TOKEN",
];

/// Names that hold secrets and do not look like it.
const DENIED_NAMES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "CONNECTION_STRING",
    "DATABASE_URL",
    "GENT_DATABASE_URL",
    "GENT_TOKEN",
    "GITHUB_PAT",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "NPM_CONFIG__AUTH",
    "PGPASSFILE",
    "REDIS_URL",
];

/// What keeps programs from asking somebody who is not there. A session or a request may say otherwise.
const NOBODY_IS_THERE: &[(&str, &str)] = &[
    ("GCM_INTERACTIVE", "never"),
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
];

/// Where programs are looked for when no session says so.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What decides over the environment of one process.
#[derive(Debug)]
pub struct SpawnPolicy<'a> {
    /// The session's variables.
    pub base: &'a BTreeMap<String, String>,
    /// No variable whose value holds one of these passes.
    pub secrets: &'a SecretSet,
    /// Variables of this process alone: never filtered; `None` removes.
    pub explicit: &'a BTreeMap<String, Option<String>>,
    /// The session's time zone, where it has one. An explicit `TZ` is above it.
    pub time_zone: Option<&'a str>,
}

/// The variables of a client's environment that a session takes over: on the allow list, not on the deny list.
pub fn session_environment<N, V>(offered: impl IntoIterator<Item = (N, V)>) -> BTreeMap<String, String>
where
    N: Into<String>,
    V: Into<String>,
{
    offered
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .filter(|(name, value)| may_pass(name, value))
        .collect()
}

/// The whole environment of a process: the session's variables through deny list, allow list and known
/// secrets, then the explicit ones, then the time zone.
pub fn spawn_environment(policy: &SpawnPolicy<'_>) -> BTreeMap<String, String> {
    let mut environment: BTreeMap<String, String> =
        NOBODY_IS_THERE.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    environment.insert("PATH".into(), DEFAULT_PATH.into());
    environment.insert("TERM".into(), "dumb".into());
    environment.extend(
        policy
            .base
            .iter()
            .filter(|(name, value)| may_pass(name, value) && !policy.secrets.is_found_in(value))
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    if let Some(zone) = policy.time_zone {
        environment.insert("TZ".into(), zone.to_owned());
    }
    for (name, value) in policy.explicit {
        match value {
            Some(value) => environment.insert(name.clone(), value.clone()),
            None => environment.remove(name),
        };
    }
    environment
}

fn may_pass(name: &str, value: &str) -> bool {
    !is_denied(name) && is_allowed(name) && !(is_address(name) && value.contains('@'))
}

fn is_allowed(name: &str) -> bool {
    if cfg!(debug_assertions) && name.starts_with(TEST_PREFIX) {
        return true;
    }
    // Proxies are commonly written in small letters.
    let upper = name.to_ascii_uppercase();
    let name = if is_address(&upper) || upper == "NO_PROXY" { upper.as_str() } else { name };
    SESSION_ENVIRONMENT_ALLOW.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *allowed,
    })
}

fn is_address(name: &str) -> bool {
    name.eq_ignore_ascii_case("HTTP_PROXY") || name.eq_ignore_ascii_case("HTTPS_PROXY")
}

fn is_denied(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if DENIED_NAMES.contains(&upper.as_str()) || has_denied_ending(&upper) {
        return true;
    }
    // `Section__BotToken` is how configuration libraries spell `section.botToken`.
    name.rsplit_once("__").is_some_and(|(_, key)| {
        let key = snake_case(key);
        DENIED_NAMES.contains(&key.as_str()) || has_denied_ending(&key)
    })
}

fn has_denied_ending(upper: &str) -> bool {
    DENIED_ENDINGS.iter().any(|ending| {
        upper.strip_suffix(ending).is_some_and(|before| before.is_empty() || before.ends_with('_'))
    })
}

/// `BotToken` → `BOT_TOKEN`.
fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    let mut was_lower = false;
    for letter in key.chars() {
        if letter.is_ascii_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        snake.push(letter.to_ascii_uppercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn spawned(base: &[(&str, &str)], explicit: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
        let explicit = explicit.iter().map(|(name, value)| ((*name).into(), value.map(Into::into))).collect();
        let policy = SpawnPolicy {
            base: &pairs(base),
            secrets: &SecretSet::of(["sk-known-secret"]),
            explicit: &explicit,
            time_zone: None,
        };
        spawn_environment(&policy)
    }

    #[test]
    fn names_that_hold_secrets_are_denied_in_every_spelling() {
        for name in [
            "OPENAI_API_KEY",
            "openai_api_key",
            "API_KEY",
            "TOKEN",
            "GITHUB_TOKEN",
            "CLIENT_SECRET",
            "PGPASSWORD_PASSWORD",
            "PASSWORD",
            "Telegram__BotToken",
            "Section__ApiKey",
            "SECTION__API_KEY",
            "App__Password",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "AWS_SESSION_TOKEN",
            "APP_MASTER_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "DATABASE_URL",
            "Db__ConnectionString",
            "GENT_DATABASE_URL",
            "GENT_TOKEN",
            "NPM_CONFIG__AUTH",
            "GITHUB_PAT",
            // On the allow list by its beginning, and still not let through.
            "LC_TOKEN",
            "XDG_API_KEY",
        ] {
            assert!(is_denied(name), "{name}");
            assert_eq!(session_environment([(name, "x")]), BTreeMap::new(), "{name}");
        }
        for name in ["PATH", "TOKENIZER", "LC_ALL", "KEYBOARD", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK"] {
            assert!(!is_denied(name), "{name}");
        }
    }

    #[test]
    fn a_session_takes_over_what_is_on_the_list_and_nothing_else() {
        let taken = session_environment([
            ("PATH", "/bin"),
            ("VIRTUAL_ENV", "/venv"),
            ("CONDA_PREFIX", "/conda"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("SSH_AUTH_SOCK", "/agent"),
            ("TERM", "xterm"),
            ("APP_MASTER_KEY", "no"),
            ("SOMETHING_NEW", "no"),
            ("LD_PRELOAD", "no"),
            ("http_proxy", "http://proxy:3128"),
            ("HTTPS_PROXY", "http://user:word@proxy:3128"),
        ]);
        let names: Vec<&str> = taken.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "CONDA_PREFIX",
                "LANG",
                "LC_ALL",
                "PATH",
                "SSH_AUTH_SOCK",
                "TERM",
                "TZ",
                "VIRTUAL_ENV",
                "http_proxy"
            ]
        );
    }

    #[test]
    fn the_lists_hold_again_when_a_process_starts_whatever_the_session_has_stored() {
        let environment = spawned(
            &[("PATH", "/bin"), ("OPENAI_API_KEY", "x"), ("ODD", "x"), ("LANG", "sk-known-secret")],
            &[],
        );
        assert_eq!(environment.get("PATH").map(String::as_str), Some("/bin"));
        for name in ["OPENAI_API_KEY", "ODD", "LANG"] {
            assert!(!environment.contains_key(name), "{name}");
        }
    }

    #[test]
    fn explicit_variables_are_never_filtered_and_remove_what_they_leave_empty() {
        let explicit = [("MY_TOKEN", Some("sk-known-secret")), ("TERM", None), ("GIT_PAGER", Some("less"))];
        let environment = spawned(&[("TERM", "xterm")], &explicit);
        assert_eq!(environment.get("MY_TOKEN").map(String::as_str), Some("sk-known-secret"));
        assert_eq!(environment.get("GIT_PAGER").map(String::as_str), Some("less"));
        assert!(!environment.contains_key("TERM"));
    }

    #[test]
    fn nothing_is_left_that_would_ask_somebody() {
        let environment = spawned(&[], &[]);
        assert_eq!(
            environment,
            pairs(&[
                ("GCM_INTERACTIVE", "never"),
                ("GIT_EDITOR", "true"),
                ("GIT_PAGER", "cat"),
                ("GIT_TERMINAL_PROMPT", "0"),
                ("PAGER", "cat"),
                ("PATH", DEFAULT_PATH),
                ("TERM", "dumb"),
            ])
        );
    }

    #[test]
    fn the_time_zone_of_the_session_is_above_its_environment_and_below_the_request() {
        let (base, secrets) = (pairs(&[("TZ", "UTC")]), SecretSet::default());
        let zone = |explicit: &BTreeMap<String, Option<String>>| {
            let policy =
                SpawnPolicy { base: &base, secrets: &secrets, explicit, time_zone: Some("Asia/Tokyo") };
            spawn_environment(&policy).remove("TZ")
        };
        assert_eq!(zone(&BTreeMap::new()).as_deref(), Some("Asia/Tokyo"));
        let asked = BTreeMap::from([("TZ".to_owned(), Some("Europe/Berlin".to_owned()))]);
        assert_eq!(zone(&asked).as_deref(), Some("Europe/Berlin"));
    }
}
