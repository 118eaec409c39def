//! What the core needs from the outside, as traits. Adapters implement them; tests do too.

use std::sync::Arc;

use async_trait::async_trait;
use consentry_gate::{Answer, EndReason, GrantView, Remembered, Shown};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::clock::Clock;

/// The dialog on the owner's screen.
#[async_trait]
pub trait Dialog: Send + Sync {
    /// Shows it and waits. Dropping the future takes it from the screen.
    async fn ask(&self, shown: Shown) -> DialogReport;
}

/// How a dialog ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogReport {
    /// The answer.
    pub answer: Answer,
    /// What is worth writing down: clicks that did not count, why it could not be shown.
    pub notes: Vec<String>,
}

/// One line of the audit.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// What kind of line: `request`, `decision`, `call`, `outcome`, `end`, `owner`.
    pub kind: &'static str,
    /// Its fields; never a secret, never typed text.
    pub fields: Map<String, Value>,
}

impl Record {
    /// A record with these fields.
    pub fn new<const N: usize>(kind: &'static str, fields: [(&str, Value); N]) -> Self {
        Self { kind, fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
    }
}

/// How soon a line has to be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Within 200 ms.
    Light,
    /// Before it is acted upon.
    Decision,
}

/// Why the audit cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit cannot be written")]
pub struct AuditError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The audit: append-only.
pub trait Audit: Send + Sync {
    /// Writes one line and gives its number.
    ///
    /// # Errors
    /// When it is not written; then nothing that it announces may happen.
    fn append(&self, record: Record, weight: Weight) -> Result<u64, AuditError>;
}

/// Desktop notifications. Losing one changes nothing.
pub trait Notifier: Send + Sync {
    /// A grant began.
    fn started(&self, grant: &GrantView);
    /// A grant ended.
    fn ended(&self, grant: &GrantView, reason: EndReason);
}

/// The file `DISABLED`.
pub trait KillSwitch: Send + Sync {
    /// Whether it exists now. What cannot be told is taken for disabled.
    fn disabled(&self) -> bool;
    /// Makes it.
    ///
    /// # Errors
    /// When the file cannot be made; everything is disabled in memory all the same.
    fn disable(&self) -> std::io::Result<()>;
    /// Removes it. Only the owner's own doings lead here.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn enable(&self) -> std::io::Result<()>;
}

/// What the owner decided for good.
pub trait Memory: Send + Sync {
    /// Keeps the remembered sites as they are now.
    ///
    /// # Errors
    /// When they cannot be kept; they hold until the hub ends.
    fn keep(&self, sites: &[Remembered]) -> std::io::Result<()>;
}

/// All of them.
#[derive(Clone)]
pub struct Ports {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The screen.
    pub dialog: Arc<dyn Dialog>,
    /// The record.
    pub audit: Arc<dyn Audit>,
    /// The desktop.
    pub notifier: Arc<dyn Notifier>,
    /// The switch.
    pub switch: Arc<dyn KillSwitch>,
    /// The decisions.
    pub memory: Arc<dyn Memory>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ports")
    }
}

/// The reply to a message of the actor.
pub(crate) type Reply<T> = oneshot::Sender<T>;
