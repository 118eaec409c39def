//! The status page, as a browser shows it, and what its port asks for before it answers.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use consentry_test_support::cdp::Cdp;
use consentry_test_support::chromium::{Chromium, Options};
use consentry_test_support::http::Http;
use serde_json::{Value, json};

use crate::stage::{ASKING, Set, Test, refused, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![ASKING;
        the_page_shows_a_grant_live_and_its_kill_button_ends_it,
        the_page_is_worked_by_keyboard_alone_and_names_all_that_can_be_worked,
        without_a_session_only_the_doors_answer,
        another_host_or_a_proxy_is_refused,
        a_write_without_the_token_is_refused,
        a_link_opens_the_page_once,
        the_page_answers_no_dialog,
    ]
}

/// A page that can be asked things.
struct Shown {
    _chromium: Chromium,
    cdp: Cdp,
    session: String,
}

impl Shown {
    async fn open(url: &str) -> anyhow::Result<Self> {
        let chromium = Chromium::launch(Options::default()).await?;
        let cdp = Cdp::connect(chromium.endpoint()).await?;
        let session = cdp.open_page(url).await?;
        Ok(Self { _chromium: chromium, cdp, session })
    }

    async fn evaluate(&self, script: &str) -> anyhow::Result<Value> {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.cdp.call(Some(&self.session), "Runtime.evaluate", params).await?;
        ensure!(answer.get("exceptionDetails").is_none(), "{script}: {answer}");
        Ok(answer["result"]["value"].take())
    }

    async fn wait(&self, what: &str, script: &str) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            // While it navigates there is nothing to ask.
            if self.evaluate(script).await.is_ok_and(|value| value == json!(true)) {
                return Ok(());
            }
            if Instant::now() >= end {
                let page = self.evaluate("document.body.innerText").await?;
                anyhow::bail!("waited in vain for {what}: {page}");
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
}

async fn the_page_shows_a_grant_live_and_its_kill_button_ends_it(set: &mut Set) -> anyhow::Result<()> {
    let link = set.hub.run(&["open", "--print"]).await?.stdout;
    let page = Shown::open(link.trim()).await?;
    page.wait(
        "the page",
        "location.pathname === '/' && !location.search && document.body.innerText.includes('desk')",
    )
    .await?;
    // It was there before the grant: what follows came by itself.
    let grant = set.grant("Be seen on the status page.", &[]).await?;
    let (label, purpose) = (&grant.label, "Be seen on the status page.");
    page.wait(
        "the grant",
        &format!(
            "document.body.innerText.includes('{label}') && document.body.innerText.includes('{purpose}')"
        ),
    )
    .await?;
    let press = "(() => { const button = [...document.querySelectorAll('button')].find(one => /^kill/i.test(one.textContent.trim()) && !/all/i.test(one.textContent) && one.offsetParent);
        if (!button) throw new Error('no Kill button'); button.click(); return true })()";
    page.evaluate(press).await?;
    // A page may ask back before it kills.
    let gone = |status: &Value| rows(status, "grants").is_empty().then_some(());
    if set.hub.wait_status("no grant", Duration::from_secs(1), gone).await.is_err() {
        page.evaluate("(() => { document.querySelector('dialog[open] button[value], dialog[open] .danger')?.click(); return true })()").await?;
        set.hub.wait_status("no grant", Duration::from_secs(3), gone).await?;
    }
    refused(grant.call("list_tabs", json!({})).await, "no_grant")?;
    page.wait(
        "the grant to go",
        &format!(
            "![...document.querySelectorAll('button')].some(one => /^kill {label}/i.test(one.textContent))"
        ),
    )
    .await?;
    Ok(())
}

impl Shown {
    async fn call(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.cdp.call(Some(&self.session), method, params).await
    }

    async fn press(&self, key: &str, code: u32, text: &str) -> anyhow::Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let key =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", key).await?;
        }
        Ok(())
    }

    /// Goes on by Tab until what has the focus is so.
    async fn tab_to(&self, what: &str, is: &str) -> anyhow::Result<()> {
        for _ in 0..60 {
            if self.evaluate(&format!("(({is})(document.activeElement))")).await? == true {
                return Ok(());
            }
            self.press("Tab", 9, "").await?;
        }
        anyhow::bail!("sixty presses of Tab do not lead to {what}")
    }
}

