//! Owns the way between columns and values: ids, words and JSON in, the same out, or a named failure.
//! Never repairs a value: what does not decode is reported and left as it is.
//! Tested below and in `storage/tests/it/damage.rs`.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

/// Parses an id out of a column; `place` names the row.
pub(crate) fn id<T>(text: &str, place: impl FnOnce() -> String) -> Result<T, StoreError>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().map_err(|source| StoreError::Undecodable { what: place(), source: Arc::new(source) })
}

/// Parses an id out of a column that may be empty.
pub(crate) fn optional_id<T>(
    text: Option<&str>,
    place: impl FnOnce() -> String,
) -> Result<Option<T>, StoreError>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.map(|text| id(text, place)).transpose()
}

/// Parses JSON out of a column; `place` names the row.
pub(crate) fn json<T: DeserializeOwned>(text: &str, place: impl FnOnce() -> String) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|source| StoreError::Undecodable { what: place(), source: Arc::new(source) })
}

/// Writes a value as JSON.
pub(crate) fn to_json(value: &(impl Serialize + ?Sized)) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|source| StoreError::Failed {
        message: "a value has no JSON form".to_owned(),
        source: Some(Arc::new(source)),
    })
}

/// Parses a fieldless value, such as a role, that serde writes as one word.
pub(crate) fn word<T: DeserializeOwned>(text: &str, place: impl FnOnce() -> String) -> Result<T, StoreError> {
    T::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text))
        .map_err(|source| StoreError::Undecodable { what: place(), source: Arc::new(source) })
}

/// Writes a fieldless value as the word that serde gives it.
pub(crate) fn to_word(value: &impl Serialize) -> Result<String, StoreError> {
    Ok(to_json(value)?.trim_matches('"').to_owned())
}

/// A count out of a column; `place` names the row.
pub(crate) fn count<T: TryFrom<i64, Error = std::num::TryFromIntError>>(
    number: i64,
    place: impl FnOnce() -> String,
) -> Result<T, StoreError> {
    T::try_from(number).map_err(|source| StoreError::Undecodable { what: place(), source: Arc::new(source) })
}

/// A 64-bit count as a column; what exceeds the column counts as its greatest value.
pub(crate) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a cursor that this crate gave out; `list` names the list it belongs to.
pub(crate) fn cursor_number(text: &str, list: impl Display) -> Result<i64, StoreError> {
    text.parse::<i64>().ok().filter(|number| *number >= 0).ok_or_else(|| bad_cursor(list))
}

/// The refusal of a cursor that this crate did not give out.
pub(crate) fn bad_cursor(list: impl Display) -> StoreError {
    StoreError::Conflict {
        message: format!("the cursor is not one of the list of {list}: start again without a cursor"),
    }
}

#[cfg(test)]
mod tests {
    use gent_protocol::{ReasoningEffort, Role};

    use super::*;

    #[test]
    fn a_word_is_written_and_read_as_the_wire_spells_it() {
        assert_eq!(to_word(&ReasoningEffort::Xhigh).unwrap(), "xhigh");
        assert_eq!(word::<Role>("assistant", String::new).unwrap(), Role::Assistant);
        assert!(word::<Role>("nobody", || "message m".to_owned()).is_err());
    }

    #[test]
    fn a_foreign_cursor_is_refused_with_a_sentence() {
        assert_eq!(cursor_number("7", "messages").unwrap(), 7);
        for bad in ["", "-1", "x"] {
            let error = cursor_number(bad, "messages").unwrap_err();
            assert!(error.to_string().contains("list of messages"), "{error}");
        }
    }
}
