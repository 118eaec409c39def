//! Asking for control: what each answer means, and what comes of no answer.

use std::time::{Duration, Instant};

use anyhow::ensure;
use consentry_test_support::link::FakeBrowser;
use consentry_test_support::scene::{Grant, Scene, SceneOptions};
use serde_json::{Value, json};

use crate::stage::{ASKING, SILENT, Set, Test, refused, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = tests![alone;
        a_request_is_pending_after_45_seconds_and_its_answer_waits_for_the_next_call,
        cooling_down_keeps_everybody_quiet_on_the_path_for_a_while,
    ];
    tests.extend(tests![ASKING;
        a_rejected_request_is_rejected_and_the_next_may_ask_at_once,
        three_denials_make_the_key_wait,
        twenty_requests_at_once_show_one_dialog,
        a_caller_that_goes_away_takes_its_dialog_with_it,
        a_released_grant_is_over,
        no_more_grants_than_the_owner_allows,
        a_purpose_that_is_too_long_is_refused_and_never_trimmed,
        without_a_grant_every_tool_says_how_to_get_one,
    ]);
    tests.extend(tests![SILENT;
        nobody_at_the_screen_means_no,
        each_second_of_waiting_is_told_as_progress,
    ]);
    tests
}

fn ask(purpose: &str) -> Value {
    json!({ "purpose": purpose })
}

async fn a_request_is_pending_after_45_seconds_and_its_answer_waits_for_the_next_call() -> anyhow::Result<()>
{
    let scene = Scene::start(SceneOptions { browser: false, ..SceneOptions::default() }).await?;
    let _browser = FakeBrowser::link(&scene.hub, "fake0001").await?;
    let started = Instant::now();
    let mut ticks = 0;
    let asking =
        scene.client.call_with_progress("request_control", ask("Wait for the owner."), |_| ticks += 1);
    let (pending, dialog) = tokio::join!(asking, scene.owner.next_dialog());
    let (pending, dialog) = (pending?.ok()?, dialog?);
    let waited = started.elapsed();
    ensure!(pending.field("status") == "pending", "{}", pending.raw);
    ensure!((Duration::from_secs(44)..Duration::from_secs(50)).contains(&waited), "after {waited:?}");
    ensure!(ticks >= 40, "{ticks} progress notifications");
    let request = json!({ "request_id": pending.structured["request_id"] });

    scene.owner.answer(&dialog, "allow").await?;
    // The owner's answer came before anybody asked again: it is kept.
    let grant = Grant::of(&scene.client, &scene.client.call("request_control", request).await?.ok()?)?;
    refused(grant.call("list_tabs", json!({})).await, "browser_error")?;
    Ok(())
}

async fn cooling_down_keeps_everybody_quiet_on_the_path_for_a_while() -> anyhow::Result<()> {
    let rules = "cooldown_seconds = 5\nwindow_seconds = 60".to_owned();
    let scene =
        Scene::start(SceneOptions { browser: false, browser_rules: rules, ..SceneOptions::default() })
            .await?;
    let _browser = FakeBrowser::link(&scene.hub, "fake0001").await?;
    let other = scene.another_key("other").await?;
    let (answer, clicked) =
        tokio::join!(scene.client.call("request_control", ask("Ask once.")), scene.owner.click("cool_down"));
    clicked?;
    let since = Instant::now();
    refused(answer, "rejected")?;
    let shown = scene.hub.dialogs_shown();
    let refusal = refused(other.call("request_control", ask("Ask as somebody else.")).await, "cooldown")?;
    let left = refusal.structured["retry_after_ms"].as_u64().unwrap_or(0);
    ensure!((1..=5000).contains(&left), "{}", refusal.raw);
    ensure!(scene.hub.dialogs_shown() == shown, "a dialog during the cooldown");
    tokio::time::sleep_until((since + Duration::from_secs(5)).into()).await;
    scene.grant_to(&other, "Ask after the cooldown.", &[]).await?;
    Ok(())
}

async fn a_rejected_request_is_rejected_and_the_next_may_ask_at_once(set: &mut Set) -> anyhow::Result<()> {
    let client = set.another_key("rejected").await?;
    let (answer, clicked) =
        tokio::join!(client.call("request_control", ask("Be rejected.")), set.owner.click("reject"));
    clicked?;
    refused(answer, "rejected")?;
    set.grant_to(&client, "Ask better.", &[]).await?;
    Ok(())
}

async fn nobody_at_the_screen_means_no(set: &mut Set) -> anyhow::Result<()> {
    let client = set.another_key("alone").await?;
    let started = Instant::now();
    let (answer, dialog) =
        tokio::join!(client.call("request_control", ask("Find nobody.")), set.owner.next_dialog());
    let dialog = dialog?;
    refused(answer, "timed_out")?;
    let waited = started.elapsed();
    ensure!((Duration::from_secs(3)..Duration::from_secs(12)).contains(&waited), "after {waited:?}");
    ensure!(!set.owner.stands(&dialog)?, "the dialog still stands");
    ensure!(rows(&set.hub.status().await?, "grants").is_empty());
    Ok(())
}

async fn three_denials_make_the_key_wait(set: &mut Set) -> anyhow::Result<()> {
    let client = set.another_key("eager").await?;
    for _ in 0..3 {
        let (answer, clicked) =
            tokio::join!(client.call("request_control", ask("Ask again.")), set.owner.click("reject"));
        clicked?;
        refused(answer, "rejected")?;
    }
    let shown = set.hub.dialogs_shown();
    let refusal = refused(client.call("request_control", ask("Ask once more.")).await, "asked_too_often")?;
    let left = refusal.structured["retry_after_ms"].as_u64().unwrap_or(0);
    ensure!((1..=60_000).contains(&left), "{}", refusal.raw);
    ensure!(set.hub.dialogs_shown() == shown, "a dialog for a key that has to wait");
    // Others do not pay for it.
    set.grant("Somebody else asks.", &[]).await?;
    Ok(())
}

