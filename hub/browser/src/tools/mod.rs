//! The tools, one file each, and what they have in common.

mod activate_tab;
mod click_element;
mod close_tab;
mod evaluate_script;
mod list_tabs;
mod navigate_tab;
mod open_tab;
mod press_key;
mod read_page;
mod take_screenshot;
mod type_text;
mod wait_for;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consentry_core::{
    Annotations, AskedSite, Content, Effective, Permit, Tool, ToolAsk, ToolOutput, ToolSpec, compact_schema,
    parse_args, redact_url,
};
use consentry_wire::Failure;
use consentry_wire::forbidden::HubPorts;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::page::{Ref, TargetBy};
use crate::seam::Browser;
use crate::session::Hands;
use crate::tabs::Tabs;

/// One tool of the browser path.
trait BrowserTool: Send + Sync + 'static {
    /// What it takes, beside `grant_id`.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// What its structured result is.
    type Output: Serialize + JsonSchema + Send;
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    const MARKS: Annotations;

    fn run(
        hands: Hands<'_>,
        args: Self::Args,
    ) -> impl Future<Output = Result<Done<Self::Output>, Failure>> + Send;

    /// What the audit keeps of the arguments; by default everything, so a tool that takes text says otherwise.
    fn summary(args: &Map<String, Value>) -> Map<String, Value> {
        args.clone()
    }

    /// Checks what the types do not, before anybody is asked.
    fn check(_args: &Self::Args) -> Result<(), Failure> {
        Ok(())
    }

    /// What the owner is shown if the tool has to be asked about.
    fn asks(_args: &Map<String, Value>) -> ToolAsk {
        ToolAsk::default()
    }
}

/// What a tool brought about.
struct Done<T> {
    content: Vec<Content>,
    output: T,
    target: Option<String>,
    effect: Option<Effective>,
}

const READS: Annotations =
    Annotations { read_only: true, destructive: false, idempotent: true, open_world: true };
const ACTS: Annotations =
    Annotations { read_only: false, destructive: true, idempotent: false, open_world: true };
const MOVES: Annotations =
    Annotations { read_only: false, destructive: false, idempotent: false, open_world: true };

/// The longest that an answer of the page script is waited for.
const SCRIPT_LIMIT: Duration = Duration::from_secs(10);

/// All tools, in the order in which they are listed.
pub(crate) fn all(browser: &Arc<dyn Browser>, tabs: &Tabs, ports: HubPorts) -> Vec<Box<dyn Tool>> {
    fn tool<T: BrowserTool>(browser: &Arc<dyn Browser>, tabs: &Tabs, ports: HubPorts) -> Box<dyn Tool> {
        let spec = ToolSpec {
            name: T::NAME,
            title: T::TITLE,
            description: T::DESCRIPTION,
            input: compact_schema::<T::Args>(),
            output: compact_schema::<T::Output>(),
            annotations: T::MARKS,
        };
        Box::new(Adapter::<T> {
            browser: browser.clone(),
            tabs: tabs.clone(),
            spec,
            tool: std::marker::PhantomData,
            ports,
        })
    }
    vec![
        tool::<list_tabs::ListTabs>(browser, tabs, ports),
        tool::<open_tab::OpenTab>(browser, tabs, ports),
        tool::<navigate_tab::NavigateTab>(browser, tabs, ports),
        tool::<activate_tab::ActivateTab>(browser, tabs, ports),
        tool::<close_tab::CloseTab>(browser, tabs, ports),
        tool::<read_page::ReadPage>(browser, tabs, ports),
        tool::<click_element::ClickElement>(browser, tabs, ports),
        tool::<type_text::TypeText>(browser, tabs, ports),
        tool::<press_key::PressKey>(browser, tabs, ports),
        tool::<wait_for::WaitForTool>(browser, tabs, ports),
        tool::<take_screenshot::TakeScreenshot>(browser, tabs, ports),
        tool::<evaluate_script::EvaluateScript>(browser, tabs, ports),
    ]
}

