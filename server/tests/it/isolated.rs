//! A private server and its directory go with its client.

use gent_server::start_isolated;

use super::Place;

#[tokio::test]
async fn a_private_server_has_a_directory_of_its_own_that_is_gone_afterwards() {
    let place = Place::new();
    let isolated = start_isolated(&place.paths(), &place.environment()).await.unwrap();
    let directory = isolated.data_dir().to_path_buf();
    assert!(directory.starts_with(place.dir.path()) && directory.join("data.db").exists());
    assert!(!place.data_dir().exists(), "the user's own directory is not touched");
    isolated.end().await;
    assert!(!directory.exists());
}

#[test]
fn a_private_server_whose_client_dies_ends_and_removes_its_directory() {
    let place = Place::new();
    let directory = place.dir.path().join("private");
    let mut server = place.serve(&["--isolate", "--data-dir", directory.to_str().unwrap()]);
    server.first_line();
    assert!(directory.exists());
    drop(server.child.stdin.take());
    assert_eq!(server.exit_code(), Some(0));
    assert!(!directory.exists());
}
