//! Owns the one command of the demo and the reading of what it prints.
//! Never runs it: the model asks for the tool, the host decides. Tested below and in `tests/it/providers_demo.rs`.

/// Lists what is here: what git tracks, else the files under this directory. It changes nothing, runs in any POSIX
/// shell, and prints at most a few dozen short lines whatever the size of the place. Hooks that a repository
/// could bring along are switched off.
pub(super) const LIST_COMMAND: &str = r#"export LC_ALL=C
tab=$(printf '\t')
tracked() { git -c core.quotePath=false -c core.fsmonitor=false ls-files "$@" 2>/dev/null; }
if git -c core.fsmonitor=false rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  if [ -n "$(tracked | head -n 1)" ]; then kind=git; else kind=untracked; fi
else
  said=$(git -c core.fsmonitor=false rev-parse 2>&1)
  case $said in
    *'not a git repository'*) kind=files ;;
    *fatal:*) kind=refused ;;
    *) kind=files ;;
  esac
fi
if [ ! -e gent-demo-report.md ] && [ ! -L gent-demo-report.md ]; then report=absent
elif [ -f gent-demo-report.md ] && [ "$(head -n 1 gent-demo-report.md 2>/dev/null)" = '# gent demo report' ]; then report=ours
else report=foreign; fi
others() { if [ "$report" = ours ]; then grep -v '^gent-demo-report\.md$'; else cat; fi; }
list() {
  if [ "$kind" = git ]; then tracked
  elif [ "$kind" = untracked ]; then tracked --others --exclude-standard | others | head -n 20000
  else find . \( -type f -o -type l \) ! -path '*/.git/*' 2>/dev/null | sed 's|^\./||' | others | head -n 20000; fi
}
found=$(list | awk -F/ '
  { n++; name = $NF; at = match(name, /\.[A-Za-z0-9_+-]+$/); ext = at > 1 ? substr(name, at + 1) : "-"
    if (length(ext) > 20) ext = "-"
    count[ext]++
    if (length($0) < 160) {
      if (NF == 1 && name ~ /^README/) { if (readmes++ < 2) path[++paths] = $0 }
      else if (NF == 1) { if (tops++ < 6) path[++paths] = $0 }
      else if (!(ext in seen) && deeper++ < 8) { seen[ext] = 1; path[++paths] = $0 }
    } }
  END { printf "count\t%d\n", n
    for (ext in count) printf "ext\t%d\t%s\n", count[ext], ext
    for (i = 1; i <= paths; i++) printf "path\t%s\n", path[i] }')
printf 'kind\t%s\n' "$kind"
printf '%s\n' "$found" | grep '^count'
printf '%s\n' "$found" | grep '^ext' | sort -t "$tab" -k2,2nr -k3,3 | head -n 12
printf '%s\n' "$found" | sed -n "s/^path$tab//p" | while IFS= read -r path; do
  if [ -f "$path" ] && [ -r "$path" ]; then printf 'file\t%s\t%s\n' "$(wc -c < "$path" | tr -d ' ')" "$path"; fi
done
printf 'report\t%s\n' "$report"
"#;

/// Where a listing of untracked files stops.
const LIMIT: u64 = 20_000;

/// Whether `command` is exactly the one the demo model asks for: a demo approves this one and no other.
pub fn is_demo_command(command: &str) -> bool {
    command == LIST_COMMAND
}

/// What may be done with the report file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportFile {
    /// There is none, or one of an earlier demo.
    Writable,
    /// Somebody else's.
    Foreign,
}

/// What the listing lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The files that git tracks.
    Tracked,
    /// The files of a repository that tracks none yet.
    Untracked,
    /// The files of a directory without git.
    Plain,
    /// The files of a repository that git refuses to read.
    Refused,
}

/// A file that exists, and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub path: String,
    pub bytes: u64,
}

/// What the command printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    pub place: Place,
    pub n_files: u64,
    /// Extension and number of files, most first; `-` for none.
    pub extensions: Vec<(String, u64)>,
    pub samples: Vec<Sample>,
    pub report_file: ReportFile,
}

