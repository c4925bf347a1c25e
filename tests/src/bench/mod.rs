//! Owns the measurements of `docs/PERFORMANCE.md`: how they are taken and what each must not exceed.
//! Never judges by one figure: raw numbers, ratios and limits stand side by side. Run by `gent-bench`.

mod footprint;
mod load;
mod model;
mod options;
mod pressure;
mod rounds;
mod starting;
mod statistics;
mod world;

use anyhow::Result;
use serde_json::{Map, Value, json};

pub use options::{Options, UsageError};
pub(crate) use statistics::{Figures, milliseconds};

/// The measurements by name, in the order in which they are taken.
pub const NAMES: [&str; 10] = [
    "overhead",
    "overhead-100",
    "start",
    "start-100k",
    "idle",
    "run",
    "throughput",
    "fanout",
    "pressure",
    "sessions",
];

/// Takes the measurements that `options` ask for and returns them as one JSON object.
pub async fn measure(options: &Options) -> Result<Value> {
    let mut all = Map::new();
    all.insert(
        "machine".into(),
        json!({ "cores": std::thread::available_parallelism().map_or(0, |n| n.get()) }),
    );
    all.insert("runs".into(), json!(options.runs));
    for name in NAMES.iter().filter(|name| options.wants(name)) {
        let result = match *name {
            "overhead" => rounds::overhead(options, 0).await,
            "overhead-100" => rounds::overhead(options, 100).await,
            "start" => starting::start(options, 0).await,
            "start-100k" => starting::start(options, 100_000).await,
            "idle" => footprint::idle(options).await,
            "run" => starting::run_command(options).await,
            "throughput" => load::throughput(options).await,
            "fanout" => load::fan_out(options).await,
            "pressure" => pressure::pressure(options).await,
            _ => footprint::sessions(options).await,
        };
        let value = result.unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
        all.insert((*name).to_owned(), value);
    }
    Ok(Value::Object(all))
}