async fn twenty_requests_at_once_show_one_dialog(set: &mut Set) -> anyhow::Result<()> {
    let shown = set.hub.dialogs_shown();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let client = set.client.clone();
        calls.spawn(async move { client.call("request_control", ask(&format!("Be number {n}."))).await });
    }
    set.owner.click("allow").await?;
    let (mut allowed, mut busy) = (0, 0);
    while let Some(called) = calls.join_next().await {
        let called = called??;
        match called.code() {
            "" if called.field("status") == "allowed" => allowed += 1,
            "dialog_busy" => busy += 1,
            _ => anyhow::bail!("{}", called.raw),
        }
    }
    ensure!((allowed, busy) == (1, 19), "{allowed} allowed, {busy} busy");
    ensure!(set.hub.dialogs_shown() == shown + 1, "{} dialogs", set.hub.dialogs_shown() - shown);
    Ok(())
}

async fn a_caller_that_goes_away_takes_its_dialog_with_it(set: &mut Set) -> anyhow::Result<()> {
    let client = set.another_key("fickle").await?;
    let asking = tokio::spawn(async move { client.call("request_control", ask("Change my mind.")).await });
    let dialog = set.owner.next_dialog().await?;
    ensure!(set.owner.stands(&dialog)?, "the dialog does not stand");
    asking.abort();
    set.hub
        .wait_status("no dialog", Duration::from_secs(2), |status| status["dialog"].is_null().then_some(()))
        .await?;
    let end = Instant::now() + Duration::from_secs(1);
    while set.owner.stands(&dialog)? {
        ensure!(Instant::now() < end, "the dialog stays on the screen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn a_released_grant_is_over(set: &mut Set) -> anyhow::Result<()> {
    let grant = set.grant("Be done soon.", &[]).await?;
    let released = grant.does("release_control", json!({})).await?;
    ensure!(
        released.field("status") == "released" && released.field("label") == grant.label,
        "{}",
        released.raw
    );
    refused(grant.call("list_tabs", json!({})).await, "no_grant")?;
    // No cooldown follows: it was no denial.
    set.grant("Come back.", &[]).await?;
    Ok(())
}

async fn no_more_grants_than_the_owner_allows(set: &mut Set) -> anyhow::Result<()> {
    for _ in 0..8 {
        set.grant("Take a place.", &[]).await?;
    }
    let shown = set.hub.dialogs_shown();
    refused(set.client.call("request_control", ask("Be the ninth.")).await, "too_many_grants")?;
    ensure!(set.hub.dialogs_shown() == shown);
    Ok(())
}

async fn a_purpose_that_is_too_long_is_refused_and_never_trimmed(set: &mut Set) -> anyhow::Result<()> {
    let shown = set.hub.dialogs_shown();
    for purpose in
        ["x".repeat(281), "One. Two. Three.".to_owned(), String::new(), "\u{202e} \u{7}".to_owned()]
    {
        let refusal = refused(set.client.call("request_control", ask(&purpose)).await, "bad_purpose")?;
        ensure!(!refusal.structured["next"].is_null(), "{}", refusal.raw);
    }
    let unknown = set.client.call("request_control", json!({ "purpose": "Be exact.", "minuts": 5 })).await;
    let unknown = refused(unknown, "invalid_argument")?;
    ensure!(
        unknown.field("field") == "minuts" && unknown.field("allowed").contains("minutes"),
        "{}",
        unknown.raw
    );
    ensure!(set.hub.dialogs_shown() == shown);
    Ok(())
}

async fn without_a_grant_every_tool_says_how_to_get_one(set: &mut Set) -> anyhow::Result<()> {
    let tools = set.client.tools().await?;
    let mut tried = 0;
    for tool in &tools {
        let name = tool["name"].as_str().unwrap_or_default();
        if name == "request_control" {
            continue;
        }
        ensure!(
            tool["inputSchema"]["required"].as_array().is_some_and(|r| r.contains(&json!("grant_id"))),
            "{tool}"
        );
        for arguments in [json!({}), json!({ "grant_id": "0".repeat(32) })] {
            let answer = set.client.call(name, arguments).await?;
            ensure!(
                answer.code() == "no_grant" && answer.text.contains("request_control"),
                "{name}: {}",
                answer.raw
            );
        }
        tried += 1;
    }
    ensure!(tried >= 13, "only {tried} tools");
    Ok(())
}

async fn each_second_of_waiting_is_told_as_progress(set: &mut Set) -> anyhow::Result<()> {
    let client = set.another_key("patient").await?;
    let mut told = Vec::new();
    let asking = client.call_with_progress("request_control", ask("Watch the time."), |note| told.push(note));
    let (answer, dialog) = tokio::join!(asking, set.owner.next_dialog());
    dialog?;
    refused(answer, "timed_out")?;
    ensure!(told.len() >= 3, "{told:?}");
    for (at, note) in told.iter().enumerate() {
        ensure!(
            note["method"] == "notifications/progress" && note["params"]["progressToken"] == "p",
            "{note}"
        );
        ensure!(note["params"]["progress"].as_f64() == Some(at as f64), "{note}");
    }
    Ok(())
}
