//! Owns the tool `edit`: replaces a piece of a file and leaves every other byte as it is.
//! Never edits what changed since the branch last saw it, and never leaves half an edit. Tested in `tests/edit.rs`.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gent_extension_api::{Tool, ToolContext, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matching::{Closeness, Found, find, unescape};
use super::path::{resolve, show, tell, tell_io, tell_open};
use super::placeholder::find_placeholder;
use super::seen::{SeenFiles, SeenKey, Stamp};
use super::text_encoding::{Encoding, decode_utf16};
use super::{atomic, declaration, lock_file, run_locked};
use crate::regular_file::open_regular;

/// The longest file that is edited: it is held in memory several times over.
pub(super) const EDITED_BYTES: u64 = 16 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EditInput {
    /// The file: absolute, from the working directory, or from the home with `~`.
    path: String,
    /// The text to replace, without line numbers. It must stand in the file once, unless `replaceAll` is set.
    #[schemars(length(min = 1))]
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every occurrence. Default: false.
    replace_all: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
struct EditOutput {
    path: String,
    replacements: usize,
}

/// The tool.
pub(super) fn tool(seen: Arc<SeenFiles>) -> Arc<dyn Tool> {
    let mut declaration = declaration(
        "edit",
        "Replaces a piece of a text file. `oldString` is the text as it stands in the file, with as many lines \
         around it as make it unique; `newString` is all of what shall stand there instead. Line endings and \
         encoding of the file are kept. A file that changed since it was last read here is refused: read it \
         again first.",
        "Replace a piece of a file",
    );
    declaration.destructive = true;
    declaration.prompt_guidelines = vec![
        "Change existing files with `edit`; copy `oldString` from what `read` showed, without the line numbers."
            .to_owned(),
        "Write `newString` out in full: no placeholder such as \"existing code\" for text that is to stay."
            .to_owned(),
    ];
    tool_fn(declaration, Some(summarize), move |context, input| run(context, input, Arc::clone(&seen)))
}

fn summarize(input: &EditInput, output: &EditOutput) -> String {
    let replacements = if output.replacements == 1 { "replacement" } else { "replacements" };
    format!("{} · {} {replacements}", input.path, output.replacements)
}

async fn run(context: ToolContext, input: EditInput, seen: Arc<SeenFiles>) -> Result<EditOutput, ToolError> {
    let path = resolve(&context, &input.path)?;
    if input.old_string.is_empty() {
        return Err(tell("`oldString` is empty; give the text to replace, or use write for a new file"));
    }
    if input.old_string == input.new_string {
        return Err(tell("`oldString` and `newString` are the same; nothing would change"));
    }
    let guard = lock_file(&context, &path).await?;
    let call = context.clone();
    run_locked(&context, guard, move || edit(&call, &path, &input, &seen)).await
}

fn edit(
    call: &ToolContext,
    path: &Path,
    input: &EditInput,
    seen: &SeenFiles,
) -> Result<EditOutput, ToolError> {
    let (bytes, stamp) = read_whole(path)?;
    let mut target = atomic::locate(path)?;
    if seen.has_changed(&SeenKey::new(call, target.real_path.clone()), &stamp) {
        return Err(changed_on_disk(path));
    }
    let encoding = Encoding::of(&bytes);
    let body = bytes.strip_prefix(encoding.mark()).unwrap_or(&bytes);
    let (edited, replacements) = if encoding.is_utf16() {
        let (text, is_lossy) = decode_utf16(encoding, body);
        if is_lossy {
            return Err(tell(format!(
                "cannot edit {}: it is UTF-16 with broken characters, which an edit would lose; change it with \
                 bash",
                show(path)
            )));
        }
        edit_text(path, text.as_bytes(), input)?
    } else {
        edit_text(path, body, input)?
    };
    let edited = encoding.encode(&edited);
    atomic::replace(&mut target, &edited)?;
    remember_written(call, seen, &target, &edited);
    Ok(EditOutput { path: show(path), replacements })
}

/// The sentence for a file that somebody else changed.
pub(super) fn changed_on_disk(path: &Path) -> ToolError {
    tell(format!(
        "{} changed on disk since it was last read here; read it again, then repeat the call",
        show(path)
    ))
}

/// What this branch wrote is what it has seen.
pub(super) fn remember_written(call: &ToolContext, seen: &SeenFiles, target: &atomic::Target, bytes: &[u8]) {
    // A file that is gone again will be a changed file to the next call, or none.
    if let Ok(metadata) = std::fs::metadata(&target.real_path) {
        seen.remember(SeenKey::new(call, target.real_path.clone()), Stamp::of(bytes, &metadata));
    }
}

fn read_whole(path: &Path) -> Result<(Vec<u8>, Stamp), ToolError> {
    let (file, metadata) = open_regular(path).map_err(|error| tell_open("edit", path, &error))?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(EDITED_BYTES) + 1).unwrap_or(0));
    // The length is what the file system says; what comes is bounded all the same.
    let mut bounded = file.take(EDITED_BYTES + 1);
    bounded.read_to_end(&mut bytes).map_err(|error| tell_io("edit", path, &error))?;
    if bounded.limit() == 0 {
        return Err(tell(format!(
            "cannot edit {}: it is longer than {} MiB; change it with a program in bash",
            show(path),
            EDITED_BYTES >> 20
        )));
    }
    let stamp = Stamp::of(&bytes, &metadata);
    Ok((bytes, stamp))
}

