//! Who may read: whoever came by a link that works once.

use axum::http::{Method, header};
use consentry_control::Sessions;
use serde_json::{Value, json};

use crate::scene::{PAGE_ROUTES, Scene, With as _, ask};

#[tokio::test]
async fn health_and_the_browsers_own_doors_need_no_session() {
    let scene = Scene::new();
    for (uri, body) in [("/healthz", "ok\n"), ("/extension", "the browsers' own door")] {
        let answer = scene.answer(ask(Method::GET, uri)).await;
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, body), "{uri}");
    }
}

#[tokio::test]
async fn everything_of_the_page_needs_a_session() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    let (name, secret) = cookie.split_once('=').unwrap();
    let shorter = &secret[..secret.len() - 1];
    let not_a_session = [
        String::new(),
        format!("{name}="),
        format!("{name}={shorter}"),
        format!("{name}={secret}0"),
        format!("{name}={}", secret.to_uppercase()),
        format!("{name}={}", scene.sessions.link()),
        format!("consentry={secret}"),
        format!("consentry_7311={secret}"),
        format!("x{name}={secret}"),
        secret.to_owned(),
    ];
    for (method, uri) in PAGE_ROUTES {
        let request = || ask(method.clone(), uri).with("x-consentry-token", &token);
        assert_eq!(scene.status(request()).await, 401, "{method} {uri}");
        for cookie in &not_a_session {
            assert_eq!(scene.status(request().with("cookie", cookie)).await, 401, "{method} {uri} {cookie}");
        }
    }
    assert_eq!(scene.status(ask(Method::HEAD, "/")).await, 401);
    assert!(scene.done().is_empty() && scene.source.asked_for.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_a_session_nothing_else_answers_either() {
    let scene = Scene::new();
    for uri in ["/style.css", "/page.js"] {
        assert_eq!(scene.status(ask(Method::GET, uri)).await, 401, "{uri}");
    }
}

#[tokio::test]
async fn whoever_has_no_session_is_told_how_to_get_one_and_nothing_of_the_state() {
    let scene = Scene::new();
    let answer = scene.answer(ask(Method::GET, "/state.json")).await;
    assert!(answer.text().contains("consentry open") && !answer.text().contains("desk"));
}

#[tokio::test]
async fn with_a_session_the_page_and_its_data_answer() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let get = |uri: &str| ask(Method::GET, uri).with("cookie", &cookie);
    let page = scene.answer(get("/")).await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html") && !page.text().contains("{{"));
    let state = scene.answer(get("/state.json")).await;
    assert!(state.header("content-type").starts_with("application/json"));
    let state: Value = serde_json::from_str(&state.text()).unwrap();
    assert_eq!((&state["machine"], &state["disabled"]), (&json!("desk"), &json!(false)));
    let log: Value = serde_json::from_str(&scene.answer(get("/grants/KQXZ/log.json")).await.text()).unwrap();
    assert_eq!(log[0]["n"], json!(7));
    assert_eq!(*scene.source.asked_for.lock().unwrap(), ["KQXZ"]);
    for (uri, kind) in [("/style.css", "text/css"), ("/page.js", "text/javascript")] {
        let asset = scene.answer(get(uri)).await;
        assert!(asset.status == 200 && asset.header("content-type").starts_with(kind), "{uri}");
    }
    let among_others = format!("a=b; {cookie}; c=d");
    assert_eq!(scene.status(ask(Method::GET, "/state.json").with("cookie", among_others)).await, 200);
}

#[tokio::test]
async fn a_link_works_once() {
    let scene = Scene::new();
    let link = format!("/open?once={}", scene.sessions.link());
    let first = scene.answer(ask(Method::GET, &link)).await;
    assert_eq!(first.status, 200);
    assert!(!first.text().contains("once="), "the secret stays in no page");
    let second = scene.answer(ask(Method::GET, &link)).await;
    assert_eq!(second.status, 401);
    assert!(!second.headers.contains_key(header::SET_COOKIE) && second.text().contains("consentry open"));
}

#[tokio::test]
async fn a_link_that_was_never_made_opens_nothing() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let session = cookie.split_once('=').unwrap().1;
    let token = scene.token(&cookie).await;
    for once in ["0", "", session, &token, &"0".repeat(64), "%00", "%ff"] {
        let answer = scene.answer(ask(Method::GET, &format!("/open?once={once}"))).await;
        assert!(answer.status.is_client_error(), "{once}: {}", answer.status);
        assert!(!answer.headers.contains_key(header::SET_COOKIE), "{once}");
    }
    for uri in ["/open", "/open?twice=1", "/open?once=1&once=2"] {
        assert!(scene.answer(ask(Method::GET, uri)).await.status.is_client_error(), "{uri}");
    }
}

#[tokio::test]
async fn the_cookie_is_out_of_reach_of_scripts_and_of_other_sites_and_knows_its_port() {
    let scene = Scene::new();
    let link = scene.sessions.link();
    let answer = scene.answer(ask(Method::GET, &format!("/open?once={link}"))).await;
    let cookie = answer.header("set-cookie").to_owned();
    let mut parts = cookie.split("; ");
    let (name, secret) = parts.next().unwrap().split_once('=').unwrap();
    assert_eq!((name, secret.len()), ("consentry_7312", 64));
    let marks: Vec<&str> = parts.collect();
    assert_eq!(marks, ["Path=/", "HttpOnly", "SameSite=Strict"]);
    assert_ne!(secret, link);
}

#[tokio::test]
async fn links_sessions_and_tokens_of_one_run_are_nothing_in_the_next() {
    let (before, after) = (Scene::new(), Scene::new());
    let cookie = before.cookie().await;
    let link = before.sessions.link();
    assert_eq!(after.status(ask(Method::GET, "/").with("cookie", &cookie)).await, 401);
    assert_eq!(after.status(ask(Method::GET, &format!("/open?once={link}"))).await, 401);
    let token = before.token(&cookie).await;
    assert_ne!(after.token(&after.cookie().await).await, token);
    let debug = format!("{:?}", Sessions::default());
    assert!(debug.len() < 4096, "{debug}");
}
