//! Owns the rows about events and cursors: what a subscriber sees, in which order, exactly once.

use anyhow::Result;
use futures_util::future::try_join_all;
use gent_e2e::harness::{OpenSession, Recorder};
use gent_e2e::scripted::Script;
use gent_protocol::{AgentEvent, EventEnvelope, EventSeq, SessionEvents};

use crate::offline;
use crate::world::open;

async fn marker(recorder: &Recorder) -> Result<(usize, EventEnvelope)> {
    let find = |events: &[EventEnvelope]| {
        let place = events.iter().position(|e| matches!(e.event, AgentEvent::StreamSynchronized { .. }))?;
        Some((place, events[place].clone()))
    };
    recorder.wait("the synchronize marker", find).await
}

/// The text that was told while it streamed; fails when a piece is missing or came twice. Its end may come with the
/// whole message alone.
fn told(events: &[EventEnvelope]) -> String {
    let chunks = events.iter().filter_map(|envelope| match &envelope.event {
        AgentEvent::StreamChunk { offset, chunk, .. } => Some((*offset, chunk)),
        _ => None,
    });
    chunks.fold(String::new(), |told, (offset, chunk)| {
        assert_eq!(offset as usize, told.len(), "after {} bytes", told.len());
        told + chunk
    })
}

fn ids(events: &[EventEnvelope]) -> Vec<i64> {
    let kept = events.iter().filter(|e| !matches!(e.event, AgentEvent::StreamSynchronized { .. }));
    kept.map(|envelope| envelope.id.0).collect()
}

fn is_ascending(ids: &[i64]) -> bool {
    ids.windows(2).all(|pair| pair[0] < pair[1])
}

#[tokio::test]
async fn a_subscriber_without_a_cursor_gets_history_then_the_marker_then_live_events_b1() -> Result<()> {
    let (_model, mut gent, session) = open(Script::new()).await?;
    // More than a batch of history: it is replayed in several.
    session.ask("TOOLS:20 FILE:nothing").await?;
    let late = session.record_from(None).await?;
    let (place, synchronized) = marker(&late).await?;
    assert!(place > 64, "{place}");
    assert_eq!(synchronized.id, late.events()[place - 1].id);
    let AgentEvent::StreamSynchronized { last_event_id, .. } = synchronized.event else { panic!() };
    assert_eq!(last_event_id, synchronized.id);
    let sent = session.send("TEXT:9")?;
    late.turn_completed(&sent.message).await?;
    gent.terminate()?;
    gent.wait().await?;
    let seen = late.events();
    assert!(is_ascending(&ids(&seen)), "{:?}", ids(&seen));
    assert!("tick".repeat(9).starts_with(&told(&seen)), "{}", told(&seen));
    assert_eq!(seen.iter().filter(|e| e.event.tag() == "StreamSynchronized").count(), 1);
    assert_eq!(late.lasting(), offline::stored_events(gent.place(), &session.id)?);
    Ok(())
}

#[tokio::test]
async fn a_cursor_with_nothing_after_it_gets_the_marker_with_that_cursor_b2() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("one")).await?;
    session.ask("first").await?;
    let last = session.snapshot().await?.last_event_id;
    let (place, synchronized) = marker(&session.record_from(Some(last)).await?).await?;
    assert_eq!((place, synchronized.id), (0, last));
    Ok(())
}

#[tokio::test]
async fn subscriptions_opened_while_events_are_appended_see_each_event_once_b3() -> Result<()> {
    let (model, mut gent, session) = open(Script::new()).await?;
    let sent = session.send("TEXT:2000 DELAYUS:200 HOLD:hold")?;
    model.gate("hold").reached(1).await?;
    let opening = try_join_all((0..8).map(|_| session.record_from(None)));
    model.gate("hold").open();
    let recorders = opening.await?;
    for recorder in &recorders {
        recorder.turn_completed(&sent.message).await?;
    }
    gent.terminate()?;
    gent.wait().await?;
    let stored = offline::stored_events(gent.place(), &session.id)?;
    for recorder in &recorders {
        let seen = recorder.events();
        assert!(is_ascending(&ids(&seen)), "{:?}", ids(&seen));
        assert!("tick".repeat(2000).starts_with(&told(&seen)), "{} bytes", told(&seen).len());
        assert_eq!(recorder.lasting(), stored);
    }
    Ok(())
}

