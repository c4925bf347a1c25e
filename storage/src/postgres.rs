//! Owns what is peculiar to PostgreSQL: the address without its secrets, the settings, the one-server lock.
//! Never shows user, password or options. Tested below and in `storage/tests/it/postgres.rs`.

use crate::Synchronous;
use crate::connection::{ConnectError, Purpose};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;

/// One server owns a database (a schema of it): the lock lives as long as the writer's connection. A short wait
/// lets a connection that was just lost give it up.
const OWN: &str = "SET lock_timeout = '1500ms'; \
    SELECT pg_advisory_lock(1734700660, hashtext(current_schema()::text)); \
    SET lock_timeout = '5s';";

/// Opens a connection; the writer's takes the one-server lock.
pub(crate) fn connect(
    url: &str,
    purpose: Purpose,
    synchronous: Synchronous,
) -> Result<PgConnection, ConnectError> {
    let mut connection = PgConnection::establish(url)
        .map_err(|error| ConnectError::Unreachable(redact(&error.to_string(), url)))?;
    connection.batch_execute("SET client_min_messages = warning;")?;
    match (purpose, synchronous) {
        (Purpose::Write, Synchronous::Normal) => {}
        (Purpose::Write, Synchronous::Full) => connection.batch_execute("SET synchronous_commit = on")?,
        (Purpose::Read, _) => connection.batch_execute("SET default_transaction_read_only = on")?,
    }
    if purpose == Purpose::Write {
        connection.batch_execute(OWN).map_err(|error| {
            if error.to_string().contains("lock timeout") { ConnectError::InUse } else { error.into() }
        })?;
    }
    Ok(connection)
}

/// The address without user, password and options: `postgres://host:port/database`.
pub(crate) fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "the configured PostgreSQL database".to_owned();
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/{database}")
}

/// Takes every part of the address that may be secret out of a message of the driver.
fn redact(message: &str, url: &str) -> String {
    let Some((_, rest)) = url.split_once("://") else {
        return "its address is not understood: it must be postgres://user:password@host:port/database"
            .to_owned();
    };
    let mut text = message.replace(url, &without_secrets(url));
    if let Some((credentials, _)) = rest.rsplit_once('@') {
        let password = credentials.split_once(':').map_or("", |(_, password)| password);
        for secret in [credentials, password] {
            if !secret.is_empty() {
                text = text.replace(secret, "***");
            }
        }
    }
    if let Some((_, options)) = rest.split_once('?') {
        for option in options.split('&') {
            if let Some(("password", secret)) = option.split_once('=')
                && !secret.is_empty()
            {
                text = text.replace(secret, "***");
            }
        }
    }
    text.trim().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_user_password_and_options() {
        assert_eq!(without_secrets("postgres://u:p@h:1/db?password=x"), "postgres://h:1/db");
        assert_eq!(without_secrets("host=h password=p"), "the configured PostgreSQL database");
    }

    #[test]
    fn a_message_of_the_driver_loses_the_password_wherever_it_stands() {
        let url = "postgres://u:hunter2@h/db?password=tiger9";
        let shown = redact(&format!("bad: {url} hunter2 tiger9"), url);
        assert!(!shown.contains("hunter2") && !shown.contains("tiger9"), "{shown}");
        assert!(!redact("missing = after \"secret\"", "secret").contains("secret"));
    }
}
