//! Pages that go elsewhere between the check and the act: nothing acts there, and nothing of it comes back.

use anyhow::{Context, ensure};
use consentry_test_support::mcp::Called;
use consentry_test_support::scene::Grant;
use serde_json::{Value, json};

use crate::stage::{HEADLESS, Set, Test, refused, rounds, tests};

/// What only the other site says.
const SECRET: &str = "c4n4ry-of-the-other-site";

pub(crate) fn tests() -> Vec<Test> {
    tests![HEADLESS;
        a_click_never_lands_on_the_page_that_came_instead,
        typing_never_lands_on_the_page_that_came_instead,
        a_script_never_runs_in_the_page_that_came_instead,
        a_picture_never_shows_the_page_that_came_instead,
        reading_never_gives_the_page_that_came_instead,
    ]
}

/// A page of an allowed site that goes to a site that the owner declined, `delay` milliseconds after it is told to.
async fn trap(set: &Set) -> anyhow::Result<(Grant, String)> {
    // Everything on it is one red button and one field that has the focus; either tells the server when used.
    let hit = set.pages.put("/hit", "");
    let evil = format!(
        "<title>{SECRET}</title><body style='margin:0;background:#f00'><p>{SECRET}</p>
         <input autofocus style='position:fixed;inset:0;opacity:.01' aria-label=Field>
         <script>window.secret = '{SECRET}'; const hit = () => fetch('{hit}', {{ mode: 'no-cors', keepalive: true }});
         for (const kind of ['mousedown', 'click', 'keydown', 'input']) addEventListener(kind, hit, true)</script>"
    );
    set.pages.put("/evil", evil);
    let evil = format!("{}/evil", set.other_site());
    let good = format!(
        "<title>Good</title><body style='margin:0;background:#00f'><p>Allowed text</p>
         <input style='width:90vw;height:40vh' aria-label=Field><button style='width:90vw;height:40vh'>Go</button>
         <script>window.leave = delay => {{ setTimeout(() => {{ location.href = '{evil}' }}, delay); return delay }}</script>"
    );
    let good = set.pages.put("/good", good);
    let grant = set.grant("Be raced with.", &[&set.site()]).await?;
    // Declined once, the other site is not asked about again: calls end at once.
    let (declined, clicked) =
        tokio::join!(grant.call("open_tab", json!({ "url": evil })), set.owner.click("reject"));
    clicked?;
    refused(declined, "site_not_allowed")?;
    let tab = grant.open(&good).await?;
    Ok((grant, tab))
}

/// Runs a tool against a page that leaves at about the same time, again and again.
async fn race(
    set: &Set,
    tool: &str,
    arguments: Value,
    check: impl AsyncFn(&Set, &Called) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (grant, tab) = trap(set).await?;
    let good = set.pages.url("/good");
    let (mut before, mut after) = (0, 0);
    let tries = rounds(20, 1000);
    for round in 0..tries {
        // From too early to too late, over and over.
        let delay = (round * 7) % 60;
        let leave = json!({ "tab": tab, "expression": format!("leave({delay})") });
        grant.does("evaluate_script", leave).await?;
        let mut arguments = arguments.clone();
        arguments["tab"] = tab.as_str().into();
        let answer = grant.call(tool, arguments).await?;
        let whole = answer.raw.to_string();
        ensure!(!whole.contains(SECRET), "round {round}: {whole}");
        match answer.code() {
            "" => before += 1,
            "document_changed" | "site_not_allowed" | "forbidden_page" | "stale_ref" | "unknown_ref"
            | "not_actionable" | "script_failed" | "navigation_failed" | "wait_timed_out" => after += 1,
            _ => anyhow::bail!("round {round}: {whole}"),
        }
        check(set, &answer).await?;
        // Back to where it may be, however far it got.
        let number = tab.split_once('.').context("a tab's number")?.1;
        let back = format!(
            "(async () => {{
                await new Promise(go => setTimeout(go, {}));
                await chrome.tabs.update({number}, {{ url: '{good}' }});
                let tab;
                do {{ await new Promise(go => setTimeout(go, 10)); tab = await chrome.tabs.get({number}) }}
                while (tab.status !== 'complete' || tab.url !== '{good}');
            }})()",
            delay.max(20)
        );
        set.browser()?.in_worker(&back).await?;
        ensure!(set.pages.hits("/hit") == 0, "round {round}: {tool} acted on a site that is not allowed");
    }
    // A race that one side always wins proves nothing.
    ensure!(before + after == tries && after > 0, "{before} before it left, {after} after");
    Ok(())
}

async fn nothing_more(_: &Set, _: &Called) -> anyhow::Result<()> {
    Ok(())
}

async fn a_click_never_lands_on_the_page_that_came_instead(set: &mut Set) -> anyhow::Result<()> {
    race(set, "click_element", json!({ "selector": "button" }), nothing_more).await
}

async fn typing_never_lands_on_the_page_that_came_instead(set: &mut Set) -> anyhow::Result<()> {
    race(set, "type_text", json!({ "selector": "input", "text": "typed\ntext" }), nothing_more).await
}

async fn a_script_never_runs_in_the_page_that_came_instead(set: &mut Set) -> anyhow::Result<()> {
    let script = "document.dispatchEvent(new Event('input', { bubbles: true })), window.secret + document.title + document.body.innerText";
    race(set, "evaluate_script", json!({ "expression": script }), nothing_more).await
}

async fn reading_never_gives_the_page_that_came_instead(set: &mut Set) -> anyhow::Result<()> {
    race(set, "read_page", json!({ "mode": "text" }), nothing_more).await
}

async fn a_picture_never_shows_the_page_that_came_instead(set: &mut Set) -> anyhow::Result<()> {
    // A page of its own draws the picture and looks at one pixel of it.
    let looking = set.browser()?.cdp.open_page("about:blank").await?;
    let no_red = async |set: &Set, answer: &Called| {
        for (kind, bytes) in &answer.images {
            let script = format!(
                "(async () => {{
                    const picture = await createImageBitmap(new Blob([new Uint8Array({bytes:?})], {{ type: '{kind}' }}));
                    const paper = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
                    paper.drawImage(picture, 0, 0);
                    return [...paper.getImageData(picture.width - 2, picture.height - 2, 1, 1).data];
                }})()"
            );
            let pixel = set.browser()?.evaluate(&looking, &script).await?;
            let [red, _, blue] = [0, 1, 2].map(|at| pixel[at].as_u64().unwrap_or(999));
            ensure!(red < 100 || blue > 200, "the picture shows the other page: {pixel}");
        }
        Ok(())
    };
    race(set, "take_screenshot", json!({}), no_red).await
}
