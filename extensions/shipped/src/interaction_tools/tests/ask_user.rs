//! Owns the tests of the tool `ask_user`.

use serde_json::{Value, json};

use super::*;

fn one() -> Value {
    json!({ "questions": [{ "question": "Which one?", "header": "Store" }] })
}

fn two() -> Value {
    json!({ "questions": [
        { "question": "Which one?", "header": "Store", "options": [
            { "label": "SQLite", "description": "one file" }, { "label": "Both" },
        ] },
        { "question": "Which tests?", "header": "Tests", "markdown": "There are **two**.", "multiple": true,
          "options": [{ "label": "unit" }, { "label": "e2e" }] },
    ] })
}

async fn answered(notes: Option<&str>) -> Value {
    Bed::new().answering(true, notes, None).call("ask_user", two()).await.unwrap()
}

#[tokio::test]
async fn all_questions_of_a_call_are_one_question_of_facts_and_of_a_text_that_can_be_read() {
    let bed = Bed::new().answering(true, None, None);
    bed.call("ask_user", two()).await.unwrap();
    let mut questions = two()["questions"].clone();
    questions[0]["multiple"] = json!(false);
    let text = "1. [Store] Which one?\n- SQLite: one file\n- Both\n\n2. [Tests] Which tests?\n\nThere are **two**.\n\n\
                - unit\n- e2e\n(more than one can be chosen)";
    let metadata = Some(json!({ "type": "ask-user", "questions": questions }));
    assert_eq!(bed.asked(), [ApprovalRequest { text: text.into(), metadata }]);
}

#[tokio::test]
async fn a_question_without_options_is_asked_without_them() {
    let bed = Bed::new().answering(true, None, None);
    let input = json!({ "questions": [
        { "question": "Which one?", "header": "Store", "options": [], "markdown": null, "multiple": null },
    ] });
    bed.call("ask_user", input).await.unwrap();
    let asked = bed.asked();
    assert_eq!(asked[0].text, "[Store] Which one?");
    let facts = json!([{ "question": "Which one?", "header": "Store", "multiple": false }]);
    assert_eq!(asked[0].metadata.as_ref().unwrap()["questions"], facts);
}

#[tokio::test]
async fn an_answer_is_a_list_for_each_question() {
    let notes = r#"[["SQLite"],["unit","by hand too"]]"#;
    assert_eq!(answered(Some(notes)).await, json!({ "answers": [["SQLite"], ["unit", "by hand too"]] }));
}

#[tokio::test]
async fn missing_answers_are_empty_and_answers_to_nothing_are_left_out() {
    assert_eq!(answered(Some(r#"[["SQLite"]]"#)).await, json!({ "answers": [["SQLite"], []] }));
    assert_eq!(answered(Some(r#"[[],["e2e"],["what?"]]"#)).await, json!({ "answers": [[], ["e2e"]] }));
    for nothing in [None, Some(""), Some(" \n"), Some("[]")] {
        assert_eq!(answered(nothing).await, json!({ "answers": [[], []] }), "{nothing:?}");
    }
}

#[tokio::test]
async fn words_that_are_no_list_of_lists_answer_the_first_question() {
    for words in ["take both", r#"["SQLite"]"#, "[[1]]", "{}", "7"] {
        assert_eq!(answered(Some(words)).await, json!({ "answers": [[words], []] }));
    }
}

#[tokio::test]
async fn a_declined_call_has_an_empty_answer_for_each_question_and_is_no_failure() {
    let declined = Bed::new().answering(false, None, None).call("ask_user", two()).await;
    assert_eq!(declined.unwrap(), json!({ "answers": [[], []], "cancelled": true }));
    let declined = Bed::new().answering(false, Some("ask Ann"), None).call("ask_user", one()).await;
    assert_eq!(declined.unwrap(), json!({ "answers": [[]], "cancelled": true, "notes": "ask Ann" }));
}

/// Refused input, and what the sentence must name.
fn refused() -> Vec<(Value, &'static str)> {
    let asked = |change: fn(&mut Value)| {
        let mut input = one();
        change(&mut input["questions"][0]);
        input
    };
    let question = one()["questions"][0].clone();
    let many = vec![question; 6];
    vec![
        (json!({ "questions": [] }), "1 to 5 questions, not 0"),
        (json!({ "questions": many }), "1 to 5 questions, not 6"),
        (asked(|asked| asked["header"] = json!("é".repeat(31))), "has 31 characters, 30 are allowed"),
        (asked(|asked| asked["header"] = json!(" ")), "question 1 needs a text and a header"),
        (asked(|asked| asked["question"] = json!("")), "question 1 needs a text and a header"),
        (asked(|asked| asked["options"] = json!([{ "label": "" }])), "an option of question 1 needs a label"),
        (asked(|asked| asked["options"] = json!(vec![json!({ "label": "a" }); 5])), "has 5 options, 4"),
        (asked(|asked| drop(asked.as_object_mut().unwrap().remove("header"))), "missing field `header`"),
    ]
}

#[tokio::test]
async fn what_goes_beyond_a_limit_is_refused_in_one_sentence_and_not_asked() {
    for (input, names) in refused() {
        let bed = Bed::new();
        let Err(ToolError::TellModel(sentence)) = bed.call("ask_user", input).await else {
            panic!("{names}")
        };
        assert!(sentence.contains(names) && !sentence.contains('\n'), "{sentence}");
        assert_eq!(bed.asked(), []);
    }
}

#[tokio::test]
async fn what_just_fits_is_asked() {
    let mut question = one()["questions"][0].clone();
    question["header"] = json!("é".repeat(30));
    question["options"] = json!(vec![json!({ "label": "a" }); 4]);
    let bed = Bed::new().answering(true, None, None);
    bed.call("ask_user", json!({ "questions": vec![question; 5] })).await.unwrap();
    assert_eq!(bed.asked().len(), 1);
}

#[test]
fn the_limits_are_in_the_schema_and_the_summary_says_what_was_answered() {
    let tool = TestHost::of(&InteractionTools).tool("ask_user");
    let schema = &tool.declaration().parameters["properties"]["questions"];
    assert_eq!((&schema["minItems"], &schema["maxItems"]), (&json!(1), &json!(5)));
    let question = &schema["items"];
    assert_eq!(question["properties"]["header"]["maxLength"], 30);
    assert_eq!(question["properties"]["options"]["maxItems"], 4);
    assert_eq!(question["required"], json!(["question", "header"]));
    let summary = tool.summary(&two(), &json!({ "answers": [["SQLite"], []] }));
    assert_eq!(summary.as_deref(), Some("Store: SQLite · Tests: –"));
    let declined = tool.summary(&two(), &json!({ "answers": [[], []], "cancelled": true }));
    assert_eq!(declined.as_deref(), Some("not answered"));
}
