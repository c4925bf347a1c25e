//! Owns the file of a text under review: `.gent/prompts/<words>-<call>.md` in the working directory, named alike in
//! each run of its call and in no other call. Written by a temporary file that takes its name, so that whoever has it
//! open sees one text or the other. Never follows a link on the way and never writes outside of the working directory.
//! Tested below and in `tests/prompt.rs`.

use std::fs::{self, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use gent_extension_api::{ToolContext, ToolError};
use sha2::{Digest, Sha256};

/// The directories below the working directory.
const DIRECTORIES: [&str; 2] = [".gent", "prompts"];

/// Characters of the name's head: the words of the title and what tells the calls of one id apart.
const SLUG_CHARS: usize = 40;

/// Hex digits that tell names apart.
const DIGITS: usize = 8;

/// Characters of a call's id in a name: with the rest it stays far below the 255 bytes that file systems take.
const CALL_CHARS: usize = 64;

/// The file of one call.
#[derive(Debug, Clone)]
pub(super) struct ReviewFile {
    cwd: PathBuf,
    path: PathBuf,
}

impl ReviewFile {
    /// The file of this call, named after the title or the first line of the text. It need not be there.
    pub(super) fn of(context: &ToolContext, title: Option<&str>, content: &str) -> Self {
        let cwd = context.cwd().to_path_buf();
        let mut path = cwd.clone();
        path.extend(DIRECTORIES);
        path.push(file_name(context, title.or_else(|| first_line(content)).unwrap_or_default()));
        Self { cwd, path }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it unless it is there. A call that runs again finds it, also with what a person made of it meanwhile.
    pub(super) async fn provide(&self, context: &ToolContext, content: &str) -> Result<(), ToolError> {
        self.write(context, content, false).await
    }

    /// Replaces its text.
    pub(super) async fn replace(&self, context: &ToolContext, content: &str) -> Result<(), ToolError> {
        self.write(context, content, true).await
    }

    async fn write(&self, context: &ToolContext, content: &str, replaces: bool) -> Result<(), ToolError> {
        let guard = context.file_lock().lock(&self.path).await;
        let (file, content) = (self.clone(), content.to_owned());
        let task = tokio::task::spawn_blocking(move || {
            let _held = guard;
            file.put(content.as_bytes(), replaces)
        });
        match task.await {
            Ok(written) => written.map_err(ToolError::TellModel),
            Err(error) => {
                Err(ToolError::Broken { message: format!("writing a review ended abnormally: {error}") })
            }
        }
    }

    /// Writes it; fails with a sentence for the model.
    fn put(&self, bytes: &[u8], replaces: bool) -> Result<(), String> {
        let refused = |path: &Path, why: &str| {
            Err(format!("the text was not written for review: {} {why}", path.display()))
        };
        let mut directory = self.cwd.clone();
        for name in DIRECTORIES {
            directory.push(name);
            match make_directory(&directory) {
                Ok(true) => {}
                Ok(false) => return refused(&directory, "is no directory; use another mode or ask the user"),
                Err(error) => return refused(&directory, &format!("cannot be made: {error}")),
            }
        }
        match fs::symlink_metadata(&self.path) {
            Ok(found) if !found.is_file() => return refused(&self.path, "is no regular file"),
            Ok(_) if !replaces => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return refused(&self.path, &format!("cannot be looked at: {error}")),
        }
        fill_and_rename(&self.path, bytes)
            .or_else(|error| refused(&self.path, &format!("cannot be written: {error}")))
    }
}

/// Makes a directory unless it is there; false when something else has its name, such as a link that leads away.
fn make_directory(path: &Path) -> Result<bool, Error> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(fs::symlink_metadata(path)?.is_dir()),
        made => made.map(|()| true),
    }
}

fn fill_and_rename(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension("md.tmp");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = match options.open(&temporary) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // The lock of the file is held: what has the name is left from a process that died.
            fs::remove_file(&temporary)?;
            options.open(&temporary)?
        }
        opened => opened?,
    };
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    drop(file);
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if renamed.is_err() && fs::remove_file(&temporary).is_err() {
        tracing::warn!("review.temporary_left");
    }
    renamed
}

/// The name of the call's file. Ids of calls come from providers: some use one again in a later step, so the step tells
/// them apart.
fn file_name(context: &ToolContext, words: &str) -> String {
    let step =
        [context.session_id().as_str(), context.branch_id().as_str(), context.assistant_message_id.as_str()];
    let head = slug(words, SLUG_CHARS - DIGITS - 1);
    format!("{head}-{}-{}.md", digits(&step), call_name(context.tool_call_id.as_str()))
}

/// A call's id as part of a file name; one that had to be changed for it is told from others that would be alike.
fn call_name(id: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if id.len() <= CALL_CHARS && id.chars().all(is_plain) {
        return id.to_owned();
    }
    let plain = id.chars().filter(|letter| is_plain(*letter)).take(CALL_CHARS - DIGITS - 1);
    format!("{}-{}", plain.collect::<String>(), digits(&[id]))
}

/// The words as part of a file name: ASCII letters and digits, the rest a dash.
fn slug(words: &str, max: usize) -> String {
    let letters = words
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { ' ' });
    let letters: String = letters.collect();
    let joined = letters.split_whitespace().collect::<Vec<_>>().join("-");
    let cut: String = joined.chars().take(max).collect();
    let cut = cut.trim_end_matches('-');
    if cut.is_empty() { "review".to_owned() } else { cut.to_owned() }
}

fn first_line(content: &str) -> Option<&str> {
    content.lines().find(|line| !line.trim().is_empty())
}

fn digits(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_name_are_plain_and_short() {
        assert_eq!(slug("# Plan: move the Store!", 31), "plan-move-the-store");
        assert_eq!(slug("../../etc/passwd", 31), "etc-passwd");
        assert_eq!(slug("план", 31), "review");
        assert_eq!(slug("aaaa bbbb", 5), "aaaa");
    }

    #[test]
    fn a_calls_id_in_a_name_is_plain_short_and_its_own() {
        assert_eq!(call_name("toolu_01-aB"), "toolu_01-aB");
        let names = ["../../x", "..x", "x", "", &"x".repeat(1200), &"x".repeat(1201)].map(call_name);
        for name in &names {
            assert!(name.len() <= CALL_CHARS && !name.contains(['/', '.']), "{name}");
        }
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn what_a_dead_process_left_of_a_write_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("plan.md");
        fs::write(place.path().join("plan.md.tmp"), "half").unwrap();
        fill_and_rename(&path, b"whole").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
