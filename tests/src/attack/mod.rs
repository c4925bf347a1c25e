//! Owns the attacks on the socket: what each sends, how the server answers, what it costs the server and a bystander.
//! Never judges the answers of a healthy client. Run by `gent-attack`.

mod bystander;
mod door;
mod flood;
mod watch;

use std::future::Future;
use std::pin::Pin;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::bench::Options;
use crate::harness::{Gent, Place, Setup, private_dirty_kib};
use crate::scripted::{Script, Scripted};

use bystander::Bystander;
use watch::Watch;

type Attack = for<'a> fn(&'a Gent) -> Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// The attacks by name.
const ATTACKS: [(&str, Attack); 10] = [
    ("wrong-tokens", |gent| Box::pin(door::wrong_tokens(gent))),
    ("foreign-origins-and-hosts", |gent| Box::pin(door::foreign_places(gent))),
    ("half-open-sockets", |gent| Box::pin(door::half_open(gent))),
    ("malformed-frames", |gent| Box::pin(flood::malformed(gent))),
    ("frame-of-100-mb", |gent| Box::pin(flood::large_frame(gent))),
    ("message-of-100-mb-in-fragments", |gent| Box::pin(flood::large_fragments(gent))),
    ("empty-fragments", |gent| Box::pin(flood::empty_fragments(gent))),
    ("10000-requests-in-flight", |gent| Box::pin(flood::requests_in_flight(gent))),
    ("unread-answers", |gent| Box::pin(flood::unread_answers(gent))),
    ("unread-stream", |gent| Box::pin(flood::unread_stream(gent))),
];

/// The most private dirty memory that an attack may add while it runs, and after it.
const MOST_DURING_KIB: u64 = 8 << 10;
/// A message in fragments is gathered up to the bound of a frame before it is refused.
const GATHERED_KIB: u64 = 16 << 10;
const MOST_AFTER_KIB: u64 = 4 << 10;

/// Runs the attacks that `options` ask for, one after the other on one server.
pub async fn attack(options: &Options) -> Result<Value> {
    let model = Scripted::new(Script::new()).start_on_thread()?;
    let place = std::sync::Arc::new(Place::inside(&options.data_dir)?);
    let setup = Setup::new(&model)?.place(place).binary(options.gent.clone());
    // A restart, so that the token of an earlier start is a real one.
    let earlier = setup.clone().start().await?;
    let old_token = earlier.token()?;
    let gent = earlier.restart().await?;
    std::fs::write(gent.place().root().join("old-token"), old_token.expose())?;
    let quiet = Bystander::new(&gent).await?.p95().await?;
    let mut all = Map::new();
    all.insert("bystanderQuietP95Ms".into(), json!(quiet));
    for (name, attack) in ATTACKS.iter().filter(|(name, _)| options.wants(name)) {
        // A fresh one each time: the history of an old one would count as what the attack costs.
        let bystander = Bystander::new(&gent).await?;
        all.insert((*name).to_owned(), one(&gent, &bystander, quiet, *attack, most_during(name)).await?);
    }
    Ok(Value::Object(all))
}

fn most_during(name: &str) -> u64 {
    match name {
        "message-of-100-mb-in-fragments" => MOST_DURING_KIB + GATHERED_KIB,
        _ => MOST_DURING_KIB,
    }
}

async fn one(
    gent: &Gent,
    bystander: &Bystander,
    quiet: f64,
    attack: Attack,
    most_during: u64,
) -> Result<Value> {
    let before = private_dirty_kib(gent.pid)?;
    let watch = Watch::start(gent.pid);
    let (outcome, p95) = tokio::join!(attack(gent), bystander.p95());
    let during = watch.most();
    let after = watch::settled(gent.pid, before + MOST_AFTER_KIB).await?;
    let outcome = outcome.unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
    let p95 = p95?;
    let grown = during.saturating_sub(before);
    let kept = after.saturating_sub(before);
    let is_expected = outcome.get("holds") == Some(&json!(true));
    Ok(json!({
        "outcome": outcome,
        "privateDirtyKib": { "before": before, "most": during, "after": after },
        "bystanderP95Ms": p95,
        "holds": is_expected && grown <= most_during && kept <= MOST_AFTER_KIB && p95 < 2.0 * quiet,
    }))
}