struct Adapter<T> {
    browser: Arc<dyn Browser>,
    tabs: Tabs,
    spec: ToolSpec,
    ports: HubPorts,
    tool: std::marker::PhantomData<fn() -> T>,
}

#[async_trait]
impl<T: BrowserTool> Tool for Adapter<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, args: &Map<String, Value>) -> Result<ToolAsk, Failure> {
        T::check(&parse_args::<T::Args>(args.clone())?)?;
        let mut ask = T::asks(args);
        // The owner knows sites, not numbers of tabs, and is shown only what the browser itself said.
        if let Some(tab) = args.get("tab").and_then(Value::as_str) {
            let tab = navigate_tab::tab_id(tab)?;
            let origin =
                |tab: &mut crate::tabs::Tab| tab.documents.main().and_then(|main| main.origin.clone());
            let origin = self.tabs.with(&tab, origin).flatten().map(|origin| origin.to_string());
            ask.target = origin.clone().unwrap_or_default();
            ask.site = Some(origin.map_or(AskedSite::Unknown, AskedSite::Known));
        }
        Ok(ask)
    }

    fn summary(&self, args: &Map<String, Value>) -> Map<String, Value> {
        // A selector can hold what a field contains.
        without_text(&T::summary(args), "selector")
    }

    async fn call(&self, permit: &Permit, args: Map<String, Value>) -> Result<ToolOutput, Failure> {
        let args = parse_args(args)?;
        let hands = Hands { browser: self.browser.as_ref(), tabs: &self.tabs, permit, ports: self.ports };
        let done = T::run(hands, args).await?;
        let structured = match serde_json::to_value(done.output) {
            Ok(Value::Object(structured)) => structured,
            _ => Map::new(),
        };
        Ok(ToolOutput { content: done.content, structured, target: done.target, effect: done.effect })
    }
}

/// How a tool names an element: a ref from a reading, or a CSS selector.
fn target(reference: Option<&str>, selector: Option<&str>) -> Result<Option<TargetBy>, Failure> {
    match (reference, selector) {
        (Some(_), Some(_)) => {
            Err(Failure::argument("selector", "ref and selector exclude each other", "one of them"))
        }
        (Some(reference), None) => {
            let read: Ref = reference.parse().map_err(|error: crate::page::InvalidRef| {
                Failure::argument("ref", error.to_string(), "a ref that read_page gave, such as e12")
            })?;
            Ok(Some(TargetBy::Ref(read)))
        }
        (None, Some(selector)) => Ok(Some(TargetBy::Selector(selector.to_owned()))),
        (None, None) => Ok(None),
    }
}

/// Keeps of a text what the audit may: how long it is.
fn without_text(args: &Map<String, Value>, field: &str) -> Map<String, Value> {
    let mut kept = args.clone();
    if let Some(text) = kept.remove(field) {
        let chars = text.as_str().map_or(0, |text| text.chars().count());
        kept.insert(format!("{field}_chars"), chars.into());
    }
    kept
}

/// Keeps of an address what the audit may.
fn without_query(args: &Map<String, Value>, field: &str) -> Map<String, Value> {
    let mut kept = args.clone();
    if let Some(Value::String(address)) = kept.get_mut(field) {
        *address = redact_url(address);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_audit_keeps_lengths_and_places_and_no_texts() {
        let args = json!({"text": "c4n4ry é", "tab": "k3x9.1"});
        assert_eq!(
            Value::Object(without_text(args.as_object().unwrap(), "text")),
            json!({"text_chars": 8, "tab": "k3x9.1"})
        );
        for (address, kept) in [
            ("https://example.com/a?token=c4n4ry", "https://example.com/a?token=…"),
            ("https://u:c4n4ry@example.com/a#b", "https://example.com/a#…"),
            ("https://example.com/", "https://example.com/"),
        ] {
            let args = json!({ "url": address });
            assert_eq!(
                Value::Object(without_query(args.as_object().unwrap(), "url")),
                json!({ "url": kept })
            );
        }
    }
}
