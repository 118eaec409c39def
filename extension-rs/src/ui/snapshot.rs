//! What the pages ask the worker, and what it answers.

use serde::{Deserialize, Serialize};

use crate::link::status::Status;

/// What a page asks for. Every answer is a [`Snapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Show,
    /// Somebody looks: a link that waits to be tried again is tried now.
    Wake,
    /// End this browser's grants.
    Stop,
    /// End every grant on the machine.
    DisableAll,
    /// Have the hub open its status page.
    OpenStatus,
}

/// How things stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) status: Status,
    pub(crate) disabled: bool,
    /// How many calls are running.
    pub(crate) calls: usize,
    pub(crate) grants: Vec<GrantView>,
}

/// One live grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GrantView {
    pub(crate) label: String,
    pub(crate) client: String,
    pub(crate) purpose: String,
    pub(crate) left_ms: u64,
    /// The tabs that it holds.
    pub(crate) tabs: Vec<u32>,
}
