//! The tabs as they are known from what browsers say.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use consentry_core::Live;
use consentry_wire::document::Documents;
use consentry_wire::frame::{DetachReason, Event};
use consentry_wire::{GrantLabel, ProfileId, TabId};
use serde_json::Value;
use tokio::sync::watch;

/// All tabs that are or were attached, and who opened what. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tabs {
    inner: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    tabs: HashMap<TabId, Tab>,
    /// Which browser each grant works in: the one that it used first.
    picked: HashMap<GrantLabel, ProfileId>,
    opened: HashMap<TabId, GrantLabel>,
}

/// One attached tab.
#[derive(Debug)]
pub(crate) struct Tab {
    pub(crate) documents: Documents,
    pub(crate) holders: BTreeSet<GrantLabel>,
    /// Contexts in which the page script is.
    pub(crate) scripted: HashSet<String>,
    pub(crate) dialog: Option<PageDialog>,
    pub(crate) crashed: bool,
    pub(crate) loading: bool,
    changes: watch::Sender<u64>,
}

/// A dialog of the page itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageDialog {
    /// alert, confirm, prompt or beforeunload.
    pub(crate) kind: String,
    /// What it says; untrusted.
    pub(crate) message: String,
}

/// Why a page answers nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It shows a dialog of its own.
    Dialog(PageDialog),
    /// Its renderer crashed.
    Crashed,
}

impl Default for Tab {
    fn default() -> Self {
        Self {
            documents: Documents::default(),
            holders: BTreeSet::new(),
            scripted: HashSet::new(),
            dialog: None,
            crashed: false,
            loading: false,
            changes: watch::channel(0).0,
        }
    }
}

impl Tabs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A browser is no longer there, and nothing in it is attached.
    pub fn unlinked(&self, profile: &ProfileId) {
        self.lock().tabs.retain(|tab, _| tab.profile != *profile);
    }

    /// Something happened in a browser.
    pub fn event(&self, profile: &ProfileId, event: &Event) {
        let id = |number: u32| TabId { profile: profile.clone(), number };
        match event {
            Event::Cdp { tab, session, method, params } => {
                let mut state = self.lock();
                let tab = state.tabs.entry(id(*tab)).or_default();
                tab.event(session.as_deref(), method, params);
                tab.changes.send_modify(|count| *count += 1);
            }
            Event::Detached { tab, reason } => {
                let mut state = self.lock();
                // Dropping the entry closes its channel, which ends every wait on it.
                state.tabs.remove(&id(*tab));
                if *reason == DetachReason::Closed {
                    state.opened.remove(&id(*tab));
                }
            }
            Event::Stop { .. } | Event::DisableAll | Event::OpenStatus => {}
        }
    }

    /// Lets go of what ended grants held.
    pub fn keep_live(&self, live: &Live) {
        let lives = |label: &GrantLabel| live.grants.iter().any(|grant| grant.view.label == *label);
        let mut state = self.lock();
        state.picked.retain(|label, _| lives(label));
        state.opened.retain(|_, label| lives(label));
        state.tabs.retain(|_, tab| {
            // One that nobody holds yet is being attached right now.
            let attaching = tab.holders.is_empty();
            tab.holders.retain(lives);
            attaching || !tab.holders.is_empty()
        });
    }

    /// The grants that work in a browser, or have not chosen another yet.
    pub fn grants_in(&self, profile: &ProfileId, live: &Live) -> Vec<GrantLabel> {
        let state = self.lock();
        let labels = live.grants.iter().map(|grant| &grant.view.label);
        labels
            .filter(|label| state.picked.get(label).is_none_or(|picked| picked == profile))
            .cloned()
            .collect()
    }

    /// The attached tabs with their holders, for the status page.
    pub fn driven(&self) -> Vec<(TabId, Vec<GrantLabel>, Option<String>)> {
        let state = self.lock();
        let row = |(id, tab): (&TabId, &Tab)| {
            let origin =
                tab.documents.main().and_then(|frame| frame.origin.as_ref()).map(ToString::to_string);
            (id.clone(), tab.holders.iter().cloned().collect(), origin)
        };
        let mut driven: Vec<_> = state.tabs.iter().map(row).collect();
        driven.sort();
        driven
    }

    pub(crate) fn picked(&self, label: &GrantLabel) -> Option<ProfileId> {
        self.lock().picked.get(label).cloned()
    }

    pub(crate) fn pick(&self, label: &GrantLabel, profile: &ProfileId) {
        self.lock().picked.entry(label.clone()).or_insert_with(|| profile.clone());
    }

    pub(crate) fn opened_by(&self, tab: &TabId) -> Option<GrantLabel> {
        self.lock().opened.get(tab).cloned()
    }

    pub(crate) fn opened(&self, tab: &TabId, label: &GrantLabel) {
        self.lock().opened.insert(tab.clone(), label.clone());
    }

    pub(crate) fn opened_tabs(&self, label: &GrantLabel) -> Vec<TabId> {
        let state = self.lock();
        let mut tabs: Vec<TabId> =
            state.opened.iter().filter(|(_, by)| *by == label).map(|(tab, _)| tab.clone()).collect();
        tabs.sort();
        tabs
    }

    /// A tab is about to be attached: what its page says meanwhile is heard.
    pub(crate) fn expect(&self, tab: &TabId) {
        self.lock().tabs.entry(tab.clone()).or_default();
    }

    /// A grant holds a tab from now on, whose frames the browser has just told.
    pub(crate) fn attached(&self, tab: &TabId, label: &GrantLabel, frame_tree: &Value) {
        let mut state = self.lock();
        let entry = state.tabs.entry(tab.clone()).or_default();
        entry.documents.complete(None, frame_tree);
        entry.holders.insert(label.clone());
        entry.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn holds(&self, tab: &TabId, label: &GrantLabel) -> bool {
        self.lock().tabs.get(tab).is_some_and(|tab| tab.holders.contains(label))
    }

    /// Looks at a tab, or changes what is known of it.
    pub(crate) fn with<T>(&self, tab: &TabId, look: impl FnOnce(&mut Tab) -> T) -> Option<T> {
        self.lock().tabs.get_mut(tab).map(look)
    }

    /// Waits until something about a tab is so. `None` when the tab is let go of.
    pub(crate) async fn until<T>(
        &self,
        tab: &TabId,
        mut look: impl FnMut(&mut Tab) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.with(tab, |tab| tab.changes.subscribe())?;
        loop {
            changes.mark_unchanged();
            if let Some(found) = self.with(tab, &mut look)? {
                return Some(found);
            }
            changes.changed().await.ok()?;
        }
    }
}

