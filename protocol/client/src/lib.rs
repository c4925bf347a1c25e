//! Owns the client side of the socket: finding a server, proving it, calling it, following its events.
//! Never starts a process, prints, reads the environment or makes up an id: those come in.
//! Tested beside each part and over an in-memory socket in `protocol/client/tests/it`.

mod connect;
mod connection;
mod discovery;
mod error;
mod follow;
mod identity;
mod incoming;
mod limits;
mod link;
mod outbox;
mod subscription;
mod url;

pub use connect::{connect, connect_over};
pub use connection::Client;
pub use discovery::{
    Attach, Attached, Entry, EntryError, NoDataDirectory, attach_at, data_directory, entry_path, find_server,
    read_entry, token_path,
};
pub use error::{CallError, CloseReason, ConnectError};
pub use follow::{FollowError, FollowFrom, Followed, Following, follow};
pub use identity::{IdentityError, fetch_identity, identity_proof, prove};
pub use limits::{FRAME_BYTES, LINK_WINDOW, LINK_WINDOW_DRAINING, REQUESTS_IN_FLIGHT};
pub use link::{Cause, Connector, Link, LinkError};
pub use subscription::{StreamError, Subscription};
pub use url::{ServerUrl, UrlError};
