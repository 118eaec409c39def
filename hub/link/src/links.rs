//! The browsers that are linked right now.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consentry_wire::frame::{Call, Hello, Op, ToExtension, write};
use consentry_wire::{Epoch, ErrorCode, Failure, GrantLabel, ProfileId};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// Frames that may wait to be written to one browser.
pub(crate) const OUTBOX: usize = 256;

/// How a browser is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Native messaging, through the relay.
    Native,
    /// WebSocket.
    WebSocket,
}

/// A linked browser, for the status page and `list_tabs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkInfo {
    /// Its profile.
    pub profile: ProfileId,
    /// The profile's name, if the owner gave it one.
    pub name: String,
    /// "Chromium 156".
    pub browser: String,
    /// The extension's version.
    pub build: String,
    /// How it was installed.
    pub install: String,
    /// How it is linked.
    pub transport: Transport,
    /// Seconds since then.
    pub seconds: u64,
}

/// All links. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Links {
    map: Arc<Mutex<HashMap<ProfileId, Link>>>,
}

/// One link, as the rest of the hub holds it.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) hello: Arc<Hello>,
    pub(crate) transport: Transport,
    pub(crate) since: tokio::time::Instant,
    pub(crate) outbox: mpsc::Sender<Outgoing>,
    pub(crate) pending: Arc<Pending>,
    pub(crate) acknowledged: watch::Receiver<Epoch>,
    /// Counts the frames that came in: a link that answers a ping is alive.
    pub(crate) heard: watch::Receiver<u64>,
    pub(crate) end: CancellationToken,
}

/// Something to be written to a browser.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A frame that is always written.
    Frame(String),
    /// A call, written only if somebody still waits for it.
    Call { id: u64, frame: String },
}

/// Calls that wait for their reply.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    next: AtomicU64,
    calls: Mutex<HashMap<u64, Waiting>>,
    /// Calls that the browser works on and nobody waits for.
    given_up: Mutex<VecDeque<u64>>,
    more: Notify,
}

#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Result<Value, Failure>>,
    /// The browser has it.
    begun: bool,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply to a call. One that nobody waits for any more is nothing.
    pub(crate) fn settle(&self, id: u64, result: Result<Value, Failure>) {
        let waiting = self.lock().remove(&id);
        if let Some(waiting) = waiting {
            let _ = waiting.reply.send(result);
        }
    }

    /// The link is lost: whoever waits learns it at once, and whether the browser had the call already.
    pub(crate) fn lose_all(&self) {
        for (_, waiting) in self.lock().drain() {
            let failure = if waiting.begun { lost().maybe_done() } else { lost() };
            let _ = waiting.reply.send(Err(failure));
        }
    }

    /// A call is about to be written. False if nobody waits for it any more.
    pub(crate) fn begins(&self, id: u64) -> bool {
        self.lock().get_mut(&id).is_some_and(|waiting| {
            waiting.begun = true;
            true
        })
    }

    /// Nobody waits for a call any more: the browser is told if it has it. Says whether it had.
    fn give_up(&self, id: u64) -> bool {
        let begun = self.lock().remove(&id).is_some_and(|waiting| waiting.begun);
        if begun {
            self.given_up.lock().unwrap_or_else(PoisonError::into_inner).push_back(id);
            self.more.notify_one();
        }
        begun
    }

    /// Waits for the next call that was given up.
    pub(crate) async fn given_up(&self) -> u64 {
        loop {
            let next = self.given_up.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if let Some(id) = next {
                return id;
            }
            self.more.notified().await;
        }
    }
}

fn lost() -> Failure {
    Failure::new(ErrorCode::LinkLost, "the link to the browser broke")
}

impl Links {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<ProfileId, Link>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The linked browsers, by profile.
    pub fn list(&self) -> Vec<LinkInfo> {
        let info = |link: &Link| LinkInfo {
            profile: link.hello.profile.clone(),
            name: link.hello.name.clone(),
            browser: link.hello.browser.clone(),
            build: link.hello.build.clone(),
            install: link.hello.install.clone(),
            transport: link.transport,
            seconds: link.since.elapsed().as_secs(),
        };
        let mut list: Vec<LinkInfo> = self.lock().values().map(info).collect();
        list.sort_by(|a, b| a.profile.cmp(&b.profile));
        list
    }

    /// Sends a call and waits for its reply.
    ///
    /// # Errors
    /// What the browser answers, or that the link is lost, overfull or too slow.
    pub async fn call(
        &self,
        profile: &ProfileId,
        grant: &GrantLabel,
        op: Op,
        limit: Duration,
    ) -> Result<Value, Failure> {
        let link = self.lock().get(profile).cloned();
        let Some(link) = link else {
            let message = format!("no browser with the profile {profile} is linked");
            return Err(Failure::new(ErrorCode::ExtensionNotConnected, message));
        };
        let id = link.pending.next.fetch_add(1, Ordering::Relaxed) + 1;
        let deadline_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let frame = write(&ToExtension::Call(Call { id, grant: grant.clone(), deadline_ms, op }));
        let (reply, answer) = oneshot::channel();
        link.pending.lock().insert(id, Waiting { reply, begun: false });
        let mut guard = CancelGuard { link: &link, id: Some(id) };
        // A link that ended between the look-up and here has settled its calls already, this one perhaps not.
        if link.end.is_cancelled() {
            return Err(lost());
        }
        link.outbox.try_send(Outgoing::Call { id, frame }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Failure::new(ErrorCode::Busy, "the browser takes no more calls now")
            }
            mpsc::error::TrySendError::Closed(_) => lost(),
        })?;
        // The browser keeps the same deadline; the hub's own is for one that hangs.
        let answer = tokio::time::timeout(limit + Duration::from_millis(250), answer).await;
        guard.id = None;
        match answer {
            Ok(Ok(result)) => result,
            // Dropped without an answer: the link's own end says more, but it was not heard.
            Ok(Err(_)) => Err(lost().maybe_done()),
            Err(_) => {
                let begun = link.pending.give_up(id);
                let failure = Failure::new(ErrorCode::DeadlineExceeded, "the browser did not answer in time");
                Err(if begun { failure.maybe_done() } else { failure })
            }
        }
    }

    /// Waits until every browser has acknowledged an epoch. The caller bounds the wait.
    pub async fn settled(&self, epoch: Epoch) {
        let waits: Vec<_> =
            self.lock().values().map(|link| (link.acknowledged.clone(), link.end.clone())).collect();
        for (mut acknowledged, end) in waits {
            tokio::select! {
                _ = acknowledged.wait_for(|seen| *seen >= epoch) => {}
                // A browser that is gone has let go of everything.
                () = end.cancelled() => {}
            }
        }
    }

    /// Tells every browser that the unpacked copy on disk is newer.
    pub fn reload(&self) {
        for link in self.lock().values() {
            let _ = link.outbox.try_send(Outgoing::Frame(write(&ToExtension::Reload)));
        }
    }

    /// Ends every link.
    pub fn end_all(&self) {
        for link in self.lock().values() {
            link.end.cancel();
        }
    }
}

/// Whoever stops waiting tells the browser, so that it does not work for nobody.
struct CancelGuard<'a> {
    link: &'a Link,
    id: Option<u64>,
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.link.pending.give_up(id);
        }
    }
}
