//! `consentry site`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use consentry_config::{Decisions, Home};
use consentry_core::Memory as _;
use serde_json::json;

use crate::cli::{Output, say};
use crate::client::{Client, NotRunning};
use crate::exit;

/// Lists and forgets the sites that you allowed for good
#[derive(Debug, Subcommand)]
pub(crate) enum Site {
    /// Lists them
    List(ListSites),
    /// Forgets one, everywhere or only for a key, path or profile
    Forget(ForgetSite),
}

/// Lists them
#[derive(Debug, Args)]
pub(crate) struct ListSites {
    #[command(flatten)]
    output: Output,
}

/// Forgets one
#[derive(Debug, Args)]
pub(crate) struct ForgetSite {
    /// As `consentry site list` shows it
    #[arg(required_unless_present = "all")]
    site: Option<String>,
    /// Every site
    #[arg(long, conflicts_with = "site")]
    all: bool,
    /// Only for this key
    #[arg(long)]
    client: Option<String>,
    /// Only for this browser profile
    #[arg(long)]
    profile: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl Site {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let home = Home::from_env()?;
        match self {
            Site::List(ListSites { output }) => {
                let sites = Decisions(home.decisions()).load()?;
                if output.json {
                    let row = |r: &consentry_gate::Remembered| json!({ "site": r.site.to_string(), "path": r.path, "client": r.key, "profile": r.profile });
                    say(json!(sites.iter().map(row).collect::<Vec<_>>()));
                } else if sites.is_empty() {
                    say("No site is remembered.");
                } else {
                    for r in sites {
                        say(format!("{}  {} for {} in {}", r.site, r.path, r.key, r.profile));
                    }
                }
                Ok(exit::code(exit::OK))
            }
            Site::Forget(forget) => forget.run(&home),
        }
    }
}

impl ForgetSite {
    fn run(self, home: &Home) -> anyhow::Result<ExitCode> {
        let args = json!({ "site": self.site, "client": self.client, "profile": self.profile });
        let forgotten = match Client::connect(home).and_then(|mut client| client.ask("forget", args)) {
            Ok(answer) => answer["forgotten"].as_u64().unwrap_or(0),
            Err(error) if error.is::<NotRunning>() => self.in_the_file(home)?,
            Err(error) => return Err(error),
        };
        if self.output.json {
            say(json!({ "forgotten": forgotten }));
        } else {
            say(format!("Forgot {forgotten} sites. They are asked about again."));
        }
        Ok(exit::code(if forgotten == 0 { exit::ATTENTION } else { exit::OK }))
    }

    fn in_the_file(&self, home: &Home) -> anyhow::Result<u64> {
        let decisions = Decisions(home.decisions());
        let sites = decisions.load()?;
        let fits =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let (gone, kept): (Vec<_>, Vec<_>) = sites.into_iter().partition(|r| {
            fits(&self.site, &r.site.to_string())
                && fits(&self.client, r.key.as_str())
                && fits(&self.profile, r.profile.as_str())
        });
        decisions.keep(&kept)?;
        Ok(gone.len() as u64)
    }
}
