//! One owner for a data directory, whatever happens at once or was left behind.

use gent_client::{Entry, entry_path, identity_proof, read_entry, token_path};
use gent_protocol::{Millis, PROTOCOL};
use gent_server::{StartError, StopError, Stopped, ensure_server, stop_server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::Place;

#[tokio::test]
async fn of_starts_at_the_same_moment_one_owns_and_the_others_attach_i16() {
    let place = Place::new();
    let (paths, environment) = (place.paths(), place.environment());
    let starts = (0..6).map(|_| ensure_server(&paths, &environment));
    let attached = futures_util::future::try_join_all(starts).await.unwrap();
    let pids: std::collections::BTreeSet<_> = attached.iter().map(|attached| attached.pid).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    assert_eq!(ensure_server(&paths, &environment).await.unwrap().pid, attached[0].pid);
}

#[test]
fn a_second_server_fails_with_the_pid_of_the_first_also_with_a_fixed_port_i20() {
    let place = Place::new();
    let mut first = place.serve(&[]);
    let url = first.first_line()["url"].as_str().unwrap().to_owned();
    let port = url.rsplit(':').next().unwrap().to_owned();
    for arguments in [&[][..], &["--port", &port]] {
        let mut second = place.serve(arguments);
        let said = second.stderr();
        assert_eq!(second.exit_code(), Some(1));
        assert!(said.contains(&format!("pid {}", first.pid())) && said.contains(&url), "{said}");
    }
}

#[test]
fn a_port_of_another_program_is_named() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut server = place.serve(&["--port", &port]);
    let said = server.stderr();
    assert_eq!(server.exit_code(), Some(1));
    assert!(said.contains(&format!("port {port}")) && said.contains("--port"), "{said}");
    assert!(read_entry(&place.data_dir()).unwrap().is_none());
}

#[tokio::test]
async fn the_error_of_a_server_in_the_background_reaches_its_client_b123() {
    let place = Place::new();
    std::fs::create_dir(place.data_dir()).unwrap();
    std::fs::write(place.data_dir().join("data.db"), "not a database at all, just words".repeat(100))
        .unwrap();
    let refused = ensure_server(&place.paths(), &place.environment()).await.unwrap_err();
    assert!(matches!(&refused, StartError::Refused { message } if message.contains("data.db")), "{refused}");
    // In the background nobody can ask for the causes: they come along, to the client and into the log.
    let log = std::fs::read_to_string(place.paths().log()).unwrap();
    let failed = log.lines().find(|line| line.contains("server.failed")).unwrap();
    for said in [&refused.to_string(), failed] {
        assert!(said.contains("(because: file is not a database)"), "{said}");
    }
}

#[tokio::test]
async fn after_a_kill_the_next_start_owns_and_a_reused_pid_is_not_signalled_i17() {
    let place = Place::new();
    let mut first = place.serve(&[]);
    first.first_line();
    first.signal(rustix::process::Signal::KILL);
    assert_eq!(first.exit_code(), None);
    // The dead server's pid belongs to somebody else by now: to this very test.
    let mut entry = read_entry(&place.data_dir()).unwrap().unwrap();
    entry.pid = std::process::id();
    std::fs::write(entry_path(&place.data_dir()), serde_json::to_string(&entry).unwrap()).unwrap();
    assert_eq!(stop_server(&place.paths()).await.unwrap(), Stopped::NotRunning);
    let attached = ensure_server(&place.paths(), &place.environment()).await.unwrap();
    assert_ne!(attached.pid, Some(std::process::id()));
}

/// Something that answers like a server without holding the token, and the entry that names it.
async fn impostor(place: &Place) -> Entry {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let n_read = stream.read(&mut request).await.unwrap();
            let text = String::from_utf8_lossy(&request[..n_read]).into_owned();
            let nonce: String =
                text.split("nonce=").nth(1).unwrap().chars().take_while(char::is_ascii_hexdigit).collect();
            let proof = identity_proof("another token", &nonce, port);
            let body = format!(r#"{{"protocol":{{"major":1,"minor":0}},"build":"b","proof":"{proof}"}}"#);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let data_dir = place.data_dir();
    std::fs::create_dir_all(&data_dir).unwrap();
    std::fs::write(token_path(&data_dir), "our token").unwrap();
    let entry = Entry {
        url: format!("http://127.0.0.1:{port}"),
        pid: std::process::id(),
        protocol: PROTOCOL,
        build: "b".into(),
        started: Millis(1),
        token_file: token_path(&data_dir),
    };
    std::fs::write(entry_path(&data_dir), serde_json::to_string(&entry).unwrap()).unwrap();
    entry
}

#[tokio::test]
async fn a_wrong_proof_is_neither_attached_nor_stopped_while_the_lock_is_held_i19() {
    let place = Place::new();
    let entry = impostor(&place).await;
    let lock = std::fs::File::create(place.data_dir().join("gent.lock")).unwrap();
    lock.try_lock().unwrap();
    let refused = ensure_server(&place.paths(), &place.environment()).await.unwrap_err();
    assert!(matches!(&refused, StartError::NotOurs { entry: named, .. } if **named == entry), "{refused}");
    let refused = stop_server(&place.paths()).await.unwrap_err();
    assert!(matches!(refused, StopError::NotOurs { .. }), "{refused}");
}

#[tokio::test]
async fn a_wrong_proof_in_a_free_directory_is_a_stale_entry_that_a_start_replaces_i19() {
    let place = Place::new();
    let entry = impostor(&place).await;
    assert_eq!(stop_server(&place.paths()).await.unwrap(), Stopped::NotRunning);
    let attached = ensure_server(&place.paths(), &place.environment()).await.unwrap();
    assert_ne!(attached.url.to_string(), entry.url);
}
