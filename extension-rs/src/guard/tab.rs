//! Tabs: what may be listed, opened and touched, who holds which, and what their events mean.

use std::collections::{BTreeMap, BTreeSet};

use consentry_wire::document::{Documents, Frame};
use consentry_wire::forbidden::{self, Forbidden, HubPorts};
use consentry_wire::frame::{GrantState, TabInfo};
use consentry_wire::site::{Origin, SiteScope};
use consentry_wire::{ErrorCode, Failure, GrantLabel, cdp};
use serde::Deserialize;
use serde_json::Value;

use super::{Guard, Moment, fail};

/// A tab as `chrome.tabs` describes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TabFacts {
    pub(crate) id: u32,
    pub(crate) window_id: u32,
    pub(crate) url: String,
    /// Where it is going, before it commits.
    pub(crate) pending_url: String,
    pub(crate) title: String,
    pub(crate) status: String,
    pub(crate) active: bool,
    pub(crate) discarded: bool,
    pub(crate) frozen: bool,
    pub(crate) incognito: bool,
}

/// What is to be done with a tab as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Attaching to it, or loading the same again: its document is used.
    Use,
    /// Going elsewhere, bringing to the front, closing: its document is not.
    Move,
}

/// What one event means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The hub gets it.
    Pass,
    /// The hub gets it, and this child session has to be set up.
    SetUp(String),
    /// The hub does not get it.
    Drop,
    /// The tab went where nobody may drive it: it is let go of at once.
    LetGo,
}

/// A tab that is attached, or about to be.
#[derive(Debug, Default)]
pub(super) struct HeldTab {
    pub(super) holders: BTreeSet<GrantLabel>,
    pub(super) documents: Documents,
    /// Sessions of frames in other processes, each with the one that it was reached through.
    pub(super) sessions: BTreeMap<String, Option<String>>,
    /// Whose an empty document is, by its frame: its own script context alone says so.
    inherited: BTreeMap<String, Origin>,
    /// Counts commits, so that a frame tree asked for before one is not taken for what came after.
    commits: u64,
}

impl Guard {
    /// The tabs as a grant may see them.
    pub(crate) fn list(
        &self,
        label: &GrantLabel,
        tabs: Vec<TabFacts>,
        now: Moment,
    ) -> Result<Vec<TabInfo>, Failure> {
        let (grant, ports) = self.live(label, now)?;
        let seen = tabs.into_iter().filter(|tab| !tab.incognito);
        Ok(seen.map(|tab| show(tab, &grant.sites, ports)).collect())
    }

    /// Whether a grant may open an address, or send a tab there.
    pub(crate) fn may_open(&self, label: &GrantLabel, address: &str, now: Moment) -> Result<(), Failure> {
        let (grant, ports) = self.live(label, now)?;
        if address == "about:blank" {
            return Ok(());
        }
        covers(grant, ports, address, Origin::parse(address).as_ref())
    }

    /// Whether a grant may do something with a tab as it is now.
    pub(crate) fn may_touch(
        &self,
        label: &GrantLabel,
        tab: &TabFacts,
        touch: Touch,
        now: Moment,
    ) -> Result<(), Failure> {
        let (grant, ports) = self.live(label, now)?;
        if tab.incognito {
            return fail(ErrorCode::UnknownTab, format!("no tab {}", tab.id));
        }
        for address in [&tab.url, &tab.pending_url] {
            if address.is_empty() || address == "about:blank" {
                continue;
            }
            match touch {
                Touch::Use => covers(grant, ports, address, Origin::parse(address).as_ref())?,
                Touch::Move => not_forbidden(address, ports)?,
            }
        }
        Ok(())
    }

    /// A grant takes hold of a tab. Says whether nobody held it before, so that it has to be attached.
    pub(crate) fn hold(&mut self, label: &GrantLabel, tab: u32) -> bool {
        let held = self.tabs.entry(tab).or_default();
        let first = held.holders.is_empty();
        held.holders.insert(label.clone());
        first
    }

