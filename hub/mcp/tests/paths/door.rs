//! What a request must show before any handler sees it.

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use consentry_core::KeyRing;
use serde_json::json;

use crate::http::{Reply, With as _, post};
use crate::scene::{AGENT, GATEWAY, NEW, OLD_VERSION, OTHER, SHELL_GATEWAY, Scene, TUNNEL, keys, until};

/// A request that reaches a handler as it is.
fn list(scene: &Scene) -> Request<Body> {
    scene.message(OLD_VERSION, "tools/list", json!({}))
}

fn refused(reply: &Reply, status: u16, code: &str) {
    let error = &reply.json()["error"];
    assert_eq!((reply.status, error["code"].as_str()), (status, Some(code)), "{}", reply.body);
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(error["next"].as_str().is_some_and(|text| !text.is_empty()));
}

#[tokio::test]
async fn loopback_with_this_port_and_the_tunnels_name_are_taken() {
    let scene = Scene::listening().await;
    for name in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"] {
        let request = list(&scene).with("host", &format!("{name}:{}", scene.port));
        assert_eq!(scene.status(request).await, 200, "{name}");
    }
    for host in [TUNNEL, "MACHINE.example.com", "machine.example.com:443"] {
        let request = list(&scene).with("host", host).with("authorization", &format!("Bearer {GATEWAY}"));
        assert_eq!(scene.status(request).await, 200, "{host}");
    }
}

#[tokio::test]
async fn any_other_host_is_forbidden() {
    let scene = Scene::listening().await;
    let port = scene.port;
    for host in [
        "evil.com",
        &format!("evil.com:{port}"),
        "127.0.0.1",
        "127.0.0.1:1",
        &format!("127.0.0.1:{port}0"),
        &format!("127.0.0.2:{port}"),
        &format!("0.0.0.0:{port}"),
        &format!("localhost.:{port}"),
        &format!("127.0.0.1:{port}.evil.com"),
        &format!("evil.com@127.0.0.1:{port}"),
        "machine.example.com.evil.com",
        "xmachine.example.com",
        "example.com",
        "",
    ] {
        refused(&scene.send(list(&scene).with("host", host)).await, 403, "forbidden");
    }
    let in_process = Scene::in_process();
    refused(&in_process.send(list(&in_process).without("host")).await, 403, "forbidden");
}

#[tokio::test]
async fn two_hosts_are_forbidden() {
    let scene = Scene::in_process();
    for second in ["evil.com", "127.0.0.1:7311"] {
        let mut request = list(&scene);
        request.headers_mut().append("host", HeaderValue::from_str(second).unwrap());
        assert_ne!(scene.status(request).await, 200, "{second}");
    }
}

#[tokio::test]
async fn requests_of_web_pages_are_forbidden_whatever_their_origin() {
    let scene = Scene::listening().await;
    for origin in [
        "https://evil.com",
        "null",
        "",
        &format!("http://127.0.0.1:{}", scene.port),
        &format!("https://{TUNNEL}"),
        "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
    ] {
        refused(&scene.send(list(&scene).with("origin", origin)).await, 403, "forbidden");
    }
}

#[tokio::test]
async fn without_a_key_of_the_path_nobody_comes_in() {
    let scene = Scene::listening().await;
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        &format!("Basic {AGENT}"),
        AGENT,
        &format!("Bearer {}", &AGENT[1..]),
        &format!("Bearer {AGENT}0"),
        &format!("Bearer {}", AGENT.to_uppercase()),
        &format!("Bearer {SHELL_GATEWAY}"),
        "Bearer agent",
    ] {
        let reply = scene.send(list(&scene).with("authorization", value)).await;
        refused(&reply, 401, "unauthorized");
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
    }
    refused(&scene.send(list(&scene).without("authorization")).await, 401, "unauthorized");
    let mut in_the_address = list(&scene).without("authorization");
    *in_the_address.uri_mut() = format!("/browser/mcp?key={AGENT}").parse().unwrap();
    refused(&scene.send(in_the_address).await, 401, "unauthorized");
    assert!(scene.fakes.audit.lines().is_empty());
}

#[tokio::test]
async fn the_scheme_of_a_key_may_be_written_in_any_case() {
    let scene = Scene::in_process();
    for scheme in ["bearer", "BEARER"] {
        let request = list(&scene).with("authorization", &format!("{scheme} {AGENT}"));
        assert_eq!(scene.status(request).await, 200);
    }
}

#[tokio::test]
async fn a_key_of_one_path_opens_that_path_alone() {
    let scene = Scene::listening().await;
    let list = |path, key| scene.message_of(path, key, OLD_VERSION, "tools/list", json!({}));
    assert_eq!(scene.status(list("browser", GATEWAY)).await, 200);
    assert_eq!(scene.status(list("shell", SHELL_GATEWAY)).await, 200);
    assert_eq!(scene.status(list("shell", GATEWAY)).await, 401);
    for path in ["browser", "shell"] {
        assert_eq!(scene.status(list(path, AGENT)).await, 200, "a named key is for every path");
    }
}

