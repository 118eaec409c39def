//! `consentry serve`

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use consentry_config::{Home, env};
use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::{exit, serve};

/// Runs the hub
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Prints one line of JSON with the ports when the hub is ready
    #[arg(long)]
    json: bool,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let filter = EnvFilter::try_from_env(env::LOG).unwrap_or_else(|_| EnvFilter::new("info,rmcp=warn"));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
        let home = Home::from_env()?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
        let json = self.json;
        let place = home.path().display().to_string();
        let ready = Box::new(move |ports: consentry_wire::forbidden::HubPorts| {
            let line = if json {
                json!({ "ready": true, "mcp": ports.mcp, "control": ports.control, "home": place })
                    .to_string()
            } else {
                format!(
                    "Consentry is ready. Agents reach it on 127.0.0.1:{}; `consentry open` shows the status page.",
                    ports.mcp
                )
            };
            // Whoever started it may not listen.
            let _ = writeln!(std::io::stdout(), "{line}");
        });
        runtime.block_on(serve::run(home, ready))?;
        Ok(exit::code(exit::OK))
    }
}
