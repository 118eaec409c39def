//! A control port without a socket: requests go to its routes as they are.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use consentry_control::{
    Actions, AuditRow, ControlConfig, ForgetSite, PageState, Sessions, StateSource, router,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub(crate) const PORT: u16 = 7312;

/// A state that is told from others by the name of its machine.
#[derive(Debug, Default)]
pub(crate) struct FakeState {
    machine: Mutex<String>,
    pub(crate) asked_for: Mutex<Vec<String>>,
}

#[async_trait]
impl StateSource for FakeState {
    async fn state(&self) -> PageState {
        PageState { machine: self.machine.lock().unwrap().clone(), ..PageState::default() }
    }
    async fn grant_log(&self, label: &str) -> Vec<AuditRow> {
        self.asked_for.lock().unwrap().push(label.to_owned());
        vec![AuditRow {
            n: 7,
            at: "2026-11-30T12:00:00.000Z".into(),
            kind: "call".into(),
            fields: Map::new(),
        }]
    }
}

/// Writes down what is to be done.
#[derive(Debug, Default)]
pub(crate) struct FakeActions(Mutex<Vec<String>>);

impl FakeActions {
    fn did(&self, what: String) -> Result<Value, String> {
        self.0.lock().unwrap().push(what);
        Ok(json!({ "done": true }))
    }
}

#[async_trait]
impl Actions for FakeActions {
    async fn kill(&self, label: Option<String>) -> Result<Value, String> {
        match label {
            Some(label) if label == "ZZZZ" => Err("there is no grant ZZZZ".into()),
            Some(label) => self.did(format!("kill {label}")),
            None => self.did("kill all".into()),
        }
    }
    async fn disable(&self) -> Result<Value, String> {
        self.did("disable".into())
    }
    async fn enable(&self) -> Result<Value, String> {
        self.did("enable".into())
    }
    async fn forget(&self, site: ForgetSite) -> Result<Value, String> {
        self.did(format!("forget {} {} {} {}", site.site, site.path, site.client, site.profile))
    }
}

pub(crate) struct Scene {
    router: Router,
    pub(crate) sessions: Sessions,
    pub(crate) source: Arc<FakeState>,
    pub(crate) stop: CancellationToken,
    actions: Arc<FakeActions>,
    changes: watch::Sender<u64>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (changes, seen) = watch::channel(0);
        let sessions = Sessions::default();
        let source = Arc::new(FakeState::default());
        let actions = Arc::new(FakeActions::default());
        let stop = CancellationToken::new();
        let config = ControlConfig {
            port: PORT,
            sessions: sessions.clone(),
            source: source.clone(),
            actions: actions.clone(),
            changes: seen,
            stop: stop.clone(),
        };
        let doors = Router::new().route("/extension", get(|| async { "the browsers' own door" }));
        let scene = Self { router: router(config, doors), sessions, source, stop, actions, changes };
        scene.change("desk");
        scene
    }

    /// The state is another from now on.
    pub(crate) fn change(&self, machine: &str) {
        *self.source.machine.lock().unwrap() = machine.to_owned();
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.actions.0.lock().unwrap().clone()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn answer(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.send(request).await.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// The status alone, so that a stream that does not end is no matter.
    pub(crate) async fn status(&self, request: Request<Body>) -> u16 {
        self.send(request).await.status().as_u16()
    }

    /// The cookie of a fresh session.
    pub(crate) async fn cookie(&self) -> String {
        let link = self.sessions.link();
        let answer = self.answer(ask(Method::GET, &format!("/open?once={link}"))).await;
        let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// The token that only the page holds.
    pub(crate) async fn token(&self, cookie: &str) -> String {
        let page = self.answer(ask(Method::GET, "/").with("cookie", cookie)).await.text();
        let (_, after) = page.split_once(r#"<meta name="token" content=""#).expect("the page has a token");
        after.split('"').next().unwrap().to_owned()
    }
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A request as it should be, but for a session.
pub(crate) fn ask(method: Method, uri: &str) -> Request<Body> {
    let host = format!("127.0.0.1:{PORT}");
    Request::builder().method(method).uri(uri).header(header::HOST, host).body(Body::empty()).unwrap()
}

pub(crate) fn post(uri: &str, body: impl Into<Body>) -> Request<Body> {
    let mut request = ask(Method::POST, uri).with("content-type", "application/json");
    *request.body_mut() = body.into();
    request
}

/// Adds to a request, header by header.
pub(crate) trait With {
    /// Puts a header in, in the place of one that is there.
    fn with(self, name: &'static str, value: impl AsRef<[u8]>) -> Self;
}

impl With for Request<Body> {
    fn with(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        let value = axum::http::HeaderValue::from_bytes(value.as_ref()).unwrap();
        self.headers_mut().insert(name, value);
        self
    }
}

/// Everything that belongs to the page.
pub(crate) const PAGE_ROUTES: [(Method, &str); 8] = [
    (Method::GET, "/"),
    (Method::GET, "/state.json"),
    (Method::GET, "/grants/KQXZ/log.json"),
    (Method::GET, "/events"),
    (Method::POST, "/kill"),
    (Method::POST, "/disable"),
    (Method::POST, "/enable"),
    (Method::POST, "/forget"),
];

/// What needs no session, or does not exist.
pub(crate) const OTHER_ROUTES: [(Method, &str); 6] = [
    (Method::GET, "/healthz"),
    (Method::GET, "/open?once=0"),
    (Method::GET, "/style.css"),
    (Method::GET, "/page.js"),
    (Method::GET, "/extension"),
    (Method::GET, "/nowhere"),
];
