//! How a server ends: in order, leaving nothing, seen by its clients.

use gent_client::{CallError, CloseReason, connect, find_server, read_entry};
use gent_protocol::{Retire, Status};
use gent_server::{Stopped, ensure_server, stop_server};
use rustix::process::Signal;

use super::Place;

#[test]
fn a_signal_ends_a_server_with_0_and_leaves_no_entry_and_no_lock() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = place.serve(&[]);
        let line = server.first_line();
        assert_eq!(line["pid"], server.pid());
        server.signal(signal);
        assert_eq!(server.exit_code(), Some(0));
        assert!(read_entry(&place.data_dir()).unwrap().is_none());
    }
}

#[tokio::test]
async fn five_starts_and_stops_leave_no_listener_behind_b125() {
    let place = Place::new();
    for _ in 0..5 {
        let attached = ensure_server(&place.paths(), &place.environment()).await.unwrap();
        let stopped = stop_server(&place.paths()).await.unwrap();
        assert_eq!(stopped, Stopped::Stopped { pid: attached.pid.unwrap() });
        let address = (attached.url.host(), attached.url.port());
        assert!(std::net::TcpStream::connect(address).is_err());
    }
    assert_eq!(stop_server(&place.paths()).await.unwrap(), Stopped::NotRunning);
}

#[tokio::test]
async fn a_client_of_a_server_that_goes_is_told_so_and_a_token_of_an_earlier_start_is_worth_nothing() {
    let place = Place::new();
    let first = ensure_server(&place.paths(), &place.environment()).await.unwrap();
    let client = connect(&first.url, &first.token).await.unwrap();
    assert_eq!(client.call(Status {}).await.unwrap().connections, 1);
    stop_server(&place.paths()).await.unwrap();
    let late = client.call(Status {}).await.unwrap_err();
    assert!(matches!(late, CallError::Closed { reason: CloseReason::Going, .. }), "{late:?}");
    let second = ensure_server(&place.paths(), &place.environment()).await.unwrap();
    assert!(connect(&second.url, &first.token).await.is_err());
    assert!(connect(&second.url, &second.token).await.is_ok());
}

#[tokio::test]
async fn a_retired_server_answers_and_then_hands_over() {
    let place = Place::new();
    let mut server = place.serve(&[]);
    server.first_line();
    let found = find_server(&place.data_dir(), &gent_server::nonce()).await.unwrap();
    let gent_client::Attach::Attached(attached) = found else { panic!("{found:?}") };
    let client = connect(&attached.url, &attached.token).await.unwrap();
    let retired = client.call(Retire {}).await.unwrap();
    assert_eq!((retired.running, retired.within_ms.0), (0, 60_000));
    assert_eq!(server.exit_code(), Some(0));
    ensure_server(&place.paths(), &place.environment()).await.unwrap();
}
