//! Owns what happens under load: many sessions at once, many subscribers of one.

use std::time::Instant;

use anyhow::Result;
use futures_util::future::try_join_all;
use gent_client::Subscription;
use gent_protocol::{EventEnvelope, SendMessage, SessionEvents};
use serde_json::{Value, json};

use super::model::Model;
use super::{Figures, Options, milliseconds, world};
use crate::harness::{Gent, cpu_nanos, within};

const SESSIONS: usize = 50;
const TOOL_ROUNDS: usize = 10;
const SUBSCRIBERS: usize = 20;

/// 50 sessions, `TOOLS:10` each, at once: rounds a second, all 550 counted.
pub(crate) async fn throughput(options: &Options) -> Result<Value> {
    let model = Model::of(options)?;
    let gent = world::start(world::setup(options, &model)?).await?;
    let file = world::files(&gent, TOOL_ROUNDS, 2000)?;
    let client = gent.client().await?;
    let mut rates = Vec::new();
    for run in 0..options.runs {
        let created =
            try_join_all((0..SESSIONS).map(|_| async { anyhow::Ok(client.call(gent.create()?).await?) }))
                .await?;
        #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
        let begin = Instant::now();
        let turns = created.iter().enumerate().map(|(number, session)| {
            client.call(SendMessage {
                session_id: session.session_id.clone(),
                branch_id: session.branch_id.clone(),
                content: format!("TOOLS:{TOOL_ROUNDS} {file} ID:t{run}x{number}"),
                request_id: session.session_id.as_str().parse().ok(),
                approval: None,
                env: Default::default(),
            })
        });
        within("all turns", async { Ok(try_join_all(turns).await?) }).await?;
        let rounds = SESSIONS * (TOOL_ROUNDS + 1);
        rates.push(rounds as f64 / begin.elapsed().as_secs_f64());
    }
    let rates: Figures = rates.into_iter().collect();
    Ok(json!({ "roundsPerSecond": rates.json(), "limit": 150, "holds": rates.median() > 150.0 }))
}

/// Reads until the turn's end: when it came, and how many deltas came before.
async fn follow(mut events: Subscription<EventEnvelope>, begin: Instant) -> Result<(f64, usize)> {
    let mut deltas = 0;
    within("the end of the turn at a subscriber", async {
        loop {
            let raw = events.next_raw().await?;
            if raw.get().contains("\"_tag\":\"StreamChunk\"") {
                deltas += 1;
            } else if raw.get().contains("\"_tag\":\"TurnCompleted\"") {
                return Ok((milliseconds(begin.elapsed()), deltas));
            }
        }
    })
    .await
}

/// What one turn with subscribers gave.
struct FanOut {
    last_ms: f64,
    fewest_deltas: usize,
    cpu_ms: f64,
}

/// One turn of 5,000 deltas for `count` subscribers, each on a connection of its own.
async fn one_fan_out(gent: &Gent, count: usize, prompt: &str) -> Result<FanOut> {
    let client = gent.client().await?;
    let created = client.call(gent.create()?).await?;
    let subscriptions = try_join_all((0..count).map(|_| async {
        let from = SessionEvents {
            session_id: created.session_id.clone(),
            branch_id: None,
            after: None,
            store: None,
        };
        anyhow::Ok(gent.client_of(&gent.place().workspace()).await?.subscribe(from).await?)
    }))
    .await?;
    let cpu = cpu_nanos(gent.pid)?;
    #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
    let begin = Instant::now();
    let readers = subscriptions.into_iter().map(|events| tokio::spawn(follow(events, begin)));
    let readers = try_join_all(readers.collect::<Vec<_>>());
    let send = SendMessage {
        session_id: created.session_id.clone(),
        branch_id: created.branch_id.clone(),
        content: prompt.to_owned(),
        request_id: created.session_id.as_str().parse().ok(),
        approval: None,
        env: Default::default(),
    };
    client.call(send).await?;
    let mut result = FanOut { last_ms: 0.0, fewest_deltas: usize::MAX, cpu_ms: 0.0 };
    for reader in readers.await? {
        let (time, deltas) = reader?;
        result.last_ms = result.last_ms.max(time);
        result.fewest_deltas = result.fewest_deltas.min(deltas);
    }
    result.cpu_ms = (cpu_nanos(gent.pid)? - cpu) as f64 / 1e6;
    Ok(result)
}

async fn repeated(
    options: &Options,
    gent: &Gent,
    count: usize,
    prompt: &str,
) -> Result<(Figures, Figures, usize)> {
    let (mut last, mut cpu, mut fewest) = (Vec::new(), Vec::new(), usize::MAX);
    for _ in 0..options.runs {
        let result = one_fan_out(gent, count, prompt).await?;
        last.push(result.last_ms);
        cpu.push(result.cpu_ms);
        fewest = fewest.min(result.fewest_deltas);
    }
    Ok((last.into_iter().collect(), cpu.into_iter().collect(), fewest))
}

/// `TEXT:5000` to one and to 20 subscribers, without a delay and with 200 µs between deltas.
pub(crate) async fn fan_out(options: &Options) -> Result<Value> {
    let model = Model::of(options)?;
    let gent = world::start(world::setup(options, &model)?).await?;
    one_fan_out(&gent, 1, "TEXT:100").await?;
    let (one, _, _) = repeated(options, &gent, 1, "TEXT:5000").await?;
    let (many, many_cpu, many_deltas) = repeated(options, &gent, SUBSCRIBERS, "TEXT:5000").await?;
    let (one_paced, one_paced_cpu, _) = repeated(options, &gent, 1, "TEXT:5000 DELAYUS:200").await?;
    let (paced, paced_cpu, paced_deltas) =
        repeated(options, &gent, SUBSCRIBERS, "TEXT:5000 DELAYUS:200").await?;
    let later = many.median() - one.median();
    let ratio = paced.median() / one_paced.median();
    let is_cheap = many_cpu.median() < 500.0 && paced_cpu.median() < 500.0;
    Ok(json!({
        "subscribers": SUBSCRIBERS,
        "oneMs": one.json(),
        "allMs": many.json(),
        "laterMs": later,
        "laterLimitMs": 25,
        "pacedOneMs": one_paced.json(),
        "pacedAllMs": paced.json(),
        "pacedRatio": ratio,
        "pacedRatioLimit": 1.05,
        "serverCpuMs": { "all": many_cpu.json(), "pacedAll": paced_cpu.json(), "pacedOne": one_paced_cpu.json() },
        "serverCpuLimitMs": 500,
        "fewestDeltas": { "all": many_deltas, "paced": paced_deltas },
        "holds": later < 25.0 && ratio <= 1.05 && is_cheap && many_deltas > 0 && paced_deltas > 0,
    }))
}
