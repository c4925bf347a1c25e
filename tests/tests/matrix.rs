//! Owns the crash matrix: one script of two turns is killed before and after each write it makes, and what is left is
//! checked at the kill and after the restart. The places come from the store's own table of writes and from a run
//! without a kill, so a new write fails the test until the script passes it or a reason says why it cannot.
//! `GENT_MATRIX_CASE=store.after_commit:turn.streamEnd@2` runs one case alone.

#[cfg(test)]
#[path = "matrix/check.rs"]
mod check;
#[cfg(test)]
#[path = "matrix/model.rs"]
mod model;
#[cfg(test)]
#[path = "matrix/script.rs"]
mod script;
#[cfg(test)]
#[path = "matrix/stored.rs"]
mod stored;
#[cfg(test)]
#[path = "matrix/table.rs"]
mod table;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use anyhow::{Context as _, Result, ensure};
    use futures_util::StreamExt as _;
    use gent_e2e::harness::{Gent, Setup, Stop, eventually, processes_with_env_marker};
    use gent_e2e::scripted::{Script, Scripted, ScriptedServer};

    use crate::check::Evidence;
    use crate::script::{Known, drive, next, opening, repeat};
    use crate::stored::{Keys, Stored, copy, read};
    use crate::{model, table};

    /// Cases at once: a case waits more than it works.
    const AT_ONCE: usize = 4;

    /// The place before a write's COMMIT, when all of it is there, and the one after it, before anybody is told.
    const PLACES: [&str; 2] = ["store.before_commit", "store.after_commit"];

    async fn scripted() -> Result<ScriptedServer> {
        Scripted::new(Script::new()).ruled_by(model::rule).start().await
    }

    async fn no_child_is_left(gent: &Gent) -> Result<()> {
        let marker = gent.setup().marker();
        eventually("the calls' processes to end", async || {
            let left = processes_with_env_marker(&marker)?;
            Ok(left.iter().all(|pid| *pid == gent.pid).then_some(()))
        })
        .await
    }

    /// Finishes the script on a server that may have been killed before, and reads what it left.
    async fn finish(
        mut gent: Gent,
        model: &ScriptedServer,
        known: Known,
        was_killed: bool,
    ) -> Result<Evidence> {
        let at_kill = copy(gent.place(), "killed")?;
        if was_killed {
            gent = gent.setup().clone().without_failpoints().start().await?;
        }
        let mut known_after = Known::default();
        drive(&gent, model, &mut known_after).await.context("after the restart")?;
        let session = known_after.session.clone().context("no session")?;
        repeat(&gent, &session).await.context("repeated commands")?;
        next(&gent, &session).await?;
        no_child_is_left(&gent).await?;
        gent.kill9().await?;
        let keys = Keys {
            workspace: gent.place().workspace(),
            session: session.id.clone(),
            branch: session.branch.clone(),
            stopped: opening(model::SECOND)?,
        };
        let killed = if was_killed { read(&at_kill, &keys)? } else { Stored::default() };
        let after = read(&copy(gent.place(), "after")?, &keys)?;
        let ran = gent.place().read(model::RAN).lines().map(str::to_owned).collect();
        Ok(Evidence { known, known_after, killed, after, ran, was_killed })
    }

    /// Kills at one place and checks.
    async fn run(failpoint: &str) -> Result<()> {
        let model = scripted().await?;
        let setup = Setup::new(&model)?;
        let stop = Stop::at(setup.at(), failpoint)?;
        let mut gent = setup.stop(&stop).start().await?;
        let mut known = Known::default();
        tokio::select! {
            biased;
            reached = stop.reached() => reached?,
            driven = drive(&gent, &model, &mut known) => {
                driven.context("before the kill")?;
                anyhow::bail!("the script has passed and nothing was there to stop at");
            }
        }
        gent.kill9().await?;
        finish(gent, &model, known, true).await?.check()
    }

    /// Runs the script without a kill, checks, and says how often it made each write.
    async fn record() -> Result<BTreeMap<String, usize>> {
        let model = scripted().await?;
        let setup = Setup::new(&model)?;
        let log = setup.at().root().join("writes");
        let gent = setup.failpoint(&format!("store.after_commit=log:{}", log.display())).start().await?;
        drive(&gent, &model, &mut Known::default()).await?;
        let text = std::fs::read_to_string(&log)?;
        finish(gent, &model, Known::default(), false).await?.check()?;
        let mut counts = BTreeMap::new();
        for name in text.lines() {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        Ok(counts)
    }

    /// Before and after each write, each time that it is made; how often text is written depends on time.
    fn cases(counts: &BTreeMap<String, usize>) -> Vec<String> {
        let mut cases = Vec::new();
        for (name, count) in counts {
            let times = if name == "turn.delta" { 1 } else { *count };
            for place in PLACES {
                cases.extend((1..=times).map(|time| format!("{place}:{name}@{time}")));
            }
        }
        cases
    }

    #[test]
    fn every_write_that_the_engine_names_is_in_the_stores_table() -> Result<()> {
        assert_eq!(table::named_in_sources()?, table::documented()?);
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_kill_before_or_after_any_write_loses_nothing_and_repeats_nothing() -> Result<()> {
        if let Some(case) = std::env::var_os("GENT_MATRIX_CASE").and_then(|case| case.into_string().ok()) {
            return run(&case).await;
        }
        let counts = record().await.context("without a kill")?;
        let mut reached: BTreeSet<String> = counts.keys().cloned().collect();
        reached.extend(table::UNREACHED.map(|(name, _)| name.to_owned()));
        assert_eq!(reached, table::documented()?, "reached, and the table in storage/src/lib.rs");
        let cases = cases(&counts);
        let ran = futures_util::stream::iter(&cases).map(async |case| (case, run(case).await));
        let failed = ran
            .buffer_unordered(AT_ONCE)
            .filter_map(async |(case, result)| Some(format!("GENT_MATRIX_CASE={case}\n{:#}", result.err()?)));
        let failed: Vec<String> = failed.collect().await;
        ensure!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.join("\n\n"));
        Ok(())
    }
}
