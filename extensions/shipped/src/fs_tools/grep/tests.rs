//! Owns the tests of `grep` on real trees.

use serde_json::{Value, json};

use super::super::tests::Workplace;
use super::results::Results;
use super::search::Search;
use super::stop::{Stop, run_within};
use super::{GrepMatch, walk};

async fn grep(place: &Workplace, input: Value) -> Value {
    place.call("grep", input).await.unwrap()
}

async fn files(place: &Workplace, input: Value) -> Vec<String> {
    let output = grep(place, input).await;
    output["matches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["file"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn matches_come_with_file_line_and_text_in_the_order_of_paths() {
    let place = Workplace::new();
    place.make("b.txt", "no\r\nneedle 1\r\n");
    place.make("a/z.txt", "needle 2");
    place.make("a.txt", "x\n\nneedle 3\nneedle 4");
    let input = json!({"pattern": r"needle \d$"});
    let output = grep(&place, input.clone()).await;
    assert_eq!(
        output,
        json!({"matches": [
            {"file": "a/z.txt", "line": 1, "content": "needle 2"},
            {"file": "a.txt", "line": 3, "content": "needle 3"},
            {"file": "a.txt", "line": 4, "content": "needle 4"},
            {"file": "b.txt", "line": 2, "content": "needle 1"},
        ], "truncated": false})
    );
    assert_eq!(place.tool("grep").summary(&input, &output).as_deref(), Some(r"needle \d$ · 4 matches"));
}

#[tokio::test]
async fn path_glob_and_case_narrow_a_search() {
    let place = Workplace::new();
    for file in ["src/a.rs", "src/in/b.rs", "src/c.md", "d.rs"] {
        place.make(file, "Needle");
    }
    assert_eq!(
        files(&place, json!({"pattern": "Needle", "path": "src", "glob": "*.rs"})).await,
        ["src/a.rs", "src/in/b.rs"]
    );
    assert_eq!(files(&place, json!({"pattern": "Needle", "glob": "src/*.rs"})).await, ["src/a.rs"]);
    assert_eq!(files(&place, json!({"pattern": "Needle", "path": "src/c.md"})).await, ["src/c.md"]);
    assert!(files(&place, json!({"pattern": "needle"})).await.is_empty());
    assert_eq!(files(&place, json!({"pattern": "needle", "caseSensitive": false})).await.len(), 4);
}

#[tokio::test]
async fn a_directory_outside_the_working_directory_is_named_in_full() {
    let (place, other) = (Workplace::new(), Workplace::new());
    other.make("f", "needle");
    let path = other.path("");
    let found = files(&place, json!({"pattern": "needle", "path": path})).await;
    assert_eq!(found, [path.join("f").to_string_lossy()]);
}

#[tokio::test]
async fn context_is_the_lines_around_a_match() {
    let place = Workplace::new();
    place.make("f", "1\r\n2\r\nneedle\r\n4\n5\n6\n");
    let output = grep(&place, json!({"pattern": "needle", "context": 2})).await;
    assert_eq!(output["matches"][0]["context"], json!({"before": ["1", "2"], "after": ["4", "5"]}));
    place.make("f", "needle");
    let output = grep(&place, json!({"pattern": "needle", "context": 2})).await;
    assert_eq!(output["matches"][0]["context"], json!({"before": [], "after": []}));
}

#[tokio::test]
async fn ignored_files_are_passed_over_also_outside_a_repository() {
    let place = Workplace::new();
    for file in ["kept", "out/f", "sub/x.log", "sub/y.txt", "sub/keep.log", ".git/config", ".github/ci"] {
        place.make(file, "needle");
    }
    place.make(".gitignore", "out/\n*.log\n");
    place.make("sub/.gitignore", "!keep.log\n");
    let kept = [".github/ci", "kept", "sub/keep.log", "sub/y.txt"];
    assert_eq!(files(&place, json!({"pattern": "needle"})).await, kept);
    std::fs::remove_dir_all(place.path(".git")).unwrap();
    assert_eq!(files(&place, json!({"pattern": "needle"})).await, kept);
    std::fs::remove_file(place.path("sub/.gitignore")).unwrap();
    assert_eq!(files(&place, json!({"pattern": "needle", "path": "sub"})).await, ["sub/y.txt"]);
    assert_eq!(files(&place, json!({"pattern": "needle", "path": "out"})).await, ["out/f"]);
}

#[tokio::test]
async fn the_rules_of_a_directory_above_are_not_those_of_the_working_directory() {
    let place = Workplace::new();
    place.make(".gitignore", "*\n");
    place.make("work/f", "needle");
    let context = crate::test_context::TestContext::at(place.path("work"));
    let output = place.call_as(&context, "grep", json!({"pattern": "needle"})).await.unwrap();
    assert_eq!(output["matches"][0]["file"], "f");
}

#[tokio::test]
async fn a_working_directory_that_the_repository_around_it_ignores_is_searched_all_the_same() {
    let place = Workplace::new();
    place.make(".git/HEAD", "");
    place.make(".gitignore", "*\n");
    place.make("work/in/f", "needle");
    place.make("work/x.log", "needle");
    place.make("work/.gitignore", "*.log\n");
    for (cwd, expected) in [("work", "in/f"), ("work/in", "f")] {
        let context = crate::test_context::TestContext::at(place.path(cwd));
        let output = place.call_as(&context, "grep", json!({"pattern": "needle"})).await.unwrap();
        assert_eq!(output["matches"].as_array().unwrap().len(), 1);
        assert_eq!(output["matches"][0]["file"], expected);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn binaries_giants_pipes_and_link_cycles_cost_nothing() {
    let place = Workplace::new();
    place.make("z.txt", "needle");
    place.make(".git/objects/x", "needle");
    place.make("binary", b"needle\0");
    place.make("giant", "needle");
    std::fs::File::options().write(true).open(place.path("giant")).unwrap().set_len(3 << 30).unwrap();
    crate::test_context::make_pipe(&place.path("pipe"));
    std::os::unix::fs::symlink(".", place.path("cycle")).unwrap();
    std::os::unix::fs::symlink("z.txt", place.path("link")).unwrap();
    let output = grep(&place, json!({"pattern": "needle"})).await;
    assert_eq!(
        output,
        json!({"matches": [{"file": "z.txt", "line": 1, "content": "needle"}], "truncated": false, "oversized": 1, "binary": 1})
    );
    let output = grep(&place, json!({"pattern": "needle", "path": "giant"})).await;
    assert_eq!((&output["oversized"], output["note"].is_string()), (&json!(1), true));
    assert!(place.failure("grep", json!({"pattern": "a", "path": "pipe"})).await.contains("a named pipe"));
}

#[tokio::test]
async fn utf16_is_text_and_broken_bytes_are_no_obstacle() {
    let place = Workplace::new();
    place.make(
        "utf16",
        "\u{FEFF}a\r\nneedle ä\r\n".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>(),
    );
    place.make("utf8", b"\xEF\xBB\xBFneedle \xFF");
    let output = grep(&place, json!({"pattern": "^needle"})).await;
    assert_eq!(
        output["matches"],
        json!([
            {"file": "utf16", "line": 2, "content": "needle ä"},
            {"file": "utf8", "line": 1, "content": "needle \u{FFFD}"},
        ])
    );
}

#[tokio::test]
async fn the_limit_cuts_and_the_note_says_how_to_narrow() {
    let place = Workplace::new();
    place.make("f", "n\n".repeat(100));
    let output = grep(&place, json!({"pattern": "n"})).await;
    assert_eq!((output["matches"].as_array().unwrap().len(), &output["truncated"]), (100, &json!(false)));
    place.make("g", "n\n");
    let output = grep(&place, json!({"pattern": "n"})).await;
    assert_eq!((output["matches"].as_array().unwrap().len(), &output["truncated"]), (100, &json!(true)));
    assert!(output["note"].as_str().unwrap().contains("narrow"));
    assert_eq!(
        grep(&place, json!({"pattern": "n", "limit": 1})).await["matches"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn a_result_stays_within_its_bound_whatever_matches() {
    let place = Workplace::new();
    place.make("f", format!("{}needle\n", "\u{1}\"".repeat(400)).repeat(500));
    for input in
        [json!({"pattern": "needle"}), json!({"pattern": "needle", "context": 1_000_000, "limit": 5_000})]
    {
        let output = grep(&place, input).await;
        assert!(serde_json::to_string(&output).unwrap().chars().count() <= 8_000);
        assert!(!output["matches"].as_array().unwrap().is_empty());
        assert!(output["note"].as_str().unwrap().contains("narrow"));
        assert_eq!(output["truncated"], true);
    }
}

#[tokio::test]
async fn a_long_line_is_cut_around_its_match() {
    let place = Workplace::new();
    place.make("f", format!("{}needle{}", "ä".repeat(1_000), "z".repeat(1_000)));
    let content = grep(&place, json!({"pattern": "needle"})).await["matches"][0]["content"].clone();
    let content = content.as_str().unwrap();
    assert_eq!(content.chars().count(), 502);
    assert!(
        content.starts_with("…ä") && content.contains("äneedlez") && content.ends_with("z…"),
        "{content}"
    );
    place.make("f", format!("needle{}", "z".repeat(1_000)));
    let content = grep(&place, json!({"pattern": "needle"})).await["matches"][0]["content"].clone();
    assert!(content.as_str().unwrap().starts_with("needlez"));
}

#[tokio::test]
async fn what_cannot_be_searched_for_is_told() {
    let place = Workplace::new();
    for (input, reason) in [
        (json!({"pattern": "(a"}), "the pattern \"(a\" is not valid"),
        (json!({"pattern": "(?=a)"}), "is not valid"),
        (json!({"pattern": "a{1000}{1000}{1000}"}), "is not valid"),
        (json!({"pattern": "a", "glob": "["}), "the glob \"[\" is not valid"),
        (json!({"pattern": "a", "path": "none"}), "no such file"),
    ] {
        let sentence = place.failure("grep", input).await;
        assert!(sentence.contains(reason), "{sentence}");
    }
}

#[tokio::test]
async fn the_walk_ends_at_the_sign() {
    let place = Workplace::new();
    place.make("f", "needle");
    let root = place.path("");
    let token = tokio_util::sync::CancellationToken::new();
    token.cancel();
    let n_matches = run_within(std::time::Duration::MAX, &token, move |stop: &Stop| {
        while !stop.is_set() {
            std::thread::yield_now();
        }
        let mut results = Results::new(10);
        let search = Search::new("needle", true, 0)?;
        walk::walk(&root, &root, true, None, stop, &mut results, &search)?;
        Ok(results.into_output().matches.len())
    })
    .await;
    assert_eq!(n_matches, Ok(0));
}

#[test]
fn the_first_match_is_shown_even_when_what_is_around_it_has_no_room() {
    let mut results = Results::new(10);
    let around = super::Surroundings { before: vec!["x".repeat(9_000)], after: Vec::new() };
    let found = GrepMatch { file: "f".to_owned(), line: 1, content: "c".to_owned(), context: Some(around) };
    assert!(!results.add(found));
    let output = results.into_output();
    assert_eq!((output.matches.len(), &output.matches[0].context), (1, &None));
}
