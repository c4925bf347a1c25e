//! Owns the conformance suite of the store: the same sentences on SQLite and, with the feature `postgres`, on
//! PostgreSQL (`GENT_TEST_POSTGRES_URL`, see `.ci/postgres`).
//! Never shares a database between two tests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test each of these is a failed assertion"
)]

#[macro_use]
mod fixture;

mod damage;
mod delete;
mod events;
mod groups;
mod messages;
mod metrics;
mod opening;
mod owners;
#[cfg(feature = "postgres")]
mod postgres;
mod questions;
mod rows;
mod sessions;
