//! `consentry disable`

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use consentry_config::{Home, SwitchFile};
use consentry_core::KillSwitch as _;
use serde_json::json;

use crate::cli::{Output, grants, say};
use crate::client::{Client, NotRunning};
use crate::exit;

/// Disables everything, at once and until you enable it
#[derive(Debug, Args)]
pub(crate) struct Disable {
    #[command(flatten)]
    output: Output,
}

impl Disable {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let home = Home::from_env()?;
        home.create()?;
        // The file first: it holds whether or not a hub runs, answers or is well.
        SwitchFile(home.disabled()).disable().context("the file DISABLED cannot be made")?;
        let asked = Client::connect(&home).and_then(|mut client| client.ask("disable", json!({})));
        match asked {
            Ok(ended) if self.output.json => say(json!({ "disabled": true, "hub": ended })),
            Ok(ended) if ended["acknowledged"] == false => say(
                "Disabled. Not everything acknowledged within a second; what a page already started may go on.",
            ),
            Ok(ended) => say(format!("Disabled. {} ended.", grants(&ended["grants"]))),
            Err(error) if self.output.json => {
                say(json!({ "disabled": true, "hub": null, "error": format!("{error:#}") }))
            }
            Err(error) if error.is::<NotRunning>() => {
                say("Disabled. The hub is not running; it will stay disabled when it starts.")
            }
            Err(error) => say(format!(
                "Disabled by the file. The hub did not answer ({error:#}) and notices it within two seconds."
            )),
        }
        Ok(exit::code(exit::OK))
    }
}