#[tokio::test]
async fn a_path_that_is_unknown_or_not_enabled_does_not_exist() {
    let scene = Scene::listening().await;
    for uri in [
        "/messages/mcp",
        "/computer/mcp",
        "/Browser/mcp",
        "/browser%2f/mcp",
        "/b/mcp",
        "/../mcp",
        "/browser",
        "/browser/mcp/",
        "/browser/mcp/x",
        "/mcp",
        "/",
        "/.well-known/oauth-protected-resource",
    ] {
        for key in [None, Some(AGENT)] {
            let mut request = list(&scene).without("authorization");
            if let Some(key) = key {
                request = request.with("authorization", &format!("Bearer {key}"));
            }
            *request.uri_mut() = uri.parse().unwrap();
            refused(&scene.send(request).await, 404, "unknown_path");
        }
    }
}

#[tokio::test]
async fn a_path_comes_and_goes_with_the_owners_settings() {
    let scene = Scene::listening().await;
    assert_eq!(scene.status(list(&scene)).await, 200);
    scene.enable(&["shell"]);
    refused(&scene.send(list(&scene)).await, 404, "unknown_path");
    scene.enable(&["shell", "browser"]);
    assert_eq!(scene.status(list(&scene)).await, 200);
}

#[tokio::test]
async fn a_named_key_is_refused_through_the_tunnel_and_the_paths_own_is_not() {
    let scene = Scene::listening().await;
    let local = format!("127.0.0.1:{}", scene.port);
    let through = |key: &str| scene.message_of("browser", key, OLD_VERSION, "tools/list", json!({}));
    refused(&scene.send(through(AGENT).with("host", TUNNEL)).await, 403, "local_key_only");
    assert_eq!(scene.status(through(GATEWAY).with("host", TUNNEL)).await, 200);
    // What a tunnel or a proxy forwarded came from elsewhere, whatever its Host says.
    for proxy in ["cf-connecting-ip", "cf-ray", "x-forwarded-for", "forwarded"] {
        let forwarded = |key: &str| through(key).with("host", &local).with(proxy, "203.0.113.7");
        refused(&scene.send(forwarded(AGENT)).await, 403, "local_key_only");
        assert_eq!(scene.status(forwarded(GATEWAY)).await, 200, "{proxy}");
    }
}

#[tokio::test]
async fn a_key_that_the_owner_has_not_approved_opens_nothing() {
    let scene = Scene::listening().await;
    let request = scene.message_of("browser", NEW, OLD_VERSION, "tools/list", json!({}));
    refused(&scene.send(request).await, 403, "key_not_approved");
}

#[tokio::test]
async fn a_key_that_was_revoked_is_unknown_from_then_on_and_ends_its_calls() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let hanging = scene.call(OLD_VERSION, "wait_for", json!({ "grant_id": grant_id }));
    let revoking = async {
        until(|| scene.seen.running.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
        let mut left = keys().0;
        left.retain(|key| key.name.as_str() != "agent");
        scene.hub.set_keys(KeyRing(left));
    };
    let (ended, ()) = tokio::join!(hanging, revoking);
    assert_eq!(crate::scene::failure(&ended)["code"], json!("grant_ended"));
    refused(&scene.send(list(&scene)).await, 401, "unauthorized");
    let other = scene.message_of("browser", OTHER, OLD_VERSION, "tools/list", json!({}));
    assert_eq!(scene.status(other).await, 200);
}

#[tokio::test]
async fn only_messages_are_taken() {
    let scene = Scene::listening().await;
    for method in ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"] {
        let mut request = list(&scene);
        *request.method_mut() = method.parse().unwrap();
        assert_eq!(scene.status(request).await, 405, "{method}");
    }
    assert_eq!(scene.status(list(&scene).with("content-type", "text/plain")).await, 415);
    assert_eq!(scene.status(list(&scene).with("accept", "text/html")).await, 406);
}

#[tokio::test]
async fn a_refusal_tells_no_key_and_names_no_path() {
    let scene = Scene::listening().await;
    for request in [
        list(&scene).with("host", "evil.com"),
        list(&scene).with("authorization", "Bearer wrong"),
        post("messages", scene.port, "{}"),
    ] {
        let told = scene.send(request).await;
        let told = format!("{:?} {}", told.headers, told.body);
        for secret in ["c4n4ry", "gateway", TUNNEL, "shell"] {
            assert!(!told.contains(secret), "{told}");
        }
    }
    let shown = format!("{:?} {:?}", scene.hub, scene.paths);
    assert!(!shown.contains("c4n4ry"), "{shown}");
}
