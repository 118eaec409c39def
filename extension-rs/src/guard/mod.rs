//! What this browser is allowed, and the decision on each thing it is asked to do.
//!
//! Pure: no browser, no clock. Everything that the hub wants passes one of the `may_…` functions here first,
//! and each of them begins with the grant.
//!
//! Invariants:
//! - Without a hub that proved itself, or after [`STATE_LIFE_MS`] without a state, nothing is allowed.
//! - A state older than the last is refused; after the owner's Stop so is every state until the hub has seen it.
//! - A command that reads or acts passes only for the document that its frame holds right now, and only when
//!   the grant's sites cover that document.

mod command;
mod moment;
mod tab;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use consentry_wire::forbidden::HubPorts;
use consentry_wire::frame::{Event, GrantState, State, StopBy};
use consentry_wire::held::HeldTab;
use consentry_wire::{Epoch, ErrorCode, Failure, GrantLabel};

pub(crate) use moment::Moment;
pub(crate) use tab::TabFacts;

/// The hub sends the state every 2 s; after three times that it is taken for lost.
pub(crate) const STATE_LIFE_MS: f64 = 6_000.0;

/// Decides.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// `None` as long as no hub has proved itself.
    ports: Option<HubPorts>,
    epoch: Option<Epoch>,
    disabled: bool,
    grants: BTreeMap<GrantLabel, GrantState>,
    /// When the last state came.
    heard: Moment,
    tabs: BTreeMap<u32, HeldTab>,
    /// Who opened which tab, as far as this worker has seen it.
    opened: BTreeMap<u32, GrantLabel>,
    halted: Option<Halted>,
}

/// The owner stopped everything here, and the hub has not shown yet that it knows.
#[derive(Debug, Clone, Copy)]
struct Halted {
    halt: Halt,
    /// The state that still held the stopped grants; `None` until this hub has sent one.
    at: Option<Epoch>,
}

/// How the owner stops what runs in this browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// Ends this browser's grants.
    Stop(StopBy),
    /// Ends every grant on the machine.
    DisableAll,
}

impl Halt {
    /// What the hub is told.
    pub(crate) fn event(self) -> Event {
        match self {
            Halt::Stop(by) => Event::Stop { by },
            Halt::DisableAll => Event::DisableAll,
        }
    }
}

/// What a change took away: calls of these grants end, these tabs are let go of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) grants: Vec<GrantLabel>,
    pub(crate) tabs: Vec<u32>,
}

/// A state that is older than the one before it, or that comes from no hub.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OldState;

impl Guard {
    /// A hub proved itself and took the link. Gives what it still has to be told of the owner's Stop.
    pub(crate) fn welcome(&mut self, ports: HubPorts) -> Option<Halt> {
        self.ports = Some(ports);
        self.epoch = None;
        self.disabled = false;
        let halted = self.halted.as_mut()?;
        halted.at = None;
        Some(halted.halt)
    }

    /// The hub is lost: nothing is allowed any more.
    pub(crate) fn forget(&mut self) -> Ended {
        self.ports = None;
        self.epoch = None;
        self.disabled = false;
        self.keep(BTreeMap::new())
    }

    /// Takes what the hub allows now.
    ///
    /// # Errors
    /// When it is older than the last.
    pub(crate) fn state(&mut self, state: State, now: Moment) -> Result<Ended, OldState> {
        if self.ports.is_none() || self.epoch.is_some_and(|last| state.epoch < last) {
            return Err(OldState);
        }
        self.epoch = Some(state.epoch);
        self.heard = now;
        self.disabled = state.disabled;
        let none = state.grants.is_empty();
        let held_back = match &mut self.halted {
            None => false,
            Some(halted) => {
                let at = *halted.at.get_or_insert(state.epoch);
                !none && state.epoch <= at
            }
        };
        if !held_back {
            self.halted = None;
        }
        let grants = if held_back || state.disabled { Vec::new() } else { state.grants };
        Ok(self.keep(grants.into_iter().map(|grant| (grant.label.clone(), grant)).collect()))
    }

    /// Whether the last state is too old for anything to be allowed.
    pub(crate) fn is_stale(&self, now: Moment) -> bool {
        now.since(self.heard) >= STATE_LIFE_MS
    }

    /// Ends what has run out.
    pub(crate) fn expire(&mut self, now: Moment) -> Ended {
        let live = self.grants.iter().filter(|(_, grant)| self.lives(grant, now));
        let live: BTreeMap<_, _> = live.map(|(label, grant)| (label.clone(), grant.clone())).collect();
        if live.len() == self.grants.len() { Ended::default() } else { self.keep(live) }
    }

    /// The owner pressed Stop: everything ends here and now, whatever the hub says or does not.
    pub(crate) fn halt(&mut self, halt: Halt) -> Ended {
        self.halted = Some(Halted { halt, at: self.epoch });
        self.keep(BTreeMap::new())
    }

    /// Whether the owner's Stop still waits for a sign that the hub knows.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.is_some()
    }

    fn keep(&mut self, grants: BTreeMap<GrantLabel, GrantState>) -> Ended {
        let before = std::mem::replace(&mut self.grants, grants);
        let mut ended = Ended::default();
        ended.grants.extend(before.into_keys().filter(|label| !self.grants.contains_key(label)));
        self.opened.retain(|_, by| self.grants.contains_key(by));
        for (number, tab) in &mut self.tabs {
            tab.holders.retain(|holder| self.grants.contains_key(holder));
            if tab.holders.is_empty() {
                ended.tabs.push(*number);
            }
        }
        ended
    }

    fn lives(&self, grant: &GrantState, now: Moment) -> bool {
        !self.is_stale(now) && now.since(self.heard) < grant.expires_in_ms as f64
    }

    /// The grant of a call, alive, and the hub's ports.
    fn live(&self, label: &GrantLabel, now: Moment) -> Result<(&GrantState, HubPorts), Failure> {
        let ports = self.ports.ok_or_else(|| Failure::new(ErrorCode::NoGrant, "no hub is linked"))?;
        if self.disabled {
            return Err(Failure::new(ErrorCode::Disabled, "the owner turned everything off"));
        }
        let grant = self.grants.get(label).filter(|grant| self.lives(grant, now));
        let grant =
            grant.ok_or_else(|| Failure::new(ErrorCode::NoGrant, format!("grant {label} is not live")))?;
        Ok((grant, ports))
    }

    /// Whether a grant is alive.
    pub(crate) fn may_run(&self, label: &GrantLabel, now: Moment) -> Result<(), Failure> {
        self.live(label, now).map(drop)
    }

    /// Whether the owner turned everything off.
    pub(crate) fn disabled(&self) -> bool {
        self.disabled
    }

    /// The live grants, each with the milliseconds that it has left.
    pub(crate) fn grants(&self, now: Moment) -> impl Iterator<Item = (&GrantState, u64)> {
        let age = now.since(self.heard);
        self.grants.values().filter(move |grant| self.lives(grant, now)).map(move |grant| {
            let left = (grant.expires_in_ms as f64 - age).max(0.0);
            (grant, left as u64)
        })
    }

    /// The tabs that are held, each with its holders.
    pub(crate) fn held(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = &GrantLabel>)> {
        let held = self.tabs.iter().filter(|(_, tab)| !tab.holders.is_empty());
        held.map(|(number, tab)| (*number, tab.holders.iter()))
    }
}

/// The caller's `next` is enough; the message names what and where.
fn fail<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(code, message))
}
