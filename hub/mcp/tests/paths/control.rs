//! `request_control` and `release_control`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use consentry_gate::Answer;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::http::events;
use crate::scene::{OLD_VERSION, Scene, VERSIONS, failure, result, until};

const PURPOSE: &str = "Read the invoices.";

/// A request for control that wants to hear how it goes.
fn with_progress(scene: &Scene, version: &str, args: Value) -> Request<Body> {
    let params = json!({
        "name": "request_control", "arguments": args, "_meta": { "progressToken": "t0" },
    });
    scene.message(version, "tools/call", params)
}

/// Each message with the time at which it came.
async fn follow(scene: &Scene, request: Request<Body>) -> Vec<(Duration, Value)> {
    let started = Instant::now();
    let response = scene.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    let mut stream = response.into_body().into_data_stream();
    let mut came = Vec::new();
    while let Some(bytes) = stream.next().await {
        let text = String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        came.extend(events(&text).into_iter().map(|message| (started.elapsed(), message)));
    }
    came
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_hears_each_second_that_it_waits() {
    for version in VERSIONS {
        let scene = Scene::in_process();
        let asking = follow(&scene, with_progress(&scene, version, json!({ "purpose": PURPOSE })));
        let answering = async {
            tokio::time::sleep(Duration::from_millis(3500)).await;
            scene.fakes.owner.will(Answer::Allow);
        };
        let (mut came, ()) = tokio::join!(asking, answering);
        let (at, last) = came.pop().unwrap();
        assert_eq!(last["result"]["structuredContent"]["status"], json!("allowed"), "{last}");
        assert!(at < Duration::from_secs(4), "{at:?}");
        assert_eq!(came.len(), 4, "{came:?}");
        for (n, (at, message)) in came.iter().enumerate() {
            assert_eq!(message["method"], json!("notifications/progress"));
            let params = &message["params"];
            assert_eq!((&params["progressToken"], &params["progress"]), (&json!("t0"), &json!(n as f64)));
            assert_eq!(params["total"], json!(45.0));
            assert!(params["message"].as_str().unwrap().contains("dialog"));
            assert_eq!(at.as_secs(), n as u64);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_pending_after_45_seconds_and_goes_on_when_it_is_resumed() {
    for version in VERSIONS {
        let scene = Scene::in_process();
        let started = Instant::now();
        let pending = scene.call(version, "request_control", json!({ "purpose": PURPOSE })).await;
        assert_eq!(started.elapsed().as_secs(), 45);
        let structured = &pending["structuredContent"];
        assert_eq!(structured["status"], json!("pending"), "{pending}");
        assert_ne!(pending["isError"], json!(true));
        let text = pending["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("request_control") && text.contains("request_id"), "{text}");
        assert_eq!(scene.fakes.owner.standing(), 1, "the dialog stays for the caller who comes back");

        scene.fakes.owner.will(Answer::Allow);
        let again = json!({ "request_id": structured["request_id"] });
        let granted = scene.call(version, "request_control", again).await;
        assert_eq!(granted["structuredContent"]["status"], json!("allowed"), "{granted}");
        assert_eq!(scene.fakes.owner.seen().len(), 1);
    }
}

#[tokio::test]
async fn without_a_token_for_progress_the_answer_is_plain_json() {
    let scene = Scene::listening().await;
    for version in VERSIONS {
        scene.fakes.owner.will(Answer::Allow);
        let reply =
            scene.send(scene.calling(version, "request_control", json!({ "purpose": PURPOSE }))).await;
        assert!(reply.kind().starts_with("application/json"), "{}", reply.kind());
        let granted = result(&reply);
        let structured = &granted["structuredContent"];
        assert_eq!(structured["status"], json!("allowed"));
        let grant_id = structured["grant_id"].as_str().unwrap();
        assert_eq!(grant_id.len(), 32);
        let text = granted["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(grant_id) && text.contains("release_control"), "{text}");
        assert_eq!((&structured["minutes"], structured["label"].as_str().unwrap().len()), (&json!(30), 4));
        assert_eq!(structured["sites"], json!("asked about on first touch"));
    }
}

#[tokio::test]
async fn a_denial_is_a_result_that_says_so() {
    for (answer, code) in [
        (Answer::Reject, "rejected"),
        (Answer::TimedOut, "timed_out"),
        (Answer::ScreenLocked, "screen_locked"),
        (Answer::NoDisplay, "no_display"),
    ] {
        let scene = Scene::listening().await;
        scene.fakes.owner.will(answer);
        let denied = scene.call(OLD_VERSION, "request_control", json!({ "purpose": PURPOSE })).await;
        assert_eq!(failure(&denied)["code"], json!(code));
    }
}

#[tokio::test]
async fn a_request_that_is_not_right_is_refused_with_the_field_and_nobody_is_asked() {
    let scene = Scene::listening().await;
    for (args, code, field) in [
        (json!({}), "bad_purpose", "purpose"),
        (json!({ "purpose": "x".repeat(281) }), "bad_purpose", "purpose"),
        (json!({ "purpose": "One. Two. Three." }), "bad_purpose", "purpose"),
        (json!({ "purpose": PURPOSE, "sites": ["co.uk"] }), "invalid_argument", "sites[0]"),
        (
            json!({ "purpose": PURPOSE, "sites": ["example.com", "chrome://flags"] }),
            "invalid_argument",
            "sites[1]",
        ),
        (json!({ "purpose": PURPOSE, "caller": "x".repeat(61) }), "invalid_argument", "caller"),
        (json!({ "purpose": PURPOSE, "minutes": "long" }), "invalid_argument", "minutes"),
        (json!({ "purpose": PURPOSE, "force": true }), "invalid_argument", "force"),
        (json!({ "purpose": PURPOSE, "grant_id": "0" }), "invalid_argument", "grant_id"),
        (json!({ "purpose": 7 }), "invalid_argument", "purpose"),
    ] {
        let failure = failure(&scene.call(OLD_VERSION, "request_control", args.clone()).await);
        assert_eq!((&failure["code"], &failure["field"]), (&json!(code), &json!(field)), "{args}: {failure}");
        assert!(failure["allowed"].is_string(), "{failure}");
    }
    assert!(scene.fakes.owner.seen().is_empty());
}

#[tokio::test]
async fn a_request_that_nobody_made_cannot_be_resumed() {
    let scene = Scene::listening().await;
    let failure = failure(&scene.call(OLD_VERSION, "request_control", json!({ "request_id": 99 })).await);
    assert_eq!(failure["code"], json!("unknown_request"));
}

#[tokio::test]
async fn a_path_that_cannot_work_says_so_before_any_dialog() {
    let scene = Scene::listening().await;
    scene.seen.broken.store(true, Ordering::SeqCst);
    let failure = failure(&scene.call(OLD_VERSION, "request_control", json!({ "purpose": PURPOSE })).await);
    assert_eq!(failure["code"], json!("helper_unavailable"));
    assert!(scene.fakes.owner.seen().is_empty());
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_dialog_with_it() {
    for version in VERSIONS {
        for listens in [false, true] {
            let scene = Scene::listening().await;
            let args = json!({ "purpose": PURPOSE });
            let request = if listens {
                with_progress(&scene, version, args)
            } else {
                scene.calling(version, "request_control", args)
            };
            let stream = crate::http::send(scene.address.unwrap(), request).await;
            until(|| scene.fakes.owner.standing() == 1).await;
            drop(stream);
            until(|| scene.fakes.owner.standing() == 0).await;
            let status = scene.hub.status().await.unwrap();
            assert!(status.on_screen.is_none() && status.live.grants.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_requests_at_once_one_is_shown_and_the_others_are_told() {
    let scene = Scene::in_process();
    let asking = (0..300).map(|_| scene.call(OLD_VERSION, "request_control", json!({ "purpose": PURPOSE })));
    let mut answers = futures_util::future::join_all(asking).await;
    let at = answers.iter().position(|answer| answer["isError"] != json!(true)).unwrap();
    assert_eq!(answers.remove(at)["structuredContent"]["status"], json!("pending"));
    assert_eq!(answers.len(), 299);
    for answer in &answers {
        assert_eq!(failure(answer)["code"], json!("dialog_busy"));
    }
    assert_eq!(scene.fakes.owner.seen().len(), 1);
}

#[tokio::test]
async fn a_grant_that_is_given_back_is_over() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    scene.call(OLD_VERSION, "echo", json!({ "grant_id": grant_id })).await;
    let released = scene.call(OLD_VERSION, "release_control", json!({ "grant_id": grant_id })).await;
    let structured = &released["structuredContent"];
    assert_eq!((&structured["status"], &structured["calls"]), (&json!("released"), &json!(1)));
    for tool in ["echo", "release_control"] {
        let refused = scene.call(OLD_VERSION, tool, json!({ "grant_id": grant_id })).await;
        assert_eq!(failure(&refused)["code"], json!("no_grant"), "{tool}");
    }
    assert!(scene.hub.live().borrow().grants.is_empty());
}

#[tokio::test]
async fn the_two_tools_of_every_path_are_described_in_few_words() {
    let scene = Scene::in_process();
    let server = scene.server("browser");
    let described = serde_json::to_string(&server.tools()[..2]).unwrap();
    assert!(described.len() <= 2048, "{} bytes", described.len());
    let text = server.tools()[0].description.as_deref().unwrap();
    assert!(text.contains("120 seconds") && text.contains("If nobody answers, it is denied."), "{text}");
}

#[tokio::test]
async fn giving_back_takes_no_unknown_field_and_leaves_the_grant_alone() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let args = json!({ "grant_id": grant_id, "close_tab": true });
    let failure = failure(&scene.call(OLD_VERSION, "release_control", args).await);
    assert_eq!((&failure["field"], &failure["allowed"]), (&json!("close_tab"), &json!("close_tabs")));
    assert_eq!(scene.hub.live().borrow().grants.len(), 1);
}
