//! Owns how fast things begin: a server on little and on much data, and `gent run` against a warm one.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::model::Model;
use super::{Figures, Options, milliseconds, world};
use crate::harness::{Gent, Setup, cpu_nanos, cpu_ticks};

/// Asks `/livez` once.
async fn live(gent: &Gent) -> Result<()> {
    let mut stream = TcpStream::connect((gent.url.host(), gent.url.port())).await?;
    let request =
        format!("GET /livez HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gent.url.authority());
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "/livez answered {:?}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Fills a data directory until its sessions have this many events.
async fn fill(setup: &Setup, events: i64) -> Result<i64> {
    if events == 0 {
        return Ok(0);
    }
    let gent = world::start(setup.clone()).await?;
    let file = world::files(&gent, 100, 2000)?;
    let mut total = 0;
    while total < events {
        let sessions = try_join_all((0..4).map(|_| gent.session())).await?;
        let prompt = format!("TOOLS:100 {file}");
        try_join_all(sessions.iter().map(|session| session.ask(&prompt))).await?;
        for session in sessions {
            total += session.snapshot().await?.last_event_id.0;
        }
    }
    stop(gent).await?;
    Ok(total)
}

async fn stop(mut gent: Gent) -> Result<()> {
    gent.terminate()?;
    gent.wait().await?;
    Ok(())
}

/// From the start of the process to its first answer on `/livez`, in processor time.
pub(crate) async fn start(options: &Options, events: i64) -> Result<Value> {
    let model = Model::of(options)?;
    let setup = world::setup(options, &model)?;
    let events = fill(&setup, events).await?;
    let (mut cpu, mut ticks, mut wall) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.runs {
        #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
        let begin = Instant::now();
        let gent = setup.clone().start().await?;
        live(&gent).await?;
        wall.push(milliseconds(begin.elapsed()));
        cpu.push(cpu_nanos(gent.pid)? as f64 / 1e6);
        ticks.push(cpu_ticks(gent.pid)? as f64 * 10.0);
        stop(gent).await?;
    }
    let (cpu, ticks, wall): (Figures, Figures, Figures) =
        (cpu.into_iter().collect(), ticks.into_iter().collect(), wall.into_iter().collect());
    Ok(json!({
        "events": events,
        "cpuMs": cpu.json(),
        "cpuTicksMs": ticks.json(),
        "wallMs": wall.json(),
        "limitCpuMs": 100,
        "holds": cpu.median() < 100.0 && ticks.median() <= 100.0,
    }))
}

/// `gent run TEXT:1` against a warm server, discovery included, from the start of the process to its end.
pub(crate) async fn run_command(options: &Options) -> Result<Value> {
    let model = Model::of(options)?;
    let gent = world::start(world::setup(options, &model)?).await?;
    let arguments = ["run", "TEXT:1", "--model", "openai/scripted"];
    let warm = gent.cli(&arguments).run().await?;
    ensure!(warm.code == Some(0), "gent run failed: {}", warm.stderr);
    let mut wall = Vec::new();
    for _ in 0..options.runs {
        #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
        let begin = Instant::now();
        let run = gent.cli(&arguments).run().await?;
        wall.push(milliseconds(begin.elapsed()));
        ensure!(run.code == Some(0), "gent run failed: {}", run.stderr);
    }
    let wall: Figures = wall.into_iter().collect();
    Ok(json!({ "wallMs": wall.json(), "limitMs": 60, "holds": wall.median() < 60.0 }))
}
