//! What is typed, asked for in addresses and given out as keys is in no file of the state folder, and in no log.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use consentry_test_support::pages::Pages;
use consentry_test_support::scene::{Scene, SceneOptions, ref_of};
use serde_json::json;

use crate::stage::{Test, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![alone; no_secret_is_in_any_file_of_the_state_folder_nor_in_the_log]
}

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let kind = path.symlink_metadata()?.file_type();
        if kind.is_dir() {
            files(&path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

async fn no_secret_is_in_any_file_of_the_state_folder_nor_in_the_log() -> anyhow::Result<()> {
    let log = "info,consentry=trace,consentry_core=trace,consentry_link=trace,consentry_mcp=trace,consentry_browser=trace,consentry_control=trace,consentry_consent=trace";
    let options = SceneOptions {
        browser_rules: "window_seconds = 60\nevaluate = \"on\"".to_owned(),
        env: vec![("CONSENTRY_LOG".to_owned(), log.to_owned())],
        ..SceneOptions::default()
    };
    let scene = Scene::start(options).await?;
    let pages = Pages::serve().await?;
    let page = "<title>c4n4ry-title</title><p>c4n4ry-page</p><label>Field <input></label><label>Password <input type=password></label>";
    let address = pages.put("/form", page);
    let grant = scene.grant("Handle secrets.", &[&pages.url("")]).await?;
    let with_userinfo = address.replace("http://", "http://c4n4ry-user:c4n4ry-pass@");
    let tab = grant.open(&format!("{address}?token=c4n4ry-query#c4n4ry-fragment")).await?;
    let outline = grant.read(&tab).await?;
    let field = ref_of(&outline, "textbox \"Field\"")?;
    let password = ref_of(&outline, "textbox \"Password\"")?;
    grant.does("type_text", json!({ "tab": tab, "ref": field, "text": "c4n4ry-typed" })).await?;
    ensure!(
        grant
            .call("type_text", json!({ "tab": tab, "ref": password, "text": "c4n4ry-password" }))
            .await?
            .is_error
    );
    grant.does("evaluate_script", json!({ "tab": tab, "expression": "'c4n4ry-script'" })).await?;
    grant
        .call("evaluate_script", json!({ "tab": tab, "expression": "throw new Error('c4n4ry-thrown')" }))
        .await?;
    grant.call("wait_for", json!({ "tab": tab, "text": "c4n4ry-awaited", "timeout_ms": 200 })).await?;
    grant.call("wait_for", json!({ "tab": tab, "url": "c4n4ry-awaited-url", "timeout_ms": 200 })).await?;
    grant.call("click_element", json!({ "tab": tab, "selector": "[data-x='c4n4ry-selector']" })).await?;
    grant.call("navigate_tab", json!({ "tab": tab, "url": format!("{with_userinfo}?c4n4ry-again") })).await?;
    grant.call("open_tab", json!({ "url": "javascript:'c4n4ry-scheme'" })).await?;
    grant.call("read_page", json!({ "tab": tab, "c4n4ry-field": "c4n4ry-value" })).await?;
    scene.client.call("list_tabs", json!({ "grant_id": "c4n4ry-grant-id" })).await?;
    let (_, ask) = scene.client.request("ping", json!({}));
    scene.client.clone().with_key("c4n4ry-key").raw(&[], &ask).await?;
    scene.hub.page().await?.state().await?;
    grant.does("release_control", json!({})).await?;
    let token = std::fs::read_to_string(scene.hub.home().join("extension-token"))?;

    let secrets = ["c4n4ry", &grant.id, &scene.key, scene.key.trim_start_matches("consentry_"), token.trim()];
    let mut found = Vec::new();
    files(&scene.hub.home(), &mut found)?;
    ensure!(found.iter().any(|path| path.ends_with("audit.jsonl")), "{found:?}");
    for path in found {
        let content = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        for secret in secrets {
            // The token's own file is where it is kept.
            let kept = path.ends_with("extension-token") && secret == token.trim();
            let at = content.lines().find(|line| line.contains(secret)).unwrap_or_default();
            ensure!(kept || at.is_empty(), "{secret} in {}: {at:.600}", path.display());
        }
    }
    let log = scene.hub.log();
    ensure!(log.contains("a browser is linked"), "the log is empty: {log}");
    for secret in secrets {
        let at = log.lines().find(|line| line.contains(secret)).unwrap_or_default();
        ensure!(at.is_empty(), "{secret} in the log: {at:.600}");
    }
    Ok(())
}
