//! Owns the tests of `write` on real files.

use serde_json::json;

use super::Workplace;

#[tokio::test]
async fn a_new_file_is_made_with_its_directories() {
    let place = Workplace::new();
    let input = json!({"path": "a/b/f", "content": "ß\n"});
    let output = place.call("write", input.clone()).await.unwrap();
    assert_eq!(output, json!({"path": place.path("a/b/f"), "bytesWritten": 3}));
    assert_eq!(place.bytes("a/b/f"), "ß\n".as_bytes());
    assert_eq!(place.names("a/b"), ["f"]);
    assert_eq!(place.tool("write").summary(&input, &output).as_deref(), Some("a/b/f · 3 bytes"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_replaced_file_keeps_its_mode_and_is_a_new_file_in_its_place() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let place = Workplace::new();
    place.make("f", "old");
    std::fs::set_permissions(place.path("f"), PermissionsExt::from_mode(0o751)).unwrap();
    let before = std::fs::metadata(place.path("f")).unwrap();
    place.call("write", json!({"path": "f", "content": "new"})).await.unwrap();
    let after = std::fs::metadata(place.path("f")).unwrap();
    assert_eq!((after.mode(), place.bytes("f")), (before.mode(), b"new".to_vec()));
    // The old file was never opened for writing: whoever reads it still reads all of it.
    assert_ne!(after.ino(), before.ino());
    assert_eq!(place.names(""), ["f"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_replaced_file_keeps_its_owner_where_that_is_possible() {
    use std::os::unix::fs::{MetadataExt, chown};
    let place = Workplace::new();
    place.make("f", "old");
    // Only root can give a file away; everybody else has only files of their own to keep.
    let is_root = chown(place.path("f"), Some(1_234), Some(1_234)).is_ok();
    let before = std::fs::metadata(place.path("f")).unwrap();
    place.call("write", json!({"path": "f", "content": "new"})).await.unwrap();
    let after = std::fs::metadata(place.path("f")).unwrap();
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert!(!is_root || after.uid() == 1_234);
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_keeps_pointing_and_its_target_is_written() {
    let place = Workplace::new();
    place.make("real/f", "old");
    std::os::unix::fs::symlink("real/f", place.path("link")).unwrap();
    std::os::unix::fs::symlink("real", place.path("directory")).unwrap();
    place.call("write", json!({"path": "link", "content": "1"})).await.unwrap();
    assert_eq!(place.bytes("real/f"), b"1");
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    place.call("write", json!({"path": "directory/g", "content": "2"})).await.unwrap();
    assert_eq!(
        (place.bytes("real/g"), place.names("real")),
        (b"2".to_vec(), vec!["f".to_owned(), "g".to_owned()])
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_nothing_is_refused_and_nothing_appears_behind_it() {
    let place = Workplace::new();
    std::os::unix::fs::symlink(place.path("not-yet"), place.path("draft")).unwrap();
    let sentence = place.failure("write", json!({"path": "draft", "content": "x"})).await;
    assert!(sentence.contains("symbolic link to a file that does not exist"), "{sentence}");
    let sentence = place.failure("write", json!({"path": "draft/f", "content": "x"})).await;
    assert!(sentence.contains("cannot write"), "{sentence}");
    assert_eq!(place.names(""), ["draft"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_no_file_is_refused_and_left_alone() {
    let place = Workplace::new();
    place.make("d/f", "");
    crate::test_context::make_pipe(&place.path("pipe"));
    for (path, reason) in [
        ("d", "is a directory"),
        ("pipe", "a named pipe"),
        ("/dev/null", "a device"),
        ("d/f/g", "a part of the path"),
        ("/", "is a directory"),
    ] {
        let sentence = place.failure("write", json!({"path": path, "content": "x"})).await;
        assert!(sentence.contains(reason), "{sentence}");
    }
    assert_eq!(place.names(""), ["d", "pipe"]);
}

#[tokio::test]
async fn a_read_only_file_is_refused() {
    let place = Workplace::new();
    place.make("f", "old");
    let mut permissions = std::fs::metadata(place.path("f")).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(place.path("f"), permissions).unwrap();
    assert!(place.failure("write", json!({"path": "f", "content": "x"})).await.contains("is read-only"));
    assert_eq!(place.bytes("f"), b"old");
}

#[tokio::test]
async fn a_write_over_what_somebody_else_changed_is_refused() {
    let place = Workplace::new();
    place.make("f", "a");
    place.call("read", json!({"path": "f"})).await.unwrap();
    place.make("f", "theirs");
    assert!(place.failure("write", json!({"path": "f", "content": "x"})).await.contains("changed on disk"));
    assert_eq!(place.bytes("f"), b"theirs");
    place.call("read", json!({"path": "f"})).await.unwrap();
    place.call("write", json!({"path": "f", "content": "x"})).await.unwrap();
    assert_eq!(place.bytes("f"), b"x");
    std::fs::remove_file(place.path("f")).unwrap();
    place.call("write", json!({"path": "f", "content": "y"})).await.unwrap();
    place.call("write", json!({"path": "f", "content": "z"})).await.unwrap();
    assert_eq!(place.bytes("f"), b"z");
}

#[tokio::test]
async fn a_file_that_was_never_read_may_be_written() {
    let place = Workplace::new();
    place.make("f", "a");
    place.call("write", json!({"path": "f", "content": "x"})).await.unwrap();
    assert_eq!(place.bytes("f"), b"x");
}
