//! Owns the reference traces that need no process and no socket.

use std::time::Duration;

use gent_extension_api::{FailureKind, ProviderFailure, StreamPart};

use crate::rig::{Rig, calls, text};

/// Guards against a test that hangs; nothing waits for it.
const HANGS: Duration = Duration::from_secs(30);

fn broken(kind: FailureKind) -> ProviderFailure {
    ProviderFailure::new(kind, "the line broke")
}

#[actix::test]
async fn a_plain_answer_leaves_trace_1() {
    let rig = Rig::new(vec![text("hello")]).await;
    rig.send("r", "hi").await.unwrap();
    assert_eq!(rig.trace().await, "SessionStarted MR(r) MCP SS1 SE1(Answered) MR(r:assistant:1) TC()");
}

#[actix::test]
async fn a_fault_of_the_settings_is_told_once_a_turn() {
    let script = vec![calls(&[("c1", "echo", "a")]), text("done"), text("again")];
    let rig = Rig::with_notices(script, vec!["no key `modell`".into()]).await;
    rig.send("r", "hi").await.unwrap();
    let told = "Error(no key `modell`)";
    let trace = rig.trace().await;
    assert!(trace.starts_with(&format!("SessionStarted MR(r) {told} MCP SS1 ")), "{trace}");
    assert_eq!(trace.matches(told).count(), 1, "{trace}");
    rig.send("s", "hi").await.unwrap();
    assert_eq!(rig.trace().await.matches(told).count(), 2);
}

#[actix::test]
async fn two_calls_of_one_step_leave_trace_2() {
    let rig = Rig::new(vec![calls(&[("c1", "echo", "a"), ("c2", "break", "b")]), text("done")]).await;
    rig.send("r", "hi").await.unwrap();
    let trace = rig.trace().await;
    let (before, after) = trace.split_once("TS(c2) ").unwrap();
    assert_eq!(before, "SessionStarted MR(r) MCP SS1 SE1(ToolCalls) MR(r:assistant:1) TS(c1) ");
    assert!(after.contains("TOK(c1)") && after.contains("TF(c2)"));
    assert!(after.ends_with("MR(r:tool-result:1) MCP SS2 SE2(Answered) MR(r:assistant:2) TC()"), "{after}");
}

#[actix::test]
async fn a_tool_that_panics_fails_its_turn_and_the_branch_goes_on_e16() {
    let rig = Rig::new(vec![calls(&[("c1", "break", "panic")]), text("done")]).await;
    let failed = rig.send("r", "hi").await.unwrap_err();
    assert!(failed.to_string().contains("the tool 'break' broke"), "{failed}");
    rig.send("s", "again").await.unwrap();
    let trace = rig.trace().await;
    assert!(
        trace
            .contains("TF(c1) MR(r:tool-result:1) Error(the tool 'break' broke: the tool breaks) TC(failed)")
    );
    assert!(trace.ends_with("MR(s) MCP SS1 SE1(Answered) MR(s:assistant:1) TC()"), "{trace}");
}

#[actix::test]
async fn an_unknown_tool_is_a_failed_result_and_the_turn_goes_on_e14() {
    let rig = Rig::new(vec![calls(&[("c1", "nothing", "a")]), text("done")]).await;
    rig.send("r", "hi").await.unwrap();
    assert!(rig.trace().await.contains("TF(c1) MR(r:tool-result:1) MCP SS2 SE2(Answered)"));
}

#[actix::test]
async fn a_stream_that_breaks_after_text_is_carried_on_trace_6_g7() {
    let partial = Ok(vec![Ok(StreamPart::Text { text: "par".into() }), Err(broken(FailureKind::Transient))]);
    let rig = Rig::new(vec![partial, text("tial")]).await;
    rig.send("r", "hi").await.unwrap();
    assert_eq!(
        rig.trace().await,
        "SessionStarted MR(r) MCP SS1 SE1(Failed) Error(the line broke) MR(r:assistant:1) \
         MR(r:continuation:1) MCP SS2 SE2(Answered) MR(r:assistant:2) TC()"
    );
}

#[actix::test]
async fn a_failure_before_any_output_is_tried_again_trace_7_g5_g6() {
    let fails = || Err(broken(FailureKind::Transient));
    let rig = Rig::new(vec![fails(), text("hello"), fails(), fails(), fails()]).await;
    rig.send("r", "hi").await.unwrap();
    rig.send("s", "hi").await.unwrap();
    assert_eq!(
        rig.trace().await,
        "SessionStarted MR(r) MCP SS1 Retry(1) SE1(Answered) MR(r:assistant:1) TC() \
         MR(s) MCP SS1 Retry(1) Retry(2) SE1(Failed) Error(the line broke) TC(failed)"
    );
}

