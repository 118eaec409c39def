//! `navigate_tab`.

use std::time::Duration;

use consentry_core::{Annotations, Content, Effective, ToolAsk};
use consentry_wire::frame::NavigateTo;
use consentry_wire::{ErrorCode, Failure, TabId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{BrowserTool, Done, MOVES, without_query};
use crate::session::Hands;

/// How long loading is waited for.
const LOAD: Duration = Duration::from_secs(15);
/// How long a navigation within the document is waited for.
const WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// From list_tabs or open_tab.
    tab: String,
    /// An http or https address; or else `action`.
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    action: Option<Action>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Back,
    Forward,
    Reload,
}

/// The tab as it is after loading.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Where it ended up.
    url: String,
    /// Whether it has loaded.
    loaded: bool,
}

pub(crate) struct NavigateTab;

impl BrowserTool for NavigateTab {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "navigate_tab";
    const TITLE: &'static str = "Navigate tab";
    const DESCRIPTION: &'static str =
        "Goes to an address, or back, forward or reload, and waits for the page to load.";
    const MARKS: Annotations = MOVES;

    fn summary(args: &Map<String, Value>) -> Map<String, Value> {
        without_query(args, "url")
    }

    fn asks(args: &Map<String, Value>) -> ToolAsk {
        let field = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        ToolAsk { text: format!("go to {}{}", field("url"), field("action")), ..ToolAsk::default() }
    }

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let tab = tab_id(&args.tab)?;
        let to = match (args.url, args.action) {
            (Some(url), None) => {
                super::open_tab::address(&url, "url")?;
                hands.allow_address(&tab.profile, &url).await?;
                NavigateTo::Url(url)
            }
            (None, Some(Action::Back)) => NavigateTo::Back,
            (None, Some(Action::Forward)) => NavigateTo::Forward,
            (None, Some(Action::Reload)) => NavigateTo::Reload,
            _ => {
                return Err(Failure::argument(
                    "url",
                    "one of url and action is needed",
                    "url, or action back, forward or reload",
                ));
            }
        };
        let session = hands.tab(&tab).await?;
        let before = session.document()?;
        let before_url = session.url();
        let same_document = match &to {
            NavigateTo::Url(url) => only_fragment_differs(&before_url, url),
            _ => false,
        };
        session.navigate(to).await?;
        // Within the same document no document is committed: its address changes, or not even that.
        let limit = if same_document { WITHIN } else { LOAD };
        let loaded = session.wait(limit, |tab| {
            let main = tab.documents.main()?;
            let arrived = main.document != before || main.url != before_url;
            (arrived && !tab.loading).then_some(())
        });
        let loaded = loaded
            .await
            .map_err(|failure| if failure.code == ErrorCode::DocumentChanged { failed() } else { failure })?;
        // An address that differs in nothing is arrived at already.
        let loaded = loaded.is_some() || same_document;
        session.allow_current().await?;
        let url = session.url();
        let state = if loaded { "loaded" } else { "has not loaded yet" };
        Ok(Done {
            content: vec![
                Content::Text(format!("{tab} {state}")),
                Content::Untrusted { source: session.origin(), text: url.clone() },
            ],
            target: Some(session.origin()),
            output: Output { url, loaded },
            effect: Some(if loaded { Effective::Confirmed } else { Effective::Unverified }),
        })
    }
}

pub(super) fn failed() -> Failure {
    Failure::new(
        ErrorCode::NavigationFailed,
        "the browser could not show that address, or it leads to a page that is never driven",
    )
    .maybe_done()
}

pub(super) fn tab_id(text: &str) -> Result<TabId, Failure> {
    text.parse().map_err(|error: consentry_wire::id::InvalidId| {
        Failure::argument("tab", error.to_string(), "a tab's id as list_tabs gives it, such as k3x9abcd.12")
    })
}

fn only_fragment_differs(from: &str, to: &str) -> bool {
    let Ok(mut to) = url::Url::parse(to) else { return false };
    let Ok(mut from) = url::Url::parse(from) else { return false };
    let fragment = to.fragment().is_some();
    to.set_fragment(None);
    from.set_fragment(None);
    fragment && from == to
}
