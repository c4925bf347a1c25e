//! Owns the form of every list: one page of items and the cursor of the next.
//! Never says how many items there are in all: that would cost a scan.
//! Tested in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which page of a list is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageParams {
    /// The most items of the page; the server has its own upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `next` of the page before; absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// The cursor of the next page; absent on the last.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

fn none() -> Option<String> {
    None
}

impl<T> Page<T> {
    /// The only page of a short list.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}
