//! Owns what `gent attach` promises: a session followed and spoken into from a pipe, over the death of its server.

use anyhow::{Context as _, Result};
use gent_e2e::harness::{OpenSession, Signal, send_signal, within};
use gent_e2e::scripted::Script;
use gent_protocol::{Approval, CreateSession};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};

use crate::world::open;

/// Reads until a line has this in it.
async fn see(child: &mut Child, text: &str) -> Result<BufReader<ChildStdout>> {
    let mut stdout = BufReader::new(child.stdout.take().context("no standard output")?);
    within(text, async {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            anyhow::ensure!(stdout.read_line(&mut line).await? > 0, "it ended before {text:?}");
        }
        Ok(())
    })
    .await?;
    Ok(stdout)
}

/// Reads the rest and waits for the end.
async fn end(child: &mut Child, mut stdout: BufReader<ChildStdout>) -> Result<(Option<i32>, String)> {
    within("the end of the client", async {
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).await?;
        Ok((child.wait().await?.code(), rest))
    })
    .await
}

#[tokio::test]
async fn lines_of_a_pipe_are_prompts_one_after_the_other() -> Result<()> {
    let (model, gent, session) = open(Script::new().text("one").text("two")).await?;
    let attach = gent.cli(&["attach", session.id.as_str()]).input("first\nsecond\n").run().await?;
    assert_eq!(attach.code, Some(0), "{attach:?}");
    let turns: String = attach.stdout.lines().filter(|line| !line.starts_with('·')).collect();
    assert_eq!((turns.as_str(), model.requests().len()), ("> firstone> secondtwo", 2), "{attach:?}");
    Ok(())
}

#[tokio::test]
async fn a_prompt_of_a_pipe_that_is_not_answered_is_an_exit_code() -> Result<()> {
    let (_model, gent, session) = open(Script::new().error(400, None)).await?;
    let attach = gent.cli(&["attach", session.id.as_str()]).input("first\n").run().await?;
    assert_eq!(attach.code, Some(1), "{attach:?}");
    assert_eq!(attach.stdout.matches("error: ").count(), 1, "{attach:?}");
    let missing = gent.cli(&["attach", "nobody"]).run().await?;
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(1), ""), "{missing:?}");
    Ok(())
}

#[tokio::test]
async fn ctrl_c_at_an_attached_client_stops_the_turn_that_somebody_else_began() -> Result<()> {
    let (model, gent, session) = open(Script::new().text("half").stall("hold")).await?;
    let sent = session.send("q")?;
    model.gate("hold").reached(1).await?;
    let mut attach = gent.cli(&["attach", session.id.as_str()]).start().await?;
    let stdout = see(&mut attach, "a turn runs").await?;
    send_signal(attach.id().context("it is gone")?, Signal::INT)?;
    session.turn(&sent.message).await?.expect_end("TC(interrupted)")?;
    let (code, rest) = end(&mut attach, stdout).await?;
    // With a pipe for a keyboard it leaves once the turn has ended.
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("half\n· stopping the turn") && rest.contains("· stopped after"), "{rest}");
    Ok(())
}

#[tokio::test]
async fn an_attached_client_outlives_the_death_of_its_server() -> Result<()> {
    let (model, mut gent, session) = open(Script::new().text("lost").stall("hold").text("found")).await?;
    let mut attach = gent.cli(&["attach", session.id.as_str()]).input("a question\n").start().await?;
    let stdout = see(&mut attach, "> a question").await?;
    model.gate("hold").reached(1).await?;
    gent.kill9().await?;
    let (code, rest) = end(&mut attach, stdout).await?;
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("· the connection to the server was lost and is back"), "{rest}");
    assert_eq!((rest.matches("found").count(), rest.matches("> a question").count()), (1, 0), "{rest}");
    assert_eq!(gent.cli(&["server", "stop"]).run().await?.code, Some(0));
    Ok(())
}

/// A model that clears a file away, and says so.
fn clearing() -> Script {
    Script::new().tool("bash", json!({ "command": "rm -rf old.o" })).text("done")
}

#[tokio::test]
async fn a_typed_yes_lets_a_command_run_that_destroys() -> Result<()> {
    let (_model, gent, _session) = open(clearing()).await?;
    let create = CreateSession { approval: Some(Approval::Ask), ..gent.create()? };
    let session = OpenSession::create(gent.client().await?, create).await?;
    gent.place().write("old.o", "old")?;
    let attach = gent.cli(&["attach", session.id.as_str()]).input("clean up\ny\n").run().await?;
    assert_eq!(attach.code, Some(0), "{attach:?}");
    let question = "? may this command run? it is destructive: ";
    assert!(attach.stdout.contains(question) && attach.stdout.contains("\n    rm -rf old.o\n"), "{attach:?}");
    assert!(attach.stdout.contains("· the answer is yes\n"), "{attach:?}");
    assert!(!gent.place().work().join("old.o").exists(), "{attach:?}");
    Ok(())
}

#[tokio::test]
async fn a_run_without_a_person_answers_no_and_says_how_to_allow_it() -> Result<()> {
    let (model, gent, _session) = open(clearing()).await?;
    gent.place().write("old.o", "old")?;
    let run = gent.cli(&["run", "clean up", "--model", "openai/scripted"]).run().await?;
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{run:?}");
    let told = "answered no, as nobody can be asked here: may this command run: rm -rf old.o";
    assert!(run.stderr.contains(told), "{run:?}");
    let request = model.request(2).await?;
    let heard = String::from_utf8_lossy(&request.bytes).into_owned();
    assert!(heard.contains("start it with --approve-all to allow such calls"), "{heard}");
    assert!(gent.place().work().join("old.o").exists());
    Ok(())
}
