//! Owns what the command line promises: outputs, exit codes, signals.

use anyhow::{Context as _, Result};
use gent_e2e::harness::{Cli, Place, Signal, send_signal, within};
use gent_e2e::scripted::Script;
use serde_json::Value;

use crate::world::open;

#[tokio::test]
async fn a_run_prints_the_answer_alone_on_standard_output() -> Result<()> {
    let (_model, gent, _session) = open(Script::new().text("the answer")).await?;
    let run = gent.cli(&["run", "a question", "--model", "openai/scripted"]).run().await?;
    assert_eq!((run.code, run.stdout.trim_end()), (Some(0), "the answer"), "{run:?}");
    Ok(())
}

#[tokio::test]
async fn a_run_takes_its_prompt_from_standard_input() -> Result<()> {
    let (model, gent, _session) = open(Script::new().text("read")).await?;
    let run = gent.cli(&["run", "-", "--model", "openai/scripted"]).input("from the pipe").run().await?;
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(String::from_utf8_lossy(&model.request(1).await?.bytes).contains("from the pipe"));
    Ok(())
}

#[tokio::test]
async fn a_run_as_json_is_one_object_with_the_turns_facts() -> Result<()> {
    let (_model, gent, _session) = open(Script::new().text("the answer")).await?;
    let arguments = ["run", "q", "--model", "openai/scripted", "--output-format", "json"];
    let run = gent.cli(&arguments).run().await?;
    let result: Value = serde_json::from_str(&run.stdout)?;
    assert_eq!(
        (run.code, &result["outcome"], &result["text"]),
        (Some(0), &"answered".into(), &"the answer".into())
    );
    assert_eq!((&result["steps"], &result["toolCalls"]), (&1.into(), &0.into()), "{result}");
    assert_eq!(result["usage"]["inputTokens"], 100, "{result}");
    Ok(())
}

#[tokio::test]
async fn a_run_as_a_stream_is_the_turns_events_and_then_the_result() -> Result<()> {
    let (_model, gent, _session) = open(Script::new().text("the answer")).await?;
    let arguments = ["run", "q", "--model", "openai/scripted", "--output-format", "stream-json"];
    let run = gent.cli(&arguments).run().await?;
    let lines = run.stdout.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.collect::<std::result::Result<_, _>>()?;
    let tags: Vec<&str> = lines.iter().filter_map(|line| line["event"]["_tag"].as_str()).collect();
    assert_eq!((tags[0], tags[tags.len() - 1]), ("MessageReceived", "TurnCompleted"), "{tags:?}");
    assert_eq!(lines.last().context("no line")?["type"], "result");
    Ok(())
}

#[tokio::test]
async fn a_run_that_is_not_answered_exits_1_and_a_wrong_flag_2() -> Result<()> {
    let (_model, gent, _session) = open(Script::new().error(400, None)).await?;
    let failed = gent.cli(&["run", "q", "--model", "openai/scripted"]).run().await?;
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:?}");
    let wrong = gent.cli(&["run", "q", "--modle", "x"]).run().await?;
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("--model"), "{wrong:?}");
    Ok(())
}

#[tokio::test]
async fn an_interrupted_run_cancels_its_turn_and_exits_130() -> Result<()> {
    let (model, gent, _session) = open(Script::new().text("half").stall("hold")).await?;
    let run =
        gent.cli(&["run", "q", "--model", "openai/scripted", "--output-format", "json"]).start().await?;
    model.gate("hold").reached(1).await?;
    send_signal(run.id().context("it is gone")?, Signal::INT)?;
    let output = within("the end of the run", async { Ok(run.wait_with_output().await?) }).await?;
    assert_eq!(output.status.code(), Some(130));
    let result: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(result["outcome"], "interrupted");
    Ok(())
}

#[tokio::test]
async fn a_run_outlives_the_death_of_its_server() -> Result<()> {
    let (model, mut gent, _session) = open(Script::new().text("lost").stall("hold").text("found")).await?;
    let run = gent.cli(&["run", "q", "--model", "openai/scripted"]).start().await?;
    model.gate("hold").reached(1).await?;
    gent.kill9().await?;
    let output = within("the end of the run", async { Ok(run.wait_with_output().await?) }).await?;
    let (text, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), text.trim_end()), (Some(0), "found"), "{notes}");
    assert_eq!(gent.cli(&["server", "stop"]).run().await?.code, Some(0));
    Ok(())
}

#[tokio::test]
async fn the_demo_reports_on_the_directory_it_runs_in() -> Result<()> {
    let place = Place::new()?;
    place.write("main.rs", "fn main() {}\n")?;
    place.write("notes.md", "# notes\n")?;
    let demo = Cli::new(&place, &["demo", "--isolate"]).run().await?;
    assert_eq!(demo.code, Some(0), "{demo:?}");
    let report = place.read("gent-demo-report.md");
    assert!(report.contains("main.rs") && report.contains("notes.md"), "{report}\n{demo:?}");
    Ok(())
}
