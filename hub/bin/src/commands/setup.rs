//! `consentry setup`

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use consentry_config::{Home, Settings, write_private};
use consentry_wire::PathName;
use serde_json::json;

use crate::cli::{Output, say};
use crate::{embedded, exit};

/// Prepares the state folder, a first configuration and the extension. Again and again without harm
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// Port for agents, 1024 to 65535, kept from then on; 7311 if not given
    #[arg(long)]
    mcp_port: Option<u16>,
    /// Port for the status page and the extension, 1024 to 65535, kept from then on; 7312 if not given
    #[arg(long)]
    control_port: Option<u16>,
    #[command(flatten)]
    output: Output,
}

impl Setup {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let home = Home::from_env()?;
        home.create()?;
        let config = home.config();
        let fresh = !config.exists();
        if fresh {
            let text = first_configuration(self.mcp_port.unwrap_or(7311), self.control_port.unwrap_or(7312));
            Settings::parse(&text, "this machine", &[PathName::browser()])?;
            write_private(&config, text.as_bytes())
                .with_context(|| format!("cannot write {}", config.display()))?;
        } else {
            let text = std::fs::read_to_string(&config)
                .with_context(|| format!("cannot read {}", config.display()))?;
            let settings = Settings::parse(&text, "this machine", &[PathName::browser()])
                .with_context(|| config.display().to_string())?;
            for (option, asked, kept) in [
                ("--mcp-port", self.mcp_port, settings.ports.mcp),
                ("--control-port", self.control_port, settings.ports.control),
            ] {
                ensure!(
                    asked.is_none_or(|asked| asked == kept),
                    "{option}: {} has {kept} already; change it there",
                    config.display()
                );
            }
        }
        embedded::ensure_token(&home)?;
        let id = embedded::key(&home)?.id().to_string();
        let extension = if embedded::present() { Some(embedded::write_copy(&home)?.0) } else { None };
        let hosts = super::extension::register(&home, &[])?;
        if self.output.json {
            say(json!({
                "home": home.path(), "config": config, "new_config": fresh, "extension_id": id,
                "extension": extension, "registered": hosts,
            }));
            return Ok(exit::code(super::extension::outcome(&hosts)));
        }
        say(format!("State folder:  {}", home.path().display()));
        say(format!("Configuration: {}{}", config.display(), if fresh { " (new)" } else { "" }));
        match &extension {
            Some(folder) => say(format!("Extension:     {} (id {id})", folder.display())),
            None => say("Extension:     not in this build; `cargo xtask build` makes one that carries it"),
        }
        for registered in &hosts {
            say(format!("Browser:       {registered}"));
        }
        say(
            "\nNext:\n  1. consentry serve\n  2. In Chrome: chrome://extensions, Developer mode, Load unpacked, the extension's folder above\n  3. consentry connect claude-code --apply",
        );
        Ok(exit::code(super::extension::outcome(&hosts)))
    }
}

fn first_configuration(mcp: u16, control: u16) -> String {
    format!(
        "# Consentry. Changes are taken at once; what makes it less strict waits for your click.\n\
         # Everything that can be set is in docs/CONFIG.md.\n\n\
         [ports]\nmcp = {mcp}\ncontrol = {control}\n\n\
         [paths.browser]\nenabled = true\n"
    )
}
