//! Owns the programs whose class hangs on their options: `rm`, `kill`, `sed`, `gh`, clients of databases, and those
//! that run another program by an option. Never git (`git`) and never scripts (`scripts`). Tested in `tests`.

use super::commands::Call;
use super::paths::Access;
use super::walk::Input;
use super::words::Word;
use super::{Class, Judge, options, variables};

const HIDDEN_OPTION: &str = "has an option that is not known before it runs";

/// Options that make a program run another one: the program, short letters, long names.
const RUNS_BY_OPTION: &[(&str, &[char], &[&str])] = &[
    (
        "tar",
        &['I', 'F'],
        &["to-command", "use-compress-program", "checkpoint-action", "info-script", "rsh-command"],
    ),
    ("gtar", &['I', 'F'], &["to-command", "use-compress-program", "checkpoint-action", "rsh-command"]),
    ("rsync", &['e'], &["rsh", "rsync-path"]),
    ("scp", &['S', 'o'], &[]),
    ("sftp", &['S', 'o'], &[]),
    ("sort", &[], &["compress-program"]),
    ("split", &[], &["filter"]),
    ("rg", &[], &["pre", "hostname-bin"]),
    ("man", &['P', 'H'], &["pager", "html"]),
    ("wget", &[], &["use-askpass"]),
    ("zip", &[], &["unzip-command"]),
    ("make", &[], &["eval"]),
    ("gmake", &[], &["eval"]),
];

/// Programs that run the rest of their words, and whose options are not worth reading.
const RUNS_OTHERS: &[&str] = &[
    "unshare",
    "nsenter",
    "setpriv",
    "prlimit",
    "choom",
    "capsh",
    "debconf",
    "start-stop-daemon",
    "run-parts",
    "runuser",
    "bwrap",
    "firejail",
    "cpulimit",
    "numactl",
];

/// Programs that read or copy whole trees.
const READS_TREES: &[&str] = &[
    "grep", "egrep", "fgrep", "rg", "ag", "ack", "find", "fd", "tar", "gtar", "zip", "7z", "cp", "ln",
    "rsync", "scp", "diff",
];

/// Words that mean everything of a person, or of the machine.
const WHOLE_TREES: &[&str] = &[
    "~", "~/", "~/.", "$HOME", "${HOME}", "$HOME/", "${HOME}/", "/", "/.", "/home", "/home/", "/root",
    "/root/", "/Users",
];

/// Clients of databases whose words and input are SQL.
const SQL_CLIENTS: &[&str] =
    &["psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb", "pgcli", "mycli", "cockroach"];

/// Words of `gh` that change what others see.
const GH_WRITES: &[&str] = &[
    "create", "merge", "close", "reopen", "comment", "edit", "review", "ready", "upload", "rename",
    "archive", "fork", "sync", "set", "run", "rerun", "cancel", "transfer", "lock", "pin", "add", "enable",
    "disable", "import",
];

impl Judge {
    /// Judges a program by its options.
    pub(super) fn by_program(&mut self, call: &Call<'_>) {
        if let Some((_, short, long)) = RUNS_BY_OPTION.iter().find(|(name, ..)| *name == call.name) {
            // Short letters of `tar` without a dash are not options that run something.
            if options::has(call.arguments, short, &[]) || has_long(call.arguments, long) {
                self.not_understood(call.segment, "has an option that runs another program");
            }
        }
        let is_loader = call.name.starts_with("ld-linux") || call.name.starts_with("ld-musl");
        if RUNS_OTHERS.contains(&call.name) || is_loader {
            self.not_understood(call.segment, "runs another program, which is not looked at");
        }
        match call.name {
            "make" | "gmake" => self.make(call),
            "tar" | "gtar" if has_long(call.arguments, &["remove-files"]) => {
                self.find(Class::Destructive, call.segment, "removes the files that it packs");
            }
            "rsync" => self.rsync(call),
            "shopt"
                if call.arguments.iter().any(|word| word.is_dynamic() || word.prefix == "expand_aliases") =>
            {
                self.not_understood(call.segment, "lets aliases stand for programs");
            }
            "read" | "printf" | "getopts" | "let" | "unset" => self.sets_variables(call),
            "rm" | "grm" => self.rm(call),
            "kill" => self.kill(call),
            "git" => self.git(call),
            "gh" => self.gh(call),
            "sed" | "gsed" => self.sed(call),
            "curl" | "wget" => self.download(call),
            "crontab" => self.not_understood(call.segment, "changes what runs later"),
            name if SQL_CLIENTS.contains(&name) => self.sql(call),
            _ => {}
        }
    }

