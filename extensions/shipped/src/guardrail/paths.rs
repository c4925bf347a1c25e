//! Owns which names of files ask: secrets, whoever touches them, and files that decide what runs later, when they
//! are written. Never looks at a disk: a link or a name in a variable is not seen. Tested below and in `tests`.

use super::words::Word;
use super::{Class, Judge};

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It is read, or only named.
    Reads,
    /// It is made, changed, moved or removed.
    Writes,
}

/// Directories whose files are secrets.
const SECRET_DIRECTORIES: &[&str] =
    &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", "gcloud"];

/// Files that are secrets.
const SECRET_FILES: &[&str] = &[
    ".netrc",
    "_netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
    "kubeconfig",
    ".vault-token",
    ".my.cnf",
    ".env",
    ".envrc",
];

/// Files that are secrets at one place alone.
const SECRET_PATHS: &[&str] = &["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/.docker/config.json"];

/// Ends of names of keys.
const SECRET_ENDS: &[&str] = &[".pem", ".key", ".p12", ".pfx", ".ppk", ".jks", ".keystore", ".kdbx"];

/// Names without their ends that say what is inside.
const SECRET_STEMS: &[&str] = &["credentials", "credential", "secrets", "secret"];

/// Ends of files that are programs or text about secrets, not secrets.
const CODE_ENDS: &[&str] = &[
    "rs", "py", "js", "ts", "tsx", "jsx", "go", "java", "kt", "rb", "php", "c", "h", "cpp", "cs", "swift",
    "md", "html", "css", "sh", "sql", "lock", "pub", "snap", "vue", "scala", "ex", "hs", "proto",
];

/// Words in a name that mark a file as made for showing.
const SAMPLES: &[&str] = &["example", "sample", "template", "dist", "defaults"];

/// Files that decide what runs later. To write one asks.
const RUNS_LATER: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".gitconfig",
    ".gitmodules",
    ".vimrc",
    ".inputrc",
    ".tmux.conf",
    "crontab",
    "authorized_keys",
    "config.fish",
];

/// Directories whose files decide what runs later.
const RUNS_LATER_DIRECTORIES: &[&str] = &["hooks", "autostart", "LaunchAgents", "LaunchDaemons", "systemd"];

/// Bytes of a pattern that is tried. A name of a file has no more; a longer pattern is taken for one that matches.
const PATTERN_MAX_BYTES: usize = 255;

/// Names to try a pattern against.
const SECRET_NAMES: &[&str] = &[
    ".env",
    ".env.local",
    ".env.production",
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    ".git-credentials",
    "server.pem",
    "server.key",
    "credentials.json",
    "secrets.yaml",
    "secrets.json",
    "credentials",
    "secrets",
];

impl Judge {
    /// Judges the name of a file that a part touches.
    pub(super) fn path(&mut self, word: &Word, segment: &str, access: Access) {
        let name = word.prefix.as_str();
        if is_secret(word) {
            self.find(Class::Sensitive, segment, "touches a file that holds or may hold secrets");
        }
        if access == Access::Reads {
            return;
        }
        if word.is_dynamic()
            && (word.known_end().is_empty()
                || word.splits && word.prefix.is_empty() && !word.known_end().contains('/'))
        {
            return self.not_understood(segment, "writes to a file whose name is not known before it runs");
        }
        if is_device(name) {
            self.find(Class::Destructive, segment, "writes to a device");
        }
        if runs_later(name) || name.starts_with("/etc/") || name.starts_with("/boot/") {
            self.find(Class::Sensitive, segment, "changes a file that decides what runs later");
        }
    }
}

/// Whether a word names secrets, as itself, after `name=` or `@`, or as a pattern that would match one.
pub(super) fn is_secret(word: &Word) -> bool {
    // What curl and others read: `-d @file`, `--upload-file=file`, `if=file`, `file://…`, and `host:file` of scp.
    // Between two unknown parts only the written text says something.
    let written =
        if word.is_dynamic() && !word.raw.contains(['(', '`']) { word.raw.trim_matches('"') } else { "" };
    let texts = [word.prefix.as_str(), word.known_end(), written];
    texts.iter().flat_map(|text| text.split(['=', '@', ':', ','])).any(|path| {
        // The environment of a process holds its keys.
        let is_environment = path.starts_with("/proc/") && path.ends_with("/environ");
        if is_environment || SECRET_PATHS.iter().any(|secret| path.ends_with(secret)) {
            return true;
        }
        let mut components = path.split('/').filter(|component| !component.is_empty()).peekable();
        while let Some(component) = components.next() {
            let is_last = components.peek().is_none();
            if is_secret_component(component, is_last, word.pattern) {
                return true;
            }
        }
        false
    })
}

