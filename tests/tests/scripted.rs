//! Owns the tests of the scripted model server itself: that it speaks what the drivers expect, keeps to the script,
//! and logs what arrives.

use anyhow::{Context as _, Result};
use gent_e2e::harness::within;
use gent_e2e::scripted::{Script, Scripted, ScriptedServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn post(server: &ScriptedServer, path: &str, key: &str, body: &Value) -> Result<String> {
    let address = server.url().replace("http://", "");
    let mut stream = TcpStream::connect(&address).await?;
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    let mut answer = String::new();
    within("the whole answer", async {
        let mut bytes = [0; 4096];
        loop {
            let count = stream.read(&mut bytes).await?;
            answer.push_str(&String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()));
            let is_whole = answer.ends_with("0\r\n\r\n") || answer.contains("content-length");
            if count == 0 || is_whole {
                return Ok(());
            }
        }
    })
    .await?;
    Ok(answer)
}

fn chat(prompt: &str) -> Value {
    let tools = json!([{ "type": "function", "function": { "name": "read", "parameters": {} } }]);
    let messages = json!([{ "role": "user", "content": prompt }]);
    json!({ "model": "m", "stream": true, "stream_options": { "include_usage": true }, "tools": tools, "messages": messages })
}

#[tokio::test]
async fn a_script_is_answered_in_order_in_both_formats() -> Result<()> {
    let script = Script::new().text("hello").tool("read", json!({ "path": "a" })).usage(7, 3);
    let server = Scripted::new(script).start().await?;
    let first = post(&server, "/v1/chat/completions", "", &chat("hi")).await?;
    assert!(first.contains(r#""content":"hello""#) && first.contains(r#""finish_reason":"stop""#), "{first}");
    assert!(first.contains(r#""prompt_tokens":100"#) && first.contains("data: [DONE]"), "{first}");
    let second = post(&server, "/v1/messages", "", &chat("hi")).await?;
    assert!(second.contains(r#""type":"tool_use","id":"c1","name":"read""#), "{second}");
    assert!(second.contains(r#""partial_json":"{\"path\":\"a\"}""#), "{second}");
    assert!(
        second.contains(r#""stop_reason":"tool_use""#) && second.contains(r#""output_tokens":3"#),
        "{second}"
    );
    let third = post(&server, "/v1/chat/completions", "", &chat("hi")).await?;
    assert!(third.starts_with("HTTP/1.1 400") && third.contains("no answer left"), "{third}");
    Ok(())
}

#[tokio::test]
async fn a_marker_decides_when_the_script_is_silent() -> Result<()> {
    let server = Scripted::new(Script::new()).start().await?;
    let text = post(&server, "/v1/chat/completions", "", &chat("TEXT:3 ID:x")).await?;
    assert_eq!(text.matches(r#""content":"tick""#).count(), 3);
    let call = post(&server, "/v1/chat/completions", "", &chat("TOOLS:2 FILE:/d/f%.txt ID:y")).await?;
    assert!(call.contains(r#""arguments":"{\"path\":\"/d/f1.txt\"}""#), "{call}");
    let mut later = chat("TOOLS:2 FILE:/d/f%.txt ID:y");
    let messages = later["messages"].as_array_mut().context("messages")?;
    messages.push(json!({ "role": "tool", "content": "x" }));
    messages.push(json!({ "role": "tool", "content": "y" }));
    let end = post(&server, "/v1/chat/completions", "", &later).await?;
    assert_eq!(end.matches(r#""content":"tick""#).count(), 8);
    let last = server.request(3).await?;
    assert_eq!((last.id.as_str(), last.round), ("y", 3));
    assert!(last.body_ns < last.end_ns().context("it has ended")?);
    Ok(())
}

#[tokio::test]
async fn a_stalled_answer_waits_for_its_gate_and_a_cut_one_breaks() -> Result<()> {
    let script = Script::new().text("one").stall("g").and_text("two").text("three").cut_after(1);
    let server = Scripted::new(script).start().await?;
    let (address, gate) = (server.url(), server.gate("g"));
    let body = chat("hi");
    let held = post(&server, "/v1/chat/completions", "", &body);
    let opener = async {
        gate.reached(1).await?;
        gate.open();
        Ok(())
    };
    let (held, ()) = tokio::try_join!(held, opener)?;
    assert!(held.find("one") < held.find("two") && address.starts_with("http://"), "{held}");
    let cut = post(&server, "/v1/chat/completions", "", &body).await?;
    assert!(cut.contains("three") && !cut.contains("[DONE]"), "{cut}");
    Ok(())
}

#[tokio::test]
async fn a_demanded_key_is_checked_and_an_error_carries_its_wait() -> Result<()> {
    let server = Scripted::new(Script::new().error(429, Some(3))).demanding_key("sk-1").start().await?;
    let refused = post(&server, "/v1/chat/completions", "sk-2", &chat("hi")).await?;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let limited = post(&server, "/v1/chat/completions", "sk-1", &chat("hi")).await?;
    assert!(limited.starts_with("HTTP/1.1 429") && limited.contains("retry-after: 3"), "{limited}");
    assert_eq!(server.requests().len(), 1);
    Ok(())
}