async fn the_page_is_worked_by_keyboard_alone_and_names_all_that_can_be_worked(
    set: &mut Set,
) -> anyhow::Result<()> {
    let link = set.hub.run(&["open", "--print"]).await?.stdout;
    let page = Shown::open(link.trim()).await?;
    let grant = set.grant("Be ended by a key.", &[]).await?;
    page.wait(
        "the grant",
        &format!("document.getElementById('grants').innerText.includes('{}')", grant.label),
    )
    .await?;

    // What a screen reader says of it.
    page.call("Accessibility.enable", json!({})).await?;
    let tree = page.call("Accessibility.getFullAXTree", json!({})).await?;
    let worked = ["button", "textbox", "searchbox", "combobox", "link", "progressbar", "region"];
    let nodes = tree["nodes"].as_array().context("nodes")?.iter().filter(|node| node["ignored"] != true);
    let mut found = 0;
    for node in nodes {
        if worked.contains(&node["role"]["value"].as_str().unwrap_or_default()) {
            found += 1;
            ensure!(node["name"]["value"].as_str().is_some_and(|name| !name.trim().is_empty()), "{node}");
        }
    }
    ensure!(found >= 8, "{found} things with a name");

    // The filter, the view of one grant, and Kill.
    page.tab_to("the filter", "at => at.id === 'filter'").await?;
    page.call("Input.insertText", json!({ "text": "nothing like it" })).await?;
    page.wait("no line", "document.getElementById('audit').rows.length === 0 && document.getElementById('no-audit').offsetParent !== null").await?;
    page.evaluate("(() => { const filter = document.getElementById('filter'); filter.value = ''; filter.dispatchEvent(new Event('input')) })()").await?;
    page.wait("the lines again", "document.getElementById('audit').rows.length > 0").await?;
    let of_grant = format!("at => at.dataset.do === 'log' && at.textContent === '{}'", grant.label);
    page.tab_to("the grant's label", &of_grant).await?;
    page.press("Enter", 13, "\r").await?;
    page.wait("the view of the grant", "document.getElementById('log').open && document.getElementById('log').innerText.includes('Be ended by a key.')").await?;
    page.press("Escape", 27, "").await?;
    page.wait("the view to close", "!document.getElementById('log').open").await?;
    page.tab_to("Kill", "at => at.dataset.do === 'kill'").await?;
    page.press("Enter", 13, "\r").await?;
    let gone = |status: &Value| rows(status, "grants").is_empty().then_some(());
    set.hub.wait_status("no grant", Duration::from_secs(3), gone).await?;
    refused(grant.call("list_tabs", json!({})).await, "no_grant")?;

    // Light and dark, and nothing from elsewhere.
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        page.call("Emulation.setEmulatedMedia", media).await?;
        grounds.push(page.evaluate("getComputedStyle(document.body).backgroundColor").await?);
    }
    ensure!(grounds[0] != grounds[1], "{grounds:?}");
    let elsewhere = "performance.getEntriesByType('resource').map(one => one.name).filter(name => !name.startsWith(location.origin) && !name.startsWith('data:'))";
    ensure!(page.evaluate(elsewhere).await? == json!([]));
    let policy =
        page.evaluate("fetch('/').then(answer => answer.headers.get('content-security-policy'))").await?;
    ensure!(
        policy
            .as_str()
            .is_some_and(|policy| policy.contains("default-src 'none'") && !policy.contains("unsafe")),
        "{policy}"
    );
    Ok(())
}

fn url(set: &Set, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", set.hub.control_port())
}

async fn without_a_session_only_the_doors_answer(set: &mut Set) -> anyhow::Result<()> {
    let http = Http::default();
    for path in ["/", "/state.json", "/events", "/grants/ABCD/log.json"] {
        let answer = http.get(&url(set, path), &[]).await?;
        ensure!(answer.status == 401 && !answer.text().contains("desk"), "{path}: {}", answer.status);
        let forged = format!("consentry_{}={}", set.hub.control_port(), "0".repeat(64));
        ensure!(http.get(&url(set, path), &[("cookie", &forged)]).await?.status == 401, "{path}");
    }
    for path in ["/kill", "/disable", "/enable", "/forget"] {
        ensure!(http.post(&url(set, path), &[], "{}").await?.status == 401, "{path}");
    }
    ensure!(http.get(&url(set, "/healthz"), &[]).await?.status == 200);
    ensure!(set.hub.status().await?["disabled"] == false);
    Ok(())
}

