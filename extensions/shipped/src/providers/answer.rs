//! Owns the way from an HTTP answer to a stream of parts: the idle clock, the bound, cut and clean ends.
//! Never knows a wire format: that is the decoder's business. Tested in `tests/it/providers.rs`.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream;
use gent_extension_api::{ModelStream, ProviderFailure, StreamPart};
use reqwest::Response;
use tokio::time::{Instant, timeout_at};

use super::failure;
use super::http::{SharedHttp, is_content};
use super::peer::Peer;
use super::sse::{MAX_EVENT_BYTES, SseReader};

/// How long the tail of an answer is waited for once the provider has said why it ended: usage may still come.
const TAIL_TIMEOUT: Duration = Duration::from_secs(5);

/// What an event was to the idle clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Data.
    Data,
    /// A sign of life without data: it does not keep an answer alive.
    Ping,
    /// The last event.
    Over,
}

/// What makes parts of events.
pub(super) trait Decoder: Send + 'static {
    /// Takes one event.
    fn event(&mut self, data: &str, parts: &mut VecDeque<StreamPart>) -> Result<Progress, ProviderFailure>;

    /// Takes the clean end of a stream that sent no last event, or whose last event just came.
    fn end(&mut self, parts: &mut VecDeque<StreamPart>) -> Result<(), ProviderFailure>;

    /// True once nothing but usage can follow.
    fn is_settled(&self) -> bool;
}

struct Answer<D> {
    http: SharedHttp,
    peer: Peer,
    response: Option<Response>,
    /// The answer is one JSON document: the server does not stream.
    is_document: bool,
    document: Vec<u8>,
    reader: SseReader,
    decoder: D,
    parts: VecDeque<StreamPart>,
    failure: Option<ProviderFailure>,
    /// How long it may bring no data.
    idle: Duration,
    deadline: Instant,
    had_data: bool,
}

/// Reads `response` through `decoder`. Dropping the stream ends the request.
pub(super) fn read_answer<D: Decoder>(
    http: SharedHttp,
    peer: Peer,
    response: Response,
    decoder: D,
) -> ModelStream {
    // One answer keeps to what held when it began.
    let idle = http.idle.now();
    let answer = Answer {
        deadline: Instant::now() + idle,
        idle,
        is_document: is_content(&response, "application/json"),
        http,
        peer,
        response: Some(response),
        document: Vec::new(),
        reader: SseReader::default(),
        decoder,
        parts: VecDeque::new(),
        failure: None,
        had_data: false,
    };
    Box::pin(stream::unfold(answer, |mut answer| async move {
        let item = answer.next().await?;
        Some((item, answer))
    }))
}

impl<D: Decoder> Answer<D> {
    async fn next(&mut self) -> Option<Result<StreamPart, ProviderFailure>> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Some(Ok(part));
            }
            if let Some(failure) = self.failure.take() {
                return Some(Err(failure));
            }
            self.response.as_ref()?;
            self.advance().await;
        }
    }

    /// Takes one event, or reads on where none is whole.
    async fn advance(&mut self) {
        if !self.is_document {
            match self.reader.next_event() {
                Ok(Some(event)) => {
                    let progress = self.decoder.event(event.data, &mut self.parts);
                    return self.after_event(progress);
                }
                Ok(None) => {}
                Err(error) => return self.fail(failure::broken(&self.peer, &format!("holds {error}"))),
            }
        }
        let now = Instant::now();
        if std::mem::take(&mut self.had_data) {
            let idle = if self.decoder.is_settled() { TAIL_TIMEOUT.min(self.idle) } else { self.idle };
            self.deadline = now + idle;
        }
        // A flood of pings keeps the next read ready for ever: the clock is looked at before it.
        if now >= self.deadline {
            return self.fall_silent();
        }
        let Some(response) = self.response.as_mut() else { return };
        match timeout_at(self.deadline, response.chunk()).await {
            Ok(Ok(Some(piece))) if self.is_document => {
                self.document.extend_from_slice(&piece);
                self.had_data = true;
                if self.document.len() > MAX_EVENT_BYTES {
                    self.fail(failure::broken(&self.peer, "is larger than an answer can be"));
                }
            }
            Ok(Ok(Some(piece))) => self.reader.push(&piece),
            Ok(Ok(None)) => self.finish_cleanly(),
            // Whatever breaks after the provider's last word broke nothing.
            Ok(Err(_)) if self.decoder.is_settled() => self.finish(),
            Ok(Err(error)) => {
                let cause = failure::cause_of(&error);
                self.fail(failure::broken(&self.peer, &format!("was cut off ({cause}); try again")));
            }
            Err(_elapsed) => self.fall_silent(),
        }
    }

    fn fall_silent(&mut self) {
        if self.decoder.is_settled() {
            return self.finish();
        }
        let seconds = self.idle.as_secs_f32();
        self.fail(failure::broken(&self.peer, &format!("brought nothing for {seconds} s; try again")));
    }

    fn after_event(&mut self, progress: Result<Progress, ProviderFailure>) {
        match progress {
            Ok(Progress::Data) => self.had_data = true,
            Ok(Progress::Ping) => {}
            Ok(Progress::Over) => {
                if let Some(response) = self.response.take() {
                    self.http.drain(response);
                }
                self.finish();
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn finish_cleanly(&mut self) {
        let last = if self.is_document {
            match String::from_utf8(std::mem::take(&mut self.document)) {
                Ok(text) => self.decoder.event(&text, &mut self.parts).map(|_progress| ()),
                Err(_not_utf8) => Err(failure::broken(&self.peer, "holds text that is not UTF-8")),
            }
        } else {
            match self.reader.last_event() {
                Ok(Some(event)) => self.decoder.event(event.data, &mut self.parts).map(|_progress| ()),
                Ok(None) => Ok(()),
                Err(error) => Err(failure::broken(&self.peer, &format!("holds {error}"))),
            }
        };
        match last {
            Ok(()) => self.finish(),
            Err(failure) => self.fail(failure),
        }
    }

    fn finish(&mut self) {
        self.response = None;
        if let Err(failure) = self.decoder.end(&mut self.parts) {
            self.failure = Some(failure);
        }
    }

    /// Parts that came before are still handed out first.
    fn fail(&mut self, failure: ProviderFailure) {
        self.response = None;
        self.failure = Some(failure);
    }
}