#[tokio::test]
async fn resuming_from_the_marker_repeats_nothing_and_misses_nothing_b4() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("one").text("two")).await?;
    session.ask("first").await?;
    let before = session.record_from(None).await?;
    let (_, synchronized) = marker(&before).await?;
    let resumed = session.record_from(Some(synchronized.id)).await?;
    let sent = session.send("second")?;
    resumed.turn_completed(&sent.message).await?;
    session.turn(&sent.message).await?;
    let whole = |events: Vec<EventEnvelope>| {
        let kept = events.into_iter().filter(|e| e.event.tag() != "StreamChunk" && e.id > synchronized.id);
        ids(&kept.collect::<Vec<_>>())
    };
    assert_eq!(whole(resumed.events()), whole(session.events.events()));
    Ok(())
}

#[tokio::test]
async fn the_marker_stands_at_the_last_event_read_even_if_it_is_of_another_branch_b5() -> Result<()> {
    let (_model, mut gent, session) = open(Script::new().text("one")).await?;
    session.ask("first").await?;
    gent.terminate()?;
    gent.wait().await?;
    let foreign = offline::append_to_another_branch(gent.place(), &session.id).await?;
    let gent = gent.setup().clone().start().await?;
    let session = session.again(&gent).await?;
    let (_, synchronized) = marker(&session.record_from(None).await?).await?;
    assert_eq!(synchronized.id, foreign);
    Ok(())
}

#[tokio::test]
async fn a_synchronize_marker_is_never_stored_b7() -> Result<()> {
    let (_model, mut gent, session) = open(Script::new()).await?;
    gent.terminate()?;
    gent.wait().await?;
    let refusal = offline::append_marker(gent.place(), &session.id).await?;
    assert!(refusal.contains("marker"), "{refusal}");
    let gent = gent.setup().clone().start().await?;
    let (place, _) = marker(&session.again(&gent).await?.record_from(None).await?).await?;
    assert_eq!(place, 1);
    Ok(())
}

#[tokio::test]
async fn events_after_a_snapshot_are_those_the_snapshot_does_not_hold_b10() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("one").text("two")).await?;
    session.ask("first").await?;
    let snapshot = session.snapshot().await?;
    let sent = session.send("second")?;
    let after = session.record_from(Some(snapshot.last_event_id)).await?;
    after.turn_completed(&sent.message).await?;
    let known: Vec<_> = snapshot.messages.iter().map(|message| message.id.clone()).collect();
    let later = after.events().into_iter().filter_map(|envelope| match envelope.event {
        AgentEvent::MessageReceived { message } => Some(message.id),
        _ => None,
    });
    let later: Vec<_> = later.collect();
    assert!(later.iter().all(|id| !known.contains(id)));
    let all: Vec<_> = session.messages().await?.into_iter().map(|message| message.id).collect();
    assert_eq!([known, later].concat(), all);
    Ok(())
}

async fn cursor_error(session: &OpenSession, params: SessionEvents) -> Result<String> {
    let refused = match session.client.subscribe(params).await {
        Ok(mut stream) => stream.next().await.unwrap_err().to_string(),
        Err(gent_client::CallError::Rpc(error)) => error.tag().to_owned(),
        Err(other) => other.to_string(),
    };
    Ok(refused)
}

#[tokio::test]
async fn a_cursor_beyond_the_end_or_of_another_store_is_invalid() -> Result<()> {
    let (_model, _gent, session) = open(Script::new()).await?;
    let beyond = SessionEvents {
        session_id: session.id.clone(),
        branch_id: None,
        after: Some(EventSeq(9999)),
        store: None,
    };
    assert_eq!(cursor_error(&session, beyond.clone()).await?, "CursorInvalid");
    let foreign = SessionEvents { after: Some(EventSeq(1)), store: Some("another".parse()?), ..beyond };
    assert_eq!(cursor_error(&session, foreign).await?, "CursorInvalid");
    Ok(())
}
