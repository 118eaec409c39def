//! Ending: whichever way the owner takes, it is over at once.

use std::time::{Duration, Instant};

use anyhow::ensure;
use consentry_test_support::scene::{Browser, Grant};
use serde_json::{Value, json};

use crate::stage::{HEADED, Set, Test, refused, rows, tests};

/// How long what belongs to a grant may outlive it.
const AT_ONCE: Duration = Duration::from_secs(1);

pub(crate) fn tests() -> Vec<Test> {
    tests![HEADED;
        kill_by_label_ends_one_grant_and_kill_all_the_rest,
        kill_by_path_ends_the_grants_of_that_path,
        the_status_page_kills_one_and_all,
        stop_in_the_popup_ends_the_grants_of_this_browser,
        the_file_disabled_ends_everything_and_only_the_owner_enables,
        the_disable_command_ends_everything,
        disable_everything_in_the_popup_ends_everything,
        killing_ends_a_call_that_runs_and_detaches_its_tab,
        releasing_detaches_and_close_tabs_closes_what_was_opened,
        a_revoked_key_takes_its_grants_with_it,
        cancel_on_chromes_own_bar_ends_the_grants_of_this_browser,
    ]
}

async fn working(set: &Set) -> anyhow::Result<(Grant, String)> {
    let url = set.pages.put("/", "<title>Quiet</title><p>Nothing happens here</p>");
    let grant = set.grant("Look at a quiet page.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    Ok((grant, tab))
}

/// The tabs that a debugger holds: Chrome's own word.
pub(crate) async fn attached(browser: &Browser) -> anyhow::Result<Vec<String>> {
    let script = "chrome.debugger.getTargets().then(all => all.filter(one => one.attached && one.type === 'page').map(one => one.url))";
    Ok(serde_json::from_value(browser.in_worker(script).await?)?)
}

/// Waits until no debugger holds a tab.
pub(crate) async fn detached(set: &Set, limit: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + limit;
    loop {
        let held = attached(set.browser()?).await?;
        if held.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < end, "still attached after {limit:?}: {held:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn kill_by_label_ends_one_grant_and_kill_all_the_rest(set: &mut Set) -> anyhow::Result<()> {
    let (one, tab) = working(set).await?;
    let (other, second) = working(set).await?;
    let killed = set.hub.run(&["kill", &one.label.to_lowercase(), "--json"]).await?;
    ensure!(killed.code == Some(0) && killed.json()?["grants"] == 1, "{killed:?}");
    refused(one.call("read_page", json!({ "tab": tab })).await, "no_grant")?;
    other.read(&second).await?;
    let killed = set.hub.run(&["kill", "--all", "--json"]).await?;
    ensure!(killed.json()?["grants"] == 1 && killed.json()?["acknowledged"] == true, "{killed:?}");
    refused(other.call("read_page", json!({ "tab": second })).await, "no_grant")?;
    detached(set, AT_ONCE).await?;
    let none = set.hub.run(&["kill", "--all"]).await?;
    ensure!(none.code == Some(4), "nothing to kill needs attention: {none:?}");
    Ok(())
}

async fn kill_by_path_ends_the_grants_of_that_path(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    ensure!(set.hub.run(&["kill", "--path", "shell", "--json"]).await?.json()?["grants"] == 0);
    grant.read(&tab).await?;
    ensure!(set.hub.run(&["kill", "--path", "browser", "--json"]).await?.json()?["grants"] == 1);
    refused(grant.call("read_page", json!({ "tab": tab })).await, "no_grant")?;
    Ok(())
}

async fn the_status_page_kills_one_and_all(set: &mut Set) -> anyhow::Result<()> {
    let (one, tab) = working(set).await?;
    let (other, second) = working(set).await?;
    let page = set.hub.page().await?;
    let killed = page.post("/kill", &json!({ "label": one.label })).await?;
    ensure!(killed.status == 200 && killed.json()?["grants"] == 1, "{}", killed.text());
    refused(one.call("read_page", json!({ "tab": tab })).await, "no_grant")?;
    other.read(&second).await?;
    let killed = page.post("/kill", &json!({})).await?;
    ensure!(killed.status == 200 && killed.json()?["grants"] == 1, "{}", killed.text());
    refused(other.call("read_page", json!({ "tab": second })).await, "no_grant")?;
    detached(set, AT_ONCE).await
}

/// Presses a button of the popup, once it can be pressed.
async fn press_in_popup(set: &Set, button: &str) -> anyhow::Result<()> {
    let browser = set.browser()?;
    let popup = browser.extension_page("popup.html").await?;
    let script = format!(
        "new Promise((pressed, never) => {{
            const end = Date.now() + 10000;
            const look = () => {{
                const button = document.getElementById('{button}');
                const told = document.getElementById('headline').textContent !== 'Connecting…';
                if (told && !button.hidden && !button.disabled) {{ button.click(); pressed(true); }}
                else if (Date.now() > end) never(new Error(document.body.innerText));
                else setTimeout(look, 20);
            }};
            look();
        }})"
    );
    ensure!(browser.evaluate(&popup, &script).await? == json!(true));
    // What is looked at by this test is not what is driven.
    browser.cdp.call(None, "Target.detachFromTarget", json!({ "sessionId": popup })).await?;
    Ok(())
}

