//! A small HTTP client over loopback. Everything that it sends is what the test says: no cookies, no redirects.

use std::time::Duration;

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

/// How long an answer may take: longer than any call of the hub.
const DEADLINE: Duration = Duration::from_secs(170);

/// The client. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Http(Client<HttpConnector, Full<Bytes>>);

impl Default for Http {
    fn default() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// A header, if it is there and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("{}: no JSON: {}", self.status, self.text()))
    }
}

impl Http {
    /// Gets an address.
    ///
    /// # Errors
    /// When nothing answers.
    pub async fn get(&self, url: &str, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
        self.whole(Method::GET, url, headers, "").await
    }

    /// Posts JSON to an address.
    ///
    /// # Errors
    /// When nothing answers.
    pub async fn post(&self, url: &str, headers: &[(&str, &str)], body: &str) -> anyhow::Result<Answer> {
        self.whole(Method::POST, url, headers, body).await
    }

    async fn whole(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<Answer> {
        let work = async {
            let response = self.send(method, url, headers, body).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.context("the answer broke off")?.to_bytes();
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
        };
        timeout(DEADLINE, work).await.with_context(|| format!("{url} does not answer"))?
    }

    /// Sends a request; what comes back is read as it comes.
    ///
    /// # Errors
    /// When nothing answers.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder().method(method.clone()).uri(url);
        if method == Method::POST
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned())))?;
        self.0.request(request).await.with_context(|| format!("asking {url}"))
    }
}
