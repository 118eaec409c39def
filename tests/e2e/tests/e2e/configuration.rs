//! The configuration: taken whole or not at all, and never less strict without a click.

use std::time::Duration;

use anyhow::ensure;
use consentry_test_support::hub::StatusPage;
use consentry_test_support::link::FakeBrowser;
use consentry_test_support::scene::{Scene, SceneOptions};
use serde_json::{Value, json};

use crate::stage::{Test, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![alone;
        a_bad_configuration_is_refused_with_its_line_and_the_old_one_stays_in_force,
        what_became_less_strict_waits_for_the_click,
        a_key_that_nobody_approved_opens_nothing,
        a_key_that_is_exchanged_while_its_dialog_stands_is_asked_about_anew,
    ]
}

/// How long the hub may take to notice a file.
const NOTICED: Duration = Duration::from_secs(5);

async fn warned(page: &StatusPage, kind: &str) -> anyhow::Result<String> {
    let look = |state: &Value| {
        let warning = rows(state, "warnings").iter().find(|warning| warning["kind"] == kind)?;
        warning["text"].as_str().map(str::to_owned)
    };
    page.wait(&format!("a warning of the kind {kind}"), NOTICED, look).await
}

async fn not_warned(page: &StatusPage, kind: &str) -> anyhow::Result<()> {
    let look =
        |state: &Value| rows(state, "warnings").iter().all(|warning| warning["kind"] != kind).then_some(());
    page.wait(&format!("no warning of the kind {kind}"), NOTICED, look).await
}

async fn scene() -> anyhow::Result<(Scene, FakeBrowser, StatusPage)> {
    let options = SceneOptions {
        browser: false,
        browser_rules: "window_seconds = 30\ncooldown_seconds = 0".to_owned(),
        ..SceneOptions::default()
    };
    let scene = Scene::start(options).await?;
    let browser = FakeBrowser::link(&scene.hub, "fake0001").await?;
    let page = scene.hub.page().await?;
    Ok((scene, browser, page))
}

/// How long dialogs stand, as the tools' own description says.
async fn window(scene: &Scene) -> anyhow::Result<String> {
    let tools = scene.client.tools().await?;
    let ask = tools.iter().find(|tool| tool["name"] == "request_control");
    let words = ask.and_then(|tool| tool["description"].as_str()).unwrap_or_default().to_owned();
    Ok(words.split("stands for ").nth(1).unwrap_or_default().split('.').next().unwrap_or_default().to_owned())
}

async fn a_bad_configuration_is_refused_with_its_line_and_the_old_one_stays_in_force() -> anyhow::Result<()> {
    let (scene, _browser, page) = scene().await?;
    for (rules, line, allowed) in [
        ("window_seconds = 9999", 9, "3 to 120"),
        ("windows_second = 5", 9, "window_seconds"),
        ("sites = \"everywhere\"", 9, "ask"),
        ("cooldown_seconds = 0\ngrants = \"many\"", 10, ""),
        ("cooldown_seconds = = 0", 9, ""),
    ] {
        scene.hub.configure(rules)?;
        let look = |state: &Value| {
            let warning = rows(state, "warnings").iter().find(|warning| warning["kind"] == "config")?;
            let text = warning["text"].as_str()?;
            (text.contains(&format!("line {line}")) && text.contains(allowed)).then(|| text.to_owned())
        };
        page.wait(&format!("line {line} and {allowed:?} for {rules}"), NOTICED, look).await?;
        ensure!(window(&scene).await? == "30 seconds", "{rules}");
        let doctor = scene.hub.run(&["doctor", "--json"]).await?;
        ensure!(doctor.code == Some(4) && doctor.stdout.contains(&format!("line {line}")), "{doctor:?}");
    }
    // It works on, under the old one.
    scene.grant("Work under the old rules.", &[]).await?;
    scene.hub.configure("window_seconds = 20\ncooldown_seconds = 0")?;
    not_warned(&page, "config").await?;
    ensure!(
        window(&scene).await? == "20 seconds",
        "what is stricter holds at once: {}",
        window(&scene).await?
    );
    Ok(())
}

