//! Owns the listener and its limits.
//! Never knows a route. Tested in `socket_tests.rs`.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use actix_web::http::KeepAlive;
use actix_web::{App, HttpServer, web};

use super::connections::Peer;
use super::{Door, routes};

/// How long a connection may take to send its request, and to send another.
const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// How long the library goes on reading after its last answer: not at all. A socket's own task has read what there
/// was to read, and with a wait here a client that lets us close first would wait for it at every close.
const DISCONNECT_WAIT: Duration = Duration::ZERO;
/// Connections of all kinds. Beyond it: they wait in the system's own queue.
const CONNECTIONS: usize = 4_096;
/// Bytes that the connection takes from our queue before the socket takes them from it.
const WRITE_BUFFER: usize = 64 * 1024;

/// A running listener.
pub(crate) struct Listening {
    /// Ends when the listener has stopped.
    pub(crate) server: Server,
    /// Stops it.
    pub(crate) handle: ServerHandle,
}

/// Takes `port` on `host`; 0 takes any.
pub(crate) fn take_port(host: &str, port: u16) -> std::io::Result<(TcpListener, SocketAddr)> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpListener::bind(address) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                let address = listener.local_addr()?;
                return Ok((listener, address));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Starts to answer on a taken port. One worker thread serves every socket: it only moves texts, and a second one
/// would cost memory and gain nothing on two cores.
pub(crate) fn listen(listener: TcpListener, door: Arc<Door>) -> std::io::Result<Listening> {
    let connections = Arc::clone(&door.connections);
    let door = web::Data::from(door);
    let server = HttpServer::new(move || App::new().app_data(door.clone()).configure(routes::configure))
        .workers(1)
        .worker_max_blocking_threads(1)
        .max_connections(CONNECTIONS)
        .keep_alive(KeepAlive::Timeout(REQUEST_WAIT))
        .client_request_timeout(REQUEST_WAIT)
        .client_disconnect_timeout(DISCONNECT_WAIT)
        .h1_write_buffer_size(WRITE_BUFFER)
        .tcp_nodelay(true)
        .on_connect(move |io, data| Peer::accept(&connections, io, data))
        .shutdown_timeout(2)
        .disable_signals()
        .listen(listener)?
        .run();
    let handle = server.handle();
    Ok(Listening { server, handle })
}
