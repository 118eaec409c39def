//! Calls of tools: the grant, the arguments, and the end.

use std::sync::atomic::Ordering;

use consentry_gate::{Answer, EndReason, Which};
use serde_json::{Value, json};

use crate::scene::{AGENT, OLD_VERSION, OTHER, SHELL_GATEWAY, Scene, VERSIONS, failure, result, until};

#[tokio::test]
async fn every_tool_but_the_first_takes_a_grant_and_says_so_in_its_schema() {
    let scene = Scene::listening().await;
    let list = result(&scene.send(scene.message(OLD_VERSION, "tools/list", json!({}))).await);
    let tools = list["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = [
        "request_control",
        "release_control",
        "echo",
        "read_page",
        "take_screenshot",
        "click_element",
        "wait_for",
    ];
    assert_eq!(names, expected);
    for tool in tools {
        let schema = &tool["inputSchema"];
        let required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
        let takes = schema["properties"]["grant_id"].is_object() && required.contains(&json!("grant_id"));
        assert_eq!(takes, tool["name"] != "request_control", "{tool}");
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        assert!(tool["outputSchema"].is_null(), "results are described in golden files alone");
        for mark in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][mark].is_boolean(), "{mark}: {tool}");
        }
        assert!(tool["annotations"]["title"].is_string());
        assert!(tool["description"].as_str().is_some_and(|text| text.ends_with('.')));
    }
}

#[tokio::test]
async fn a_tool_never_sees_the_grant() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let args = json!({ "grant_id": grant_id, "tab": "k3x9.1", "count": 3 });
    let answer = scene.call(OLD_VERSION, "echo", args).await;
    assert_eq!(answer["structuredContent"]["got"], json!({ "tab": "k3x9.1", "count": 3 }));
    let audit = format!("{:?}", scene.fakes.audit.lines());
    assert!(!audit.contains(&grant_id) && !audit.contains("c4n4ry"), "{audit}");
}

#[tokio::test]
async fn without_a_live_grant_nothing_runs_and_the_answer_says_what_to_call() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let upper = grant_id.to_uppercase();
    let wrong = [
        json!({}),
        json!({ "grant_id": null }),
        json!({ "grant_id": "" }),
        json!({ "grant_id": "made up" }),
        json!({ "grant_id": "0".repeat(32) }),
        json!({ "grant_id": format!("{grant_id} ") }),
        json!({ "grant_id": upper }),
    ];
    for version in VERSIONS {
        for args in &wrong {
            let answer = scene.call(version, "wait_for", args.clone()).await;
            let failure = failure(&answer);
            let known = ["no_grant", "invalid_argument"];
            assert!(known.contains(&failure["code"].as_str().unwrap()), "{args}: {failure}");
            assert!(answer.to_string().contains("request_control"), "{args}: {failure}");
            assert_eq!(failure["outcome"], json!("not_started"));
        }
    }
    assert_eq!(scene.fakes.audit.of("call").len(), 0);
    assert_eq!(scene.seen.abandoned.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_grant_that_is_no_text_is_refused_with_its_field() {
    let scene = Scene::listening().await;
    for grant_id in [json!(7), json!(["a"]), json!({ "id": "a" }), json!(true)] {
        let failure = failure(&scene.call(OLD_VERSION, "echo", json!({ "grant_id": grant_id })).await);
        assert_eq!((&failure["code"], &failure["field"]), (&json!("invalid_argument"), &json!("grant_id")));
    }
}

#[tokio::test]
async fn a_grant_is_worth_nothing_to_another_key_or_on_another_path() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let params = json!({ "name": "echo", "arguments": { "grant_id": grant_id } });
    for (path, key) in [("browser", OTHER), ("shell", AGENT), ("shell", SHELL_GATEWAY)] {
        let request = scene.message_of(path, key, OLD_VERSION, "tools/call", params.clone());
        assert_eq!(failure(&result(&scene.send(request).await))["code"], json!("no_grant"), "{path} {key}");
        let params = json!({ "name": "release_control", "arguments": { "grant_id": grant_id } });
        let release = scene.message_of(path, key, OLD_VERSION, "tools/call", params);
        assert_eq!(failure(&result(&scene.send(release).await))["code"], json!("no_grant"), "{path} {key}");
    }
    assert_eq!(scene.hub.live().borrow().grants.len(), 1);
}

