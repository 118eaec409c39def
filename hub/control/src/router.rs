//! The routes of the control port.

use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::events;
use crate::guard::{self, Refused, cookie_name};
use crate::sessions::Sessions;
use crate::state::StateSource;

const PAGE: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Nothing from elsewhere, nothing inline, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the owner does on the page.
#[async_trait]
pub trait Actions: Send + Sync {
    /// Ends one grant by its label, or all.
    async fn kill(&self, label: Option<String>) -> Result<Value, String>;
    /// Disables everything.
    async fn disable(&self) -> Result<Value, String>;
    /// Enables control again.
    async fn enable(&self) -> Result<Value, String>;
    /// Forgets one remembered site.
    async fn forget(&self, site: ForgetSite) -> Result<Value, String>;
}

/// One remembered site, as the page names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetSite {
    /// The site.
    pub site: String,
    /// For which path.
    pub path: String,
    /// For which key.
    pub client: String,
    /// In which profile.
    pub profile: String,
}

/// What the port needs.
#[derive(Clone)]
pub struct ControlConfig {
    /// The port, for the Host check.
    pub port: u16,
    /// The sessions.
    pub sessions: Sessions,
    /// What is shown.
    pub source: Arc<dyn StateSource>,
    /// What is done.
    pub actions: Arc<dyn Actions>,
    /// Counts what the page shows.
    pub changes: watch::Receiver<u64>,
    /// Ends every stream.
    pub stop: CancellationToken,
}

impl std::fmt::Debug for ControlConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ControlConfig({})", self.port)
    }
}

/// All routes. `doors` are the browsers' own, which need no session.
pub fn router(config: ControlConfig, doors: Router) -> Router {
    let page = Router::new()
        .route("/", get(index))
        .route("/style.css", get(|| async { asset(STYLE, "text/css; charset=utf-8") }))
        .route("/page.js", get(|| async { asset(SCRIPT, "text/javascript; charset=utf-8") }))
        .route("/state.json", get(state))
        .route("/grants/{label}/log.json", get(grant_log))
        .route("/events", get(stream))
        .route("/kill", post(kill))
        .route("/disable", post(disable))
        .route("/enable", post(enable))
        .route("/forget", post(forget))
        .layer(middleware::from_fn_with_state(config.clone(), need_session));
    Router::new()
        .merge(page)
        .route("/open", get(open))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(config.clone())
        .merge(doors)
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is nothing here\n") })
        .layer(middleware::from_fn_with_state(config, need_address))
}

async fn need_address(State(config): State<ControlConfig>, request: Request, next: Next) -> Response {
    let mut response = match guard::address(request.headers(), config.port) {
        Ok(()) => next.run(request).await,
        Err(refused) => refuse(refused),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

async fn need_session(State(config): State<ControlConfig>, request: Request, next: Next) -> Response {
    match guard::page(request.headers(), request.method(), request.uri(), config.port, &config.sessions) {
        Ok(()) => next.run(request).await,
        Err(refused) => refuse(refused),
    }
}

fn refuse(refused: Refused) -> Response {
    let status = if refused == Refused::Session { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
    (status, format!("{}\n", refused.words())).into_response()
}

fn asset(content: &'static str, kind: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}

#[derive(Deserialize)]
struct Once {
    once: String,
}

/// Uses a one-time link up and goes to the page, so that the secret does not stay in the address.
async fn open(State(config): State<ControlConfig>, once: Query<Once>) -> Response {
    let Some(session) = config.sessions.redeem(&once.once) else {
        return (
            StatusCode::UNAUTHORIZED,
            "this link was used already or is too old: run `consentry open` again\n",
        )
            .into_response();
    };
    let cookie = format!("{}={session}; Path=/; HttpOnly; SameSite=Strict", cookie_name(config.port));
    // A redirect of a link that was clicked elsewhere would go without the strict cookie: the page goes by itself.
    let page = "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=/\"><title>Consentry</title>";
    ([(header::SET_COOKIE, cookie)], Html(page)).into_response()
}

async fn index(State(config): State<ControlConfig>) -> Html<String> {
    Html(PAGE.replace("{{token}}", config.sessions.token()))
}

async fn state(State(config): State<ControlConfig>) -> Response {
    Json(config.source.state().await).into_response()
}

async fn grant_log(State(config): State<ControlConfig>, Path(label): Path<String>) -> Response {
    Json(config.source.grant_log(&label).await).into_response()
}

async fn stream(State(config): State<ControlConfig>) -> Response {
    events::stream(config.source, config.changes, config.stop).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kill {
    #[serde(default)]
    label: Option<String>,
}

async fn kill(State(config): State<ControlConfig>, Json(kill): Json<Map<String, Value>>) -> Response {
    match read::<Kill>(kill) {
        Ok(kill) => answer(config.actions.kill(kill.label).await),
        Err(message) => answer(Err(message)),
    }
}

async fn disable(State(config): State<ControlConfig>) -> Response {
    answer(config.actions.disable().await)
}

async fn enable(State(config): State<ControlConfig>) -> Response {
    answer(config.actions.enable().await)
}

async fn forget(State(config): State<ControlConfig>, Json(site): Json<Map<String, Value>>) -> Response {
    match read::<ForgetSite>(site) {
        Ok(site) => answer(config.actions.forget(site).await),
        Err(message) => answer(Err(message)),
    }
}

/// Reads an object and nothing else: a list would be taken for its fields in order.
fn read<T: serde::de::DeserializeOwned>(object: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())
}

fn answer(result: Result<Value, String>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(message) => (StatusCode::BAD_REQUEST, Json(json!({ "error": message }))).into_response(),
    }
}
