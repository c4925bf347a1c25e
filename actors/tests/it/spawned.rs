//! Owns who can be asked: in a session that another one spawned only whoever opened the turn as a client; and that a
//! client cannot make itself out to be somebody else.

use diesel::Connection;
use diesel::connection::SimpleConnection;
use futures_util::FutureExt;
use gent_extension_api::{BranchTarget, Tool, ToolContext, ToolDeclaration, ToolError, TurnMessage, tool_fn};
use gent_protocol::{CreateSession, CreatedSession, ExtensionId, MessageMetadata, RequestId, SteerCommand};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

use crate::asker::{Runs, answers, asks, declare, rest};
use crate::rig::{Answer, Rig, Setup, calls, text};

/// The session that `delegate` sends to.
type Child = Arc<Mutex<Option<CreatedSession>>>;

/// A tool that lets another session answer.
fn delegate(child: &Child) -> Arc<dyn Tool> {
    let child = Arc::clone(child);
    let run = move |context: ToolContext, _: Value| {
        let child = child.lock().unwrap().clone().unwrap();
        async move {
            let to = BranchTarget { session_id: child.session_id, branch_id: child.branch_id };
            let message = TurnMessage { request_id: "task".into(), content: "do it".into(), wait: true };
            let sent = context.session().turn(to, message).await;
            sent.map(|id| json!({ "sent": id })).map_err(|error| ToolError::TellModel(error.to_string()))
        }
        .boxed()
    };
    tool_fn(declare("delegate", "lets another session do it"), None, run)
}

/// A tool that is of no use where nobody can be asked.
fn choose() -> Arc<dyn Tool> {
    let declaration = ToolDeclaration { interactive: true, ..declare("choose", "lets a person choose") };
    tool_fn(declaration, None, |_, _: Value| async { Ok::<Value, ToolError>(json!({})) })
}

/// An engine whose session has spawned another one.
async fn with_a_spawned_session(script: Vec<Answer>) -> (Rig, CreatedSession) {
    let child = Child::default();
    let more = Runs::default().extension().tool(delegate(&child)).tool(choose()).alone();
    let rig = Rig::of(Setup { more, ..Setup::still(script) }).await;
    let create = CreateSession { cwd: Some("/".into()), ..CreateSession::default() };
    let spawned = rig.engine.session_create(&rig.workspace, create).await.unwrap();
    let place = rig.place.path().join("data.db");
    let mut connection = diesel::SqliteConnection::establish(place.to_str().unwrap()).unwrap();
    let (parent, branch) = (&rig.session.session_id, &rig.session.branch_id);
    connection
        .batch_execute(&format!(
            "UPDATE sessions SET parent_session_id = '{parent}', parent_branch_id = '{branch}' \
             WHERE id = '{}'",
            spawned.session_id
        ))
        .unwrap();
    *child.lock().unwrap() = Some(spawned.clone());
    (rig, spawned)
}

fn offers_choice(rig: &Rig, request: usize) -> bool {
    rig.script.request(request).tools.iter().any(|tool| tool.name == "choose")
}

#[actix::test]
async fn a_turn_that_the_parent_opened_in_a_spawned_session_is_declined_at_once_f15() {
    let script =
        vec![calls(&[("p1", "delegate", "")]), asks(&[("c1", &["sure?"])]), text("done"), text("told")];
    let (mut rig, spawned) = with_a_spawned_session(script).await;
    rig.send("r", "hi").await.unwrap();
    assert!(offers_choice(&rig, 0) && !offers_choice(&rig, 1), "the tool that needs a person is withheld");
    rig.session = spawned;
    let nobody = "no: nobody can be asked in this session: report back to whoever started it what you would \
                  have done and why";
    assert_eq!(rig.results("task", 1).await, [answers("c1", &[nobody])]);
    assert!(rig.asked().await.is_empty());
}

#[actix::test]
async fn a_turn_that_a_client_opened_in_a_spawned_session_asks_f16() {
    let (mut rig, spawned) = with_a_spawned_session(vec![asks(&[("c1", &["sure?"])]), text("done")]).await;
    rig.session = spawned;
    rig.begin("r");
    rig.respond(&rig.question(1).await, true).await.unwrap();
    rig.ended(1).await;
    assert!(offers_choice(&rig, 0));
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes"])]);
}

#[actix::test]
async fn a_turn_that_a_client_opened_in_a_spawned_session_asks_after_a_restart_f17() {
    let script = vec![text("cut"), asks(&[("c1", &["sure?"])]), text("done")];
    let (mut rig, spawned) = with_a_spawned_session(script).await;
    rig.session = spawned;
    let cut = rig.script.hold(0, 0);
    rig.begin("r");
    cut.reached().await;
    rig.restart().await;
    rig.engine.resume(true);
    let question = rig.question(1).await;
    rest().await;
    assert_eq!(rig.shown().await, (Some(question.clone()), true));
    rig.respond(&question, true).await.unwrap();
    rig.ended(1).await;
    assert!(offers_choice(&rig, 1));
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes"])]);
}

#[actix::test]
async fn what_a_client_says_of_its_message_cannot_make_it_somebody_elses_f20() {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done")]).await;
    rig.begin("r");
    rig.tools.gate("a").reached().await;
    let command = SteerCommand::Interject {
        session_id: rig.session.session_id.clone(),
        branch_id: rig.session.branch_id.clone(),
        request_id: RequestId::parse("s").unwrap(),
        message: "also this".into(),
        metadata: Some(MessageMetadata {
            custom_type: Some("continuation".into()),
            extension_id: Some(ExtensionId::parse("@test/set").unwrap()),
            from_client: false,
            hidden: false,
            joined_turn: false,
            details: Some(json!({ "by": "a button" })),
        }),
        wake: false,
    };
    rig.engine.steer(&rig.workspace, command).await.unwrap();
    rig.tools.gate("a").open();
    rig.ended(1).await;
    let messages = rig.snapshot().await.messages;
    let said = messages.iter().find(|message| message.id.as_str() == "s:interjection").unwrap();
    let stamped = MessageMetadata {
        from_client: true,
        joined_turn: true,
        details: Some(json!({ "by": "a button" })),
        ..MessageMetadata::default()
    };
    assert_eq!(said.metadata, Some(stamped));
}
