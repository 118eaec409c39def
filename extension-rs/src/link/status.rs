//! How the link stands, in words for the owner.

use consentry_wire::Failure;
use serde::{Deserialize, Serialize};

/// A way to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Via {
    Native,
    WebSocket,
}

/// How the link stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum Status {
    /// The worker has just begun, or tries again.
    #[default]
    Connecting,
    /// The relay runs, and waits for the hub.
    HubGone { reason: String },
    /// Linked.
    Linked { via: Via, machine: String, build: String },
    /// Not linked; it is tried again by itself.
    Down { trouble: Trouble },
}

/// Why there is no link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "trouble", rename_all = "snake_case")]
pub(crate) enum Trouble {
    /// No native-messaging host of our name.
    HostMissing,
    /// There is one, for another extension id.
    HostForbidden,
    /// It ran and ended.
    HostEnded { reason: String },
    /// WebSocket is chosen, and there is no token.
    NoToken,
    /// Nobody listens on the port, or it is not a hub.
    Unreachable { port: u16 },
    /// What listens there does not hold the token.
    WrongToken { port: u16 },
    /// The hub said no.
    Refused { error: Failure },
    /// It went silent, or spoke nonsense.
    Broken { reason: String },
}

impl Trouble {
    /// What the browser says when a native port ends.
    pub(crate) fn of_port(message: &str) -> Self {
        if message.contains("not found") {
            Trouble::HostMissing
        } else if message.contains("forbidden") {
            Trouble::HostForbidden
        } else {
            Trouble::HostEnded { reason: message.trim_end_matches('.').to_owned() }
        }
    }

    /// Whether trying again soon is of no use: somebody has to do something first.
    pub(crate) fn lasts(&self) -> bool {
        !matches!(self, Trouble::HostEnded { .. } | Trouble::Unreachable { .. } | Trouble::Broken { .. })
    }
}

/// A state in words: what is so, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Words {
    pub(crate) headline: String,
    pub(crate) detail: String,
    /// Something to type in a terminal.
    pub(crate) command: Option<String>,
}

impl Status {
    /// In words.
    pub(crate) fn words(&self) -> Words {
        let words = |headline: &str, detail: String, command: Option<&str>| Words {
            headline: headline.to_owned(),
            detail,
            command: command.map(str::to_owned),
        };
        match self {
            Status::Connecting => words("Connecting…", "Looking for the hub on this machine.".into(), None),
            Status::Linked { via, machine, .. } => {
                let via = match via {
                    Via::Native => "native messaging",
                    Via::WebSocket => "WebSocket",
                };
                words("Connected", format!("{machine}, by {via}"), None)
            }
            Status::HubGone { reason } => words(
                "The hub is not running",
                format!("{}. Start it on this machine; the link is back by itself.", sentence(reason)),
                Some("consentry serve"),
            ),
            Status::Down { trouble } => match trouble {
                Trouble::HostMissing => words(
                    "Not set up yet",
                    "This browser does not know the hub. Register it once, in a terminal:".into(),
                    Some("consentry extension register"),
                ),
                Trouble::HostForbidden => words(
                    "Registered for another extension",
                    "The hub is registered under another extension id. Register it again:".into(),
                    Some("consentry extension register"),
                ),
                Trouble::HostEnded { reason } => words(
                    "The relay ended",
                    format!("{}. It is started again by itself; if this stays, run:", sentence(reason)),
                    Some("consentry doctor"),
                ),
                Trouble::NoToken => words(
                    "A token is missing",
                    "WebSocket needs the hub's token. Copy it from a terminal into the options:".into(),
                    Some("consentry extension token"),
                ),
                Trouble::Unreachable { port } => words(
                    "The hub is not running",
                    format!(
                        "Nothing answers on port {port}. Start the hub, or correct the port in the options."
                    ),
                    Some("consentry serve"),
                ),
                Trouble::WrongToken { port } => words(
                    "Wrong token",
                    format!("What listens on port {port} does not know this token. Copy it again:"),
                    Some("consentry extension token"),
                ),
                Trouble::Refused { error } => words(
                    "The hub refused this browser",
                    format!("{}: {}.", sentence(&error.message), error.next),
                    None,
                ),
                Trouble::Broken { reason } => words(
                    "The link broke",
                    format!("{}. It is tried again by itself; if this stays, run:", sentence(reason)),
                    Some("consentry doctor"),
                ),
            },
        }
    }
}

/// A message as the beginning of a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browsers_words_for_an_ended_port_are_told_apart() {
        let of = Trouble::of_port;
        assert_eq!(of("Specified native messaging host not found."), Trouble::HostMissing);
        assert_eq!(of("Access to the specified native messaging host is forbidden."), Trouble::HostForbidden);
        assert!(matches!(of("Native host has exited."), Trouble::HostEnded { .. }));
    }

    #[test]
    fn whoever_has_no_link_is_told_what_to_do() {
        let missing = Status::Down { trouble: Trouble::HostMissing }.words();
        assert_eq!(missing.command.as_deref(), Some("consentry extension register"));
        let gone = Status::HubGone { reason: "the hub stopped".into() }.words();
        assert!(gone.detail.starts_with("The hub stopped. Start"));
    }
}
