//! Consentry itself, the whole way: client, hub, relay, extension, browser.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use consentry_bench::{median, rounded, say};
use consentry_test_support::hub::{HubOptions, Programs, ScratchHub};
use consentry_test_support::pages::Pages;
use consentry_test_support::scene::{Grant, Scene, SceneOptions, ref_of};
use serde_json::{Value, json};

use crate::page;

/// How long a hub is left alone before it counts as idle.
const IDLE: Duration = Duration::from_secs(3);

/// More than any page here has.
const ALL: u32 = 1_000_000;

/// Of a page of one size.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    /// Milliseconds.
    pub(crate) outline: Option<f64>,
    pub(crate) chars: Option<f64>,
    /// Milliseconds.
    pub(crate) click: Option<f64>,
}

/// Times are in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    pub(crate) evaluate: Option<f64>,
    pub(crate) tools_list_bytes: Option<f64>,
    /// By the number of rows.
    pub(crate) pages: BTreeMap<usize, Reading>,
    /// With a browser linked and a grant live.
    pub(crate) busy_rss_mb: Option<f64>,
    pub(crate) browser: String,
}

/// How long the hub takes from exec until it is ready, in milliseconds, and what it keeps in memory when idle, in
/// megabytes.
pub(crate) async fn start(programs: &Path, samples: usize) -> anyhow::Result<(f64, f64)> {
    let options = HubOptions { programs: Some(Programs::in_folder(programs)?), ..HubOptions::default() };
    let mut hub = ScratchHub::prepare(options).await?;
    let mut times = Vec::new();
    for _ in 0..samples {
        let start = Instant::now();
        hub.launch().await?;
        times.push(milliseconds(start));
        hub.stop().await?;
    }
    hub.launch().await?;
    tokio::time::sleep(IDLE).await;
    let idle = resident(&hub).context("cannot tell what the hub keeps in memory")?;
    hub.stop().await?;
    Ok((median(times).context("nothing was measured")?, idle))
}

pub(crate) async fn measure(programs: &Path, pages: &Pages, samples: usize) -> anyhow::Result<Ours> {
    let scene = Scene::start(SceneOptions {
        programs: Some(Programs::in_folder(programs)?),
        headless: true,
        browser_rules: "window_seconds = 60\nevaluate = \"on\"".to_owned(),
        ..SceneOptions::default()
    })
    .await?;
    let mut ours = Ours::default();
    let status = scene.hub.status().await?;
    ours.browser = status["browsers"][0]["browser"].as_str().unwrap_or_default().to_owned();
    scene.client.initialize().await?;
    let tools = scene.client.rpc("tools/list", json!({})).await?;
    ours.tools_list_bytes = Some(tools.to_string().len() as f64);
    let grant = scene.grant("Measure how fast this is.", &[&pages.url("")]).await?;

    let tab = grant.open(&pages.put("/empty", "<title>Empty</title>")).await?;
    let one = json!({ "tab": tab, "expression": "1" });
    ours.evaluate = timed(10 * samples, || grant.does("evaluate_script", one.clone())).await?;
    for rows in page::SIZES {
        say(format_args!("    Consentry, {rows} rows"));
        let reading =
            read(&grant, &pages.put(&format!("/rows/{rows}"), page::html(rows)), rows, samples).await?;
        ours.pages.insert(rows, reading);
    }
    ours.busy_rss_mb = resident(&scene.hub);
    Ok(ours)
}

async fn read(grant: &Grant, url: &str, rows: usize, samples: usize) -> anyhow::Result<Reading> {
    let tab = grant.open(url).await?;
    let last = page::last(rows);
    // A long page may still be loading when its tab is there.
    grant.does("wait_for", json!({ "tab": tab, "text": last })).await?;
    let whole = json!({ "tab": tab, "max_chars": ALL });
    let outline = grant.does("read_page", whole.clone()).await?.text;
    ensure!(outline.contains(&last), "the outline of {rows} rows ends before {last:?}");
    let took = timed(samples, || grant.does("read_page", whole.clone())).await?;
    let button = json!({ "tab": tab, "ref": ref_of(&outline, page::BUTTON)? });
    let click = timed(samples, || grant.does("click_element", button.clone())).await?;
    grant.does("close_tab", json!({ "tab": tab })).await?;
    Ok(Reading { outline: took, chars: Some(outline.chars().count() as f64), click })
}

/// The median time of so many calls, after three to warm up.
async fn timed<T, F>(samples: usize, mut call: impl FnMut() -> F) -> anyhow::Result<Option<f64>>
where
    F: Future<Output = anyhow::Result<T>>,
{
    for _ in 0..3 {
        call().await?;
    }
    let mut times = Vec::with_capacity(samples);
    for _ in 0..samples {
        let start = Instant::now();
        call().await?;
        times.push(milliseconds(start));
    }
    Ok(median(times))
}

pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn resident(hub: &ScratchHub) -> Option<f64> {
    let pid = hub.pid()?.to_string();
    let output = std::process::Command::new("ps").args(["-o", "rss=", "-p", &pid]).output().ok()?;
    let kilobytes: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// For the report.
pub(crate) fn figures(pages: &BTreeMap<usize, Reading>) -> Value {
    let rows = pages.iter().map(|(rows, reading)| {
        let figures = json!({
            "outline_ms": reading.outline.map(rounded), "outline_chars": reading.chars,
            "click_ms": reading.click.map(rounded),
        });
        (rows.to_string(), figures)
    });
    Value::Object(rows.collect())
}
