//! Grants.

use std::collections::BTreeSet;
use std::time::Duration;

use consentry_wire::site::Site;
use consentry_wire::{Epoch, GrantLabel, PathName};
use subtle::ConstantTimeEq;

use crate::moment::{Moment, milliseconds};
use crate::purpose::{Caller, Purpose};
use crate::rules::KeyName;
use crate::screen::Decision;

/// The secret by which a caller uses its grant: 128 random bits. It is never shown, logged or sent to a helper.
#[derive(Clone)]
pub struct GrantId([u8; 16]);

impl GrantId {
    /// Takes fresh random bytes.
    pub fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// Reads what a caller passed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        let ok = text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !ok {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// As the caller gets it. Nothing else may print it.
    pub fn reveal(&self) -> String {
        consentry_wire::proof::hex(&self.0)
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::fmt::Debug for GrantId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GrantId(…)")
    }
}

/// Fresh randomness for one request.
#[derive(Debug, Clone)]
pub struct Fresh {
    /// The secret of the grant that may come of it.
    pub id: GrantId,
    /// Decides the label; the gate takes the next free one.
    pub label_seed: u32,
}

/// Why a grant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its time was over.
    Expired,
    /// It was not used.
    Idle,
    /// The caller gave it back.
    Released,
    /// The owner ended this one, this path or all.
    Killed,
    /// The owner pressed Stop in the browser, or Cancel on Chrome's bar.
    Stopped,
    /// The owner disabled everything.
    Disabled,
    /// Its key was revoked, rotated or expired.
    KeyRevoked,
    /// The screen was locked or the machine slept, and it was for the foreground.
    Away,
    /// The owner took the path away, or made its rules stricter.
    RulesChanged,
    /// The audit can no longer be written.
    AuditFailed,
    /// The hub stopped.
    Shutdown,
}

/// What [`crate::Gate::admit`] hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The grant.
    pub label: GrantLabel,
    /// The epoch it was checked in.
    pub epoch: Epoch,
    /// When it ends at the latest.
    pub expires: Moment,
}

#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) id: GrantId,
    pub(crate) label: GrantLabel,
    pub(crate) path: PathName,
    pub(crate) key: KeyName,
    pub(crate) purpose: Purpose,
    pub(crate) caller: Option<Caller>,
    pub(crate) decision: Decision,
    pub(crate) started: Moment,
    pub(crate) expires: Moment,
    pub(crate) idle: Duration,
    pub(crate) last_used: Moment,
    pub(crate) in_flight: u32,
    pub(crate) calls: u64,
    pub(crate) last_tool: Option<String>,
    /// Sites approved for this grant alone.
    pub(crate) sites: Vec<Site>,
    /// Sites that the owner declined, and until when the question is not asked again.
    pub(crate) declined: Vec<(Site, Moment)>,
    /// Tools that the owner allowed for this grant.
    pub(crate) tools: BTreeSet<String>,
}

impl Grant {
    /// Why it is over at this moment, if it is.
    pub(crate) fn over(&self, now: Moment) -> Option<EndReason> {
        if now >= self.expires {
            Some(EndReason::Expired)
        } else if self.in_flight == 0 && now.since(self.last_used) >= milliseconds(self.idle) {
            Some(EndReason::Idle)
        } else {
            None
        }
    }

    /// When it will be over if nothing more happens.
    pub(crate) fn ends(&self) -> Moment {
        if self.in_flight > 0 { self.expires } else { self.expires.min(self.last_used.after(self.idle)) }
    }

    pub(crate) fn view(&self) -> GrantView {
        GrantView {
            label: self.label.clone(),
            path: self.path.clone(),
            key: self.key.clone(),
            purpose: self.purpose.as_str().to_owned(),
            caller: self.caller.as_ref().map(|caller| caller.as_str().to_owned()),
            decision: self.decision,
            started: self.started,
            expires: self.expires,
            last_used: self.last_used,
            calls: self.calls,
            in_flight: self.in_flight,
            last_tool: self.last_tool.clone(),
            sites: self.sites.clone(),
        }
    }
}

/// A grant as the page, the notifications and the audit show it: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantView {
    /// Its label.
    pub label: GrantLabel,
    /// The path it is for.
    pub path: PathName,
    /// The key that holds it.
    pub key: KeyName,
    /// What it was asked for; untrusted text.
    pub purpose: String,
    /// What the caller calls itself; unverified.
    pub caller: Option<String>,
    /// How it came to be.
    pub decision: Decision,
    /// When it began.
    pub started: Moment,
    /// When it ends at the latest.
    pub expires: Moment,
    /// When it was last used.
    pub last_used: Moment,
    /// Calls so far.
    pub calls: u64,
    /// Calls that run now.
    pub in_flight: u32,
    /// The last tool.
    pub last_tool: Option<String>,
    /// Sites approved for it alone.
    pub sites: Vec<Site>,
}

/// The n-th four-letter label.
pub(crate) fn label(n: u32) -> Option<GrantLabel> {
    // Without I, O and vowels that would make words of it.
    const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
    let mut n = n as usize;
    let mut text = [0_u8; 4];
    for letter in &mut text {
        *letter = LETTERS[n % LETTERS.len()];
        n /= LETTERS.len();
    }
    std::str::from_utf8(&text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_reads_back_and_never_prints_itself() {
        let id = GrantId::new([0xab; 16]);
        assert!(GrantId::parse(&id.reveal()).unwrap().same(&id));
        assert_eq!(format!("{id:?}"), "GrantId(…)");
        for bad in ["", "ab", &"AB".repeat(16), &"ab".repeat(17), &"+b".repeat(16), &"é".repeat(16)] {
            assert!(GrantId::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn labels_are_labels() {
        for n in [0, 1, 19, 20, 159_999, u32::MAX] {
            assert_eq!(label(n).unwrap().as_str().len(), 4);
        }
    }
}
