//! A small MCP client over Streamable HTTP, in both wire versions. It shows a test everything that came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{Answer, Http};

/// How long a call may take: longer than the hub lets any take.
const DEADLINE: Duration = Duration::from_secs(170);

/// Which protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// 2025-11-25, with `initialize`.
    #[default]
    November2025,
    /// 2026-07-28, where each request says everything.
    July2026,
}

impl Wire {
    /// Both.
    pub const ALL: [Wire; 2] = [Wire::November2025, Wire::July2026];

    /// As it is written.
    pub fn version(self) -> &'static str {
        match self {
            Wire::November2025 => "2025-11-25",
            Wire::July2026 => "2026-07-28",
        }
    }
}

/// A client with one key of one path. Clones share connections and ids.
#[derive(Debug, Clone)]
pub struct McpClient {
    http: Http,
    url: String,
    key: String,
    wire: Wire,
    next: Arc<AtomicU64>,
}

/// What a tool answered.
#[derive(Debug, Clone)]
pub struct Called {
    /// All text blocks, one a line.
    pub text: String,
    /// The structured result; of a picture, the one beside it.
    pub structured: Value,
    /// Whether it is an error.
    pub is_error: bool,
    /// Pictures: kind and bytes.
    pub images: Vec<(String, Vec<u8>)>,
    /// As it came.
    pub raw: Value,
}

impl Called {
    fn read(raw: Value) -> anyhow::Result<Self> {
        let blocks = raw["content"].as_array().with_context(|| format!("a result without content: {raw}"))?;
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let mut images = Vec::new();
        for block in blocks.iter().filter(|block| block["type"] == "image") {
            let data = STANDARD.decode(block["data"].as_str().unwrap_or_default()).context("a picture")?;
            images.push((block["mimeType"].as_str().unwrap_or_default().to_owned(), data));
        }
        let structured = match raw.get("structuredContent") {
            Some(structured) => structured.clone(),
            None => raw["_meta"]["com.consentry/structured"].clone(),
        };
        Ok(Self { text: texts.join("\n"), structured, is_error: raw["isError"] == true, images, raw })
    }

    /// This result if it is one.
    ///
    /// # Errors
    /// When it is an error; with its text.
    pub fn ok(self) -> anyhow::Result<Self> {
        if self.is_error {
            bail!("{}", self.text);
        }
        Ok(self)
    }

    /// The error's code; empty if it is none.
    pub fn code(&self) -> &str {
        if self.is_error { self.structured["code"].as_str().unwrap_or_default() } else { "" }
    }

    /// A field of the structured result as text; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.structured[name].as_str().unwrap_or_default()
    }
}

