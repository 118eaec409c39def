//! The owner's rules, already validated. Whoever reads them from a file checks the ranges given here.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use consentry_wire::PathName;
use serde::{Deserialize, Serialize};

/// The name of a key: what dialogs and the audit call its holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyName(String);

/// Why a text is no key's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key's name is 1 to 40 of a-z, 0-9, '-', '_' and '.', and begins with a letter or digit")]
pub struct BadKeyName;

impl FromStr for KeyName {
    type Err = BadKeyName;
    fn from_str(text: &str) -> Result<Self, BadKeyName> {
        let fits = (1..=40).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b));
        if fits { Ok(Self(text.to_owned())) } else { Err(BadKeyName) }
    }
}

impl TryFrom<String> for KeyName {
    type Error = BadKeyName;
    fn try_from(text: String) -> Result<Self, BadKeyName> {
        text.parse()
    }
}

impl From<KeyName> for String {
    fn from(name: KeyName) -> String {
        name.0
    }
}

impl KeyName {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for KeyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything that the owner decides beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The paths that the owner enabled. Others do not exist.
    pub paths: BTreeMap<PathName, PathRules>,
}

/// The rules of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRules {
    /// Minutes that a grant lives when the caller does not say.
    pub minutes: u16,
    /// The most that a caller may ask for.
    pub max_minutes: u16,
    /// A grant ends when it is not used for so long.
    pub idle: Duration,
    /// Live grants at a time.
    pub max_grants: u8,
    /// How long a dialog stands.
    pub window: Duration,
    /// What an unanswered request means.
    pub on_timeout: OnTimeout,
    /// After Kill or "Disallow and cool down".
    pub cooldown: Duration,
    /// Whether it moves the mouse and types on the owner's screen.
    pub foreground: bool,
    /// Which sites.
    pub sites: SiteRule,
    /// Tools that have a switch of their own, such as `evaluate_script`.
    pub switches: BTreeMap<String, Switch>,
    /// Whether to ask about each call that changes something.
    pub ask_changes: bool,
}

impl PathRules {
    /// What `minutes` and `max_minutes` may be.
    pub const MINUTES: RangeInclusive<u16> = 1..=120;
    /// What `window` may be, in seconds.
    pub const WINDOW_SECONDS: RangeInclusive<u16> = 3..=120;
    /// What `max_grants` may be.
    pub const GRANTS: RangeInclusive<u8> = 1..=16;
}

impl Default for PathRules {
    fn default() -> Self {
        Self {
            minutes: 30,
            max_minutes: 120,
            idle: Duration::from_secs(600),
            max_grants: 4,
            window: Duration::from_secs(10),
            on_timeout: OnTimeout::Deny,
            cooldown: Duration::from_secs(60),
            foreground: false,
            sites: SiteRule::Ask,
            switches: BTreeMap::new(),
            ask_changes: false,
        }
    }
}

/// What an unanswered request for control means.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OnTimeout {
    /// Denied.
    #[default]
    Deny,
    /// Allowed: the dialog is a veto window.
    Allow {
        /// Only for these keys, if any are named.
        keys: Option<Vec<KeyName>>,
        /// Only at these hours, if given.
        hours: Option<Hours>,
    },
}

impl OnTimeout {
    /// Whether an unanswered request of this key, shown at this minute of the day, is allowed.
    pub fn allows(&self, key: &KeyName, minute_of_day: u16) -> bool {
        match self {
            OnTimeout::Deny => false,
            OnTimeout::Allow { keys, hours } => {
                keys.as_ref().is_none_or(|keys| keys.contains(key))
                    && hours.is_none_or(|hours| hours.contains(minute_of_day))
            }
        }
    }
}

/// Hours of the day, by the local clock; may go over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// First minute of the day.
    pub from: u16,
    /// The minute at which it no longer holds.
    pub to: u16,
}

impl Hours {
    fn contains(self, minute: u16) -> bool {
        if self.from <= self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

/// Which sites a grant of a path may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteRule {
    /// Those that the owner allowed; another asks on first touch.
    #[default]
    Ask,
    /// All.
    Any,
}

/// A tool's own switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// Never.
    Off,
    /// Asks about each call.
    #[default]
    Ask,
    /// Like any other tool.
    On,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_go_over_midnight() {
        let night = Hours { from: 22 * 60, to: 6 * 60 };
        assert!(
            night.contains(23 * 60)
                && night.contains(0)
                && !night.contains(6 * 60)
                && !night.contains(12 * 60)
        );
        let day = Hours { from: 9 * 60, to: 17 * 60 };
        assert!(day.contains(9 * 60) && !day.contains(17 * 60));
    }

    #[test]
    fn a_veto_window_holds_only_for_the_named_keys_and_hours() {
        let key: KeyName = "phone".parse().unwrap();
        let other: KeyName = "other".parse().unwrap();
        let rule =
            OnTimeout::Allow { keys: Some(vec![key.clone()]), hours: Some(Hours { from: 60, to: 120 }) };
        assert!(rule.allows(&key, 60) && !rule.allows(&key, 120) && !rule.allows(&other, 60));
        assert!(OnTimeout::Allow { keys: None, hours: None }.allows(&other, 0));
        assert!(!OnTimeout::Deny.allows(&key, 60));
    }
}
