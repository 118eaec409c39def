//! The browser's tabs by their numbers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::Mutex;

/// A target as the browser describes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TargetFacts {
    pub(super) target_id: String,
    #[serde(rename = "type")]
    kind: String,
    pub(super) title: String,
    pub(super) url: String,
    browser_context_id: String,
    /// Of a page that is prepared in case somebody goes there, and is no tab.
    subtype: String,
}

/// What is known of one tab.
struct Tab {
    target: String,
    /// What is done with one tab is done one thing after the other.
    lane: Arc<Mutex<()>>,
}

/// Tabs and their numbers. A number is never given twice on one connection, nor on the next.
#[derive(Default)]
pub(super) struct Targets {
    /// The profile whose tabs are shown: never those of another one or of a private window.
    context: String,
    numbers: HashMap<String, u32>,
    tabs: BTreeMap<u32, Tab>,
    last: u32,
    /// The tab that was brought to the front of each window, as far as is known.
    active: HashMap<u32, u32>,
}

impl Targets {
    pub(super) fn show_context(&mut self, context: &str) {
        context.clone_into(&mut self.context);
    }

    pub(super) fn context(&self) -> &str {
        &self.context
    }

    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.tabs.clear();
        self.active.clear();
    }

    /// Whether a target is a tab that may be shown at all.
    pub(super) fn shows(&self, facts: &TargetFacts) -> bool {
        facts.kind == "page" && facts.subtype.is_empty() && facts.browser_context_id == self.context
    }

    /// The number of a target, if it is a tab that may be shown.
    pub(super) fn number(&mut self, facts: &TargetFacts) -> Option<u32> {
        if !self.shows(facts) {
            return None;
        }
        if let Some(number) = self.numbers.get(&facts.target_id) {
            return Some(*number);
        }
        self.last += 1;
        self.numbers.insert(facts.target_id.clone(), self.last);
        self.tabs.insert(self.last, Tab { target: facts.target_id.clone(), lane: Arc::default() });
        Some(self.last)
    }

    /// The number of a target that has one.
    pub(super) fn known(&self, target: &str) -> Option<u32> {
        self.numbers.get(target).copied()
    }

    pub(super) fn target(&self, number: u32) -> Option<&str> {
        self.tabs.get(&number).map(|tab| tab.target.as_str())
    }

    pub(super) fn lane(&self, number: u32) -> Option<Arc<Mutex<()>>> {
        self.tabs.get(&number).map(|tab| Arc::clone(&tab.lane))
    }

    /// A target is gone. Gives the number that it had.
    pub(super) fn gone(&mut self, target: &str) -> Option<u32> {
        let number = self.numbers.remove(target)?;
        self.tabs.remove(&number);
        self.active.retain(|_, active| *active != number);
        Some(number)
    }

    pub(super) fn bring_to_front(&mut self, window: u32, number: u32) {
        self.active.insert(window, number);
    }

    pub(super) fn is_active(&self, window: u32, number: u32) -> bool {
        self.active.get(&window) == Some(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts(target: &str, kind: &str, context: &str) -> TargetFacts {
        let facts = json!({"targetId": target, "type": kind, "browserContextId": context, "url": "", "attached": false});
        serde_json::from_value(facts).unwrap()
    }

    #[test]
    fn only_tabs_of_the_one_profile_have_numbers_and_keep_them() {
        let mut targets = Targets::default();
        targets.show_context("C");
        assert_eq!(targets.number(&facts("A", "page", "C")), Some(1));
        assert_eq!(targets.number(&facts("B", "page", "private")), None);
        assert_eq!(targets.number(&facts("B", "browser_ui", "C")), None);
        assert_eq!(targets.number(&facts("A", "page", "C")), Some(1));
        assert_eq!((targets.gone("A"), targets.gone("A")), (Some(1), None));
        assert_eq!(targets.number(&facts("A", "page", "C")), Some(2));
        targets.clear();
        assert_eq!(targets.number(&facts("D", "page", "C")), Some(3));
    }
}