    /// A program that reads or copies whole trees, and a tree that holds everything of a person.
    pub(super) fn whole_trees(&mut self, call: &Call<'_>) {
        let is_whole = |word: &Word| WHOLE_TREES.contains(&word.raw.trim_matches('"'));
        if READS_TREES.contains(&call.name) && call.arguments.iter().any(is_whole) {
            self.find(Class::Sensitive, call.segment, "reaches everything of the user, secrets among it");
        }
    }

    fn rm(&mut self, call: &Call<'_>) {
        if options::has(call.arguments, &['r', 'R', 'f'], &["recursive", "force"]) {
            self.find(Class::Destructive, call.segment, "removes files recursively or without asking");
        } else if options::has_hidden(call.arguments) {
            self.not_understood(call.segment, HIDDEN_OPTION);
        }
    }

    /// A makefile from standard input or from a substitution is code of this command, not of the project.
    fn make(&mut self, call: &Call<'_>) {
        let is_given = |text: &str| text.is_empty() || text == "-" || text.starts_with("/dev/");
        let from_here = call.arguments.iter().enumerate().any(|(at, word)| {
            let names = |text: &str| matches!(text, "-f" | "--file" | "--makefile");
            let value_of = at.checked_sub(1).and_then(|before| call.arguments.get(before));
            let is_value = value_of.is_some_and(|before| names(before.prefix.as_str()));
            let attached = word
                .prefix
                .strip_prefix("--file=")
                .or_else(|| word.prefix.strip_prefix("--makefile="))
                .or_else(|| word.prefix.strip_prefix("-f").filter(|rest| !rest.is_empty()));
            (is_value && (word.is_dynamic() || is_given(&word.prefix)))
                || attached.is_some_and(|rest| word.is_dynamic() || is_given(rest))
        });
        if from_here {
            self.not_understood(call.segment, "takes its rules from elsewhere than a file of the project");
        }
    }

    fn rsync(&mut self, call: &Call<'_>) {
        let removes = |word: &Word| word.prefix.starts_with("--del") || word.prefix.starts_with("--remove-s");
        if call.arguments.iter().any(removes) {
            self.find(Class::Destructive, call.segment, "removes files that are not on the other side");
        }
    }

    /// `read PATH`, `printf -v PATH`: an assignment by another name.
    fn sets_variables(&mut self, call: &Call<'_>) {
        for word in call.arguments {
            let name = word.prefix.split(['=', '+', '[']).next().unwrap_or_default();
            if variables::changes_what_runs(name, &Word::unknown(""))
                && (call.name != "printf" || has_v(call.arguments))
            {
                self.find(Class::Destructive, call.segment, "changes what later commands run");
            }
        }
    }

    fn kill(&mut self, call: &Call<'_>) {
        let is_nine = |text: &str| {
            let bare = text.trim_start_matches('-').to_ascii_uppercase();
            let bare = bare.trim_start_matches("SIGNAL=");
            let bare = bare.strip_prefix("SIG").unwrap_or(bare);
            matches!(bare, "9" | "KILL" | "S9" | "SKILL" | "SSIGKILL" | "N9")
        };
        let signals = call.arguments.iter().enumerate().any(|(at, word)| {
            let after_option = at.checked_sub(1).and_then(|before| call.arguments.get(before));
            let is_value =
                after_option.is_some_and(|before| matches!(before.prefix.as_str(), "-s" | "-n" | "--signal"));
            (is_value || word.prefix.starts_with('-')) && is_nine(&word.prefix)
        });
        let everything = call.arguments.iter().skip(1).any(|word| word.known() == Some("-1"));
        if signals || everything {
            self.find(Class::Destructive, call.segment, "ends processes at once, without a chance to save");
        } else if call.arguments.first().is_some_and(|word| {
            word.is_dynamic() && word.splits && word.may_be_option() && !word.raw.starts_with("$!")
        }) {
            self.not_understood(call.segment, HIDDEN_OPTION);
        }
    }

    fn gh(&mut self, call: &Call<'_>) {
        let words = options::positionals(call.arguments);
        if words.iter().take(2).any(|word| word.is_dynamic()) {
            return self.not_understood(call.segment, "has a subcommand that is not known before it runs");
        }
        let text = |at: usize| words.get(at).map(|word| word.prefix.as_str()).unwrap_or_default();
        if text(0) == "api" {
            return self.gh_api(call);
        }
        if matches!(text(0), "alias" | "extension" | "ext" | "codespace" | "cs")
            && !matches!(text(1), "list" | "ls" | "")
        {
            return self.not_understood(call.segment, "runs an extension or an alias");
        }
        if matches!((text(0), text(1)), ("auth", "token"))
            || options::has(call.arguments, &[], &["show-token"])
        {
            self.find(Class::Sensitive, call.segment, "shows a token");
        }
        if words.iter().take(3).any(|word| word.known() == Some("delete") || word.known() == Some("remove")) {
            self.find(Class::Destructive, call.segment, "deletes at the forge");
        } else if GH_WRITES.contains(&text(1)) {
            self.find(Class::External, call.segment, "changes what others see at the forge");
        }
    }

