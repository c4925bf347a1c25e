//! Every kind of question as it reads, and every kind of line as it answers.

use gent_protocol::{InteractionRequestId, OpenQuestion, Question, QuestionDecision};
use serde_json::{Value, json};

use super::{Asked, Reply};

fn asked(text: &str, metadata: Option<Value>) -> Asked {
    let request_id = InteractionRequestId::parse("q").unwrap();
    Asked::new(&OpenQuestion { request_id, question: Question { text: text.to_owned(), metadata } })
}

fn guardrail(command: &str) -> Asked {
    let facts = json!({
        "type": "bash-guardrail", "class": "destructive", "reason": "it removes files", "command": command,
    });
    asked("Run rm?", Some(facts))
}

fn review() -> Asked {
    asked(
        "# Plan\n  - one\n",
        Some(json!({ "type": "prompt", "mode": "review", "title": "Plan", "path": "p.md" })),
    )
}

fn parts(questions: Value) -> Asked {
    asked("Two questions", Some(json!({ "type": "ask-user", "questions": questions })))
}

fn decided(approved: bool, notes: Option<&str>) -> Reply {
    let notes = notes.map(str::to_owned);
    Reply::Decided(QuestionDecision { approved, notes, edited_content: None })
}

const YES_OR_NO: &str = "  answer y or n, with notes after it if you like\n";

#[test]
fn a_question_without_known_facts_is_its_text() {
    let table = [
        (asked("Go on?", None), "? Go on?\n"),
        (asked("Go on?", Some(json!({ "type": "later", "x": 1 }))), "? Go on?\n"),
        (asked("Go on?", Some(json!({ "type": "bash-guardrail", "class": 7 }))), "? Go on?\n"),
        (asked("Go on?", Some(json!({ "type": "ask-user", "questions": [] }))), "? Go on?\n"),
        (asked(" \n", None), "? the agent asks\n"),
        (asked("a\u{1b}[2Jb\n  c\n\nd", None), "? the agent asks:\n    ab\n      c\n\n    d\n"),
    ];
    for (asked, expected) in table {
        assert_eq!(asked.text(), format!("{expected}{YES_OR_NO}"));
    }
}

#[test]
fn a_command_is_shown_with_its_class_and_its_reason_and_hides_nothing() {
    let expected = format!(
        "? may this command run? it is destructive: it removes files\n    cd x\n    rm\\u{{1b}}[8m -rf .\\r\n{YES_OR_NO}"
    );
    assert_eq!(guardrail("cd x\nrm\u{1b}[8m -rf .\r\n\n").text(), expected);
}

#[test]
fn what_is_left_out_of_a_long_command_is_counted() {
    let long = "x".repeat(503) + &"\nrm".repeat(70);
    let text = guardrail(&long).text();
    assert!(text.contains("x… (3 more characters)\n"), "{text}");
    assert!(text.contains("    … 11 more lines, not shown\n"), "{text}");
}

#[test]
fn a_document_has_its_title_its_path_and_its_way_to_be_changed() {
    let expected = "? Plan (p.md)\n    # Plan\n      - one\n  answer y or n, with notes after it if you like, or /edit \
                    FILE to hand back the file's text\n";
    assert_eq!(review().text(), expected);
    let confirm = asked("Text", Some(json!({ "type": "prompt", "mode": "confirm" })));
    assert_eq!(confirm.text(), format!("? is this right?\n    Text\n{YES_OR_NO}"));
}

