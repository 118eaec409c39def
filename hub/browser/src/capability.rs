//! The browser path.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consentry_core::{
    CallRequest, Capability, Client, Effective, Hub, Live, Permit, Tool, ToolOutput, ToolSpec,
};
use consentry_wire::forbidden::HubPorts;
use consentry_wire::frame::Op;
use consentry_wire::{Epoch, ErrorCode, Failure, PathName};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::seam::Browser;
use crate::session::Hands;
use crate::tabs::Tabs;
use crate::tools;

/// How long closing everything that a grant opened may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(20);

/// The browser path over whatever reaches a browser.
pub struct BrowserCapability {
    path: PathName,
    browser: Arc<dyn Browser>,
    tabs: Tabs,
    tools: Vec<Box<dyn Tool>>,
    ports: HubPorts,
}

impl std::fmt::Debug for BrowserCapability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BrowserCapability")
    }
}

impl BrowserCapability {
    /// Over this browser, whose events `tabs` hears. No page on `ports` is ever driven.
    pub fn new(browser: Arc<dyn Browser>, tabs: Tabs, ports: HubPorts) -> Self {
        let tools = tools::all(&browser, &tabs, ports);
        Self { path: PathName::browser(), browser, tabs, tools, ports }
    }

    /// Lets go of what ended grants held, until the hub is gone. Has to be run.
    pub fn follow(&self, mut live: watch::Receiver<Live>) -> impl Future<Output = ()> + Send + use<> {
        let tabs = self.tabs.clone();
        async move {
            while live.changed().await.is_ok() {
                let now = live.borrow_and_update().clone();
                tabs.keep_live(&now);
            }
        }
    }
}

#[async_trait]
impl Capability for BrowserCapability {
    fn path(&self) -> &PathName {
        &self.path
    }

    fn instructions(&self) -> String {
        "Works in the owner's real, signed-in browser, in background tabs.".to_owned()
    }

    fn tools(&self) -> &[Box<dyn Tool>] {
        &self.tools
    }

    async fn ready(&self) -> Result<(), Failure> {
        if self.browser.browsers().is_empty() {
            return Err(Failure::new(ErrorCode::ExtensionNotConnected, "no browser is connected"));
        }
        Ok(())
    }

    async fn close_opened(&self, hub: &Hub, client: &Client, grant_id: Option<&str>) -> Result<(), Failure> {
        let closing = self.tools.iter().find(|tool| tool.spec().name == "close_tab");
        let closing = closing.ok_or_else(|| Failure::new(ErrorCode::Internal, "there is no close_tab"))?;
        let closing = CloseOpened { browser: self, spec: closing.spec() };
        let call = CallRequest { client, path: &self.path, grant_id, limit: CLOSE_LIMIT };
        let permit = hub.admit(call, &closing, &Map::new()).await?;
        let outcome = closing.call(&permit, Map::new()).await.map(drop);
        let code = outcome.as_ref().map_or_else(|failure| failure.code.as_str(), |()| "ok");
        let mut fields = Map::new();
        fields.insert("code".into(), json!(code));
        permit.finish(fields).await;
        outcome
    }

    async fn settled(&self, epoch: Epoch) {
        self.browser.settled(epoch).await;
    }
}

/// `close_tab` for every tab that a grant opened: allowed and written down as one call of it.
struct CloseOpened<'a> {
    browser: &'a BrowserCapability,
    spec: &'a ToolSpec,
}

#[async_trait]
impl Tool for CloseOpened<'_> {
    fn spec(&self) -> &ToolSpec {
        self.spec
    }

    fn summary(&self, _args: &Map<String, Value>) -> Map<String, Value> {
        Map::from_iter([("tab".to_owned(), json!("every tab that the grant opened"))])
    }

    async fn call(&self, permit: &Permit, _args: Map<String, Value>) -> Result<ToolOutput, Failure> {
        let BrowserCapability { browser, tabs, ports, .. } = self.browser;
        let hands = Hands { browser: browser.as_ref(), tabs, permit, ports: *ports };
        let mut outcome = Ok(());
        for tab in tabs.opened_tabs(permit.label()) {
            let closed = hands.op(&tab.profile, Op::Close { tab: tab.number }).await;
            // The owner may have closed it already.
            let closed = closed
                .map(drop)
                .or_else(|failure| if failure.code == ErrorCode::UnknownTab { Ok(()) } else { Err(failure) });
            outcome = outcome.and(closed);
        }
        outcome.map(|()| ToolOutput {
            content: Vec::new(),
            structured: Map::new(),
            target: None,
            effect: Some(Effective::Unverified),
        })
    }
}
