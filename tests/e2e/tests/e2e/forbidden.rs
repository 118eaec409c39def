//! Pages that are never driven, by whatever route: the browser's own, the extension's, the hub's.

use anyhow::{Context, ensure};
use consentry_test_support::scene::Grant;
use serde_json::{Value, json};

use crate::ending::attached;
use crate::stage::{HEADLESS, Set, Test, refused, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![HEADLESS;
        no_address_but_http_and_https_is_opened,
        the_hubs_own_ports_are_not_opened_under_any_spelling,
        naming_the_hub_as_a_site_changes_nothing,
        a_redirect_to_the_hub_leads_nowhere,
        a_page_that_goes_to_the_hub_by_itself_is_let_go_of,
        a_frame_of_the_hub_stays_unread,
        tabs_that_were_there_before_are_listed_no_further_than_their_host_and_never_touched,
        a_tab_that_the_owner_takes_to_the_options_page_is_let_go_of,
    ]
}

fn spellings(port: u16) -> Vec<String> {
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "user:pass@127.0.0.1",
        "%31%32%37.0.0.1",
        "①②⑦.0.0.1",
    ]
    .iter()
    .map(|host| format!("http://{host}:{port}/healthz"))
    .collect()
}

async fn working(set: &Set) -> anyhow::Result<(Grant, String)> {
    let url = set.pages.put("/", "<title>Start</title><p>Here it begins</p>");
    let grant = set.grant("Look where I may not.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    Ok((grant, tab))
}

async fn tabs_open(set: &Set) -> anyhow::Result<u64> {
    let count = set.browser()?.in_worker("chrome.tabs.query({}).then(all => all.length)").await?;
    count.as_u64().context("a count")
}

/// Neither opened nor navigated to; no dialog, no further tab.
async fn leads_nowhere(set: &Set, grant: &Grant, tab: &str, url: &str, code: &str) -> anyhow::Result<()> {
    let (shown, open) = (set.hub.dialogs_shown(), tabs_open(set).await?);
    for (tool, arguments) in
        [("open_tab", json!({ "url": url })), ("navigate_tab", json!({ "tab": tab, "url": url }))]
    {
        let answer = grant.call(tool, arguments).await?;
        ensure!(answer.code() == code, "{tool} {url}: {}", answer.raw);
    }
    ensure!(set.hub.dialogs_shown() == shown, "a dialog about {url}");
    ensure!(tabs_open(set).await? == open, "a tab for {url}");
    Ok(())
}

async fn no_address_but_http_and_https_is_opened(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    let id = set.browser()?.extension_id().await?;
    for url in [
        "chrome://settings",
        "chrome://version",
        "chrome-untrusted://terminal",
        "devtools://devtools/bundled/inspector.html",
        "file:///etc/passwd",
        "data:text/html,hello",
        "javascript:alert(1)",
        "view-source:http://127.0.0.1/",
        "about:blank",
        "ftp://127.0.0.1/",
        "blob:http://127.0.0.1/x",
        "filesystem:http://127.0.0.1/x",
        "CHROME://settings",
        " chrome://settings",
        "not an address",
        "",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("chrome-extension://{id}/options.html"), format!("chrome-extension://{id}/popup.html")])
    {
        leads_nowhere(set, &grant, &tab, &url, "invalid_argument").await?;
    }
    let read = grant.read(&tab).await?;
    ensure!(read.contains("Here it begins"), "{read}");
    Ok(())
}

async fn the_hubs_own_ports_are_not_opened_under_any_spelling(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    for port in [set.hub.control_port(), set.hub.mcp_port()] {
        for url in spellings(port) {
            let (shown, open) = (set.hub.dialogs_shown(), tabs_open(set).await?);
            let answer = grant.call("open_tab", json!({ "url": url })).await?;
            ensure!(["forbidden_page", "invalid_argument"].contains(&answer.code()), "{url}: {}", answer.raw);
            let answer = grant.call("navigate_tab", json!({ "tab": tab, "url": url })).await?;
            ensure!(["forbidden_page", "invalid_argument"].contains(&answer.code()), "{url}: {}", answer.raw);
            ensure!(set.hub.dialogs_shown() == shown && tabs_open(set).await? == open, "{url}");
        }
    }
    let read = grant.read(&tab).await?;
    ensure!(read.contains("Here it begins"), "{read}");
    Ok(())
}

