//! `consentry stdio`, driven by a client library that is not ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ProgressNotificationParam, ServerResult,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ServiceExt};
use serde_json::{Value, json};

use crate::stage::{ASKING, Set, Test, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![ASKING;
        stdio_lists_the_same_tools_as_http,
        stdio_carries_progress_and_the_answer,
        stdio_carries_a_cancellation_to_the_dialog,
        stdio_says_what_is_wrong_with_its_key,
    ]
}

/// A client that counts progress.
#[derive(Debug, Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl ClientHandler for Counting {
    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn connect(
    set: &Set,
    key: &str,
) -> anyhow::Result<(RunningService<RoleClient, Counting>, Arc<AtomicUsize>)> {
    let mut command = set.hub.command();
    command.args(["stdio", "browser"]).env("CONSENTRY_KEY", key);
    let counting = Counting::default();
    let count = Arc::clone(&counting.0);
    let service =
        tokio::time::timeout(Duration::from_secs(10), counting.serve(TokioChildProcess::new(command)?));
    Ok((service.await.context("it does not begin")??, count))
}

fn ask(purpose: &str) -> ClientRequest {
    let arguments = json!({ "purpose": purpose }).as_object().cloned().unwrap_or_default();
    ClientRequest::CallToolRequest(CallToolRequest::new(
        CallToolRequestParams::new("request_control").with_arguments(arguments),
    ))
}

async fn stdio_lists_the_same_tools_as_http(set: &mut Set) -> anyhow::Result<()> {
    let (client, _) = connect(set, &set.key).await?;
    let tools = serde_json::to_value(client.list_all_tools().await?)?;
    ensure!(tools == Value::Array(set.client.tools().await?), "{tools}");
    client.cancel().await?;
    Ok(())
}

async fn stdio_carries_progress_and_the_answer(set: &mut Set) -> anyhow::Result<()> {
    let (client, count) = connect(set, &set.key).await?;
    let asking = async {
        let handle =
            client.send_cancellable_request(ask("Ask over stdio."), PeerRequestOptions::no_options()).await?;
        anyhow::Ok(handle.await_response().await?)
    };
    let (answer, clicked) = tokio::join!(asking, set.owner.click("allow"));
    clicked?;
    let ServerResult::CallToolResult(result) = answer? else { anyhow::bail!("no result of a tool") };
    let result = serde_json::to_value(result)?;
    ensure!(result["structuredContent"]["status"] == "allowed", "{result}");
    ensure!(count.load(Ordering::SeqCst) >= 1, "no progress came");
    ensure!(rows(&set.hub.status().await?, "grants").len() == 1);
    client.cancel().await?;
    Ok(())
}

async fn stdio_carries_a_cancellation_to_the_dialog(set: &mut Set) -> anyhow::Result<()> {
    let (client, _) = connect(set, &set.key).await?;
    let asking =
        client.send_cancellable_request(ask("Change my mind."), PeerRequestOptions::no_options()).await?;
    let dialog = set.owner.next_dialog().await?;
    ensure!(set.owner.stands(&dialog)?);
    asking.cancel(Some("no longer wanted".to_owned())).await?;
    let gone = |status: &Value| status["dialog"].is_null().then_some(());
    set.hub.wait_status("no dialog", Duration::from_secs(2), gone).await?;
    // The client lives on.
    ensure!(!client.list_all_tools().await?.is_empty());
    client.cancel().await?;
    Ok(())
}

async fn stdio_says_what_is_wrong_with_its_key(set: &mut Set) -> anyhow::Result<()> {
    let refused = connect(set, "consentry_wrong").await;
    let Err(error) = refused else { anyhow::bail!("a wrong key is let in") };
    ensure!(format!("{error:#}").contains("key"), "{error:#}");
    let ran = set.hub.run(&["stdio", "browser"]).await?;
    ensure!(ran.code == Some(1) && ran.stderr.contains("CONSENTRY_KEY"), "{ran:?}");
    Ok(())
}
