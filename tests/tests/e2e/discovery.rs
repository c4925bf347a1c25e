//! Owns the rows about finding and starting servers: one owner for a data directory, nobody trusted by chance.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use gent_e2e::harness::{Cli, Gent, Place, Setup, is_alive};
use gent_e2e::scripted::{Script, Scripted};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::open;

fn entry_text(place: &Place, change: impl FnOnce(&mut Value)) -> Result<String> {
    let mut entry: Value = serde_json::from_str(&std::fs::read_to_string(place.data().join("server.json"))?)?;
    change(&mut entry);
    Ok(entry.to_string())
}

#[tokio::test]
async fn two_starts_at_once_give_one_server_and_both_attach_i16() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let place = Arc::new(Place::new()?);
    let url = format!("{}/v1", model.url());
    let run = || {
        Cli::new(&place, &["run", "TEXT:1", "--model", "openai/scripted"]).env("OPENAI_BASE_URL", &url).run()
    };
    let (first, second) = tokio::try_join!(run(), run())?;
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{first:?} {second:?}");
    let status = Cli::new(&place, &["server", "status", "--json"]).run().await?;
    let pid = serde_json::from_str::<Value>(&status.stdout)?["pid"].as_u64().context("no pid")?;
    let sessions = Cli::new(&place, &["sessions", "--json"]).run().await?;
    let sessions: Value = serde_json::from_str(&sessions.stdout)?;
    let count = sessions.as_array().or_else(|| sessions["items"].as_array()).map(Vec::len);
    assert_eq!(count, Some(2), "{sessions}");
    assert_eq!(Cli::new(&place, &["server", "stop"]).run().await?.code, Some(0));
    assert!(!is_alive(u32::try_from(pid)?));
    Ok(())
}

#[tokio::test]
async fn a_process_that_took_the_pid_of_a_killed_server_is_left_alone_i17() -> Result<()> {
    let (_model, mut gent, _session) = open(Script::new()).await?;
    gent.kill9().await?;
    #[expect(clippy::disallowed_methods, reason = "a bystander process of the test's own")]
    let mut bystander = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn()?;
    let pid = bystander.id().context("no pid")?;
    let stale = entry_text(gent.place(), |entry| entry["pid"] = json!(pid))?;
    std::fs::write(gent.place().data().join("server.json"), stale)?;
    let again = gent.setup().clone().start().await?;
    assert_ne!(again.pid, pid);
    assert_eq!(again.cli(&["server", "stop"]).run().await?.code, Some(0));
    assert!(is_alive(pid));
    bystander.kill().await?;
    Ok(())
}

/// A listener that answers every identity request with `proof` and keeps what it was sent.
async fn impostor(proof: &str) -> Result<(u16, Arc<Mutex<String>>)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let (port, heard) = (listener.local_addr()?.port(), Arc::new(Mutex::new(String::new())));
    let body =
        json!({ "protocol": { "major": 1, "minor": 0 }, "build": "0.1.0", "proof": proof }).to_string();
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    let kept = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 4096];
            let count = stream.read(&mut bytes).await.unwrap_or(0);
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
            let _gone = stream.write_all(answer.as_bytes()).await.is_err();
        }
    });
    Ok((port, heard))
}

#[tokio::test]
async fn a_server_with_a_wrong_proof_is_neither_attached_nor_stopped_i19() -> Result<()> {
    let (_model, gent, _session) = open(Script::new()).await?;
    let token = gent.token()?.expose().to_owned();
    let (port, heard) = impostor(&"0".repeat(64)).await?;
    let false_entry = entry_text(gent.place(), |entry| {
        entry["url"] = json!(format!("http://127.0.0.1:{port}"));
        entry["pid"] = json!(std::process::id());
    })?;
    std::fs::write(gent.place().data().join("server.json"), false_entry)?;
    for arguments in [&["server", "stop"][..], &["sessions"]] {
        let refused = gent.cli(arguments).run().await?;
        assert_eq!(refused.code, Some(1), "{refused:?}");
    }
    assert!(is_alive(gent.pid));
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(heard.contains("/_gent/identity") && !heard.contains(&token), "{heard}");
    Ok(())
}

#[tokio::test]
async fn a_second_server_on_the_same_data_fails_naming_the_first_i20() -> Result<()> {
    let (_model, gent, _session) = open(Script::new()).await?;
    let second = gent.cli(&["serve", "--port", "47999"]).run().await?;
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.stderr.contains(&gent.pid.to_string()), "{second:?}");
    Ok(())
}

#[tokio::test]
async fn a_server_ends_in_order_on_a_signal_and_leaves_no_entry() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let mut gent: Gent = Setup::new(&model)?.start().await?;
    gent.session().await?.ask("TEXT:1").await?;
    gent.terminate()?;
    assert_eq!(gent.wait().await?, Some(0));
    assert!(!gent.place().data().join("server.json").exists());
    Ok(())
}