impl Tab {
    /// Why the page answers nothing, if so.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let dialog = self.dialog.clone().map(Trouble::Dialog);
        dialog.or_else(|| self.crashed.then_some(Trouble::Crashed))
    }

    fn event(&mut self, session: Option<&str>, method: &str, params: &Value) {
        self.documents.event(session, method, params);
        let main = || self.documents.main().map(|frame| frame.document.frame.clone());
        let on_main = params["frameId"].as_str().is_some_and(|frame| main().as_deref() == Some(frame));
        match method {
            "Page.javascriptDialogOpening" => {
                let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
                self.dialog = Some(PageDialog { kind: text("type"), message: text("message") });
            }
            "Page.javascriptDialogClosed" => self.dialog = None,
            "Page.frameStartedLoading" if on_main => self.loading = true,
            "Page.frameStoppedLoading" if on_main => self.loading = false,
            "Page.loadEventFired" if session.is_none() => self.loading = false,
            "Page.frameNavigated" if session.is_none() && params["frame"]["parentId"].is_null() => {
                // A dialog of the document before ended with it.
                self.dialog = None;
                self.crashed = false;
            }
            "Inspector.targetCrashed" => self.crashed = true,
            "Inspector.targetReloadedAfterCrash" => self.crashed = false,
            "Runtime.executionContextsCleared" if session.is_none() => self.scripted.clear(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tab() -> TabId {
        "k3x9.7".parse().unwrap()
    }

    fn cdp(tabs: &Tabs, method: &str, params: Value) {
        let event = Event::Cdp { tab: 7, session: None, method: method.into(), params };
        tabs.event(&tab().profile, &event);
    }

    #[tokio::test]
    async fn a_wait_ends_with_its_tab() {
        let tabs = Tabs::default();
        let label: GrantLabel = "KQXZ".parse().unwrap();
        let tree = json!({"frameTree": {"frame": {"id": "M", "loaderId": "1", "url": "https://a.test/"}}});
        tabs.attached(&tab(), &label, &tree);
        assert!(tabs.holds(&tab(), &label));
        let id = tab();
        let waiting = tabs.until(&id, |tab| tab.dialog.clone());
        let closing = async {
            cdp(&tabs, "Page.frameStartedLoading", json!({"frameId": "M"}));
            tabs.event(&tab().profile, &Event::Detached { tab: 7, reason: DetachReason::Closed });
        };
        let (found, ()) = tokio::join!(waiting, closing);
        assert_eq!(found, None);
        assert!(!tabs.holds(&tab(), &label));
    }

    #[test]
    fn what_ended_grants_held_is_let_go_of() {
        let tabs = Tabs::default();
        let label: GrantLabel = "KQXZ".parse().unwrap();
        tabs.attached(&tab(), &label, &json!({}));
        tabs.opened(&tab(), &label);
        tabs.pick(&label, &tab().profile);
        tabs.keep_live(&Live::default());
        assert!(
            !tabs.holds(&tab(), &label) && tabs.opened_by(&tab()).is_none() && tabs.picked(&label).is_none()
        );
    }
}
