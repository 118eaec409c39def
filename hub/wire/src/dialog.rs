//! What the hub tells the dialog's process, and what that answers. One JSON line in, JSON lines out.
//!
//! The dialog decides nothing but which button a real pointer clicked. The hub keeps the time as well, so a
//! dialog that hangs is a denial. When its standard input ends, the dialog goes away.

use serde::{Deserialize, Serialize};

/// Everything that one dialog shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogSpec {
    /// The question, in a few words: "Let an agent use your browser?"
    pub title: String,
    /// What is asked for in the asker's own words; untrusted, already cleaned, shown as a quotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// Facts, one a row.
    pub rows: Vec<DialogRow>,
    /// Text in full that may be long (a script, a command): shown in a fixed-width, scrollable box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What the owner should know before allowing: "It will move the mouse and type."
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// From the safest on the left to the most permissive on the right; two or three.
    pub buttons: Vec<DialogButton>,
    /// Seconds until it goes away by itself.
    pub seconds: u16,
    /// What happens then, as a sentence with `{}` where the seconds go: "Denied in {} s."
    pub countdown: String,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogRow {
    /// "Machine", "Client", "Sites".
    pub label: String,
    /// Its value.
    pub value: String,
    /// Whether the value comes from the asker and nobody has checked it; marked so.
    #[serde(default)]
    pub unverified: bool,
}

/// One button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogButton {
    /// What the answer says.
    pub id: String,
    /// What the button says.
    pub label: String,
    /// How it looks.
    #[serde(default)]
    pub style: ButtonStyle,
    /// Whether it permits something: then it takes no click before everything that scrolls was seen to its end.
    #[serde(default)]
    pub permits: bool,
}

/// How a button looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ButtonStyle {
    /// Like any other.
    #[default]
    Plain,
    /// The one that permits.
    Primary,
    /// The one that refuses for longer.
    Quiet,
}

/// A line from the dialog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum DialogEvent {
    /// It is on the screen and can be answered.
    Shown,
    /// A click that does not count, because a program may have posted it; for the audit.
    Ignored {
        /// Why.
        reason: IgnoredClick,
    },
    /// The last line: it is gone from the screen.
    Closed {
        /// Why.
        answer: DialogAnswer,
    },
}

/// Why a click does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IgnoredClick {
    /// Its device is the server's own for posted events.
    SyntheticDevice,
    /// A program posted a button within 100 ms of it.
    PostedNearby,
    /// The window had not stood shown, unmoved and topmost for 700 ms.
    NotSettled,
    /// Another process posted it (macOS).
    SourceProcess,
}

/// How a dialog ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DialogAnswer {
    /// A real pointer clicked this button.
    Button {
        /// Its id.
        id: String,
    },
    /// The seconds went by.
    TimedOut,
    /// It cannot be shown, or no longer; `detail` for the log and `consentry doctor`.
    NoDisplay {
        /// What is missing.
        detail: String,
    },
    /// The screen is locked.
    ScreenLocked,
    /// It was withdrawn, or somebody destroyed its window.
    Withdrawn,
}

/// What `consentry-dialog probe` prints: whether a dialog could be shown now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogProbe {
    /// It could be shown and answered.
    pub ready: bool,
    /// The screen is locked.
    pub locked: bool,
    /// What is missing, or which server and extensions were found.
    pub detail: String,
}
