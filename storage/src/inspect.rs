//! Owns the look at a database that is not opened as a store, for `gent doctor`.
//! Never changes it: opens read-only, never migrates.
//! Tested in `storage/tests/it/opening.rs`.

use std::sync::Arc;

use diesel::prelude::*;

use crate::opening::{Found, Line, failure, known_version, sqlite_dangling, sqlite_look, versions};
use crate::{Location, OpenError};

/// What `gent doctor` is told of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The newest migration that was applied; none for a database without any.
    pub schema: Option<String>,
    /// The newest migration that this build knows.
    pub known: String,
    /// What the integrity check found; empty when all is well.
    pub damage: Vec<String>,
    /// The first rows that point nowhere; empty when all is well.
    pub dangling: Vec<String>,
}

/// Looks at a database without changing it: schema version, integrity, rows that point nowhere. A file that is not
/// there is `Unreachable`, somebody else's is `Foreign`.
pub fn inspect(location: &Location) -> Result<Inspection, OpenError> {
    let place = location.to_string();
    match location {
        Location::Sqlite(path) => {
            if !path.exists() {
                return Err(OpenError::Unreachable { place, reason: "there is no such file".to_owned() });
            }
            let mut connection = sqlite_read_only(path)
                .map_err(|reason| OpenError::Unreachable { place: place.clone(), reason })?;
            match inspect_sqlite(&mut connection).map_err(|error| failure(&place, Arc::new(error))) {
                Ok(inspection) => inspection.ok_or(OpenError::Foreign { place, source: None }),
                // So damaged that not even the checks run: that is what they found.
                Err(OpenError::Damaged { source, .. }) => Ok(Inspection {
                    schema: None,
                    known: known_version(),
                    damage: vec![source.to_string()],
                    dangling: Vec::new(),
                }),
                Err(error) => Err(error),
            }
        }
        #[cfg(feature = "postgres")]
        Location::Postgres(url) => {
            use crate::connection::Purpose;
            let mut connection = crate::postgres::connect(url, Purpose::Read, crate::Synchronous::Normal)
                .map_err(|error| crate::opening::unreachable(&place, error))?;
            let recorded: Vec<Line> = diesel::sql_query(
                "SELECT tablename::text AS t FROM pg_tables WHERE schemaname = current_schema() \
                 AND tablename = '__diesel_schema_migrations'",
            )
            .load(&mut connection)
            .map_err(|error| failure(&place, Arc::new(error)))?;
            let schema: Vec<Line> = if recorded.is_empty() {
                Vec::new()
            } else {
                diesel::sql_query("SELECT max(version)::text AS t FROM __diesel_schema_migrations")
                    .load(&mut connection)
                    .map_err(|error| failure(&place, Arc::new(error)))?
            };
            // PostgreSQL checks both itself, all the time.
            Ok(Inspection {
                schema: schema.into_iter().next().map(|line| line.t),
                known: known_version(),
                damage: Vec::new(),
                dangling: Vec::new(),
            })
        }
    }
}

/// Opens the file by a `file:` address, which can ask for `mode=ro`.
fn sqlite_read_only(path: &std::path::Path) -> Result<SqliteConnection, String> {
    let text = path.to_str().ok_or_else(|| "its path is not UTF-8".to_owned())?;
    let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    SqliteConnection::establish(&format!("file:{escaped}?mode=ro")).map_err(|error| error.to_string())
}

fn inspect_sqlite(connection: &mut SqliteConnection) -> QueryResult<Option<Inspection>> {
    match sqlite_look(connection)? {
        Found::Foreign => return Ok(None),
        Found::New | Found::Ours => {}
    }
    let checked: Vec<Line> =
        diesel::sql_query("SELECT quick_check AS t FROM pragma_quick_check").load(connection)?;
    Ok(Some(Inspection {
        schema: versions(connection)?.pop(),
        known: known_version(),
        damage: checked.into_iter().map(|line| line.t).filter(|line| line != "ok").collect(),
        dangling: sqlite_dangling(connection)?,
    }))
}
