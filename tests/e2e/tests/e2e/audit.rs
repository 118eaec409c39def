//! The audit comes before the effect: without room for it nothing runs, and ending still works.

use std::time::Duration;

use anyhow::{Context, ensure};
use consentry_test_support::hub::{HubOptions, Ran, ScratchHub};
use consentry_test_support::link::FakeBrowser;
use consentry_test_support::mcp::McpClient;
use consentry_test_support::scene::{Grant, approve};
use consentry_test_support::xsession::XSession;
use serde_json::{Value, json};

use crate::stage::{ASKING, Set, Test, refused, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = tests![alone; a_full_disk_refuses_calls_and_says_so_and_ending_still_works];
    tests.extend(tests![ASKING; a_changed_line_is_found]);
    tests
}

/// A hub whose state folder is a small disk of its own, that only it sees: the machine stays as it is.
const ON_A_SMALL_DISK: &str = r#"set -e; keep=$(mktemp -d); cp -a "$CONSENTRY_HOME/." "$keep"
mount -t tmpfs -o size=40m,mode=0700 small "$CONSENTRY_HOME"; cp -a "$keep/." "$CONSENTRY_HOME"; rm -r "$keep"; exec "$@""#;

/// Runs a command where the hub's disk is seen.
async fn inside(hub: &ScratchHub, command: &[&str]) -> anyhow::Result<Ran> {
    let pid = hub.pid().context("the hub runs")?.to_string();
    let mut nsenter = hub.command_of("nsenter");
    let output = nsenter.args(["-m", "-t", &pid]).args(command).output();
    let output = tokio::time::timeout(Duration::from_secs(30), output).await??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) })
}

async fn a_full_disk_refuses_calls_and_says_so_and_ending_still_works() -> anyhow::Result<()> {
    let screen = XSession::start()?;
    let under = ["unshare", "-m", "--propagation", "private", "sh", "-c", ON_A_SMALL_DISK, "sh"];
    let options = HubOptions {
        display: Some(screen.display().to_owned()),
        browser_rules: "window_seconds = 60\ncooldown_seconds = 0".to_owned(),
        under: under.map(str::to_owned).to_vec(),
        ..HubOptions::default()
    };
    let mut hub = ScratchHub::prepare(options).await?;
    let key = hub.add_key("tester").await?;
    let owner = hub.owner(&screen)?;
    hub.launch().await.context("a mount namespace of its own needs root")?;
    let client = McpClient::new(hub.mcp_url("browser"), key);
    approve(owner.clone(), client.clone()).await?;
    let _browser = FakeBrowser::link(&hub, "fake0001").await?;
    let page = open_page(&hub).await?;
    let ask = |purpose: &str| json!({ "purpose": purpose });

    let allowed = async |purpose: &str| {
        let (asked, clicked) =
            tokio::join!(client.call("request_control", ask(purpose)), owner.click("allow"));
        clicked?;
        Grant::of(&client, &asked?.ok()?)
    };
    let first = allowed("Work before the disk is full.").await?;
    refused(first.call("list_tabs", json!({})).await, "browser_error")?;
    let home = hub.home();
    let filler = home.join("filler");
    let filler = filler.to_str().context("a path")?;
    let filled = inside(&hub, &["dd", "if=/dev/zero", &format!("of={filler}"), "bs=4k"]).await?;
    ensure!(filled.stderr.contains("No space left"), "{filled:?}");
    // What is left of the audit's last block may hold some lines yet.
    let mut last = String::new();
    for _ in 0..200 {
        last = first.call("list_tabs", json!({})).await?.code().to_owned();
        if last == "audit_unavailable" {
            break;
        }
    }
    ensure!(last == "audit_unavailable", "{last}");
    let said = |state: &Value| {
        rows(state, "warnings").iter().find(|w| w["kind"] == "audit").map(|w| w["text"].to_string())
    };
    page.wait("a warning about the audit", Duration::from_secs(3), said).await?;
    let shown = hub.dialogs_shown();
    let asked = client.call("request_control", ask("Ask while the disk is full.")).await?;
    ensure!(asked.code() == "audit_unavailable" && hub.dialogs_shown() == shown, "{}", asked.raw);

    // Ending waits for nothing.
    let killed = page.post("/kill", &json!({ "label": first.label })).await?;
    ensure!(killed.json()?["grants"] == 1, "{}", killed.text());
    refused(first.call("list_tabs", json!({})).await, "no_grant")?;
    let disabled = page.post("/disable", &json!({})).await?;
    ensure!(disabled.status == 200, "{}", disabled.text());
    ensure!(page.state().await?["disabled"] == true);
    refused(first.call("list_tabs", json!({})).await, "disabled")?;
    let enabled = page.post("/enable", &json!({})).await?;
    ensure!(enabled.status == 200, "{}", enabled.text());

    // With room again it is as before, by itself.
    ensure!(inside(&hub, &["rm", filler]).await?.code == Some(0));
    let well = |state: &Value| rows(state, "warnings").iter().all(|w| w["kind"] != "audit").then_some(());
    let second = allowed("Work when there is room again.").await?;
    refused(second.call("list_tabs", json!({})).await, "browser_error")?;
    page.wait("no warning any more", Duration::from_secs(5), well).await?;
    let own = consentry_test_support::hub::Programs::beside_this()?.consentry();
    let verified = inside(&hub, &[own.to_str().context("a path")?, "audit", "verify", "--json"]).await?;
    ensure!(verified.json()?["ok"] == true, "{verified:?}");
    Ok(())
}

/// The status page, by a link that is made where the hub's socket is seen.
async fn open_page(hub: &ScratchHub) -> anyhow::Result<consentry_test_support::hub::StatusPage> {
    let own = consentry_test_support::hub::Programs::beside_this()?.consentry();
    let link = inside(hub, &[own.to_str().context("a path")?, "open", "--print"]).await?;
    consentry_test_support::hub::StatusPage::open(hub.control_port(), link.stdout.trim()).await
}

async fn a_changed_line_is_found(set: &mut Set) -> anyhow::Result<()> {
    set.grant("Leave a trace.", &[]).await?;
    let place = set.hub.home().join("audit.jsonl");
    let good = std::fs::read_to_string(&place)?;
    // A copy: the hub goes on with its own.
    let copy = tempfile::Builder::new().prefix("cs-").tempdir_in("/tmp")?;
    let verify = async |text: &str| {
        std::fs::write(copy.path().join("audit.jsonl"), text)?;
        let mut command = set.hub.command();
        let output =
            command.args(["audit", "verify", "--json"]).env("CONSENTRY_HOME", copy.path()).output().await?;
        anyhow::Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let (code, said) = verify(&good).await?;
    ensure!(code == Some(0), "{said}");
    let lines: Vec<&str> = good.lines().collect();
    let middle = lines.len() / 2;
    let without: Vec<&str> =
        lines.iter().enumerate().filter(|(at, _)| *at != middle).map(|(_, line)| *line).collect();
    let mut swapped = lines.clone();
    swapped.swap(middle, middle - 1);
    let altered = good.replacen("tester", "nobody", 1);
    for broken in [without.join("\n") + "\n", swapped.join("\n") + "\n", altered] {
        let (code, said) = verify(&broken).await?;
        ensure!(code == Some(4) && said.contains("\"ok\":false"), "{said}");
    }
    Ok(())
}
