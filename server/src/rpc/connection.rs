//! Owns one open socket from its upgrade to the last byte: reads messages, notices that the peer is gone, and sees
//! the close through. Every way out ends in a finished or cut connection within a bounded time.
//! Never answers a call itself. Tested in `socket_tests.rs`.

use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::web::Bytes;
use futures_util::StreamExt;
use gent_protocol::StreamEndReason;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::calls::Calls;
use super::detached::Detached;
use super::dispatch::Dispatch;
use super::outgoing::{Gone, Outgoing};
use crate::http::connections::OpenSocket;
use crate::http::frames::{Decoder, Incoming};
use crate::lifecycle::{Lifecycle, Phase};

/// How often a silent client is asked whether it is there.
pub(crate) const PING: Duration = Duration::from_secs(30);
/// Silence after which a connection counts as dead and is cut.
pub(crate) const DEAD: Duration = Duration::from_secs(60);
/// How long a slow client may take to read up to its close frame; nothing but that frame is kept for it.
const SLOW_LINGER: Duration = Duration::from_secs(30);
/// How long any other client may take to answer a close.
const LINGER: Duration = Duration::from_secs(5);
/// How long the connection may take to end after both sides have closed.
const LAST: Duration = Duration::from_secs(2);

/// What ended the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client sent its close.
    Closed,
    /// We close: what the client still sends is skipped.
    Closing,
    /// We close, and the client's frames can no longer be told apart.
    Torn,
    /// The bytes ended.
    Gone,
    /// Nothing was heard for [`DEAD`].
    Dead,
}

/// Serves one socket until it is gone.
pub(crate) async fn run(
    dispatch: Arc<dyn Dispatch>,
    detached: Arc<Detached>,
    lifecycle: &Lifecycle,
    open: OpenSocket,
    payload: Payload,
    outgoing: Outgoing,
) {
    let mut reading = Reading { payload, decoder: Decoder::new(), chunk: Bytes::new() };
    let calls = Calls::new(dispatch, detached, outgoing.clone());
    let end = read(&mut reading, &calls, lifecycle, &outgoing).await;
    // Reads end here; what changes something is done, and the turns that are waited for go on.
    calls.leave();
    let code = outgoing.close_code();
    tracing::debug!(?end, code, "socket.ended");
    see_through(&mut reading, end, &outgoing).await;
    open.peer().cut();
}

struct Reading {
    payload: Payload,
    decoder: Decoder,
    chunk: Bytes,
}

async fn read(reading: &mut Reading, calls: &Calls, lifecycle: &Lifecycle, outgoing: &Outgoing) -> End {
    let going = lifecycle.reached(Phase::Going);
    let mut going = std::pin::pin!(going);
    let closing = outgoing.closing();
    let mut closing = std::pin::pin!(closing);
    let mut heard = Instant::now();
    let mut next_ping = heard + PING;
    loop {
        while let Some(event) = reading.decoder.feed(&mut reading.chunk) {
            match event {
                Ok(Incoming::Text(text)) => {
                    if calls.take(&text).await == Err(Gone) {
                        return End::Closing;
                    }
                }
                Ok(Incoming::Ping(payload)) => outgoing.pong(payload),
                Ok(Incoming::Pong) => {}
                Ok(Incoming::Close) => {
                    outgoing.close(1000, "");
                    return End::Closed;
                }
                Err(violation) => {
                    let (code, sentence) = violation.close();
                    outgoing.close(code, sentence);
                    reading.decoder.discard();
                    return if violation.keeps_frames() { End::Closing } else { End::Torn };
                }
            }
        }
        tokio::select! {
            biased;
            () = &mut going => {
                // A client that reads nothing more meets the close instead of the ends.
                let _gone = calls.end_streams(StreamEndReason::Going).await.is_err();
                outgoing.close(1001, "the server goes away; start again");
                return End::Closing;
            }
            () = &mut closing => return End::Closing,
            chunk = reading.payload.next() => match chunk {
                Some(Ok(chunk)) => {
                    reading.chunk = chunk;
                    heard = Instant::now();
                    next_ping = heard + PING;
                }
                Some(Err(_)) | None => return End::Gone,
            },
            () = sleep_until(next_ping) => {
                if heard + DEAD <= Instant::now() {
                    return End::Dead;
                }
                outgoing.ping();
                next_ping = heard + DEAD;
            }
        }
    }
}

