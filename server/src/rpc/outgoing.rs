//! Owns what waits to be written to one socket: frames in a queue bounded by count and bytes, one pending pong,
//! and the close. The connection's body pulls from it only when the socket takes more, so a slow socket holds a
//! bounded queue and nothing else.
//! Never drops a frame silently: what does not fit waits, and a socket that takes nothing for [`SLOW`] is closed.
//! Tested below.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use actix_web::web::Bytes;
use futures_util::Stream;
use tokio::sync::Notify;

/// Frames that may wait for one socket. Beyond it: writers wait.
pub(crate) const QUEUE_FRAMES: usize = 256;
/// Bytes that may wait for one socket; a larger frame is taken when nothing else waits.
pub(crate) const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes above which a stream pulls no further batch: what it has not pulled costs a cursor, not memory.
pub(crate) const STREAM_BYTES: usize = 256 * 1024;
/// How long a socket may take nothing while somebody waits for room. Beyond it: close 4408.
pub(crate) const SLOW: Duration = Duration::from_secs(5);
/// Frames are joined up to this many bytes before they are handed to the connection.
const JOINED_BYTES: usize = 16 * 1024;

/// The socket is closing or gone: nothing more is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

#[derive(Default)]
struct Queue {
    frames: VecDeque<String>,
    bytes: usize,
    pong: Option<Vec<u8>>,
    is_ping_due: bool,
    /// How many frames the socket has taken: the clock of slowness.
    taken: u64,
    close: Option<(u16, String)>,
    is_close_taken: bool,
    is_finished: bool,
    reader: Option<Waker>,
}

#[derive(Default)]
struct Shared {
    queue: RefCell<Queue>,
    room: Notify,
    closing: Notify,
    /// Whose turn it is to pull a batch.
    pulling: tokio::sync::Mutex<()>,
}

/// The writers' end.
#[derive(Clone, Default)]
pub(crate) struct Outgoing(Rc<Shared>);

impl Outgoing {
    /// An empty queue and the body that pulls from it.
    pub(crate) fn new() -> (Self, Body) {
        let outgoing = Self::default();
        (outgoing.clone(), Body(outgoing))
    }

    /// Queues one text frame; waits for room as long as the socket takes something.
    pub(crate) async fn send(&self, frame: String) -> Result<(), Gone> {
        self.room_for(frame.len()).await?;
        self.push(frame)
    }

    /// Waits for room for a frame of this length, as long as the socket takes something. Nothing is kept for it: it
    /// is there until the caller awaits something else.
    pub(crate) async fn room_for(&self, length: usize) -> Result<(), Gone> {
        self.wait_until(|queue| {
            queue.frames.is_empty()
                || (queue.frames.len() < QUEUE_FRAMES && queue.bytes.saturating_add(length) <= QUEUE_BYTES)
        })
        .await
    }

    /// Waits for the one turn to pull a batch and queue it.
    pub(crate) async fn pull_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.pulling.lock().await
    }

    /// Waits until a stream may pull its next batch.
    pub(crate) async fn stream_room(&self) -> Result<(), Gone> {
        self.wait_until(|queue| queue.frames.len() < QUEUE_FRAMES && queue.bytes <= STREAM_BYTES).await
    }

    /// Queues one text frame for which there is room.
    pub(crate) fn push(&self, frame: String) -> Result<(), Gone> {
        let mut queue = self.0.queue.borrow_mut();
        if queue.close.is_some() {
            return Err(Gone);
        }
        queue.bytes = queue.bytes.saturating_add(frame.len());
        queue.frames.push_back(frame);
        wake(&mut queue);
        Ok(())
    }

    async fn wait_until(&self, has_room: impl Fn(&Queue) -> bool) -> Result<(), Gone> {
        loop {
            let freed = self.0.room.notified();
            let mut freed = std::pin::pin!(freed);
            freed.as_mut().enable();
            let taken = {
                let queue = self.0.queue.borrow();
                if queue.close.is_some() {
                    return Err(Gone);
                }
                if has_room(&queue) {
                    return Ok(());
                }
                queue.taken
            };
            if tokio::time::timeout(SLOW, freed).await.is_err() && self.0.queue.borrow().taken == taken {
                self.close(4408, "slow: frames were not read; go on from the last event seen");
                return Err(Gone);
            }
        }
    }

    /// Answers a ping; only the newest waits, so that a flood of pings costs nothing.
    pub(crate) fn pong(&self, payload: Vec<u8>) {
        let mut queue = self.0.queue.borrow_mut();
        queue.pong = Some(payload);
        wake(&mut queue);
    }

    /// Asks the client whether it is there.
    pub(crate) fn ping(&self) {
        let mut queue = self.0.queue.borrow_mut();
        queue.is_ping_due = true;
        wake(&mut queue);
    }

    /// Closes with `code`. A slow or forbidden client's waiting frames are dropped: it goes on from its cursor.
    /// The first close counts.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        {
            let mut queue = self.0.queue.borrow_mut();
            if queue.close.is_some() {
                return;
            }
            queue.close = Some((code, reason.to_owned()));
            if code != 1000 && code != 1001 {
                queue.frames = VecDeque::new();
                queue.bytes = 0;
            }
            wake(&mut queue);
        }
        self.0.closing.notify_waiters();
        self.0.room.notify_waiters();
    }

    /// The code under which it closes.
    pub(crate) fn close_code(&self) -> Option<u16> {
        self.0.queue.borrow().close.as_ref().map(|(code, _)| *code)
    }

    /// Returns when somebody closes it.
    pub(crate) async fn closing(&self) {
        let closing = self.0.closing.notified();
        let mut closing = std::pin::pin!(closing);
        closing.as_mut().enable();
        if self.close_code().is_none() {
            closing.await;
        }
    }

    /// Ends the body: after the client's own close, or when it was waited for long enough.
    pub(crate) fn finish(&self) {
        let mut queue = self.0.queue.borrow_mut();
        queue.is_finished = true;
        wake(&mut queue);
    }
}

