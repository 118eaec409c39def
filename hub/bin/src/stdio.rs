//! Carries MCP messages between standard input and output and the running hub, whose listener is stateless: each
//! message is one request of its own.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use consentry_wire::PathName;
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, BodyStream, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Messages that may wait to be written.
const OUTBOX: usize = 64;

/// How every message reaches the hub.
struct Link {
    client: Client<HttpConnector, Full<Bytes>>,
    port: u16,
    path: PathName,
    key: String,
}

/// Relays until the input ends.
pub(crate) async fn relay(port: u16, path: &PathName, key: &str) -> anyhow::Result<()> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let link = Arc::new(Link { client, port, path: path.clone(), key: key.to_owned() });
    let (outbox, mut written) = mpsc::channel::<String>(OUTBOX);
    let mut running = JoinSet::new();
    // By the request's id, so that a cancelled one can be dropped: the hub takes that for the caller going away.
    let mut requests: HashMap<String, tokio::task::AbortHandle> = HashMap::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut output = tokio::io::stdout();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line.context("standard input cannot be read")? else { break };
                if line.trim().is_empty() {
                    continue;
                }
                let message: Value = match serde_json::from_str(&line) {
                    Ok(message) => message,
                    Err(error) => {
                        outbox.send(protocol_error(&Value::Null, -32700, &format!("that is no JSON: {error}")).to_string()).await?;
                        continue;
                    }
                };
                if message["method"] == "notifications/cancelled" {
                    if let Some(request) = requests.remove(&message["params"]["requestId"].to_string()) {
                        request.abort();
                    }
                    continue;
                }
                let id = message.get("id").filter(|_| message.get("method").is_some()).map(ToString::to_string);
                let (link, outbox) = (link.clone(), outbox.clone());
                let task = running.spawn(async move { link.carry(message, outbox).await });
                if let Some(id) = id {
                    requests.retain(|_, request| !request.is_finished());
                    requests.insert(id, task);
                }
            }
            Some(message) = written.recv() => write(&mut output, &message).await?,
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
    // What was asked before the input ended may still be answered, but nobody will wait for long.
    drop(outbox);
    let rest = async {
        while let Some(message) = written.recv().await {
            write(&mut output, &message).await?;
        }
        anyhow::Ok(())
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), rest).await;
    Ok(())
}

async fn write(output: &mut tokio::io::Stdout, message: &str) -> anyhow::Result<()> {
    output.write_all(message.as_bytes()).await?;
    output.write_all(b"\n").await?;
    output.flush().await.context("standard output is closed")
}

impl Link {
    /// One message there, and whatever comes back.
    async fn carry(&self, message: Value, outbox: mpsc::Sender<String>) {
        let id = message.get("id").cloned();
        if let Err(error) = self.exchange(&message, &outbox).await
            && let Some(id) = id
        {
            let _ = outbox.send(protocol_error(&id, -32603, &format!("{error:#}")).to_string()).await;
        }
    }

    async fn exchange(&self, message: &Value, outbox: &mpsc::Sender<String>) -> anyhow::Result<()> {
        let request = self.request(message)?;
        let response = self.client.request(request).await;
        let response = response.context("the hub is not running: start it with `consentry serve`")?;
        let status = response.status();
        if status == StatusCode::ACCEPTED {
            return Ok(());
        }
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        if kind.starts_with("text/event-stream") {
            return events(response, outbox).await;
        }
        let body = response.into_body().collect().await.context("the hub's answer broke off")?.to_bytes();
        let answer: Value =
            serde_json::from_slice(&body).with_context(|| format!("the hub answered {status}"))?;
        if answer.get("jsonrpc").is_some() {
            outbox.send(answer.to_string()).await?;
            return Ok(());
        }
        let words = |field: &str| answer["error"][field].as_str().unwrap_or_default().to_owned();
        anyhow::bail!("{} ({status}). Next: {}", words("message"), words("next"))
    }

    fn request(&self, message: &Value) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::post(format!("http://127.0.0.1:{}/{}/mcp", self.port, self.path))
            .header(HOST, format!("127.0.0.1:{}", self.port))
            .header(AUTHORIZATION, format!("Bearer {}", self.key))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        // Newer versions say in headers what a gateway has to know without reading the body.
        if let Some(version) = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str()
        {
            request = request.header("MCP-Protocol-Version", version);
            if let Some(method) = message["method"].as_str() {
                request = request.header("Mcp-Method", method);
            }
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("Mcp-Name", name);
            }
        }
        request.body(Full::new(message.to_string().into())).context("that message cannot be sent")
    }
}

/// Server-sent events: each `data` is one message.
async fn events(response: Response<Incoming>, outbox: &mpsc::Sender<String>) -> anyhow::Result<()> {
    let mut body = BodyStream::new(response.into_body());
    let mut buffer = Vec::new();
    let mut data = String::new();
    while let Some(frame) = body.next().await {
        let frame = frame.context("the hub's answer broke off")?;
        let Ok(bytes) = frame.into_data() else { continue };
        buffer.extend_from_slice(&bytes);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if let Some(part) = line.strip_prefix("data:") {
                data.push_str(part.strip_prefix(' ').unwrap_or(part));
            } else if line.is_empty() && !data.is_empty() {
                outbox.send(std::mem::take(&mut data)).await?;
            }
        }
    }
    Ok(())
}

fn protocol_error(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
