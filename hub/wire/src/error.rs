//! The one list of error codes, and the words that go with each.

use serde::{Deserialize, Serialize};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $next:literal;)*) => {
        /// Every error that a caller, the command line or the status page can meet.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $code)] $name,)*
        }

        impl ErrorCode {
            /// All of them, in the order of this file.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name),*];

            /// The code as it is written on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $code,)* }
            }

            /// What to do next, unless the failure knows something more exact.
            pub fn next(self) -> &'static str {
                match self { $(ErrorCode::$name => $next,)* }
            }
        }
    };
}

error_codes! {
    // Who is asking.
    /// No such key, or not for this path.
    Unauthorized = "unauthorized", "use a key that opens this path: the owner makes one with `consentry key add`";
    /// The key waits for the owner's click.
    KeyNotApproved = "key_not_approved", "ask the owner to click Allow in the dialog; it comes again every five minutes and when the hub starts";
    /// A key for this machine's own clients came through the tunnel.
    LocalKeyOnly = "local_key_only", "use the key of the path through the tunnel";

    // The gate.
    /// No grant, an unknown one, or one that has ended.
    NoGrant = "no_grant", "call request_control first and pass its grant_id";
    /// The owner turned everything off.
    Disabled = "disabled", "the owner disabled control; only the owner can enable it at the machine";
    /// The owner said no.
    Rejected = "rejected", "the owner declined; ask again only with a better reason";
    /// Nobody answered in time.
    TimedOut = "timed_out", "try when the owner is at the machine";
    /// The owner wants quiet on this path for a while.
    Cooldown = "cooldown", "wait, then ask again";
    /// This key was denied too often lately.
    AskedTooOften = "asked_too_often", "wait, then ask again";
    /// Another dialog is on the screen.
    DialogBusy = "dialog_busy", "wait for the dialog on the screen to be answered, then ask again";
    /// Too many grants live on this path.
    TooManyGrants = "too_many_grants", "release_control one of yours that is no longer needed, or wait for another to end";
    /// Too many questions wait for the owner.
    TooManyQuestions = "too_many_questions", "wait for the owner to answer the ones that are open";
    /// The owner has locked the screen or walked away.
    ScreenLocked = "screen_locked", "try when the owner has unlocked the screen";
    /// The dialog cannot be shown.
    NoDisplay = "no_display", "the owner must be logged in to a desktop; `consentry doctor` says what is missing";
    /// The pending request is unknown or was answered to somebody else.
    UnknownRequest = "unknown_request", "call request_control without request_id";
    /// The purpose is too long or has too many sentences.
    BadPurpose = "bad_purpose", "say in one or two plain sentences, at most 280 characters, what you will do";
    /// The owner's rules or the machine's policy forbid it.
    Forbidden = "forbidden", "do without it; only the owner can change what is allowed, at the machine";
    /// The owner has not allowed this site.
    SiteNotAllowed = "site_not_allowed", "name the site in request_control, or do without it";
    /// The audit cannot be written, so nothing runs.
    AuditUnavailable = "audit_unavailable", "the owner must free space or mend the audit file; `consentry doctor` says how";
    /// The grant ended while the call ran.
    GrantEnded = "grant_ended", "call request_control again if the work is still wanted";

    // Arguments.
    /// An argument is missing, unknown or of the wrong kind.
    InvalidArgument = "invalid_argument", "correct the named field and call again";
    /// No tool of that name on this path.
    UnknownTool = "unknown_tool", "call tools/list for the names of the tools";
    /// No path of that name, or the owner has not enabled it.
    UnknownPath = "unknown_path", "the owner enables a path in config.toml";
    /// More than the cap; a way to page is named.
    TooLarge = "too_large", "ask for less, or page with the cursor";

    // Time and load.
    /// The deadline passed.
    DeadlineExceeded = "deadline_exceeded", "look at the page before you try again: it may have happened";
    /// The caller went away or cancelled.
    Cancelled = "cancelled", "call again if it is still wanted";
    /// Too much at once.
    Busy = "busy", "try again shortly";
    /// The controlled tab is being used by another grant in a way that would clash.
    TabBusy = "tab_busy", "use another tab, or wait until the other grant has released it";

    // The browser.
    /// No browser is linked.
    ExtensionNotConnected = "extension_not_connected", "ask the owner to start the browser with the extension; `consentry doctor` says what is missing";
    /// No browser of that name is linked.
    UnknownBrowser = "unknown_browser", "leave `browser` out, or use a name that list_tabs shows";
    /// The link broke while the call ran.
    LinkLost = "link_lost", "look at the page before you try again: it may have happened";
    /// No such tab.
    UnknownTab = "unknown_tab", "call list_tabs";
    /// A page that is never driven: the browser's own, the extension's, the hub's.
    ForbiddenPage = "forbidden_page", "only ordinary http and https pages can be driven";
    /// Another debugger holds the tab, or the browser's policy forbids attaching.
    AttachRefused = "attach_refused", "close the developer tools of that tab, or use another tab";
    /// The page went elsewhere between the check and the act.
    DocumentChanged = "document_changed", "read the page again, then act on what is there now";
    /// The tab's renderer crashed.
    TabCrashed = "tab_crashed", "navigate_tab with action reload";
    /// A JavaScript dialog blocks the page.
    PageDialogOpen = "page_dialog_open", "the page shows a dialog of its own, which has to be answered first";
    /// The ref names something that moved, was replaced or is gone.
    StaleRef = "stale_ref", "read the page again and use a ref from that";
    /// No such ref was ever given out for this document.
    UnknownRef = "unknown_ref", "use a ref from read_page of this tab";
    /// The element is there but cannot be acted upon.
    NotActionable = "not_actionable", "scroll, wait for or close what covers it, then read the page again";
    /// The field takes no text from an agent.
    GuardedField = "guarded_field", "ask the owner to fill it in";
    /// The page's script threw or did not end.
    ScriptFailed = "script_failed", "correct the script";
    /// The DevTools command is not one that Consentry ever sends.
    MethodNotAllowed = "method_not_allowed", "use the tools of this path";
    /// The browser refused the command.
    BrowserError = "browser_error", "read the page again; if it repeats, reload the tab";
    /// What was waited for did not come.
    WaitTimedOut = "wait_timed_out", "look at the page, then wait longer or for something else";
    /// The navigation failed.
    NavigationFailed = "navigation_failed", "check the address";

    // Links and helpers.
    /// The two ends speak other versions.
    VersionSkew = "version_skew", "update the older of the two";
    /// A frame that is not one.
    BadFrame = "bad_frame", "update the older of the two";
    /// The peer is not who it should be.
    WrongProof = "wrong_proof", "copy the token again: `consentry extension token`";
    /// That profile is linked already and alive.
    ProfileTaken = "profile_taken", "close the other window of that profile, or give this one another name";
    /// The part of the machine behind this path does not work.
    HelperUnavailable = "helper_unavailable", "`consentry doctor` says what is missing";
    /// Consentry's own fault.
    Internal = "internal", "try again; if it repeats, report it with the hub's log";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a failed call can have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing was done.
    #[default]
    NotStarted,
    /// It may have been done: look before trying again.
    MaybeDone,
}

