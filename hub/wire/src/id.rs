//! Names of things, each a type of its own so that none is taken for another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a string is not the id that it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct InvalidId {
    text: String,
    /// What would have been accepted.
    pub expected: &'static str,
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $expected:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { text: text.chars().take(40).collect(), expected: $expected })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

string_id!(
    /// The four letters by which a grant is shown, logged and told to helpers; never the secret itself.
    GrantLabel,
    "a grant's label: four capital letters",
    |text| text.len() == 4 && text.bytes().all(|b| b.is_ascii_uppercase())
);

string_id!(
    /// One MCP path, such as `browser`; served at `/<name>/mcp`.
    PathName,
    "a path's name: [a-z][a-z0-9-]{1,30}",
    |text| {
        (2..=31).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }
);

impl PathName {
    /// The browser path.
    pub fn browser() -> Self {
        Self("browser".to_owned())
    }
}

string_id!(
    /// One browser profile that is linked to the hub. The extension makes it once and keeps it.
    ProfileId,
    "a profile's id: 4 to 16 lowercase letters and digits",
    |text| (4..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
);

/// A tab of a linked profile, written `<profile>.<n>`; `n` is the browser's own tab id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TabId {
    /// The profile that the tab lives in.
    pub profile: ProfileId,
    /// The browser's own number for it.
    pub number: u32,
}

impl FromStr for TabId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId {
            text: text.chars().take(40).collect(),
            expected: "a tab's id as list_tabs gives it",
        };
        let (profile, number) = text.rsplit_once('.').ok_or_else(invalid)?;
        let canonical = number.bytes().all(|b| b.is_ascii_digit());
        let number = number.parse().ok().filter(|_| canonical).ok_or_else(invalid)?;
        Ok(Self { profile: profile.parse().map_err(|_| invalid())?, number })
    }
}

impl TryFrom<String> for TabId {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<TabId> for String {
    fn from(id: TabId) -> String {
        id.to_string()
    }
}

impl fmt::Display for TabId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.profile, self.number)
    }
}

/// Counts every change of the set of live grants. A peer refuses a state older than the one it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The one after.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_take_only_their_own_shape() {
        assert!("ABCD".parse::<GrantLabel>().is_ok());
        for bad in ["abcd", "ABC", "ABCDE", "AB1D"] {
            assert!(bad.parse::<GrantLabel>().is_err(), "{bad}");
        }
        assert!("computer-headless".parse::<PathName>().is_ok());
        for bad in ["", "b", "Browser", "-x", "a/b", "x".repeat(32).as_str()] {
            assert!(bad.parse::<PathName>().is_err(), "{bad}");
        }
        let tab: TabId = "k3x9.1234".parse().unwrap();
        assert_eq!((tab.profile.as_str(), tab.number), ("k3x9", 1234));
        for bad in ["1234", "k3x9.", "k3x9.-1", "k3x9.+1", ".7", "k3x9.99999999999"] {
            assert!(bad.parse::<TabId>().is_err(), "{bad}");
        }
    }
}
