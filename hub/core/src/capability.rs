//! What a path offers.

use async_trait::async_trait;
use consentry_wire::{Epoch, Failure, PathName};
use serde_json::{Map, Value};

use crate::handle::Hub;
use crate::keys::Client;
use crate::permit::Permit;

/// What a client may be told about a tool before it calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotations {
    /// Changes nothing.
    pub read_only: bool,
    /// May destroy something.
    pub destructive: bool,
    /// Twice is the same as once.
    pub idempotent: bool,
    /// Reaches beyond the machine.
    pub open_world: bool,
}

/// A tool as clients see it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Its name: a contract.
    pub name: &'static str,
    /// A few words.
    pub title: &'static str,
    /// What it does, for the model that calls it.
    pub description: &'static str,
    /// JSON Schema of its arguments, without `grant_id`.
    pub input: Map<String, Value>,
    /// JSON Schema of its structured result; a golden file, not part of `tools/list`.
    pub output: Map<String, Value>,
    /// What it can do.
    pub annotations: Annotations,
}

/// What the owner is asked when a tool has a switch, and what an answer is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolAsk {
    /// What it would act upon.
    pub target: String,
    /// The full text.
    pub text: String,
    /// The site that the owner is shown, where the call acts on one. An answer holds there and nowhere else.
    pub site: Option<Site>,
}

/// The site that a call acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Site {
    /// This origin.
    Known(String),
    /// Nobody knows it yet, so the owner cannot be shown it, nor asked.
    Unknown,
}

/// A piece of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text of our own.
    Text(String),
    /// Text that came from a page, an app or a message: goes into the envelope that marks it untrusted.
    Untrusted {
        /// Where it came from.
        source: String,
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Its MIME type.
        mime: &'static str,
        /// Base64.
        data: String,
    },
}

/// What is known about the effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effective {
    /// Read back.
    Confirmed,
    /// Done, as far as can be told, and not read back.
    Unverified,
    /// Nothing came of it.
    NoEffect,
}

/// The result of a call.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    /// For the model.
    pub content: Vec<Content>,
    /// For programs.
    pub structured: Map<String, Value>,
    /// For the audit: what it acted upon (an origin, an app), if anything.
    pub target: Option<String>,
    /// What is known about the effect; none for a tool that only reads.
    pub effect: Option<Effective>,
}

/// One tool.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What clients see.
    fn spec(&self) -> &ToolSpec;

    /// Checks the arguments before anybody is asked about them, and says what the owner would be shown.
    ///
    /// # Errors
    /// What is wrong with them.
    fn check(&self, _args: &Map<String, Value>) -> Result<ToolAsk, Failure> {
        Ok(ToolAsk::default())
    }

    /// What the audit keeps of the arguments: never typed text, never a secret.
    fn summary(&self, args: &Map<String, Value>) -> Map<String, Value>;

    /// Does it. The arguments are as the caller sent them, without `grant_id`.
    async fn call(&self, permit: &Permit, args: Map<String, Value>) -> Result<ToolOutput, Failure>;
}

/// One path.
#[async_trait]
pub trait Capability: Send + Sync {
    /// Its name.
    fn path(&self) -> &PathName;

    /// What a client is told when it connects.
    fn instructions(&self) -> String;

    /// Its tools, in the order in which they are listed.
    fn tools(&self) -> &[Box<dyn Tool>];

    /// Whether it can work at all, so that nobody is asked for something that cannot be.
    ///
    /// # Errors
    /// What is missing.
    async fn ready(&self) -> Result<(), Failure>;

    /// Closes what a grant opened, before it is given back. Most paths open nothing.
    ///
    /// # Errors
    /// When there is no such grant, or something could not be closed.
    async fn close_opened(
        &self,
        _hub: &Hub,
        _client: &Client,
        _grant_id: Option<&str>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Waits until everything behind it has acknowledged an epoch. The caller bounds the wait.
    async fn settled(&self, epoch: Epoch);
}
