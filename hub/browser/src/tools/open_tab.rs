//! `open_tab`.

use std::time::Duration;

use consentry_core::{Annotations, Content, Effective, ToolAsk, redact_url};
use consentry_wire::frame::{Op, TabInfo};
use consentry_wire::{ErrorCode, Failure, TabId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{BrowserTool, Done, MOVES, without_query};
use crate::session::{Hands, PageSession, odd};

/// How long loading is waited for.
const LOAD: Duration = Duration::from_secs(15);
/// The title of the tab group for what a grant opened.
const GROUP: &str = "Consentry";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// An http or https address.
    url: String,
    /// A profile that list_tabs shows, if there are several.
    #[serde(default)]
    browser: Option<String>,
}

/// The tab as it is after loading.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// What every other tool takes as `tab`.
    tab: String,
    /// Where it ended up.
    url: String,
    /// Whether it has loaded.
    loaded: bool,
}

pub(crate) struct OpenTab;

impl BrowserTool for OpenTab {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "open_tab";
    const TITLE: &'static str = "Open tab";
    const DESCRIPTION: &'static str = "Opens a tab in the background and waits for it to load.";
    const MARKS: Annotations = MOVES;

    fn summary(args: &Map<String, Value>) -> Map<String, Value> {
        without_query(args, "url")
    }

    fn asks(args: &Map<String, Value>) -> ToolAsk {
        let url = args.get("url").and_then(Value::as_str).unwrap_or_default();
        // The audit keeps the target of a question.
        ToolAsk { target: redact_url(url), text: format!("open {url}"), site: None }
    }

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        address(&args.url, "url")?;
        let browser = hands.pick(args.browser.as_deref())?;
        hands.allow_address(&browser.profile, &args.url).await?;
        let op = Op::OpenTab { url: args.url, group: GROUP.into() };
        let info: TabInfo = serde_json::from_value(hands.op(&browser.profile, op).await?)
            .map_err(|error| odd(&error.to_string()))?;
        let tab = TabId { profile: browser.profile, number: info.tab };
        hands.tabs.opened(&tab, hands.permit.label());
        let session = PageSession { hands, tab: tab.clone() };
        session.attach().await?;
        let loaded = arrived(&session).await?;
        session.allow_current().await?;
        let url = session.url();
        let state = if loaded { "loaded" } else { "still loading" };
        Ok(Done {
            content: vec![
                Content::Text(format!("opened tab {tab}, {state}")),
                Content::Untrusted { source: session.origin(), text: url.clone() },
            ],
            target: Some(session.origin()),
            output: Output { tab: tab.to_string(), url, loaded },
            effect: Some(if loaded { Effective::Confirmed } else { Effective::Unverified }),
        })
    }
}

/// Waits until a fresh tab has left its empty beginning and loaded.
async fn arrived(session: &PageSession<'_>) -> Result<bool, Failure> {
    let there = session.wait(LOAD, |tab| {
        let main = tab.documents.main()?;
        (main.origin.is_some() && !tab.loading).then_some(())
    });
    let there = there.await.map_err(|failure| {
        if failure.code == ErrorCode::DocumentChanged { super::navigate_tab::failed() } else { failure }
    })?;
    Ok(there.is_some())
}

/// Only an ordinary address can be gone to.
pub(super) fn address(text: &str, field: &str) -> Result<(), Failure> {
    let allowed = "an http or https address such as https://example.com/";
    let url = url::Url::parse(text)
        .map_err(|error| Failure::argument(field, format!("the address cannot be read: {error}"), allowed))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Failure::argument(
            field,
            format!("{}: addresses are never opened", url.scheme()),
            allowed,
        ));
    }
    Ok(())
}
