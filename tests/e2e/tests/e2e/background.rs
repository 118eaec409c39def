//! Working behind the owner's back without disturbing them: the focus and the tab in front stay where they are.

use anyhow::{Context, ensure};
use consentry_test_support::scene::{Grant, ref_of};
use serde_json::{Value, json};
use x11rb::protocol::xproto::ConnectionExt as _;

use crate::stage::{HEADED, HEADLESS, Set, Test, tests};

pub(crate) fn tests() -> Vec<Test> {
    let mut tests =
        tests![HEADED; every_tool_but_activate_tab_leaves_the_focus_and_the_front_tab_alone_in_a_window];
    tests.extend(tests![HEADLESS; every_tool_but_activate_tab_leaves_the_front_tab_alone_without_a_window]);
    tests
}

const PAGE: &str = "<title>Behind</title><label>Name <input></label>
    <button onclick=\"document.getElementById('said').textContent = 'clicked with ' + document.hasFocus()\">Press</button>
    <p id=said>nothing</p><p style='margin-top:3000px'>Far below</p>";

/// What the owner would notice.
#[derive(Debug, PartialEq)]
struct Front {
    /// The window that has the keyboard.
    focus: Option<u32>,
    /// The tab in front of each window, and whether the window is in front.
    tabs: Value,
    /// Whether the page in front is seen, and has the focus.
    seen: Value,
}

impl Set {
    async fn front(&self, page: &str, headed: bool) -> anyhow::Result<Front> {
        let focus = match headed {
            true => Some(self.screen.connect()?.get_input_focus()?.reply()?.focus),
            false => None,
        };
        let browser = self.browser()?;
        let active = "chrome.windows.getAll({ populate: true }).then(all => all.map(one => [one.id, one.focused, one.state, one.tabs.find(tab => tab.active)?.id]))";
        let tabs = browser.in_worker(active).await?;
        let seen = browser.evaluate(page, "[document.visibilityState, document.hasFocus()]").await?;
        Ok(Front { focus, tabs, seen })
    }
}

async fn every_tool(set: &Set, headed: bool) -> anyhow::Result<()> {
    let front = set.pages.put("/front", "<title>Front</title><p>The owner reads here</p>");
    let url = set.pages.put("/behind", PAGE);
    let next = set.pages.put("/behind-too", PAGE);
    // The question about the script stands before the owner's window is looked at.
    let grant = set.grant("Work in the background.", &[&set.site()]).await?;
    let browser = set.browser()?;
    let owners = browser.cdp.open_page(&front).await?;
    browser.cdp.call(Some(&owners), "Page.bringToFront", json!({})).await?;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    loop {
        let seen = set.front(&owners, headed).await?.seen;
        // Under a window manager a window has the keyboard once it is clicked into.
        if seen[0] == "visible" && (seen[1] == true || !headed) {
            break;
        }
        if headed {
            set.owner.hand(|hand| hand.click(400, 500)).await?;
        }
        ensure!(std::time::Instant::now() < end, "the page in front is {seen}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let before = set.front(&owners, headed).await?;

    let tab = grant.open(&url).await?;
    ensure!(set.front(&owners, headed).await? == before, "open_tab: {before:?}");
    let outline = grant.read(&tab).await?;
    let (name, press) = (ref_of(&outline, "textbox \"Name\"")?, ref_of(&outline, "button \"Press\"")?);
    for (tool, arguments) in [
        ("list_tabs", json!({})),
        ("type_text", json!({ "tab": tab, "ref": name, "text": "Ada Lovelace" })),
        ("press_key", json!({ "tab": tab, "key": "Backspace" })),
        ("click_element", json!({ "tab": tab, "ref": press })),
        ("wait_for", json!({ "tab": tab, "text": "clicked with true" })),
        ("take_screenshot", json!({ "tab": tab })),
        ("take_screenshot", json!({ "tab": tab, "full_page": true })),
        ("read_page", json!({ "tab": tab, "mode": "text" })),
        ("navigate_tab", json!({ "tab": tab, "url": next })),
        ("navigate_tab", json!({ "tab": tab, "action": "back" })),
        ("navigate_tab", json!({ "tab": tab, "action": "forward" })),
        ("navigate_tab", json!({ "tab": tab, "action": "reload" })),
    ] {
        let done = grant.does(tool, arguments).await?;
        ensure!(["", "confirmed"].contains(&done.field("outcome")), "{tool}: {}", done.raw);
        let now = set.front(&owners, headed).await?;
        ensure!(now == before, "{tool}: {now:?} instead of {before:?}");
    }
    if !headed {
        // Where the owner is not asked: the question itself would be noticed.
        grant.does("evaluate_script", json!({ "tab": tab, "expression": "document.title" })).await?;
        ensure!(set.front(&owners, headed).await? == before, "evaluate_script");
    }
    let other = grant.open(&url).await?;
    grant.does("close_tab", json!({ "tab": other })).await?;
    ensure!(set.front(&owners, headed).await? == before, "close_tab");
    activates(set, &grant, &tab, &owners).await?;
    browser.cdp.call(None, "Target.detachFromTarget", json!({ "sessionId": owners })).await?;
    Ok(())
}

async fn activates(set: &Set, grant: &Grant, tab: &str, owners: &str) -> anyhow::Result<()> {
    grant.does("activate_tab", json!({ "tab": tab })).await?;
    let number = tab.split_once('.').context("a tab's number")?.1;
    let active =
        set.browser()?.in_worker(&format!("chrome.tabs.get({number}).then(tab => tab.active)")).await?;
    ensure!(active == json!(true));
    let hidden = set.browser()?.evaluate(owners, "document.visibilityState").await?;
    ensure!(hidden == "hidden", "{hidden}");
    Ok(())
}

async fn every_tool_but_activate_tab_leaves_the_focus_and_the_front_tab_alone_in_a_window(
    set: &mut Set,
) -> anyhow::Result<()> {
    every_tool(set, true).await
}

async fn every_tool_but_activate_tab_leaves_the_front_tab_alone_without_a_window(
    set: &mut Set,
) -> anyhow::Result<()> {
    every_tool(set, false).await
}
