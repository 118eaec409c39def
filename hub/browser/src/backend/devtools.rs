//! A browser over its own DevTools port instead of over the extension: one connection to the browser, one flat
//! session for each tab that is held.
//!
//! Invariants, the same as the extension's:
//! - A command that is not on the allowlist, or not for a document that the grant's sites cover, is never sent; its
//!   answer is dropped when the document changed meanwhile.
//! - What is never driven is never attached, opened or listed beyond its host; a tab that gets there is let go of.
//! - A tab is attached for its first holder and let go of with the last; a grant that ended holds nothing.
//! - What happens is told to [`Tabs`] in the order in which it came, before any answer that follows: one reader.
//!
//! It must never talk to anything but this machine's loopback, nor show tabs of another profile or of a private window.

mod attach;
mod connection;
mod endpoint;
mod failure;
mod ops;
mod targets;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use consentry_core::{Live, Permit};
use consentry_wire::cdp::{self, Kind};
use consentry_wire::forbidden::HubPorts;
use consentry_wire::frame::{DetachReason, Event, Op};
use consentry_wire::{Epoch, ErrorCode, Failure, ProfileId, TabId, proof};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, watch};

use self::connection::Waiting;
use self::endpoint::{Endpoint, NoConnection};
use self::targets::Targets;
use crate::seam::{Browser, BrowserInfo};
use crate::tabs::Tabs;
use consentry_wire::held::HeldTab;

/// How often a browser is looked for that this program has started, and how often the owner's.
const LOOK_LAUNCHED: Duration = Duration::from_millis(20);
const LOOK_RUNNING: Duration = Duration::from_secs(2);
/// How long a browser that this program has started may take to let us in, and how long the owner's, which asks them.
const PATIENCE_LAUNCHED: Duration = Duration::from_secs(20);
const PATIENCE_RUNNING: Duration = Duration::from_secs(60);
/// How long a browser that let us in may take to say what it is.
const GREETING: Duration = Duration::from_secs(20);

/// Which browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DevToolsSource {
    /// One that this program starts with this user data folder. It counts as there from the beginning, since it is on
    /// its way; calls wait for it.
    Launched(PathBuf),
    /// The first that runs with one of these user data folders and listens: the owner's, with the toggle on
    /// chrome://inspect switched on. Looked for again and again. Each start of it is asked once, because it asks its
    /// owner each time.
    Running(Vec<PathBuf>),
}

/// A browser over DevTools.
#[derive(Clone)]
pub struct DevTools {
    shared: Arc<Shared>,
}

/// Whether the browser can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is being started.
    Awaited,
    Linked,
    Gone,
}

struct Shared {
    source: DevToolsSource,
    tabs: Tabs,
    ports: HubPorts,
    live: watch::Receiver<Live>,
    state: Mutex<State>,
    /// There is something to send.
    wake: Notify,
    /// Something that somebody may wait for happened: a commit, a tab that was let go of or closed, a lost link.
    moved: watch::Sender<u64>,
    standing: watch::Sender<Standing>,
    /// The last epoch whose ended grants hold nothing any more.
    settled: watch::Sender<Epoch>,
}

struct State {
    info: BrowserInfo,
    /// Whether there is a connection.
    up: bool,
    next: u64,
    outbox: VecDeque<String>,
    pending: HashMap<u64, Waiting>,
    targets: Targets,
    held: HashMap<u32, Held>,
    /// The sessions that are listened to.
    sessions: HashMap<String, Place>,
}

/// A held tab and what reaches it.
#[derive(Default)]
struct Held {
    guard: HeldTab,
    /// `None` as long as the browser has not given it.
    session: Option<String>,
    /// What happened before the tab's frames were told; told together with them.
    backlog: Option<Vec<Event>>,
}

/// What a session reaches.
#[derive(Debug, Clone, Copy)]
struct Place {
    tab: u32,
    child: bool,
}

/// More than this before a tab's frames are known is no page that can be driven.
const MAX_BACKLOG: usize = 4096;

