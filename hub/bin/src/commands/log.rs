//! `consentry log`

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use consentry_audit::{Entry, of_grant, read_all};
use serde_json::json;

use crate::cli::{Output, say};
use crate::exit;

/// Shows what one session did: its calls, the sites that it touched, how it ended
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The four letters of a grant
    #[arg(long)]
    grant: String,
    #[command(flatten)]
    source: super::audit::Source,
    #[command(flatten)]
    output: Output,
}

impl Log {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let label = self.grant.to_ascii_uppercase();
        let entries = read_all(&self.source.path()?).context("the audit cannot be read")?;
        let session = of_grant(entries, &label);
        if session.is_empty() {
            bail!("the audit knows no grant {label}");
        }
        let summary = summary(&session);
        if self.output.json {
            say(json!({ "grant": label, "summary": summary, "lines": session }));
            return Ok(exit::code(exit::OK));
        }
        say(format!("Grant {label}"));
        for entry in &session {
            super::audit::print(entry, false);
        }
        say(format!("\n{}", in_words(&summary)));
        Ok(exit::code(exit::OK))
    }
}

#[derive(Debug, serde::Serialize)]
struct Summary {
    calls: BTreeMap<String, u64>,
    failed: u64,
    sites: BTreeSet<String>,
    ended: Option<String>,
}

fn summary(entries: &[Entry]) -> Summary {
    let text = |entry: &Entry, name: &str| {
        entry.fields.get(name).and_then(|value| value.as_str()).map(str::to_owned)
    };
    let mut summary = Summary { calls: BTreeMap::new(), failed: 0, sites: BTreeSet::new(), ended: None };
    for entry in entries {
        match entry.kind.as_str() {
            "call" => *summary.calls.entry(text(entry, "tool").unwrap_or_default()).or_default() += 1,
            "outcome" => {
                summary.failed += u64::from(text(entry, "code").is_some_and(|code| code != "ok"));
                summary.sites.extend(text(entry, "target").filter(|target| !target.is_empty()));
            }
            "end" => summary.ended = text(entry, "reason"),
            _ => {}
        }
    }
    summary
}

fn in_words(summary: &Summary) -> String {
    let calls: Vec<String> = summary.calls.iter().map(|(tool, count)| format!("{tool} {count}")).collect();
    let sites: Vec<&str> = summary.sites.iter().map(String::as_str).collect();
    format!(
        "Calls: {} ({} failed)\nSites: {}\nEnded: {}",
        if calls.is_empty() { "none".to_owned() } else { calls.join(", ") },
        summary.failed,
        if sites.is_empty() { "none".to_owned() } else { sites.join(", ") },
        summary.ended.as_deref().unwrap_or("not yet"),
    )
}
