//! The steps, in the order in which a new owner would meet them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use consentry_demo::{Report, median, say};
use consentry_test_support::hub::ScratchHub;
use consentry_test_support::mcp::McpClient;
use consentry_test_support::pages::Pages;
use consentry_test_support::scene::{Grant, approve, ref_of};
use serde_json::{Value, json};

use crate::stage::{Answerer, Screen, Shot, picture, prepare_hub, start_browser};
use crate::{Args, shots};

const PURPOSE: &str = "Fill in the order form of the demo shop.";

const NAME: &str = "Ada Lovelace";

/// A page with a form, as an agent meets them everywhere.
const PAGE: &str = r#"<!doctype html><meta charset=utf-8><title>Demo shop</title>
<style>body{font:16px system-ui;margin:3rem;max-width:30rem}label{display:block;margin:1rem 0}input{font:inherit;padding:.3rem;width:100%}button{font:inherit;padding:.4rem 1rem}</style>
<h1>Order a notebook</h1>
<form onsubmit="event.preventDefault();document.getElementById('said').textContent='Thank you, '+document.getElementById('name').value+'!'">
<label>Name <input id=name autocomplete=off></label>
<label>Town <input id=town autocomplete=off></label>
<button>Order</button></form>
<p id=said role=status>Nothing is ordered yet.</p>"#;

/// How many calls the figure for one is taken from.
const CALLS: usize = 60;

pub(crate) async fn walk(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let screen = Screen::new(args.virtual_screen)?;
    match &screen {
        Screen::Virtual(session) => say(format_args!(
            "Nobody sits before this machine's screen, so that a scripted hand on a real pointer device clicks, on \
             the virtual screen {}.",
            session.display()
        )),
        Screen::Desktop { .. } => say("Three dialogs will come up on your screen: you decide."),
    }
    let mut hub = prepare_hub(&args.programs, &screen).await?;
    let answerer = Answerer::of(&hub, &screen)?;
    let outcome = steps(args, report, &mut hub, &screen, &answerer).await;
    if outcome.is_err() {
        say(format_args!("\nThe hub's last words:\n{}", last_lines(&hub.log(), 15)));
    }
    outcome
}

async fn steps(
    args: &Args,
    report: &mut Report,
    hub: &mut ScratchHub,
    screen: &Screen,
    answerer: &Answerer,
) -> anyhow::Result<()> {
    let key = hub.add_key("demo-agent").await?;
    report.step("start_hub", "The hub runs, on a scratch state folder", hub.launch()).await?;
    let client = McpClient::new(hub.mcp_url("browser"), &key);
    let approved = allow_key(answerer, &client);
    report.step("allow_key", "You allowed the agent's key", approved).await?;
    let linking = start_browser(hub, screen);
    let (browser, transport) =
        report.step("link_browser", "Chromium runs and the extension reached the hub", linking).await?;
    report.transport = Some(transport);
    let bytes = report.step("list_tools", "The agent listed the tools", list_tools(&client)).await?;
    report.tools_list_bytes = Some(bytes);

    let refused = refuses(client.call("list_tabs", json!({ "grant_id": "none" })));
    report.step("refuse_without_grant", "Without your word the agent may do nothing", refused).await?;
    let pages = Pages::serve().await?;
    let url = pages.put("/", PAGE);
    let site = pages.url("");
    let dialog = picture(args.shots.as_ref(), "dialog.png")?;
    let asked = request_control(answerer, screen, &client, &site, dialog);
    let grant =
        report.step("request_control", "The agent asked for control and you allowed it", asked).await?;

    let tab =
        report.step("open_tab", "It opened the demo shop in a background tab", grant.open(&url)).await?;
    let outline = report.step("read_page", "It read the page", grant.read(&tab)).await?;
    let filled = fill(&grant, &tab, &outline);
    report.step("fill_form", "It filled in the form", filled).await?;
    let clicked = order(&grant, &tab, &outline);
    report.step("click", "It clicked Order and saw the page say thank you", clicked).await?;
    let place = picture(args.shots.as_ref(), "page.png")?;
    report.step("photograph", "It photographed the page", photograph(&grant, &tab, place)).await?;
    let allowed = allow_script(answerer, &grant, &tab);
    report
        .step("allow_script", "It asked to run a script and you allowed that for this session", allowed)
        .await?;
    let shown = status_page(hub, picture(args.shots.as_ref(), "status.png")?);
    report.step("status_page", "The status page shows what goes on", shown).await?;
    let p50 = report.step("evaluate", "It ran sixty scripts", evaluate(&grant, &tab)).await?;
    report.evaluate_p50_ms = p50;
    report.hub_rss_mb = resident(hub);

    report.step("kill", "You ended it with one click", kill(hub)).await?;
    let refused = refuses(grant.call("read_page", json!({ "tab": tab })));
    report.step("refuse_after_kill", "The agent's next call is refused", refused).await?;
    report.step("audit", "The audit has every step, unbroken", verify(hub)).await?;

    browser.kill().await?;
    hub.stop().await?;
    tell(report, args.shots.as_ref());
    Ok(())
}

fn tell(report: &Report, shots: Option<&PathBuf>) {
    say(format_args!(
        "\nAll of it works here. evaluate_script: {} ms · list of tools: {} bytes · hub: {} MB · by {}",
        shown(report.evaluate_p50_ms),
        shown(report.tools_list_bytes),
        shown(report.hub_rss_mb),
        report.transport.as_deref().unwrap_or("?"),
    ));
    if let Some(shots) = shots {
        say(format_args!("Pictures are in {}.", shots.display()));
    }
    say("Everything that it started has ended, and its files are gone.");
}

