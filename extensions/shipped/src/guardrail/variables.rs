//! Owns the names of variables that change what a later command runs or loads. Never reads one. Tested in `tests`.

use super::words::Word;

/// Names, or starts of names that end in `*`.
const CHANGES_WHAT_RUNS: &[&str] = &[
    "PATH",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "DYLD_*",
    "BASH_ENV",
    "ENV",
    "IFS",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "BASH_FUNC_*",
    "SHELL",
    "ZDOTDIR",
    "FPATH",
    "CDPATH",
    "HOME",
    "GLOBIGNORE",
    "BASH_ALIASES",
    "BASH_CMDS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_ASKPASS",
    "GIT_PROXY_COMMAND",
    "GIT_CONFIG*",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_DIR",
    "GIT_ALLOW_PROTOCOL",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "LESSOPEN",
    "LESSCLOSE",
    "BROWSER",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "RSYNC_RSH",
    "CVS_RSH",
    "MAKEFLAGS",
    "MAKEFILES",
    "GREP_OPTIONS",
    "TAR_OPTIONS",
    "GCONV_PATH",
    "OPENSSL_CONF",
];

/// Values that run nothing of one's own: `GIT_PAGER=cat`, `GIT_EDITOR=true`.
const HARMLESS_VALUES: &[&str] = &["", "cat", "true", ":", "false", "0", "1"];

/// Variables whose value is a program: only for them a harmless one is known.
const PROGRAM_VALUES: &[&str] = &[
    "GIT_PAGER",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "BROWSER",
    "RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "GIT_EXTERNAL_DIFF",
];

/// Options of the Node runtime that load nothing.
const NODE_MEMORY: &str = "--max-old-space-size=";

/// Whether setting `name` to `value` changes what later commands run.
pub(super) fn changes_what_runs(name: &str, value: &Word) -> bool {
    let is_listed = CHANGES_WHAT_RUNS.iter().any(|listed| match listed.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *listed == name,
    });
    if !is_listed {
        return false;
    }
    let Some(value) = value.known() else { return true };
    if PROGRAM_VALUES.contains(&name) && HARMLESS_VALUES.contains(&value) {
        return false;
    }
    if name.starts_with("GIT_CONFIG_") && value == "/dev/null" {
        return false;
    }
    let only_memory = value
        .strip_prefix(NODE_MEMORY)
        .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()));
    let only_jobs = name == "MAKEFLAGS"
        && value.strip_prefix("-j").is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()));
    !(only_jobs || name == "NODE_OPTIONS" && only_memory)
}
