//! `request_control` and `release_control`: the only tools that are the same on every path.

use std::time::Duration;

use consentry_core::{Client, Content, ControlRequest, Hub, Start, ToolOutput, compact_schema, parse_args};
use consentry_gate::{OnTimeout, PathRules};
use consentry_wire::{ErrorCode, Failure, PathName};
use rmcp::model::{ProgressNotificationParam, Tool, ToolAnnotations};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};

/// A caller is answered after so long at the latest: most clients give up after a minute.
const WAIT: Duration = Duration::from_secs(45);
/// How often a waiting caller hears that it still waits.
const PROGRESS: Duration = Duration::from_secs(1);

pub(crate) const REQUEST: &str = "request_control";
pub(crate) const RELEASE: &str = "release_control";

/// What `release_control` takes.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseArgs {
    /// Close the tabs that this grant opened.
    #[serde(default)]
    pub(crate) close_tabs: bool,
}

/// Both tools, for `tools/list`. The description says which rule holds, so that an agent knows whether the owner
/// has to be at the screen.
pub(crate) fn tools(path: &PathName, rules: &PathRules) -> [Tool; 2] {
    let silence = match &rules.on_timeout {
        OnTimeout::Deny => "If nobody answers, it is denied.",
        OnTimeout::Allow { .. } => "If nobody answers, it may be allowed by the owner's rule.",
    };
    let request = format!(
        "Asks the machine's owner, by a dialog on their screen, for control of the {path} path, and waits. Call it \
         first: every other tool needs the grant_id that it returns. The dialog stands for {} seconds. {silence} \
         If it returns pending, call it again with request_id.",
        rules.window.as_secs()
    );
    let mut request_schema = compact_schema::<ControlRequest>();
    if let Some(minutes) = request_schema.get_mut("properties").and_then(|p| p.get_mut("minutes")) {
        minutes["minimum"] = json!(1);
        minutes["maximum"] = json!(rules.max_minutes);
    }
    let mut release_schema = compact_schema::<ReleaseArgs>();
    add_grant_id(&mut release_schema);
    let annotations = |title: &str, idempotent| {
        ToolAnnotations::with_title(title)
            .read_only(false)
            .destructive(false)
            .idempotent(idempotent)
            .open_world(false)
    };
    [
        Tool::new(REQUEST, request, std::sync::Arc::new(request_schema))
            .with_annotations(annotations("Request control", false)),
        Tool::new(
            RELEASE,
            "Gives the grant back as soon as the work is done: the owner sees that it is over.",
            std::sync::Arc::new(release_schema),
        )
        .with_annotations(annotations("Release control", true)),
    ]
}

/// Adds the parameter that every tool takes.
pub(crate) fn add_grant_id(schema: &mut Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert("grant_id".into(), json!({ "type": "string" }));
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        required.insert(0, json!("grant_id"));
    }
}

/// Asks, and tells the caller each second that it still waits.
pub(crate) async fn request(
    hub: &Hub,
    client: &Client,
    path: &PathName,
    args: Map<String, Value>,
    context: &RequestContext<RoleServer>,
) -> Result<ToolOutput, Failure> {
    let request: ControlRequest = parse_args(args)?;
    let asking = hub.request_control(client, path, request, WAIT);
    tokio::pin!(asking);
    let mut ticks = tokio::time::interval(PROGRESS);
    let mut waited = 0_u32;
    let start = loop {
        tokio::select! {
            start = &mut asking => break start?,
            _ = ticks.tick() => {
                progress(context, waited).await;
                waited += 1;
            }
            () = context.ct.cancelled() => {
                return Err(Failure::new(ErrorCode::Cancelled, "the caller cancelled before the owner answered"));
            }
        }
    };
    Ok(started(hub, path, start).await)
}

pub(crate) async fn started(hub: &Hub, path: &PathName, start: Start) -> ToolOutput {
    let (text, structured) = match start {
        Start::Pending(request) => (
            format!(
                "Pending: the owner has not answered yet. Call request_control with request_id {} to wait on.",
                request.0
            ),
            json!({ "status": "pending", "request_id": request.0 }),
        ),
        Start::Granted(id, view) => {
            let minutes = view.expires.since(view.started) / 60_000;
            let sites =
                hub.live().borrow().grants.iter().find(|grant| grant.view.label == view.label).map(|grant| {
                    match grant.rule {
                        consentry_gate::SiteRule::Any => "any".to_owned(),
                        consentry_gate::SiteRule::Ask => {
                            let named: Vec<String> =
                                grant.view.sites.iter().map(ToString::to_string).collect();
                            if named.is_empty() {
                                "asked about on first touch".to_owned()
                            } else {
                                named.join(", ")
                            }
                        }
                    }
                });
            let about = sites.filter(|_| *path == PathName::browser());
            let sites_line = about.as_ref().map(|sites| format!(" Sites: {sites}.")).unwrap_or_default();
            let grant_id = id.reveal();
            (
                format!(
                    "Allowed for {minutes} minutes. grant_id: {grant_id}\nPass it to every tool, keep it to yourself, \
                     and call release_control when you are done.{sites_line}"
                ),
                json!({
                    "status": "allowed", "grant_id": grant_id, "label": view.label, "minutes": minutes,
                    "decision": view.decision, "sites": about,
                }),
            )
        }
    };
    let structured = structured.as_object().cloned().unwrap_or_default();
    ToolOutput { content: vec![Content::Text(text)], structured, target: None, effect: None }
}

async fn progress(context: &RequestContext<RoleServer>, waited: u32) {
    let Some(token) = context.meta.get_progress_token() else { return };
    let progress = ProgressNotificationParam::new(token, f64::from(waited))
        .with_total(WAIT.as_secs_f64())
        .with_message("Waiting for the owner to answer the dialog on their screen");
    // A caller that no longer listens misses nothing else by it.
    let _ = context.peer.notify_progress(progress).await;
}
