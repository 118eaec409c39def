//! A small DevTools client for tests: flat sessions, every call with a deadline, events in order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::connect_async_with_config;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long a call or an awaited event may take.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// An event of a target.
#[derive(Debug, Clone)]
pub struct CdpEvent {
    /// The session that it came on; none for the browser itself.
    pub session: Option<String>,
    /// Such as `Page.loadEventFired`.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

type Answers = Arc<Mutex<HashMap<u64, oneshot::Sender<anyhow::Result<Value>>>>>;

/// A connection to a browser's DevTools endpoint.
#[derive(Debug)]
pub struct Cdp {
    requests: mpsc::Sender<Message>,
    answers: Answers,
    events: broadcast::Sender<CdpEvent>,
    next: AtomicU64,
    _tasks: JoinSet<()>,
}

impl Cdp {
    /// Connects to the address that [`crate::chromium::Chromium::endpoint`] gives.
    ///
    /// # Errors
    /// If nothing answers there.
    pub async fn connect(endpoint: &str) -> anyhow::Result<Self> {
        let limits = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let connecting = connect_async_with_config(endpoint, Some(limits), true);
        let (socket, _) = timeout(DEADLINE, connecting).await.context("connecting to DevTools")??;
        let (mut sink, mut stream) = socket.split();
        let (requests, mut outgoing) = mpsc::channel::<Message>(64);
        let (events, _) = broadcast::channel(4096);
        let answers = Answers::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(message) = outgoing.recv().await {
                if sink.send(message).await.is_err() {
                    break;
                }
            }
        });
        let (waiting, emitted) = (Arc::clone(&answers), events.clone());
        tasks.spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                if let Message::Text(text) = message {
                    deliver(&text, &waiting, &emitted);
                }
            }
            // Dropping the senders tells every caller that the browser is gone.
            waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
        Ok(Self { requests, answers, events, next: AtomicU64::new(1), _tasks: tasks })
    }

    /// Calls a method on a session, or on the browser itself.
    ///
    /// # Errors
    /// If the browser refuses it, is gone, or does not answer in time.
    pub async fn call(&self, session: Option<&str>, method: &str, params: Value) -> anyhow::Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut request = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            request["sessionId"] = session.into();
        }
        let (sender, answer) = oneshot::channel();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        self.requests
            .send(Message::text(request.to_string()))
            .await
            .map_err(|_| anyhow!("the browser is gone"))?;
        let answered = timeout(DEADLINE, answer).await;
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        answered
            .with_context(|| format!("{method} was not answered in time"))?
            .with_context(|| format!("the browser ended during {method}"))?
            .with_context(|| method.to_owned())
    }

    /// Events from now on. Subscribe before the call that causes them.
    pub fn events(&self) -> Events {
        Events(self.events.subscribe())
    }

    /// Attaches to the first page and returns its session.
    ///
    /// # Errors
    /// If there is no page, or it cannot be attached to.
    pub async fn attach_first_page(&self) -> anyhow::Result<String> {
        let targets = self.call(None, "Target.getTargets", json!({})).await?;
        let pages = targets["targetInfos"].as_array().context("a list of targets")?;
        let page = pages.iter().find(|target| target["type"] == "page").context("a page")?;
        self.attach(page["targetId"].as_str().context("a target id")?).await
    }

    /// Opens a page of its own and returns its session.
    ///
    /// # Errors
    /// If the browser refuses.
    pub async fn open_page(&self, url: &str) -> anyhow::Result<String> {
        let target = self.call(None, "Target.createTarget", json!({ "url": url })).await?;
        self.attach(target["targetId"].as_str().context("a target id")?).await
    }

    async fn attach(&self, target: &str) -> anyhow::Result<String> {
        let attached =
            self.call(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true })).await?;
        Ok(attached["sessionId"].as_str().context("a session")?.to_owned())
    }
}

/// A stream of events.
#[derive(Debug)]
pub struct Events(broadcast::Receiver<CdpEvent>);

impl Events {
    /// The next event that `wanted` accepts; others are dropped.
    ///
    /// # Errors
    /// If none comes in time, or so many came that some were lost.
    pub async fn next(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&CdpEvent) -> bool,
    ) -> anyhow::Result<CdpEvent> {
        let found = timeout(DEADLINE, async {
            loop {
                match self.0.recv().await {
                    Ok(event) if wanted(&event) => return Ok(event),
                    Ok(_) => {}
                    Err(error) => bail!("{error}"),
                }
            }
        });
        found.await.with_context(|| format!("no {what} in time"))?
    }
}

fn deliver(text: &str, answers: &Answers, events: &broadcast::Sender<CdpEvent>) {
    let Ok(mut message) = serde_json::from_str::<Value>(text) else { return };
    if let Some(id) = message["id"].as_u64() {
        let waiting = answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let answer = match message.get("error") {
            Some(error) => Err(anyhow!("{error}")),
            None => Ok(message["result"].take()),
        };
        if let Some(waiting) = waiting {
            // The caller may have given up.
            let _ = waiting.send(answer);
        }
    } else if let Some(method) = message["method"].as_str() {
        let (method, session) = (method.to_owned(), message["sessionId"].as_str().map(str::to_owned));
        // Nobody may be listening.
        let _ = events.send(CdpEvent { session, method, params: message["params"].take() });
    }
}
