//! Owns what extensions are told of a turn that has ended, when, and what they may do then.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{
    Context, Extension, FollowUp, Hook, Notice, SessionError, TurnAfterHandler, TurnAfterInput,
    TurnProjection, TurnProjectionHandler, TurnProjectionInput,
};
use gent_protocol::{BranchId, SessionId, WorkspaceId, follow_up_message_id};

use crate::asker::{Extra, rest};
use crate::rig::{Gate, Rig, Setup, text};

/// A handler that remembers what it was told. Clones share it; it outlives its engine.
#[derive(Clone, Default)]
pub(crate) struct Told {
    turns: Arc<Mutex<Vec<TurnAfterInput>>>,
    /// Where it stands after it was told; none: nowhere.
    gate: Option<Gate>,
}

impl Told {
    fn at(gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..Self::default() }
    }

    /// The turns it was told of, in order.
    pub(crate) fn turns(&self) -> Vec<TurnAfterInput> {
        self.turns.lock().unwrap().clone()
    }

    /// Their opening messages.
    fn messages(&self) -> Vec<String> {
        self.turns().iter().map(|turn| turn.message_id.to_string()).collect()
    }

    pub(crate) fn hook(&self) -> Hook {
        Hook::TurnAfter(Arc::new(self.clone()))
    }
}

impl TurnAfterHandler for Told {
    fn turn_after<'a>(&'a self, _: Context, input: TurnAfterInput) -> BoxFuture<'a, Result<(), String>> {
        async move {
            self.turns.lock().unwrap().push(input);
            if let Some(gate) = &self.gate {
                gate.pass().await;
            }
            Ok(())
        }
        .boxed()
    }
}

#[actix::test]
async fn a_death_behind_the_receipt_brings_neither_a_second_one_nor_its_hooks_g2() {
    let gate = Gate::default();
    let (first, second) = (Told::at(&gate), Told::default());
    let more = Extra::new().hook(first.hook()).hook(second.hook()).alone();
    let mut rig = Rig::of(Setup { more, ..Setup::still(vec![text("one"), text("two")]) }).await;
    rig.begin("r");
    gate.reached().await;
    rig.begin("s");
    rest().await;
    assert_eq!(rig.script.n_asked(), 1, "the next turn begins after the hooks");
    rig.restart().await;
    gate.open();
    rig.engine.resume(true);
    rig.ended(2).await;
    rest().await;
    assert_eq!(second.messages(), ["message:s"], "of the turn before the death nobody is told any more");
    assert_eq!(first.messages(), ["message:r", "message:s"]);
    let trace = rig.trace().await;
    assert!(trace.ends_with("MR(r:assistant:1) TC() MR(s) MCP SS1 SE1(Answered) MR(s:assistant:1) TC()"));
}

/// A verb on the own branch, when a turn has ended.
type Verb = fn(Context) -> BoxFuture<'static, Result<(), SessionError>>;

/// A handler that does so, and what came of it each time. Clones share it.
#[derive(Clone)]
struct Acts {
    verb: Verb,
    came_of: Arc<Mutex<Vec<Result<(), String>>>>,
}

impl Acts {
    fn with(verb: Verb) -> Self {
        Self { verb, came_of: Arc::default() }
    }

    fn came_of(&self) -> Vec<Result<(), String>> {
        self.came_of.lock().unwrap().clone()
    }

    fn alone(&self) -> Vec<Arc<dyn Extension>> {
        Extra::new().hook(Hook::TurnAfter(Arc::new(self.clone()))).alone()
    }
}

impl TurnAfterHandler for Acts {
    fn turn_after<'a>(&'a self, context: Context, _: TurnAfterInput) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let came = (self.verb)(context).await.map_err(|error| error.to_string());
            self.came_of.lock().unwrap().push(came);
            Ok(())
        }
        .boxed()
    }
}

fn queue_review(context: Context) -> BoxFuture<'static, Result<(), SessionError>> {
    async move {
        let follow_up = FollowUp {
            source_id: "review".into(),
            content: "look again".into(),
            custom_type: None,
            hidden: false,
            wake: true,
        };
        context.session().follow_up(None, follow_up).await.map(drop)
    }
    .boxed()
}

#[actix::test]
async fn a_hook_that_queues_a_follow_up_of_one_source_brings_one_more_turn_g16() {
    let (acts, script) = (Acts::with(queue_review), vec![text("a"), text("b"), text("c")]);
    let rig = Rig::of(Setup { more: acts.alone(), ..Setup::still(script) }).await;
    rig.send("r", "hi").await.unwrap();
    rig.ended(2).await;
    rest().await;
    rig.send("s", "hi").await.unwrap();
    rest().await;
    let (workspace, session): (&WorkspaceId, &SessionId) = (&rig.workspace, &rig.session.session_id);
    let branch: &BranchId = &rig.session.branch_id;
    let review = follow_up_message_id(workspace, session, branch, "review");
    let messages = rig.snapshot().await.messages;
    let opening = messages.iter().filter(|message| message.turn_duration_ms.is_some());
    let opening: Vec<&str> = opening.map(|message| message.id.as_str()).collect();
    assert_eq!(opening, ["message:r", review.as_str(), "message:s"]);
    assert!(rig.queue().await.follow_up.is_empty());
    assert_eq!(acts.came_of(), [Ok(()), Ok(()), Ok(())]);
}

