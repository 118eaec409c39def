//! `consentry audit`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use consentry_audit::{Entry, tail, verify};
use consentry_config::Home;
use serde_json::{Value, json};

use crate::cli::{Output, say};
use crate::exit;

/// How often a followed audit is looked at.
const FOLLOW: Duration = Duration::from_millis(300);

/// Shows, follows and verifies the audit
#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// Goes on with new lines as they come
    #[arg(long, short)]
    follow: bool,
    /// So many of the newest lines
    #[arg(long, short = 'n', default_value_t = 50)]
    lines: usize,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    output: Output,
}

/// Which audit.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Another audit than the hub's, in the state folder or by its path: such as audit-standalone-1.jsonl, of a program
    /// that ran without a hub
    #[arg(long, value_name = "FILE", global = true)]
    file: Option<PathBuf>,
}

impl Source {
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        let home = Home::from_env()?;
        let Some(file) = &self.file else { return Ok(home.audit()) };
        let path = home.path().join(file);
        anyhow::ensure!(path.is_file(), "there is no audit {}", path.display());
        Ok(path)
    }
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Checks that no line was changed, removed or put in
    Verify {
        #[command(flatten)]
        output: Output,
    },
}

impl Audit {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let path = self.source.path()?;
        if let Some(AuditCommand::Verify { output }) = self.command {
            return match verify(&path).context("the audit cannot be read")? {
                Ok(verified) => {
                    if output.json {
                        say(json!({ "ok": true, "audit": verified }))
                    } else {
                        say(format!(
                            "{} lines, from {} to {}, unbroken. Head: {}",
                            verified.lines, verified.first, verified.last, verified.head
                        ))
                    }
                    Ok(exit::code(exit::OK))
                }
                Err(broken) => {
                    if output.json {
                        say(json!({ "ok": false, "broken": broken }))
                    } else {
                        say(format!("Broken at {broken}"))
                    }
                    Ok(exit::code(exit::ATTENTION))
                }
            };
        }
        let mut entries = tail(&path, self.lines).context("the audit cannot be read")?;
        let mut seen = 0;
        loop {
            for entry in entries.iter().filter(|entry| entry.n > seen) {
                print(entry, self.output.json);
            }
            seen = entries.last().map_or(seen, |entry| entry.n.max(seen));
            if !self.follow {
                return Ok(exit::code(exit::OK));
            }
            std::thread::sleep(FOLLOW);
            entries = tail(&path, 500).context("the audit cannot be read")?;
        }
    }
}

/// One line of the audit.
pub(crate) fn print(entry: &Entry, as_json: bool) {
    if as_json {
        say(serde_json::to_value(entry).unwrap_or_default());
        return;
    }
    let fields: Vec<String> = entry
        .fields
        .iter()
        .filter(|(name, _)| name.as_str() != "prev")
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect();
    say(format!("{:>6} {} {:<9} {}", entry.n, entry.at, entry.kind, fields.join(" ")));
}
