//! HTTP by hand, so that a test may send what no client would.

use std::net::SocketAddr;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn kind(&self) -> &str {
        self.headers.get("content-type").map_or("", |value| value.to_str().unwrap())
    }

    /// The one message of an answer in JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {} {}", self.status, self.body))
    }

    /// The messages of either kind of answer.
    pub(crate) fn messages(&self) -> Vec<Value> {
        if self.kind().starts_with("text/event-stream") { events(&self.body) } else { vec![self.json()] }
    }
}

/// The data of server-sent events.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// One request on a connection of its own, to the end of the answer.
pub(crate) async fn exchange(address: SocketAddr, request: Request<Body>) -> Reply {
    let mut stream = send(address, request).await;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await.unwrap();
    read(&raw)
}

/// The request alone: the answer is the caller's business.
pub(crate) async fn send(address: SocketAddr, request: Request<Body>) -> TcpStream {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let mut head = format!("{} {} HTTP/1.1\r\n", parts.method, parts.uri).into_bytes();
    for (name, value) in &parts.headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()).as_bytes());
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&head).await.unwrap();
    stream.write_all(&body).await.unwrap();
    stream
}

fn read(raw: &[u8]) -> Reply {
    let text = std::str::from_utf8(raw).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let chunked = headers.get("transfer-encoding").is_some_and(|value| value == "chunked");
    let body = if chunked { unchunk(rest) } else { rest.to_owned() };
    Reply { status, headers, body }
}

fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap();
        if length == 0 {
            break;
        }
        body.push_str(&after[..length]);
        rest = after[length..].strip_prefix("\r\n").unwrap();
    }
    body
}

/// Adds to a request, header by header.
pub(crate) trait With {
    /// Puts a header in, in the place of one that is there.
    fn with(self, name: &'static str, value: &str) -> Self;
    fn without(self, name: &'static str) -> Self;
}

impl With for Request<Body> {
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        self
    }
    fn without(mut self, name: &'static str) -> Self {
        self.headers_mut().remove(name);
        self
    }
}

/// A request with the headers that every client of a path sends, but for the key.
pub(crate) fn post(path: &str, port: u16, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(Method::POST)
        .uri(format!("/{path}/mcp"))
        .header("host", format!("127.0.0.1:{port}"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(body.into())
        .unwrap()
}