fn stop(context: Context) -> BoxFuture<'static, Result<(), SessionError>> {
    async move { context.session().stop(None).await }.boxed()
}

#[actix::test]
async fn a_hook_that_stops_its_own_branch_stops_nothing_and_blocks_nothing_g17() {
    let (acts, script) = (Acts::with(stop), vec![text("a"), text("b")]);
    let rig = Rig::of(Setup { more: acts.alone(), ..Setup::still(script) }).await;
    let (one, two) = futures_util::join!(rig.send("r", "hi"), rig.send("s", "hi"));
    one.unwrap();
    two.unwrap();
    rest().await;
    assert_eq!(acts.came_of(), [Ok(()), Ok(())]);
    assert!(rig.trace().await.ends_with("TC() MR(s) MCP SS1 SE1(Answered) MR(s:assistant:1) TC()"));
}

/// Shows notices until they were read. Clones share it; it outlives its engine.
#[derive(Clone, Default)]
struct Notices {
    unread: Arc<Mutex<Vec<&'static str>>>,
    read: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Notices {
    fn add(&self, key: &'static str) {
        self.unread.lock().unwrap().push(key);
    }

    /// The keys that each turn came back with.
    fn read(&self) -> Vec<Vec<String>> {
        self.read.lock().unwrap().clone()
    }

    fn alone(&self) -> Vec<Arc<dyn Extension>> {
        let (shows, hears) = (Arc::new(self.clone()), Arc::new(self.clone()));
        Extra::new().hook(Hook::TurnProjection(shows)).hook(Hook::TurnAfter(hears)).alone()
    }
}

impl TurnProjectionHandler for Notices {
    fn project<'a>(
        &'a self,
        _: Context,
        _: TurnProjectionInput,
    ) -> BoxFuture<'a, Result<TurnProjection, String>> {
        let notice = |key: &&str| Notice {
            id: format!("of-{key}"),
            content: format!("<{key}>"),
            keys: vec![(*key).to_owned()],
        };
        let notices = self.unread.lock().unwrap().iter().map(notice).collect();
        async move { Ok(TurnProjection { notices, ..TurnProjection::default() }) }.boxed()
    }
}

impl TurnAfterHandler for Notices {
    fn turn_after<'a>(&'a self, _: Context, input: TurnAfterInput) -> BoxFuture<'a, Result<(), String>> {
        self.unread.lock().unwrap().retain(|key| !input.read_notices.iter().any(|read| read == key));
        self.read.lock().unwrap().push(input.read_notices);
        futures_util::future::ready(Ok(())).boxed()
    }
}

/// An engine whose turns show the notice `job`.
async fn with_a_notice(script: Vec<crate::rig::Answer>) -> (Rig, Notices) {
    let notices = Notices::default();
    notices.add("job");
    let rig = Rig::of(Setup { more: notices.alone(), ..Setup::still(script) }).await;
    (rig, notices)
}

fn shows(rig: &Rig, request: usize, key: &str) -> bool {
    rig.script.request(request).notice.is_some_and(|notice| notice.contains(&format!("<{key}>")))
}

#[actix::test]
async fn a_notice_counts_as_read_once_a_turn_that_showed_it_was_answered_g18() {
    let (rig, notices) = with_a_notice(vec![text("cut"), text("done"), text("more")]).await;
    let cut = rig.script.hold(0, 0);
    rig.begin("r");
    cut.reached().await;
    rig.cancel().await;
    rig.ended(1).await;
    rig.send("s", "hi").await.unwrap();
    rig.send("t", "hi").await.unwrap();
    rest().await;
    assert_eq!((0..3).map(|n| shows(&rig, n, "job")).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(notices.read(), [vec![], vec!["job".to_owned()], vec![]]);
}

#[actix::test]
async fn a_notice_that_came_while_the_turn_ran_was_not_read_by_it_g19() {
    let (rig, notices) = with_a_notice(vec![text("done"), text("more")]).await;
    let held = rig.script.hold(0, 0);
    rig.begin("r");
    held.reached().await;
    notices.add("later");
    held.open();
    rig.ended(1).await;
    rig.send("s", "hi").await.unwrap();
    rest().await;
    assert!(!shows(&rig, 0, "later") && shows(&rig, 1, "later"));
    assert_eq!(notices.read(), [vec!["job".to_owned()], vec!["later".to_owned()]]);
}

/// Ends the engine as soon as an answer is stored, before its receipt is.
async fn dies_behind_the_answer(rig: &mut Rig) {
    let (mut stream, store) = (rig.subscribe().await, rig.store.clone());
    actix::spawn(async move {
        while !stream.next_batch().await.unwrap().unwrap().iter().any(|event| event.tag == "StreamEnded") {}
        store.close();
    });
    rig.begin("r");
    rest().await;
    rig.restart().await;
    assert!(rig.trace().await.ends_with("SE1(Answered) MR(r:assistant:1)"));
}

#[actix::test]
async fn a_notice_that_came_after_a_death_was_not_read_by_the_answer_before_it_g19() {
    let (mut rig, notices) = with_a_notice(vec![text("done"), text("more")]).await;
    dies_behind_the_answer(&mut rig).await;
    notices.add("later");
    rig.engine.resume(true);
    rig.ended(1).await;
    rest().await;
    assert_eq!((notices.read(), rig.script.n_asked()), (vec![vec![]], 1));
}
