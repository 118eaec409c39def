//! One path as an MCP server: one handler value, cheap to clone for each request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consentry_core::{CallRequest, Capability, Client, Hub, Tool as CoreTool, ToolOutput, parse_args};
use consentry_gate::PathRules;
use consentry_wire::{ErrorCode, Failure, PathName};
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};

use crate::control::{self, ReleaseArgs};
use crate::envelope;
use crate::result;

/// The longest that a call may take.
const CALL_LIMIT: Duration = Duration::from_secs(150);

/// The paths that the owner enabled. The listener looks here at each request, so that a path comes and goes with
/// the configuration.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    inner: Arc<std::sync::RwLock<BTreeMap<PathName, PathServer>>>,
}

impl Paths {
    /// Replaces all of them.
    pub fn set(&self, paths: BTreeMap<PathName, PathServer>) {
        *self.inner.write().unwrap_or_else(std::sync::PoisonError::into_inner) = paths;
    }

    pub(crate) fn get(&self, path: &PathName) -> Option<PathServer> {
        self.inner.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(path).cloned()
    }
}

/// One path.
#[derive(Clone)]
pub struct PathServer {
    hub: Hub,
    capability: Arc<dyn Capability>,
    tools: Arc<Vec<Tool>>,
    /// For stdio: there is no request that carries a key.
    fixed: Option<Client>,
    consent: bool,
}

impl std::fmt::Debug for PathServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PathServer({})", self.capability.path())
    }
}

impl PathServer {
    /// A path that is served over HTTP: each request carries its client.
    pub fn new(hub: Hub, capability: Arc<dyn Capability>, rules: &PathRules) -> Self {
        let mut tools = control::tools(capability.path(), rules).to_vec();
        tools.extend(capability.tools().iter().map(|tool| describe(tool.as_ref())));
        Self { hub, capability, tools: Arc::new(tools), fixed: None, consent: true }
    }

    /// The same path for one client that needs no key: the program that started this one.
    #[must_use]
    pub fn for_client(mut self, client: Client, consent: bool) -> Self {
        self.fixed = Some(client);
        self.consent = consent;
        self
    }

