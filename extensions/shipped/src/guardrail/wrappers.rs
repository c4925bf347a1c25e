//! Owns the programs that run another one from their own words (`sudo`, `env`, `timeout`, …): where the other one
//! begins. Never judges that one. Tested in `tests`.

use super::options::{self, Grammar};
use super::words::Word;

/// A program that runs the rest of its words.
struct Wrapper {
    name: &'static str,
    grammar: Grammar,
    /// Words of its own after the options, such as the time of `timeout`.
    n_own: usize,
    /// The rest is text for a shell, not words.
    is_script: bool,
}

/// What a wrapper runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner<'a> {
    /// These words.
    Words(&'a [Word]),
    /// These words, joined and read by a shell.
    Script(&'a [Word]),
    /// Its options are not known, so nobody can say.
    Unknown,
}

const fn wrapper(
    name: &'static str,
    flags: &'static [&'static str],
    valued: &'static [&'static str],
    n_own: usize,
) -> Wrapper {
    Wrapper { name, grammar: Grammar { flags, valued }, n_own, is_script: false }
}

const fn script(
    name: &'static str,
    flags: &'static [&'static str],
    valued: &'static [&'static str],
) -> Wrapper {
    Wrapper { name, grammar: Grammar { flags, valued }, n_own: 0, is_script: true }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        "sudo",
        &[
            "-A",
            "-b",
            "-E",
            "-H",
            "-n",
            "-P",
            "-S",
            "-k",
            "-N",
            "--non-interactive",
            "--preserve-env",
            "--stdin",
        ],
        &[
            "-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-r", "-t", "--user", "--group", "--chdir",
            "--host",
        ],
        0,
    ),
    wrapper("doas", &["-n", "-L"], &["-u", "-C"], 0),
    wrapper("pkexec", &["--disable-internal-agent"], &["--user"], 0),
    wrapper("run0", &[], &["--user", "-u"], 0),
    wrapper(
        "env",
        &["-i", "-", "-0", "-v", "--ignore-environment", "--null"],
        &["-u", "-C", "--unset", "--chdir"],
        0,
    ),
    wrapper("command", &["-p"], &[], 0),
    wrapper("builtin", &[], &[], 0),
    wrapper("exec", &["-c", "-l"], &["-a"], 0),
    wrapper("nohup", &[], &[], 0),
    wrapper("setsid", &["-c", "-f", "-w", "--wait", "--fork", "--ctty"], &[], 0),
    wrapper("time", &["-p", "-v", "-a", "-l", "--verbose"], &["-f", "-o", "--format", "--output"], 0),
    wrapper(
        "timeout",
        &["--foreground", "--preserve-status", "-v", "--verbose", "-f", "-p"],
        &["-k", "-s", "--kill-after", "--signal"],
        1,
    ),
    wrapper(
        "gtimeout",
        &["--foreground", "--preserve-status", "-v"],
        &["-k", "-s", "--kill-after", "--signal"],
        1,
    ),
    wrapper(
        "nice",
        &["-0", "-1", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9"],
        &["-n", "--adjustment"],
        0,
    ),
    wrapper("ionice", &["-t"], &["-c", "-n", "--class", "--classdata"], 0),
    wrapper("chrt", &["-b", "-f", "-i", "-o", "-r", "-a", "-m", "-v"], &["-T", "-P", "-D"], 1),
    wrapper("taskset", &["-a"], &["-c"], 1),
    wrapper("stdbuf", &[], &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    wrapper("unbuffer", &["-p"], &[], 0),
    wrapper("catchsegv", &[], &[], 0),
    wrapper("caffeinate", &["-d", "-i", "-m", "-s", "-u"], &["-t", "-w"], 0),
    wrapper("chronic", &["-v", "-e"], &[], 0),
    wrapper("chroot", &["--skip-chdir"], &["--userspec", "--groups"], 1),
    wrapper("fakeroot", &["-u"], &["-l", "-s", "-i", "-b"], 0),
    wrapper("setarch", &["-R", "--addr-no-randomize"], &[], 1),
    wrapper("linux32", &[], &[], 0),
    wrapper("linux64", &[], &[], 0),
    wrapper("flock", &["-n", "-x", "-s", "-o", "-u", "-F", "-v"], &["-w", "-E", "--timeout"], 1),
    wrapper(
        "strace",
        &["-f", "-ff", "-c", "-C", "-q", "-t", "-tt", "-T", "-y", "-v"],
        &["-e", "-o", "-s", "-P"],
        0,
    ),
    wrapper("ltrace", &["-f", "-c", "-S"], &["-e", "-o", "-s"], 0),
    wrapper("busybox", &[], &[], 0),
    wrapper("toybox", &[], &[], 0),
    wrapper("xvfb-run", &["-a", "--auto-servernum"], &["-s", "-n", "-e"], 0),
    wrapper("dbus-run-session", &["--"], &[], 0),
    wrapper(
        "systemd-run",
        &["--user", "--scope", "--wait", "--pty", "-t", "-q", "-P", "--collect"],
        &["-p", "--unit"],
        0,
    ),
    wrapper("proxychains", &["-q"], &["-f"], 0),
    wrapper("torsocks", &[], &[], 0),
    wrapper("!", &[], &[], 0),
    script(
        "watch",
        &["-b", "-c", "-C", "-d", "-e", "-g", "-p", "-r", "-t", "-w", "-x", "--differences", "--no-title"],
        &["-n", "-q", "--interval"],
    ),
];

/// Programs with a word for "run the rest": `uv run pytest`.
const RUNNERS: &[(&str, &str)] = &[
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("pdm", "run"),
    ("hatch", "run"),
    ("rye", "run"),
    ("bundle", "exec"),
    ("mise", "exec"),
    ("mise", "x"),
    ("direnv", "exec"),
    ("asdf", "exec"),
    ("pnpm", "exec"),
    ("yarn", "exec"),
    ("npm", "exec"),
    ("conda", "run"),
    ("rustup", "run"),
    ("nix-shell", "--run"),
];

/// What the program `name` runs from `arguments`. `None`: it is no wrapper.
pub(super) fn look_through<'a>(name: &str, arguments: &'a [Word]) -> Option<Inner<'a>> {
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        let Some(at) = options::end(arguments, wrapper.grammar) else { return Some(Inner::Unknown) };
        // What is not known among its own words may be options, or several words.
        let own = arguments.get(..at).unwrap_or_default();
        let is_hidden = arguments.get(at).is_some_and(|word| word.is_dynamic() && word.may_be_option());
        if own.iter().any(|word| word.splits) || is_hidden && wrapper.n_own > 0 {
            return Some(Inner::Unknown);
        }
        let mut rest = arguments.get(at..).unwrap_or_default();
        // `env` and `sudo` take assignments in front of the program; no program has such a name.
        rest = rest.get(n_assignments(rest)..).unwrap_or_default();
        rest = rest.get(wrapper.n_own..).unwrap_or_default();
        return Some(if wrapper.is_script { Inner::Script(rest) } else { Inner::Words(rest) });
    }
    if name == "npx" || name == "bunx" || name == "uvx" {
        return Some(Inner::Words(after_options(arguments)));
    }
    let (_, word) = RUNNERS.iter().find(|(program, word)| {
        *program == name && arguments.iter().take(3).any(|argument| argument.known() == Some(word))
    })?;
    let at = arguments.iter().position(|argument| argument.known() == Some(word))?;
    let rest = arguments.get(at + 1..).unwrap_or_default();
    if *word == "--run" {
        return Some(Inner::Script(rest));
    }
    // These take a toolchain or a directory first.
    let own = usize::from(matches!(name, "rustup" | "direnv"));
    Some(Inner::Words(after_options(rest).get(own..).unwrap_or_default()))
}

/// How many words in front are assignments for the program.
pub(super) fn n_assignments(words: &[Word]) -> usize {
    words.iter().take_while(|word| is_assignment(&word.prefix)).count()
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn after_options(words: &[Word]) -> &[Word] {
    let at = words.iter().position(|word| !word.prefix.starts_with('-') || word.is_dynamic());
    at.and_then(|at| words.get(at..)).unwrap_or_default()
}