#[tokio::test]
async fn an_argument_that_is_not_right_is_refused_with_its_field_and_what_is_allowed() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    for (name, value, allowed) in [
        ("tabb", json!("k3x9.1"), "count, tab"),
        ("tab", json!(7), "string"),
        ("count", json!(300), "integer from 1 to 10"),
        ("count", json!("three"), "integer from 1 to 10"),
    ] {
        let failure =
            failure(&scene.call(OLD_VERSION, "echo", json!({ "grant_id": grant_id, name: value })).await);
        assert_eq!((&failure["code"], &failure["field"]), (&json!("invalid_argument"), &json!(name)));
        assert_eq!(failure["allowed"], json!(allowed));
        assert_eq!(failure["outcome"], json!("not_started"));
    }
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_names_of_the_known() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    for name in ["clickk", "", "Echo", "browser/echo"] {
        let answer = scene.call(OLD_VERSION, name, json!({ "grant_id": grant_id })).await;
        let failure = failure(&answer);
        assert_eq!(failure["code"], json!("unknown_tool"), "{name}");
        let allowed = failure["allowed"].as_str().unwrap();
        assert!(
            allowed.starts_with("request_control, release_control, echo, ") && allowed.contains("wait_for")
        );
    }
}

#[tokio::test]
async fn arguments_may_be_left_out_altogether() {
    let scene = Scene::listening().await;
    for version in VERSIONS {
        let request = scene.message(version, "tools/call", json!({ "name": "echo" }));
        assert_eq!(failure(&result(&scene.send(request).await))["code"], json!("no_grant"));
    }
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_call_and_the_audit_says_so() {
    for version in VERSIONS {
        let scene = Scene::listening().await;
        let grant_id = scene.grant().await;
        let request = scene.calling(version, "wait_for", json!({ "grant_id": grant_id }));
        let stream = crate::http::send(scene.address.unwrap(), request).await;
        until(|| scene.seen.running.load(Ordering::SeqCst) == 1).await;
        drop(stream);
        until(|| scene.seen.abandoned.load(Ordering::SeqCst) == 1).await;
        until(|| scene.outcomes() == [json!("cancelled")]).await;
        let status = scene.hub.status().await.unwrap();
        assert_eq!(status.live.grants[0].view.in_flight, 0);
        assert_eq!(scene.fakes.audit.of("call").len(), 1);
        let again = scene.call(version, "echo", json!({ "grant_id": grant_id })).await;
        assert_ne!(again["isError"], json!(true), "its grant goes on");
    }
}

#[tokio::test]
async fn a_grant_that_ends_ends_its_calls() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let hanging = scene.call(OLD_VERSION, "wait_for", json!({ "grant_id": grant_id }));
    let killing = async {
        until(|| scene.seen.running.load(Ordering::SeqCst) == 1).await;
        scene.hub.kill(Which::All, EndReason::Stopped, "browser").await
    };
    let (answer, ended) = tokio::join!(hanging, killing);
    assert_eq!(ended.grants, 1);
    let failure = failure(&answer);
    assert_eq!((&failure["code"], &failure["outcome"]), (&json!("grant_ended"), &json!("maybe_done")));
    assert_eq!(scene.outcomes(), [json!("grant_ended")]);
}

#[tokio::test]
async fn while_everything_is_disabled_each_call_says_so() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    scene.hub.disable("page").await;
    scene.fakes.owner.will(Answer::Allow);
    for (tool, args) in [
        ("echo", json!({ "grant_id": grant_id })),
        ("request_control", json!({ "purpose": "Read the invoices." })),
    ] {
        assert_eq!(failure(&scene.call(OLD_VERSION, tool, args).await)["code"], json!("disabled"), "{tool}");
    }
}

#[tokio::test]
async fn each_call_has_a_line_before_it_and_one_after_it() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    for tool in ["echo", "click_element"] {
        scene.call(OLD_VERSION, tool, json!({ "grant_id": grant_id, "tab": "k3x9.1" })).await;
    }
    let calls = scene.fakes.audit.of("call");
    assert_eq!(calls.len(), 2);
    assert_eq!((&calls[0].fields["tool"], &calls[0].fields["key"]), (&json!("echo"), &json!("agent")));
    assert_eq!(calls[0].fields["args"], json!({ "tab": "k3x9.1" }));
    let outcomes = scene.fakes.audit.of("outcome");
    assert_eq!(scene.outcomes(), [json!("ok"), json!("browser_error")]);
    assert_eq!(outcomes[1].fields["outcome"], json!("maybe_done"));
    assert!(outcomes.iter().all(|line| line.fields["ms"].is_u64() && line.fields["of"].is_u64()));
}