async fn what_became_less_strict_waits_for_the_click() -> anyhow::Result<()> {
    let (scene, _browser, page) = scene().await?;
    let sites = async || {
        let grant = scene.client.call("request_control", json!({ "purpose": "Ask what holds." }));
        let (asked, clicked) = tokio::join!(grant, scene.owner.click("allow"));
        clicked?;
        anyhow::Ok(asked?.ok()?.field("sites").to_owned())
    };
    ensure!(sites().await? == "asked about on first touch");
    let loose = "window_seconds = 30\ncooldown_seconds = 0\nsites = \"any\"";
    scene.hub.configure(loose)?;
    let dialog = scene.owner.next_dialog().await?;
    warned(&page, "pending").await?;
    scene.owner.answer(&dialog, "reject").await?;
    ensure!(sites().await? == "asked about on first touch", "in force though it was rejected");
    warned(&page, "pending").await?;
    // The next start asks again, and only the click makes it hold.
    let mut scene = scene;
    scene.hub.stop().await?;
    scene.hub.launch().await?;
    let _browser = FakeBrowser::link(&scene.hub, "fake0001").await?;
    scene.owner.click("allow").await?;
    let page = scene.hub.page().await?;
    not_warned(&page, "pending").await?;
    let loosely = |state: &Value| {
        rows(state, "warnings")
            .iter()
            .any(|w| w["kind"] == "loose" && w["text"].to_string().contains("site"))
            .then_some(())
    };
    page.wait("red for sites", NOTICED, loosely).await?;
    let (asked, clicked) = tokio::join!(
        scene.client.call("request_control", json!({ "purpose": "Ask what holds now." })),
        scene.owner.click("allow")
    );
    clicked?;
    ensure!(asked?.ok()?.field("sites") == "any");
    // And not again at the start after that.
    let shown = scene.hub.dialogs_shown();
    scene.hub.stop().await?;
    scene.hub.launch().await?;
    let page = scene.hub.page().await?;
    page.wait("red for sites", NOTICED, loosely).await?;
    not_warned(&page, "pending").await?;
    ensure!(scene.hub.dialogs_shown() == shown, "asked about what was approved");
    Ok(())
}

async fn a_key_that_nobody_approved_opens_nothing() -> anyhow::Result<()> {
    let (scene, _browser, _page) = scene().await?;
    let key = scene.hub.add_key("stranger").await?;
    let stranger = scene.client.clone().with_key(&key);
    let dialog = scene.owner.next_dialog().await?;
    let (_, ask) = stranger.request("ping", json!({}));
    let answer = stranger.raw(&[], &ask).await?;
    ensure!(
        answer.status == 403 && answer.json()?["error"]["code"] == "key_not_approved",
        "{}",
        answer.text()
    );
    scene.owner.answer(&dialog, "reject").await?;
    ensure!(stranger.raw(&[], &ask).await?.status == 403);
    // A key that a program writes itself is no better.
    let digest = "0".repeat(64);
    let file = format!("sha256 = \"{digest}\"\ncreated = \"2026-01-01T00:00:00Z\"\n");
    std::fs::write(scene.hub.home().join("keys/planted.toml"), file)?;
    scene.owner.next_dialog().await?;
    let keys = scene.hub.run(&["key", "list", "--json"]).await?.stdout;
    ensure!(keys.contains("planted") && !keys.contains(&key) && !keys.contains(&digest), "{keys}");
    Ok(())
}

async fn a_key_that_is_exchanged_while_its_dialog_stands_is_asked_about_anew() -> anyhow::Result<()> {
    let (scene, _browser, _page) = scene().await?;
    scene.hub.add_key("second").await?;
    scene.owner.next_dialog().await?;
    let file = scene.hub.home().join("keys/second.toml");
    let planted = "a".repeat(64);
    let text = std::fs::read_to_string(&file)?;
    let digest = text.split('"').find(|part| part.len() == 64).map(str::to_owned);
    let digest = digest.ok_or_else(|| anyhow::anyhow!("no digest in {text}"))?;
    std::fs::write(&file, text.replace(&digest, &planted))?;
    // The words are the same, so that a click meant for the first would not be told from one for the second.
    let anew = scene.owner.next_dialog().await?;
    scene.owner.answer(&anew, "reject").await?;
    let approved = std::fs::read_to_string(scene.hub.home().join("approved.toml"))?;
    ensure!(!approved.contains(&digest) && !approved.contains(&planted), "{approved}");
    Ok(())
}
