//! Owns the programs that run a script from their words or their input: shells, `eval`, `trap`, `xargs`, `find -exec`,
//! `ssh`, interpreters of other languages. Scripts of a shell are judged, those of another language ask.
//! A file with a script is the project's own and is not opened. Tested in `tests`.

use super::commands::Call;
use super::options::{self, Grammar};
use super::walk::Input;
use super::words::Word;
use super::{Class, Judge, rules};

const UNKNOWN_SCRIPT: &str = "runs a script that is not known before it runs";
const READ_SCRIPT: &str = "runs whatever it reads as a script";
const OTHER_LANGUAGE: &str = "runs a program in a language that is not read here";

/// Options of the usual shells.
const SHELL: Grammar = Grammar {
    flags: &[
        "-c",
        "-l",
        "-e",
        "-x",
        "-u",
        "-v",
        "-n",
        "-p",
        "-s",
        "-f",
        "-a",
        "-b",
        "-h",
        "-m",
        "-t",
        "-B",
        "-E",
        "-C",
        "-T",
        "-H",
        "-P",
        "--login",
        "--norc",
        "--noprofile",
        "--posix",
        "--verbose",
        "--restricted",
    ],
    valued: &["-o", "-O"],
};

const XARGS: Grammar = Grammar {
    flags: &[
        "-0",
        "-r",
        "-t",
        "-x",
        "-p",
        "-o",
        "--null",
        "--no-run-if-empty",
        "--verbose",
        "--exit",
        "--interactive",
    ],
    valued: &[
        "-n",
        "-P",
        "-L",
        "-s",
        "-d",
        "-E",
        "-a",
        "-I",
        "-J",
        "-R",
        "-S",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--delimiter",
        "--arg-file",
        "--max-chars",
        "--replace",
        "--process-slot-var",
    ],
};

const SSH: Grammar = Grammar {
    flags: &[
        "-4", "-6", "-A", "-a", "-C", "-f", "-G", "-g", "-K", "-k", "-M", "-N", "-n", "-q", "-s", "-T", "-t",
        "-v", "-V", "-X", "-x", "-Y", "-y",
    ],
    valued: &[
        "-B", "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q",
        "-R", "-S", "-W", "-w",
    ],
};

/// Whether the program is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    rules::SHELLS.contains(&name)
}

impl Judge {
    /// Judges a program that runs a script. `false`: it is none.
    pub(super) fn runs_script(&mut self, call: &Call<'_>) -> bool {
        match call.name {
            name if is_shell(name) => self.shell(call),
            "eval" => self.joined(call, without_end(call.arguments)),
            "trap" => self.trap(call),
            "alias" => self.aliases(call),
            "source" | "." => self.source(call),
            "su" | "script" | "runuser" => self.option_script(call),
            "xargs" => self.xargs(call),
            "parallel" => self.parallel(call),
            "find" | "fd" | "fdfind" | "gfind" => self.find_exec(call),
            "ssh" | "mosh" | "rsh" => self.ssh(call),
            "enable" | "bind" | "complete" | "compgen" | "hash" | "mapfile" | "readarray" | "fc" | "at"
            | "batch" | "crontab" => {
                self.registers(call);
            }
            _ => return self.interpreter(call),
        }
        true
    }

    fn shell(&mut self, call: &Call<'_>) {
        let mut rest = call.arguments;
        let mut inline = false;
        let mut from_input = false;
        while let Some((word, after)) = rest.split_first() {
            let text = word.prefix.as_str();
            if word.is_dynamic() && word.may_be_option() {
                return self.not_understood(call.segment, UNKNOWN_SCRIPT);
            }
            if text == "--" || text == "-" {
                rest = after;
                break;
            }
            if !text.starts_with(['-', '+']) {
                break;
            }
            let option = format!("-{}", text.get(1..).unwrap_or_default());
            let Some(at) = options::end(&[Word::literal(&option), Word::literal("-v")], SHELL) else {
                // `--rcfile`, `--init-file` and what is not known run something else first.
                return self.not_understood(call.segment, "has an option that is not known here");
            };
            let is_cluster = !option.starts_with("--");
            inline |= is_cluster && option.contains('c');
            from_input |= is_cluster && option.contains('s');
            let takes_value = is_cluster && option.ends_with(['o', 'O']) && at > 0;
            rest = if takes_value { after.get(1..).unwrap_or_default() } else { after };
        }
        match (inline, rest.first()) {
            (true, Some(script)) => match script.known() {
                Some(script) => self.script(script, call.place.nested()),
                None => self.not_understood(call.segment, UNKNOWN_SCRIPT),
            },
            (false, Some(file)) if !from_input => self.script_file(call, file),
            (true, None) => {}
            (false, _)
                if call
                    .arguments
                    .first()
                    .is_some_and(|word| matches!(word.known(), Some("--version" | "--help"))) => {}
            (false, _) => self.script_from_input(call),
        }
    }

