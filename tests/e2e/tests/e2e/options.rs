//! How the extension is told what to do: its options page, and managed storage, which stands above that.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use consentry_test_support::scene::{Scene, SceneOptions};
use serde_json::{Value, json};

use crate::stage::{Test, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![alone;
        the_options_page_chooses_transport_port_token_and_name,
        managed_storage_chooses_and_the_options_page_cannot,
    ]
}

/// Where Debian's Chromium looks for the machine's policies.
const POLICIES: &str = "/etc/chromium/policies/managed";
const SOON: Duration = Duration::from_secs(20);

/// A policy of the machine, as long as this lives. It names an extension that no other browser has.
struct Policy(PathBuf);

impl Policy {
    fn put(extension: &str, settings: &Value) -> anyhow::Result<Self> {
        std::fs::create_dir_all(POLICIES).context("a policy of the machine needs root")?;
        let place = PathBuf::from(POLICIES).join(format!("{extension}.json"));
        let policy = Self(place);
        std::fs::write(
            &policy.0,
            json!({ "3rdparty": { "extensions": { extension: settings } } }).to_string(),
        )?;
        Ok(policy)
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn linked_by(scene: &Scene, transport: &str, name: &str) -> anyhow::Result<()> {
    let so = |status: &Value| {
        let browser = rows(status, "browsers").first()?;
        (browser["transport"] == transport && browser["name"] == name).then_some(())
    };
    scene.hub.wait_status(&format!("{transport} as {name:?}"), SOON, so).await
}

/// The options page, once it shows how things stand.
async fn options(scene: &Scene) -> anyhow::Result<String> {
    let page = scene.browser()?.extension_page("options.html").await?;
    let end = Instant::now() + SOON;
    let shown = "document.getElementById('headline').textContent === 'Connected' && !!document.getElementById('profile').textContent";
    while scene.browser()?.evaluate(&page, shown).await? != true {
        ensure!(Instant::now() < end, "the options page does not show how things stand");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Ok(page)
}

fn token(scene: &Scene) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(scene.hub.home().join("extension-token"))?.trim().to_owned())
}

async fn the_options_page_chooses_transport_port_token_and_name() -> anyhow::Result<()> {
    let scene = Scene::start(SceneOptions { headless: true, ..SceneOptions::default() }).await?;
    linked_by(&scene, "native", "").await?;
    let page = options(&scene).await?;
    let save = async |transport: &str, port: &str, token: &str, name: &str| {
        let script = format!(
            "document.querySelector('[value={transport}]').click();
             for (const [id, value] of Object.entries({})) document.getElementById(id).value = value;
             document.getElementById('save').click()",
            json!({ "port": port, "token": token, "name": name })
        );
        scene.browser()?.evaluate(&page, &script).await
    };
    // What is wrong is marked, and nothing is changed.
    save("websocket", "70000", "", "Work").await?;
    let marked =
        scene.browser()?.evaluate(&page, "document.getElementById('port').getAttribute('aria-invalid')");
    ensure!(marked.await? == "true");
    linked_by(&scene, "native", "").await?;
    let port = scene.hub.control_port().to_string();
    save("websocket", &port, &token(&scene)?, "Work").await?;
    linked_by(&scene, "web_socket", "Work").await?;
    save("native", "", "", "Home").await?;
    linked_by(&scene, "native", "Home").await
}

async fn managed_storage_chooses_and_the_options_page_cannot() -> anyhow::Result<()> {
    let mut scene = Scene::start(SceneOptions { headless: true, ..SceneOptions::default() }).await?;
    linked_by(&scene, "native", "").await?;
    let extension = scene.browser()?.extension_id().await?;
    let settings = json!({
        "transport": "websocket", "port": scene.hub.control_port(), "token": token(&scene)?, "name": "Fleet",
    });
    let _policy = Policy::put(&extension, &settings)?;
    scene.kill_browser().await?;
    scene.start_browser().await?;
    linked_by(&scene, "web_socket", "Fleet").await?;
    let page = options(&scene).await?;
    let told = "[document.getElementById('managed').hidden, document.getElementById('token').disabled,
        document.getElementById('port').disabled, document.querySelector('[value=native]').disabled,
        document.getElementById('token').value]";
    let told = scene.browser()?.evaluate(&page, told).await?;
    ensure!(told == json!([false, true, true, true, "set by your organisation"]), "{told}");
    Ok(())
}
