//! The listener on the MCP port: what a request must show before any handler sees it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use consentry_core::{AuthFailure, Hub, Via};
use consentry_wire::{ErrorCode, PathName};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::server::{PathServer, Paths};

/// The largest request: a text to type or a page to paste, several times over.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// What the listener has to know.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// The port, for the Host check.
    pub port: u16,
    /// The tunnel's host name, if there is one.
    pub tunnel_host: Option<String>,
}

type Service = StreamableHttpService<PathServer, NeverSessionManager>;

struct Door {
    hub: Hub,
    paths: Paths,
    config: ListenerConfig,
    stop: CancellationToken,
    services: Mutex<HashMap<PathName, Service>>,
}

/// The routes of the MCP port.
pub fn router(hub: Hub, paths: Paths, config: ListenerConfig, stop: CancellationToken) -> Router {
    let door = Door { hub, paths, config, stop, services: Mutex::default() };
    Router::new()
        .route("/{path}/mcp", any(enter))
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, ErrorCode::UnknownPath, "there is nothing here") })
        .with_state(Arc::new(door))
}

async fn enter(State(door): State<Arc<Door>>, Path(path): Path<String>, mut request: Request) -> Response {
    let via = match door.host(request.headers()) {
        Ok(via) => via,
        Err(response) => return *response,
    };
    if request.headers().contains_key(header::ORIGIN) {
        return refuse(StatusCode::FORBIDDEN, ErrorCode::Forbidden, "requests from web pages are refused");
    }
    let known = path.parse::<PathName>().ok().and_then(|name| Some((door.paths.get(&name)?, name)));
    let Some((server, path)) = known else {
        return refuse(
            StatusCode::NOT_FOUND,
            ErrorCode::UnknownPath,
            "there is no such path, or it is not enabled",
        );
    };
    let secret = bearer(request.headers());
    match secret.map(|secret| door.hub.identify(&path, secret, via)) {
        Some(Ok(client)) => {
            request.extensions_mut().insert(client);
        }
        Some(Err(AuthFailure::NotApproved)) => {
            return refuse(
                StatusCode::FORBIDDEN,
                ErrorCode::KeyNotApproved,
                "the owner has not approved this key yet",
            );
        }
        Some(Err(AuthFailure::LocalOnly)) => {
            return refuse(
                StatusCode::FORBIDDEN,
                ErrorCode::LocalKeyOnly,
                "this key works on this machine only",
            );
        }
        Some(Err(AuthFailure::Unknown)) | None => {
            let mut response =
                refuse(StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized, "a key of this path is needed");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
            return response;
        }
    }
    let service = door.service(&path, server);
    let json = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let response = service.handle(request).await.map(Body::new);
    // The library answers a body that it cannot read as if its kind were wrong.
    if json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE { unreadable() } else { response }
}

impl Door {
    /// Loopback by name or number, or the tunnel's own name.
    fn host(&self, headers: &HeaderMap) -> Result<Via, Box<Response>> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
        if hosts.next().is_some() {
            return Err(Box::new(refuse(
                StatusCode::FORBIDDEN,
                ErrorCode::Forbidden,
                "there is more than one Host",
            )));
        }
        let forwarded = ["cf-connecting-ip", "cf-ray", "x-forwarded-for", "forwarded"];
        let proxied = forwarded.iter().any(|name| headers.contains_key(*name));
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port.parse().ok()),
            _ => (host, None),
        };
        if self.config.tunnel_host.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name)) {
            return Ok(Via::Tunnel);
        }
        let loopback = matches!(name, "127.0.0.1" | "[::1]") || name.eq_ignore_ascii_case("localhost");
        if loopback && port == Some(self.config.port) {
            return Ok(if proxied { Via::Tunnel } else { Via::Local });
        }
        Err(Box::new(refuse(
            StatusCode::FORBIDDEN,
            ErrorCode::Forbidden,
            "the Host is neither loopback nor the tunnel's",
        )))
    }

    /// One service a path: it holds nothing but the handler.
    fn service(&self, path: &PathName, server: PathServer) -> Service {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = self.paths.clone();
        let name = path.clone();
        let fresh = || {
            let config = StreamableHttpServerConfig::default()
                .with_legacy_session_mode(false)
                .with_json_response(true)
                // This listener has checked the Host already, and knows the tunnel's.
                .disable_allowed_hosts()
                .with_max_request_body_bytes(MAX_BODY)
                .with_cancellation_token(self.stop.child_token());
            let gone = || std::io::Error::other("the path was disabled");
            StreamableHttpService::new(
                move || paths.get(&name).ok_or_else(gone),
                Arc::new(NeverSessionManager::default()),
                config,
            )
        };
        drop(server);
        services.entry(path.clone()).or_insert_with(fresh).clone()
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// A message that is none, in the protocol's own words.
fn unreadable() -> Response {
    let error = json!({ "code": -32700, "message": "the body is no JSON-RPC message" });
    (StatusCode::BAD_REQUEST, axum::Json(json!({ "jsonrpc": "2.0", "id": null, "error": error })))
        .into_response()
}

fn refuse(status: StatusCode, code: ErrorCode, message: &str) -> Response {
    let body = json!({ "error": { "code": code, "message": message, "next": code.next() } });
    (status, axum::Json(body)).into_response()
}
