//! Owns the tool `read`: a page of a text file with numbered lines.
//! Never waits for a pipe or a device and never holds more of a file than one piece. Tested in `tests/read.rs` and below.

use std::io::{ErrorKind, Read};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gent_extension_api::{Tool, ToolContext, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::page::Page;
use super::path::{resolve, show, tell, tell_io, tell_open};
use super::result_size::{RESULT_CHARS, json_chars};
use super::seen::{HASHED_BYTES, SeenFiles, SeenKey, Stamp};
use super::text_encoding::{Encoding, Utf16Decoder};
use super::{declaration, lock_file, run_locked, stopped};
use crate::regular_file::open_regular;

/// Lines of a page where the call names no number (spec A.5.1).
const DEFAULT_LINES: u64 = 2_000;

/// JSON characters of a result besides path and content: its field names and three numbers of 20 digits.
const ENVELOPE_CHARS: usize = 160;

/// Bytes read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Bytes read behind a full page to count the lines that follow; a longer file is not counted to its end.
const COUNTED_BYTES: u64 = 64 << 20;

/// Bytes read in one call, whatever the file looks like and wherever its page begins: a second of a slow disk. Beyond
/// it the page ends where it stands, `truncated`, and `lineCount` is a lower bound; a line further on is refused.
const READ_BYTES: u64 = 128 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ReadInput {
    /// The file: absolute, from the working directory, or from the home with `~`.
    path: String,
    /// The first line to show, from 1. Default: 1.
    offset: Option<NonZeroU64>,
    /// How many lines to show at most. Default: 2000.
    limit: Option<NonZeroU64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadOutput {
    content: String,
    path: String,
    line_count: u64,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lossy: bool,
}

/// The tool.
pub(super) fn tool(seen: Arc<SeenFiles>) -> Arc<dyn Tool> {
    let mut declaration = declaration(
        "read",
        "Reads a text file. Each line comes with its number and a tab in front, which are not part of the file. \
         A result holds at most 8,000 characters: when `truncated` is true, call again with `offset` set to \
         `nextOffset`. `lineCount` is the number of lines of the whole file (of a very long one, of its start). \
         A `truncated` result without `nextOffset` is as far into the file as this tool reads. `lossy` says that some bytes were not valid text.",
        "Read a file, page by page",
    );
    declaration.readonly = true;
    declaration.prompt_guidelines = vec![
        "Read files with `read`, not with `cat` or `sed` in `bash`.".to_owned(),
        "Of a long file read only the part you need: find it with `grep`, then pass `offset` and `limit`."
            .to_owned(),
    ];
    tool_fn(declaration, Some(summarize), move |context, input| run(context, input, Arc::clone(&seen)))
}

fn summarize(input: &ReadInput, output: &ReadOutput) -> String {
    let lines = if output.line_count == 1 { "line" } else { "lines" };
    let cut = if output.truncated { " (truncated)" } else { "" };
    format!("{} · {} {lines}{cut}", input.path, output.line_count)
}

async fn run(context: ToolContext, input: ReadInput, seen: Arc<SeenFiles>) -> Result<ReadOutput, ToolError> {
    let path = resolve(&context, &input.path)?;
    let guard = lock_file(&context, &path).await?;
    let call = context.clone();
    run_locked(&context, guard, move || {
        let (page, stamp) = read_page(&path, &input, call.cancelled())?;
        let real_path = path.canonicalize().unwrap_or_else(|_| path.clone());
        seen.remember(SeenKey::new(&call, real_path), stamp);
        make_output(page, path, &input)
    })
    .await
}

fn make_output(page: Page, path: PathBuf, input: &ReadInput) -> Result<ReadOutput, ToolError> {
    let line_count = page.line_count();
    let first = input.offset.map_or(1, NonZeroU64::get);
    if first > line_count.max(1) && page.is_cut_off() {
        return Err(tell(format!(
            "line {first} of {} is not in its first {} MiB, which is as far as `read` goes; \
             take the lines out with `sed -n` in `bash`",
            show(&path),
            READ_BYTES >> 20
        )));
    }
    if first > line_count.max(1) {
        return Err(tell(format!(
            "{} has {line_count} lines, so there is no line {first}; use a smaller offset",
            show(&path)
        )));
    }
    let next_offset = page.next_line();
    Ok(ReadOutput {
        path: show(&path),
        line_count,
        truncated: next_offset.is_some() || page.is_cut_off(),
        next_offset,
        lossy: page.is_lossy(),
        content: page.into_text(),
    })
}

/// Reads the page that `input` asks for, and the stamp of the whole file.
fn read_page(
    path: &Path,
    input: &ReadInput,
    cancelled: &CancellationToken,
) -> Result<(Page, Stamp), ToolError> {
    let (file, metadata) = open_regular(path).map_err(|error| tell_open("read", path, &error))?;
    let limit = input.limit.map_or(DEFAULT_LINES, NonZeroU64::get);
    let budget = RESULT_CHARS.saturating_sub(ENVELOPE_CHARS + json_chars(&show(path)));
    let mut text = TextPage::new(Page::new(input.offset.map_or(1, NonZeroU64::get), limit, budget));
    let mut hasher = (metadata.len() <= HASHED_BYTES).then(Sha256::new);
    // One byte more than the file has: a file of one piece then ends in two reads.
    let piece_bytes = metadata.len().clamp(4_095, PIECE_BYTES - 1) + 1;
    let mut piece = vec![0; usize::try_from(piece_bytes).unwrap_or(4_096)];
    let (mut total, mut behind_page) = (0_u64, 0_u64);
    // The one byte more tells a file that goes on from one that ends there.
    let mut file = file.take(READ_BYTES + 1);
    while behind_page <= COUNTED_BYTES {
        if cancelled.is_cancelled() {
            return Err(stopped());
        }
        let n_read = match file.read(&mut piece) {
            Ok(0) if file.limit() == 0 => {
                text.page.cut_off();
                break;
            }
            Ok(0) => {
                text.finish();
                break;
            }
            Ok(n_read) => n_read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(tell_io("read", path, &error)),
        };
        let bytes = piece.get(..n_read).unwrap_or_default();
        let length = u64::try_from(n_read).unwrap_or(u64::MAX);
        total += length;
        if total > HASHED_BYTES {
            hasher = None;
        }
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        if text.page.is_full() {
            behind_page += length;
        }
        text.feed(bytes);
    }
    let stamp = match hasher {
        Some(hasher) => Stamp::Content(hasher.finalize().into()),
        None => Stamp::surface(&metadata),
    };
    Ok((text.page, stamp))
}

/// A page that is fed the bytes of a file in whatever encoding it has.
struct TextPage {
    page: Page,
    head: Vec<u8>,
    encoding: Option<Encoding>,
    decoder: Option<Utf16Decoder>,
    decoded: String,
}

impl TextPage {
    /// Bytes that decide the encoding: the longest mark.
    const HEAD_BYTES: usize = 3;

    fn new(page: Page) -> Self {
        Self { page, head: Vec::new(), encoding: None, decoder: None, decoded: String::new() }
    }

    fn feed(&mut self, bytes: &[u8]) {
        if self.encoding.is_some() {
            return self.feed_body(bytes);
        }
        self.head.extend_from_slice(bytes);
        if self.head.len() >= Self::HEAD_BYTES {
            self.decide();
        }
    }

    fn finish(&mut self) {
        if self.encoding.is_none() {
            self.decide();
        }
        if let Some(decoder) = &mut self.decoder {
            decoder.finish(&mut self.decoded);
            if decoder.is_lossy() {
                self.page.mark_lossy();
            }
        }
        self.feed_decoded();
        self.page.finish();
    }

    fn decide(&mut self) {
        let head = std::mem::take(&mut self.head);
        let encoding = Encoding::of(&head);
        self.encoding = Some(encoding);
        self.decoder = encoding.is_utf16().then(|| Utf16Decoder::new(encoding));
        self.feed_body(head.strip_prefix(encoding.mark()).unwrap_or(&head));
    }

    fn feed_body(&mut self, bytes: &[u8]) {
        match &mut self.decoder {
            Some(decoder) => {
                decoder.feed(bytes, &mut self.decoded);
                self.feed_decoded();
            }
            None => self.page.feed(bytes),
        }
    }

    fn feed_decoded(&mut self) {
        self.page.feed(self.decoded.as_bytes());
        self.decoded.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_is_cancelled_stops_within_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "a\n").unwrap();
        let input = ReadInput { path: String::new(), offset: None, limit: None };
        let cancelled = CancellationToken::new();
        assert_eq!(read_page(&path, &input, &cancelled).unwrap().0.line_count(), 1);
        cancelled.cancel();
        assert!(matches!(read_page(&path, &input, &cancelled), Err(ToolError::TellModel(_))));
    }
}
