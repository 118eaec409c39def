//! The frames between the hub and the extension, the same over native messaging and over WebSocket.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::DocumentId;
use crate::forbidden::HubPorts;
use crate::site::SiteScope;
use crate::{Epoch, Failure, GrantLabel, PathName, ProfileId, Version};

/// What the hub says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToExtension {
    /// The answer to `hello`: the hub takes the link.
    Welcome(Welcome),
    /// The hub does not take the link, and closes it.
    Refused {
        /// Why.
        error: Failure,
    },
    /// The live grants of this browser. Sent on each change and every 2 s; idempotent.
    State(State),
    /// One thing to do.
    Call(Call),
    /// The caller went away or the grant ended: the answer is no longer wanted.
    Cancel {
        /// The call's id.
        id: u64,
    },
    /// Keeps the worker alive; sent at least every 20 s.
    Ping,
    /// The unpacked copy on disk is newer: reload when no call is in flight.
    Reload,
}

/// What the hub tells a browser that it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The frames' version.
    pub version: Version,
    /// The hub's build, for the popup.
    pub build: String,
    /// The machine's name, for the popup.
    pub machine: String,
    /// The hub's ports: no page on them is ever driven.
    pub ports: HubPorts,
}

/// Everything that a browser is allowed right now. No state for 6 s is an empty one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// Counts the changes; an older one than the last is refused.
    pub epoch: Epoch,
    /// The owner turned everything off.
    pub disabled: bool,
    /// The live grants that may use this browser.
    pub grants: Vec<GrantState>,
}

/// One live grant as a browser knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantState {
    /// Its label.
    pub label: GrantLabel,
    /// The path it was given for.
    pub path: PathName,
    /// The name of the key that holds it.
    pub client: String,
    /// What it was asked for; untrusted text.
    pub purpose: String,
    /// What it may touch.
    pub sites: SiteScope,
    /// Milliseconds that it still lives.
    pub expires_in_ms: u64,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Comes back in the reply. Never used twice on a link.
    pub id: u64,
    /// The grant it runs under. A grant that the last state does not hold is refused.
    pub grant: GrantLabel,
    /// Milliseconds until the hub no longer waits.
    pub deadline_ms: u32,
    /// What to do.
    pub op: Op,
}

/// What can be done in a browser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Answers with `{tabs: [TabInfo]}`.
    ListTabs,
    /// Answers with a [`TabInfo`]; in the background, in the tab group of the grant.
    OpenTab {
        /// Where to.
        url: String,
        /// The title of the tab group for what this grant opened.
        group: String,
    },
    /// Answers at once with `{}`; events tell the rest.
    Navigate {
        /// Which tab.
        tab: u32,
        /// Where to.
        to: NavigateTo,
    },
    /// Brings a tab and its window to the front.
    Activate {
        /// Which tab.
        tab: u32,
    },
    /// Closes a tab.
    Close {
        /// Which tab.
        tab: u32,
    },
    /// Attaches for this grant and answers with `Page.getFrameTree`'s answer. A discarded tab is loaded first.
    Attach {
        /// Which tab.
        tab: u32,
    },
    /// Lets go of a tab for this grant.
    Detach {
        /// Which tab.
        tab: u32,
    },
    /// One DevTools command on an attached tab; answers with its result.
    Cdp {
        /// Which tab.
        tab: u32,
        /// A child session, for frames of another process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// A command of the allowlist.
        method: String,
        /// Its parameters.
        #[serde(default)]
        params: Map<String, Value>,
        /// The document that the call was checked for, where the allowlist wants one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        document: Option<DocumentId>,
    },
}

/// Where a tab goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NavigateTo {
    /// To an address.
    Url(String),
    /// One back in its history.
    Back,
    /// One forward in its history.
    Forward,
    /// The same again.
    Reload,
}

