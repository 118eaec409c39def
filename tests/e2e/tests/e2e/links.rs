//! The link and its ends: whichever of them dies, the others notice, and it is back by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use consentry_test_support::scene::Grant;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::ending::{detached, long_call};
use crate::stage::{HEADLESS, Set, Test, refused, rows, tests};

/// How long the link may take to be back, once the hub is.
const BACK: Duration = Duration::from_secs(2);

pub(crate) fn tests() -> Vec<Test> {
    tests![HEADLESS;
        a_hub_that_is_killed_leaves_no_tab_attached_and_its_grants_are_dead_when_it_is_back,
        the_link_is_back_within_two_seconds_of_the_hub,
        a_browser_that_is_killed_ends_its_calls_with_a_typed_error,
        an_extension_that_reloads_is_back,
        a_worker_that_is_stopped_is_back,
        a_relay_that_is_killed_is_back,
    ]
}

async fn works(set: &Set, grant: &Grant) -> anyhow::Result<String> {
    let url = set.pages.put("/", "<title>Plain</title><p>Still here</p>");
    let tab = grant.open(&url).await?;
    let text = grant.read(&tab).await?;
    ensure!(text.contains("Still here"), "{text}");
    Ok(tab)
}

async fn working(set: &Set) -> anyhow::Result<(Grant, String)> {
    let grant = set.grant("Look at a plain page.", &[&set.site()]).await?;
    let tab = works(set, &grant).await?;
    Ok((grant, tab))
}

async fn a_hub_that_is_killed_leaves_no_tab_attached_and_its_grants_are_dead_when_it_is_back(
    set: &mut Set,
) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    let running = long_call(set, &grant, &tab).await?;
    set.hub.kill_9().await?;
    ensure!(running.await?.is_err(), "a call to a hub that was killed");
    detached(set, Duration::from_secs(2)).await?;
    set.scene.hub.launch().await?;
    set.linked().await?;
    refused(grant.call("read_page", json!({ "tab": tab })).await, "no_grant")?;
    working(set).await?;
    // Nothing was lost of what was written before.
    let verified = set.hub.run(&["audit", "verify", "--json"]).await?;
    ensure!(verified.json()?["ok"] == true, "{verified:?}");
    Ok(())
}

async fn the_link_is_back_within_two_seconds_of_the_hub(set: &mut Set) -> anyhow::Result<()> {
    for _ in 0..2 {
        let before = set.linked_as().await?;
        set.hub.stop().await?;
        set.scene.hub.launch().await?;
        let back = Instant::now();
        set.linked().await?;
        let took = back.elapsed();
        ensure!(took <= BACK, "back after {took:?}");
        ensure!(set.linked_as().await? == before, "it is the same profile");
    }
    working(set).await?;
    Ok(())
}

impl Set {
    /// The profile that is linked.
    async fn linked_as(&self) -> anyhow::Result<String> {
        let status = self.hub.status().await?;
        Ok(rows(&status, "browsers").first().context("no browser")?["profile"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// Waits until the link that stands is a younger one than `since`.
    async fn linked_anew(&self, since: Instant, limit: Duration) -> anyhow::Result<Duration> {
        let young = |status: &Value| {
            let seconds = rows(status, "browsers").first()?["seconds"].as_u64()?;
            (seconds <= since.elapsed().as_secs() && since.elapsed() > Duration::from_millis(100))
                .then_some(())
        };
        self.hub.wait_status("a fresh link", limit, young).await?;
        Ok(since.elapsed())
    }
}

async fn a_browser_that_is_killed_ends_its_calls_with_a_typed_error(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    let running = long_call(set, &grant, &tab).await?;
    let before = set.linked_as().await?;
    let killed = Instant::now();
    set.kill_browser().await?;
    let ended = running.await??;
    let took = killed.elapsed();
    ensure!(["link_lost", "document_changed"].contains(&ended.code()), "{}", ended.raw);
    ensure!(ended.field("outcome") == "maybe_done" || ended.code() == "document_changed", "{}", ended.raw);
    ensure!(took < Duration::from_secs(3), "after {took:?}");
    refused(grant.call("list_tabs", json!({})).await, "extension_not_connected")?;
    let shown = set.hub.dialogs_shown();
    let ask = json!({ "purpose": "Ask with no browser there." });
    refused(set.client.call("request_control", ask).await, "extension_not_connected")?;
    ensure!(set.hub.dialogs_shown() == shown, "a dialog for a path that cannot work");
    set.start_browser().await?;
    ensure!(set.linked_as().await? == before, "the profile keeps its id");
    // The grant is the owner's word, not the browser's: it lives on.
    works(set, &grant).await?;
    Ok(())
}

async fn an_extension_that_reloads_is_back(set: &mut Set) -> anyhow::Result<()> {
    let (grant, _) = working(set).await?;
    // Old enough to tell the next one from it.
    set.link_is_older_than(2).await?;
    let reloaded = Instant::now();
    // The worker may be gone before it can answer.
    drop(set.browser()?.in_worker("chrome.runtime.reload()").await);
    set.linked_anew(reloaded, Duration::from_secs(15)).await?;
    works(set, &grant).await?;
    Ok(())
}

async fn a_worker_that_is_stopped_is_back(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab) = working(set).await?;
    set.link_is_older_than(2).await?;
    let browser = set.browser()?;
    let page = browser.extension_page("options.html").await?;
    let session = Some(page.as_str());
    let stopped = Instant::now();
    browser.cdp.call(session, "ServiceWorker.enable", json!({})).await?;
    browser.cdp.call(session, "ServiceWorker.stopAllWorkers", json!({})).await?;
    browser.cdp.call(session, "Page.close", json!({})).await?;
    set.linked_anew(stopped, Duration::from_secs(65)).await?;
    // Its attachments outlive a worker, but whoever holds them now is the new one.
    let read = grant.call("read_page", json!({ "tab": tab })).await?;
    ensure!(read.code().is_empty(), "{}", read.raw);
    works(set, &grant).await?;
    Ok(())
}

impl Set {
    async fn link_is_older_than(&self, seconds: u64) -> anyhow::Result<()> {
        let old = |status: &Value| {
            (rows(status, "browsers").first()?["seconds"].as_u64()? >= seconds).then_some(())
        };
        self.hub.wait_status("a link of some age", Duration::from_secs(10), old).await
    }
}

/// The processes that run a program.
fn processes_of(program: &Path) -> anyhow::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        if std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program) {
            found.push(pid);
        }
    }
    Ok(found)
}

async fn a_relay_that_is_killed_is_back(set: &mut Set) -> anyhow::Result<()> {
    let (grant, _) = working(set).await?;
    set.link_is_older_than(2).await?;
    let program = set.hub.home().join("bin/consentry-native-host");
    let relays = processes_of(&program)?;
    ensure!(relays.len() == 1, "{} relays run", relays.len());
    let killed = Instant::now();
    kill_process(relays[0], Signal::KILL)?;
    set.linked_anew(killed, Duration::from_secs(10)).await?;
    let now = processes_of(&program)?;
    ensure!(now.len() == 1 && now != relays, "{now:?} after {relays:?}");
    works(set, &grant).await?;
    Ok(())
}
