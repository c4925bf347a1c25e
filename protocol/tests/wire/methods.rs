//! Owns the goldens of every method: its parameters and its result, each with all fields.

use std::collections::BTreeMap;
use std::fmt::Debug;

use gent_protocol::{
    ActorRow, ActorState, AgentName, Approval, Branch, BranchCounts, Call, ContextGauge, CreateSession,
    CreatedSession, DatabaseKind, DatabaseStatus, DeleteSession, Done, DrainQueue, EventEnvelope, EventSeq,
    GetActor, GetQueue, GetSession, GetSnapshot, Hello, HelloReply, LaneDepth, Limits, ListActors,
    ListBranches, ListMessages, ListModels, ListSessions, MessageMetadata, Millis, Model, OfferCredentials,
    OfferedCredentials, OpenQuestion, PROTOCOL, Page, PageParams, Pricing, ProviderId, Question,
    QuestionDecision, QueueSnapshot, ReasoningEffort, RespondInteraction, Retire, Retired, RuntimeMetrics,
    RuntimeState, Secret, SendMessage, ServerStatus, Session, SessionAdmission, SessionEvents,
    SessionSnapshot, Status, SteerCommand, SteerParams, StreamCall, StreamingText, UpdateSettings,
    UpdatedSettings, WriterStatus,
};

use crate::golden::{Case, case};
use crate::samples as s;

const AT: Millis = Millis(1_700_000_000_000);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = server_methods();
    cases.extend(session_methods());
    cases.extend(turn_methods());
    cases.push(case("steer.interject", interject()));
    cases.push(case("method.session.get.result.absent", None::<Session>));
    cases.push(case("page.empty", Page::<Branch>::whole(vec![])));
    cases.push(case("snapshot.bare", bare_snapshot()));
    cases.push(case(
        "update-settings.keep-and-clear",
        UpdateSettings { session_id: s::session(), model_id: Some(None), reasoning_level: None },
    ));
    cases
}

fn call<C>(params: C, reply: C::Reply) -> [Case; 2]
where
    C: Call + PartialEq + Debug,
    C::Reply: PartialEq + Debug,
{
    let name = C::METHOD.name();
    [case(format!("method.{name}.params"), params), case(format!("method.{name}.result"), reply)]
}

