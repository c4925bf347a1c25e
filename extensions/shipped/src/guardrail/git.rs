//! Owns the judgement of git: its options before the subcommand, what each subcommand destroys or publishes, and
//! what makes it run another program. Never other programs. Tested in `tests`.

use super::commands::Call;
use super::options::{self, Grammar};
use super::words::Word;
use super::{Class, Judge};

const GLOBAL: Grammar = Grammar {
    flags: &[
        "-p",
        "-P",
        "--paginate",
        "--no-pager",
        "--bare",
        "--no-replace-objects",
        "--literal-pathspecs",
        "--version",
        "--glob-pathspecs",
        "--noglob-pathspecs",
        "--icase-pathspecs",
        "--no-optional-locks",
        "--help",
        "-v",
        "-h",
        "--html-path",
        "--man-path",
        "--info-path",
        "--exec-path",
        "--no-lazy-fetch",
        "--no-advice",
    ],
    valued: &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--attr-source", "--config-env"],
};

/// Starts of names of settings that run nothing. All others ask: many of git's settings name a program.
const HARMLESS_SETTINGS: &[&str] = &[
    "user.name",
    "user.email",
    "user.signingkey",
    "color.",
    "advice.",
    "core.quotepath",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.filemode",
    "core.ignorecase",
    "core.longpaths",
    "core.abbrev",
    "core.symlinks",
    "core.precomposeunicode",
    "core.bare",
    "init.defaultbranch",
    "commit.gpgsign",
    "tag.gpgsign",
    "commit.verbose",
    "log.",
    "diff.algorithm",
    "diff.renames",
    "diff.renamelimit",
    "diff.noprefix",
    "diff.mnemonicprefix",
    "diff.colormoved",
    "diff.context",
    "merge.conflictstyle",
    "merge.ff",
    "merge.renames",
    "merge.renamelimit",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "push.autosetupremote",
    "push.followtags",
    "safe.directory",
    "gc.auto",
    "fetch.",
    "rebase.autosquash",
    "rebase.autostash",
    "rebase.updaterefs",
    "rerere.",
    "status.",
    "column.",
    "protocol.version",
    "branch.",
    "submodule.recurse",
    "http.postbuffer",
    "http.version",
    "pack.",
    "index.",
    "feature.",
    "help.autocorrect",
    "blame.",
    "grep.",
    "format.pretty",
    "i18n.",
    "checkout.",
    "clone.",
    "worktree.",
    "maintenance.auto",
    "notes.",
    "stash.",
    "tag.sort",
    "versionsort.",
    "transfer.",
];

/// Subcommands that are judged by what follows in this file, or are harmless. All others may be an alias, which may
/// be anything, or a program of its own.
const KNOWN: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "credential",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fetch",
    "filter-branch",
    "fmt-merge-msg",
    "for-each-ref",
    "for-each-repo",
    "format-patch",
    "fsck",
    "gc",
    "get-tar-commit-id",
    "grep",
    "hash-object",
    "help",
    "hook",
    "index-pack",
    "init",
    "interpret-trailers",
    "lfs",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "mailinfo",
    "maintenance",
    "merge",
    "merge-base",
    "merge-file",
    "merge-tree",
    "mergetool",
    "mktag",
    "mktree",
    "mv",
    "name-rev",
    "notes",
    "pack-objects",
    "pack-refs",
    "patch-id",
    "prune",
    "prune-packed",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-email",
    "shortlog",
    "show",
    "show-branch",
    "show-index",
    "show-ref",
    "sparse-checkout",
    "stage",
    "stash",
    "status",
    "stripspace",
    "submodule",
    "subtree",
    "svn",
    "switch",
    "symbolic-ref",
    "tag",
    "unpack-objects",
    "update-index",
    "update-ref",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Destructive options: the subcommand, short letters, long names, why.
const DESTRUCTIVE_OPTIONS: &[(&str, &[char], &[&str], &str)] = &[
    ("reset", &[], &["hard"], "throws away changes that are not committed"),
    (
        "checkout",
        &['f', 'B', 'p'],
        &["force", "ours", "theirs", "pathspec-from-file", "patch"],
        "throws away changes",
    ),
    ("switch", &['f', 'C'], &["force", "discard-changes", "force-create"], "throws away changes"),
    ("branch", &['D', 'M', 'C', 'f'], &["force"], "removes or moves a branch whatever is on it"),
    ("rm", &['f'], &["force"], "removes changed files"),
    ("filter-branch", &[], &[], "rewrites the history"),
    ("update-ref", &['d'], &["stdin"], "removes a reference"),
    ("checkout-index", &['f'], &["force"], "throws away changes"),
    ("read-tree", &['u'], &["reset"], "throws away changes"),
    ("gc", &[], &["prune"], "removes what nothing points to"),
];