async fn naming_the_hub_as_a_site_changes_nothing(set: &mut Set) -> anyhow::Result<()> {
    let own = format!("http://127.0.0.1:{}", set.hub.control_port());
    set.pages.put("/", "<title>Start</title>");
    let ask = json!({ "purpose": "Name the hub.", "sites": [own, set.site()] });
    let asking = set.client.call("request_control", ask);
    tokio::pin!(asking);
    let grant = tokio::select! {
        // Refused before anybody is asked is as well.
        asked = &mut asking => {
            ensure!(asked?.is_error);
            set.grant("Do not name the hub.", &[&set.site()]).await?
        }
        dialog = set.owner.next_dialog() => {
            let dialog = dialog?;
            let (asked, clicked) = tokio::join!(asking, set.owner.answer(&dialog, "allow"));
            clicked?;
            Grant::of(&set.client, &asked?.ok()?)?
        }
    };
    let tab = grant.open(&set.pages.url("/")).await?;
    leads_nowhere(set, &grant, &tab, &format!("{own}/healthz"), "forbidden_page").await
}

/// Nothing of the hub is attached to, and nothing of it can be read.
async fn untouched(set: &Set, grant: &Grant, tab: &str) -> anyhow::Result<()> {
    let held = attached(set.browser()?).await?;
    for port in [set.hub.control_port(), set.hub.mcp_port()] {
        ensure!(!held.iter().any(|url| url.contains(&format!(":{port}"))), "{held:?}");
    }
    for (tool, arguments) in touching(tab) {
        let answer = grant.call(tool, arguments).await?;
        ensure!(answer.is_error, "{tool}: {}", answer.raw);
        ensure!(
            answer.images.is_empty() && !answer.text.contains("there is nothing here"),
            "{tool}: {}",
            answer.raw
        );
        let known = ["forbidden_page", "document_changed", "unknown_tab", "attach_refused"];
        ensure!(known.contains(&answer.code()), "{tool}: {}", answer.raw);
    }
    let held = attached(set.browser()?).await?;
    ensure!(held.iter().all(|url| url.starts_with(&set.site())), "{held:?}");
    Ok(())
}