fn is_secret_component(component: &str, is_last: bool, pattern: bool) -> bool {
    let lower = component.to_ascii_lowercase();
    let name = lower.as_str();
    if pattern && name.contains(['*', '?', '[']) {
        if name.len() > PATTERN_MAX_BYTES {
            return true;
        }
        let says_something =
            name.starts_with('.') || name.chars().filter(char::is_ascii_alphanumeric).count() >= 2;
        if says_something && SECRET_NAMES.iter().any(|secret| matches_pattern(name, secret)) {
            return true;
        }
        return SECRET_ENDS.iter().any(|end| is_last && name.ends_with(end));
    }
    if SECRET_DIRECTORIES.contains(&name) {
        return true;
    }
    if !is_last || SAMPLES.iter().any(|sample| name.contains(sample)) {
        return false;
    }
    if SECRET_FILES.contains(&name) || name.starts_with(".env.") {
        return true;
    }
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    if CODE_ENDS.contains(&end) {
        return false;
    }
    let stem = name.trim_start_matches('.').split('.').next().unwrap_or_default();
    let is_key = name.strip_prefix("id_").is_some_and(|kind| {
        ["rsa", "dsa", "ecdsa", "ed25519", "xmss"].iter().any(|known| kind.starts_with(known))
    });
    is_key
        || SECRET_ENDS.iter().any(|secret| name.ends_with(secret) && name.len() > secret.len())
        || SECRET_STEMS.contains(&stem)
}

/// `*` and `?` as the shell has them; a class stands for any character.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let flat = flatten_classes(pattern);
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (flat.chars().collect(), name.chars().collect());
    // One row of a table: which beginnings of the name the pattern so far matches.
    let mut row: Vec<bool> = std::iter::once(true).chain(name.iter().map(|_| false)).collect();
    for p in pattern {
        let mut next = Vec::with_capacity(row.len());
        let mut so_far = false;
        for (at, matched) in row.iter().enumerate() {
            let before = at.checked_sub(1);
            let above = before.and_then(|before| row.get(before)).copied().unwrap_or(false);
            let same = before.and_then(|before| name.get(before)).is_some_and(|c| p == '?' || *c == p);
            so_far |= *matched;
            next.push(if p == '*' { so_far } else { above && same });
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}

fn flatten_classes(pattern: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == '[' && chars.clone().skip(1).any(|c| c == ']') {
            chars.next();
            chars.by_ref().take_while(|c| *c != ']').for_each(drop);
            out.push('?');
        } else {
            out.push(c);
        }
    }
    out
}

fn runs_later(path: &str) -> bool {
    let components: Vec<&str> = path.split('/').filter(|component| !component.is_empty()).collect();
    let name = components.last().copied().unwrap_or_default();
    let is_git_config = components.ends_with(&[".git", "config"]);
    let above = components.split_last().map(|(_, above)| above).unwrap_or_default();
    RUNS_LATER.contains(&name)
        || is_git_config
        || above.iter().any(|component| RUNS_LATER_DIRECTORIES.contains(component))
            && above.iter().any(|component| component.starts_with('.') || *component == "Library")
}

fn is_device(path: &str) -> bool {
    const HARMLESS: &[&str] =
        &["null", "stdout", "stderr", "stdin", "tty", "zero", "full", "random", "urandom"];
    path.strip_prefix("/dev/").is_some_and(|device| {
        !HARMLESS.contains(&device) && !device.starts_with("fd/") && !device.starts_with("shm/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_what_the_shell_would_match() {
        for (pattern, name, expected) in [
            (".e*", ".env", true),
            ("*", ".env", false),
            ("id_*", "id_rsa", true),
            ("id_[re]*", "id_rsa", true),
            ("?d_rsa", "id_rsa", true),
            ("*.rs", "id_rsa", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