/// Sees the close through: waits for the client's own, then for the end of the connection.
async fn see_through(reading: &mut Reading, end: End, outgoing: &Outgoing) {
    match end {
        End::Gone | End::Dead => {
            outgoing.finish();
            return;
        }
        End::Closed => {}
        End::Closing => {
            let is_slow = outgoing.close_code() == Some(4408);
            let deadline = Instant::now() + if is_slow { SLOW_LINGER } else { LINGER };
            reading.decoder.discard();
            skip_until_closed(reading, deadline).await;
        }
        End::Torn => {
            let deadline = Instant::now() + LAST;
            while let Ok(Some(Ok(_skipped))) = timeout_at(deadline, reading.payload.next()).await {}
        }
    }
    outgoing.finish();
    let deadline = Instant::now() + LAST;
    while let Ok(Some(Ok(_skipped))) = timeout_at(deadline, reading.payload.next()).await {}
}

async fn skip_until_closed(reading: &mut Reading, deadline: Instant) {
    loop {
        while let Some(event) = reading.decoder.feed(&mut reading.chunk) {
            match event {
                Ok(Incoming::Close) | Err(_) => return,
                Ok(Incoming::Text(_) | Incoming::Ping(_) | Incoming::Pong) => {}
            }
        }
        match timeout_at(deadline, reading.payload.next()).await {
            Ok(Some(Ok(chunk))) => reading.chunk = chunk,
            Ok(Some(Err(_)) | None) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use actix_web::error::PayloadError;
    use futures_util::future::LocalBoxFuture;
    use futures_util::{FutureExt, Stream, stream};

    use super::super::dispatch::{Batches, Called, Failure};
    use super::super::outgoing::Body;
    use super::*;

    struct Nothing;

    impl Dispatch for Nothing {
        fn call(&self, _called: Called) -> LocalBoxFuture<'static, Result<String, Failure>> {
            std::future::pending().boxed_local()
        }
        fn subscribe(&self, _called: Called) -> LocalBoxFuture<'static, Result<Box<dyn Batches>, Failure>> {
            std::future::pending().boxed_local()
        }
    }

    /// A connection from which `chunks` come, each after its wait in seconds, and then nothing.
    fn connection(chunks: Vec<(u64, &'static [u8])>) -> (Reading, Calls, Lifecycle, Outgoing, Body) {
        let (outgoing, body) = Outgoing::new();
        let bytes = stream::iter(chunks)
            .then(|(wait, bytes)| async move {
                tokio::time::sleep(Duration::from_secs(wait)).await;
                Ok::<_, PayloadError>(Bytes::from_static(bytes))
            })
            .chain(stream::pending());
        let bytes: Pin<Box<dyn Stream<Item = Result<Bytes, PayloadError>>>> = Box::pin(bytes);
        let payload = Payload::Stream { payload: bytes };
        let reading = Reading { payload, decoder: Decoder::new(), chunk: Bytes::new() };
        let calls = Calls::new(Arc::new(Nothing), Arc::new(Detached::new()), outgoing.clone());
        (reading, calls, Lifecycle::new(), outgoing, body)
    }

    const PONG: &[u8] = &[0x8a, 0x80, 0, 0, 0, 0];

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_asked_after_30_s_and_dead_after_60() {
        let (mut reading, calls, lifecycle, outgoing, mut body) = connection(vec![]);
        let began = Instant::now();
        let (end, asked) = tokio::join!(read(&mut reading, &calls, &lifecycle, &outgoing), async {
            let ping = body.next().await.unwrap().unwrap();
            (ping, began.elapsed())
        });
        assert_eq!(asked, (Bytes::from_static(&[0x89, 0]), PING));
        assert_eq!((end, began.elapsed()), (End::Dead, DEAD));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_answers_lives_on() {
        let (mut reading, calls, lifecycle, outgoing, _body) = connection(vec![(31, PONG), (59, PONG)]);
        let began = Instant::now();
        let end = read(&mut reading, &calls, &lifecycle, &outgoing).await;
        assert_eq!((end, began.elapsed()), (End::Dead, Duration::from_secs(31 + 59) + DEAD));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_has_30_s_to_read_its_close_and_any_other_5() {
        for (code, linger) in [(4408, SLOW_LINGER), (1001, LINGER)] {
            let (mut reading, _calls, _lifecycle, outgoing, _body) = connection(vec![]);
            outgoing.close(code, "");
            let began = Instant::now();
            see_through(&mut reading, End::Closing, &outgoing).await;
            assert_eq!(began.elapsed(), linger + LAST, "{code}");
        }
    }
}