/// A tab as the browser lists it. For a document that is never driven, `url` is its scheme and `title` empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabInfo {
    /// The browser's own number.
    pub tab: u32,
    /// Its address.
    pub url: String,
    /// Its title; untrusted text.
    pub title: String,
    /// Whether it is the one in front in its window.
    pub active: bool,
    /// Its window.
    pub window: u32,
    /// `loading` or `complete`.
    pub loading: bool,
    /// Unloaded to save memory; attaching loads it again.
    #[serde(default)]
    pub discarded: bool,
    /// Stopped to save power.
    #[serde(default)]
    pub frozen: bool,
}

/// What the extension says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromExtension {
    /// The first frame on a link.
    Hello(Hello),
    /// The end of a call that went well.
    Done {
        /// The call's id.
        id: u64,
        /// Its result.
        result: Value,
    },
    /// The end of a call that did not.
    Failed {
        /// The call's id.
        id: u64,
        /// Why.
        error: Failure,
    },
    /// Every tab has been let go of that the state of this epoch does not allow.
    Ack {
        /// The state's epoch.
        epoch: Epoch,
    },
    /// Something happened in the browser.
    Event(Event),
    /// Keeps the worker alive.
    Pong,
}

/// Who is linking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The frames' version.
    pub version: Version,
    /// The extension's version, as its manifest has it.
    pub build: String,
    /// The profile's id, made once by the extension.
    pub profile: ProfileId,
    /// A fresh number for each start of the worker: the same profile reconnecting replaces only itself.
    pub worker: String,
    /// The profile's name, as the owner set it; may be empty.
    #[serde(default)]
    pub name: String,
    /// "Chromium 156".
    pub browser: String,
    /// How it was installed: `development`, `admin`, `normal`, `sideload` or `other`.
    #[serde(default)]
    pub install: String,
}

/// Something that happened in the browser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A DevTools event of the allowlist, from an attached tab.
    Cdp {
        /// Which tab.
        tab: u32,
        /// The child session it came from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Its name.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// A tab is no longer attached.
    Detached {
        /// Which tab.
        tab: u32,
        /// Why.
        reason: DetachReason,
    },
    /// The owner pressed Stop in the popup, or Cancel on Chrome's own bar: ends this browser's grants.
    Stop {
        /// Where.
        by: StopBy,
    },
    /// The owner pressed "Disable everything".
    DisableAll,
    /// The owner asked for the status page: the hub opens a one-time link.
    OpenStatus,
}

/// Why a tab is no longer attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetachReason {
    /// Nobody holds it any more.
    Released,
    /// The tab was closed.
    Closed,
    /// It went to a document that is never driven.
    Forbidden,
    /// The browser ended it for another reason.
    Browser,
}

/// Where the owner pressed Stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopBy {
    /// The popup.
    Popup,
    /// Cancel on Chrome's own bar.
    Infobar,
}

/// What the relay itself says to the extension, beside the hub's frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromRelay {
    /// The hub proved itself: its frames follow. Sent again after each restart of the hub.
    HubHere,
    /// The hub is lost: detach everything, forget grants and sites.
    HubGone {
        /// In words, for the popup.
        reason: String,
    },
}

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error)]
#[error("not a frame of this version: {0}")]
pub struct BadFrame(#[from] serde_json::Error);

/// Reads one frame.
///
/// # Errors
/// When it is malformed or of an unknown kind.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, BadFrame> {
    Ok(serde_json::from_str(text)?)
}