async fn stop_in_the_popup_ends_the_grants_of_this_browser(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    press_in_popup(set, "stop").await?;
    no_grants(set).await?;
    refused(grant.call("read_page", json!({ "tab": tab })).await, "no_grant")?;
    let log = set.hub.run(&["log", "--grant", &grant.label, "--json"]).await?.json()?;
    ensure!(log["summary"]["ended"] == "stopped", "{log}");
    Ok(())
}

async fn no_grants(set: &Set) -> anyhow::Result<Value> {
    let look = |status: &Value| rows(status, "grants").is_empty().then(|| status.clone());
    set.hub.wait_status("no grant", Duration::from_secs(3), look).await
}

/// What has to hold after everything was disabled, and after the owner enabled it again.
async fn stays_disabled(set: &Set, grant: &Grant, tab: &str) -> anyhow::Result<()> {
    ensure!(set.hub.home().join("DISABLED").exists());
    detached(set, Duration::from_secs(3)).await?;
    refused(grant.call("read_page", json!({ "tab": tab })).await, "disabled")?;
    let shown = set.hub.dialogs_shown();
    refused(set.client.call("request_control", json!({ "purpose": "Ask all the same." })).await, "disabled")?;
    ensure!(set.hub.dialogs_shown() == shown, "a dialog while everything is disabled");
    let status = set.hub.run(&["status", "--json"]).await?;
    ensure!(status.code == Some(4) && status.json()?["disabled"] == true, "{status:?}");
    let enabled = set.hub.run(&["enable"]).await?;
    ensure!(enabled.code == Some(0) && !set.hub.home().join("DISABLED").exists(), "{enabled:?}");
    refused(grant.call("read_page", json!({ "tab": tab })).await, "no_grant")?;
    set.grant("Ask after it was enabled.", &[]).await?;
    Ok(())
}

async fn the_file_disabled_ends_everything_and_only_the_owner_enables(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    std::fs::write(set.hub.home().join("DISABLED"), "")?;
    // At once, on the very next request, whether or not anybody has noticed the file yet.
    refused(grant.call("read_page", json!({ "tab": tab })).await, "disabled")?;
    stays_disabled(set, &grant, &tab).await
}

async fn the_disable_command_ends_everything(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    let disabled = set.hub.run(&["disable", "--json"]).await?.json()?;
    ensure!(disabled["disabled"] == true && disabled["hub"]["acknowledged"] == true, "{disabled}");
    stays_disabled(set, &grant, &tab).await
}

async fn disable_everything_in_the_popup_ends_everything(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    press_in_popup(set, "disable").await?;
    let disabled = |status: &Value| (status["disabled"] == true).then_some(());
    set.hub.wait_status("disabled", Duration::from_secs(3), disabled).await?;
    stays_disabled(set, &grant, &tab).await
}

