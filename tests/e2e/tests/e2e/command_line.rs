//! The commands that need no browser and no screen: what they do, what they refuse, and how they end.

use anyhow::{Context as _, ensure};
use consentry_test_support::hub::{HubOptions, Ran, ScratchHub};
use serde_json::{Value, json};

use crate::stage::{Test, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![alone;
        connecting_merges_into_what_is_there_and_shows_the_same_without_doing_it,
        connecting_that_cannot_be_done_leaves_a_client_that_works,
        keys_are_added_listed_rotated_and_revoked,
        registering_says_what_failed_and_removing_undoes_it,
        setting_up_again_changes_nothing_and_refuses_what_cannot_be,
        commands_that_need_a_hub_say_so_and_the_others_work_without,
        completions_are_there_for_every_shell,
    ]
}

async fn hub() -> anyhow::Result<ScratchHub> {
    ScratchHub::prepare(HubOptions::default()).await
}

async fn run(hub: &ScratchHub, code: i32, arguments: &[&str]) -> anyhow::Result<Ran> {
    let ran = hub.run(arguments).await?;
    ensure!(ran.code == Some(code), "consentry {arguments:?} ended with {ran:?}");
    Ok(ran)
}

async fn key_names(hub: &ScratchHub) -> anyhow::Result<Vec<Value>> {
    let keys = run(hub, 0, &["key", "list", "--json"]).await?.json()?;
    Ok(keys.as_array().context("a list")?.iter().map(|key| key["name"].clone()).collect())
}

async fn connecting_merges_into_what_is_there_and_shows_the_same_without_doing_it() -> anyhow::Result<()> {
    let hub = hub().await?;
    for (client, file, below) in [
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".config/Code/User/mcp.json", "servers"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
    ] {
        let shown = run(&hub, 0, &["connect", client, "--json"]).await?.json()?;
        let place = hub.user().join(file);
        ensure!(shown["file"] == place.to_str().context("a path")? && !place.exists(), "{shown}");
        std::fs::create_dir_all(place.parent().context("a folder")?)?;
        std::fs::write(&place, json!({ "theme": "dark", below: { "other": { "url": "x" } } }).to_string())?;
        run(&hub, 0, &["connect", client, "--apply"]).await?;
        let merged: Value = serde_json::from_str(&std::fs::read_to_string(&place)?)?;
        ensure!(merged["theme"] == "dark" && merged[below]["other"]["url"] == "x", "{merged}");
        let (entry, shown) =
            (&merged[below]["consentry-browser"], &shown["merge"][below]["consentry-browser"]);
        ensure!(
            entry.to_string().contains("consentry_") && !shown.to_string().contains("consentry_"),
            "{entry}"
        );
        ensure!(entry["url"] == shown["url"] && entry["args"] == shown["args"], "{entry} {shown}");
    }
    let codex = hub.user().join(".codex/config.toml");
    std::fs::create_dir_all(codex.parent().context("a folder")?)?;
    std::fs::write(&codex, "model = \"m\"\n[mcp_servers.other]\ncommand = \"x\"\n")?;
    run(&hub, 0, &["connect", "codex", "--apply"]).await?;
    let merged = std::fs::read_to_string(&codex)?;
    ensure!(merged.contains("model = \"m\"") && merged.contains("mcp_servers.other"), "{merged}");
    ensure!(
        merged.contains("mcp_servers.consentry-browser") && merged.contains("CONSENTRY_HOME"),
        "{merged}"
    );
    ensure!(key_names(&hub).await? == ["claude-desktop", "codex", "cursor", "vscode"]);
    Ok(())
}

async fn connecting_that_cannot_be_done_leaves_a_client_that_works() -> anyhow::Result<()> {
    let hub = hub().await?;
    run(&hub, 0, &["connect", "cursor", "--apply"]).await?;
    let place = hub.user().join(".cursor/mcp.json");
    let commented = format!("// mine\n{}", std::fs::read_to_string(&place)?);
    std::fs::write(&place, &commented)?;
    let before = std::fs::read(hub.home().join("keys/cursor.toml"))?;
    let refused = run(&hub, 1, &["connect", "cursor", "--apply"]).await?;
    ensure!(refused.stderr.contains("nothing was changed"), "{refused:?}");
    ensure!(std::fs::read(hub.home().join("keys/cursor.toml"))? == before, "its key was replaced");
    ensure!(std::fs::read_to_string(&place)? == commented);
    // No such program is there.
    let nowhere = hub.command().env("PATH", "/nowhere").args(["connect", "claude-code", "--apply"]).output();
    ensure!(nowhere.await?.status.code() == Some(1));
    let refused = run(&hub, 1, &["connect", "codex", "--path", "shell"]).await?;
    ensure!(refused.stderr.contains("allowed: browser"), "{refused:?}");
    ensure!(key_names(&hub).await? == ["cursor"], "a key was made for nobody");
    Ok(())
}

async fn keys_are_added_listed_rotated_and_revoked() -> anyhow::Result<()> {
    let hub = hub().await?;
    let first = run(&hub, 0, &["key", "add", "agent", "--json"]).await?.json()?;
    run(&hub, 1, &["key", "add", "agent"]).await?;
    run(&hub, 2, &["key", "add", "Not A Name"]).await?;
    run(&hub, 1, &["key", "add", "gateway", "--path", "shell"]).await?;
    let listed = run(&hub, 0, &["key", "list", "--json"]).await?.json()?;
    ensure!(listed[0]["name"] == "agent" && listed[0]["approved"] == false, "{listed}");
    let second = run(&hub, 0, &["key", "rotate", "agent", "--json"]).await?.json()?;
    ensure!(first["key"] != second["key"] && !listed.to_string().contains(&first["key"].to_string()));
    run(&hub, 0, &["key", "revoke", "agent"]).await?;
    run(&hub, 1, &["key", "revoke", "agent"]).await?;
    run(&hub, 1, &["key", "rotate", "agent"]).await?;
    ensure!(key_names(&hub).await?.is_empty());
    Ok(())
}

