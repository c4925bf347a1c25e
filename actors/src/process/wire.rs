//! Owns the words between the server and its helper: one launch order down, reports up, each a JSON object
//! behind its length. Never does I/O on its own. Tested below and through `actors/tests/process`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Largest frame. A launch order holds arguments and environment, for which Linux takes at most a quarter of
/// the stack limit (2 MiB); escaping can make six bytes of one.
pub(super) const FRAME_MAX: usize = 16 * 1024 * 1024;

/// Bytes of the length in front of a frame.
const LENGTH_BYTES: usize = 4;

/// What the helper is to start. The directory is the helper's own when it is started, so that it needs no
/// encoding here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LaunchOrder {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// The whole environment.
    pub(super) environment: BTreeMap<String, String>,
}

/// What the helper tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "camelCase")]
pub(super) enum Report {
    /// The program runs.
    Started { pid: u32 },
    /// It could not be started; the helper ends.
    Failed { not_found: bool, reason: String },
    /// The program itself ended: one of the two is there.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// What is still there after the grace that follows the exit; empty means nothing.
    Settled { left: Vec<Left> },
    /// Nothing is left; the helper ends. End of file without it means that the helper was killed.
    Gone,
}

/// A process that outlived the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) pid: u32,
    pub(super) name: String,
}

/// Why bytes are no frame.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("a frame of {length} bytes is longer than {FRAME_MAX}")]
    TooLong { length: usize },
    #[error("a frame does not decode")]
    Malformed(#[from] serde_json::Error),
}

/// A frame.
pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, WireError> {
    let body = serde_json::to_vec(value)?;
    if body.len() > FRAME_MAX {
        return Err(WireError::TooLong { length: body.len() });
    }
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(LENGTH_BYTES + body.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Takes the first whole frame out of `buffer`; `None` when there is none yet.
pub(super) fn take_frame<T: DeserializeOwned>(buffer: &mut Vec<u8>) -> Result<Option<T>, WireError> {
    let Some((length, rest)) = buffer.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > FRAME_MAX {
        return Err(WireError::TooLong { length });
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let value = serde_json::from_slice(body)?;
    buffer.drain(..LENGTH_BYTES + length);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_arrive_byte_by_byte_come_out_whole_and_in_order() {
        let reports = [Report::Started { pid: 7 }, Report::Gone];
        let bytes: Vec<u8> = reports.iter().flat_map(|report| encode(report).unwrap()).collect();
        let (mut buffer, mut seen) = (Vec::new(), Vec::new());
        for byte in bytes {
            buffer.push(byte);
            seen.extend(take_frame::<Report>(&mut buffer).unwrap());
        }
        assert_eq!(seen, reports);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_are_awaited() {
        let mut buffer = u32::MAX.to_le_bytes().to_vec();
        assert!(matches!(take_frame::<Report>(&mut buffer), Err(WireError::TooLong { .. })));
    }
}