impl DevTools {
    /// The browser, and the future that keeps the connection to it, which has to be run. It ends when a browser that
    /// this program has started is gone, or when the hub is. `tabs` hears what happens; no page on `ports` is ever
    /// driven; `live` says which grants hold.
    pub fn start(
        source: DevToolsSource,
        tabs: Tabs,
        ports: HubPorts,
        live: watch::Receiver<Live>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (folder, standing, browser) = match &source {
            DevToolsSource::Launched(folder) => (folder.as_path(), Standing::Awaited, "Chromium"),
            DevToolsSource::Running(_) => (Path::new(""), Standing::Gone, ""),
        };
        let info =
            BrowserInfo { profile: profile_of(folder), name: String::new(), browser: browser.to_owned() };
        let state = State {
            info,
            up: false,
            next: 0,
            outbox: VecDeque::new(),
            pending: HashMap::new(),
            targets: Targets::default(),
            held: HashMap::new(),
            sessions: HashMap::new(),
        };
        let shared = Arc::new(Shared {
            source,
            tabs,
            ports,
            live,
            state: Mutex::new(state),
            wake: Notify::new(),
            moved: watch::channel(0).0,
            standing: watch::channel(standing).0,
            settled: watch::channel(Epoch::default()).0,
        });
        let running = Arc::clone(&shared);
        let run = async move {
            tokio::select! {
                () = running.follow() => {}
                () = running.keep_linked() => {}
            }
            running.lost(Standing::Gone);
        };
        (Self { shared }, run)
    }
}

impl std::fmt::Debug for DevTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DevTools({:?})", self.shared.source)
    }
}

#[async_trait]
impl Browser for DevTools {
    fn browsers(&self) -> Vec<BrowserInfo> {
        if *self.shared.standing.borrow() == Standing::Gone {
            return Vec::new();
        }
        vec![self.shared.lock().info.clone()]
    }

