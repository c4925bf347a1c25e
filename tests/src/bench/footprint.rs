//! Owns what a server costs that does nothing: memory and processor time when idle, memory of a resident branch.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use gent_protocol::{ActorState, SendMessage};
use serde_json::{Value, json};

use super::model::Model;
use super::{Options, world};
use crate::harness::{DEADLINE, Gent, OpenSession, cpu_ticks, private_dirty_kib};

/// Sessions a server is warmed with before its memory is compared.
const WARM_SESSIONS: usize = 200;

/// Sessions that are made at the same time.
const AT_ONCE: usize = 10;

/// Lets time pass: this is what is measured here.
async fn watch(seconds: u64) {
    let _elapsed =
        tokio::time::timeout(Duration::from_secs(seconds), std::future::pending::<()>()).await.is_err();
}

async fn idle_figures(gent: &Gent, seconds: u64) -> Result<(u64, u64)> {
    watch(2).await;
    let before = cpu_ticks(gent.pid)?;
    watch(seconds).await;
    Ok((private_dirty_kib(gent.pid)?, cpu_ticks(gent.pid)? - before))
}

/// Memory and ticks of an idle server with one client, fresh and after 100 turns.
pub(crate) async fn idle(options: &Options) -> Result<Value> {
    let model = Model::of(options)?;
    let gent = world::start(world::setup(options, &model)?).await?;
    let session: OpenSession = gent.session().await?;
    let (fresh_kib, fresh_ticks) = idle_figures(&gent, options.idle_secs).await?;
    for _ in 0..100 {
        session.ask("TEXT:10").await?;
    }
    let (used_kib, used_ticks) = idle_figures(&gent, options.idle_secs).await?;
    let is_small = fresh_kib < 20_000 && used_kib < 20_000;
    Ok(json!({
        "seconds": options.idle_secs,
        "fresh": { "privateDirtyKib": fresh_kib, "ticks": fresh_ticks },
        "after100Turns": { "privateDirtyKib": used_kib, "ticks": used_ticks },
        "limit": { "privateDirtyKib": 20_000, "ticks": 1 },
        "holds": is_small && fresh_ticks <= 1 && used_ticks <= 1,
    }))
}

/// Makes `count` sessions that each run `TEXT:1`.
async fn make_sessions(gent: &Gent, count: usize) -> Result<()> {
    let client = gent.client().await?;
    let mut left = count;
    while left > 0 {
        let now = left.min(AT_ONCE);
        left -= now;
        try_join_all((0..now).map(|_| async {
            let created = client.call(gent.create()?).await?;
            let request_id = created.session_id.as_str().parse().ok();
            let (session_id, branch_id) = (created.session_id, created.branch_id);
            let (approval, env) = Default::default();
            let content = "TEXT:1".to_owned();
            client.call(SendMessage { session_id, branch_id, content, request_id, approval, env }).await?;
            anyhow::Ok(())
        }))
        .await?;
    }
    Ok(())
}

async fn resident(gent: &Gent) -> Result<usize> {
    let rows = gent.actors().await?;
    Ok(rows.iter().filter(|row| !matches!(row.state, ActorState::Drained | ActorState::Faulted)).count())
}

/// Waits until no branch is in memory.
async fn passivated(gent: &Gent, idle_secs: u64) -> Result<()> {
    let mut tries = tokio::time::interval(Duration::from_millis(250));
    let waiting = async {
        loop {
            tries.tick().await;
            if gent.status().await?.branches.resident == 0 {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(DEADLINE + Duration::from_secs(idle_secs), waiting).await?
}

async fn start(options: &Options, model: &Model, idle_secs: u64) -> Result<Gent> {
    let setup = world::setup(options, model)?.with_env("GENT_BRANCH_IDLE_SECS", &idle_secs.to_string());
    world::start(setup).await
}

/// Memory of resident branches, and what is left when they have gone.
pub(crate) async fn sessions(options: &Options) -> Result<Value> {
    let model = Model::of(options)?;
    let stay = 60 + options.sessions as u64 / 20;
    let gent = start(options, &model, stay).await?;
    make_sessions(&gent, 1).await?;
    watch(1).await;
    let before = private_dirty_kib(gent.pid)?;
    make_sessions(&gent, options.sessions - 1).await?;
    let count = resident(&gent).await?;
    ensure!(count == options.sessions, "{count} branches are resident, {} were to be", options.sessions);
    watch(1).await;
    let full = private_dirty_kib(gent.pid)?;
    passivated(&gent, stay).await?;
    watch(1).await;
    let after = private_dirty_kib(gent.pid)?;
    drop(gent);

    let warmed = start(options, &model, 2).await?;
    make_sessions(&warmed, WARM_SESSIONS.min(options.sessions)).await?;
    passivated(&warmed, 2).await?;
    watch(1).await;
    let baseline = private_dirty_kib(warmed.pid)?;
    let each = (full.saturating_sub(before)) as f64 / (options.sessions.max(2) - 1) as f64;
    let left = after as i64 - baseline as i64;
    Ok(json!({
        "sessions": options.sessions,
        "resident": count,
        "privateDirtyKib": { "before": before, "resident": full, "passivated": after, "warmedBaseline": baseline },
        "eachKib": each,
        "eachLimitKib": 16,
        "leftKib": left,
        "leftLimitKib": 4096,
        "holds": each < 16.0 && left <= 4096,
    }))
}
