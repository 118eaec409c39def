//! `consentry enable`

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use consentry_config::{Home, SwitchFile};
use consentry_core::KillSwitch as _;
use serde_json::json;

use crate::cli::{Output, say};
use crate::client::{Client, NotRunning};
use crate::exit;

/// Enables control again. No grant comes back
#[derive(Debug, Args)]
pub(crate) struct Enable {
    #[command(flatten)]
    output: Output,
}

impl Enable {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let home = Home::from_env()?;
        match Client::connect(&home).and_then(|mut client| client.ask("enable", json!({}))) {
            Ok(_) => {}
            Err(error) if error.is::<NotRunning>() => {
                SwitchFile(home.disabled()).enable().context("the file DISABLED cannot be removed")?;
            }
            Err(error) => return Err(error),
        }
        if self.output.json {
            say(json!({ "enabled": true }))
        } else {
            say("Enabled. Agents may ask again; no grant came back.")
        }
        Ok(exit::code(exit::OK))
    }
}