    async fn op(
        &self,
        permit: &Permit,
        profile: &ProfileId,
        op: Op,
        limit: Duration,
    ) -> Result<Value, Failure> {
        let acts = acts(&op);
        let work = async {
            self.shared.linked(profile).await?;
            self.shared.run(permit, op).await
        };
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let message = format!("the browser did not answer within {} ms", limit.as_millis());
            let failure = Failure::new(ErrorCode::DeadlineExceeded, message);
            Err(if acts { failure.maybe_done() } else { failure })
        })
    }

    async fn settled(&self, epoch: Epoch) {
        // The sender lives as long as this does.
        let _ = self.shared.settled.subscribe().wait_for(|settled| *settled >= epoch).await;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moved(&self) {
        self.moved.send_modify(|count| *count += 1);
    }

    /// Waits for a browser that is on its way.
    async fn linked(&self, profile: &ProfileId) -> Result<(), Failure> {
        let mut standing = self.standing.subscribe();
        let there = standing.wait_for(|standing| *standing != Standing::Awaited).await;
        let there = there.is_ok_and(|standing| *standing == Standing::Linked);
        if there && self.lock().info.profile == *profile {
            return Ok(());
        }
        let message = format!("no browser with the profile {profile} is connected");
        Err(Failure::new(ErrorCode::ExtensionNotConnected, message))
    }

    /// Finds the browser, connects, and again.
    async fn keep_linked(&self) {
        let mut asked: Vec<Endpoint> = Vec::new();
        loop {
            let (endpoint, patience, again) = match &self.source {
                DevToolsSource::Launched(folder) => {
                    (look(std::slice::from_ref(folder), LOOK_LAUNCHED, &[]).await, PATIENCE_LAUNCHED, false)
                }
                DevToolsSource::Running(folders) => {
                    (look(folders, LOOK_RUNNING, &asked).await, PATIENCE_RUNNING, true)
                }
            };
            match endpoint.connect(patience).await {
                Ok(socket) => {
                    self.lock().info.profile = profile_of(&endpoint.folder);
                    let talk = self.talk(socket);
                    let greeted = async {
                        match tokio::time::timeout(GREETING, self.greet()).await {
                            Ok(Ok(())) => std::future::pending().await,
                            Ok(Err(error)) => error,
                            Err(_) => "it does not say what it is".to_owned(),
                        }
                    };
                    tokio::select! {
                        // What carries the greeting has to begin first.
                        biased;
                        ended = talk => tracing::info!(?ended, "the browser's DevTools connection ended"),
                        error = greeted => tracing::warn!(error, "the browser cannot be driven"),
                    }
                    self.lost(Standing::Gone);
                }
                Err(NoConnection::Nobody(port)) if again => {
                    tracing::debug!(port, "nobody listens there");
                    tokio::time::sleep(LOOK_RUNNING).await;
                    continue;
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%error, cause, folder = %endpoint.folder.display(), "no DevTools connection");
                }
            }
            if !again {
                return;
            }
            asked.retain(|asked| asked.folder != endpoint.folder);
            asked.push(endpoint);
        }
    }

    /// Learns which browser this is and which tabs there are; it can be driven from then on.
    async fn greet(&self) -> Result<(), String> {
        let ask = async |method: &str, params: Value| {
            self.call(None, method, &params).await.map_err(|error| format!("{method}: {error:?}"))
        };
        let version = ask("Browser.getVersion", json!({})).await?;
        let contexts = ask("Target.getBrowserContexts", json!({})).await?;
        // It names the profile in use now: kept, so that tabs of another one never come in.
        let context = contexts["defaultBrowserContextId"].as_str();
        let context = context.ok_or("it does not tell its profiles apart: version 145 or newer is needed")?;
        self.lock().targets.show_context(context);
        ask("Target.setDiscoverTargets", json!({ "discover": true })).await?;
        let product = version["product"].as_str().unwrap_or_default();
        let mut parts = product.split(['/', '.']);
        let (brand, major) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        self.lock().info.browser = format!("{brand} {major}").trim().to_owned();
        self.standing.send_replace(Standing::Linked);
        Ok(())
    }

    /// The connection is gone: nothing is attached, and whoever waits learns it.
    fn lost(&self, standing: Standing) {
        let mut state = self.lock();
        state.up = false;
        state.outbox.clear();
        state.pending.clear();
        state.held.clear();
        state.sessions.clear();
        state.targets.clear();
        self.standing.send_replace(standing);
        self.tabs.unlinked(&state.info.profile);
        drop(state);
        self.moved();
    }

    /// Lets go of what ended grants held, until the hub is gone.
    async fn follow(&self) {
        let mut live = self.live.clone();
        loop {
            let now = live.borrow_and_update().clone();
            self.keep_live(&now);
            let settle = async {
                self.all_detached().await;
                self.settled.send_replace(now.epoch);
                std::future::pending::<()>().await;
            };
            let changed = tokio::select! {
                () = settle => Ok(()),
                changed = live.changed() => changed,
            };
            if changed.is_err() {
                return self.keep_live(&Live::default());
            }
        }
    }

    fn keep_live(&self, live: &Live) {
        let lives = |label: &_| !live.disabled && live.grants.iter().any(|grant| grant.view.label == *label);
        let mut state = self.lock();
        let unheld = state.held.iter_mut().filter_map(|(tab, held)| {
            held.guard.holders.retain(lives);
            held.guard.holders.is_empty().then_some(*tab)
        });
        for tab in unheld.collect::<Vec<_>>() {
            self.let_go(&mut state, tab, DetachReason::Released);
        }
    }

    /// Waits until the browser has confirmed every detachment.
    async fn all_detached(&self) {
        let mut moved = self.moved.subscribe();
        loop {
            let waits = self.lock().pending.values().any(|waiting| matches!(waiting, Waiting::Detached));
            if !waits || moved.changed().await.is_err() {
                return;
            }
        }
    }

    /// A tab is attached no longer: all that was known of it is forgotten.
    fn let_go(&self, state: &mut State, tab: u32, reason: DetachReason) {
        let Some(held) = state.held.remove(&tab) else { return };
        state.sessions.retain(|_, place| place.tab != tab);
        if let Some(session) = held.session {
            state.send(None, "Target.detachFromTarget", &json!({ "sessionId": session }), Waiting::Detached);
            self.wake.notify_one();
        }
        self.tabs.event(&state.info.profile, &Event::Detached { tab, reason });
        self.moved();
    }

    fn tell(&self, state: &mut State, tab: u32, event: Event) {
        let Some(held) = state.held.get_mut(&tab) else { return };
        match &mut held.backlog {
            // Whoever attaches has to hear why the page does not answer.
            Some(_) if is_trouble(&event) => self.tabs.event(&state.info.profile, &event),
            None => self.tabs.event(&state.info.profile, &event),
            Some(backlog) if backlog.len() < MAX_BACKLOG => backlog.push(event),
            Some(_) => self.let_go(state, tab, DetachReason::Browser),
        }
    }
}

