//! Tabs in every state that a browser puts them in: nothing hangs.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use consentry_test_support::scene::Grant;
use serde_json::{Value, json};

use crate::stage::{HEADLESS, Set, Test, refused, tests};

/// No call on a tab that sleeps takes longer.
const WOKEN: Duration = Duration::from_secs(15);

pub(crate) fn tests() -> Vec<Test> {
    tests![HEADLESS;
        a_discarded_tab_is_woken_and_never_hung_on,
        a_frozen_tab_is_worked_in_and_never_hung_on,
        a_tab_that_closes_under_a_call_ends_it,
        a_renderer_that_crashes_is_a_typed_error_and_comes_back_by_a_reload,
        only_tabs_of_this_grant_are_closed,
        two_grants_share_a_tab_and_the_last_lets_go,
        many_tabs_are_listed_at_once,
        a_wrong_argument_is_named_with_what_is_allowed,
        opening_and_killing_again_and_again_always_works,
    ]
}

fn number(tab: &str) -> anyhow::Result<&str> {
    Ok(tab.split_once('.').context("a tab's number")?.1)
}

/// A tab that the owner opened, by its id, loaded.
async fn owners_tab(set: &Set, grant: &Grant, url: &str) -> anyhow::Result<String> {
    let script = format!(
        "(async () => {{
            const tab = await chrome.tabs.create({{ url: '{url}', active: false }});
            while ((await chrome.tabs.get(tab.id)).status !== 'complete') await new Promise(go => setTimeout(go, 20));
            return tab.id;
        }})()"
    );
    let id = set.browser()?.in_worker(&script).await?;
    let listed = grant.does("list_tabs", json!({})).await?;
    let tabs = listed.structured["tabs"].as_array().cloned().unwrap_or_default();
    let found =
        tabs.iter().filter_map(|tab| tab["tab"].as_str()).find(|tab| tab.ends_with(&format!(".{id}")));
    Ok(found.with_context(|| format!("no tab {id} in {}", listed.raw))?.to_owned())
}

async fn a_discarded_tab_is_woken_and_never_hung_on(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/nap", "<title>Nap</title><p>Awake again</p>");
    let grant = set.grant("Look at a tab that sleeps.", &[&set.site()]).await?;
    let tab = owners_tab(set, &grant, &url).await?;
    let discarded = set
        .browser()?
        .in_worker(&format!("chrome.tabs.discard({}).then(tab => tab.id)", number(&tab)?))
        .await?;
    let profile = tab.split_once('.').context("a profile")?.0;
    let tab = format!("{profile}.{discarded}");
    let listed = grant.does("list_tabs", json!({})).await?;
    let rows = listed.structured["tabs"].as_array().cloned().unwrap_or_default();
    ensure!(rows.iter().any(|row| row["tab"] == tab.as_str() && row["unloaded"] == true), "{}", listed.raw);
    let started = Instant::now();
    let read = grant.read(&tab).await?;
    ensure!(read.contains("Awake again"), "{read}");
    ensure!(started.elapsed() < WOKEN, "after {:?}", started.elapsed());
    Ok(())
}

async fn a_frozen_tab_is_worked_in_and_never_hung_on(set: &mut Set) -> anyhow::Result<()> {
    let page = "<title>Ice</title><p>Not melted</p><button onclick=\"document.title='melted'\">Melt</button>";
    let url = set.pages.put("/ice", page);
    let grant = set.grant("Look at a tab that is frozen.", &[&set.site()]).await?;
    let tab = owners_tab(set, &grant, &url).await?;
    let browser = set.browser()?;
    let target = browser.target(|target| target["url"] == url.as_str()).await?.context("the target")?;
    let session = browser.attach(&target).await?;
    browser.cdp.call(Some(&session), "Page.setWebLifecycleState", json!({ "state": "frozen" })).await?;
    browser.cdp.call(None, "Target.detachFromTarget", json!({ "sessionId": session })).await?;
    for (tool, arguments) in [
        ("read_page", json!({ "tab": tab })),
        ("evaluate_script", json!({ "tab": tab, "expression": "document.title" })),
        ("take_screenshot", json!({ "tab": tab })),
        ("click_element", json!({ "tab": tab, "selector": "button" })),
    ] {
        let started = Instant::now();
        let answer = grant.call(tool, arguments).await?;
        ensure!(started.elapsed() < WOKEN, "{tool} after {:?}: {}", started.elapsed(), answer.text);
        ensure!(!answer.is_error, "{tool}: {}", answer.text);
    }
    Ok(())
}

