//! `list_tabs`.

use consentry_core::{Annotations, Content};
use consentry_wire::Failure;
use consentry_wire::site::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BrowserTool, Done, READS};
use crate::session::Hands;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {}

/// The tabs of every connected browser.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The browsers.
    browsers: Vec<BrowserRow>,
    /// The tabs.
    tabs: Vec<TabRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BrowserRow {
    /// What `open_tab` takes as `browser`.
    profile: String,
    name: String,
    browser: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TabRow {
    /// What every other tool takes as `tab`.
    tab: String,
    /// The address; of a site that is not allowed yet, its origin alone.
    url: String,
    /// The tab in front of its window.
    active: bool,
    /// The tab was opened under this grant.
    yours: bool,
    /// Unloaded to save memory; it loads again when it is used.
    unloaded: bool,
    /// The site may be touched without asking.
    allowed: bool,
}

pub(crate) struct ListTabs;

impl BrowserTool for ListTabs {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "list_tabs";
    const TITLE: &'static str = "List tabs";
    const DESCRIPTION: &'static str = "Lists the open tabs of the owner's browsers. Of sites that are not allowed yet only the origin is shown.";
    const MARKS: Annotations = READS;

    async fn run(hands: Hands<'_>, _args: Args) -> Result<Done<Output>, Failure> {
        let browsers = hands.browsers()?;
        let mut tabs = Vec::new();
        let mut lines = Vec::new();
        for browser in &browsers {
            for info in hands.list(&browser.profile).await? {
                let id = consentry_wire::TabId { profile: browser.profile.clone(), number: info.tab };
                let origin = Origin::parse(&info.url);
                let allowed =
                    origin.as_ref().is_some_and(|origin| hands.permit.covers(&browser.profile, origin));
                let (url, title) = match origin {
                    _ if allowed => (info.url, info.title),
                    Some(origin) => (origin.to_string(), String::new()),
                    None => (scheme(&info.url), String::new()),
                };
                let yours = hands.tabs.opened_by(&id).as_ref() == Some(hands.permit.label());
                let mut marks = Vec::new();
                for (mark, holds) in [("active", info.active), ("yours", yours), ("unloaded", info.discarded)]
                {
                    if holds {
                        marks.push(mark);
                    }
                }
                let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
                lines.push(
                    format!("{id}{marks} {url} {}", consentry_gate::clean(&title)).trim_end().to_owned(),
                );
                tabs.push(TabRow {
                    tab: id.to_string(),
                    url,
                    active: info.active,
                    yours,
                    unloaded: info.discarded,
                    allowed,
                });
            }
        }
        let row = |b: &crate::seam::BrowserInfo| BrowserRow {
            profile: b.profile.to_string(),
            name: b.name.clone(),
            browser: b.browser.clone(),
        };
        let browsers: Vec<BrowserRow> = browsers.iter().map(row).collect();
        let head: Vec<String> = browsers.iter().map(|b| format!("{} ({})", b.profile, b.browser)).collect();
        Ok(Done {
            content: vec![
                Content::Text(format!("{} tabs in {}", tabs.len(), head.join(", "))),
                Content::Untrusted { source: "tab titles and addresses".into(), text: lines.join("\n") },
            ],
            output: Output { browsers, tabs },
            target: None,
            effect: None,
        })
    }
}

fn scheme(address: &str) -> String {
    address.split_once(':').map_or_else(String::new, |(scheme, _)| format!("{scheme}:"))
}
