//! `consentry open`

use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;
use consentry_config::Home;
use serde_json::json;

use crate::cli::{block_on, say};
use crate::client::Client;
use crate::exit;

/// Opens the status page
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Prints the link, which works once, instead of opening it
    #[arg(long)]
    print: bool,
}

impl Open {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let answer = Client::connect(&Home::from_env()?)?.ask("open", json!({}))?;
        let url = answer["url"].as_str().context("the hub gave no link")?.to_owned();
        if self.print {
            say(url);
        } else if let Err(error) = block_on(in_browser(&url)) {
            say(format!("The page cannot be opened from here ({error:#}). The link works once:\n{url}"));
        }
        Ok(exit::code(exit::OK))
    }
}

/// Opens an address in the owner's browser, by the desktop's own opener.
pub(crate) async fn in_browser(url: &str) -> anyhow::Result<()> {
    let opener = if cfg!(target_os = "macos") { "/usr/bin/open" } else { "xdg-open" };
    let mut command = tokio::process::Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = tokio::time::timeout(std::time::Duration::from_secs(10), command.status()).await;
    let status =
        status.context("the opener does not end")?.with_context(|| format!("cannot run {opener}"))?;
    if !status.success() {
        bail!("{opener} failed");
    }
    Ok(())
}