#[actix::test]
async fn a_cancel_ends_the_wait_before_a_retry_and_no_attempt_follows_d8() {
    let fails = Err(broken(FailureKind::Transient));
    let script = vec![fails, text("never asked for"), text("again")];
    // An hour: a wait that is not cut short never comes back.
    let rig = Rig::with_retry_wait(script, Duration::from_secs(3600)).await;
    let cancel = async {
        rig.told("ProviderRetrying").await;
        assert_eq!(rig.script.left(), 2, "it waits: one attempt was made");
        rig.cancel().await;
    };
    let both = async { futures_util::join!(rig.send("r", "hi"), cancel) };
    let (sent, ()) = tokio::time::timeout(HANGS, both).await.expect("the wait goes on");
    sent.unwrap();
    assert_eq!(rig.script.left(), 2, "another attempt was made");
    let stopped = "SessionStarted MR(r) MCP SS1 Retry(1) SE1(Interrupted) TC(interrupted)";
    assert_eq!(rig.trace().await, stopped);
}

#[actix::test]
async fn what_is_appended_at_the_seam_between_replay_and_live_arrives_once_b3() {
    let rig = Rig::new((0..20).map(|_| text("done")).collect()).await;
    let requests: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    let (history, later) = requests.split_at(12);
    for request in history {
        rig.send(request, "hi").await.unwrap();
    }
    let mut stream = rig.subscribe().await;
    let mut seen = Vec::new();
    // A turn before each take: before the first read, between two pages, before the marker, after it.
    for request in later {
        rig.send(request, "hi").await.unwrap();
        seen.extend(stream.take().await.unwrap().unwrap());
    }
    let markers = seen.iter().filter(|published| published.tag == "StreamSynchronized").count();
    seen.retain(|published| !matches!(published.tag, "StreamSynchronized" | "StreamChunk"));
    let seen: Vec<_> = seen.into_iter().map(|published| (published.id, published.json.to_string())).collect();
    assert_eq!((markers, seen), (1, rig.stored().await));
}

#[actix::test]
async fn a_message_sent_again_is_not_run_again_a8() {
    let rig = Rig::new(vec![text("hello")]).await;
    rig.send("r", "hi").await.unwrap();
    rig.send("r", "hi").await.unwrap();
    assert_eq!(rig.script.left(), 0);
    assert_eq!(rig.trace().await.matches("TC(").count(), 1);
}

#[actix::test]
async fn two_sends_at_once_run_one_after_the_other_c1() {
    let rig = Rig::new(vec![text("one"), text("two")]).await;
    let (one, two) = futures_util::join!(rig.send("r", "a"), rig.send("s", "b"));
    one.unwrap();
    two.unwrap();
    let trace = rig.trace().await;
    assert_eq!(trace.matches("TC()").count(), 2);
    assert!(trace.find("TC()").unwrap() < trace.rfind("MR(s)").unwrap(), "{trace}");
}

#[actix::test]
async fn deleting_a_session_tells_the_work_of_its_calls_to_stop_i7() {
    let rig = Rig::new(vec![calls(&[("c1", "hold", "a")])]).await;
    let delete = async {
        rig.tools.held.began.notified().await;
        let session_id = rig.session.session_id.clone();
        rig.engine.session_delete(&rig.workspace, gent_protocol::DeleteSession { session_id }).await.unwrap();
        rig.tools.held.told.notified().await;
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), delete);
    assert!(sent.is_err());
}

#[actix::test]
async fn messages_that_are_sent_one_after_the_other_keep_their_order() {
    let rig = Rig::new((0..8).map(|_| text("done")).collect()).await;
    let requests: Vec<String> = (0..8).map(|n| format!("r{n}")).collect();
    let sends = requests.iter().map(|request| rig.send(request, "hi"));
    futures_util::future::join_all(sends).await.into_iter().for_each(Result::unwrap);
    let trace = rig.trace().await;
    let places: Vec<usize> =
        requests.iter().map(|request| trace.find(&format!("MR({request})")).unwrap()).collect();
    assert!(places.is_sorted(), "{trace}");
}
