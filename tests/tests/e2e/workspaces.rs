//! Owns the rows about workspaces and the socket's door: who sees what, who gets in.

use anyhow::Result;
use gent_client::CallError;
use gent_e2e::harness::RawSocket;
use gent_e2e::scripted::Script;
use gent_protocol::{GetSession, GetSnapshot, Method, WorkspaceId};
use serde_json::{Value, json};

use crate::world::open;

#[tokio::test]
async fn a_session_of_another_workspace_is_not_found_i15() -> Result<()> {
    let (_model, gent, session) = open(Script::new()).await?;
    let other = gent.client_of(&WorkspaceId::for_directory(gent.place().root())).await?;
    assert_eq!(other.call(GetSession { session_id: session.id.clone() }).await?, None);
    let look =
        GetSnapshot { session_id: session.id.clone(), branch_id: session.branch.clone(), before: None };
    let CallError::Rpc(error) = other.call(look).await.unwrap_err() else { panic!() };
    assert_eq!(error.tag(), "NotFoundError");
    let CallError::Rpc(error) = other.call(session.prompt("hi", None)).await.unwrap_err() else { panic!() };
    assert_eq!(error.tag(), "NotFoundError");
    Ok(())
}

#[tokio::test]
async fn every_method_of_a_session_needs_a_workspace_streams_included_i30() -> Result<()> {
    let (_model, gent, _session) = open(Script::new()).await?;
    let mut raw = RawSocket::open(&gent).await?;
    for facts in Method::ALL.iter().map(|method| method.facts()).filter(|facts| facts.workspace) {
        for meta in
            [Value::Null, json!({}), json!({ "workspace": "abc" }), json!({ "workspace": "A".repeat(64) })]
        {
            let answer = raw.call(facts.name, json!({}), meta.clone()).await?;
            assert_eq!(
                answer["error"]["data"]["tag"], "WorkspaceHeaderError",
                "{} {meta} {answer}",
                facts.name
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_upgrade_without_the_token_or_from_a_foreign_place_is_refused() -> Result<()> {
    let (_model, gent, _session) = open(Script::new()).await?;
    let right = format!("Bearer {}", gent.token()?.expose());
    let status = async |headers: &[(&str, &str)]| {
        Ok::<_, anyhow::Error>(RawSocket::upgrade(&gent, headers).await?.err())
    };
    assert_eq!(status(&[]).await?, Some(401));
    assert_eq!(status(&[("Authorization", "Bearer wrong")]).await?, Some(401));
    for origin in ["http://evil.example", "null", "http://localhost.evil.example"] {
        assert_eq!(status(&[("Authorization", &right), ("Origin", origin)]).await?, Some(403), "{origin}");
    }
    assert_eq!(status(&[("Authorization", &right), ("Host", "evil.example")]).await?, Some(403));
    assert_eq!(status(&[("Authorization", &right)]).await?, None);
    Ok(())
}

#[tokio::test]
async fn the_token_of_an_earlier_start_is_refused() -> Result<()> {
    let (_model, gent, _session) = open(Script::new()).await?;
    let old = format!("Bearer {}", gent.token()?.expose());
    let gent = gent.restart().await?;
    assert_eq!(RawSocket::upgrade(&gent, &[("Authorization", &old)]).await?.err(), Some(401));
    Ok(())
}

#[tokio::test]
async fn frames_that_are_no_requests_are_answered_with_their_code() -> Result<()> {
    let (_model, gent, _session) = open(Script::new()).await?;
    let mut raw = RawSocket::open(&gent).await?;
    raw.send("{").await?;
    assert_eq!(raw.next().await?["error"]["code"], -32700);
    raw.send("[]").await?;
    assert_eq!(raw.next().await?["error"]["code"], -32600);
    assert_eq!(raw.call("no.such", json!({}), json!({})).await?["error"]["code"], -32601);
    assert_eq!(raw.call("actor.get", json!({}), json!({})).await?["error"]["code"], -32602);
    let hello = json!({ "client": "x", "version": "9", "protocol": { "major": 99, "minor": 0 } });
    raw.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "server.hello", "params": hello }).to_string())
        .await?;
    assert_eq!(raw.close_code().await?, Some(4426));
    Ok(())
}