fn shown(figure: Option<impl ToString>) -> String {
    figure.map_or_else(|| "?".to_owned(), |figure| figure.to_string())
}

/// A new key opens nothing before the owner's click.
async fn allow_key(answerer: &Answerer, client: &McpClient) -> anyhow::Result<()> {
    if let Answerer::Hand(owner) = answerer {
        return approve(owner.clone(), client.clone()).await;
    }
    answerer.answer("allow", "Allow, which lets the demo's agent ask you", None).await?;
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        let (_, ask) = client.request("ping", json!({}));
        if client.raw(&[], &ask).await?.status == 200 {
            return Ok(());
        }
        if Instant::now() >= end {
            bail!("the key was not allowed");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn list_tools(client: &McpClient) -> anyhow::Result<usize> {
    client.initialize().await?;
    Ok(client.rpc("tools/list", json!({})).await?.to_string().len())
}

async fn request_control(
    answerer: &Answerer,
    screen: &Screen,
    client: &McpClient,
    site: &str,
    picture: Option<PathBuf>,
) -> anyhow::Result<Grant> {
    let shot = match (screen, &picture) {
        (Screen::Virtual(screen), Some(place)) => Some(Shot { screen, place }),
        _ => None,
    };
    let asked = json!({ "purpose": PURPOSE, "sites": [site], "caller": "The demo" });
    let asking = client.call("request_control", asked);
    let (asked, answered) = tokio::join!(asking, answerer.answer("allow", "Allow", shot));
    answered?;
    let mut asked = asked?.ok()?;
    // A person may take longer than one call waits.
    while asked.field("status") == "pending" {
        let again = json!({ "purpose": PURPOSE, "request_id": asked.field("request_id") });
        asked = client.call("request_control", again).await?.ok()?;
    }
    Grant::of(client, &asked)
}

async fn fill(grant: &Grant, tab: &str, outline: &str) -> anyhow::Result<()> {
    for (field, text) in [("Name", NAME), ("Town", "London")] {
        let place = ref_of(outline, &format!("textbox \"{field}\""))?;
        grant.does("type_text", json!({ "tab": tab, "ref": place, "text": text })).await?;
    }
    Ok(())
}

async fn order(grant: &Grant, tab: &str, outline: &str) -> anyhow::Result<()> {
    let button = ref_of(outline, "button \"Order\"")?;
    grant.does("click_element", json!({ "tab": tab, "ref": button })).await?;
    grant.does("wait_for", json!({ "tab": tab, "text": format!("Thank you, {NAME}!") })).await?;
    Ok(())
}

async fn photograph(grant: &Grant, tab: &str, place: Option<PathBuf>) -> anyhow::Result<()> {
    let taken = grant.does("take_screenshot", json!({ "tab": tab, "format": "png" })).await?;
    let (_, picture) = taken.images.first().context("there is no picture in the answer")?;
    if let Some(place) = place {
        std::fs::write(&place, picture).with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}

async fn allow_script(answerer: &Answerer, grant: &Grant, tab: &str) -> anyhow::Result<()> {
    let asking = grant.does("evaluate_script", json!({ "tab": tab, "expression": "document.title" }));
    let (asked, answered) = tokio::join!(asking, answerer.answer("grant", "Allow for this session", None));
    answered?;
    asked.map(drop)
}

async fn evaluate(grant: &Grant, tab: &str) -> anyhow::Result<Option<f64>> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        grant.does("evaluate_script", json!({ "tab": tab, "expression": "1" })).await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

/// What the hub keeps in memory, in megabytes.
fn resident(hub: &ScratchHub) -> Option<f64> {
    let pid = hub.pid()?.to_string();
    let output = std::process::Command::new("ps").args(["-o", "rss=", "-p", &pid]).output().ok()?;
    let kilobytes: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
    Some((kilobytes / 102.4).round() / 10.0)
}

async fn status_page(hub: &ScratchHub, place: Option<PathBuf>) -> anyhow::Result<()> {
    let page = hub.page().await?;
    let shows = |state: &Value| {
        let grants = state["grants"].as_array()?;
        grants.iter().any(|grant| grant["purpose"] == PURPOSE).then_some(())
    };
    page.wait("the grant", Duration::from_secs(5), shows).await?;
    if let Some(place) = place {
        shots::status_page(hub, PURPOSE, &place).await?;
    }
    Ok(())
}

async fn kill(hub: &ScratchHub) -> anyhow::Result<()> {
    let page = hub.page().await?;
    let answer = page.post("/kill", &json!({})).await?;
    if answer.status != 200 {
        bail!("the status page's Kill was answered with {}: {}", answer.status, answer.text());
    }
    let over = |state: &Value| state["grants"].as_array().filter(|grants| grants.is_empty()).map(drop);
    page.wait("the end of the grant", Duration::from_secs(5), over).await
}

/// A call that has to be refused, for want of a grant.
async fn refuses(
    call: impl Future<Output = anyhow::Result<consentry_test_support::mcp::Called>>,
) -> anyhow::Result<()> {
    let called = call.await?;
    if !called.is_error {
        bail!("the call was carried out without a live grant: {}", called.text);
    }
    Ok(())
}

async fn verify(hub: &ScratchHub) -> anyhow::Result<()> {
    let ran = hub.run(&["audit", "verify"]).await?;
    if ran.code != Some(0) {
        bail!("the audit does not hold: {}{}", ran.stdout, ran.stderr);
    }
    Ok(())
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("{\"window\"")).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
