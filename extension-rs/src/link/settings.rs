//! How this browser reaches the hub: the owner's settings, under those of the organisation.

use consentry_wire::ProfileId;
use serde::{Deserialize, Serialize};

/// The hub's port when nobody says otherwise.
pub(crate) const DEFAULT_PORT: u16 = 7312;

/// Which way to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// Native messaging, and WebSocket where no host is registered.
    #[default]
    Auto,
    Native,
    WebSocket,
}

/// What `chrome.storage.local` holds. Everything may be absent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Stored {
    #[serde(flatten)]
    pub(crate) chosen: Chosen,
    /// Made once.
    pub(crate) profile: Option<ProfileId>,
}

/// What can be chosen, by the owner or by the organisation (`managed_schema.json` has the same names).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Chosen {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<Transport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

/// What holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) transport: Transport,
    pub(crate) port: u16,
    pub(crate) token: String,
    pub(crate) name: String,
}

impl Settings {
    /// What the organisation set goes before what the owner chose.
    pub(crate) fn resolve(owner: &Chosen, organisation: &Chosen) -> Self {
        let text = |first: &Option<String>, second: &Option<String>| {
            first.as_ref().or(second.as_ref()).map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        Self {
            transport: organisation.transport.or(owner.transport).unwrap_or_default(),
            port: organisation.port.or(owner.port).filter(|port| *port != 0).unwrap_or(DEFAULT_PORT),
            token: text(&organisation.token, &owner.token),
            name: text(&organisation.name, &owner.name).chars().take(60).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_organisation_goes_before_the_owner_and_both_before_the_defaults() {
        let owner = Chosen { port: Some(9000), token: Some(" t \n".into()), ..Chosen::default() };
        let organisation = Chosen { transport: Some(Transport::Native), ..Chosen::default() };
        let both = Settings::resolve(&owner, &organisation);
        assert_eq!((both.transport, both.port, both.token.as_str()), (Transport::Native, 9000, "t"));
        let none = Settings::resolve(&Chosen::default(), &Chosen::default());
        assert_eq!((none.transport, none.port), (Transport::Auto, DEFAULT_PORT));
    }

    #[test]
    fn storage_reads_back_with_anything_missing() {
        let stored: Stored =
            serde_json::from_str(r#"{"transport":"websocket","profile":"abcd1234"}"#).unwrap();
        assert_eq!(stored.chosen.transport, Some(Transport::WebSocket));
        assert!(stored.profile.is_some() && stored.chosen.port.is_none());
    }
}