fn server_methods() -> Vec<Case> {
    let limits = Limits {
        frame_bytes: 16 << 20,
        fragments: 1000,
        requests_in_flight: 256,
        subscriptions: 64,
        follow_ups: 10,
    };
    let hello = Hello { client: "gent".into(), version: "0.1.0".into(), protocol: PROTOCOL };
    let greeting = HelloReply {
        server: "gent".into(),
        version: "0.1.0".into(),
        protocol: PROTOCOL,
        limits,
        store: s::store(),
    };
    let offered = OfferedCredentials { accepted: vec!["OPENAI_API_KEY".into()], ignored: vec!["X".into()] };
    let variables = BTreeMap::from([("OPENAI_API_KEY".to_owned(), Secret::new("sk-test"))]);
    [
        call(hello, greeting),
        call(Status {}, status()),
        call(Retire {}, Retired { running: 2, within_ms: Millis(60_000) }),
        call(OfferCredentials { variables }, offered),
        call(ListModels { page: page() }, Page { items: vec![model()], next: Some("c2".into()) }),
        call(ListActors { page: page() }, Page { items: vec![actor()], next: Some("c2".into()) }),
        call(GetActor { session_id: s::session(), branch_id: s::branch() }, actor()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn session_methods() -> Vec<Case> {
    let create = CreateSession {
        name: Some("a name".into()),
        cwd: Some("/repo".into()),
        initial_prompt: Some("hello".into()),
        admission: Some(SessionAdmission { agent: Some(AgentName::parse("main").unwrap()) }),
        model_id: Some(s::model()),
        reasoning_level: Some(ReasoningEffort::Low),
        approval: Some(Approval::Approve),
        env: BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]),
        request_id: Some(s::request()),
    };
    let created = CreatedSession { session_id: s::session(), branch_id: s::branch(), name: "a name".into() };
    let update = UpdateSettings {
        session_id: s::session(),
        model_id: Some(Some(s::model())),
        reasoning_level: Some(Some(ReasoningEffort::High)),
    };
    let updated =
        UpdatedSettings { model_id: Some(s::model()), reasoning_level: Some(ReasoningEffort::High) };
    let get = GetSnapshot { session_id: s::session(), branch_id: s::branch(), before: Some("40".into()) };
    let mut cases: Vec<Case> = [
        call(create, created),
        call(ListSessions { page: page() }, Page { items: vec![session()], next: Some("c2".into()) }),
        call(GetSession { session_id: s::session() }, Some(session())),
        call(update, updated),
        call(get, snapshot()),
        call(DeleteSession { session_id: s::session() }, Done {}),
        call(ListBranches { session_id: s::session(), page: page() }, Page::whole(vec![branch()])),
    ]
    .into_iter()
    .flatten()
    .collect();
    let subscribe = SessionEvents {
        session_id: s::session(),
        branch_id: Some(s::branch()),
        after: Some(EventSeq(6)),
        store: Some(s::store()),
    };
    let name = <SessionEvents as StreamCall>::METHOD.name();
    let event =
        gent_protocol::AgentEvent::SessionStarted { session_id: s::session(), branch_id: s::branch() };
    let item = EventEnvelope {
        id: EventSeq(1),
        session_id: s::session(),
        branch_id: Some(s::branch()),
        created_at: AT,
        event,
        trace_id: None,
    };
    cases.push(case(format!("method.{name}.params"), subscribe));
    cases.push(case(format!("method.{name}.result"), item));
    cases
}

fn turn_methods() -> Vec<Case> {
    let send = SendMessage {
        session_id: s::session(),
        branch_id: s::branch(),
        content: "hello".into(),
        request_id: Some(s::request()),
        approval: Some(Approval::Approve),
        env: BTreeMap::from([("TZ".to_owned(), "UTC".to_owned())]),
    };
    let cancel = SteerCommand::Cancel {
        session_id: s::session(),
        branch_id: s::branch(),
        request_id: s::request(),
        message_id: Some(s::turn()),
    };
    let respond = RespondInteraction {
        request_id: s::question(),
        session_id: s::session(),
        branch_id: s::branch(),
        decision: QuestionDecision {
            approved: true,
            notes: Some("once".into()),
            edited_content: Some("b".into()),
        },
    };
    [
        call(send, Done {}),
        call(ListMessages { branch_id: s::branch(), page: page() }, Page::whole(vec![s::message()])),
        call(SteerParams { command: cancel }, Done {}),
        call(GetQueue { session_id: s::session(), branch_id: s::branch() }, QueueSnapshot::default()),
        call(
            DrainQueue { session_id: s::session(), branch_id: s::branch(), request_id: s::request() },
            QueueSnapshot::default(),
        ),
        call(respond, Done {}),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn interject() -> SteerParams {
    SteerParams {
        command: SteerCommand::Interject {
            session_id: s::session(),
            branch_id: s::branch(),
            request_id: s::request(),
            message: "rather the other file".into(),
            metadata: Some(MessageMetadata { hidden: true, ..MessageMetadata::default() }),
            wake: true,
        },
    }
}

fn page() -> PageParams {
    PageParams { limit: Some(20), cursor: Some("c1".into()) }
}

fn status() -> ServerStatus {
    let database = DatabaseStatus {
        kind: DatabaseKind::Sqlite,
        path: Some("/d/data.db".into()),
        synchronous: "normal".into(),
    };
    ServerStatus {
        version: "0.1.0".into(),
        protocol: PROTOCOL,
        pid: 42,
        uptime_ms: Millis(5000),
        data_dir: "/d".into(),
        database,
        connections: 3,
        branches: BranchCounts { resident: 4, running: 1, waiting: 1, faulted: 1 },
        dead_letters: 2,
        writer: WriterStatus { queued: 1, group_ms: 0.5 },
        draining: true,
    }
}

fn model() -> Model {
    Model {
        id: s::model(),
        name: "Test".into(),
        provider: ProviderId::parse("openai").unwrap(),
        context_length: Some(128_000),
        input_limit: Some(100_000),
        output_limit: Some(16_384),
        pricing: Some(Pricing { input: 1.25, output: 10.0, cache_read: Some(0.125), cache_write: Some(1.5) }),
        release_date: Some("2025-01-31".into()),
        reasoning: Some(true),
    }
}

fn actor() -> ActorRow {
    ActorRow {
        workspace_id: s::workspace(),
        session_id: s::session(),
        branch_id: s::branch(),
        state: ActorState::Drained,
        since_ms: Millis(10),
        generation: 2,
        epoch: 3,
        holds: vec!["turn".into()],
        lanes: LaneDepth { control: 1, data: 2 },
        restarts: 1,
        attempts: Some(2),
        waiting_for: Some("credential".into()),
        last_error: Some("the tool panicked".into()),
    }
}

fn session() -> Session {
    Session {
        id: s::session(),
        name: Some("a name".into()),
        cwd: Some("/repo".into()),
        model_id: Some(s::model()),
        reasoning_level: Some(ReasoningEffort::Medium),
        active_branch_id: Some(s::branch()),
        parent_session_id: Some(s::session()),
        parent_branch_id: Some(s::branch()),
        thread_id: Some(s::session()),
        admission: Some(SessionAdmission { agent: None }),
        approval: Approval::Approve,
        created_at: AT,
        updated_at: AT,
    }
}

fn branch() -> Branch {
    Branch {
        id: s::branch(),
        session_id: s::session(),
        parent_branch_id: Some(s::branch()),
        parent_message_id: Some(s::turn()),
        name: Some("main".into()),
        created_at: AT,
    }
}

fn bare_snapshot() -> SessionSnapshot {
    SessionSnapshot {
        session_id: s::session(),
        branch_id: s::branch(),
        name: None,
        messages: vec![],
        truncated: false,
        before: None,
        last_event_id: EventSeq(1),
        store: s::store(),
        model_id: None,
        reasoning_level: None,
        agent: AgentName::parse("main").unwrap(),
        resolved_model_id: None,
        resolved_model_reason: "no key and no local server was found".into(),
        runtime: RuntimeState::Idle { queue: QueueSnapshot::default() },
        metrics: RuntimeMetrics::default(),
        streaming: None,
        question: None,
    }
}

fn snapshot() -> SessionSnapshot {
    let streaming =
        StreamingText { message_id: s::turn(), step: 2, run: s::run(), text: "so".into(), offset: 2 };
    let context = ContextGauge {
        estimated_tokens: 400,
        available_input_tokens: 110_000,
        context_limit_tokens: 128_000,
        omitted_messages: 1,
        handoff_message_id: Some(s::assistant()),
        compactions: 1,
    };
    let metrics = RuntimeMetrics {
        turns: 3,
        duration_ms: Millis(9000),
        cost_usd: 0.5,
        last_input_tokens: 1200,
        context: Some(context),
    };
    SessionSnapshot {
        name: Some("a name".into()),
        messages: vec![s::message()],
        truncated: true,
        before: Some("40".into()),
        model_id: Some(s::model()),
        reasoning_level: Some(ReasoningEffort::Low),
        resolved_model_id: Some(s::model()),
        resolved_model_reason: "the session is set to it".into(),
        metrics,
        streaming: Some(streaming),
        question: Some(OpenQuestion {
            request_id: s::question(),
            question: Question { text: "run it?".into(), metadata: Some(serde_json::json!({ "a": 1 })) },
        }),
        ..bare_snapshot()
    }
}