    fn gh_api(&mut self, call: &Call<'_>) {
        let mut method = None;
        for (at, word) in call.arguments.iter().enumerate() {
            let text = word.prefix.as_str();
            let value = match text {
                "-X" | "--method" => call.arguments.get(at + 1).and_then(Word::known),
                _ => text.strip_prefix("--method=").or_else(|| text.strip_prefix("-X")),
            };
            if let Some(value) = value {
                method = Some(value.trim_start_matches('=').to_ascii_uppercase());
            } else if matches!(text, "-X" | "--method")
                || word.is_dynamic() && word.may_be_option() && word.splits
            {
                return self.not_understood(call.segment, HIDDEN_OPTION);
            }
        }
        let has_fields = options::has(call.arguments, &['f', 'F'], &["field", "raw-field", "input"]);
        let graphql = call.arguments.iter().any(|word| word.prefix == "graphql");
        let mutates = call.arguments.iter().any(|word| word.raw.contains("mutation"));
        match method.as_deref() {
            Some("DELETE") => self.find(Class::Destructive, call.segment, "deletes at the forge"),
            Some("GET" | "HEAD") => {}
            None if graphql && !mutates || !has_fields => {}
            _ => self.find(Class::External, call.segment, "changes what others see at the forge"),
        }
    }

    /// The scripts of `sed` can run commands (`e`, `s///e`) and write files (`w`).
    fn sed(&mut self, call: &Call<'_>) {
        let scripts = sed_scripts(call.arguments);
        for script in scripts {
            let text = script.prefix.as_str();
            // An unknown part within a replacement is taken as text: `s/a/$b/`.
            let end = script.known_end();
            if script.is_dynamic() && text.is_empty() {
                return self.not_understood(call.segment, "runs a program that is not known before it runs");
            }
            if may_run_or_write(text) || may_run_or_write(end) {
                return self.not_understood(call.segment, "may run other programs or write files");
            }
        }
    }

    fn download(&mut self, call: &Call<'_>) {
        let writes = ["-o", "--output", "-O", "--output-document", "--output-file"];
        for (at, word) in call.arguments.iter().enumerate() {
            let is_remote_name = call.name == "curl" && word.prefix == "-O";
            if writes.contains(&word.prefix.as_str())
                && !is_remote_name
                && let Some(file) = call.arguments.get(at + 1)
            {
                self.path(file, call.segment, Access::Writes);
            }
        }
        let method = call.arguments.windows(2).any(|pair| match pair {
            [option, value] => {
                matches!(option.prefix.as_str(), "-X" | "--request" | "--method")
                    && value.prefix.eq_ignore_ascii_case("delete")
            }
            _ => false,
        });
        if method
            || call.arguments.iter().any(|word| {
                matches!(
                    word.prefix.to_ascii_lowercase().as_str(),
                    "-xdelete" | "--request=delete" | "--method=delete"
                )
            })
        {
            self.find(Class::Destructive, call.segment, "deletes at a server");
        }
    }

    fn sql(&mut self, call: &Call<'_>) {
        let mut texts: Vec<&str> = Vec::new();
        let mut after_option = false;
        for (at, word) in call.arguments.iter().enumerate() {
            // A name of a database may be in a variable, a statement may not.
            let is_statement = after_option
                || word.raw.contains(char::is_whitespace)
                || word.splits && word.prefix.is_empty()
                || at > 0 && matches!(call.name, "sqlite3" | "sqlite" | "duckdb");
            match word.known() {
                Some(text) => texts.push(text),
                None if is_statement => {
                    return self.not_understood(call.segment, "runs SQL that is not known before it runs");
                }
                None => {}
            }
            after_option =
                word.prefix.starts_with('-') && word.prefix.ends_with(['c', 'e', 'd']) && word.prefix != "-d";
        }
        match call.input {
            Input::Text(text) => texts.push(text),
            Input::Unknown => {
                return self.not_understood(call.segment, "runs SQL that is not known before it runs");
            }
            Input::File | Input::Inherited => {}
        }
        for text in texts {
            if runs_shell(text) {
                return self.not_understood(call.segment, "may run other programs");
            }
            if destroys_rows(text) {
                self.find(
                    Class::Destructive,
                    call.segment,
                    "drops, truncates or deletes without a condition",
                );
            }
        }
    }
}

