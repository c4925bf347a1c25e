//! Owns every bound of the client, each with its reason and what happens beyond it.
//! Never holds a bound of the server: those come with `server.hello`.

use std::time::Duration;

/// Requests in flight on one connection; the next call waits. The server refuses more than this.
pub const REQUESTS_IN_FLIGHT: usize = 256;

/// Bytes of one request; a larger one fails with `TooLarge` before it is sent, because the server would close.
pub const FRAME_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of one frame of the server: a snapshot page of 8 MiB, escaped, fits. Beyond it the connection fails.
pub(crate) const INCOMING_BYTES: usize = 64 * 1024 * 1024;

/// The socket's read buffer. The library's own 128 KiB would be paid by every idle connection.
pub(crate) const READ_BUFFER: usize = 16 * 1024;

/// Batches of a stream that may wait for their reader; beyond them the connection is not read on.
/// A batch is at most 64 items or 256 KiB.
pub(crate) const STREAM_BATCHES: usize = 4;

/// From the first byte to the accepted upgrade.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);

/// Without a frame for so long the other end is gone: the server pings every 30 s.
pub(crate) const SILENCE: Duration = Duration::from_secs(90);

/// After a failed write or a goodbye: how long the other end's close code is waited for.
pub(crate) const GOODBYE: Duration = Duration::from_secs(1);

/// For the whole identity exchange.
pub(crate) const IDENTITY: Duration = Duration::from_secs(3);

/// Bytes of an identity answer, headers included; beyond it the answer is no identity.
pub(crate) const IDENTITY_BYTES: usize = 16 * 1024;

/// Bytes of `server.json` and of the token file; larger ones are not ours.
pub(crate) const ENTRY_BYTES: u64 = 16 * 1024;

/// How long a lost server is looked for before a caller is told.
pub const LINK_WINDOW: Duration = Duration::from_secs(30);

/// The same while the server says that it drains: an orderly hand-over takes up to 60 s.
pub const LINK_WINDOW_DRAINING: Duration = Duration::from_secs(90);

/// The first pause before a repeat; each further one is twice as long.
pub(crate) const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// The longest pause before a repeat.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Events that may wait for whoever follows them; beyond them the stream is not read on.
pub(crate) const FOLLOWED: usize = 64;