fn wake(queue: &mut Queue) {
    if let Some(reader) = queue.reader.take() {
        reader.wake();
    }
}

/// The connection's end: bytes, as the socket takes them.
pub(crate) struct Body(Outgoing);

impl Stream for Body {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let shared = &self.0.0;
        let mut queue = shared.queue.borrow_mut();
        let mut bytes = Vec::new();
        if !queue.is_close_taken {
            if let Some(payload) = queue.pong.take() {
                append_frame(&mut bytes, 10, &payload);
            }
            if std::mem::take(&mut queue.is_ping_due) {
                append_frame(&mut bytes, 9, b"");
            }
            while bytes.len() < JOINED_BYTES {
                let Some(frame) = queue.frames.pop_front() else { break };
                queue.bytes = queue.bytes.saturating_sub(frame.len());
                queue.taken += 1;
                append_frame(&mut bytes, 1, frame.as_bytes());
            }
            if queue.frames.is_empty()
                && let Some((code, reason)) = queue.close.clone()
            {
                queue.is_close_taken = true;
                let mut payload = code.to_be_bytes().to_vec();
                payload.extend(reason.as_bytes().iter().take(123));
                append_frame(&mut bytes, 8, &payload);
            }
        }
        if !bytes.is_empty() {
            if queue.frames.is_empty() {
                queue.frames = VecDeque::new();
            }
            drop(queue);
            shared.room.notify_waiters();
            return Poll::Ready(Some(Ok(Bytes::from(bytes))));
        }
        if queue.is_finished {
            return Poll::Ready(None);
        }
        queue.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

/// One whole frame of a server: without mask. The payload of a control frame has at most 125 bytes.
fn append_frame(bytes: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    bytes.reserve(payload.len().saturating_add(10));
    bytes.push(0x80 | opcode);
    let length = payload.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => bytes.push(short),
        (_, Ok(middle)) => {
            bytes.push(126);
            bytes.extend(middle.to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend(u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
    bytes.extend(payload);
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::StreamExt;

    use super::*;

    fn taken(body: &mut Body) -> Option<Bytes> {
        body.next().now_or_never().flatten().map(|bytes| bytes.unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_takes_nothing_while_a_writer_waits_is_closed_as_slow_b163() {
        let (outgoing, mut body) = Outgoing::new();
        for _ in 0..QUEUE_FRAMES {
            outgoing.send("x".into()).await.unwrap();
        }
        assert!(outgoing.send("one more".into()).now_or_never().is_none());
        assert_eq!(outgoing.send("one more".into()).await, Err(Gone));
        assert_eq!(outgoing.close_code(), Some(4408));
        assert_eq!(outgoing.send("late".into()).await, Err(Gone));
        let bytes = taken(&mut body).unwrap();
        assert_eq!((bytes[0], &bytes[2..4]), (0x88, &4408u16.to_be_bytes()[..]), "what waited is dropped");
        outgoing.finish();
        assert_eq!(body.next().await.map(|b| b.unwrap()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_takes_a_little_is_waited_for() {
        let (outgoing, mut body) = Outgoing::new();
        let large = "x".repeat(QUEUE_BYTES / 4);
        for _ in 0..4 {
            outgoing.send(large.clone()).await.unwrap();
        }
        let writer = outgoing.send(large.clone());
        let reader = async {
            tokio::time::sleep(SLOW - Duration::from_millis(1)).await;
            taken(&mut body).unwrap()
        };
        let (sent, read) = tokio::join!(writer, reader);
        assert_eq!(sent, Ok(()));
        assert_eq!(read.len(), large.len() + 10);
        assert_eq!(outgoing.close_code(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_bytes_bound_counts_and_a_single_larger_frame_passes_alone() {
        let (outgoing, _body) = Outgoing::new();
        outgoing.send("x".repeat(QUEUE_BYTES * 2)).await.unwrap();
        assert!(outgoing.send("y".into()).now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_stream_waits_earlier_than_an_answer() {
        let (outgoing, mut body) = Outgoing::new();
        outgoing.send("x".repeat(STREAM_BYTES + 1)).await.unwrap();
        assert!(outgoing.stream_room().now_or_never().is_none());
        outgoing.send("answer".into()).await.unwrap();
        taken(&mut body).unwrap();
        assert_eq!(outgoing.stream_room().now_or_never(), Some(Ok(())));
    }

    #[tokio::test]
    async fn of_a_flood_of_pings_one_answer_waits() {
        let (outgoing, mut body) = Outgoing::new();
        for n in 0..1000u32 {
            outgoing.pong(n.to_be_bytes().to_vec());
        }
        let bytes = taken(&mut body).unwrap();
        assert_eq!(&bytes[..], [&[0x8a, 4][..], &999u32.to_be_bytes()].concat());
    }

    #[tokio::test]
    async fn going_away_sends_what_waits_first_then_the_close() {
        let (outgoing, mut body) = Outgoing::new();
        outgoing.send("last".into()).await.unwrap();
        outgoing.close(1001, "bye");
        outgoing.close(1000, "only the first counts");
        outgoing.closing().await;
        assert_eq!(&taken(&mut body).unwrap()[..], b"\x81\x04last\x88\x05\x03\xe9bye");
        assert!(taken(&mut body).is_none());
    }

    #[test]
    fn a_frame_has_the_length_its_size_asks_for() {
        for (size, head) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let mut bytes = Vec::new();
            append_frame(&mut bytes, 1, &vec![0; size]);
            assert_eq!(bytes.len(), size + head, "{size}");
        }
    }
}