    fn script_file(&mut self, call: &Call<'_>, file: &Word) {
        let is_stream = file.raw.starts_with("<(")
            || file.prefix.starts_with("/dev/")
            || file.prefix.starts_with("/proc/");
        if is_stream || file.known().is_none() && (file.splits || file.known_end().is_empty()) {
            self.not_understood(call.segment, READ_SCRIPT);
        }
    }

    fn script_from_input(&mut self, call: &Call<'_>) {
        match call.input {
            Input::Text(script) => self.script(script, call.place.nested()),
            Input::File => {}
            Input::Inherited | Input::Unknown => self.not_understood(call.segment, READ_SCRIPT),
        }
    }

    fn trap(&mut self, call: &Call<'_>) {
        let words = without_end(call.arguments);
        match words.first() {
            Some(script) if script.known().is_some_and(|text| text.starts_with('-')) => {}
            Some(script) => self.joined(call, std::slice::from_ref(script)),
            None => {}
        }
    }

    /// An alias is judged where it is made: what is bad in it asks, used or not.
    fn aliases(&mut self, call: &Call<'_>) {
        for word in call.arguments {
            match word.known().map(|text| text.split_once('=')) {
                Some(Some((_, script))) => {
                    // It may lack its arguments: with `rm` as its end, what follows cannot be seen.
                    self.script(script, call.place.nested());
                    if script.trim_end().ends_with(['\\', '|', '&']) || script.trim() == "rm" {
                        self.not_understood(call.segment, "leaves the end of an alias open");
                    }
                }
                Some(None) => {}
                None => self.not_understood(call.segment, UNKNOWN_SCRIPT),
            }
        }
    }

    fn source(&mut self, call: &Call<'_>) {
        match without_end(call.arguments).first() {
            Some(file) if file.is_dynamic() || file.pattern => {
                self.not_understood(call.segment, UNKNOWN_SCRIPT)
            }
            Some(file) => self.script_file(call, file),
            None => {}
        }
    }

    fn option_script(&mut self, call: &Call<'_>) {
        let at = call.arguments.iter().position(|word| matches!(word.prefix.as_str(), "-c" | "--command"));
        match at.and_then(|at| call.arguments.get(at + 1)) {
            Some(script) => self.joined(call, std::slice::from_ref(script)),
            None => self.not_understood(call.segment, READ_SCRIPT),
        }
    }

    fn xargs(&mut self, call: &Call<'_>) {
        let Some(at) = options::end(call.arguments, XARGS) else {
            return self.not_understood(call.segment, "has an option that is not known here");
        };
        let (own, rest) = call.arguments.split_at_checked(at).unwrap_or((call.arguments, &[]));
        let replaced = own.iter().enumerate().find_map(|(at, word)| match word.prefix.as_str() {
            "-I" | "-J" => own.get(at + 1).map(|token| token.prefix.clone()),
            text => text.strip_prefix("-I").or_else(|| text.strip_prefix("--replace=")).map(str::to_owned),
        });
        self.inner_with_unknown(call, rest, replaced.as_deref());
    }

    /// The command of `xargs` and the like: what it is given stands at `token` or at its end.
    fn inner_with_unknown(&mut self, call: &Call<'_>, words: &[Word], token: Option<&str>) {
        if words.is_empty() {
            return;
        }
        let words: Vec<Word> = match token {
            Some(token) if !token.is_empty() => words.iter().map(|word| word.with_unknown(token)).collect(),
            _ => words.iter().cloned().chain([Word::unknown("…")]).collect(),
        };
        self.inner(&Call { input: &Input::Unknown, ..*call }, &words);
    }