impl McpClient {
    /// For an address such as [`crate::hub::ScratchHub::mcp_url`] gives.
    pub fn new(url: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            http: Http::default(),
            url: url.into(),
            key: key.into(),
            wire: Wire::default(),
            next: Arc::new(AtomicU64::new(1)),
        }
    }

    /// The same in another protocol.
    #[must_use]
    pub fn speaking(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// The same with another key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Introduces itself. The hub keeps no sessions, so that calls work without it.
    ///
    /// # Errors
    /// When the hub refuses.
    pub async fn initialize(&self) -> anyhow::Result<Value> {
        match self.wire {
            Wire::November2025 => {
                let about = json!({
                    "protocolVersion": self.wire.version(), "capabilities": {},
                    "clientInfo": { "name": "test", "version": "1" },
                });
                let answer = self.rpc("initialize", about).await?;
                let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
                let told = self.raw(&[], &done).await?;
                if told.status != 202 {
                    bail!("initialized was answered with {}: {}", told.status, told.text());
                }
                Ok(answer)
            }
            Wire::July2026 => self.rpc("server/discover", json!({})).await,
        }
    }

    /// The tools.
    ///
    /// # Errors
    /// When the hub refuses.
    pub async fn tools(&self) -> anyhow::Result<Vec<Value>> {
        let list = self.rpc("tools/list", json!({})).await?;
        Ok(list["tools"].as_array().context("a list of tools")?.clone())
    }

    /// Calls a tool. An error of the tool is a result.
    ///
    /// # Errors
    /// When the hub refuses the request itself, or does not answer.
    pub async fn call(&self, tool: &str, arguments: Value) -> anyhow::Result<Called> {
        Called::read(self.rpc("tools/call", json!({ "name": tool, "arguments": arguments })).await?)
    }

    /// Calls a tool and hands each progress notification over as it comes.
    ///
    /// # Errors
    /// When the hub refuses the request itself, or does not answer.
    pub async fn call_with_progress(
        &self,
        tool: &str,
        arguments: Value,
        progress: impl FnMut(Value),
    ) -> anyhow::Result<Called> {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
        Called::read(self.ask("tools/call", params, progress).await?)
    }

    /// One request and its result.
    ///
    /// # Errors
    /// When it is answered with an error, or not at all.
    pub async fn rpc(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.ask(method, params, |_| ()).await
    }

    async fn ask(&self, method: &str, params: Value, mut told: impl FnMut(Value)) -> anyhow::Result<Value> {
        let (id, body) = self.request(method, params);
        let headers = self.headers(&body);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let work = async {
            let response = self.http.send(Method::POST, &self.url, &headers, &body.to_string()).await?;
            let status = response.status();
            let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
            let streams = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
            let mut body = response.into_body();
            let mut read = Vec::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame.context("the answer broke off")?.into_data() else { continue };
                read.extend_from_slice(&data);
                while let Some(event) = streams.then(|| first_event(&mut read)).flatten() {
                    let message: Value = serde_json::from_str(&event).with_context(|| event.clone())?;
                    if message["id"] == id {
                        return Ok(message);
                    }
                    told(message);
                }
            }
            let text = String::from_utf8_lossy(&read).into_owned();
            if streams {
                bail!("the stream ended without an answer: {text}");
            }
            serde_json::from_str(&text).with_context(|| format!("{status}: {text}"))
        };
        let mut answer =
            timeout(DEADLINE, work).await.with_context(|| format!("{method} is not answered"))??;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => bail!("{method} was refused: {answer}"),
        }
    }

    /// Posts a message as it is, with the usual headers unless these replace them; an empty value leaves one out.
    ///
    /// # Errors
    /// When nothing answers.
    pub async fn raw(&self, headers: &[(&str, &str)], message: &Value) -> anyhow::Result<Answer> {
        let usual = self.headers(message);
        let mut all: Vec<(&str, &str)> =
            headers.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
        let named = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        all.extend(
            usual.iter().filter(|(name, _)| !named(name)).map(|(name, value)| (*name, value.as_str())),
        );
        self.http.post(&self.url, &all, &message.to_string()).await
    }

    /// A request as it would be sent.
    pub fn request(&self, method: &str, mut params: Value) -> (Value, Value) {
        let id = json!(self.next.fetch_add(1, Ordering::Relaxed));
        if self.wire == Wire::July2026 {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = self.wire.version().into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        (id.clone(), json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    fn headers(&self, message: &Value) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.key)),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("mcp-protocol-version", self.wire.version().to_owned()),
        ];
        if self.wire == Wire::July2026 {
            headers.push(("mcp-method", message["method"].as_str().unwrap_or_default().to_owned()));
            if let Some(name) = message["params"]["name"].as_str() {
                headers.push(("mcp-name", name.to_owned()));
            }
        }
        headers
    }
}

/// Takes the first whole event from what was read, and returns its data.
fn first_event(read: &mut Vec<u8>) -> Option<String> {
    loop {
        let end = read.windows(2).position(|two| two == b"\n\n")?;
        let event = Bytes::from(read.drain(..end + 2).collect::<Vec<u8>>());
        let event = String::from_utf8_lossy(&event).into_owned();
        let data: Vec<&str> =
            event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect();
        // Comments and retry hints have none.
        if !data.concat().is_empty() {
            return Some(data.join("\n"));
        }
    }
}
