//! Owns the tool `write`: makes a file, or replaces all of one.
//! Never writes over what changed since the branch last saw it, and never leaves half a file.
//! Tested in `tests/write.rs`.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use gent_extension_api::{Tool, ToolContext, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::edit::{changed_on_disk, remember_written};
use super::path::{resolve, show, tell_io, tell_open};
use super::seen::{HASHED_BYTES, SeenFiles, SeenKey, Stamp};
use super::{atomic, declaration, lock_file, run_locked};
use crate::regular_file::open_regular;

#[derive(Debug, Deserialize, JsonSchema)]
struct WriteInput {
    /// The file: absolute, from the working directory, or from the home with `~`. Missing directories are made.
    path: String,
    /// All of what the file shall hold.
    content: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WriteOutput {
    path: String,
    bytes_written: usize,
}

/// The tool.
pub(super) fn tool(seen: Arc<SeenFiles>) -> Arc<dyn Tool> {
    let mut declaration = declaration(
        "write",
        "Makes a file with `content`, or replaces all of a file with it. Directories on the way are made, a \
         symbolic link keeps pointing where it does. A file that changed since it was last read here is refused: \
         read it again first.",
        "Make a file or replace all of one",
    );
    declaration.destructive = true;
    declaration.prompt_guidelines =
        vec!["Use `write` for new files and complete rewrites only; otherwise use `edit`.".to_owned()];
    tool_fn(declaration, Some(summarize), move |context, input| run(context, input, Arc::clone(&seen)))
}

fn summarize(input: &WriteInput, output: &WriteOutput) -> String {
    let bytes = if output.bytes_written == 1 { "byte" } else { "bytes" };
    format!("{} · {} {bytes}", input.path, output.bytes_written)
}

async fn run(
    context: ToolContext,
    input: WriteInput,
    seen: Arc<SeenFiles>,
) -> Result<WriteOutput, ToolError> {
    let path = resolve(&context, &input.path)?;
    let guard = lock_file(&context, &path).await?;
    let call = context.clone();
    run_locked(&context, guard, move || write(&call, &path, &input, &seen)).await
}

fn write(
    call: &ToolContext,
    path: &Path,
    input: &WriteInput,
    seen: &SeenFiles,
) -> Result<WriteOutput, ToolError> {
    let mut target = atomic::locate(path)?;
    if target.exists() {
        let key = SeenKey::new(call, target.real_path.clone());
        if seen.has_seen(&key) && seen.has_changed(&key, &stamp_of_file(path)?) {
            return Err(changed_on_disk(path));
        }
    }
    let bytes = input.content.as_bytes();
    atomic::replace(&mut target, bytes)?;
    remember_written(call, seen, &target, bytes);
    Ok(WriteOutput { path: show(path), bytes_written: bytes.len() })
}

fn stamp_of_file(path: &Path) -> Result<Stamp, ToolError> {
    let (file, metadata) = open_regular(path).map_err(|error| tell_open("write", path, &error))?;
    let mut bytes = Vec::new();
    // One byte more than is hashed is enough to see that the file is longer.
    file.take(HASHED_BYTES + 1).read_to_end(&mut bytes).map_err(|error| tell_io("write", path, &error))?;
    Ok(Stamp::of(&bytes, &metadata))
}
