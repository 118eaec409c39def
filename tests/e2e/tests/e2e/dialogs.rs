//! Dialogs of pages: no call waits for them.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use consentry_test_support::scene::Grant;
use serde_json::{Value, json};

use crate::stage::{HEADED, Set, Test, tests};

/// A call that meets a dialog ends within this.
const SOON: Duration = Duration::from_secs(3);

pub(crate) fn tests() -> Vec<Test> {
    tests![HEADED;
        an_alert_that_a_click_opens_does_not_hang_the_click_nor_what_follows,
        a_confirm_and_a_prompt_do_not_hang_either,
        an_alert_while_the_page_loads_does_not_hang_its_opening,
        beforeunload_does_not_hang_a_navigation,
        a_dialog_of_another_tab_stops_nobody,
    ]
}

const PAGE: &str = "<title>Loud</title><p>Quiet text</p>
    <button onclick=\"alert('Stop that')\">Alert</button><button onclick=\"confirm('Sure?')\">Confirm</button>
    <button onclick=\"prompt('Name?')\">Prompt</button>";

/// A page with the buttons, at an address of its own.
async fn working(set: &Set, name: &str) -> anyhow::Result<(Grant, String, String)> {
    let url = set.pages.put(&format!("/loud-{name}"), PAGE);
    let grant = set.grant("Meet a dialog.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    let owner = watch(set, &url).await?;
    Ok((grant, tab, owner))
}

/// A session by which the owner answers the page's dialogs; it has to be there before them.
async fn watch(set: &Set, url: &str) -> anyhow::Result<String> {
    let browser = set.browser()?;
    let target = browser.target(|t| t["type"] == "page" && t["url"] == url).await?.context("the page")?;
    let session = browser.attach(&target).await?;
    browser.cdp.call(Some(&session), "Page.enable", json!({})).await?;
    Ok(session)
}

/// Calls a tool that may meet a dialog: it works or says so, soon.
async fn soon(grant: &Grant, tool: &str, arguments: Value) -> anyhow::Result<String> {
    let started = Instant::now();
    let answer = grant.call(tool, arguments).await?;
    ensure!(started.elapsed() < SOON, "{tool} after {:?}: {}", started.elapsed(), answer.raw);
    ensure!(["", "page_dialog_open"].contains(&answer.code()), "{tool}: {}", answer.raw);
    Ok(answer.code().to_owned())
}

/// The owner answers the dialog of a page.
async fn dismiss(set: &Set, session: &str) -> anyhow::Result<()> {
    let cdp = &set.browser()?.cdp;
    cdp.call(Some(session), "Page.handleJavaScriptDialog", json!({ "accept": true })).await?;
    cdp.call(None, "Target.detachFromTarget", json!({ "sessionId": session })).await?;
    Ok(())
}

/// The page answers again. The extension hears that its dialog is gone on a way of its own, a moment later.
async fn free_again(grant: &Grant, tab: &str, text: &str) -> anyhow::Result<()> {
    let end = Instant::now() + SOON;
    loop {
        let read = grant.call("read_page", json!({ "tab": tab })).await?;
        if read.text.contains(text) {
            return Ok(());
        }
        // It may be on its way elsewhere just now.
        ensure!(["", "page_dialog_open", "document_changed"].contains(&read.code()), "{}", read.raw);
        ensure!(
            Instant::now() < end,
            "the dialog is gone and the page is still taken to be blocked: {}",
            read.raw
        );
    }
}

async fn blocks_and_is_over(set: &Set, button: &str) -> anyhow::Result<()> {
    let (grant, tab, owner) = working(set, button).await?;
    let selector = format!("button:nth-of-type({button})");
    soon(&grant, "click_element", json!({ "tab": tab, "selector": selector })).await?;
    for (tool, arguments) in [
        ("read_page", json!({ "tab": tab })),
        ("click_element", json!({ "tab": tab, "selector": "p" })),
        ("take_screenshot", json!({ "tab": tab })),
        ("press_key", json!({ "tab": tab, "key": "Tab" })),
        ("wait_for", json!({ "tab": tab, "text": "never", "timeout_ms": 60_000 })),
    ] {
        let code = soon(&grant, tool, arguments).await?;
        ensure!(code == "page_dialog_open", "{tool} with a dialog open: {code}");
    }
    dismiss(set, &owner).await?;
    free_again(&grant, &tab, "Quiet text").await
}

async fn an_alert_that_a_click_opens_does_not_hang_the_click_nor_what_follows(
    set: &mut Set,
) -> anyhow::Result<()> {
    blocks_and_is_over(set, "1").await
}

async fn a_confirm_and_a_prompt_do_not_hang_either(set: &mut Set) -> anyhow::Result<()> {
    blocks_and_is_over(set, "2").await?;
    blocks_and_is_over(set, "3").await
}

async fn an_alert_while_the_page_loads_does_not_hang_its_opening(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/greets", "<title>Greets</title><script>alert('Welcome')</script><p>Inside</p>");
    let grant = set.grant("Open a page that greets.", &[&set.site()]).await?;
    let started = Instant::now();
    let opened = grant.call("open_tab", json!({ "url": url })).await?;
    ensure!(started.elapsed() < Duration::from_secs(20), "after {:?}: {}", started.elapsed(), opened.raw);
    ensure!(["", "page_dialog_open"].contains(&opened.code()), "{}", opened.raw);
    Ok(())
}

async fn beforeunload_does_not_hang_a_navigation(set: &mut Set) -> anyhow::Result<()> {
    let page = "<title>Sticky</title><button>Touch</button><script>onbeforeunload = event => event.preventDefault()</script>";
    let sticky = set.pages.put("/sticky", page);
    let next = set.pages.put("/next", "<title>Next</title><p>Arrived</p>");
    let grant = set.grant("Leave a page that asks back.", &[&set.site()]).await?;
    let tab = grant.open(&sticky).await?;
    let owner = watch(set, &sticky).await?;
    // Without a gesture the browser does not ask.
    grant.does("click_element", json!({ "tab": tab, "selector": "button" })).await?;
    soon(&grant, "navigate_tab", json!({ "tab": tab, "url": next })).await?;
    let code = soon(&grant, "read_page", json!({ "tab": tab })).await?;
    if code == "page_dialog_open" {
        dismiss(set, &owner).await?;
        free_again(&grant, &tab, "Arrived").await?;
    }
    Ok(())
}

async fn a_dialog_of_another_tab_stops_nobody(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab, owner) = working(set, "other").await?;
    let other = grant.open(&set.pages.put("/calm", "<title>Calm</title><p>Undisturbed</p>")).await?;
    soon(&grant, "click_element", json!({ "tab": tab, "selector": "button:nth-of-type(1)" })).await?;
    let started = Instant::now();
    ensure!(grant.read(&other).await?.contains("Undisturbed"));
    grant.does("take_screenshot", json!({ "tab": other })).await?;
    ensure!(started.elapsed() < SOON, "after {:?}", started.elapsed());
    dismiss(set, &owner).await
}
