//! Owns the model server of a measurement, ours or somebody's, and the rounds that its log tells of.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;

use super::Options;
use crate::scripted::{LoggedRequest, Script, Scripted, ScriptedServer};

/// What answers.
pub(crate) enum Model {
    Own(ScriptedServer),
    Foreign { url: String, log: Option<PathBuf> },
}

/// One request of a session, times in milliseconds of one clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Round {
    pub(crate) body_ms: f64,
    pub(crate) end_ms: f64,
    /// Bytes of the request before that this one does not begin with.
    pub(crate) lost_bytes: usize,
    /// System prompt and tools are those of the request before.
    pub(crate) is_stable: bool,
}

impl Model {
    pub(crate) fn of(options: &Options) -> Result<Self> {
        match &options.model_url {
            Some(url) => Ok(Self::Foreign { url: url.clone(), log: options.model_log.clone() }),
            None => Ok(Self::Own(Scripted::new(Script::new()).start_on_thread()?)),
        }
    }

    /// Its base URL, with `/v1`.
    pub(crate) fn base_url(&self) -> String {
        match self {
            Self::Own(server) => format!("{}/v1", server.url()),
            Self::Foreign { url, .. } => url.clone(),
        }
    }

    /// The rounds of the turn with this `ID:`, in order; none without a log.
    pub(crate) fn rounds(&self, id: &str) -> Result<Vec<Round>> {
        match self {
            Self::Own(server) => {
                let requests: Vec<_> =
                    server.requests().into_iter().filter(|request| request.id == id).collect();
                server.forget();
                Ok(own_rounds(&requests))
            }
            Self::Foreign { log: Some(log), .. } => foreign_rounds(&std::fs::read_to_string(log)?, id),
            Self::Foreign { log: None, .. } => Ok(Vec::new()),
        }
    }
}

fn own_rounds(requests: &[Arc<LoggedRequest>]) -> Vec<Round> {
    let mut rounds = Vec::with_capacity(requests.len());
    let mut before: Option<&Arc<LoggedRequest>> = None;
    for request in requests {
        let (lost_bytes, is_stable) = match before {
            Some(before) => (
                lost(&before.bytes, &request.bytes),
                before.system() == request.system() && before.tools() == request.tools(),
            ),
            None => (0, true),
        };
        let end_ns = request.end_ns().unwrap_or(request.body_ns);
        rounds.push(Round {
            body_ms: request.body_ns as f64 / 1e6,
            end_ms: end_ns as f64 / 1e6,
            lost_bytes,
            is_stable,
        });
        before = Some(request);
    }
    rounds
}

fn lost(before: &[u8], next: &[u8]) -> usize {
    before.len() - before.iter().zip(next).take_while(|(a, b)| a == b).count()
}

fn foreign_rounds(log: &str, id: &str) -> Result<Vec<Round>> {
    let mut rounds = Vec::new();
    let mut bytes_before = 0;
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line)?;
        if entry.get("sid").and_then(Value::as_str) != Some(id) {
            continue;
        }
        let time = |name: &str| entry.get(name).and_then(Value::as_f64).unwrap_or_default() * 1e3;
        let size = |name: &str| {
            entry.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
        };
        let lost_bytes = bytes_before - size("prefix").min(bytes_before);
        bytes_before = size("bytes");
        rounds.push(Round { body_ms: time("t_body"), end_ms: time("t_end"), lost_bytes, is_stable: true });
    }
    Ok(rounds)
}
