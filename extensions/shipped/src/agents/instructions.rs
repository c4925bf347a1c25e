//! Owns which instruction files a session has, in what order, and how much of them.
//! Looks upward from the working directory and nowhere else: never lists a directory, never follows the tree
//! down. A file that cannot be read counts as one that is not there. Tested below and in `tests`.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::regular_file::open_regular;

/// Bytes of all instruction files together (contract, "Tools").
const INSTRUCTION_BYTES: usize = 64 * 1024;

/// The names of an instruction file, the first that has text counts.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Between two files.
const SEPARATOR: &str = "\n\n---\n\n";

const LEAD: &str = "\
# Instructions of the user and the project

They come from files, the most general first. Where two disagree, the later one holds; where the user says \
otherwise, the user.";

/// Where instruction files are looked for.
#[derive(Debug)]
pub(super) struct Places {
    /// The directory of user configuration.
    pub(super) gent_home: Option<PathBuf>,
    /// The working directory.
    pub(super) cwd: PathBuf,
}

/// What the instruction files say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Instructions {
    /// Their text; nothing when there is none.
    pub(super) text: Option<String>,
    /// Which files had no room, in a sentence.
    pub(super) cut: Option<String>,
}

/// Reads the instruction files.
pub(super) fn read_instructions(places: &Places) -> Instructions {
    let mut files: Vec<InstructionFile> = Vec::new();
    for directory in directories(places) {
        let Some(file) = NAMES.iter().find_map(|name| read_file(&directory.join(name))) else { continue };
        if !files.iter().any(|earlier| earlier.real_path == file.real_path) {
            files.push(file);
        }
    }
    // What is nearest to the work is kept: room is given out from the end.
    let mut room = INSTRUCTION_BYTES;
    for file in files.iter_mut().rev() {
        room -= file.keep_at_most(room);
    }
    join(&files)
}

/// From the most general to the nearest: the user's, then the repository's root down to the working directory,
/// then the project's configuration.
fn directories(places: &Places) -> Vec<PathBuf> {
    let cwd = places.cwd.as_path();
    let root = cwd.ancestors().find(|directory| directory.join(".git").exists()).unwrap_or(cwd);
    let mut upward: Vec<&Path> =
        cwd.ancestors().take_while(|directory| directory.starts_with(root)).collect();
    upward.reverse();
    let mut directories: Vec<PathBuf> = places.gent_home.iter().cloned().collect();
    directories.extend(upward.into_iter().map(Path::to_owned));
    directories.push(cwd.join(".gent"));
    directories
}

#[derive(Debug)]
struct InstructionFile {
    path: PathBuf,
    /// One file under two names is read once: the user's own directory can be the project's.
    real_path: PathBuf,
    text: String,
    is_cut: bool,
}

impl InstructionFile {
    /// Cuts the text to at most `room` bytes and says how many it has now.
    fn keep_at_most(&mut self, room: usize) -> usize {
        if self.text.len() > room {
            self.text.truncate(self.text.floor_char_boundary(room));
            self.is_cut = true;
        }
        self.text.len()
    }
}

fn read_file(path: &Path) -> Option<InstructionFile> {
    let (file, _) = open_regular(path).ok()?;
    let mut bytes = Vec::new();
    // One byte more than there can be room for shows that the file is longer.
    let limit = u64::try_from(INSTRUCTION_BYTES + 1).ok()?;
    file.take(limit).read_to_end(&mut bytes).ok()?;
    let is_cut = bytes.len() > INSTRUCTION_BYTES;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text).trim();
    if text.is_empty() {
        return None;
    }
    let real_path = path.canonicalize().ok()?;
    Some(InstructionFile { path: path.to_owned(), real_path, text: text.to_owned(), is_cut })
}

