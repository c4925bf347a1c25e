//! Owns what happens when everybody wants something of one branch at once: 500 sends, steers and stops, and how long a
//! stop takes while the branch's data lane is full.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;
use futures_util::future::{join_all, try_join_all};
use gent_client::{CallError, Client};
use gent_protocol::{CreatedSession, MessageId, RequestId, SendMessage, SteerCommand, SteerParams};
use serde_json::{Value, json};

use super::model::Model;
use super::{Figures, Options, milliseconds, world};
use crate::harness::{Gent, within};

/// Calls at once; a connection takes 256, so they come over three.
const AT_ONCE: usize = 500;
const CONNECTIONS: usize = 3;
/// Senders that keep the data lane full; it holds 64.
const SENDERS: usize = 128;
/// Stops that are timed, one after the other.
const STOPS: usize = 300;
const STOP_LIMIT_MS: f64 = 5.0;

fn send(of: &CreatedSession, text: &str) -> SendMessage {
    SendMessage {
        session_id: of.session_id.clone(),
        branch_id: of.branch_id.clone(),
        content: text.to_owned(),
        request_id: None,
        approval: None,
        env: Default::default(),
    }
}

/// A stop of a message that never was: it is stored like any other.
fn stop(of: &CreatedSession, name: &str) -> Result<SteerParams> {
    let command = SteerCommand::Cancel {
        session_id: of.session_id.clone(),
        branch_id: of.branch_id.clone(),
        request_id: RequestId::parse(name)?,
        message_id: Some(MessageId::parse(format!("message:{name}"))?),
    };
    Ok(SteerParams { command })
}

fn steer(of: &CreatedSession, name: &str) -> Result<SteerParams> {
    let command = SteerCommand::Interject {
        session_id: of.session_id.clone(),
        branch_id: of.branch_id.clone(),
        request_id: RequestId::parse(name)?,
        message: "and this".into(),
        metadata: None,
        wake: false,
    };
    Ok(SteerParams { command })
}

/// What a call came to, in one word.
fn word(result: Result<gent_protocol::Done, CallError>) -> String {
    match result {
        Ok(_) => "done".to_owned(),
        Err(CallError::Rpc(error)) => error.tag().to_owned(),
        Err(error) => error.to_string(),
    }
}

async fn busy_session(gent: &Gent, client: &Client, hold: &str) -> Result<CreatedSession> {
    let created = client.call(gent.create()?).await?;
    client.call(send(&created, &format!("TEXT:5 HOLD:{hold}"))).await?;
    Ok(created)
}

/// 500 sends, steers and stops at once: each has one answer, and nothing hangs.
async fn storm(gent: &Gent) -> Result<BTreeMap<String, usize>> {
    let place = gent.place().workspace();
    let clients = try_join_all((0..CONNECTIONS).map(|_| gent.client_of(&place))).await?;
    let opener = gent.client_of(&place).await?;
    let of = busy_session(gent, &opener, "storm").await?;
    let calls = clients.iter().cycle().take(AT_ONCE).enumerate().map(|(number, client)| {
        let of = &of;
        async move {
            let name = format!("n{number}");
            let result = match number % 3 {
                0 => client.call(send(of, "TEXT:1")).await,
                1 => client.call(steer(of, &name)?).await,
                _ => client.call(stop(of, &name)?).await,
            };
            anyhow::Ok(word(result))
        }
    });
    let mut words = BTreeMap::new();
    for word in within("an answer for each call", async { Ok(join_all(calls).await) }).await? {
        *words.entry(word?).or_insert(0) += 1;
    }
    Ok(words)
}

/// Stops, one after the other, while the data lane of their branch is full.
async fn stops(gent: &Gent) -> Result<Figures> {
    let place = gent.place().workspace();
    let (senders, stopper) = (gent.client_of(&place).await?, gent.client_of(&place).await?);
    let of = busy_session(gent, &senders, "stops").await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let flood = (0..SENDERS).map(|_| {
        let (client, of, is_over) = (senders.clone(), of.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                drop(client.call(send(&of, "TEXT:1")).await);
            }
        })
    });
    let flood: Vec<_> = flood.collect();
    let mut times = Vec::with_capacity(STOPS);
    for number in 0..STOPS {
        let order = stop(&of, &format!("s{number}"))?;
        #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
        let begin = Instant::now();
        stopper.call(order).await?;
        times.push(milliseconds(begin.elapsed()));
    }
    is_over.store(true, Ordering::Relaxed);
    join_all(flood).await;
    Ok(times.into_iter().collect())
}

/// Everybody at one branch.
pub(crate) async fn pressure(options: &Options) -> Result<Value> {
    let model = Model::of(options)?;
    let gent = world::start(world::setup(options, &model)?).await?;
    let words = storm(&gent).await?;
    let is_known = |word: &&String| !matches!(word.as_str(), "done" | "Busy" | "LimitExceeded");
    let strange: Vec<&String> = words.keys().filter(is_known).collect();
    let times = stops(&gent).await?;
    Ok(json!({
        "callsAtOnce": AT_ONCE,
        "answers": words,
        "stopMs": times.json(),
        "stopLimitMs": STOP_LIMIT_MS,
        "holds": strange.is_empty() && times.percentile(99) < STOP_LIMIT_MS,
    }))
}
