//! The linked browsers as the browser path sees them, and what they say.

use std::time::Duration;

use async_trait::async_trait;
use consentry_browser::{Browser, BrowserInfo, Tabs};
use consentry_core::{Hub, Permit};
use consentry_gate::{EndReason, Which};
use consentry_link::{LinkEvents, Links};
use consentry_wire::frame::{Event, Hello, Op};
use consentry_wire::{Epoch, Failure, ProfileId};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Running;

/// The browser seam over the extension's links.
pub(crate) struct Linked(pub(crate) Links);

#[async_trait]
impl Browser for Linked {
    fn browsers(&self) -> Vec<BrowserInfo> {
        let info = |link: consentry_link::LinkInfo| BrowserInfo {
            profile: link.profile,
            name: link.name,
            browser: link.browser,
        };
        self.0.list().into_iter().map(info).collect()
    }

    async fn op(
        &self,
        permit: &Permit,
        profile: &ProfileId,
        op: Op,
        limit: Duration,
    ) -> Result<Value, Failure> {
        permit.check()?;
        self.0.call(profile, permit.label(), op, limit).await
    }

    async fn settled(&self, epoch: Epoch) {
        self.0.settled(epoch).await;
    }
}

/// Hears what browsers say.
pub(crate) struct Events {
    pub(crate) hub: Hub,
    pub(crate) tabs: Tabs,
    pub(crate) opener: mpsc::Sender<()>,
}

impl LinkEvents for Events {
    fn linked(&self, _hello: &Hello) {
        self.hub.touch();
    }

    fn unlinked(&self, profile: &ProfileId) {
        self.tabs.unlinked(profile);
        self.hub.touch();
    }

    fn event(&self, profile: &ProfileId, event: Event) {
        self.tabs.event(profile, &event);
        match event {
            Event::Stop { .. } => {
                let labels = self.tabs.grants_in(profile, &self.hub.live().borrow());
                self.hub.kill_soon(Which::Labels(labels), EndReason::Stopped, "browser");
            }
            Event::DisableAll => self.hub.disable_soon("popup"),
            Event::OpenStatus => {
                // One that waits already opens the page as well.
                let _ = self.opener.try_send(());
            }
            Event::Detached { .. } => self.hub.touch(),
            Event::Cdp { .. } => {}
        }
    }
}

/// The two ends of the wish to see the status page.
pub(crate) fn opener() -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
    mpsc::channel(1)
}

/// Opens the status page when the popup asks for it.
pub(crate) async fn open_pages(running: Running, mut wishes: mpsc::Receiver<()>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            wish = wishes.recv() => if wish.is_none() { return },
        }
        let link = running.page_link();
        if let Err(error) = crate::commands::open::in_browser(&link).await {
            tracing::warn!(%error, "the status page cannot be opened from here");
        }
    }
}

impl Running {
    /// A link to the status page that works once.
    pub(crate) fn page_link(&self) -> String {
        format!("http://127.0.0.1:{}/open?once={}", self.ports.control, self.sessions.link())
    }
}