    fn parallel(&mut self, call: &Call<'_>) {
        const PARALLEL: Grammar = Grammar {
            flags: &[
                "-0",
                "-k",
                "-t",
                "-u",
                "--bar",
                "--keep-order",
                "--null",
                "--line-buffer",
                "--halt-on-error",
            ],
            valued: &[
                "-j",
                "-n",
                "-N",
                "-a",
                "--jobs",
                "--colsep",
                "--halt",
                "--timeout",
                "--delay",
                "--joblog",
            ],
        };
        let Some(at) = options::end(call.arguments, PARALLEL) else {
            return self.not_understood(call.segment, "has an option that is not known here");
        };
        let rest = call.arguments.get(at..).unwrap_or_default();
        let n = rest.iter().take_while(|word| !word.prefix.starts_with(":::")).count();
        let template = rest.get(..n).unwrap_or_default();
        if template.is_empty() {
            return self.not_understood(call.segment, READ_SCRIPT);
        }
        // Its words are joined and read by a shell: a word with a blank would be more than one.
        if template
            .iter()
            .any(|word| word.prefix.contains(|c: char| c.is_whitespace() || "|;&<>$`".contains(c)))
        {
            return self.not_understood(call.segment, UNKNOWN_SCRIPT);
        }
        let token = template.iter().any(|word| word.raw.contains("{}")).then_some("{}");
        self.inner_with_unknown(call, template, token);
    }