/// Every tool that touches a page.
fn touching(tab: &str) -> [(&'static str, Value); 8] {
    [
        ("read_page", json!({ "tab": tab })),
        ("read_page", json!({ "tab": tab, "mode": "text" })),
        ("click_element", json!({ "tab": tab, "selector": "body" })),
        ("type_text", json!({ "tab": tab, "text": "x" })),
        ("press_key", json!({ "tab": tab, "key": "Enter" })),
        ("evaluate_script", json!({ "tab": tab, "expression": "document.body.innerText" })),
        ("take_screenshot", json!({ "tab": tab })),
        ("wait_for", json!({ "tab": tab, "text": "o", "timeout_ms": 300 })),
    ]
}

async fn a_redirect_to_the_hub_leads_nowhere(set: &mut Set) -> anyhow::Result<()> {
    let (grant, _) = working(set).await?;
    for (at, host) in ["127.0.0.1", "localhost", "[::1]"].iter().enumerate() {
        for port in [set.hub.control_port(), set.hub.mcp_port()] {
            let url =
                set.pages.redirect(&format!("/away{at}-{port}"), format!("http://{host}:{port}/healthz"));
            let answer = grant.call("open_tab", json!({ "url": url })).await?;
            ensure!(answer.is_error && !answer.text.contains("ok\n"), "{url}: {}", answer.raw);
            let listed = grant.does("list_tabs", json!({})).await?;
            let tabs = listed.structured["tabs"].as_array().cloned().unwrap_or_default();
            let there = tabs
                .iter()
                .find(|tab| tab["url"].as_str().is_some_and(|url| url.contains(&format!(":{port}"))));
            if let Some(there) = there {
                ensure!(!there["url"].to_string().contains("healthz"), "{there}");
                untouched(set, &grant, there["tab"].as_str().unwrap_or_default()).await?;
            }
        }
    }
    let held = attached(set.browser()?).await?;
    ensure!(held.iter().all(|url| url.starts_with(&set.site())), "{held:?}");
    Ok(())
}

async fn a_page_that_goes_to_the_hub_by_itself_is_let_go_of(set: &mut Set) -> anyhow::Result<()> {
    let hub = format!("http://127.0.0.1:{}/healthz", set.hub.control_port());
    let url = set.pages.put("/go", format!("<title>Go</title><a href=\"{hub}\">Leave</a>"));
    let grant = set.grant("Follow a link to the hub.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    grant.does("click_element", json!({ "tab": tab, "selector": "a" })).await?;
    let browser = set.browser()?;
    let there = || browser.target(|target| target["type"] == "page" && target["url"] == hub.as_str());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while there().await?.is_none() {
        ensure!(std::time::Instant::now() < end, "the link leads nowhere at all");
    }
    untouched(set, &grant, &tab).await?;
    // The owner's status page knows no tab that is driven.
    let status = set.hub.status().await?;
    ensure!(rows(&rows(&status, "grants")[0], "tabs").is_empty(), "{status}");
    Ok(())
}

async fn a_frame_of_the_hub_stays_unread(set: &mut Set) -> anyhow::Result<()> {
    let (control, mcp) = (set.hub.control_port(), set.hub.mcp_port());
    let frames = format!(
        "<title>Outside</title><p>The page itself</p>
         <iframe src=\"http://127.0.0.1:{control}/nothing\"></iframe><iframe src=\"http://localhost:{mcp}/nothing\"></iframe>"
    );
    let url = set.pages.put("/frames", frames);
    let grant = set.grant("Look into frames.", &[&set.site()]).await?;
    let opened = grant.call("open_tab", json!({ "url": url })).await?;
    let tab = match opened.code() {
        "" => opened.field("tab").to_owned(),
        // Let go of altogether is as well.
        _ => return Ok(()),
    };
    for arguments in [json!({ "tab": tab }), json!({ "tab": tab, "mode": "text" })] {
        let read = grant.call("read_page", arguments).await?;
        ensure!(!read.text.contains("there is nothing here"), "{}", read.text);
    }
    let browser = set.browser()?;
    let script =
        "chrome.debugger.getTargets().then(all => all.filter(one => one.attached).map(one => one.url))";
    let held: Vec<String> = serde_json::from_value(browser.in_worker(script).await?)?;
    for port in [control, mcp] {
        ensure!(!held.iter().any(|url| url.contains(&format!(":{port}/"))), "{held:?}");
    }
    Ok(())
}

async fn tabs_that_were_there_before_are_listed_no_further_than_their_host_and_never_touched(
    set: &mut Set,
) -> anyhow::Result<()> {
    let browser = set.browser()?;
    let id = browser.extension_id().await?;
    let link = set.hub.run(&["open", "--print"]).await?.stdout.trim().to_owned();
    let hub = format!("http://127.0.0.1:{}", set.hub.control_port());
    for url in ["chrome://version/".to_owned(), format!("chrome-extension://{id}/options.html"), link] {
        browser.cdp.call(None, "Target.createTarget", json!({ "url": url, "background": true })).await?;
    }
    // The status page itself, with a session: what an agent would want most.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while browser.target(|target| target["url"] == format!("{hub}/").as_str()).await?.is_none() {
        ensure!(std::time::Instant::now() < end, "the status page does not open");
    }
    let grant = set.grant("Look at what is open.", &[&set.site()]).await?;
    let listed = grant.does("list_tabs", json!({})).await?;
    let tabs = listed.structured["tabs"].as_array().cloned().unwrap_or_default();
    for secret in ["version", "options.html", "once", &id, "Consentry"] {
        ensure!(!listed.text.contains(secret), "{secret} in {}", listed.text);
    }
    let shown = set.hub.dialogs_shown();
    let mut found = 0;
    for tab in &tabs {
        let url = tab["url"].as_str().unwrap_or_default();
        if ["chrome:", "chrome-extension:", "http:"].contains(&url) || url.starts_with(&hub) {
            ensure!(!url.starts_with(&hub) || url == hub, "{url}");
            let tab = tab["tab"].as_str().unwrap_or_default();
            untouched(set, &grant, tab).await?;
            for (tool, arguments) in [
                ("activate_tab", json!({ "tab": tab })),
                ("close_tab", json!({ "tab": tab })),
                ("navigate_tab", json!({ "tab": tab, "action": "reload" })),
                ("navigate_tab", json!({ "tab": tab, "url": set.site() })),
            ] {
                let answer = grant.call(tool, arguments).await?;
                ensure!(answer.is_error, "{tool} on {url}: {}", answer.raw);
            }
            found += 1;
        }
    }
    ensure!(found == 3, "{found} of 3 in {}", listed.raw);
    ensure!(set.hub.dialogs_shown() == shown, "the owner was asked about a page that is never driven");
    Ok(())
}

async fn a_tab_that_the_owner_takes_to_the_options_page_is_let_go_of(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    let number = tab.split_once('.').context("a tab's number")?.1;
    let browser = set.browser()?;
    let id = browser.extension_id().await?;
    browser
        .in_worker(&format!(
            "chrome.tabs.update({number}, {{ url: 'chrome-extension://{id}/options.html' }})"
        ))
        .await?;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while !attached(browser).await?.is_empty() {
        ensure!(std::time::Instant::now() < end, "still attached to {:?}", attached(browser).await?);
    }
    let answer = refused(grant.call("read_page", json!({ "tab": tab })).await, "forbidden_page");
    ensure!(answer.is_ok(), "{answer:?}");
    Ok(())
}