async fn a_tab_that_closes_under_a_call_ends_it(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/", "<title>Short</title>");
    let grant = set.grant("Wait in a tab that closes.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    let running = crate::ending::long_call(set, &grant, &tab).await?;
    let closed = Instant::now();
    set.browser()?.in_worker(&format!("chrome.tabs.remove({})", number(&tab)?)).await?;
    let ended = running.await??;
    ensure!(["document_changed", "unknown_tab"].contains(&ended.code()), "{}", ended.raw);
    ensure!(closed.elapsed() < Duration::from_secs(3), "after {:?}", closed.elapsed());
    refused(grant.call("read_page", json!({ "tab": tab })).await, "unknown_tab")?;
    Ok(())
}

async fn a_renderer_that_crashes_is_a_typed_error_and_comes_back_by_a_reload(
    set: &mut Set,
) -> anyhow::Result<()> {
    let url = set.pages.put("/", "<title>Frail</title><p>Standing</p>");
    let grant = set.grant("Work in a page that crashes.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    let browser = set.browser()?;
    let target = browser.target(|target| target["url"] == url.as_str()).await?.context("the target")?;
    let session = browser.attach(&target).await?;
    // It does not answer any more.
    let crash = browser.cdp.call(Some(&session), "Page.crash", json!({}));
    drop(tokio::time::timeout(Duration::from_secs(2), crash).await);
    let started = Instant::now();
    let answer = grant.call("read_page", json!({ "tab": tab })).await?;
    ensure!(answer.code() == "tab_crashed", "after {:?}: {}", started.elapsed(), answer.raw);
    ensure!(started.elapsed() < Duration::from_secs(3), "after {:?}", started.elapsed());
    grant.does("navigate_tab", json!({ "tab": tab, "action": "reload" })).await?;
    ensure!(grant.read(&tab).await?.contains("Standing"));
    Ok(())
}

async fn only_tabs_of_this_grant_are_closed(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/", "<title>Kept</title>");
    let grant = set.grant("Close what is mine.", &[&set.site()]).await?;
    let theirs = owners_tab(set, &grant, &url).await?;
    let answer = grant.call("close_tab", json!({ "tab": theirs })).await?;
    ensure!(answer.is_error, "{}", answer.raw);
    let mine = grant.open(&url).await?;
    grant.does("close_tab", json!({ "tab": mine })).await?;
    refused(grant.call("read_page", json!({ "tab": mine })).await, "unknown_tab")?;
    grant.read(&theirs).await?;
    Ok(())
}

async fn two_grants_share_a_tab_and_the_last_lets_go(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/", "<title>Shared</title><p>By two</p>");
    let one = set.grant("Be the first.", &[&set.site()]).await?;
    let two = set.grant("Be the second.", &[&set.site()]).await?;
    let tab = one.open(&url).await?;
    two.read(&tab).await?;
    one.does("release_control", json!({})).await?;
    ensure!(crate::ending::attached(set.browser()?).await?.len() == 1, "let go of while the other holds it");
    ensure!(two.read(&tab).await?.contains("By two"));
    two.does("release_control", json!({})).await?;
    crate::ending::detached(set, Duration::from_secs(1)).await
}

async fn many_tabs_are_listed_at_once(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/", "<title>One of many</title>");
    let script = format!(
        "Promise.all(Array.from({{ length: 75 }}, () => chrome.tabs.create({{ url: '{url}', active: false }}))).then(all => all.length)"
    );
    set.browser()?.in_worker(&script).await?;
    let grant = set.grant("List many tabs.", &[&set.site()]).await?;
    let started = Instant::now();
    let listed = grant.does("list_tabs", json!({})).await?;
    ensure!(listed.structured["tabs"].as_array().is_some_and(|tabs| tabs.len() >= 75), "{}", listed.raw);
    ensure!(started.elapsed() < Duration::from_secs(3), "after {:?}", started.elapsed());
    Ok(())
}

async fn a_wrong_argument_is_named_with_what_is_allowed(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/", "<title>Right</title><p>Unchanged</p>");
    let grant = set.grant("Make mistakes.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    let cases: [(&str, Value, &str); 10] = [
        ("read_page", json!({ "tab": tab, "mdoe": "text" }), "mdoe"),
        ("read_page", json!({ "tab": 3 }), "tab"),
        ("read_page", json!({ "tab": "nonsense" }), "tab"),
        ("read_page", json!({ "tab": tab, "mode": "loud" }), "mode"),
        ("click_element", json!({ "tab": tab }), "ref"),
        ("click_element", json!({ "tab": tab, "ref": "<e1>" }), "ref"),
        ("click_element", json!({ "tab": tab, "selector": "<<<" }), "selector"),
        ("wait_for", json!({ "tab": tab, "text": "x", "timeout_ms": 999_999_999 }), "timeout_ms"),
        ("press_key", json!({ "tab": tab, "key": "Nonsense+Q" }), "key"),
        ("navigate_tab", json!({ "tab": tab }), "url"),
    ];
    for (tool, arguments, field) in cases {
        let answer = refused(grant.call(tool, arguments.clone()).await, "invalid_argument")
            .with_context(|| format!("{tool} {arguments}"))?;
        ensure!(answer.field("field") == field, "{tool} {arguments}: {}", answer.raw);
        ensure!(!answer.field("allowed").is_empty(), "{tool} {arguments}: {}", answer.raw);
    }
    refused(grant.call("no_such_tool", json!({})).await, "unknown_tool")?;
    refused(grant.call("click_element", json!({ "tab": tab, "ref": "e999" })).await, "unknown_ref")?;
    refused(grant.call("read_page", json!({ "tab": "zzzzzzzz.1" })).await, "unknown_tab")?;
    ensure!(grant.read(&tab).await?.contains("Unchanged"));
    Ok(())
}

async fn opening_and_killing_again_and_again_always_works(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/", "<title>Again</title><p>Round</p>");
    let page = set.hub.page().await?;
    for round in 0..8 {
        let grant = set.grant("Open and be killed.", &[&set.site()]).await?;
        let tab = grant.open(&url).await.with_context(|| format!("round {round}"))?;
        ensure!(grant.read(&tab).await?.contains("Round"), "round {round}");
        page.post("/kill", &json!({})).await?;
    }
    Ok(())
}