#[test]
fn a_line_says_yes_or_no_with_notes_or_is_no_answer() {
    let table = [
        ("y", Some((true, None))),
        (" YES ", Some((true, None))),
        ("n", Some((false, None))),
        ("No.", Some((false, None))),
        ("no, use git clean", Some((false, Some("use git clean")))),
        ("y but only once", Some((true, Some("but only once")))),
        ("/cancel", Some((false, None))),
        ("", None),
        ("yesterday", None),
        ("not now", None),
        ("no-op", None),
        ("y/n", None),
        ("/edit f", None),
    ];
    for (line, expected) in table {
        let expected = match expected {
            Some((approved, notes)) => decided(approved, notes),
            None => Reply::Unclear("answer y or n, with notes after it if you like".to_owned()),
        };
        assert_eq!(guardrail("rm").take(line), expected, "{line:?}");
        assert_eq!(asked("Go on?", None).take(line), expected, "{line:?}");
    }
}

#[test]
fn a_review_is_also_answered_with_a_file() {
    assert_eq!(review().take("/edit  my plan.md "), Reply::Edited("my plan.md".to_owned()));
    assert_eq!(review().take("y"), decided(true, None));
    assert!(matches!(review().take("/edit "), Reply::Unclear(usage) if usage.contains("/edit FILE")));
}

#[test]
fn questions_with_choices_are_asked_one_after_the_other() {
    let mut asked = parts(json!([
        { "question": "Which\u{7} one?", "header": "Db", "markdown": "a\n  b", "options": [
            { "label": "SQLite", "description": "a file" }, { "label": "PostgreSQL" },
        ] },
        { "question": "Why?", "header": "" },
    ]));
    let first = "? 1 of 2: [Db] Which one?\n    a\n      b\n  1 SQLite: a file\n  2 PostgreSQL\n  a number from 1 to 2, or \
                 your own words; an empty line gives no answer, /cancel answers nothing at all\n";
    assert_eq!(asked.text(), first);
    assert_eq!(asked.take("2"), Reply::Next);
    let second =
        "? 2 of 2: Why?\n  type your answer; an empty line gives no answer, /cancel answers nothing at all\n";
    assert_eq!(asked.text(), second);
    assert_eq!(asked.take("it is \"there\""), decided(true, Some(r#"[["PostgreSQL"],["it is \"there\""]]"#)));
    // Whoever has to ask it again begins with the first part.
    assert_eq!(asked.text(), first);
}

#[test]
fn a_line_chooses_by_number_or_says_it_in_own_words() {
    let options = json!([{ "label": "a" }, { "label": "b" }, { "label": "c" }]);
    let table = [
        (false, "1", Some(r#"[["a"]]"#)),
        (false, "1,2", None),
        (false, "4", None),
        (false, "0", None),
        (false, "none of 3", Some(r#"[["none of 3"]]"#)),
        (false, "", Some("[[]]")),
        (true, "3, 1", Some(r#"[["c","a"]]"#)),
        (true, "2 3", Some(r#"[["b","c"]]"#)),
        (true, "2 9", None),
        (true, "y", Some(r#"[["y"]]"#)),
    ];
    for (multiple, line, notes) in table {
        let mut asked = parts(json!([{ "question": "?", "options": options, "multiple": multiple }]));
        match (asked.take(line), notes) {
            (Reply::Unclear(usage), None) => assert!(usage.contains("from 1 to 3"), "{usage}"),
            (reply, notes) => assert_eq!(reply, decided(true, notes), "{line:?}"),
        }
    }
    let mut asked = parts(json!([{ "question": "a" }, { "question": "b" }]));
    assert_eq!(asked.take("x"), Reply::Next);
    assert_eq!(asked.take("/cancel"), decided(false, None));
}

#[test]
fn nobody_is_said_to_be_there_in_words_that_help() {
    let allows = "nobody can be asked in this run: start it with --approve-all to allow such calls";
    assert_eq!(guardrail("rm").refusal().notes.as_deref(), Some(allows));
    let answers = "nobody can be asked in this run: decide it yourself and say how you did";
    let refusal = parts(json!([{ "question": "a" }])).refusal();
    assert_eq!((refusal.approved, refusal.notes.as_deref()), (false, Some(answers)));
    assert_eq!(guardrail("rm\n-rf").summary(), "may this command run: rm -rf");
}
