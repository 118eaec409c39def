//! What the page shows, and `/state.json` says.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Map, Value};

/// Everything at one moment. Times are seconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PageState {
    /// The machine's name.
    pub machine: String,
    /// The hub's version.
    pub version: String,
    /// Everything is off.
    pub disabled: bool,
    /// The dialog on the screen, if one stands. The page cannot answer it.
    pub dialog: Option<DialogRow>,
    /// Questions that wait for the screen.
    pub questions_waiting: usize,
    /// The live grants.
    pub grants: Vec<GrantRow>,
    /// The linked browsers.
    pub browsers: Vec<BrowserRow>,
    /// The remembered sites.
    pub sites: Vec<SiteRow>,
    /// What is wrong, and what is configured more loosely than the default: shown in red.
    pub warnings: Vec<Warning>,
    /// The newest audit lines, oldest first.
    pub audit: Vec<AuditRow>,
    /// The paths that are enabled.
    pub paths: Vec<String>,
}

/// A dialog that stands.
#[derive(Debug, Clone, Serialize)]
pub struct DialogRow {
    /// `control`, `site`, `tool` or `settings`.
    pub kind: String,
    /// Who asks; the key's name.
    pub client: String,
    /// For which path.
    pub path: String,
    /// In the asker's words; untrusted.
    pub purpose: String,
    /// Seconds until it ends by itself.
    pub seconds_left: u64,
}

/// A live grant.
#[derive(Debug, Clone, Serialize)]
pub struct GrantRow {
    /// Its four letters.
    pub label: String,
    /// The path.
    pub path: String,
    /// The key's name.
    pub client: String,
    /// What the caller calls itself; unverified.
    pub caller: Option<String>,
    /// In the asker's words; untrusted.
    pub purpose: String,
    /// `allowed`, `timeout_allow` or `no_consent`.
    pub decision: String,
    /// Seconds since it began.
    pub age: u64,
    /// Seconds that it still lives.
    pub left: u64,
    /// Seconds since it was last used.
    pub idle: u64,
    /// Calls so far.
    pub calls: u64,
    /// Calls that run now.
    pub running: u32,
    /// The last tool.
    pub last_tool: Option<String>,
    /// Sites approved for it.
    pub sites: Vec<String>,
    /// The tabs that it holds.
    pub tabs: Vec<TabRow>,
}

/// A tab that is driven.
#[derive(Debug, Clone, Serialize)]
pub struct TabRow {
    /// Its id.
    pub tab: String,
    /// Where it is.
    pub origin: String,
}

/// A linked browser.
#[derive(Debug, Clone, Serialize)]
pub struct BrowserRow {
    /// The profile's id.
    pub profile: String,
    /// Its name; may be empty.
    pub name: String,
    /// "Chromium 156".
    pub browser: String,
    /// The extension's version.
    pub version: String,
    /// How the extension was installed.
    pub install: String,
    /// `native` or `web_socket`.
    pub transport: String,
    /// Seconds since it is linked.
    pub seconds: u64,
    /// How many tabs are driven in it.
    pub tabs: usize,
}

/// A remembered site.
#[derive(Debug, Clone, Serialize)]
pub struct SiteRow {
    /// The site.
    pub site: String,
    /// For which path.
    pub path: String,
    /// For which key.
    pub client: String,
    /// In which browser profile.
    pub profile: String,
}

/// Something that the owner should know.
#[derive(Debug, Clone, Serialize)]
pub struct Warning {
    /// `config`, `loose`, `audit`, `link` or `pending`.
    pub kind: &'static str,
    /// In words.
    pub text: String,
}

/// A line of the audit.
#[derive(Debug, Clone, Serialize)]
pub struct AuditRow {
    /// Its number.
    pub n: u64,
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// `request`, `decision`, `call`, `outcome`, `refused`, `end` or `owner`.
    pub kind: String,
    /// The rest: `grant`, `key`, `path`, `tool`, `code`, `outcome`, `target`, `ms`, `of`, `reason` and others.
    pub fields: Map<String, Value>,
}

/// Gathers the state.
#[async_trait]
pub trait StateSource: Send + Sync {
    /// As it is now.
    async fn state(&self) -> PageState;
    /// The audit lines of one grant, oldest first.
    async fn grant_log(&self, label: &str) -> Vec<AuditRow>;
}
