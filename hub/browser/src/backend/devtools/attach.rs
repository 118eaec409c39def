//! Attaching: for the first grant that holds a tab, let go of with the last.

use consentry_core::Permit;
use consentry_wire::frame::DetachReason;
use consentry_wire::site::Origin;
use consentry_wire::{ErrorCode, Failure, GrantLabel};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::connection::Tree;
use super::failure::{self, CallError};
use super::targets::TargetFacts;
use super::{Held, Shared};
use consentry_wire::held::{Scope, Touch};

/// How often a frame tree is asked for again because a commit came in between.
pub(super) const TREE_TRIES: u32 = 20;

/// A grant's hold on a tab that is being attached. Unless it is kept, dropping it lets go again, so that a tab is
/// never left half set up.
struct Hold<'a> {
    shared: &'a Shared,
    label: &'a GrantLabel,
    tab: u32,
    kept: bool,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.shared.release(self.label, self.tab);
        }
    }
}

impl Shared {
    /// Attaches a tab for a grant. What it shows is told to [`crate::Tabs`] at its place among the tab's events, so
    /// there is nothing left to answer with: a tree that comes later than the events would put back what they changed.
    pub(super) async fn attach(&self, permit: &Permit, tab: u32) -> Result<Value, Failure> {
        // A tab of a grant that has just ended is attached anew rather than taken over: the new one has seen none of
        // its events.
        let live = self.live.borrow().clone();
        self.keep_live(&live);
        let lane = self.lock().targets.lane(tab).ok_or_else(|| unknown(tab))?;
        let _turn = lane.lock().await;
        let facts = self.facts(tab).await?;
        self.scoped(permit, |scope| scope.may_touch(&facts.url, Touch::Use))?;
        permit.check()?;
        let hold = self.hold(permit.label(), tab);
        let attaching = self.attach_in_turn(permit.label(), tab, &facts);
        tokio::select! {
            biased;
            attached = attaching => attached?,
            failure = self.until_let_go(permit.label(), tab) => return Err(failure),
        }
        permit.check()?;
        self.keep(hold)?;
        Ok(json!({}))
    }

    async fn attach_in_turn(&self, label: &GrantLabel, tab: u32, facts: &TargetFacts) -> Result<(), Failure> {
        let failed = |error: CallError| failure::of_attach(&error);
        let known = self.session(tab);
        let session = match &known {
            Some(session) => session.clone(),
            None => {
                let target = json!({ "targetId": facts.target_id, "flatten": true });
                self.call(None, "Target.attachToTarget", &target).await.map_err(failed)?;
                let session = self.session(tab).ok_or_else(|| self.let_go_failure(tab))?;
                let (nothing, on) = (json!({}), json!({ "enabled": true }));
                tokio::try_join!(
                    self.call(Some(&session), "Page.enable", &nothing),
                    self.call(Some(&session), "Runtime.enable", &nothing),
                    // Without it keys and the first click are dropped in a background tab.
                    self.call(Some(&session), "Emulation.setFocusEmulationEnabled", &on),
                )
                .map_err(failed)?;
                session
            }
        };
        let (told, tree) = oneshot::channel();
        {
            let mut state = self.lock();
            let commits = state.held.get(&tab).map_or(0, |held| held.guard.commits);
            let attaching = Some((label.clone(), told));
            let session = session.clone();
            let tree = Tree { tab, session, child: false, commits, tries: TREE_TRIES, attaching };
            self.ask_tree(&mut state, tree);
        }
        tree.await.unwrap_or(Err(CallError::Lost)).map_err(failed)?;
        if known.is_none() {
            self.call(Some(&session), "Target.setAutoAttach", &auto_attach()).await.map_err(failed)?;
        }
        Ok(())
    }

    /// The tab as it is now, if it may be shown at all.
    pub(super) async fn facts(&self, tab: u32) -> Result<TargetFacts, Failure> {
        let target = self.lock().targets.target(tab).map(str::to_owned).ok_or_else(|| unknown(tab))?;
        let answer = self.call(None, "Target.getTargetInfo", &json!({ "targetId": target })).await;
        let mut answer = answer.map_err(|error| failure::of_tab(&error))?;
        let facts: TargetFacts = serde_json::from_value(answer["targetInfo"].take())
            .map_err(|error| crate::session::odd(&error.to_string()))?;
        if self.lock().targets.shows(&facts) { Ok(facts) } else { Err(unknown(tab)) }
    }

    /// Decides with a grant's sites.
    pub(super) fn scoped<T>(&self, permit: &Permit, decide: impl FnOnce(&Scope<'_>) -> T) -> T {
        let profile = self.lock().info.profile.clone();
        let covers = |origin: &Origin| permit.covers(&profile, origin);
        decide(&Scope { label: permit.label(), ports: self.ports, covers: &covers })
    }

    fn session(&self, tab: u32) -> Option<String> {
        self.lock().held.get(&tab)?.session.clone()
    }

    fn hold<'a>(&'a self, label: &'a GrantLabel, tab: u32) -> Hold<'a> {
        let mut state = self.lock();
        let fresh = || Held { backlog: Some(Vec::new()), ..Held::default() };
        state.held.entry(tab).or_insert_with(fresh).guard.holders.insert(label.clone());
        Hold { shared: self, label, tab, kept: false }
    }

    fn keep(&self, mut hold: Hold<'_>) -> Result<(), Failure> {
        if !self.holds(hold.label, hold.tab) {
            return Err(self.let_go_failure(hold.tab));
        }
        hold.kept = true;
        Ok(())
    }

    /// A grant lets go of a tab.
    pub(super) fn release(&self, label: &GrantLabel, tab: u32) {
        let mut state = self.lock();
        let unheld = state.held.get_mut(&tab).is_some_and(|held| {
            held.guard.holders.remove(label);
            held.guard.holders.is_empty()
        });
        if unheld {
            self.let_go(&mut state, tab, DetachReason::Released);
        }
    }

    pub(super) fn holds(&self, label: &GrantLabel, tab: u32) -> bool {
        self.lock().held.get(&tab).is_some_and(|held| held.guard.holders.contains(label))
    }

    /// Waits until a grant no longer holds a tab; gives why.
    async fn until_let_go(&self, label: &GrantLabel, tab: u32) -> Failure {
        let mut moved = self.moved.subscribe();
        while self.holds(label, tab) {
            if moved.changed().await.is_err() {
                break;
            }
        }
        self.let_go_failure(tab)
    }

    /// Why a tab is not held any more.
    fn let_go_failure(&self, tab: u32) -> Failure {
        let state = self.lock();
        if !state.up {
            Failure::new(ErrorCode::LinkLost, "the link to the browser broke")
        } else if state.targets.target(tab).is_none() {
            Failure::new(ErrorCode::UnknownTab, format!("tab {tab} was closed"))
        } else {
            let message = "the tab went where nobody may drive it, or was let go of";
            Failure::new(ErrorCode::ForbiddenPage, message)
        }
    }
}

/// Frames of other processes come with sessions of their own.
pub(super) fn auto_attach() -> Value {
    json!({ "autoAttach": true, "flatten": true, "waitForDebuggerOnStart": false })
}

pub(super) fn unknown(tab: u32) -> Failure {
    Failure::new(ErrorCode::UnknownTab, format!("there is no tab {tab}"))
}