/// One error, with what a caller needs in order to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Which of the list.
    pub code: ErrorCode,
    /// What was attempted, on what, and what was in the way.
    pub message: String,
    /// What to do now.
    pub next: String,
    /// The argument or setting at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What that field takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// Milliseconds after which asking again makes sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Whether something may have happened.
    #[serde(default)]
    pub outcome: Outcome,
    /// What a page, an app or another program said about it: untrusted text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untrusted: Option<String>,
}

impl Failure {
    /// A failure before anything happened, with the code's own advice.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            next: code.next().to_owned(),
            field: None,
            allowed: None,
            retry_after_ms: None,
            outcome: Outcome::NotStarted,
            untrusted: None,
        }
    }

    /// An argument that is not what it should be.
    pub fn argument(
        field: impl Into<String>,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            field: Some(field.into()),
            allowed: Some(allowed.into()),
            ..Self::new(ErrorCode::InvalidArgument, message)
        }
    }

    /// Replaces the advice.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    /// Says when to ask again.
    #[must_use]
    pub fn retry_after(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// Adds what a page, an app or another program said.
    #[must_use]
    pub fn said(mut self, text: impl Into<String>) -> Self {
        self.untrusted = Some(text.into());
        self
    }

    /// Says that something may have happened.
    #[must_use]
    pub fn maybe_done(mut self) -> Self {
        self.outcome = Outcome::MaybeDone;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_says_what_to_do() {
        let mut list = String::new();
        for code in ErrorCode::ALL {
            let text = serde_json::to_string(code).unwrap();
            assert_eq!(text, format!("\"{}\"", code.as_str()));
            assert_eq!(serde_json::from_str::<ErrorCode>(&text).unwrap(), *code);
            assert!(!code.next().is_empty() && !code.next().ends_with('.'), "{code}");
            list.push_str(&format!("{code}: {}\n", code.next()));
        }
        insta::assert_snapshot!("error_codes", list);
    }
}
