//! A client that follows a session and speaks into it.

use std::time::Duration;

use gent_tui::Interrupt;
use serde_json::{Value, json};

use crate::scene::{Peer, Scene, Stdout, begin_attached, guardrail, message, snapshot};

/// Where the session stands in most of these.
fn idle() -> Value {
    let mut snapshot = snapshot(0);
    snapshot["name"] = json!("Fix the build");
    snapshot
}

fn waiting() -> Value {
    let mut snapshot = idle();
    let queue = json!({ "steering": [], "followUp": [] });
    snapshot["runtime"] = json!({
        "_tag": "WaitingForInteraction", "queue": queue, "messageId": "message:r", "startedAtMs": 1, "requestId": "q",
    });
    snapshot["question"] = json!({ "requestId": "q", "text": "Run it?", "metadata": guardrail() });
    snapshot
}

/// Answers what an attaching client asks.
async fn open(peer: &mut Peer, snapshot: Value) {
    tell(peer, snapshot).await;
    peer.follow().await;
}

/// Tells where the session stands.
async fn tell(peer: &mut Peer, snapshot: Value) {
    let get = peer.expect("session.get").await;
    peer.answer(&get, json!({ "id": "s", "activeBranchId": "b", "createdAt": 0, "updatedAt": 0 })).await;
    let ask = peer.expect("session.getSnapshot").await;
    peer.answer(&ask, snapshot).await;
}

async fn attached(is_terminal: bool, snapshot: Value) -> (Scene<u8>, Peer) {
    let mut scene = begin_attached(1, is_terminal, Stdout::Open).await;
    let mut peer = scene.peer();
    open(&mut peer, snapshot).await;
    (scene, peer)
}

fn received(id: &str, text: &str) -> Value {
    message(id, "user", json!([{ "type": "text", "text": text }]))
}

