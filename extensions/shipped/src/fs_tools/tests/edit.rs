//! Owns the tests of `edit` on real files.

use serde_json::json;

use super::Workplace;
use crate::fs_tools::text_encoding::Encoding;

async fn edited(file: &[u8], old: &str, new: &str) -> Vec<u8> {
    let place = Workplace::new();
    place.make("f", file);
    place.call("edit", json!({"path": "f", "oldString": old, "newString": new})).await.unwrap();
    place.bytes("f")
}

#[tokio::test]
async fn a_piece_is_replaced_and_counted() {
    let place = Workplace::new();
    place.make("f", "a b c");
    let input = json!({"path": "f", "oldString": "b", "newString": ""});
    let output = place.call("edit", input.clone()).await.unwrap();
    assert_eq!(output, json!({"path": place.path("f"), "replacements": 1}));
    assert_eq!((place.bytes("f"), place.names("")), (b"a  c".to_vec(), vec!["f".to_owned()]));
    assert_eq!(place.tool("edit").summary(&input, &output).as_deref(), Some("f · 1 replacement"));
}

#[tokio::test]
async fn line_breaks_are_those_of_the_place() {
    assert_eq!(edited(b"a\r\nb\r\n", "a\nb", "a\nc").await, b"a\r\nc\r\n");
    assert_eq!(edited(b"a\r\nb\r\n", "b", "x\ny").await, b"a\r\nx\r\ny\r\n");
    assert_eq!(edited(b"a\nb\nc\r\nd\r\n", "a\nb", "x\ny").await, b"x\ny\nc\r\nd\r\n");
    assert_eq!(edited(b"a\nb\n", "b", "x\r\ny").await, b"a\nx\ny\n");
}

#[tokio::test]
async fn the_mark_of_the_encoding_is_kept_and_not_in_the_way() {
    assert_eq!(edited(b"\xEF\xBB\xBFa\n", "a", "b").await, b"\xEF\xBB\xBFb\n");
    for encoding in [Encoding::Utf16Little, Encoding::Utf16Big] {
        let file = encoding.encode("ä\r\nb\r\n".as_bytes());
        assert_eq!(edited(&file, "ä\nb", "x\n😀").await, encoding.encode("x\r\n😀\r\n".as_bytes()));
    }
}

#[tokio::test]
async fn a_broken_utf16_file_is_refused_rather_than_repaired() {
    let place = Workplace::new();
    place.make("f", b"\xFF\xFEa\0\x00\xD8b\0");
    let sentence = place.failure("edit", json!({"path": "f", "oldString": "a", "newString": "x"})).await;
    assert!(sentence.contains("broken characters"), "{sentence}");
}

#[tokio::test]
async fn a_text_that_was_escaped_once_too_often_is_found_and_replaced_alike() {
    assert_eq!(edited(b"a\n\tb\n", r"a\n\tb", r"a\n\tc").await, b"a\n\tc\n");
    assert_eq!(edited(br"p('\n')", r"'\n'", r"'\t'").await, br"p('\t')");
}

#[tokio::test]
async fn a_text_that_differs_in_typography_replaces_the_original_span() {
    assert_eq!(edited("“a” – b  \nc".as_bytes(), "\"a\" - b\nc", "x").await, b"x");
}

