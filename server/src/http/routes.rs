//! Owns what each address answers. The checks of a request come in one order: Host, Origin, token, upgrade.
//! Never says more than one sentence to somebody without the token.
//! Tested in `socket_tests.rs`.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::BodyStream;
use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use gent_protocol::{Identity, PROTOCOL};

use super::Door;
use super::access::{ORIGINS, Refusal, allow_origin, is_token, offered_token};
use super::connections::Peer;
use crate::lifecycle::Phase;
use crate::rpc::connection;
use crate::rpc::outgoing::Outgoing;

/// Adds every address.
pub(crate) fn configure(app: &mut ServiceConfig) {
    app.route("/rpc", web::get().to(upgrade))
        .route("/_gent/identity", web::get().to(identity))
        .route("/livez", web::get().to(alive))
        .route("/readyz", web::get().to(ready))
        .default_service(web::to(nothing));
}

async fn upgrade(request: HttpRequest, payload: web::Payload, door: Data<Door>) -> HttpResponse {
    if let Err(refusal) = check_socket(&request, &door) {
        return refuse(refusal);
    }
    let Some(peer) = request.conn_data::<Rc<Peer>>() else { return refuse(Refusal::Upgrade) };
    let protocols: Vec<&str> = header(&request, SEC_WEBSOCKET_PROTOCOL)
        .map(|offered| offered.split(',').map(str::trim).collect())
        .unwrap_or_default();
    // The library only shakes hands: its reader would buffer an oversized frame whole, and its writer keeps frames
    // by count alone.
    let Ok(empty) = web::Payload::from_request(&request, &mut actix_web::dev::Payload::None).await else {
        return refuse(Refusal::Upgrade);
    };
    let Ok((response, _session, _messages)) = actix_ws::handle_with_protocols(&request, empty, &protocols)
    else {
        return refuse(Refusal::Upgrade);
    };
    let (outgoing, body) = Outgoing::new();
    let open = peer.open();
    let door = Arc::clone(&door);
    // The task owns the connection: it ends by itself, cut at the latest when the peer is silent or the server goes.
    actix_web::rt::spawn(async move {
        let (dispatch, detached) = (Arc::clone(&door.dispatch), Arc::clone(&door.detached));
        connection::run(dispatch, detached, &door.lifecycle, open, payload.into_inner(), outgoing).await;
    });
    response.set_body(BodyStream::new(body)).map_into_boxed_body()
}

async fn identity(request: HttpRequest, door: Data<Door>) -> HttpResponse {
    if let Err(refusal) = check_place(&request, &door) {
        return refuse(refusal);
    }
    let nonce = request.query_string().split('&').find_map(|pair| pair.strip_prefix("nonce="));
    let Some(nonce) = nonce.filter(|nonce| is_nonce(nonce)) else {
        return say(StatusCode::BAD_REQUEST, "Send nonce= with 16 to 64 hex digits.");
    };
    let is_owner = is_token(offered_token(header(&request, AUTHORIZATION), None), &door.token);
    HttpResponse::Ok().insert_header(("cache-control", "no-store")).json(Identity {
        protocol: PROTOCOL,
        build: crate::build(),
        proof: gent_client::identity_proof(&door.token, nonce, door.port),
        pid: is_owner.then(std::process::id),
        data_dir: is_owner.then(|| door.data_dir.clone()),
    })
}

async fn alive(request: HttpRequest, door: Data<Door>) -> HttpResponse {
    match check_place(&request, &door) {
        Ok(()) => say(StatusCode::OK, "alive"),
        Err(refusal) => refuse(refusal),
    }
}

async fn ready(request: HttpRequest, door: Data<Door>) -> HttpResponse {
    if let Err(refusal) = check_place(&request, &door) {
        return refuse(refusal);
    }
    if door.lifecycle.phase() == Phase::Serving {
        say(StatusCode::OK, "ready")
    } else {
        say(StatusCode::SERVICE_UNAVAILABLE, "not ready")
    }
}

async fn nothing(request: HttpRequest, door: Data<Door>) -> HttpResponse {
    match check_place(&request, &door) {
        Ok(()) => say(StatusCode::NOT_FOUND, "There is nothing at this address: the socket is /rpc."),
        Err(refusal) => refuse(refusal),
    }
}

fn check_socket(request: &HttpRequest, door: &Door) -> Result<(), Refusal> {
    check_place(request, door)?;
    let offered = offered_token(header(request, AUTHORIZATION), header(request, SEC_WEBSOCKET_PROTOCOL));
    if !is_token(offered, &door.token) {
        return Err(Refusal::Token);
    }
    let is_upgrade =
        header(request, UPGRADE).is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"));
    if is_upgrade { Ok(()) } else { Err(Refusal::Upgrade) }
}

fn check_place(request: &HttpRequest, door: &Door) -> Result<(), Refusal> {
    let local = request.conn_data::<Rc<Peer>>().and_then(|peer| peer.local());
    let mut hosts = request.headers().get_all(HOST);
    let host = hosts.next().and_then(|host| host.to_str().ok());
    if hosts.next().is_some() || !door.hosts.allow(host, local) {
        return Err(Refusal::Host);
    }
    let origins = request.headers().get_all(ORIGIN).map(|origin| origin.to_str().ok().map(str::to_owned));
    if allow_origin(origins, ORIGINS) { Ok(()) } else { Err(Refusal::Origin) }
}

fn header(request: &HttpRequest, name: HeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}

fn is_nonce(nonce: &str) -> bool {
    (16..=64).contains(&nonce.len()) && nonce.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn refuse(refusal: Refusal) -> HttpResponse {
    tracing::debug!(?refusal, "request.refused");
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::FORBIDDEN);
    let mut response = HttpResponse::build(status);
    response.insert_header(("x-content-type-options", "nosniff"));
    match refusal {
        Refusal::Upgrade => {
            response.insert_header((UPGRADE, "websocket"));
        }
        Refusal::Token => {
            response.insert_header(("www-authenticate", "Bearer"));
        }
        Refusal::Host | Refusal::Origin => {}
    }
    response.content_type("text/plain; charset=utf-8").body(refusal.sentence())
}

fn say(status: StatusCode, sentence: &'static str) -> HttpResponse {
    HttpResponse::build(status)
        .insert_header(("x-content-type-options", "nosniff"))
        .content_type("text/plain; charset=utf-8")
        .body(sentence)
}
