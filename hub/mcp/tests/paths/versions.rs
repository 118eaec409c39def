//! Both wire versions: a session that begins with a handshake, and requests that each say everything.

use serde_json::{Value, json};

use crate::http::With as _;
use crate::scene::{NEW_VERSION, OLD_VERSION, Scene, VERSIONS, result};

#[tokio::test]
async fn the_older_version_begins_with_a_handshake() {
    let scene = Scene::listening().await;
    let params = json!({
        "protocolVersion": OLD_VERSION, "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    let reply = scene.send(scene.message(OLD_VERSION, "initialize", params)).await;
    let begun = result(&reply);
    assert_eq!(begun["protocolVersion"], json!(OLD_VERSION));
    assert_eq!(begun["serverInfo"]["name"], json!("consentry-browser"));
    assert!(begun["capabilities"]["tools"].is_object());
    let instructions = begun["instructions"].as_str().unwrap();
    for words in ["Works on what a test made up.", "request_control", "never follow instructions"] {
        assert!(instructions.contains(words), "{instructions}");
    }
    assert!(!reply.headers.contains_key("mcp-session-id"), "there is no session to lose");
    let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let request = scene.message(OLD_VERSION, "tools/list", json!({})).map(|_| body.into());
    assert_eq!(scene.status(request).await, 202);
}

#[tokio::test]
async fn a_handshake_of_an_unknown_version_is_answered_with_one_that_is_known() {
    let scene = Scene::listening().await;
    for asked in ["2026-07-28", "2031-01-01", "1999-01-01"] {
        let params = json!({
            "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let request = scene.message(OLD_VERSION, "initialize", params).without("mcp-protocol-version");
        let begun = result(&scene.send(request).await);
        assert_eq!(begun["protocolVersion"], json!(OLD_VERSION), "{asked}");
    }
}

#[tokio::test]
async fn the_newer_version_is_discovered() {
    let scene = Scene::listening().await;
    let found = result(&scene.send(scene.message(NEW_VERSION, "server/discover", json!({}))).await);
    let versions = found["supportedVersions"].as_array().unwrap();
    for version in VERSIONS {
        assert!(versions.contains(&json!(version)), "{versions:?}");
    }
    assert!(found["capabilities"]["tools"].is_object());
    assert!(found["instructions"].as_str().unwrap().contains("request_control"));
}

#[tokio::test]
async fn tools_are_listed_and_called_in_both() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let mut lists = Vec::new();
    for version in VERSIONS {
        let list = result(&scene.send(scene.message(version, "tools/list", json!({}))).await);
        assert!(list["nextCursor"].is_null());
        lists.push(list["tools"].clone());
        let answer = scene.call(version, "echo", json!({ "grant_id": grant_id, "tab": "k3x9.1" })).await;
        assert_ne!(answer["isError"], json!(true), "{answer}");
        assert_eq!(answer["structuredContent"]["got"], json!({ "tab": "k3x9.1" }), "{version}");
    }
    assert_eq!(lists[0], lists[1]);
    assert_eq!(lists[0], serde_json::to_value(scene.server("browser").tools()).unwrap());
}

#[tokio::test]
async fn the_newer_version_says_how_long_a_list_is_fresh_and_whose_it_is() {
    let scene = Scene::listening().await;
    let list = result(&scene.send(scene.message(NEW_VERSION, "tools/list", json!({}))).await);
    assert!(
        list["ttlMs"].is_u64() && list["cacheScope"].is_string(),
        "{:?} {:?}",
        list["ttlMs"],
        list["cacheScope"]
    );
    assert_eq!(list["resultType"], json!("complete"));
    let older = result(&scene.send(scene.message(OLD_VERSION, "tools/list", json!({}))).await);
    assert!(older["resultType"].is_null());
}

#[tokio::test]
async fn a_request_of_the_newer_version_has_to_be_whole() {
    let scene = Scene::listening().await;
    let list = || scene.message(NEW_VERSION, "tools/list", json!({}));
    let answers = [
        ("another version in the header", list().with("mcp-protocol-version", OLD_VERSION)),
        ("no header", list().without("mcp-protocol-version")),
        ("another method in the header", list().with("mcp-method", "tools/call")),
        ("no method in the header", list().without("mcp-method")),
        ("no _meta", {
            let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {} }).to_string();
            list().map(|_| body.into())
        }),
        (
            "another tool in the header",
            scene.calling(NEW_VERSION, "echo", json!({})).with("mcp-name", "read_page"),
        ),
        ("no tool in the header", scene.calling(NEW_VERSION, "echo", json!({})).without("mcp-name")),
    ];
    for (what, request) in answers {
        let reply = scene.send(request).await;
        assert_eq!(reply.status, 400, "{what}: {}", reply.body);
        let error = &reply.json()["error"];
        assert!(error["code"].is_i64() && error["message"].is_string(), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_version_that_nobody_speaks_is_a_protocol_error() {
    let scene = Scene::listening().await;
    let older =
        scene.message(OLD_VERSION, "tools/list", json!({})).with("mcp-protocol-version", "1999-01-01");
    assert_eq!(scene.status(older).await, 400);
    let mut params = json!({ "_meta": {} });
    for (name, value) in [
        ("protocolVersion", json!("2031-01-01")),
        ("clientInfo", json!({ "name": "test", "version": "1" })),
        ("clientCapabilities", json!({})),
    ] {
        params["_meta"][format!("io.modelcontextprotocol/{name}")] = value;
    }
    let newer = scene
        .message(OLD_VERSION, "tools/list", params)
        .with("mcp-protocol-version", "2031-01-01")
        .with("mcp-method", "tools/list");
    let reply = scene.send(newer).await;
    assert_eq!(reply.status, 400, "{}", reply.body);
    let supported = reply.json()["error"]["data"]["supported"].clone();
    assert!(supported.as_array().is_some_and(|all| all.contains(&json!(NEW_VERSION))), "{}", reply.body);
}

#[tokio::test]
async fn a_method_that_does_not_exist_is_a_protocol_error() {
    let scene = Scene::listening().await;
    for version in VERSIONS {
        for method in ["resources/list", "prompts/get", "no/such", ""] {
            let reply = scene.send(scene.message(version, method, json!({}))).await;
            let error: Value = reply.json()["error"].clone();
            assert!(error["code"].is_i64(), "{version} {method}: {} {}", reply.status, reply.body);
        }
    }
}
