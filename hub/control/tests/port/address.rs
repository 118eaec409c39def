//! Where a request is addressed to and how it came.

use axum::http::{HeaderValue, Method};

use crate::scene::{OTHER_ROUTES, PAGE_ROUTES, PORT, Scene, With as _, ask};

#[tokio::test]
async fn loopback_with_this_port_is_taken_by_each_of_its_names() {
    let scene = Scene::new();
    for name in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
        let request = ask(Method::GET, "/healthz").with("host", format!("{name}:{PORT}"));
        assert_eq!(scene.status(request).await, 200, "{name}");
    }
}

#[tokio::test]
async fn any_other_host_is_forbidden_on_every_route() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    let hosts = [
        "evil.com",
        "evil.com:7312",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:80",
        "127.0.0.1:7311",
        "127.0.0.1:07312",
        "127.0.0.1:73120",
        "localhost.:7312",
        "127.0.0.1.:7312",
        "127.1:7312",
        "127.0.0.2:7312",
        "0.0.0.0:7312",
        "[::]:7312",
        "::1:7312",
        "127.0.0.1:7312.evil.com",
        "127.0.0.1:7312@evil.com",
        "evil.com@127.0.0.1:7312",
        "localhost.evil.com:7312",
        " 127.0.0.1:7312",
        "",
    ];
    for (method, uri) in PAGE_ROUTES.into_iter().chain(OTHER_ROUTES) {
        for host in hosts {
            let request = ask(method.clone(), uri)
                .with("host", host)
                .with("cookie", &cookie)
                .with("x-consentry-token", &token);
            assert_eq!(scene.status(request).await, 403, "{method} {uri} at {host:?}");
        }
    }
    assert!(scene.done().is_empty());
}

#[tokio::test]
async fn no_host_two_hosts_and_a_host_of_odd_bytes_are_forbidden() {
    let scene = Scene::new();
    let mut none = ask(Method::GET, "/healthz");
    none.headers_mut().remove("host");
    assert_eq!(scene.status(none).await, 403);
    for second in ["evil.com", "127.0.0.1:7312"] {
        let mut two = ask(Method::GET, "/healthz");
        two.headers_mut().append("host", HeaderValue::from_static(second));
        assert_eq!(scene.status(two).await, 403, "{second}");
    }
    assert_eq!(scene.status(ask(Method::GET, "/healthz").with("host", b"\xff:7312")).await, 403);
}

#[tokio::test]
async fn what_went_through_a_proxy_is_forbidden_on_every_route() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    for (method, uri) in PAGE_ROUTES.into_iter().chain(OTHER_ROUTES) {
        for proxy in
            ["cf-connecting-ip", "cf-ray", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded"]
        {
            for value in ["203.0.113.7", "127.0.0.1", ""] {
                let request = ask(method.clone(), uri)
                    .with(proxy, value)
                    .with("cookie", &cookie)
                    .with("x-consentry-token", &token);
                assert_eq!(scene.status(request).await, 403, "{method} {uri} with {proxy}: {value:?}");
            }
        }
    }
    assert!(scene.done().is_empty());
}

#[tokio::test]
async fn a_page_of_another_origin_gets_nothing_of_this_page() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let token = scene.token(&cookie).await;
    let origins = [
        "https://evil.com",
        "http://evil.com:7312",
        "http://127.0.0.1",
        "http://127.0.0.1:7311",
        "https://127.0.0.1:7312",
        "http://127.0.0.1:7312.evil.com",
        "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
        "null",
        "",
    ];
    for (method, uri) in PAGE_ROUTES {
        let request = || ask(method.clone(), uri).with("cookie", &cookie).with("x-consentry-token", &token);
        for origin in origins {
            let status = scene.status(request().with("origin", origin)).await;
            assert_eq!(status, 403, "{method} {uri} from {origin}");
        }
        for site in ["cross-site", "same-site"] {
            let status = scene.status(request().with("sec-fetch-site", site)).await;
            assert_eq!(status, 403, "{method} {uri} from {site}");
        }
    }
    assert!(scene.done().is_empty());
}

#[tokio::test]
async fn an_origin_that_cannot_be_read_is_another_origin() {
    let scene = Scene::new();
    let request = ask(Method::GET, "/state.json").with("cookie", scene.cookie().await);
    assert_eq!(scene.status(request.with("origin", b"https://evil.com/\xff")).await, 403);
}

#[tokio::test]
async fn the_page_itself_and_the_address_bar_are_no_other_origin() {
    let scene = Scene::new();
    let cookie = scene.cookie().await;
    let request = || ask(Method::GET, "/state.json").with("cookie", &cookie);
    for site in ["same-origin", "none"] {
        assert_eq!(scene.status(request().with("sec-fetch-site", site)).await, 200, "{site}");
    }
    for origin in ["http://127.0.0.1:7312", "http://localhost:7312", "http://[::1]:7312"] {
        assert_eq!(scene.status(request().with("origin", origin)).await, 200, "{origin}");
    }
}

#[tokio::test]
async fn a_link_that_was_clicked_elsewhere_opens_the_page() {
    let scene = Scene::new();
    let link = scene.sessions.link();
    let request = ask(Method::GET, &format!("/open?once={link}")).with("sec-fetch-site", "cross-site");
    assert_eq!(scene.status(request).await, 200);
}