    /// The tools as clients see them.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn client(&self, context: &RequestContext<RoleServer>) -> Result<Client, Failure> {
        if let Some(client) = &self.fixed {
            return Ok(client.clone());
        }
        let parts = context.extensions.get::<http::request::Parts>();
        let client = parts.and_then(|parts| parts.extensions.get::<Client>()).cloned();
        client.ok_or_else(|| Failure::new(ErrorCode::Unauthorized, "the request carries no key"))
    }

    async fn call(
        &self,
        name: &str,
        mut args: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<ToolOutput, Failure> {
        let client = self.client(context)?;
        let path = self.capability.path();
        if name == control::REQUEST {
            if !self.consent {
                let request = parse_args(args)?;
                let (id, view) = self.hub.grant_without_consent(&client, path, request).await?;
                return Ok(control::started(&self.hub, path, consentry_core::Start::Granted(id, view)).await);
            }
            self.capability.ready().await?;
            return control::request(&self.hub, &client, path, args, context).await;
        }
        let grant_id = match args.remove("grant_id") {
            None => None,
            Some(Value::String(id)) => Some(id),
            Some(_) => {
                return Err(Failure::argument(
                    "grant_id",
                    "grant_id is not text",
                    "what request_control gave",
                ));
            }
        };
        if name == control::RELEASE {
            return self.release(&client, grant_id.as_deref(), args).await;
        }
        let tool = self.capability.tools().iter().find(|tool| tool.spec().name == name);
        let Some(tool) = tool else {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_ref()).collect();
            let unknown =
                Failure::new(ErrorCode::UnknownTool, format!("there is no tool {name:?} on the {path} path"));
            return Err(Failure { allowed: Some(names.join(", ")), ..unknown });
        };
        self.run(&client, grant_id.as_deref(), tool.as_ref(), args, context).await
    }

    async fn run(
        &self,
        client: &Client,
        grant_id: Option<&str>,
        tool: &dyn CoreTool,
        args: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<ToolOutput, Failure> {
        let call = CallRequest { client, path: self.capability.path(), grant_id, limit: CALL_LIMIT };
        let permit = tokio::select! {
            permit = self.hub.admit(call, tool, &args) => permit?,
            () = context.ct.cancelled() => return Err(Failure::new(ErrorCode::Cancelled, "the caller cancelled")),
        };
        let started = tokio::time::Instant::now();
        let outcome = tokio::select! {
            outcome = tool.call(&permit, args) => outcome,
            () = context.ct.cancelled() => {
                Err(Failure::new(ErrorCode::Cancelled, "the caller cancelled").maybe_done())
            }
        };
        let mut fields = Map::new();
        fields.insert("tool".into(), json!(tool.spec().name));
        fields.insert("ms".into(), json!(started.elapsed().as_millis() as u64));
        match &outcome {
            Ok(output) => {
                fields.insert("code".into(), json!("ok"));
                fields.insert("outcome".into(), json!(output.effect));
                fields.insert("target".into(), json!(output.target));
            }
            Err(failure) => {
                fields.insert("code".into(), json!(failure.code));
                fields.insert("outcome".into(), json!(failure.outcome));
            }
        }
        fields.retain(|_, value| !value.is_null());
        permit.finish(fields).await;
        outcome
    }

    async fn release(
        &self,
        client: &Client,
        grant_id: Option<&str>,
        args: Map<String, Value>,
    ) -> Result<ToolOutput, Failure> {
        let ReleaseArgs { close_tabs } = parse_args(args)?;
        let path = self.capability.path();
        let closed =
            if close_tabs { self.capability.close_opened(&self.hub, client, grant_id).await } else { Ok(()) };
        // A tab that stays open is no reason to keep the grant.
        let view = self.hub.release(client, path, grant_id).await?;
        let mut text = format!("Released after {} calls.", view.calls);
        if let Err(failure) = closed {
            text.push_str(&format!(" Not every tab was closed: {}.", failure.message));
        }
        let structured = json!({ "status": "released", "label": view.label, "calls": view.calls });
        let structured = structured.as_object().cloned().unwrap_or_default();
        Ok(ToolOutput {
            content: vec![consentry_core::Content::Text(text)],
            structured,
            target: None,
            effect: None,
        })
    }
}

/// A tool with the parameter that every tool takes.
fn describe(tool: &dyn CoreTool) -> Tool {
    let spec = tool.spec();
    let mut input = spec.input.clone();
    control::add_grant_id(&mut input);
    let marks = spec.annotations;
    let annotations = ToolAnnotations::with_title(spec.title)
        .read_only(marks.read_only)
        .destructive(marks.destructive)
        .idempotent(marks.idempotent)
        .open_world(marks.open_world);
    Tool::new(spec.name, spec.description, Arc::new(input)).with_annotations(annotations)
}

impl ServerHandler for PathServer {
    fn get_info(&self) -> ServerConfig {
        let path = self.capability.path();
        let name = format!("consentry-{path}");
        let first = if self.consent {
            format!(
                "{} Call request_control first; the owner of the machine answers a dialog on their screen.",
                self.capability.instructions()
            )
        } else {
            "Works in a scratch browser, in which there is nothing of the owner's. Call request_control first; it is granted without a dialog.".to_owned()
        };
        let instructions = format!("{first} {}", envelope::ABOUT);
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(name, env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        std::borrow::Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.as_ref().clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = request.arguments.unwrap_or_default();
        let result: CallToolResult = match self.call(&request.name, args, &context).await {
            Ok(output) => result::success(output),
            Err(failure) => result::failure(&failure),
        };
        Ok(result.into())
    }
}
