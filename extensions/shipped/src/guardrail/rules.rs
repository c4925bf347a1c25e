//! Owns the tables of programs: which are destructive, which publish, which only name files. Data alone; what the
//! options of a program change stands in `programs` and `git`. Tested in `tests`.

use super::Class;

/// Shells. They run what they are given or read.
pub(super) const SHELLS: &[&str] = &[
    "bash",
    "sh",
    "zsh",
    "dash",
    "ksh",
    "mksh",
    "ash",
    "fish",
    "rbash",
    "csh",
    "tcsh",
    "yash",
    "pwsh",
    "powershell",
    "nu",
];

/// Interpreters of other languages, with the options after which a program stands in the words.
pub(super) const INTERPRETERS: &[(&str, &[&str])] = &[
    ("python", &["-c"]),
    ("pypy", &["-c"]),
    ("ipython", &["-c"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("node", &["-e", "-p", "--eval", "--print", "-r", "--require", "--import"]),
    ("nodejs", &["-e", "-p", "--eval", "--print"]),
    ("bun", &["-e", "--eval", "-p", "--print"]),
    ("deno", &["eval"]),
    ("tsx", &["-e", "--eval", "-p"]),
    ("ts-node", &["-e", "--eval", "-p"]),
    ("php", &["-r", "-B", "-R"]),
    ("lua", &["-e"]),
    ("luajit", &["-e"]),
    ("osascript", &["-e"]),
    ("tclsh", &[]),
    ("expect", &["-c"]),
    ("Rscript", &["-e"]),
    ("R", &["-e"]),
    ("julia", &["-e", "-E"]),
    ("guile", &["-c"]),
    ("elixir", &["-e"]),
    ("erl", &["-eval"]),
    ("ghc", &["-e"]),
    ("groovy", &["-e"]),
    ("scala", &["-e"]),
    ("jshell", &[]),
    ("gdb", &["-ex", "-x"]),
    ("vim", &["-c", "-S", "--cmd"]),
    ("vi", &["-c", "-S", "--cmd"]),
    ("nvim", &["-c", "-S", "--cmd"]),
    ("emacs", &["--eval", "--load", "-l"]),
    ("ed", &[]),
    ("ex", &["-c"]),
];

/// Programs that are destructive whatever their options say, and why.
pub(super) const DESTRUCTIVE: &[(&str, &str)] = &[
    ("dd", "copies raw data over files or devices"),
    ("pkill", "ends processes by name"),
    ("killall", "ends processes by name"),
    ("killall5", "ends all processes"),
    ("skill", "ends processes by name"),
    ("shred", "overwrites files for good"),
    ("srm", "overwrites files for good"),
    ("wipefs", "erases file systems"),
    ("blkdiscard", "erases a device"),
    ("fdisk", "changes partitions"),
    ("sfdisk", "changes partitions"),
    ("sgdisk", "changes partitions"),
    ("parted", "changes partitions"),
    ("mkswap", "formats a device"),
    ("shutdown", "stops the machine"),
    ("reboot", "stops the machine"),
    ("poweroff", "stops the machine"),
    ("halt", "stops the machine"),
    ("userdel", "removes a user"),
    ("dropdb", "removes a database"),
    ("git-filter-repo", "rewrites the history"),
    ("bfg", "rewrites the history"),
];

/// Programs that publish or destroy by a word of theirs.
pub(super) const SUBCOMMANDS: &[(&str, &[&str], Class, &str)] = &[
    ("npm", &["publish"], Class::External, "publishes a package"),
    ("npm", &["unpublish"], Class::Destructive, "takes a package back"),
    ("pnpm", &["publish"], Class::External, "publishes a package"),
    ("yarn", &["publish"], Class::External, "publishes a package"),
    ("yarn", &["npm", "publish"], Class::External, "publishes a package"),
    ("bun", &["publish"], Class::External, "publishes a package"),
    ("deno", &["publish"], Class::External, "publishes a package"),
    ("lerna", &["publish"], Class::External, "publishes packages"),
    ("cargo", &["publish"], Class::External, "publishes a crate"),
    ("cargo", &["yank"], Class::External, "takes a crate back"),
    ("cargo", &["release"], Class::External, "publishes a crate"),
    ("twine", &["upload"], Class::External, "publishes a package"),
    ("poetry", &["publish"], Class::External, "publishes a package"),
    ("uv", &["publish"], Class::External, "publishes a package"),
    ("flit", &["publish"], Class::External, "publishes a package"),
    ("hatch", &["publish"], Class::External, "publishes a package"),
    ("gem", &["push"], Class::External, "publishes a package"),
    ("helm", &["push"], Class::External, "publishes a chart"),
    ("helm", &["uninstall"], Class::Destructive, "removes a release"),
    ("vsce", &["publish"], Class::External, "publishes an extension"),
    ("docker", &["push"], Class::External, "publishes an image"),
    ("docker", &["image", "push"], Class::External, "publishes an image"),
    ("docker", &["compose", "push"], Class::External, "publishes images"),
    ("docker", &["system", "prune"], Class::Destructive, "removes data of containers"),
    ("docker", &["volume", "rm"], Class::Destructive, "removes data of containers"),
    ("docker", &["volume", "prune"], Class::Destructive, "removes data of containers"),
    ("podman", &["push"], Class::External, "publishes an image"),
    ("podman", &["volume", "rm"], Class::Destructive, "removes data of containers"),
    ("kubectl", &["delete"], Class::Destructive, "removes from a cluster"),
    ("terraform", &["destroy"], Class::Destructive, "removes infrastructure"),
    ("terraform", &["apply"], Class::External, "changes infrastructure"),
    ("tofu", &["destroy"], Class::Destructive, "removes infrastructure"),
    ("tofu", &["apply"], Class::External, "changes infrastructure"),
    ("systemctl", &["poweroff"], Class::Destructive, "stops the machine"),
    ("systemctl", &["reboot"], Class::Destructive, "stops the machine"),
];

/// Programs that name files without reading or changing what is in them: `ls .env` tells nothing.
pub(super) const NAMES_ONLY: &[&str] = &[
    "echo", "printf", "ls", "eza", "exa", "test", "[", "stat", "basename", "dirname", "which", "type", "pwd",
    "true", "false", ":", "realpath", "readlink", "du", "df", "tree", "sleep", "seq", "date", "uname",
    "hostname", "whoami",
];

/// Programs whose first word that is no option is a pattern, not a file.
pub(super) const PATTERN_FIRST: &[&str] =
    &["grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep", "sed", "gsed"];

/// Programs that change the files they name.
pub(super) const WRITERS: &[&str] = &[
    "rm", "cp", "mv", "ln", "install", "rsync", "scp", "chmod", "chown", "chgrp", "chattr", "setfacl", "tee",
    "sponge", "truncate", "unlink", "gcp", "gmv", "grm", "gln",
];

/// Words of the shell that stand for no program where a program is expected: the grammar read something else.
pub(super) const RESERVED: &[&str] = &[
    "{", "}", "then", "else", "elif", "fi", "do", "done", "esac", "coproc", "in", "case", "for", "while",
    "until", "if", "select", "function", "[[", "]]",
];
