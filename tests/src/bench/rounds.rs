//! Owns the overhead: what gent adds between the end of a model's answer and the whole body of the next request.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::model::{Model, Round};
use super::{Figures, Options, world};
use crate::harness::OpenSession;

const ROUNDS: usize = 100;

/// Gaps between the end of each answer and the next whole body, in milliseconds.
fn gaps(rounds: &[Round]) -> Vec<f64> {
    rounds.windows(2).filter_map(|pair| Some(pair.get(1)?.body_ms - pair.first()?.end_ms)).collect()
}

fn range(gaps: &[f64], from: usize, to: usize) -> Figures {
    gaps.get(from - 1..to).unwrap_or_default().iter().copied().collect()
}

/// `TOOLS:100` reading files, in `runs` sessions of a warm server, each with `earlier` messages before.
pub(crate) async fn overhead(options: &Options, earlier: usize) -> Result<Value> {
    let model = Model::of(options)?;
    let gent = world::start(world::setup(options, &model)?).await?;
    let file = world::files(&gent, ROUNDS, 2000)?;
    // Small ones before, so that the whole session fits the window and every round repeats the one before.
    let small = world::files(&gent, earlier / 2, 200)?;
    gent.session().await?.ask(&format!("TOOLS:5 {file} ID:warm")).await?;
    let (mut all, mut early, mut late) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lost_bytes, mut is_stable) = (0, true);
    for run in 0..options.runs {
        let session: OpenSession = gent.session().await?;
        if earlier > 0 {
            session.ask(&format!("TOOLS:{} {small} ID:before{run}", earlier / 2)).await?;
        }
        let turn = session.ask(&format!("TOOLS:{ROUNDS} {file} ID:run{run}")).await?;
        ensure!(turn.trace().ends_with("(Answered) MR(a101) TC"), "the turn did not end answered");
        let rounds = model.rounds(&format!("run{run}"))?;
        lost_bytes = rounds.iter().map(|round| round.lost_bytes).max().unwrap_or(0).max(lost_bytes);
        is_stable &= rounds.iter().all(|round| round.is_stable);
        let gaps = gaps(&rounds);
        early.push(range(&gaps, 2, 11).median());
        late.push(range(&gaps, 91, 100).median());
        all.extend(gaps);
    }
    let (all, early, late): (Figures, Figures, Figures) =
        (all.into_iter().collect(), early.into_iter().collect(), late.into_iter().collect());
    let ratio = late.median() / early.median();
    let holds = all.median() < 2.0 && all.percentile(95) < 6.0 && all.percentile(99) < 30.0;
    Ok(json!({
        "overheadMs": all.json(),
        "limitMs": { "median": 2, "p95": 6, "p99": 30 },
        "rounds2to11Ms": early.json(),
        "rounds91to100Ms": late.json(),
        "lateToEarly": ratio,
        "lateToEarlyLimit": 1.3,
        "earlierMessages": earlier,
        "prefixLostBytes": lost_bytes,
        "prefixLimitBytes": 64,
        "promptAndToolsStable": is_stable,
        "holds": holds && ratio <= 1.3 && lost_bytes <= 64 && is_stable,
    }))
}