fn join(files: &[InstructionFile]) -> Instructions {
    if files.is_empty() {
        return Instructions::default();
    }
    let sections: Vec<String> = files
        .iter()
        .map(|file| {
            let mark = if file.is_cut { "\n[the rest of this file is left out]" } else { "" };
            format!("From `{}`:\n\n{}{mark}", file.path.display(), file.text)
        })
        .collect();
    let cut: Vec<String> =
        files.iter().filter(|file| file.is_cut).map(|file| file.path.display().to_string()).collect();
    let notice = || {
        format!(
            "The instruction files are longer than {} KiB together. Left out in part or in whole: {}. Read what you \
             need of them with `read`.",
            INSTRUCTION_BYTES / 1024,
            cut.join(", ")
        )
    };
    Instructions {
        text: Some(format!("{LEAD}\n\n{}", sections.join(SEPARATOR))),
        cut: (!cut.is_empty()).then(notice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    struct Tree(TempDir);

    impl Tree {
        fn new() -> Self {
            Self(TempDir::new().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn make(&self, name: &str, text: &str) {
            std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            std::fs::write(self.path(name), text).unwrap();
        }

        /// The paths and texts of the files that count.
        fn read(&self, gent_home: &str, cwd: &str) -> Vec<String> {
            let text = self.instructions(gent_home, cwd).text.unwrap_or_default();
            let text = text.replace(&*self.0.path().to_string_lossy(), "");
            let body = text.strip_prefix(LEAD).unwrap_or_default();
            body.split("\n\n---\n\n").map(|section| section.trim().replace(":\n\n", " ")).collect()
        }

        fn instructions(&self, gent_home: &str, cwd: &str) -> Instructions {
            read_instructions(&Places { gent_home: Some(self.path(gent_home)), cwd: self.path(cwd) })
        }
    }

    #[test]
    fn files_come_from_the_user_down_to_the_working_directory_and_no_further_up_than_the_repository() {
        let tree = Tree::new();
        for file in [
            "AGENTS.md",
            "r/AGENTS.md",
            "r/a/CLAUDE.md",
            "r/a/b/AGENTS.md",
            "r/a/b/.gent/AGENTS.md",
            "r/x/AGENTS.md",
            "r/a/b/c/AGENTS.md",
        ] {
            tree.make(file, "text");
        }
        tree.make("home/.gent/AGENTS.md", "text");
        tree.make("r/.git/HEAD", "");
        assert_eq!(
            tree.read("home/.gent", "r/a/b"),
            [
                "From `/home/.gent/AGENTS.md` text",
                "From `/r/AGENTS.md` text",
                "From `/r/a/CLAUDE.md` text",
                "From `/r/a/b/AGENTS.md` text",
                "From `/r/a/b/.gent/AGENTS.md` text",
            ]
        );
    }

    #[test]
    fn without_a_repository_only_the_working_directory_counts() {
        let tree = Tree::new();
        tree.make("AGENTS.md", "outer");
        tree.make("d/AGENTS.md", "inner");
        assert_eq!(tree.read("none", "d"), ["From `/d/AGENTS.md` inner"]);
    }

    #[test]
    fn the_second_name_counts_where_the_first_has_no_text() {
        let tree = Tree::new();
        tree.make("d/AGENTS.md", " \n");
        tree.make("d/CLAUDE.md", "\u{FEFF}second\n");
        assert_eq!(tree.read("none", "d"), ["From `/d/CLAUDE.md` second"]);
        tree.make("d/AGENTS.md", "first");
        assert_eq!(tree.read("none", "d"), ["From `/d/AGENTS.md` first"]);
    }

    #[test]
    fn the_user_directory_is_read_once_when_it_is_the_projects_too() {
        let tree = Tree::new();
        tree.make("home/.gent/AGENTS.md", "mine");
        assert_eq!(tree.read("home/.gent", "home"), ["From `/home/.gent/AGENTS.md` mine"]);
        assert_eq!(tree.read("home/.gent", "home/.gent"), ["From `/home/.gent/AGENTS.md` mine"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_read_is_not_there() {
        let tree = Tree::new();
        tree.make("d/AGENTS.md/x", "");
        crate::test_context::make_pipe(&tree.path("d/CLAUDE.md"));
        assert_eq!(tree.instructions("none", "d"), Instructions::default());
    }

    #[test]
    fn the_nearest_files_keep_their_room_and_what_is_cut_is_named() {
        let tree = Tree::new();
        tree.make("g/AGENTS.md", &"g".repeat(10));
        tree.make("d/AGENTS.md", &"ä".repeat(INSTRUCTION_BYTES));
        tree.make("d/.gent/AGENTS.md", &"n".repeat(INSTRUCTION_BYTES - 5));
        let instructions = tree.instructions("g", "d");
        let text = instructions.text.unwrap();
        let count = |letter: char| text.matches(letter).count();
        assert!(count('n') >= INSTRUCTION_BYTES - 5);
        assert_eq!(count('ä'), 2);
        assert!(text.contains("From `") && text.contains("ää\n[the rest of this file is left out]"));
        let cut = instructions.cut.unwrap();
        assert!(cut.contains("64 KiB") && cut.contains("d/AGENTS.md") && !cut.contains(".gent"), "{cut}");
    }

    #[test]
    fn one_endless_file_is_cut() {
        let tree = Tree::new();
        tree.make("d/AGENTS.md", &"n".repeat(INSTRUCTION_BYTES + 1));
        let instructions = tree.instructions("none", "d");
        assert!(instructions.text.unwrap().len() < INSTRUCTION_BYTES + 1_000);
        assert!(instructions.cut.unwrap().contains("d/AGENTS.md"));
        tree.make("d/AGENTS.md", &"n".repeat(INSTRUCTION_BYTES));
        assert_eq!(tree.instructions("none", "d").cut, None);
    }
}