/// The scripts among the words of `sed`: after `-e`, or the first word that is no option if there is no `-e`.
fn sed_scripts(words: &[Word]) -> Vec<Word> {
    let mut scripts = Vec::new();
    let mut first = None;
    let mut has_option = false;
    let mut expects = None;
    for word in words {
        let text = word.prefix.as_str();
        if let Some(option) = expects.take() {
            if option == 'e' {
                scripts.push(word.clone());
            }
        } else if let Some(long) = text.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let option = if "expression".starts_with(name) { 'e' } else { 'f' };
            if "expression".starts_with(name) || "file".starts_with(name) {
                has_option = true;
                match value {
                    Some(value) if option == 'e' => scripts.push(Word::literal(value)),
                    Some(_) => {}
                    None => expects = Some(option),
                }
            }
        } else if text.starts_with('-') && text.len() > 1 && !word.is_dynamic() {
            // After `i` the letters are the end of a file's name.
            let letters = text.get(1..).unwrap_or_default();
            let at = letters
                .find(['e', 'f', 'i', 'l'])
                .filter(|at| !matches!(letters.as_bytes().get(*at), Some(b'i' | b'l')));
            if let Some(at) = at {
                has_option = true;
                let option = if letters.as_bytes().get(at) == Some(&b'e') { 'e' } else { 'f' };
                match letters.get(at + 1..) {
                    Some("") | None => expects = Some(option),
                    Some(rest) if option == 'e' => scripts.push(Word::literal(rest)),
                    Some(_) => {}
                }
            }
        } else if first.is_none() && text != "--" {
            first = Some(word.clone());
        }
    }
    if !has_option {
        scripts.extend(first);
    }
    scripts
}

fn has_long(words: &[Word], long: &[&str]) -> bool {
    words.iter().any(|word| {
        word.prefix.strip_prefix("--").is_some_and(|name| {
            let name = name.split('=').next().unwrap_or_default();
            // Shortened names count from three letters on: `--pr` may be many.
            name.len() >= 3 && long.iter().any(|long| long.starts_with(name))
        })
    })
}

/// The letters of a `sed` script that run or write stand at its end, after a `/`-like mark, or in front.
fn may_run_or_write(script: &str) -> bool {
    script.split([';', '\n', '}']).any(|command| {
        let command = command.trim();
        let bare = command.trim_start_matches(|c: char| {
            c.is_ascii_digit() || matches!(c, ',' | '$' | '{' | ' ' | '!' | '~' | '+')
        });
        if bare.starts_with(['e', 'w', 'W']) {
            return true;
        }
        let Some(mark) =
            bare.strip_prefix('s').and_then(|rest| rest.chars().next()).filter(|c| !c.is_alphanumeric())
        else {
            // `/address/e` and `/address/w file`.
            return bare.starts_with('/')
                && bare.rsplit_once('/').is_some_and(|(_, end)| {
                    end.trim_start_matches(['I', 'M', '!', ' ', '{']).starts_with(['e', 'w', 'W'])
                });
        };
        let flags = bare.rsplit_once(mark).map_or("", |(_, flags)| flags);
        let n_marks = bare.chars().filter(|c| *c == mark).count();
        n_marks >= 3 && flags.contains(['e', 'w'])
    })
}

fn has_v(words: &[Word]) -> bool {
    words.first().is_some_and(|word| word.prefix.starts_with("-v"))
}

fn runs_shell(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        line.contains("\\!")
            || line.contains("\\copy") && line.to_ascii_lowercase().contains("program")
            || [".shell", ".system", ".output |", ".once |", "system "]
                .iter()
                .any(|command| line.starts_with(command))
    })
}

/// DROP, TRUNCATE, or DELETE without WHERE, outside comments of one line.
fn destroys_rows(text: &str) -> bool {
    let upper = text.to_ascii_uppercase().replace("/*", " ").replace("*/", " ");
    upper.split(';').any(|statement| {
        let words: Vec<&str> = statement
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .collect();
        let has = |word: &str| words.contains(&word);
        let has_object =
            ["TABLE", "DATABASE", "SCHEMA", "VIEW", "INDEX", "COLUMN", "ROLE", "USER", "TYPE", "FUNCTION"]
                .iter()
                .any(|object| has(object));
        let deletes = words.windows(2).any(|pair| pair == ["DELETE", "FROM"]);
        (has("DROP") && (has_object || words.len() <= 3))
            || words.first() == Some(&"TRUNCATE")
            || has("TRUNCATE") && has("TABLE")
            || deletes && !has("WHERE")
    })
}
