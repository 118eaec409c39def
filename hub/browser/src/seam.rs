//! The seam between the tools and whatever reaches a browser. Tools cannot tell which it is.

use async_trait::async_trait;
use consentry_core::Permit;
use consentry_wire::frame::Op;
use consentry_wire::{Epoch, Failure, ProfileId};
use serde_json::Value;
use std::time::Duration;

/// A browser that can be driven now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserInfo {
    /// Its profile.
    pub profile: ProfileId,
    /// What its owner calls it; may be empty.
    pub name: String,
    /// "Chromium 156".
    pub browser: String,
}

/// Reaches browsers. What happens in them is told to [`crate::Tabs`], in order, and before any reply that follows.
#[async_trait]
pub trait Browser: Send + Sync {
    /// The browsers that can be driven now.
    fn browsers(&self) -> Vec<BrowserInfo>;

    /// Does one thing, at most for `limit`.
    ///
    /// # Errors
    /// What the browser answers, or why it cannot be reached.
    async fn op(
        &self,
        permit: &Permit,
        profile: &ProfileId,
        op: Op,
        limit: Duration,
    ) -> Result<Value, Failure>;

    /// Waits until every browser has acknowledged an epoch. The caller bounds the wait.
    async fn settled(&self, epoch: Epoch);
}
