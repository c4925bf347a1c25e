//! Owns the tests of `read` on real files.

use serde_json::json;

use super::Workplace;

#[tokio::test]
async fn a_file_comes_with_numbered_lines() {
    let place = Workplace::new();
    place.make("a/f.txt", "one\r\ntwo\n");
    let output = place.call("read", json!({"path": "a/f.txt"})).await.unwrap();
    let path = place.path("a/f.txt");
    assert_eq!(
        output,
        json!({"content": "    1\tone\n    2\ttwo", "path": path, "lineCount": 2, "truncated": false})
    );
    let summary = place.tool("read").summary(&json!({"path": "a/f.txt"}), &output);
    assert_eq!(summary.as_deref(), Some("a/f.txt · 2 lines"));
}

#[tokio::test]
async fn offset_and_limit_choose_the_lines_and_the_result_says_where_to_go_on() {
    let place = Workplace::new();
    place.make("f", "a\nb\nc\nd\n");
    let input = json!({"path": "f", "offset": 2, "limit": 2});
    let output = place.call("read", input.clone()).await.unwrap();
    assert_eq!(output["content"], "    2\tb\n    3\tc");
    assert_eq!(
        (&output["lineCount"], &output["truncated"], &output["nextOffset"]),
        (&json!(4), &json!(true), &json!(4))
    );
    assert_eq!(place.tool("read").summary(&input, &output).as_deref(), Some("f · 4 lines (truncated)"));
    assert!(place.failure("read", json!({"path": "f", "offset": 5})).await.contains("has 4 lines"));
    assert!(
        place.failure("read", json!({"path": "f", "offset": 0})).await.contains("Tool 'read' input failed")
    );
}

#[tokio::test]
async fn following_the_offsets_shows_every_line_and_no_result_is_over_its_bound() {
    let place = Workplace::new();
    let lines: Vec<String> = (0..3_000).map(|n| format!("{n}\t\"{}\"\u{1}", "x".repeat(n % 90))).collect();
    place.make("f", lines.join("\n"));
    let (mut offset, mut shown) = (json!(1), Vec::new());
    while !offset.is_null() {
        let output = place.call("read", json!({"path": "f", "offset": offset})).await.unwrap();
        assert!(serde_json::to_string(&output).unwrap().chars().count() <= 8_000);
        let content = output["content"].as_str().unwrap();
        shown.extend(content.split('\n').map(|line| line.split_once('\t').unwrap().1.to_owned()));
        offset = output["nextOffset"].clone();
    }
    assert_eq!(shown, lines);
}

#[tokio::test]
async fn one_endless_line_is_cut_and_still_within_the_bound() {
    let place = Workplace::new();
    place.make("f", "\u{1}".repeat(5 << 20));
    let output = place.call("read", json!({"path": "f"})).await.unwrap();
    assert!(serde_json::to_string(&output).unwrap().chars().count() <= 8_000);
    assert_eq!((&output["lineCount"], &output["truncated"]), (&json!(1), &json!(false)));
    assert!(output["content"].as_str().unwrap().ends_with("characters cut]"));
}

#[tokio::test]
async fn marks_of_the_encoding_are_not_shown_and_utf16_is_decoded() {
    let place = Workplace::new();
    place.make("utf8", b"\xEF\xBB\xBFa\n");
    let utf16: Vec<u8> = "\u{FEFF}ä\r\n😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.make("utf16", &utf16);
    place.make("mark", b"\xFE\xFF");
    let content = async |path: &str| {
        let output = place.call("read", json!({"path": path})).await.unwrap();
        assert!(output.get("lossy").is_none());
        output["content"].clone()
    };
    assert_eq!(content("utf8").await, "    1\ta");
    assert_eq!(content("utf16").await, "    1\tä\n    2\t😀");
    assert_eq!(content("mark").await, "");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced_and_said() {
    let place = Workplace::new();
    place.make("f", b"a\xFFb");
    let output = place.call("read", json!({"path": "f"})).await.unwrap();
    assert_eq!((&output["content"], &output["lossy"]), (&json!("    1\ta\u{FFFD}b"), &json!(true)));
    place.make("odd", b"\xFF\xFEa\0b");
    assert_eq!(place.call("read", json!({"path": "odd"})).await.unwrap()["lossy"], true);
}

#[tokio::test]
async fn an_empty_file_is_no_failure() {
    let place = Workplace::new();
    place.make("f", "");
    let output = place.call("read", json!({"path": "f"})).await.unwrap();
    assert_eq!(
        (&output["content"], &output["lineCount"], &output["truncated"]),
        (&json!(""), &json!(0), &json!(false))
    );
}

#[tokio::test]
async fn what_is_no_file_is_told_by_name() {
    let place = Workplace::new();
    place.make("d/f", "");
    for (path, reason) in
        [("d", "is a directory"), ("none", "no such file"), ("d/f/g", "a part of the path is a file")]
    {
        let sentence = place.failure("read", json!({"path": path})).await;
        assert!(sentence.contains(reason), "{sentence}");
        assert!(sentence.contains(&*place.path(path).to_string_lossy()), "{sentence}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pipe_and_a_device_are_refused_and_never_waited_for() {
    let place = Workplace::new();
    crate::test_context::make_pipe(&place.path("pipe"));
    assert!(
        place.failure("read", json!({"path": "pipe"})).await.contains("a named pipe, not a regular file")
    );
    assert!(
        place.failure("read", json!({"path": "/dev/zero"})).await.contains("a device, not a regular file")
    );
}

#[tokio::test]
async fn a_huge_file_is_read_for_its_page_alone() {
    let place = Workplace::new();
    place.make("f", "a\nb\n");
    // A terabyte without blocks on the disk: reading it to its end would not come back.
    std::fs::File::options().write(true).open(place.path("f")).unwrap().set_len(1 << 40).unwrap();
    let output = place.call("read", json!({"path": "f", "limit": 2})).await.unwrap();
    assert_eq!((&output["content"], &output["nextOffset"]), (&json!("    1\ta\n    2\tb"), &json!(3)));
}

#[tokio::test]
async fn a_huge_file_without_line_breaks_is_not_read_to_its_end() {
    let place = Workplace::new();
    place.make("f", "a");
    std::fs::File::options().write(true).open(place.path("f")).unwrap().set_len(1 << 40).unwrap();
    let output = place.call("read", json!({"path": "f"})).await.unwrap();
    assert_eq!((&output["lineCount"], &output["truncated"]), (&json!(1), &json!(true)));
    assert!(output.get("nextOffset").is_none());
    assert!(output["content"].as_str().unwrap().ends_with("not read to its end]"));
    let sentence = place.failure("read", json!({"path": "f", "offset": 9_000})).await;
    assert!(sentence.contains("line 9000") && sentence.contains("128 MiB"), "{sentence}");
}
