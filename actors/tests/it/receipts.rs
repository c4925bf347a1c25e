//! Owns how turns end that were cut, started again or bounded: with the right flags and with sums that do not lie.

use std::time::Duration;

use gent_extension_api::{AgentDefinition, FailureKind, FinishReason, ProviderFailure, StreamPart};
use gent_protocol::{AgentEvent, AgentName, CreateSession, SessionAdmission, Usage};

use crate::asker::{Extra, rest};
use crate::hooks::Told;
use crate::rig::{Answer, Rig, Setup, calls, text};

/// An answer that the output cap cut.
fn cut(text: &str) -> Answer {
    Ok(vec![
        Ok(StreamPart::Text { text: text.into() }),
        Ok(StreamPart::Finish { reason: FinishReason::Length }),
    ])
}

const USAGE: Usage =
    Usage { input_tokens: 10, output_tokens: 5, cache_read_tokens: None, cache_write_tokens: None };

/// What the provider counted, in front of an answer.
fn counted(answer: Answer) -> Answer {
    answer.map(|mut parts| {
        parts.insert(0, Ok(StreamPart::Usage(USAGE)));
        parts
    })
}

fn fails() -> Answer {
    Err(ProviderFailure::new(FailureKind::Transient, "the line broke"))
}

/// The usage in the receipts so far.
async fn usages(rig: &Rig) -> Vec<Option<Usage>> {
    let usage = |event: AgentEvent| match event {
        AgentEvent::TurnCompleted { usage, .. } => Some(usage),
        _ => None,
    };
    rig.events().await.into_iter().filter_map(usage).collect()
}

#[actix::test]
async fn a_cut_answer_is_carried_on_twice_and_then_stands_as_it_is_g9() {
    let rig = Rig::still(vec![cut("one "), cut("two "), cut("three")]).await;
    rig.send("r", "hi").await.unwrap();
    assert_eq!(
        rig.trace().await,
        "SessionStarted MR(r) MCP SS1 SE1(Answered) MR(r:assistant:1) MR(r:continuation:1) \
         MCP SS2 SE2(Answered) MR(r:assistant:2) MR(r:continuation:2) \
         MCP SS3 SE3(Answered) MR(r:assistant:3) TC()"
    );
    assert!(rig.script.read(1).last().unwrap().contains("smaller steps"), "{:?}", rig.script.read(1));
}

#[actix::test]
async fn a_cut_answer_without_words_is_in_the_end_unanswered_g9() {
    let rig = Rig::still(vec![cut(""), cut(""), cut("")]).await;
    rig.send("r", "hi").await.unwrap();
    assert!(rig.trace().await.ends_with("SS3 SE3(Answered) TC(unanswered)"));
}

#[actix::test]
async fn a_turn_that_a_death_cut_leaves_no_usage_and_tells_what_is_known_g13() {
    let script = vec![
        counted(calls(&[("c1", "echo", "a")])),
        counted(text("cut")),
        counted(text("done")),
        counted(text("whole")),
    ];
    let told = Told::default();
    let mut rig =
        Rig::of(Setup { more: Extra::new().hook(told.hook()).alone(), ..Setup::still(script) }).await;
    let second = rig.script.hold(1, 0);
    rig.begin("r");
    second.reached().await;
    rig.restart().await;
    rig.engine.resume(true);
    rig.ended(1).await;
    assert!(rig.trace().await.ends_with("MCP SS2 MCP SS2 SE2(Answered) MR(r:assistant:2) TC()"));
    rig.send("s", "again").await.unwrap();
    assert_eq!(usages(&rig).await, [None, Some(USAGE)]);
    rest().await;
    let known: Vec<_> = told.turns().iter().map(|turn| (turn.usage.known, turn.usage.complete)).collect();
    let twice = Usage { input_tokens: 20, output_tokens: 10, ..USAGE };
    assert_eq!(known, [(twice, false), (USAGE, true)]);
}

/// An engine whose session has an agent that may make two requests a turn.
async fn with_two_attempts(script: Vec<Answer>) -> Rig {
    let name = AgentName::parse("short").unwrap();
    let agent = AgentDefinition { max_model_attempts: Some(2), ..AgentDefinition::new(name.clone()) };
    let more = Extra::new().agent(agent).alone();
    let retry_wait = Duration::from_secs(1);
    let mut rig = Rig::of(Setup { more, retry_wait, ..Setup::still(script) }).await;
    under(&mut rig, name).await;
    rig
}

/// Goes on in a session with this agent.
async fn under(rig: &mut Rig, agent: AgentName) {
    let admission = Some(SessionAdmission { agent: Some(agent) });
    let create = CreateSession { cwd: Some("/".into()), admission, ..CreateSession::default() };
    rig.session = rig.engine.session_create(&rig.workspace, create).await.unwrap();
}

const EXHAUSTED: &str = "SE1(Failed) Error(model attempt budget exhausted: the turn may make no further \
                         request) TC(failed)";

#[actix::test]
async fn a_turn_makes_as_many_requests_as_its_agent_allows_retries_included_g14() {
    let rig = with_two_attempts(vec![fails(), fails(), text("next"), text("more")]).await;
    rig.send("r", "hi").await.unwrap();
    let trace = rig.trace().await;
    assert_eq!(trace, format!("SessionStarted MR(r) MCP SS1 Retry(1) Retry(2) {EXHAUSTED}"));
    // Each turn has its own.
    rig.send("s", "hi").await.unwrap();
    assert!(rig.trace().await.ends_with("MR(s) MCP SS1 SE1(Answered) MR(s:assistant:1) TC()"));
    assert_eq!(rig.script.n_asked(), 3);
}

#[actix::test]
async fn the_requests_of_a_turn_are_counted_over_a_death_g14() {
    let mut rig = with_two_attempts(vec![fails(), text("cut"), text("never asked for")]).await;
    let second = rig.script.hold(1, 0);
    rig.begin("r");
    second.reached().await;
    rig.restart().await;
    rig.engine.resume(true);
    rig.ended(1).await;
    let trace = rig.trace().await;
    assert_eq!(trace, format!("SessionStarted MR(r) MCP SS1 Retry(1) MCP SS1 {EXHAUSTED}"));
    assert_eq!(rig.script.n_asked(), 2);
}

#[actix::test]
async fn a_turn_whose_agent_is_gone_is_unanswered_and_says_so_g15() {
    let other = AgentName::parse("other").unwrap();
    let more = Extra::new().agent(AgentDefinition::new(other.clone())).alone();
    let mut rig = Rig::of(Setup { more, ..Setup::still(vec![text("back")]) }).await;
    under(&mut rig, other.clone()).await;
    let more = std::mem::take(&mut rig.setup.more);
    rig.restart().await;
    rig.send("r", "hi").await.unwrap();
    assert_eq!(
        rig.trace().await,
        "SessionStarted MR(r) Error(unknown agent other: no extension provides it) TC(unanswered)"
    );
    rig.setup.more = more;
    rig.restart().await;
    rig.send("s", "again").await.unwrap();
    assert!(rig.trace().await.ends_with("MR(s) MCP SS1 SE1(Answered) MR(s:assistant:1) TC()"));
}
