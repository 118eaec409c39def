//! Tabs: what may be listed, opened and touched, who holds which, and what their events mean.

use consentry_wire::frame::TabInfo;
use consentry_wire::held::{Scope, Touch, Verdict};
use consentry_wire::site::Origin;
use consentry_wire::{ErrorCode, Failure, GrantLabel};
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

impl Guard {
    /// The tabs as a grant may see them.
    pub(crate) fn list(
        &self,
        label: &GrantLabel,
        tabs: Vec<TabFacts>,
        now: Moment,
    ) -> Result<Vec<TabInfo>, Failure> {
        self.scoped(label, now, |scope| {
            Ok(tabs.into_iter().filter(|tab| !tab.incognito).map(|tab| show(tab, scope)).collect())
        })
    }

    /// Whether a grant may open an address, or send a tab there.
    pub(crate) fn may_open(&self, label: &GrantLabel, address: &str, now: Moment) -> Result<(), Failure> {
        self.scoped(label, now, |scope| scope.may_open(address))
    }

    /// Whether a grant may do something with a tab as it is now.
    pub(crate) fn may_touch(
        &self,
        label: &GrantLabel,
        tab: &TabFacts,
        touch: Touch,
        now: Moment,
    ) -> Result<(), Failure> {
        self.scoped(label, now, |scope| {
            if tab.incognito {
                return fail(ErrorCode::UnknownTab, format!("no tab {}", tab.id));
            }
            [&tab.url, &tab.pending_url].into_iter().try_for_each(|address| scope.may_touch(address, touch))
        })
    }

    /// A grant opened a tab.
    pub(crate) fn opened(&mut self, label: &GrantLabel, tab: u32) {
        self.opened.insert(tab, label.clone());
    }

    /// What closing a tab is for a grant.
    pub(crate) fn closing(&self, label: &GrantLabel, tab: u32) -> Touch {
        if self.opened.get(&tab) == Some(label) { Touch::CloseOwn } else { Touch::Move }
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
            held.attached();
        }
    }

    /// How many commits a tab has seen.
    pub(crate) fn commits(&self, tab: u32) -> u64 {
        self.tabs.get(&tab).map_or(0, |held| held.commits)
    }

    /// Takes a session's frame tree.
    pub(crate) fn seed(&mut self, tab: u32, session: Option<&str>, tree: &Value) -> Verdict {
        let (Some(ports), Some(held)) = (self.ports, self.tabs.get_mut(&tab)) else { return Verdict::Drop };
        held.seed(session, tree, ports)
    }

    /// Takes one DevTools event of a held tab.
    pub(crate) fn event(&mut self, tab: u32, session: Option<&str>, method: &str, params: &Value) -> Verdict {
        let (Some(ports), Some(held)) = (self.ports, self.tabs.get_mut(&tab)) else { return Verdict::Drop };
        held.event(session, method, params, ports)
    }

    /// Whether somebody who holds a tab may see what its own document says.
    pub(crate) fn top_is_covered(&self, tab: u32) -> bool {
        let (Some(ports), Some(held)) = (self.ports, self.tabs.get(&tab)) else { return false };
        held.holders.iter().filter_map(|label| self.grants.get(label)).any(|grant| {
            let covers = |origin: &Origin| grant.sites.covers(origin);
            held.top_is_covered(&Scope { label: &grant.label, ports, covers: &covers })
        })
    }

    /// Decides something for a live grant.
    pub(super) fn scoped<T>(
        &self,
        label: &GrantLabel,
        now: Moment,
        decide: impl FnOnce(&Scope<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (grant, ports) = self.live(label, now)?;
        let covers = |origin: &Origin| grant.sites.covers(origin);
        decide(&Scope { label, ports, covers: &covers })
    }
}

fn show(tab: TabFacts, scope: &Scope<'_>) -> TabInfo {
    let (url, title) = scope.show(if tab.url.is_empty() { &tab.pending_url } else { &tab.url }, &tab.title);
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