    /// A grant lets go of a tab. Says whether nobody holds it any more.
    pub(crate) fn release(&mut self, label: &GrantLabel, tab: u32) -> bool {
        self.tabs.get_mut(&tab).is_some_and(|held| {
            held.holders.remove(label);
            held.holders.is_empty()
        })
    }

    /// Whether a grant holds a tab.
    pub(crate) fn holds(&self, label: &GrantLabel, tab: u32) -> bool {
        self.tabs.get(&tab).is_some_and(|held| held.holders.contains(label))
    }

    /// Whether anybody holds a tab.
    pub(crate) fn is_held(&self, tab: u32) -> bool {
        self.tabs.get(&tab).is_some_and(|held| !held.holders.is_empty())
    }

    /// A tab is attached no longer: all that was known of it is forgotten. Says whether anybody held it.
    pub(crate) fn gone(&mut self, tab: u32) -> bool {
        self.tabs.remove(&tab).is_some_and(|held| !held.holders.is_empty())
    }

    /// The tab is attached anew: what was known of its documents no longer holds.
    pub(crate) fn attached(&mut self, tab: u32) {
        if let Some(held) = self.tabs.get_mut(&tab) {
            *held = HeldTab { holders: std::mem::take(&mut held.holders), ..HeldTab::default() };
        }
    }

    /// How many commits a tab has seen.
    pub(crate) fn commits(&self, tab: u32) -> u64 {
        self.tabs.get(&tab).map_or(0, |held| held.commits)
    }

    /// Takes a session's frame tree.
    pub(crate) fn seed(&mut self, tab: u32, session: Option<&str>, tree: &Value) -> Verdict {
        let (Some(ports), Some(held)) = (self.ports, self.tabs.get_mut(&tab)) else { return Verdict::Drop };
        held.documents.seed(session, tree);
        let mut trees = vec![&tree["frameTree"]];
        while let Some(tree) = trees.pop() {
            if undrivable(&tree["frame"], session, ports) {
                return Verdict::LetGo;
            }
            trees.extend(tree["childFrames"].as_array().into_iter().flatten());
        }
        Verdict::Pass
    }

    /// Takes one DevTools event of a held tab.
    pub(crate) fn event(&mut self, tab: u32, session: Option<&str>, method: &str, params: &Value) -> Verdict {
        let (Some(ports), Some(held)) = (self.ports, self.tabs.get_mut(&tab)) else { return Verdict::Drop };
        if !cdp::passes(method) || session.is_some_and(|session| !held.sessions.contains_key(session)) {
            return Verdict::Drop;
        }
        if let Some(frame) = held.documents.event(session, method, params) {
            held.commits += 1;
            held.inherited.remove(&frame);
        }
        match method {
            "Runtime.executionContextCreated" => held.context_created(&params["context"], ports),
            "Page.frameNavigated" if undrivable(&params["frame"], session, ports) => Verdict::LetGo,
            "Target.attachedToTarget" => match params["sessionId"].as_str() {
                Some(child) if params["targetInfo"]["type"] == "iframe" => {
                    held.sessions.insert(child.to_owned(), session.map(str::to_owned));
                    Verdict::SetUp(child.to_owned())
                }
                // Workers and the like are not used.
                _ => Verdict::Drop,
            },
            "Target.detachedFromTarget" => {
                let child = params["sessionId"].as_str().unwrap_or_default();
                let known = held.sessions.remove(child).is_some();
                held.sessions.retain(|_, parent| parent.as_deref() != Some(child));
                if known { Verdict::Pass } else { Verdict::Drop }
            }
            _ => Verdict::Pass,
        }
    }

    /// Whether somebody who holds a tab may see what its own document says.
    pub(crate) fn top_is_covered(&self, tab: u32) -> bool {
        let (Some(ports), Some(held)) = (self.ports, self.tabs.get(&tab)) else { return false };
        let holders = held.holders.iter().filter_map(|label| self.grants.get(label));
        held.documents
            .main()
            .is_some_and(|top| holders.into_iter().any(|grant| held.covered(grant, ports, top).is_ok()))
    }
}

