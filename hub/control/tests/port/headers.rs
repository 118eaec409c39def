//! What every response carries, and what none tells.

use axum::http::{Method, Request};

use crate::scene::{Answer, OTHER_ROUTES, PAGE_ROUTES, Scene, With as _, ask, post};

fn is_guarded(answer: &Answer, what: &str) {
    let policy = answer.header("content-security-policy");
    for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"] {
        assert!(policy.contains(part), "{what}: {part} is not in {policy:?}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{what}");
    assert_eq!(answer.header("x-frame-options"), "DENY", "{what}");
    assert_eq!(answer.header("referrer-policy"), "no-referrer", "{what}");
    // A stream of events is never kept, whatever it says.
    let kept = if what == "/events" { "no-cache" } else { "no-store" };
    assert!(["no-store", kept].contains(&answer.header("cache-control")), "{what}");
    for name in ["access-control-allow-origin", "access-control-allow-credentials"] {
        assert!(!answer.headers.contains_key(name), "{what}: {name}");
    }
}

#[tokio::test]
async fn every_response_forbids_frames_sniffing_keeping_and_anything_from_elsewhere() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    for (method, uri) in PAGE_ROUTES.into_iter().chain(OTHER_ROUTES) {
        if uri != "/events" {
            let full = ask(method.clone(), uri).with("cookie", &cookie).with("x-consentry-token", &token);
            is_guarded(&scene.answer(full).await, uri);
        }
        is_guarded(&scene.answer(ask(method, uri)).await, uri);
    }
    let page = || ask(Method::GET, "/").with("cookie", &cookie);
    let refused: [(&str, Request<axum::body::Body>); 4] = [
        ("another origin", page().with("origin", "https://evil.com")),
        ("no token", post("/kill", "{}").with("cookie", &cookie)),
        ("malformed", post("/kill", "{").with("cookie", &cookie).with("x-consentry-token", &token)),
        ("method", ask(Method::PUT, "/healthz")),
    ];
    for (what, request) in refused {
        is_guarded(&scene.answer(request).await, what);
    }
}

#[tokio::test]
async fn the_refusal_of_a_host_or_a_proxy_carries_the_same_headers() {
    let scene = Scene::new();
    for (name, value) in [("host", "evil.com"), ("x-forwarded-for", "203.0.113.7")] {
        is_guarded(&scene.answer(ask(Method::GET, "/").with(name, value)).await, name);
    }
}

#[tokio::test]
async fn the_events_carry_the_same_headers() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let (parts, _) = scene.send(ask(Method::GET, "/events").with("cookie", &cookie)).await.into_parts();
    let answer = Answer { status: parts.status, headers: parts.headers, body: axum::body::Bytes::new() };
    is_guarded(&answer, "/events");
    assert!(answer.header("content-type").starts_with("text/event-stream"));
}

#[tokio::test]
async fn the_page_holds_the_token_and_nothing_else_tells_it() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    assert_eq!(token.len(), 64);
    let page = scene.answer(ask(Method::GET, "/").with("cookie", &cookie)).await.text();
    assert_eq!(page.matches(&token).count(), 1);
    assert!(!cookie.contains(&token));
    for (method, uri) in PAGE_ROUTES.into_iter().chain(OTHER_ROUTES) {
        for with_session in [false, true] {
            if with_session && (uri == "/events" || uri == "/") {
                continue;
            }
            let mut request = ask(method.clone(), uri);
            if with_session {
                request = request.with("cookie", &cookie);
            }
            let answer = scene.answer(request).await;
            let told = format!("{:?} {}", answer.headers, answer.text());
            assert!(!told.contains(&token), "{method} {uri} with_session: {with_session}");
        }
    }
}

#[tokio::test]
async fn the_page_takes_nothing_from_elsewhere_and_has_no_script_of_its_own() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let get = |uri: &str| ask(Method::GET, uri).with("cookie", &cookie);
    let page = scene.answer(get("/")).await.text();
    for inline in ["<script>", "<style", " style=", " onclick=", " onload=", "javascript:"] {
        assert!(!page.contains(inline), "{inline}");
    }
    for outside in ["src=\"http", "src=\"//", "href=\"http", "href=\"//"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let style = scene.answer(get("/style.css")).await.text();
    assert!(!style.contains("@import") && !style.contains("url(http") && !style.contains("url(//"));
    let script = scene.answer(get("/page.js")).await.text();
    for raw in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"]
    {
        assert!(!script.contains(raw), "{raw}");
    }
}

#[tokio::test]
async fn no_control_on_the_page_answers_a_dialog() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    for uri in
        ["/allow", "/approve", "/answer", "/grant", "/grants/KQXZ/allow", "/dialog", "/dialogs/1/allow"]
    {
        let request =
            post(uri, r#"{"answer":"allow"}"#).with("cookie", &cookie).with("x-consentry-token", &token);
        assert_eq!(scene.status(request).await, 404, "{uri}");
    }
}

#[tokio::test]
async fn a_route_that_does_not_exist_is_not_found_with_a_session_or_without() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    for uri in [
        "/nowhere",
        "/state.json/",
        "/state%2ejson",
        "//",
        "/../state.json",
        "/open/",
        "/grants",
        "/grants/KQXZ",
        "/index.html",
        "/page/index.html",
        "/.git/config",
    ] {
        assert_eq!(scene.status(ask(Method::GET, uri)).await, 404, "{uri}");
        assert_eq!(scene.status(ask(Method::GET, uri).with("cookie", &cookie)).await, 404, "{uri}");
    }
}