/// Starts a wait of a minute, and returns once it runs.
pub(crate) async fn long_call(
    set: &Set,
    grant: &Grant,
    tab: &str,
) -> anyhow::Result<tokio::task::JoinHandle<anyhow::Result<consentry_test_support::mcp::Called>>> {
    let (caller, arguments) = (grant.clone(), json!({ "tab": tab, "text": "never", "timeout_ms": 60_000 }));
    let running = tokio::spawn(async move { caller.call("wait_for", arguments).await });
    let runs = |status: &Value| {
        let grant = rows(status, "grants").iter().find(|row| row["label"] == grant.label)?;
        (grant["running"] == 1 && grant["last_tool"] == "wait_for").then_some(())
    };
    set.hub.wait_status("a running call", Duration::from_secs(5), runs).await?;
    Ok(running)
}

async fn killing_ends_a_call_that_runs_and_detaches_its_tab(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    let page = set.hub.page().await?;
    let running = long_call(set, &grant, &tab).await?;
    ensure!(attached(set.browser()?).await?.len() == 1);
    let killed = Instant::now();
    let answer = page.post("/kill", &json!({ "label": grant.label })).await?;
    ensure!(answer.json()?["acknowledged"] == true, "{}", answer.text());
    let ended = refused(running.await?, "grant_ended")?;
    let took = killed.elapsed();
    ensure!(took <= AT_ONCE, "the call ended after {took:?}");
    ensure!(["maybe_done", "not_started"].contains(&ended.field("outcome")), "{}", ended.raw);
    // It was acknowledged, so it is so already.
    let held = attached(set.browser()?).await?;
    ensure!(held.is_empty(), "{held:?}");
    Ok(())
}

async fn releasing_detaches_and_close_tabs_closes_what_was_opened(set: &mut Set) -> anyhow::Result<()> {
    let (grant, _) = working(set).await?;
    grant.does("release_control", json!({})).await?;
    detached(set, AT_ONCE).await?;
    let open =
        "chrome.tabs.query({}).then(all => all.filter(one => one.url.startsWith('http://127')).length)";
    ensure!(set.browser()?.in_worker(open).await? == json!(1), "the tab stays open");
    let (grant, _) = working(set).await?;
    grant.does("release_control", json!({ "close_tabs": true })).await?;
    ensure!(
        set.browser()?.in_worker(open).await? == json!(1),
        "what this grant opened is closed, and nothing else"
    );
    Ok(())
}

async fn a_revoked_key_takes_its_grants_with_it(set: &mut Set) -> anyhow::Result<()> {
    let client = set.another_key("passing").await?;
    let grant = set.grant_to(&client, "Be cut short.", &[]).await?;
    grant.does("list_tabs", json!({})).await?;
    set.hub.run(&["key", "revoke", "passing"]).await?;
    no_grants(set).await?;
    let (_, ask) = client.request("ping", json!({}));
    ensure!(client.raw(&[], &ask).await?.status == 401);
    Ok(())
}

/// Where Chrome's own bar has its buttons, in a window of 1200 pixels in the corner of the screen.
const BAR_CLOSE: (u16, u16) = (1166, 115);
const BAR_CANCEL: (u16, u16) = (761, 115);

async fn cancel_on_chromes_own_bar_ends_the_grants_of_this_browser(set: &mut Set) -> anyhow::Result<()> {
    // One bar is shown at a time: away with the one about the sandbox, which tests alone have.
    set.owner.hand(|hand| hand.click(BAR_CLOSE.0, BAR_CLOSE.1)).await?;
    let (grant, tab) = working(set).await?;
    let end = Instant::now() + Duration::from_secs(10);
    // The bar slides in.
    while !rows(&set.hub.status().await?, "grants").is_empty() {
        ensure!(Instant::now() < end, "Cancel on Chrome's bar ends nothing");
        set.owner.hand(|hand| hand.click(BAR_CANCEL.0, BAR_CANCEL.1)).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    refused(grant.call("read_page", json!({ "tab": tab })).await, "no_grant")?;
    let log = set.hub.run(&["log", "--grant", &grant.label, "--json"]).await?.json()?;
    ensure!(log["summary"]["ended"] == "stopped", "{log}");
    detached(set, AT_ONCE).await
}