fn completed(id: &str, fields: Value) -> Value {
    let mut event = json!({
        "_tag": "TurnCompleted", "sessionId": "s", "branchId": "b", "messageId": id, "durationMs": 1500,
        "streamFailed": false,
    });
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

fn cancel(message_id: &str) -> Value {
    json!({ "command": {
        "_tag": "Cancel", "sessionId": "s", "branchId": "b", "requestId": "k-1", "messageId": message_id,
    } })
}

#[tokio::test]
async fn a_turn_of_somebody_else_is_shown_as_it_happens() {
    let (scene, mut peer) = attached(true, idle()).await;
    peer.prompt_received().await;
    peer.step_started(1, "run").await;
    peer.chunk(1, "run", 0, "Looking \u{1b}[2Jin").await;
    scene.see("in").await;
    peer.answered(1, "Looking \u{1b}[2Jinto it.").await;
    peer.tool("ToolCallFailed", "c1", Some("no such file")).await;
    peer.completed(json!({})).await;
    scene.see("answered after").await;
    drop(scene.hands);
    let expected = "\
· Fix the build (session s)
· model demo/demo: it was asked for
· no turn runs
· a line is a prompt; `!now TEXT` speaks into the running turn; Ctrl-C stops it; /quit leaves
> Hello
Looking into it.
✗ read no such file
· answered after 0.0 s
";
    assert_eq!(scene.written.out(), expected);
}

#[tokio::test]
async fn what_comes_together_is_one_write() {
    let (scene, mut peer) = attached(true, idle()).await;
    scene.see("/quit").await;
    peer.prompt_received().await;
    let events: Vec<Value> = (0..20).map(|n| json!({
        "_tag": "StreamChunk", "sessionId": "s", "branchId": "b", "messageId": "message:r", "step": 1, "run": "run",
        "offset": n, "chunk": "x",
    })).collect();
    peer.events(events).await;
    scene.see(&"x".repeat(20)).await;
    assert!(scene.written.all().len() <= 4, "{:?}", scene.written.all());
}

#[tokio::test]
async fn a_typed_line_is_a_prompt_and_one_that_is_said_now_reaches_the_running_turn() {
    let (mut scene, mut peer) = attached(true, idle()).await;
    scene.type_line("fix it").await;
    let send = peer.expect("message.send").await;
    let expected = json!({ "sessionId": "s", "branchId": "b", "content": "fix it", "requestId": "k-1" });
    assert_eq!(send["params"], expected);
    peer.event(received("message:k-1", "fix it")).await;
    scene.see("> fix it").await;
    // Its answer is not waited for.
    scene.type_line("!now use tabs").await;
    let steer = peer.expect("steer.command").await;
    let expected = json!({ "command": {
        "_tag": "Interject", "sessionId": "s", "branchId": "b", "requestId": "k-2", "message": "use tabs", "wake": true,
    } });
    assert_eq!(steer["params"], expected);
    peer.answer(&steer, json!({})).await;
    peer.event(completed("message:k-1", json!({}))).await;
    scene.see("answered after 1.5 s").await;
    // Nothing runs: it opens a turn like any other line.
    scene.type_line("!now again").await;
    assert_eq!(peer.expect("message.send").await["params"]["content"], "again");
    scene.type_line("/quit").await;
    assert_eq!(scene.end().await.0, 0);
}

#[tokio::test]
async fn the_open_question_is_shown_and_a_typed_line_answers_it() {
    let (mut scene, mut peer) = attached(true, waiting()).await;
    scene.see("? may this command run? it is destructive: it removes files\n    rm -rf x\n").await;
    scene.type_line("perhaps").await;
    scene.type_line("y once").await;
    let respond = peer.expect("interaction.respond").await;
    let expected =
        json!({ "requestId": "q", "sessionId": "s", "branchId": "b", "approved": true, "notes": "once" });
    assert_eq!(respond["params"], expected);
    peer.answer(&respond, json!({})).await;
    peer.resolved("q", json!({ "notes": "once" })).await;
    scene.see("· the answer is yes: once").await;
    // The next line is a prompt again.
    scene.type_line("y").await;
    assert_eq!(peer.expect("message.send").await["params"]["content"], "y");
}

#[tokio::test]
async fn an_answer_that_loses_is_told_in_one_sentence() {
    for (tag, fields, said) in [
        (
            "InteractionDecisionConflictError",
            json!({ "requestId": "q" }),
            "· somebody else has answered this question already: the first answer counts\n",
        ),
        (
            "InteractionRequestMismatchError",
            json!({ "actualRequestId": "q", "sessionId": "s", "branchId": "b" }),
            "· the answer came too late: this question is no longer open\n",
        ),
    ] {
        let (mut scene, mut peer) = attached(true, waiting()).await;
        scene.type_line("y").await;
        let respond = peer.expect("interaction.respond").await;
        peer.refuse(&respond, tag, fields).await;
        scene.see(said).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_ctrl_c_stops_the_turn_and_a_second_one_within_two_seconds_leaves() {
    let (scene, mut peer) = attached(true, waiting()).await;
    for n in 1..=2 {
        scene.signals.send(Interrupt::CtrlC).await.unwrap();
        let steer = peer.expect("steer.command").await;
        let mut expected = cancel("message:r");
        expected["command"]["requestId"] = json!(format!("k-{n}"));
        assert_eq!(steer["params"], expected);
        peer.answer(&steer, json!({})).await;
        // Later than that it is a first one again.
        tokio::time::advance(Duration::from_millis(2001)).await;
    }
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    peer.expect("steer.command").await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    let (exit_code, written) = scene.end().await;
    assert_eq!(exit_code, 130);
    assert_eq!(written.err(), ["· the turn goes on; `gent attach s` comes back to it"]);
}

#[tokio::test]
async fn ctrl_c_leaves_where_nothing_runs_and_stops_a_prompt_that_has_not_started() {
    let (mut scene, mut peer) = attached(true, idle()).await;
    scene.type_line("wait").await;
    peer.expect("message.send").await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    let steer = peer.expect("steer.command").await;
    assert_eq!(steer["params"]["command"]["messageId"], "message:k-1");
    peer.event(received("message:k-1", "wait")).await;
    peer.event(completed("message:k-1", json!({ "interrupted": true }))).await;
    scene.see("stopped after").await;
    let (idle_scene, _peer) = attached(true, idle()).await;
    idle_scene.see("no turn runs").await;
    idle_scene.signals.send(Interrupt::CtrlC).await.unwrap();
    assert_eq!(idle_scene.end().await.0, 130);
}

#[tokio::test]
async fn sigterm_leaves_at_once_and_the_turn_goes_on() {
    let (scene, mut peer) = attached(true, waiting()).await;
    scene.signals.send(Interrupt::Terminate).await.unwrap();
    // The goodbye stops nothing.
    let mut last = peer.receive().await;
    while last["method"] == "stream.cancel" {
        last = peer.receive().await;
    }
    assert_eq!((last["method"].as_str(), scene.end().await.0), (Some("closed"), 143));
}

#[tokio::test]
async fn the_end_of_a_terminals_input_leaves_and_that_of_a_pipe_waits_for_the_turn() {
    let (scene, _peer) = attached(true, waiting()).await;
    let Scene { hands, running, .. } = scene;
    drop(hands);
    assert_eq!(running.await.unwrap(), 0);
    let (scene, mut peer) = attached(false, waiting()).await;
    let Scene { hands, running, written, .. } = scene;
    drop(hands);
    peer.resolved("q", json!({})).await;
    peer.completed(json!({})).await;
    assert_eq!(running.await.unwrap(), 0);
    assert!(written.out().ends_with("· the answer is yes\n· answered after 0.0 s\n"), "{}", written.out());
}

#[tokio::test]
async fn a_line_typed_in_the_middle_of_an_answer_has_ended_its_line() {
    let (mut scene, mut peer) = attached(true, waiting()).await;
    peer.chunk(1, "run", 0, "Half").await;
    scene.see("Half").await;
    scene.type_line("perhaps").await;
    scene.see("Half  answer y or n").await;
}

#[tokio::test]
async fn a_question_that_ended_elsewhere_or_with_its_turn_is_no_longer_answered() {
    for is_resolved in [true, false] {
        let (mut scene, mut peer) = attached(true, waiting()).await;
        if is_resolved {
            peer.resolved("q", json!({})).await;
            scene.see("the answer is yes").await;
        } else {
            peer.completed(json!({})).await;
            scene.see("answered after").await;
        }
        scene.type_line("y").await;
        assert_eq!(peer.expect("message.send").await["params"]["content"], "y");
    }
}

#[tokio::test]
async fn whoever_wrote_a_pipe_is_told_that_a_prompt_was_not_answered() {
    for (fields, expected) in [
        (json!({}), 0),
        (json!({ "streamFailed": true }), 1),
        (json!({ "interrupted": true }), 1),
        (json!({ "unanswered": true }), 1),
    ] {
        let (mut scene, mut peer) = attached(false, idle()).await;
        scene.type_line("do it").await;
        let Scene { hands, running, .. } = scene;
        drop(hands);
        let send = peer.expect("message.send").await;
        peer.event(received("message:k-1", "do it")).await;
        peer.event(completed("message:k-1", fields)).await;
        peer.answer(&send, json!({})).await;
        assert_eq!(running.await.unwrap(), expected);
    }
}

#[tokio::test]
async fn lines_of_a_pipe_each_have_their_time() {
    let (mut scene, mut peer) = attached(false, idle()).await;
    for line in ["first", "y", "second"] {
        scene.type_line(line).await;
    }
    let Scene { hands, running, .. } = scene;
    drop(hands);
    for (n, content) in [(1, "first"), (2, "second")] {
        let id = format!("message:k-{n}");
        let send = peer.expect("message.send").await;
        assert_eq!(send["params"]["content"], content);
        peer.event(received(&id, content)).await;
        if n == 1 {
            peer.question("q").await;
            let respond = peer.expect("interaction.respond").await;
            assert_eq!(respond["params"]["approved"], true);
            peer.answer(&respond, json!({})).await;
        }
        peer.event(completed(&id, json!({}))).await;
        peer.answer(&send, json!({})).await;
    }
    assert_eq!(running.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_server_loses_and_repeats_nothing() {
    let mut scene = begin_attached(2, true, Stdout::Open).await;
    let mut first = scene.peer();
    open(&mut first, waiting()).await;
    scene.type_line("y").await;
    let respond = first.expect("interaction.respond").await;
    first.resolved("q", json!({})).await;
    scene.see("the answer is yes").await;
    scene.type_line("next").await;
    let send = first.expect("message.send").await;
    drop(first);
    let mut second = scene.peer();
    let follow = second.follow().await;
    assert_eq!(follow, json!({ "sessionId": "s", "branchId": "b", "after": 1, "store": "st" }));
    for expected in [respond, send] {
        let again = second.receive().await;
        assert_eq!((&again["method"], &again["params"]), (&expected["method"], &expected["params"]));
    }
    second.last = 1;
    second.event(completed("message:r", json!({}))).await;
    second.event(received("message:k-1", "next")).await;
    scene.see("> next").await;
    let out = scene.written.out();
    assert_eq!(out.matches("the answer is yes").count(), 1, "{out}");
    assert!(out.contains("· the connection to the server was lost and is back\n"), "{out}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_come_back_ends_it_naming_the_session() {
    let (scene, peer) = attached(true, idle()).await;
    scene.see("no turn runs").await;
    drop(peer);
    let (exit_code, written) = scene.end().await;
    assert_eq!(exit_code, 1);
    let said = "error: the server did not come back within 30 s: nobody listens (session s)";
    assert_eq!(written.err(), [said]);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_was_not_taken_is_told_and_one_whose_turn_failed_tells_it_itself() {
    let (mut scene, mut peer) = attached(true, idle()).await;
    scene.type_line("one too many").await;
    let send = peer.expect("message.send").await;
    peer.refuse(&send, "LimitExceeded", json!({ "limit": "followUps", "max": 10 })).await;
    scene.see("error: the prompt was not taken: refused as LimitExceeded\n").await;
    scene.type_line("fail").await;
    let send = peer.expect("message.send").await;
    peer.refuse(&send, "SessionRuntimeError", json!({})).await;
    peer.event(received("message:k-2", "fail")).await;
    scene.see("> fail").await;
    tokio::time::advance(Duration::from_secs(2)).await;
    peer.error("the provider is out").await;
    peer.event(completed("message:k-2", json!({ "streamFailed": true }))).await;
    scene.see("failed after").await;
    scene.type_line("/quit").await;
    let (exit_code, written) = scene.end().await;
    assert_eq!((exit_code, written.out().matches("error: ").count()), (0, 2), "{}", written.out());
}

#[tokio::test]
async fn a_reader_that_is_stuck_keeps_nobody_from_leaving_and_one_that_is_gone_ends_it() {
    let mut scene = begin_attached(1, true, Stdout::Stuck).await;
    let mut peer = scene.peer();
    tell(&mut peer, idle()).await;
    scene.see("stuck").await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    assert_eq!(scene.end().await.0, 130);
    let mut scene = begin_attached(1, true, Stdout::Closed).await;
    let mut peer = scene.peer();
    tell(&mut peer, idle()).await;
    let (exit_code, written) = scene.end().await;
    assert_eq!((exit_code, written.all().len()), (1, 0));
}

#[tokio::test]
async fn a_session_that_is_not_there_is_told_in_the_words_of_the_server() {
    let mut scene = begin_attached(1, true, Stdout::Open).await;
    let mut peer = scene.peer();
    let get = peer.expect("session.get").await;
    peer.answer(&get, json!(null)).await;
    let list = peer.expect("branch.list").await;
    peer.refuse(&list, "NotFoundError", json!({})).await;
    let (exit_code, written) = scene.end().await;
    assert_eq!((exit_code, written.all()), (1, vec!["err: error: refused as NotFoundError".to_owned()]));
}
