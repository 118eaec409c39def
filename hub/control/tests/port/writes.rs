//! What the owner does on the page: only from the page, and only what was meant.

use axum::http::Method;
use serde_json::{Value, json};

use crate::scene::{Scene, With as _, ask, post};

const SITE: &str = r#"{"site":"example.com","path":"browser","client":"claude-code","profile":"k3x9"}"#;
const WRITES: [(&str, &str); 4] =
    [("/kill", r#"{"label":"KQXZ"}"#), ("/disable", ""), ("/enable", ""), ("/forget", SITE)];

#[tokio::test]
async fn each_action_is_done_with_the_token_of_the_page() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    for (uri, body) in WRITES.into_iter().chain([("/kill", "{}"), ("/kill", r#"{"label":null}"#)]) {
        let request = post(uri, body).with("cookie", &cookie).with("x-consentry-token", &token);
        let answer = scene.answer(request).await;
        assert_eq!(answer.status, 200, "{uri} {body}: {}", answer.text());
        assert_eq!(serde_json::from_str::<Value>(&answer.text()).unwrap(), json!({ "done": true }));
    }
    let forgotten = "forget example.com browser claude-code k3x9";
    assert_eq!(scene.done(), ["kill KQXZ", "disable", "enable", forgotten, "kill all", "kill all"]);
}

#[tokio::test]
async fn without_the_token_or_with_another_nothing_is_done() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    let session = cookie.split_once('=').unwrap().1;
    for (uri, body) in WRITES {
        let request = || post(uri, body).with("cookie", &cookie);
        let answer = scene.answer(request()).await;
        assert_eq!(answer.status, 403, "{uri}");
        assert!(answer.text().contains("reload the page"));
        for wrong in
            ["", "0", session, &token[1..], &format!("{token}0"), &token.to_uppercase(), &"0".repeat(64)]
        {
            let status = scene.status(request().with("x-consentry-token", wrong)).await;
            assert_eq!(status, 403, "{uri} {wrong}");
        }
        let in_the_address = post(&format!("{uri}?x-consentry-token={token}"), body).with("cookie", &cookie);
        assert_eq!(scene.status(in_the_address).await, 403);
        let without_session = post(uri, body).with("x-consentry-token", &token);
        assert_eq!(scene.status(without_session).await, 401);
    }
    assert!(scene.done().is_empty());
}

#[tokio::test]
async fn reading_an_action_does_nothing_and_neither_does_writing_a_page() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    let with = |method: Method, uri: &str| {
        ask(method, uri).with("cookie", &cookie).with("x-consentry-token", &token)
    };
    for (uri, _) in WRITES {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS]
        {
            assert_eq!(scene.status(with(method.clone(), uri)).await, 405, "{method} {uri}");
        }
    }
    for uri in ["/", "/state.json", "/events", "/grants/KQXZ/log.json"] {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(scene.status(with(method.clone(), uri)).await, 405, "{method} {uri}");
        }
    }
    assert!(scene.done().is_empty());
}

#[tokio::test]
async fn malformed_unknown_and_oversize_bodies_are_refused_and_nothing_is_done() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    let large = format!(r#"{{"label":"{}"}}"#, "x".repeat(4 * 1024 * 1024));
    let deep = "[".repeat(100_000);
    let bodies: [(&str, &[u8]); 13] = [
        ("/kill", b""),
        ("/kill", b"{"),
        ("/kill", b"null"),
        ("/kill", b"\"all\""),
        ("/kill", br#"{"lable":"KQXZ"}"#),
        ("/kill", br#"{"label":7}"#),
        ("/kill", br#"{"label":"KQXZ"}{}"#),
        ("/kill", b"\xff\xfe"),
        ("/kill", large.as_bytes()),
        ("/kill", deep.as_bytes()),
        ("/forget", b"{}"),
        ("/forget", br#"{"site":"example.com","path":"browser","client":"claude-code"}"#),
        (
            "/forget",
            br#"{"site":"example.com","path":"browser","client":"claude-code","profile":"k3x9","all":true}"#,
        ),
    ];
    for (uri, body) in bodies {
        let request = post(uri, body.to_vec()).with("cookie", &cookie).with("x-consentry-token", &token);
        let answer = scene.answer(request).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert!(answer.status.is_client_error(), "{uri} {shown}: {}", answer.status);
        assert!(!answer.text().contains(&token));
    }
    let form = post("/kill", "label=KQXZ")
        .with("content-type", "application/x-www-form-urlencoded")
        .with("cookie", &cookie)
        .with("x-consentry-token", &token);
    assert_eq!(scene.status(form).await, 415);
    assert!(scene.done().is_empty(), "{:?}", scene.done());
}

#[tokio::test]
async fn a_list_is_no_action() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    for (uri, body) in [
        ("/kill", "[]"),
        ("/kill", r#"["KQXZ"]"#),
        ("/kill", "[null]"),
        ("/forget", r#"["example.com","browser","claude-code","k3x9"]"#),
    ] {
        let request = post(uri, body).with("cookie", &cookie).with("x-consentry-token", &token);
        assert!(scene.answer(request).await.status.is_client_error(), "{uri} {body}");
    }
    assert!(scene.done().is_empty(), "{:?}", scene.done());
}

#[tokio::test]
async fn an_action_that_cannot_be_done_says_why() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    let request =
        post("/kill", r#"{"label":"ZZZZ"}"#).with("cookie", &cookie).with("x-consentry-token", &token);
    let answer = scene.answer(request).await;
    assert_eq!(answer.status, 400);
    let body: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(body, json!({ "error": "there is no grant ZZZZ" }));
}
