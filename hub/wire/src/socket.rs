//! `hub.sock`: newline-delimited JSON between the hub and the programs of the same user.
//!
//! Every connection begins with the handshake of [`crate::proof`], the connecting side as caller. Then the
//! caller says what it is. A relay's lines are the extension's frames from there on, both ways and unread; a
//! command line sends one request a line and gets one reply a line.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failure, Version};

/// The longest line in bytes: one piece of a frame with everything escaped, and its wrapping.
pub const MAX_LINE: usize = 1024 * 1024;

/// What connected, right after the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Role {
    /// The native-messaging relay that a browser started.
    Relay {
        /// The frames' version.
        version: Version,
        /// The extension as the browser vouches for it: `chrome-extension://<id>/`.
        origin: String,
    },
    /// A command of `consentry`.
    Command {
        /// The frames' version.
        version: Version,
    },
}

/// One request of the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Which of the hub's commands.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Value,
}

/// The reply to it. A command that follows something sends several, the last with `more` false.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What it brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Whether another reply follows.
    #[serde(default)]
    pub more: bool,
}

/// The name of the native-messaging host, and of the file that describes it.
pub const NATIVE_HOST: &str = "com.consentry.hub";

/// File names in the state folder that both the hub and the relay know.
pub mod files {
    /// The hub's socket.
    pub const SOCKET: &str = "hub.sock";
    /// The secret that hub, relay and extension share.
    pub const TOKEN: &str = "extension-token";
    /// The folder of the programs that are installed beside the state.
    pub const BIN: &str = "bin";
    /// The relay, in that folder.
    pub const RELAY: &str = "consentry-native-host";
}
