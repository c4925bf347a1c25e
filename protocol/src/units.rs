//! Owns the number types of the wire, so that a count of milliseconds is never passed as an event number.
//! Never converts silently: each unit says what it counts.
//! Tested in `protocol/tests/wire.rs`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Milliseconds: of a duration, or since the Unix epoch where a field is named `…At`.
    Millis(i64)
);
number!(
    /// The number of an event within its session, from 1, in commit order. 0 is "before the first".
    EventSeq(i64)
);
number!(
    /// The place of a message within its branch, from 1.
    Ordinal(i64)
);
