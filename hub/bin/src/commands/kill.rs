//! `consentry kill`

use std::process::ExitCode;

use clap::Args;
use consentry_config::Home;
use serde_json::json;

use crate::cli::{Output, grants, say};
use crate::client::Client;
use crate::exit;

/// Ends one grant, those of a path, or all
#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// The four letters of a grant
    #[arg(required_unless_present_any = ["path", "all"])]
    label: Option<String>,
    /// Every grant of a path
    #[arg(long, conflicts_with = "label")]
    path: Option<String>,
    /// Every grant
    #[arg(long, conflicts_with_all = ["label", "path"])]
    all: bool,
    #[command(flatten)]
    output: Output,
}

impl Kill {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let args = json!({ "label": self.label, "path": self.path });
        let ended = Client::connect(&Home::from_env()?)?.ask("kill", args)?;
        let none = ended["grants"] == 0;
        if self.output.json {
            say(&ended);
        } else if none {
            say("Nothing of that is live.");
        } else if ended["acknowledged"] == false {
            say(format!(
                "Ended {}. Not everything acknowledged within a second; what a page already started may go on.",
                grants(&ended["grants"])
            ));
        } else {
            say(format!("Ended {}.", grants(&ended["grants"])));
        }
        Ok(exit::code(if none { exit::ATTENTION } else { exit::OK }))
    }
}