/// Options that make a subcommand run another program.
const RUNS_BY_OPTION: &[(&str, &[char], &[&str])] = &[
    ("clone", &['u', 'c'], &["upload-pack", "config", "template"]),
    ("fetch", &[], &["upload-pack"]),
    ("pull", &[], &["upload-pack"]),
    ("ls-remote", &[], &["upload-pack", "exec"]),
    ("push", &[], &["receive-pack", "exec"]),
    ("archive", &[], &["exec", "remote"]),
    ("difftool", &['x', 't'], &["extcmd", "tool"]),
    ("mergetool", &['t'], &["tool"]),
    ("grep", &['O'], &["open-files-in-pager"]),
    ("rebase", &['x'], &["exec"]),
    ("init", &[], &["template"]),
];

impl Judge {
    /// Judges a call of git.
    pub(super) fn git(&mut self, call: &Call<'_>) {
        let Some(at) = options::end(call.arguments, GLOBAL) else {
            return self.not_understood(call.segment, "has an option that is not known here");
        };
        let (own, rest) = call.arguments.split_at_checked(at).unwrap_or((call.arguments, &[]));
        for (at, word) in own.iter().enumerate() {
            let setting = match word.prefix.strip_prefix("-c") {
                Some("") => own.get(at + 1),
                _ if word.prefix.starts_with("--config-env") || word.prefix.starts_with("--exec-path=") => {
                    return self.not_understood(call.segment, "sets what git runs");
                }
                Some(_) => Some(word),
                None => None,
            };
            if let Some(setting) = setting {
                self.git_setting(call, &setting.prefix.replacen("-c", "", usize::from(word == setting)));
            }
        }
        let Some((subcommand, words)) = rest.split_first() else { return };
        let Some(name) = subcommand.known() else {
            return self.not_understood(call.segment, "has a subcommand that is not known before it runs");
        };
        if !KNOWN.contains(&name) {
            return self.not_understood(call.segment, "has a subcommand that may be an alias for anything");
        }
        self.git_options(call, name, words);
        self.git_subcommand(call, name, words);
    }

    fn git_setting(&mut self, call: &Call<'_>, setting: &str) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let lower = name.to_ascii_lowercase();
        let is_harmless =
            HARMLESS_SETTINGS.iter().any(|start| lower.starts_with(start)) || is_no_program(&lower, value);
        if !is_harmless {
            self.not_understood(call.segment, "sets what git runs");
        }
    }

    fn git_options(&mut self, call: &Call<'_>, name: &str, words: &[Word]) {
        for (_, short, long, why) in DESTRUCTIVE_OPTIONS.iter().filter(|(subcommand, ..)| *subcommand == name)
        {
            let always = short.is_empty() && long.is_empty();
            if always || options::has(words, short, long) {
                self.find(Class::Destructive, call.segment, why);
            }
            if words.iter().any(|word| word.is_dynamic() && word.may_be_option() && word.prefix.is_empty())
                && !ends_options(words)
            {
                self.not_understood(call.segment, "has an option that is not known before it runs");
            }
        }
        for (_, short, long) in RUNS_BY_OPTION.iter().filter(|(subcommand, ..)| *subcommand == name) {
            let is_long = words.iter().any(|word| {
                word.prefix.strip_prefix("--").is_some_and(|option| {
                    let option = option.split('=').next().unwrap_or_default();
                    option.len() >= 3 && long.iter().any(|long| long.starts_with(option))
                })
            });
            if is_long || options::has(words, short, &[]) {
                self.not_understood(call.segment, "has an option that runs another program");
            }
        }
        // `ext::` and other helpers in an address run a program.
        if words.iter().any(|word| {
            word.prefix.contains("::")
                && matches!(name, "clone" | "fetch" | "pull" | "push" | "remote" | "ls-remote" | "submodule")
        }) {
            self.not_understood(call.segment, "names a repository by a program");
        }
    }

    fn git_subcommand(&mut self, call: &Call<'_>, name: &str, words: &[Word]) {
        let positionals = options::positionals(words);
        let first = positionals.first().map(|word| word.prefix.as_str()).unwrap_or_default();
        let destructive = |judge: &mut Self, why: &str| judge.find(Class::Destructive, call.segment, why);
        match name {
            "clean" if !only_tries(words, 'e') => destructive(self, "removes files that git does not know"),
            "restore" => destructive(self, "throws away changes"),
            "checkout" if checks_out_paths(words, &positionals) => {
                destructive(self, "throws away changes of files")
            }
            "stash" if !matches!(first, "list" | "show" | "create") => {
                destructive(self, "moves or drops changes")
            }
            "worktree" if first == "remove" && options::has(words, &['f'], &["force"]) => {
                destructive(self, "removes a worktree with its changes");
            }
            "worktree" | "stash" | "reflog" | "submodule" | "bisect" | "hook" | "lfs" | "remote"
                if positionals.first().is_some_and(|word| word.is_dynamic()) =>
            {
                self.not_understood(call.segment, "has a subcommand that is not known before it runs");
            }
            "reflog" if matches!(first, "expire" | "delete") => {
                destructive(self, "removes the record of old states")
            }
            "submodule" if first == "deinit" && options::has(words, &['f'], &["force"]) => {
                destructive(self, "removes a submodule with its changes");
            }
            "submodule" if first == "foreach" => {
                let at = words.iter().position(|word| word.prefix == "foreach").map_or(0, |at| at + 1);
                let script: Vec<Word> =
                    words.iter().skip(at).filter(|word| word.prefix != "--recursive").cloned().collect();
                self.joined(call, &script);
            }
            "bisect" if first == "run" => {
                let at = words.iter().position(|word| word.prefix == "run").map_or(0, |at| at + 1);
                self.inner(call, words.get(at..).unwrap_or_default());
            }
            "for-each-repo" | "hook" => self.not_understood(call.segment, "runs another program"),
            "push" => self.git_push(call, words, &positionals),
            "send-email" => self.find(Class::External, call.segment, "sends mail"),
            "svn" if first == "dcommit" => self.find(Class::External, call.segment, "publishes commits"),
            "subtree" | "lfs" if first == "push" => {
                self.find(Class::External, call.segment, "publishes commits")
            }
            "credential" => self.find(Class::Sensitive, call.segment, "reads or changes stored passwords"),
            "config" => self.git_config(call, words, &positionals),
            _ => {}
        }
    }

