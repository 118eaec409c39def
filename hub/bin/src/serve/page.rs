//! What the status page shows and does.

use async_trait::async_trait;
use consentry_audit::{Entry, read_all, tail};
use consentry_control::{
    Actions, AuditRow, BrowserRow, DialogRow, ForgetSite, GrantRow, PageState, SiteRow, StateSource, TabRow,
    Warning,
};
use consentry_core::Status;
use consentry_gate::{
    Asked, EndReason, GrantView, Moment, QuestionKind, Remembered, Shown, Which, parse_site,
};
use serde_json::{Value, json};

use super::Running;

/// Audit lines on the page.
const AUDIT_LINES: usize = 200;

/// The page over the running hub.
pub(crate) struct Page(pub(crate) Running);

#[async_trait]
impl StateSource for Page {
    async fn state(&self) -> PageState {
        let running = &self.0;
        let mut page = PageState {
            machine: running.configuration.in_force().machine,
            version: env!("CARGO_PKG_VERSION").into(),
            paths: running.configuration.in_force().rules().paths.keys().map(ToString::to_string).collect(),
            ..PageState::default()
        };
        let Ok(status) = running.hub.status().await else {
            page.warnings.push(Warning { kind: "config", text: "the hub is shutting down".into() });
            return page;
        };
        let now = status.live.at;
        let driven = running.tabs.driven();
        let tabs_of = |label: &consentry_wire::GrantLabel| {
            driven
                .iter()
                .filter(|(_, holders, _)| holders.contains(label))
                .map(|(tab, _, origin)| TabRow {
                    tab: tab.to_string(),
                    origin: origin.clone().unwrap_or_default(),
                })
                .collect()
        };
        page.disabled = status.live.disabled;
        page.dialog = status.on_screen.as_ref().map(|shown| dialog(shown, now));
        page.questions_waiting = status.waiting;
        page.grants = status
            .live
            .grants
            .iter()
            .map(|grant| grant_row(&grant.view, now, tabs_of(&grant.view.label)))
            .collect();
        page.browsers = running
            .links
            .list()
            .into_iter()
            .map(|link| BrowserRow {
                tabs: driven.iter().filter(|(tab, ..)| tab.profile == link.profile).count(),
                profile: link.profile.to_string(),
                name: link.name,
                browser: link.browser,
                version: link.build,
                install: link.install,
                transport: text(&link.transport),
                seconds: link.seconds,
            })
            .collect();
        page.sites = status.remembered.iter().map(site_row).collect();
        page.warnings = warnings(running, &status);
        page.audit = rows(tail(&running.home.audit(), AUDIT_LINES).unwrap_or_default());
        page
    }

    async fn grant_log(&self, label: &str) -> Vec<AuditRow> {
        let entries = read_all(&self.0.home.audit()).unwrap_or_default();
        rows(consentry_audit::of_grant(entries, label))
    }
}

#[async_trait]
impl Actions for Page {
    async fn kill(&self, label: Option<String>) -> Result<Value, String> {
        let which = match label {
            None => Which::All,
            Some(label) => Which::Labels(vec![label.parse().map_err(|error| format!("{error}"))?]),
        };
        Ok(json!(self.0.hub.kill(which, EndReason::Killed, "page").await))
    }

    async fn disable(&self) -> Result<Value, String> {
        Ok(json!(self.0.hub.disable("page").await))
    }

    async fn enable(&self) -> Result<Value, String> {
        self.0
            .hub
            .enable("page")
            .await
            .map_err(|error| format!("the file DISABLED cannot be removed: {error}"))?;
        Ok(json!({ "enabled": true }))
    }

    async fn forget(&self, site: ForgetSite) -> Result<Value, String> {
        let remembered = Remembered {
            site: parse_site(&site.site).map_err(|error| error.to_string())?,
            path: site.path.parse().map_err(|error| format!("{error}"))?,
            key: site.client.parse().map_err(|error| format!("{error}"))?,
            profile: site.profile.parse().map_err(|error| format!("{error}"))?,
        };
        let forgotten = self.0.hub.forget(vec![remembered]).await.map_err(|failure| failure.message)?;
        Ok(json!({ "forgotten": forgotten }))
    }
}

/// The word that a plain enum has on the wire.
pub(crate) fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn dialog(shown: &Shown, now: Moment) -> DialogRow {
    let seconds_left = shown.until.since(now) / 1000;
    match &shown.asked {
        Asked::Control { key, path, ask, .. } => DialogRow {
            kind: "control".into(),
            client: key.to_string(),
            path: path.to_string(),
            purpose: ask.purpose.as_str().into(),
            seconds_left,
        },
        Asked::Question(question) => {
            let (kind, purpose) = match &question.kind {
                QuestionKind::Site { site, .. } => ("site", site.to_string()),
                QuestionKind::Tool { tool, .. } => ("tool", tool.clone()),
                QuestionKind::Weaken { changes } => ("settings", changes.join("; ")),
            };
            DialogRow {
                kind: kind.into(),
                client: question.asker.as_ref().map(|asker| asker.key.to_string()).unwrap_or_default(),
                path: question.asker.as_ref().map(|asker| asker.path.to_string()).unwrap_or_default(),
                purpose,
                seconds_left,
            }
        }
    }
}

pub(crate) fn grant_row(grant: &GrantView, now: Moment, tabs: Vec<TabRow>) -> GrantRow {
    GrantRow {
        label: grant.label.to_string(),
        path: grant.path.to_string(),
        client: grant.key.to_string(),
        caller: grant.caller.clone(),
        purpose: grant.purpose.clone(),
        decision: text(&grant.decision),
        age: now.since(grant.started) / 1000,
        left: grant.expires.since(now) / 1000,
        idle: now.since(grant.last_used) / 1000,
        calls: grant.calls,
        running: grant.in_flight,
        last_tool: grant.last_tool.clone(),
        sites: grant.sites.iter().map(ToString::to_string).collect(),
        tabs,
    }
}

pub(crate) fn site_row(remembered: &Remembered) -> SiteRow {
    SiteRow {
        site: remembered.site.to_string(),
        path: remembered.path.to_string(),
        client: remembered.key.to_string(),
        profile: remembered.profile.to_string(),
    }
}

fn warnings(running: &Running, status: &Status) -> Vec<Warning> {
    let (error, waiting, loose) = running.configuration.warnings();
    let mut warnings = Vec::new();
    if let Some(text) = &status.audit_failure {
        warnings.push(Warning { kind: "audit", text: format!("Every call is refused: {text}") });
    }
    warnings.extend(error.map(|text| Warning { kind: "config", text }));
    match consentry_config::KeyStore(running.home.keys()).read() {
        Ok((_, damaged)) => {
            warnings.extend(damaged.iter().map(|error| Warning { kind: "config", text: error.to_string() }))
        }
        Err(error) => warnings.push(Warning { kind: "config", text: format!("no key holds: {error}") }),
    }
    warnings.extend(waiting.into_iter().map(|text| Warning { kind: "pending", text }));
    warnings.extend(loose.into_iter().map(|text| Warning { kind: "loose", text }));
    if running.links.list().is_empty() {
        warnings.extend(running.door.last_refusal().map(|text| Warning { kind: "link", text }));
    }
    warnings
}

fn rows(entries: Vec<Entry>) -> Vec<AuditRow> {
    let row = |mut entry: Entry| {
        entry.fields.remove("prev");
        AuditRow { n: entry.n, at: entry.at, kind: entry.kind, fields: entry.fields }
    };
    entries.into_iter().map(row).collect()
}