    fn find_exec(&mut self, call: &Call<'_>) {
        const RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
        let mut words = call.arguments;
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            match word.prefix.as_str() {
                "-delete" => self.find(Class::Destructive, call.segment, "removes all files that it finds"),
                "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                    if let Some(file) = rest.first() {
                        self.path(file, call.segment, super::paths::Access::Writes);
                    }
                }
                run if RUNS.contains(&run) => {
                    let n = rest.iter().take_while(|word| !matches!(word.prefix.as_str(), ";" | "+")).count();
                    let inner: Vec<Word> = rest.get(..n).unwrap_or_default().to_vec();
                    let token = inner.iter().any(|word| word.raw.contains("{}")).then_some("{}");
                    self.inner_with_unknown(call, &inner, token);
                    words = rest.get(n..).unwrap_or_default();
                }
                // What is not known could be `-delete`; a start of the search could be too.
                _ if word.is_dynamic() && word.splits && word.prefix.is_empty() => {
                    self.not_understood(call.segment, "has an option that is not known before it runs");
                }
                _ => {}
            }
        }
    }

    fn ssh(&mut self, call: &Call<'_>) {
        let runs_locally = ["proxycommand", "localcommand", "knownhostscommand", "include", "match"];
        let is_risky = |word: &Word| {
            let lower = word.raw.to_ascii_lowercase();
            runs_locally.iter().any(|option| lower.contains(option))
        };
        let Some(at) = options::end(call.arguments, SSH) else {
            return self.not_understood(call.segment, "has an option that is not known here");
        };
        let (own, rest) = call.arguments.split_at_checked(at).unwrap_or((call.arguments, &[]));
        if own.iter().any(is_risky) {
            self.not_understood(call.segment, "has an option that runs another program");
        }
        match rest.split_first() {
            None => {}
            Some((host, script)) => {
                if host.is_dynamic() && host.may_be_option() && host.splits {
                    self.not_understood(call.segment, "goes to a host that is not known before it runs");
                }
                let script = without_end(script);
                if script.is_empty() && !matches!(call.input, Input::Inherited) {
                    return self.script_from_input(call);
                }
                self.joined(call, script);
            }
        }
    }

    /// Builtins that keep a command for later, and `at` and `crontab`.
    fn registers(&mut self, call: &Call<'_>) {
        let only_shows = match call.name {
            "at" | "batch" => options::has(call.arguments, &['l', 'V'], &[]),
            "crontab" => {
                options::has(call.arguments, &['l'], &[]) && !options::has(call.arguments, &['r'], &[])
            }
            "mapfile" | "readarray" => !options::has(call.arguments, &['C'], &[]),
            "hash" => !options::has(call.arguments, &['p'], &[]),
            "compgen" | "complete" => !options::has(call.arguments, &['C', 'F', 'W'], &[]),
            _ => call.arguments.is_empty(),
        };
        if !only_shows {
            self.not_understood(call.segment, "keeps a command to run later");
        }
    }

    fn interpreter(&mut self, call: &Call<'_>) -> bool {
        if matches!(call.name, "awk" | "gawk" | "mawk" | "nawk") {
            self.awk(call);
            return true;
        }
        // `python3.12` is `python`.
        let bare = call.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        let Some((_, inline)) = rules::INTERPRETERS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(bare) || *name == call.name)
        else {
            return false;
        };
        let is_inline = |word: &Word| {
            let text = word.prefix.as_str();
            inline.iter().any(|option| {
                let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
                let in_cluster = letter.is_some_and(|letter| {
                    text.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains(letter))
                });
                text == *option || text.starts_with(&format!("{option}=")) || in_cluster
            })
        };
        let own = own_words(call.arguments, bare);
        if own.iter().any(is_inline) {
            self.not_understood(call.segment, OTHER_LANGUAGE);
            return true;
        }
        let before_script = options::leading(call.arguments);
        let first = call.arguments.get(before_script.len());
        let runs_module = own.last().is_some_and(|word| word.prefix == "-m") && bare == "python";
        let tells = call.arguments.first().and_then(Word::known);
        match first {
            _ if runs_module || matches!(tells, Some("--version" | "--help" | "-V" | "-v")) => {}
            // The word after an option may be its value: then the script is what comes through the pipe.
            Some(_) if !before_script.is_empty() && !matches!(call.input, Input::Inherited | Input::File) => {
                self.not_understood(call.segment, READ_SCRIPT);
            }
            Some(file) if file.prefix != "-" => self.script_file(call, file),
            _ => match call.input {
                Input::File => {}
                // The whole command has no input.
                Input::Inherited => {}
                _ => self.not_understood(call.segment, READ_SCRIPT),
            },
        }
        true
    }

    /// `awk` runs commands by `system`, pipes and `getline`, and writes files by `>`.
    fn awk(&mut self, call: &Call<'_>) {
        for word in call.arguments {
            let Some(text) = word.known() else {
                if word.is_dynamic() {
                    return self
                        .not_understood(call.segment, "runs a program that is not known before it runs");
                }
                continue;
            };
            let text = text.replace("||", " ");
            let calls_out = ["system", "getline", "|", "@load", "@include", "ENVIRON"]
                .iter()
                .any(|word| text.contains(word));
            if calls_out || writes_in_awk(&text) || text.starts_with("-i") || text.starts_with("-l") {
                return self.not_understood(call.segment, "may run other programs or write files");
            }
        }
    }
}

/// The words of an interpreter among which its options may be: they end where a script or a module has words of its
/// own. After an option nobody can say, as it may take the next word.
fn own_words<'a>(words: &'a [Word], name: &str) -> &'a [Word] {
    if matches!(name, "vim" | "vi" | "nvim" | "emacs" | "gdb") {
        return words;
    }
    let module = words.iter().position(|word| word.prefix == "-m").filter(|_| name == "python");
    let script = words.first().filter(|word| !word.prefix.starts_with('-')).map(|_| 0);
    let n = module.or(script).map_or(words.len(), |at| at + 1);
    words.get(..n).unwrap_or_default()
}

/// `print > "file"`; a comparison has a number or a name on its right.
fn writes_in_awk(text: &str) -> bool {
    text.contains("print")
        && text.split("print").skip(1).any(|after| {
            after
                .split(['}', ';', '\n'])
                .next()
                .is_some_and(|statement| statement.contains('>') && !statement.contains(">="))
        })
}

fn without_end(words: &[Word]) -> &[Word] {
    match words.split_first() {
        Some((first, rest)) if first.known() == Some("--") => rest,
        _ => words,
    }
}