async fn registering_says_what_failed_and_removing_undoes_it() -> anyhow::Result<()> {
    let hub = hub().await?;
    // Nothing to register with, and a folder that is none.
    run(&hub, 4, &["extension", "register"]).await?;
    let typo = hub.user().join("typo");
    run(&hub, 1, &["extension", "register", "--user-data-dir", typo.to_str().context("a path")?]).await?;
    ensure!(!typo.exists(), "the folder was made");
    let chromium = hub.user().join(".config/chromium");
    std::fs::create_dir_all(&chromium)?;
    // As after its first start.
    std::fs::write(chromium.join("Local State"), "{}")?;
    let registered = run(&hub, 0, &["extension", "register", "--json"]).await?.json()?;
    ensure!(
        registered[0]["browser"] == "Chromium" && registered[0]["outcome"] == "registered",
        "{registered}"
    );
    let manifest = chromium.join("NativeMessagingHosts/com.consentry.hub.json");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&manifest)?)?;
    let extension = run(&hub, 0, &["extension", "path", "--json"]).await?.json()?;
    let origin = format!("chrome-extension://{}/", extension["id"].as_str().context("an id")?);
    ensure!(written["allowed_origins"] == json!([origin]), "{written}");
    ensure!(written["path"] == hub.home().join("bin/consentry-native-host").to_str().context("a path")?);
    run(&hub, 0, &["extension", "register", "--remove"]).await?;
    ensure!(!manifest.exists());
    // Another installation's file stays, and that is told.
    std::fs::create_dir_all(manifest.parent().context("a folder")?)?;
    // One that names a program outside of this state folder.
    let mut other = written.clone();
    other["path"] = json!(std::env::current_exe()?);
    std::fs::write(&manifest, other.to_string())?;
    let failed = run(&hub, 4, &["extension", "register", "--json"]).await?.json()?;
    ensure!(failed[0]["outcome"] == "failed" && failed[0]["detail"].is_string(), "{failed}");
    ensure!(std::fs::read_to_string(&manifest)? == other.to_string());
    Ok(())
}

async fn setting_up_again_changes_nothing_and_refuses_what_cannot_be() -> anyhow::Result<()> {
    let hub = hub().await?;
    let config = std::fs::read(hub.home().join("config.toml"))?;
    let key = std::fs::read(hub.home().join("extension-key.pem"))?;
    let again = run(&hub, 0, &["setup", "--json"]).await?.json()?;
    ensure!(again["new_config"] == false, "{again}");
    ensure!(std::fs::read(hub.home().join("config.toml"))? == config);
    ensure!(std::fs::read(hub.home().join("extension-key.pem"))? == key);
    let other = run(&hub, 1, &["setup", "--mcp-port", "8011"]).await?;
    ensure!(other.stderr.contains("change it there"), "{other:?}");
    std::fs::write(hub.home().join("config.toml"), "[ports]\nmcp = 80\n")?;
    let broken = run(&hub, 1, &["setup"]).await?;
    ensure!(broken.stderr.contains("mcp"), "{broken:?}");
    std::fs::remove_file(hub.home().join("config.toml"))?;
    for ports in [["--mcp-port", "80"], ["--mcp-port", "7312"]] {
        run(&hub, 1, &[&["setup"], &ports[..]].concat()).await?;
        ensure!(!hub.home().join("config.toml").exists(), "{ports:?} was written");
    }
    Ok(())
}

async fn commands_that_need_a_hub_say_so_and_the_others_work_without() -> anyhow::Result<()> {
    let hub = hub().await?;
    for needs in [&["status"][..], &["open", "--print"], &["kill", "--all"]] {
        let refused = run(&hub, 3, needs).await?;
        ensure!(refused.stderr.contains("consentry serve"), "{refused:?}");
    }
    run(&hub, 0, &["disable"]).await?;
    ensure!(hub.home().join("DISABLED").exists());
    let doctor = run(&hub, 4, &["doctor", "--json"]).await?.json()?;
    let switch =
        doctor["findings"].as_array().context("findings")?.iter().find(|found| found["what"] == "switch");
    ensure!(switch.is_some_and(|found| found["mend"] == "consentry enable"), "{doctor}");
    run(&hub, 0, &["enable"]).await?;
    ensure!(!hub.home().join("DISABLED").exists());
    run(&hub, 0, &["site", "list", "--json"]).await?;
    run(&hub, 0, &["audit", "verify", "--json"]).await?;
    run(&hub, 1, &["log", "--grant", "BCDF"]).await?;
    run(&hub, 1, &["audit", "--file", "nowhere.jsonl"]).await?;
    run(&hub, 2, &["kill"]).await?;
    run(&hub, 2, &["nonsense"]).await?;
    Ok(())
}

async fn completions_are_there_for_every_shell() -> anyhow::Result<()> {
    let hub = hub().await?;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&hub, 0, &["completions", shell]).await?.stdout;
        ensure!(script.contains("doctor") && script.contains("user-data-dir"), "{shell}: {script}");
    }
    let script = run(&hub, 0, &["completions", "bash"]).await?.stdout;
    let place = hub.folder().join("completions.bash");
    std::fs::write(&place, script)?;
    let read = hub.command_of("bash").arg("-n").arg(&place).output().await?;
    ensure!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    Ok(())
}