impl Listing {
    /// Reads the command's output; none where it is not the output of a whole run.
    pub(super) fn parse(stdout: &str) -> Option<Self> {
        let mut listing = Self {
            place: Place::Plain,
            n_files: 0,
            extensions: Vec::new(),
            samples: Vec::new(),
            report_file: ReportFile::Foreign,
        };
        let mut is_whole = false;
        for line in stdout.lines() {
            let mut fields = line.splitn(3, '\t');
            match (fields.next(), fields.next(), fields.next()) {
                (Some("kind"), Some("git"), None) => listing.place = Place::Tracked,
                (Some("kind"), Some("untracked"), None) => listing.place = Place::Untracked,
                (Some("kind"), Some("refused"), None) => listing.place = Place::Refused,
                (Some("count"), Some(count), None) => listing.n_files = count.parse().ok()?,
                (Some("ext"), Some(count), Some(ext)) => {
                    listing.extensions.push((ext.to_owned(), count.parse().ok()?));
                }
                (Some("file"), Some(bytes), Some(path)) => {
                    listing.samples.push(Sample { path: path.to_owned(), bytes: bytes.parse().ok()? });
                }
                (Some("report"), Some(state), None) => {
                    is_whole = true;
                    if matches!(state, "absent" | "ours") {
                        listing.report_file = ReportFile::Writable;
                    }
                }
                _ => {}
            }
        }
        is_whole.then_some(listing)
    }

    /// The sentence with the number of files.
    pub(super) fn count_sentence(&self) -> String {
        let n = self.n_files;
        let files = if n == 1 { "file" } else { "files" };
        let or_more = if n >= LIMIT { " or more" } else { "" };
        match (self.place, n) {
            (Place::Tracked, _) => format!("Git tracks {n} {files} here."),
            (Place::Untracked, 0) => "Git tracks no file here yet, and there is none to add.".to_owned(),
            (Place::Untracked, _) => {
                format!("Git tracks no file here yet; {n} {files}{or_more} could be added.")
            }
            (Place::Plain, 0) => "This directory has no files yet, and git does not track it.".to_owned(),
            (Place::Plain, _) => {
                format!("This directory holds {n} {files}{or_more}, and git does not track it.")
            }
            (Place::Refused, _) => format!(
                "This directory holds {n} {files}{or_more}; git refuses to read its repository: `git status` \
                 says why."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{REPORT_FILE, report};
    use super::*;

    #[test]
    fn the_output_is_read_line_by_line_and_must_be_whole() {
        let stdout = "kind\tgit\ncount\t3\next\t2\trs\next\t1\t-\nfile\t12\ta b\tc.rs\nreport\tours\n";
        assert_eq!(
            Listing::parse(stdout),
            Some(Listing {
                place: Place::Tracked,
                n_files: 3,
                extensions: vec![("rs".into(), 2), ("-".into(), 1)],
                samples: vec![Sample { path: "a b\tc.rs".into(), bytes: 12 }],
                report_file: ReportFile::Writable,
            })
        );
        assert_eq!(Listing::parse("kind\tgit\ncount\t3\n"), None);
        assert_eq!(Listing::parse("report\tforeign").unwrap().report_file, ReportFile::Foreign);
    }

    #[test]
    fn only_the_exact_command_is_the_demos_own() {
        assert!(is_demo_command(LIST_COMMAND));
        assert!(!is_demo_command(LIST_COMMAND.trim()));
        assert!(!is_demo_command(&format!("{LIST_COMMAND}rm -rf .")));
        assert!(!is_demo_command(""));
    }

    #[test]
    fn the_command_looks_for_the_file_and_the_first_line_that_the_report_has() {
        assert!(LIST_COMMAND.contains(REPORT_FILE));
        assert!(LIST_COMMAND.contains(&format!("'{}'", report::FIRST_LINE)));
    }
}
