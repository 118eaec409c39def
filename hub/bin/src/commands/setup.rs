//! `consentry setup`

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use consentry_config::{Home, write_private};
use serde_json::json;

use crate::cli::{Output, say};
use crate::{embedded, exit};

/// Prepares the state folder, a first configuration and the extension. Again and again without harm
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// Port for agents, kept from then on
    #[arg(long, default_value_t = 7311)]
    mcp_port: u16,
    /// Port for the status page and the extension, kept from then on
    #[arg(long, default_value_t = 7312)]
    control_port: u16,
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
            let text = first_configuration(self.mcp_port, self.control_port);
            write_private(&config, text.as_bytes())
                .with_context(|| format!("cannot write {}", config.display()))?;
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
            return Ok(exit::code(exit::OK));
        }
        say(format!("State folder:  {}", home.path().display()));
        say(format!("Configuration: {}{}", config.display(), if fresh { " (new)" } else { "" }));
        match &extension {
            Some(folder) => say(format!("Extension:     {} (id {id})", folder.display())),
            None => say("Extension:     not in this build; `cargo xtask build` makes one that carries it"),
        }
        for line in &hosts {
            say(format!("Browser:       {line}"));
        }
        say(
            "\nNext:\n  1. consentry serve\n  2. In Chrome: chrome://extensions, Developer mode, Load unpacked, the extension's folder above\n  3. consentry connect claude-code --apply",
        );
        Ok(exit::code(exit::OK))
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