/// Writes one frame.
pub fn write<T: Serialize>(frame: &T) -> String {
    // Every frame is plain data with text keys, which always serialises.
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;
    use crate::site::Site;
    use serde_json::json;

    fn label() -> GrantLabel {
        "KQXZ".parse().unwrap()
    }

    /// The frames of each released minor version stay as they are.
    #[test]
    fn frames_of_version_1_0() {
        let op = |op| ToExtension::Call(Call { id: 7, grant: label(), deadline_ms: 5000, op });
        let grant = GrantState {
            label: label(),
            path: PathName::browser(),
            client: "claude-code".into(),
            purpose: "Read the invoices.".into(),
            sites: SiteScope::Only(vec![
                Site::Domain { host: "example.com".into() },
                Site::Exact { https: false, host: "127.0.0.1".into(), port: 8080 },
            ]),
            expires_in_ms: 1_800_000,
        };
        let cdp = Op::Cdp {
            tab: 12,
            session: Some("S".into()),
            method: "Input.insertText".into(),
            params: json!({"text": "a"}).as_object().cloned().unwrap(),
            document: Some(DocumentId { frame: "F".into(), loader: "L".into() }),
        };
        let to = vec![
            ToExtension::Welcome(Welcome {
                version: Version { major: 1, minor: 0 },
                build: "0.1.0".into(),
                machine: "desk".into(),
                ports: HubPorts { mcp: 7311, control: 7312 },
            }),
            ToExtension::Refused { error: Failure::new(ErrorCode::ProfileTaken, "that profile is linked") },
            ToExtension::State(State { epoch: Epoch(3), disabled: false, grants: vec![grant] }),
            op(Op::ListTabs),
            op(Op::OpenTab { url: "https://example.com/".into(), group: "Consentry".into() }),
            op(Op::Navigate { tab: 12, to: NavigateTo::Url("https://example.com/".into()) }),
            op(Op::Navigate { tab: 12, to: NavigateTo::Back }),
            op(Op::Activate { tab: 12 }),
            op(Op::Close { tab: 12 }),
            op(Op::Attach { tab: 12 }),
            op(Op::Detach { tab: 12 }),
            op(cdp),
            ToExtension::Cancel { id: 7 },
            ToExtension::Ping,
            ToExtension::Reload,
        ];
        let event = |event| FromExtension::Event(event);
        let from = vec![
            FromExtension::Hello(Hello {
                version: Version { major: 1, minor: 0 },
                build: "0.1.0".into(),
                profile: "k3x9".parse().unwrap(),
                worker: "w1".into(),
                name: "Work".into(),
                browser: "Chromium 156".into(),
                install: "development".into(),
            }),
            FromExtension::Done { id: 7, result: json!({"tabs": []}) },
            FromExtension::Failed {
                id: 7,
                error: Failure::new(ErrorCode::NoGrant, "no such grant").maybe_done(),
            },
            FromExtension::Ack { epoch: Epoch(3) },
            event(Event::Cdp {
                tab: 12,
                session: None,
                method: "Page.frameNavigated".into(),
                params: json!({}),
            }),
            event(Event::Detached { tab: 12, reason: DetachReason::Forbidden }),
            event(Event::Stop { by: StopBy::Infobar }),
            event(Event::DisableAll),
            event(Event::OpenStatus),
            FromExtension::Pong,
        ];
        let relay = [FromRelay::HubHere, FromRelay::HubGone { reason: "the hub stopped".into() }];
        let lines = |frames: Vec<String>| frames.join("\n");
        insta::assert_snapshot!("to_extension_1_0", lines(to.iter().map(write).collect()));
        insta::assert_snapshot!("from_extension_1_0", lines(from.iter().map(write).collect()));
        insta::assert_snapshot!("from_relay_1_0", lines(relay.iter().map(write).collect()));
        for frame in &to {
            assert_eq!(read::<ToExtension>(&write(frame)).unwrap(), *frame);
        }
        for frame in &from {
            assert_eq!(read::<FromExtension>(&write(frame)).unwrap(), *frame);
        }
    }

    #[test]
    fn unknown_fields_are_ignored_and_unknown_kinds_are_refused() {
        assert_eq!(read::<ToExtension>(r#"{"type":"ping","from":"the future"}"#).unwrap(), ToExtension::Ping);
        for bad in [
            r#"{"type":"format_disk"}"#,
            r#"{"type":"cancel"}"#,
            r#"{"type":"cancel","id":-1}"#,
            "{}",
            "[]",
            "",
            "\u{0}",
        ] {
            assert!(read::<ToExtension>(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_reading_panic(text in ".{0,200}") {
            let _ = read::<ToExtension>(&text);
            let _ = read::<FromExtension>(&text);
        }
    }
}