impl HeldTab {
    fn context_created(&mut self, context: &Value, ports: HubPorts) -> Verdict {
        let aux = &context["auxData"];
        let (Some(frame), Some(text)) = (aux["frameId"].as_str(), context["origin"].as_str()) else {
            return Verdict::Pass;
        };
        if forbidden::check(text, ports) == Err(Forbidden::Hub) {
            return Verdict::LetGo;
        }
        if let (true, Some(origin)) = (aux["isDefault"] == true, Origin::parse(text)) {
            self.inherited.insert(frame.to_owned(), origin);
        }
        Verdict::Pass
    }

    /// Whether a grant's sites cover a frame's document.
    pub(super) fn covered(&self, grant: &GrantState, ports: HubPorts, frame: &Frame) -> Result<(), Failure> {
        let empty = frame.url.starts_with("about:");
        let inherited = self.inherited.get(&frame.document.frame).filter(|_| empty);
        covers(grant, ports, &frame.url, frame.origin.as_ref().or(inherited))
    }
}

/// Whether a frame that committed makes its whole tab one that is never driven: the tab's own document when
/// it is not of the web, and any frame when it is the hub's, where a click could allow something. A page that
/// could not be loaded is the browser's own too, but the tab will leave it again; nothing covers it.
fn undrivable(frame: &Value, session: Option<&str>, ports: HubPorts) -> bool {
    let text = |name: &str| frame[name].as_str().unwrap_or_default();
    let top = session.is_none() && frame["parentId"].as_str().is_none();
    let forbidden = forbidden::check(text("url"), ports).err();
    let inherited = forbidden::check(text("securityOrigin"), ports).err();
    let hub = [forbidden, inherited].contains(&Some(Forbidden::Hub));
    let failed = !text("unreachableUrl").is_empty();
    hub || (top && forbidden.is_some() && !failed)
}

fn show(tab: TabFacts, sites: &SiteScope, ports: HubPorts) -> TabInfo {
    let shown = if tab.url.is_empty() { &tab.pending_url } else { &tab.url };
    let origin = Origin::parse(shown);
    let (url, title) = if forbidden::check(shown, ports).is_err() {
        let scheme = shown.split_once(':').map_or("", |(scheme, _)| scheme);
        (format!("{scheme}:"), String::new())
    } else {
        match origin {
            Some(origin) if !sites.covers(&origin) => (origin.to_string(), String::new()),
            Some(_) => (shown.clone(), tab.title),
            // An empty tab: what it is called may come from the page that opened it.
            None => (shown.clone(), String::new()),
        }
    };
    TabInfo {
        tab: tab.id,
        url,
        title,
        active: tab.active,
        window: tab.window_id,
        loading: tab.status == "loading",
        discarded: tab.discarded,
        frozen: tab.frozen,
    }
}

fn not_forbidden(address: &str, ports: HubPorts) -> Result<(), Failure> {
    forbidden::check(address, ports).or_else(|why| fail(ErrorCode::ForbiddenPage, why.reason()))
}

/// Whether a grant's sites cover a document. `origin` is whose it is, which its address alone does not say
/// for about:blank and about:srcdoc.
fn covers(
    grant: &GrantState,
    ports: HubPorts,
    address: &str,
    origin: Option<&Origin>,
) -> Result<(), Failure> {
    not_forbidden(address, ports)?;
    let Some(origin) = origin else {
        return fail(ErrorCode::ForbiddenPage, "the document belongs to no http or https site");
    };
    not_forbidden(&origin.to_string(), ports)?;
    if grant.sites.covers(origin) {
        return Ok(());
    }
    fail(
        ErrorCode::SiteNotAllowed,
        format!("{} is not among the sites of grant {}", origin.site(), grant.label),
    )
}