impl State {
    fn tab_id(&self, number: u32) -> TabId {
        TabId { profile: self.info.profile.clone(), number }
    }
}

/// Waits until one of these folders' browsers runs and says where it listens, and was not `asked` already.
async fn look(folders: &[PathBuf], pause: Duration, asked: &[Endpoint]) -> Endpoint {
    let mut looks = tokio::time::interval(pause);
    loop {
        looks.tick().await;
        let mut found = folders.iter().filter_map(|folder| Endpoint::read(folder));
        if let Some(endpoint) = found.find(|endpoint| !asked.contains(endpoint)) {
            return endpoint;
        }
    }
}

/// A profile's id comes from its folder, so that the sites that its owner allowed hold the next time too.
fn profile_of(folder: &Path) -> ProfileId {
    let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    #[expect(clippy::expect_used, reason = "two letters and ten digits of hex are an id")]
    format!("dt{}", proof::hex(&digest[..5])).parse().expect("a profile's id")
}

/// Whether an event says that the page answers nothing, or does again.
fn is_trouble(event: &Event) -> bool {
    matches!(event, Event::Cdp { method, .. } if matches!(
        method.as_str(),
        "Page.javascriptDialogOpening"
            | "Page.javascriptDialogClosed"
            | "Inspector.targetCrashed"
            | "Inspector.targetReloadedAfterCrash"
    ))
}

/// Whether something changes a page or the browser, for the outcome of what ran out of time.
fn acts(op: &Op) -> bool {
    match op {
        Op::OpenTab { .. } | Op::Navigate { .. } | Op::Activate { .. } | Op::Close { .. } => true,
        Op::ListTabs | Op::Attach { .. } | Op::Detach { .. } => false,
        Op::Cdp { method, params, .. } => {
            cdp::check(method, params).is_ok_and(|command| command.kind == Kind::Acts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection makes the owner's browser ask its owner: who was asked and said no is left in peace.
    #[tokio::test(start_paused = true)]
    async fn each_start_of_the_owners_browser_is_asked_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("DevToolsActivePort");
        let folders = [PathBuf::from("/nowhere"), folder.path().to_owned()];
        let lock = format!("desk-{}", std::process::id());
        std::os::unix::fs::symlink(lock, folder.path().join("SingletonLock")).unwrap();
        std::fs::write(&file, "9222\n/devtools/browser/a\n").unwrap();
        let first = look(&folders, LOOK_RUNNING, &[]).await;
        let asked = [first];
        let minute = Duration::from_secs(60);
        assert!(tokio::time::timeout(minute, look(&folders, LOOK_RUNNING, &asked)).await.is_err());
        std::fs::write(&file, "9222\n/devtools/browser/b\n").unwrap();
        assert_ne!(look(&folders, LOOK_RUNNING, &asked).await, asked[0]);
    }

    #[test]
    fn a_profile_is_the_same_the_next_time() {
        let id = |folder: &str| profile_of(Path::new(folder));
        assert_eq!(id("/home/me/.config/google-chrome"), id("/home/me/.config/google-chrome"));
        assert_ne!(id("/home/me/.config/google-chrome"), id("/home/me/.config/chromium"));
    }
}