async fn another_host_or_a_proxy_is_refused(set: &mut Set) -> anyhow::Result<()> {
    let page = set.hub.page().await?;
    let http = Http::default();
    let cookie = ("cookie", page.cookie());
    let port = set.hub.control_port();
    for host in [
        "example.com".to_owned(),
        format!("example.com:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port - 1),
    ] {
        for path in ["/state.json", "/healthz", "/open?once=x"] {
            ensure!(
                http.get(&page.url(path), &[cookie, ("host", &host)]).await?.status == 403,
                "{host} {path}"
            );
        }
    }
    for header in ["cf-connecting-ip", "cf-ray", "x-forwarded-for", "forwarded"] {
        let answer = http.get(&page.url("/state.json"), &[cookie, (header, "203.0.113.7")]).await?;
        ensure!(answer.status == 403 && !answer.text().contains("desk"), "{header}: {}", answer.status);
    }
    for origin in ["https://example.com", "null", &format!("http://127.0.0.1:{}", set.hub.mcp_port())] {
        ensure!(
            http.get(&page.url("/state.json"), &[cookie, ("origin", origin)]).await?.status == 403,
            "{origin}"
        );
    }
    ensure!(page.get("/state.json").await?.status == 200);
    Ok(())
}

async fn a_write_without_the_token_is_refused(set: &mut Set) -> anyhow::Result<()> {
    let page = set.hub.page().await?;
    let grant = set.grant("Outlive a forged write.", &[]).await?;
    let http = Http::default();
    for path in ["/kill", "/disable", "/enable", "/forget"] {
        for token in ["", "0", page.cookie()] {
            let headers = [("cookie", page.cookie()), ("x-consentry-token", token)];
            ensure!(http.post(&page.url(path), &headers, "{}").await?.status == 403, "{path} {token:?}");
        }
    }
    let status = set.hub.status().await?;
    ensure!(
        status["disabled"] == false && rows(&status, "grants")[0]["label"] == grant.label.as_str(),
        "{status}"
    );
    let unknown = page.post("/kill", &json!({ "lable": grant.label })).await?;
    ensure!(
        unknown.status >= 400 && rows(&set.hub.status().await?, "grants").len() == 1,
        "{}",
        unknown.status
    );
    Ok(())
}

async fn a_link_opens_the_page_once(set: &mut Set) -> anyhow::Result<()> {
    let link = set.hub.run(&["open", "--print"]).await?.stdout;
    let http = Http::default();
    let first = http.get(link.trim(), &[]).await?;
    let cookie = first.header("set-cookie").context("a session")?.to_owned();
    ensure!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let policy = first.header("content-security-policy").unwrap_or_default();
    ensure!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let second = http.get(link.trim(), &[]).await?;
    ensure!(second.status == 401 && second.header("set-cookie").is_none(), "{}", second.status);
    Ok(())
}

async fn the_page_answers_no_dialog(set: &mut Set) -> anyhow::Result<()> {
    let client = set.another_key("unanswered").await?;
    let page = set.hub.page().await?;
    let asking = client.call("request_control", json!({ "purpose": "Be answered by a page." }));
    let posting = async {
        let dialog = set.owner.next_dialog().await?;
        let state = page.state().await?;
        ensure!(state["dialog"]["purpose"] == "Be answered by a page.", "{state}");
        for path in ["/answer", "/allow", "/dialog", "/dialog/allow"] {
            ensure!(page.post(path, &json!({ "answer": "allow" })).await?.status == 404, "{path}");
        }
        ensure!(set.owner.stands(&dialog)?, "the dialog is gone");
        set.owner.answer(&dialog, "reject").await
    };
    let (asked, posted) = tokio::join!(asking, posting);
    posted?;
    refused(asked, "rejected")?;
    Ok(())
}