/// The text with its replacements, and how many there were.
fn edit_text(path: &Path, text: &[u8], input: &EditInput) -> Result<(Vec<u8>, usize), ToolError> {
    if let Some(placeholder) = find_placeholder(&input.new_string, &String::from_utf8_lossy(text)) {
        return Err(tell(format!(
            "`newString` holds the placeholder {placeholder:?}, which {} does not have; write the text out in full",
            show(path)
        )));
    }
    let Some(Found { ranges, closeness }) = find(text, &input.old_string) else {
        return Err(tell(format!(
            "`oldString` does not stand in {}; read the part to change again and copy it exactly",
            show(path)
        )));
    };
    if ranges.len() > 1 && input.replace_all != Some(true) {
        return Err(tell(format!(
            "`oldString` stands {} times in {}; add lines around it to make it unique, or set `replaceAll`",
            ranges.len(),
            show(path)
        )));
    }
    let new = match closeness {
        // Whoever escaped the old text once too often did the same to the new one.
        Closeness::Unescaped => unescape(&input.new_string),
        Closeness::Exact | Closeness::Loose => None,
    };
    let new = new.as_deref().unwrap_or(&input.new_string).replace("\r\n", "\n");
    Ok((replace_ranges(text, &ranges, &new), ranges.len()))
}

/// `text` with `new` in each place. Its line breaks become those of the place, else those of the file.
fn replace_ranges(text: &[u8], ranges: &[Range<usize>], new: &str) -> Vec<u8> {
    let file_break = main_line_break(text).unwrap_or("\n");
    let mut edited = Vec::with_capacity(text.len() + new.len());
    let mut copied = 0;
    for range in ranges {
        edited.extend_from_slice(text.get(copied..range.start).unwrap_or_default());
        let place = text.get(range.clone()).unwrap_or_default();
        match main_line_break(place).unwrap_or(file_break) {
            "\n" => edited.extend_from_slice(new.as_bytes()),
            line_break => edited.extend_from_slice(new.replace('\n', line_break).as_bytes()),
        }
        copied = range.end;
    }
    edited.extend_from_slice(text.get(copied..).unwrap_or_default());
    edited
}

/// The more frequent kind of line break; none where there is no line break.
fn main_line_break(text: &[u8]) -> Option<&'static str> {
    let n_all = text.iter().filter(|byte| **byte == b'\n').count();
    let n_long = text.windows(2).filter(|pair| pair == b"\r\n").count();
    (n_all > 0).then_some(if n_long * 2 > n_all { "\r\n" } else { "\n" })
}
