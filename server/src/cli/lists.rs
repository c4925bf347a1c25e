//! Owns `gent sessions` and `gent actors`: what is asked for and how it is printed. Tables are drawn by the client crate.
//! Tested below and end to end.

use std::path::Path;

use gent_client::Link;
use gent_protocol::{
    ActorRow, ListActors, ListSessions, Millis, OfferCredentials, Page, PageParams, Session, WorkspaceId,
};
use gent_server::{Environment, Paths};
use gent_tui::{ServerConnector, actors_table, sessions_table};

use super::arguments::{ListOptions, SessionsOptions};
use super::failure::{Failure, say, say_json};
use super::run::directory;
use super::runtime::block_on;
use super::server::{find, none_runs};
use super::starter::Starter;

/// Rows asked for at once.
const PAGE: u32 = 100;

/// `gent sessions`. The store is read through a server, so one is started where none runs.
pub(crate) fn sessions(options: &SessionsOptions, environment: &Environment) -> Result<u8, Failure> {
    let cwd = directory(environment, options.cwd.as_deref())?;
    let workspace = WorkspaceId::for_directory(Path::new(&cwd));
    let starter =
        Starter::Shared { paths: Paths::find(environment, None)?, environment: environment.clone() };
    let limit = options.limit as usize;
    let mut sessions: Vec<Session> = Vec::new();
    block_on(async {
        let mut link = Link::new(ServerConnector::new(starter, workspace, OfferCredentials::default()));
        let mut cursor = None;
        loop {
            let page = PageParams { limit: Some(PAGE.min(options.limit)), cursor };
            let page = link.call(&ListSessions { page }).await?;
            sessions.extend(page.items);
            cursor = page.next;
            if cursor.is_none() || sessions.len() >= limit {
                sessions.truncate(limit);
                return Ok(());
            }
        }
    })?;
    if options.json {
        say_json(&Page::whole(sessions))?;
    } else if sessions.is_empty() {
        say(&format!("there are no sessions of {cwd}: `gent run` starts one\n"))?;
    } else {
        say(&sessions_table(&sessions, now()))?;
    }
    Ok(0)
}

/// `gent actors`. Actors live in a server; none is started to show that there are none.
pub(crate) fn actors(options: &ListOptions, environment: &Environment) -> Result<u8, Failure> {
    let paths = Paths::find(environment, None)?;
    let mut actors: Vec<ActorRow> = Vec::new();
    block_on(async {
        let Some((_, client)) = find(&paths).await? else {
            return Err(Failure::no_server(none_runs(&paths)));
        };
        let mut cursor = None;
        loop {
            let page = PageParams { limit: Some(PAGE), cursor };
            let page = client.call(ListActors { page }).await?;
            actors.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    })?;
    if options.json {
        say_json(&Page::whole(actors))?
    } else {
        say(&actors_text(&actors))?
    }
    Ok(0)
}

fn actors_text(actors: &[ActorRow]) -> String {
    if actors.is_empty() {
        "the server has no branch actors: `gent run` wakes one\n".to_owned()
    } else {
        actors_table(actors)
    }
}

fn now() -> Millis {
    #[expect(
        clippy::disallowed_methods,
        reason = "the program's edge: ages are shown against the clock on the wall"
    )]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_actors_are_a_sentence_and_not_an_empty_table() {
        assert_eq!(actors_text(&[]), "the server has no branch actors: `gent run` wakes one\n");
    }
}
