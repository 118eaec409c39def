//! From asking to the audit, with every setting as it comes.

use anyhow::ensure;
use consentry_test_support::pages::Pages;
use consentry_test_support::scene::{Scene, SceneOptions, ref_of};
use serde_json::{Value, json};

use crate::stage::{Test, refused, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![alone; an_agent_asks_works_and_is_killed_and_all_of_it_is_written_down]
}

const FORM: &str = r#"<!doctype html><title>Demo shop</title><h1>Order</h1>
<form onsubmit="event.preventDefault();document.getElementById('o').textContent='Thanks, '+document.getElementById('n').value">
<label>Name <input id=n></label><button>Send</button></form><p id=o>nothing yet</p>"#;

async fn an_agent_asks_works_and_is_killed_and_all_of_it_is_written_down() -> anyhow::Result<()> {
    let scene = Scene::start(SceneOptions::default()).await?;
    let pages = Pages::serve().await?;
    let url = pages.put("/", FORM);
    scene.client.initialize().await?;
    let purpose = "Fill in the order form of the demo shop.";
    let grant = scene.grant(purpose, &[&pages.url("")]).await?;

    let tab = grant.open(&url).await?;
    let outline = grant.read(&tab).await?;
    let name = ref_of(&outline, "textbox \"Name\"")?;
    let typed = grant.does("type_text", json!({ "tab": tab, "ref": name, "text": "Ada é 你" })).await?;
    ensure!(typed.field("outcome") == "confirmed", "{}", typed.raw);
    let send = ref_of(&outline, "button \"Send\"")?;
    let clicked = grant.does("click_element", json!({ "tab": tab, "ref": send })).await?;
    ensure!(clicked.field("outcome") == "confirmed", "{}", clicked.raw);
    grant.does("wait_for", json!({ "tab": tab, "text": "Thanks, Ada é 你" })).await?;

    let shot = grant.does("take_screenshot", json!({ "tab": tab, "format": "png" })).await?;
    let (kind, bytes) = &shot.images[0];
    ensure!(
        kind == "image/png" && bytes.starts_with(b"\x89PNG") && bytes.len() > 1000,
        "{kind} {}",
        bytes.len()
    );

    // A script is a question of its own, whatever is granted.
    let script = json!({ "tab": tab, "expression": "document.getElementById('o').textContent" });
    let (evaluated, clicked) =
        tokio::join!(grant.does("evaluate_script", script), scene.owner.click("allow"));
    clicked?;
    ensure!(evaluated?.text.contains("Thanks, Ada"));

    let page = scene.hub.page().await?;
    let state = page.state().await?;
    let shown = &rows(&state, "grants")[0];
    ensure!(shown["purpose"] == purpose && shown["client"] == "tester", "{shown}");
    ensure!(rows(shown, "tabs").len() == 1 && rows(&state, "browsers").len() == 1, "{state}");

    let killed = scene.hub.run(&["kill", &grant.label, "--json"]).await?;
    ensure!(killed.json()?["grants"] == 1 && killed.json()?["acknowledged"] == true, "{killed:?}");
    refused(grant.call("read_page", json!({ "tab": tab })).await, "no_grant")?;

    let verified = scene.hub.run(&["audit", "verify", "--json"]).await?;
    ensure!(verified.code == Some(0) && verified.json()?["ok"] == true, "{verified:?}");
    let log = scene.hub.run(&["log", "--grant", &grant.label, "--json"]).await?.json()?;
    let calls = &log["summary"]["calls"];
    for tool in [
        "open_tab",
        "read_page",
        "type_text",
        "click_element",
        "wait_for",
        "take_screenshot",
        "evaluate_script",
    ] {
        ensure!(calls[tool] == 1, "{tool} in {log}");
    }
    ensure!(log["summary"]["sites"] == json!([pages.url("")]), "{log}");
    ensure!(log["summary"]["ended"] == "killed", "{log}");
    let kinds: Vec<&str> = rows(&log, "lines").iter().filter_map(|line| line["kind"].as_str()).collect();
    let first_call = kinds.iter().position(|kind| *kind == "call");
    let first_outcome = kinds.iter().position(|kind| *kind == "outcome");
    ensure!(first_call < first_outcome && kinds.last() == Some(&"end"), "{kinds:?}");
    let all = scene.hub.run(&["audit", "--json", "-n", "500"]).await?.stdout;
    let entries: Vec<Value> = all.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for kind in ["request", "decision", "call", "outcome", "end", "refused"] {
        ensure!(entries.iter().any(|entry| entry["kind"] == kind), "no {kind} in {all}");
    }
    ensure!(!all.contains(&grant.id) && !all.contains(&scene.key), "a secret in the audit");
    Ok(())
}
