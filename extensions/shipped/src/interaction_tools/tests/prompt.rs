//! Owns the tests of the tool `prompt`.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;

fn plan(mode: &str) -> Value {
    json!({ "mode": mode, "content": "# First\nsteps", "title": "The plan" })
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

impl Bed {
    fn reviews(&self) -> PathBuf {
        self.cwd().join(".gent/prompts")
    }

    /// Runs a review and returns where its file is.
    async fn review(&self) -> PathBuf {
        let result = self.call("prompt", plan("review")).await.unwrap();
        PathBuf::from(result["path"].as_str().unwrap())
    }
}

#[tokio::test]
async fn a_text_that_is_only_shown_is_not_waited_for() {
    let bed = Bed::new();
    let result = bed.call("prompt", plan("present")).await.unwrap();
    assert_eq!(result, json!({ "mode": "present", "status": "shown" }));
    assert_eq!(bed.asked(), []);
    assert_eq!(names(bed.cwd()), Vec::<String>::new());
}

#[tokio::test]
async fn a_text_to_confirm_is_asked_for_with_its_title_and_answered_yes_or_no() {
    let bed = Bed::new().answering(true, None, Some("ignored")).answering(false, Some("too soon"), None);
    let yes = bed.call("prompt", plan("confirm")).await.unwrap();
    assert_eq!(yes, json!({ "mode": "confirm", "decision": "yes" }));
    let no = bed.call("prompt", plan("confirm")).await.unwrap();
    assert_eq!(no, json!({ "mode": "confirm", "decision": "no", "notes": "too soon" }));
    let metadata = Some(json!({ "type": "prompt", "mode": "confirm", "title": "The plan" }));
    let asked = bed.asked();
    assert_eq!(asked[0], ApprovalRequest { text: "The plan\n\n# First\nsteps".into(), metadata });
    assert_eq!(names(bed.cwd()), Vec::<String>::new());
}

#[tokio::test]
async fn a_text_to_review_is_in_a_file_of_the_working_directory_before_it_is_asked_for() {
    let bed = Bed::new().answering(true, None, None);
    let path = bed.review().await;
    assert_eq!(path.parent(), Some(&*bed.reviews()));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("the-plan-") && name.ends_with("-call.md"), "{name}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "# First\nsteps");
    assert_eq!(names(&bed.reviews()), [name], "nothing else is left there");
    let metadata = json!({ "type": "prompt", "mode": "review", "title": "The plan", "path": path });
    let asked = ApprovalRequest { text: "# First\nsteps".into(), metadata: Some(metadata) };
    assert_eq!(bed.asked(), [asked]);
}

#[tokio::test]
async fn a_review_ends_in_yes_or_no_and_the_file_stays_as_it_was() {
    for (approved, word) in [(true, "yes"), (false, "no")] {
        let bed = Bed::new().answering(approved, None, None);
        let result = bed.call("prompt", plan("review")).await.unwrap();
        let path = result["path"].clone();
        assert_eq!(result, json!({ "mode": "review", "decision": word, "path": path }));
        assert_eq!(fs::read_to_string(path.as_str().unwrap()).unwrap(), "# First\nsteps");
    }
}

#[tokio::test]
async fn an_edit_is_written_back_and_returned_also_an_empty_one() {
    for edited in ["# Second", ""] {
        let bed = Bed::new().answering(true, Some("mine"), Some(edited));
        let result = bed.call("prompt", plan("review")).await.unwrap();
        let path = result["path"].clone();
        let expected =
            json!({ "mode": "review", "decision": "edit", "path": path, "content": edited, "notes": "mine" });
        assert_eq!(result, expected);
        assert_eq!(fs::read_to_string(path.as_str().unwrap()).unwrap(), edited);
        assert_eq!(names(&bed.reviews()).len(), 1);
    }
}

#[tokio::test]
async fn a_call_that_runs_again_asks_the_same_and_leaves_what_a_person_made_of_the_file() {
    let bed = Bed::new().answering(true, None, None).answering(true, None, None);
    let path = bed.review().await;
    fs::write(&path, "changed meanwhile").unwrap();
    assert_eq!(bed.review().await, path);
    assert_eq!(fs::read_to_string(&path).unwrap(), "changed meanwhile");
    let asked = bed.asked();
    assert_eq!(asked[0], asked[1]);
}

#[tokio::test]
async fn a_file_that_was_removed_meanwhile_is_there_again() {
    let bed = Bed::new().answering(true, None, None).answering(true, None, None);
    let path = bed.review().await;
    fs::remove_dir_all(bed.cwd().join(".gent")).unwrap();
    assert_eq!(bed.review().await, path);
    assert_eq!(fs::read_to_string(&path).unwrap(), "# First\nsteps");
}

#[tokio::test]
async fn a_later_step_that_uses_a_calls_id_again_has_a_file_of_its_own() {
    let mut bed = Bed::new().answering(true, None, None).answering(true, None, None);
    let first = bed.review().await;
    bed.step = "next step";
    assert_ne!(bed.review().await, first);
}

#[tokio::test]
async fn a_calls_id_cannot_lead_out_of_the_directory() {
    let mut bed = Bed::new().answering(true, None, None);
    bed.call = "/../../out";
    let path = bed.review().await;
    assert_eq!(path.parent(), Some(&*bed.reviews()));
    assert_eq!((names(bed.cwd()).len(), names(&bed.reviews()).len()), (1, 1));
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_that_leads_away_is_not_followed() {
    use std::os::unix::fs::symlink;
    let bed = Bed::new();
    let away = tempfile::tempdir().unwrap();
    symlink(away.path(), bed.cwd().join(".gent")).unwrap();
    let Err(ToolError::TellModel(sentence)) = bed.call("prompt", plan("review")).await else { panic!() };
    assert!(sentence.contains(".gent is no directory"), "{sentence}");
    assert_eq!(names(away.path()), Vec::<String>::new());
    assert_eq!(bed.asked(), []);

    let bed = Bed::new().answering(true, None, None);
    let path = bed.review().await;
    let victim = away.path().join("victim");
    fs::write(&victim, "theirs").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&victim, &path).unwrap();
    let Err(ToolError::TellModel(sentence)) = bed.call("prompt", plan("review")).await else { panic!() };
    assert!(sentence.contains("is no regular file"), "{sentence}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "theirs");
}

#[tokio::test]
async fn a_text_that_is_empty_and_a_mode_that_is_unknown_are_refused() {
    let bed = Bed::new();
    for (input, names) in [
        (json!({ "mode": "review", "content": " \n" }), "content that is not empty"),
        (json!({ "mode": "shout", "content": "x" }), "unknown variant `shout`"),
    ] {
        let Err(ToolError::TellModel(sentence)) = bed.call("prompt", input).await else { panic!("{names}") };
        assert!(sentence.contains(names), "{sentence}");
    }
    assert_eq!((bed.asked(), names(bed.cwd())), (vec![], vec![]));
}

#[test]
fn the_summary_says_what_was_decided_about_what() {
    let tool = TestHost::of(&InteractionTools).tool("prompt");
    let of = |mode: &str, output: Value| tool.summary(&plan(mode), &output).unwrap();
    assert_eq!(of("present", json!({ "mode": "present", "status": "shown" })), "shown · The plan");
    assert_eq!(of("confirm", json!({ "mode": "confirm", "decision": "no" })), "no · The plan");
    let untitled = tool.summary(
        &json!({ "mode": "confirm", "content": "x", "title": " " }),
        &json!({ "mode": "confirm", "decision": "yes" }),
    );
    assert_eq!(untitled.as_deref(), Some("yes"));
    let modes = &tool.declaration().parameters["properties"]["mode"];
    assert!(modes.to_string().contains("present") && !modes.to_string().contains("$ref"), "{modes}");
}
