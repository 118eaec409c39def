//! Two paths behind their listener, with a scripted owner.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use consentry_core::{Client, Hub, KeyKind, KeyRecord, KeyRing, Via, digest};
use consentry_gate::{Answer, PathRules, Rules};
use consentry_mcp::{ListenerConfig, PathServer, Paths, router};
use consentry_test_support::fakes::Fakes;
use consentry_wire::PathName;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt as _;

use crate::http::{Reply, With as _, exchange, post};
use crate::tools::{FakePath, Seen};

pub(crate) const TUNNEL: &str = "machine.example.com";
/// Keys: each is the secret of a record whose name says what it is.
pub(crate) const AGENT: &str = "c4n4ry-key-of-the-agent";
pub(crate) const OTHER: &str = "c4n4ry-key-of-another-agent";
pub(crate) const GATEWAY: &str = "c4n4ry-key-of-the-gateway";
pub(crate) const SHELL_GATEWAY: &str = "c4n4ry-key-of-the-shells-gateway";
pub(crate) const NEW: &str = "c4n4ry-key-that-nobody-approved";

pub(crate) const OLD_VERSION: &str = "2025-11-25";
pub(crate) const NEW_VERSION: &str = "2026-07-28";
pub(crate) const VERSIONS: [&str; 2] = [OLD_VERSION, NEW_VERSION];

/// Bounds a wait that has to end by itself.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it takes too long")
}

/// Waits for a state of things; looks often, and not for ever.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub(crate) struct Scene {
    pub(crate) hub: Hub,
    pub(crate) fakes: Fakes,
    pub(crate) paths: Paths,
    pub(crate) seen: Arc<Seen>,
    pub(crate) port: u16,
    pub(crate) router: Router,
    pub(crate) address: Option<SocketAddr>,
    tasks: JoinSet<()>,
    _stop: DropGuard,
}

pub(crate) fn keys() -> KeyRing {
    let key = |name: &str, secret: &str, kind, approved| KeyRecord {
        name: name.parse().unwrap(),
        digest: digest(secret),
        kind,
        approved,
    };
    let shell = "shell".parse().unwrap();
    KeyRing(vec![
        key("agent", AGENT, KeyKind::Named, true),
        key("other", OTHER, KeyKind::Named, true),
        key("gateway", GATEWAY, KeyKind::Path(PathName::browser()), true),
        key("shell-gateway", SHELL_GATEWAY, KeyKind::Path(shell), true),
        key("new", NEW, KeyKind::Named, false),
    ])
}

/// A dialog that stands longer than any call waits.
fn rules() -> PathRules {
    PathRules { window: Duration::from_secs(120), cooldown: Duration::ZERO, ..PathRules::default() }
}

impl Scene {
    /// Requests go to the routes as they are, so that time may be paused.
    pub(crate) fn in_process() -> Self {
        Self::on(7311)
    }

    /// With a real listener on loopback.
    pub(crate) async fn listening() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut scene = Self::on(address.port());
        scene.address = Some(address);
        let router = scene.router.clone();
        scene.tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        scene
    }

    fn on(port: u16) -> Self {
        let fakes = Fakes::default();
        let stop = CancellationToken::new();
        let shell: PathName = "shell".parse().unwrap();
        let all = BTreeMap::from([(PathName::browser(), rules()), (shell, rules())]);
        let (hub, actor) = Hub::start(fakes.ports(), Rules { paths: all }, keys(), Vec::new(), stop.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(actor);
        let seen = Arc::new(Seen::default());
        let paths = Paths::default();
        let config = ListenerConfig { port, tunnel_host: Some(TUNNEL.into()) };
        let router = router(hub.clone(), paths.clone(), config, stop.clone());
        let scene =
            Self { hub, fakes, paths, seen, port, router, address: None, tasks, _stop: stop.drop_guard() };
        scene.enable(&["browser", "shell"]);
        scene
    }

    pub(crate) fn server(&self, path: &str) -> PathServer {
        PathServer::new(self.hub.clone(), Arc::new(FakePath::new(path, self.seen.clone())), &rules())
    }

    /// These paths and no others.
    pub(crate) fn enable(&self, paths: &[&str]) {
        self.paths.set(paths.iter().map(|path| (path.parse().unwrap(), self.server(path))).collect());
    }

    pub(crate) fn client(&self, secret: &str) -> Client {
        self.hub.identify(&PathName::browser(), secret, Via::Local).unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        if let Some(address) = self.address {
            return soon(exchange(address, request)).await;
        }
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Reply { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(crate) async fn status(&self, request: Request<Body>) -> u16 {
        self.send(request).await.status
    }

    /// A request of the browser path without a key.
    pub(crate) fn post(&self, body: impl Into<Body>) -> Request<Body> {
        post("browser", self.port, body)
    }

    /// One message of a wire version, with the agent's key.
    pub(crate) fn message(&self, version: &str, method: &str, params: Value) -> Request<Body> {
        self.message_of("browser", AGENT, version, method, params)
    }

    pub(crate) fn message_of(
        &self,
        path: &str,
        key: &str,
        version: &str,
        method: &str,
        mut params: Value,
    ) -> Request<Body> {
        let name = params["name"].as_str().map(str::to_owned);
        if version == NEW_VERSION {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
        let mut request = post(path, self.port, body)
            .with("authorization", &format!("Bearer {key}"))
            .with("mcp-protocol-version", version);
        if version == NEW_VERSION {
            request = request.with("mcp-method", method);
            if let Some(name) = name {
                request = request.with("mcp-name", &name);
            }
        }
        request
    }

    pub(crate) fn calling(&self, version: &str, tool: &str, args: Value) -> Request<Body> {
        self.message(version, "tools/call", json!({ "name": tool, "arguments": args }))
    }

    /// What a tool answers.
    pub(crate) async fn call(&self, version: &str, tool: &str, args: Value) -> Value {
        result(&self.send(self.calling(version, tool, args)).await)
    }

    /// A grant of the browser path for the agent.
    pub(crate) async fn grant(&self) -> String {
        self.fakes.owner.will(Answer::Allow);
        let args = json!({ "purpose": "Read the invoices." });
        let answer = self.call(OLD_VERSION, "request_control", args).await;
        answer["structuredContent"]["grant_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The codes of the outcomes in the audit.
    pub(crate) fn outcomes(&self) -> Vec<Value> {
        self.fakes.audit.of("outcome").into_iter().map(|record| record.fields["code"].clone()).collect()
    }
}

/// The result in an answer: its last message, and its only one that is an answer.
pub(crate) fn result(reply: &Reply) -> Value {
    let messages = reply.messages();
    let last = messages.last().unwrap();
    assert_eq!((reply.status, &last["id"]), (200, &json!(7)), "{last}");
    assert!(last["error"].is_null(), "{last}");
    last["result"].clone()
}

/// The failure that a result holds.
pub(crate) fn failure(result: &Value) -> Value {
    assert_eq!(result["isError"], json!(true), "{result}");
    let failure = result["structuredContent"].clone();
    for field in ["code", "message", "next", "outcome"] {
        assert!(failure[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {failure}");
    }
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(failure["code"].as_str().unwrap()), "{text}");
    assert!(text.contains(failure["next"].as_str().unwrap()), "{text}");
    failure
}
