//! What is told to browsers, helpers and the status page.

use consentry_gate::{GrantView, Moment, Remembered, Shown, SiteRule};
use consentry_wire::site::SiteScope;
use consentry_wire::{Epoch, ProfileId};

/// A live grant with everything that decides what it may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveGrant {
    /// The grant.
    pub view: GrantView,
    /// Its path's rule for sites.
    pub rule: SiteRule,
    /// The remembered sites of its path and key.
    pub remembered: Vec<Remembered>,
}

impl LiveGrant {
    /// What it may touch in a browser profile.
    pub fn scope(&self, profile: &ProfileId) -> SiteScope {
        if self.rule == SiteRule::Any {
            return SiteScope::Any;
        }
        let remembered = self.remembered.iter().filter(|r| r.profile == *profile).map(|r| r.site.clone());
        SiteScope::Only(self.view.sites.iter().cloned().chain(remembered).collect())
    }
}

/// Everything that is allowed right now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    /// Counts the changes.
    pub epoch: Epoch,
    /// When this was so, on the clock that bounds permissions.
    pub at: Moment,
    /// Everything is off.
    pub disabled: bool,
    /// The live grants.
    pub grants: Vec<LiveGrant>,
}

/// What the status page shows of the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What is allowed.
    pub live: Live,
    /// The dialog on the screen.
    pub on_screen: Option<Shown>,
    /// Questions that wait for the screen.
    pub waiting: usize,
    /// The remembered sites.
    pub remembered: Vec<Remembered>,
    /// Why calls are refused although nothing is disabled: the audit cannot be written.
    pub audit_failure: Option<String>,
}