#[tokio::test]
async fn several_places_are_counted_and_need_leave() {
    let place = Workplace::new();
    place.make("f", "a\r\nb\na");
    let input = json!({"path": "f", "oldString": "a", "newString": "x\ny"});
    assert!(place.failure("edit", input.clone()).await.contains("stands 2 times"));
    let mut input = input;
    input["replaceAll"] = json!(true);
    assert_eq!(place.call("edit", input).await.unwrap()["replacements"], 2);
    assert_eq!(place.bytes("f"), b"x\ny\r\nb\nx\ny");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_and_changes_nothing() {
    let place = Workplace::new();
    place.make("f", "a");
    place.make("d/g", "");
    for (path, old, new, reason) in [
        ("f", "b", "c", "does not stand in"),
        ("f", "", "c", "`oldString` is empty"),
        ("f", "a", "a", "are the same"),
        ("f", "a", "// ... existing code ...\nx", "placeholder"),
        ("f", "a", "key [REDACTED]", "placeholder"),
        ("none", "a", "b", "no such file"),
        ("d", "a", "b", "is a directory"),
    ] {
        let sentence = place.failure("edit", json!({"path": path, "oldString": old, "newString": new})).await;
        assert!(sentence.contains(reason), "{sentence}");
    }
    assert_eq!((place.bytes("f"), place.names("")), (b"a".to_vec(), vec!["d".to_owned(), "f".to_owned()]));
}

#[tokio::test]
async fn a_placeholder_the_file_already_has_may_stay() {
    assert_eq!(edited(b"x [REDACTED] y", "x [REDACTED]", "z [REDACTED]").await, b"z [REDACTED] y");
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused_unread() {
    let place = Workplace::new();
    place.make("f", "a");
    std::fs::File::options().write(true).open(place.path("f")).unwrap().set_len(1 << 40).unwrap();
    let sentence = place.failure("edit", json!({"path": "f", "oldString": "a", "newString": "b"})).await;
    assert!(sentence.contains("longer than 16 MiB"), "{sentence}");
}

#[tokio::test]
async fn a_file_that_changed_since_this_branch_saw_it_is_refused_until_it_is_read_again() {
    let place = Workplace::new();
    let edit = |old: &str| json!({"path": "f", "oldString": old, "newString": "x"});
    place.make("f", "a b c");
    place.call("read", json!({"path": "f"})).await.unwrap();
    place.make("f", "a b c d");
    assert!(place.failure("edit", edit("a")).await.contains("changed on disk since it was last read here"));
    assert_eq!(place.bytes("f"), b"a b c d");
    let other = place.context.clone().branch("other");
    place.call_as(&other, "edit", edit("d")).await.unwrap();
    place.call("read", json!({"path": "./f"})).await.unwrap();
    place.call("edit", edit("a")).await.unwrap();
    place.call("edit", edit("b")).await.unwrap();
    assert_eq!(place.bytes("f"), b"x x c x");
}

#[tokio::test]
async fn a_change_to_a_file_too_long_to_hash_is_noticed_too() {
    let place = Workplace::new();
    place.make("f", "a\n".repeat(3 << 20));
    place.call("read", json!({"path": "f"})).await.unwrap();
    place.make("f", "b\n".repeat((3 << 20) + 1));
    let sentence = place.failure("edit", json!({"path": "f", "oldString": "zzz", "newString": "x"})).await;
    assert!(sentence.contains("changed on disk"), "{sentence}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_is_the_same_file_through_a_link_and_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let place = Workplace::new();
    place.make("f", "a");
    std::fs::set_permissions(place.path("f"), PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("f", place.path("link")).unwrap();
    place.call("read", json!({"path": "link"})).await.unwrap();
    place.make("f", "a b");
    let edit = |path: &str| json!({"path": path, "oldString": "a", "newString": "x"});
    assert!(place.failure("edit", edit("f")).await.contains("changed on disk"));
    place.call("read", json!({"path": "f"})).await.unwrap();
    place.call("edit", edit("link")).await.unwrap();
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    let mode = std::fs::metadata(place.path("f")).unwrap().permissions().mode() & 0o777;
    assert_eq!((place.bytes("f"), mode), (b"x b".to_vec(), 0o640));
}

#[tokio::test]
async fn parallel_edits_of_one_file_all_arrive() {
    let place = Workplace::new();
    let lines: Vec<String> = (0..5_000).map(|n| format!("line {n};")).collect();
    place.make("f", lines.join("\n"));
    let edits = (0..5_000).step_by(500).map(|n| {
        place.call("edit", json!({"path": "f", "oldString": format!("line {n};"), "newString": format!("edited {n};{}", "x".repeat(n))}))
    });
    for output in futures_util::future::join_all(edits).await {
        output.unwrap();
    }
    let expected: Vec<String> = (0..5_000)
        .map(|n| if n % 500 == 0 { format!("edited {n};{}", "x".repeat(n)) } else { format!("line {n};") })
        .collect();
    assert_eq!(place.bytes("f"), expected.join("\n").as_bytes());
}

/// A small generator of numbers: the same ones in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    fn pieces(&mut self, from: &[&'static [u8]]) -> Vec<u8> {
        (0..self.below(40)).flat_map(|_| from[self.below(from.len())].iter().copied()).collect()
    }
}

#[tokio::test]
async fn whatever_the_file_holds_every_byte_outside_the_place_stays() {
    let noise: [&[u8]; 13] = [
        b"\r\n",
        b"\n",
        b"\r",
        b"  ",
        b"\t",
        b"a",
        b"\xFF",
        b"\xC3",
        "“ß”".as_bytes(),
        "–\u{A0}".as_bytes(),
        "😀".as_bytes(),
        b"\0",
        b"\\n",
    ];
    let marks: [&[u8]; 2] = [b"", b"\xEF\xBB\xBF"];
    // The place as it stands in the file, and as the model gives it.
    let places: [(&str, &str); 4] = [
        ("<<one\r\ntwo>>", "<<one\ntwo>>"),
        ("<<one\ntwo>>", "<<one\r\ntwo>>"),
        ("<<“one”  \r\ntwo>>", "<<\"one\"\ntwo>>"),
        ("<<one\n\ttwo>>", "<<one\\n\\ttwo>>"),
    ];
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    for _ in 0..300 {
        let mut before = marks[numbers.below(2)].to_vec();
        before.extend(numbers.pieces(&noise));
        // A file that happens to start with another mark is another encoding.
        before.insert(before.len() - before.strip_prefix(marks[1]).unwrap_or(&before).len(), b'.');
        let after = numbers.pieces(&noise);
        let (place, given) = places[numbers.below(4)];
        let file = [&before, place.as_bytes(), &after].concat();
        assert_eq!(edited(&file, given, "Z").await, [&before, &b"Z"[..], &after].concat(), "{file:?}");
    }
}
