//! `consentry status`

use std::process::ExitCode;

use clap::Args;
use consentry_config::Home;
use serde_json::{Value, json};

use crate::cli::{Output, say};
use crate::client::Client;
use crate::exit;

/// Says what is going on
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    output: Output,
}

impl Status {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut state = Client::connect(&Home::from_env()?)?.ask("status", json!({}))?;
        let disabled = state["disabled"] == true;
        let code = exit::code(if disabled { exit::ATTENTION } else { exit::OK });
        if self.output.json {
            if let Some(state) = state.as_object_mut() {
                state.remove("audit");
            }
            say(state);
            return Ok(code);
        }
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        say(format!(
            "{}: {}",
            word(&state["machine"]),
            if disabled { "disabled (`consentry enable` turns it on)" } else { "on" }
        ));
        for grant in list(&state["grants"]) {
            say(format!(
                "  {} {} for {}: “{}” ({} calls, {} min left)",
                word(&grant["label"]),
                word(&grant["path"]),
                word(&grant["client"]),
                word(&grant["purpose"]),
                grant["calls"],
                grant["left"].as_u64().unwrap_or(0) / 60,
            ));
        }
        if list(&state["grants"]).is_empty() {
            say("  no grant is live");
        }
        for browser in list(&state["browsers"]) {
            say(format!(
                "  browser {} ({}), {} tabs driven",
                word(&browser["profile"]),
                word(&browser["browser"]),
                browser["tabs"]
            ));
        }
        if list(&state["browsers"]).is_empty() {
            say("  no browser is linked (`consentry doctor` says why)");
        }
        for warning in list(&state["warnings"]) {
            let head = match warning["kind"].as_str() {
                Some("pending") => "waits for your click: ",
                Some("loose") => "looser than the default: ",
                _ => "",
            };
            say(format!("  ! {head}{}", word(&warning["text"])));
        }
        Ok(code)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
