//! Two ways to reach browsers as one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consentry_core::Permit;
use consentry_wire::frame::Op;
use consentry_wire::{Epoch, Failure, ProfileId};
use serde_json::Value;

use crate::seam::{Browser, BrowserInfo};

/// Two ways to reach browsers. The first one's browsers come first, so a grant that names none works in one of
/// those as long as there is one: the extension wins.
pub struct Either {
    first: Arc<dyn Browser>,
    second: Arc<dyn Browser>,
}

impl Either {
    /// Prefers the first.
    pub fn new(first: Arc<dyn Browser>, second: Arc<dyn Browser>) -> Self {
        Self { first, second }
    }
}

impl std::fmt::Debug for Either {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Either")
    }
}

#[async_trait]
impl Browser for Either {
    fn browsers(&self) -> Vec<BrowserInfo> {
        let mut browsers = self.first.browsers();
        browsers.extend(self.second.browsers());
        browsers
    }

    async fn op(
        &self,
        permit: &Permit,
        profile: &ProfileId,
        op: Op,
        limit: Duration,
    ) -> Result<Value, Failure> {
        let seconds = self.second.browsers().iter().any(|browser| browser.profile == *profile);
        let way = if seconds { &self.second } else { &self.first };
        way.op(permit, profile, op, limit).await
    }

    async fn settled(&self, epoch: Epoch) {
        tokio::join!(self.first.settled(epoch), self.second.settled(epoch));
    }
}
