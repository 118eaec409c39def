//! What the command line asks the running hub for.

use async_trait::async_trait;
use consentry_control::StateSource as _;
use consentry_gate::{EndReason, Remembered, Which};
use consentry_link::Commands;
use consentry_wire::socket::{Reply, Request};
use consentry_wire::{ErrorCode, Failure};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Running;
use super::page::Page;

/// The commands over the running hub.
pub(crate) struct HubCommands(pub(crate) Running);

#[async_trait]
impl Commands for HubCommands {
    async fn run(&self, request: Request, replies: mpsc::Sender<Reply>) {
        let reply = match self.answer(&request).await {
            Ok(result) => Reply { result: Some(result), error: None, more: false },
            Err(error) => Reply { result: None, error: Some(error), more: false },
        };
        let _ = replies.send(reply).await;
    }
}

impl HubCommands {
    async fn answer(&self, request: &Request) -> Result<Value, Failure> {
        let running = &self.0;
        match request.command.as_str() {
            "status" => Ok(json!(Page(running.clone()).state().await)),
            "open" => Ok(json!({ "url": running.page_link() })),
            "disable" => Ok(json!(running.hub.disable("command").await)),
            "enable" => {
                let failed = |error: std::io::Error| {
                    Failure::new(ErrorCode::Internal, format!("the file DISABLED cannot be removed: {error}"))
                };
                running.hub.enable("command").await.map_err(failed)?;
                Ok(json!({ "enabled": true }))
            }
            "kill" => Ok(json!(running.hub.kill(which(&request.args)?, EndReason::Killed, "command").await)),
            "forget" => {
                let which: Vec<Remembered> = running
                    .hub
                    .status()
                    .await?
                    .remembered
                    .into_iter()
                    .filter(|r| matches(r, &request.args))
                    .collect();
                Ok(json!({ "forgotten": running.hub.forget(which).await? }))
            }
            "probe" => {
                let dialog = consentry_consent::probe(&running.dialog_program).await;
                Ok(json!({
                    "dialog": dialog,
                    "links": running.links.list(),
                    "last_refusal": running.door.last_refusal(),
                    "extension_id": running.extension_id,
                    "ports": running.ports,
                }))
            }
            other => {
                Err(Failure::new(ErrorCode::InvalidArgument, format!("the hub knows no command {other:?}")))
            }
        }
    }
}

fn which(args: &Value) -> Result<Which, Failure> {
    let wrong =
        |field: &str, error: String| Failure::argument(field, error, "a grant's label, a path, or neither");
    if let Some(label) = args["label"].as_str() {
        let label = label
            .to_ascii_uppercase()
            .parse()
            .map_err(|error: consentry_wire::id::InvalidId| wrong("label", error.to_string()))?;
        return Ok(Which::Labels(vec![label]));
    }
    if let Some(path) = args["path"].as_str() {
        let path =
            path.parse().map_err(|error: consentry_wire::id::InvalidId| wrong("path", error.to_string()))?;
        return Ok(Which::Path(path));
    }
    Ok(Which::All)
}

/// Whether a remembered site is meant: every field that is named fits.
fn matches(remembered: &Remembered, args: &Value) -> bool {
    let fits = |name: &str, value: String| args[name].as_str().is_none_or(|wanted| wanted == value);
    fits("site", remembered.site.to_string())
        && fits("path", remembered.path.to_string())
        && fits("client", remembered.key.to_string())
        && fits("profile", remembered.profile.to_string())
}