    fn git_push(&mut self, call: &Call<'_>, words: &[Word], positionals: &[&Word]) {
        let forces =
            options::has(words, &['f', 'd'], &["force", "force-with-lease", "delete", "mirror", "prune"]);
        let by_ref = positionals.iter().any(|word| word.prefix.starts_with(['+', ':']) && word.prefix != ":");
        if forces || by_ref {
            self.find(Class::Destructive, call.segment, "overwrites or deletes what others have");
        } else if options::has_hidden(words) {
            self.not_understood(call.segment, "has an option that is not known before it runs");
        } else if !only_tries(words, 'o') {
            self.find(Class::External, call.segment, "publishes commits");
        }
    }

    fn git_config(&mut self, call: &Call<'_>, words: &[Word], positionals: &[&Word]) {
        let text = |at: usize| positionals.get(at).map(|word| word.prefix.as_str()).unwrap_or_default();
        if words.iter().any(|word| word.is_dynamic() && word.may_be_option() && word.prefix.is_empty())
            && positionals.len() < 2
        {
            return self.not_understood(call.segment, "has an option that is not known before it runs");
        }
        let reads = options::has(
            words,
            &['l'],
            &["list", "get", "get-all", "get-regexp", "get-urlmatch", "name-only"],
        ) || matches!(text(0), "list" | "get");
        let removes =
            options::has(words, &[], &["unset", "unset-all", "remove-section"]) || text(0) == "unset";
        if options::has(words, &['e'], &["edit"]) || text(0) == "edit" {
            return self.not_understood(call.segment, "opens an editor");
        }
        let at = usize::from(text(0) == "set");
        if !reads && !removes && positionals.len() > at + 1 {
            self.git_setting(call, &format!("{}={}", text(at), text(at + 1)));
        }
    }
}

/// `core.pager=cat` and the like name a program that does nothing.
fn is_no_program(name: &str, value: &str) -> bool {
    let names_program = name == "core.pager"
        || name.starts_with("pager.")
        || name == "core.editor"
        || name == "sequence.editor";
    names_program && matches!(value, "" | "cat" | "true" | ":" | "false")
}

/// Whether `-n` stands there, and nothing that takes it back or takes it for a value of the option `valued`.
fn only_tries(words: &[Word], valued: char) -> bool {
    let is_doubtful = |word: &Word| {
        let text = word.prefix.as_str();
        text.starts_with("--") && !matches!(text, "--" | "--dry-run") || word.is_dynamic()
    };
    options::has(words, &['n'], &["dry-run"])
        && !options::has(words, &[valued], &[])
        && !words.iter().any(is_doubtful)
}

fn ends_options(words: &[Word]) -> bool {
    words
        .iter()
        .position(|word| word.prefix == "--")
        .is_some_and(|end| !words.iter().take(end).any(|word| word.is_dynamic() && word.prefix.is_empty()))
}

/// Whether `git checkout` gets paths: after `--`, after a commit, or a word that looks like one.
fn checks_out_paths(words: &[Word], positionals: &[&Word]) -> bool {
    let after_end =
        words.iter().position(|word| word.prefix == "--").is_some_and(|end| words.len() > end + 1);
    let makes_branch = options::has(words, &['b', 't'], &["orphan", "track"]);
    let looks_like_path = |word: &&Word| {
        let text = word.prefix.as_str();
        let end = text.rsplit_once('.').map_or("", |(_, end)| end);
        let has_end = !end.is_empty()
            && end.len() <= 5
            && end.starts_with(|c: char| c.is_ascii_alphabetic())
            && end.chars().all(|c| c.is_ascii_alphanumeric());
        word.pattern
            || matches!(text, "." | "..")
            || text.starts_with(['/', ':', '~'])
            || text.starts_with("./")
            || text.starts_with("../")
            || text.ends_with('/')
            || has_end
    };
    after_end || !makes_branch && (positionals.len() > 1 || positionals.iter().any(looks_like_path))
}
