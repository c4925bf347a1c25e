//! Owns what every measurement begins with: a place on a real disk, a server in it, and the check that its store is
//! as durable as the figures claim.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};

use super::Options;
use super::model::Model;
use crate::harness::{Gent, Place, Setup};

/// `f_type` of a file system in memory.
const TMPFS: i64 = 0x0102_1994;

fn is_in_memory(directory: &Path) -> Result<bool> {
    let kind = rustix::fs::statfs(directory)?.f_type;
    #[expect(clippy::useless_conversion, reason = "the type differs between targets")]
    let kind = i64::try_from(kind)?;
    Ok(kind == TMPFS)
}

/// A setup in a new place of the benchmark's directory.
pub(crate) fn setup(options: &Options, model: &Model) -> Result<Setup> {
    let place = Arc::new(Place::inside(&options.data_dir)?);
    ensure!(
        !is_in_memory(place.root())?,
        "{} is in memory: give --data-dir on a disk",
        options.data_dir.display()
    );
    let setup = Setup::with_url(&model.base_url())?.place(place).binary(options.gent.clone());
    Ok(setup.with_env("GENT_LOG_LEVEL", "warn"))
}

/// A server that runs, whose store is checked.
pub(crate) async fn start(setup: Setup) -> Result<Gent> {
    let gent = setup.start().await?;
    let synchronous = gent.status().await?.database.synchronous;
    ensure!(
        synchronous == "normal",
        "the store runs with synchronous={synchronous}, the figures are for normal"
    );
    Ok(gent)
}

/// Writes `count` files of about `bytes` bytes into the working directory and returns their `FILE:` option.
pub(crate) fn files(gent: &Gent, count: usize, bytes: usize) -> Result<String> {
    for number in 1..=count {
        let line = format!("line of file {number}\n");
        gent.place().write(&format!("f{bytes}x{number}.txt"), &line.repeat(bytes / line.len()))?;
    }
    Ok(format!("FILE:{}/f{bytes}x%.txt", gent.place().work().display()))
}
