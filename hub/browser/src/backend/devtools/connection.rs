//! The connection: commands out, answers and events in, in order.

use std::borrow::Cow;

use consentry_wire::GrantLabel;
use consentry_wire::cdp;
use consentry_wire::frame::{DetachReason, Event};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::failure::CallError;
use super::targets::TargetFacts;
use super::{Place, Shared, State};
use consentry_wire::held::{Scope, Verdict};

/// Commands that may wait for their answer.
const MAX_PENDING: usize = 256;

pub(super) type Answer = Result<Value, CallError>;

/// Who waits for an answer.
pub(super) enum Waiting {
    Caller(oneshot::Sender<Answer>),
    Tree(Tree),
    /// Of a session that was let go of.
    Detached,
    /// Nobody: part of setting up a frame's session.
    Nobody,
}

/// A frame tree that was asked for: it is taken where it stands among the events.
pub(super) struct Tree {
    pub(super) tab: u32,
    /// The session that it comes from.
    pub(super) session: String,
    pub(super) child: bool,
    /// The tab's commits when it was asked for.
    pub(super) commits: u64,
    /// How often it may still be asked for again because a commit came in between.
    pub(super) tries: u32,
    /// The grant that attaches the tab, and who waits.
    pub(super) attaching: Option<(GrantLabel, oneshot::Sender<Result<(), CallError>>)>,
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    id: u64,
    method: &'a str,
    params: &'a P,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
}

#[derive(Deserialize)]
struct Incoming<'a> {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "sessionId")]
    session: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

/// A command's answer that is on its way; dropping it forgets the command.
pub(super) struct Reply<'a> {
    shared: &'a Shared,
    id: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Reply<'_> {
    pub(super) async fn get(mut self) -> Answer {
        (&mut self.answer).await.unwrap_or(Err(CallError::Lost))
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        self.shared.lock().pending.remove(&self.id);
    }
}

impl State {
    /// Puts a command behind those that wait to be sent.
    pub(super) fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &impl Serialize,
        waiting: Waiting,
    ) -> u64 {
        self.next += 1;
        let id = self.next;
        // Plain data with text keys always serialises.
        let text = serde_json::to_string(&Outgoing { id, method, params, session }).unwrap_or_default();
        self.outbox.push_back(text);
        self.pending.insert(id, waiting);
        id
    }
}

impl Shared {
    /// Sends a command; its answer can be waited for.
    pub(super) fn begin(
        &self,
        state: &mut State,
        session: Option<&str>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Reply<'_>, CallError> {
        if !state.up {
            return Err(CallError::Lost);
        }
        if state.pending.len() >= MAX_PENDING {
            return Err(CallError::Full);
        }
        let (sender, answer) = oneshot::channel();
        let id = state.send(session, method, params, Waiting::Caller(sender));
        self.wake.notify_one();
        Ok(Reply { shared: self, id, answer })
    }

    /// One command and its answer.
    pub(super) async fn call(&self, session: Option<&str>, method: &str, params: &impl Serialize) -> Answer {
        let reply = self.begin(&mut self.lock(), session, method, params)?;
        reply.get().await
    }

    /// Carries both directions until the connection ends.
    pub(super) async fn talk(&self, socket: WebSocketStream<TcpStream>) -> Result<(), Error> {
        self.lock().up = true;
        let (mut sink, mut stream) = socket.split();
        let write = async {
            loop {
                let batch = std::mem::take(&mut self.lock().outbox);
                if batch.is_empty() {
                    self.wake.notified().await;
                    continue;
                }
                for text in batch {
                    sink.feed(Message::text(text)).await?;
                }
                sink.flush().await?;
            }
        };
        let read = async {
            while let Some(message) = stream.next().await {
                match message? {
                    Message::Text(text) => self.heard(&text),
                    Message::Close(_) => break,
                    _ => {}
                }
            }
            Ok(())
        };
        tokio::select! {
            ended = write => ended,
            ended = read => ended,
        }
    }

    fn heard(&self, text: &str) {
        let Ok(message) = serde_json::from_str::<Incoming<'_>>(text) else { return };
        let read = |raw: Option<&RawValue>| {
            raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null)
        };
        if let Some(id) = message.id {
            let answer = match message.error {
                Some(refusal) => Err(CallError::Browser(refusal.message)),
                None => Ok(read(message.result)),
            };
            return self.answered(&mut self.lock(), id, answer);
        }
        let Some(method) = message.method else { return };
        match message.session {
            None => self.browser_event(&mut self.lock(), &method, read(message.params)),
            // Most of what a busy page tells is nothing that anybody asked for, and is dropped unread.
            Some(session) if cdp::passes(&method) => {
                self.tab_event(&mut self.lock(), &session, &method, read(message.params));
            }
            Some(_) => {}
        }
    }

    fn answered(&self, state: &mut State, id: u64, answer: Answer) {
        match state.pending.remove(&id) {
            // Whoever waited may have given up.
            Some(Waiting::Caller(caller)) => drop(caller.send(answer)),
            Some(Waiting::Tree(tree)) => self.tree_came(state, tree, answer),
            Some(Waiting::Detached) => self.moved(),
            Some(Waiting::Nobody) | None => {}
        }
    }

    /// Something about the browser's tabs.
    fn browser_event(&self, state: &mut State, method: &str, mut params: Value) {
        let text = |params: &Value, name: &str| params[name].as_str().unwrap_or_default().to_owned();
        match method {
            "Target.targetCreated" | "Target.targetInfoChanged" => {
                if let Ok(facts) = serde_json::from_value::<TargetFacts>(params["targetInfo"].take()) {
                    state.targets.number(&facts);
                }
            }
            "Target.targetDestroyed" => {
                let Some(tab) = state.targets.gone(&text(&params, "targetId")) else { return };
                if let Some(held) = state.held.get_mut(&tab) {
                    held.session = None;
                }
                self.let_go(state, tab, DetachReason::Closed);
                let closed = Event::Detached { tab, reason: DetachReason::Closed };
                self.tabs.event(&state.info.profile, &closed);
                self.moved();
            }
            "Target.attachedToTarget" => {
                let session = text(&params, "sessionId");
                let tab = state.targets.known(&text(&params["targetInfo"], "targetId"));
                let held = tab.and_then(|tab| Some((tab, state.held.get_mut(&tab)?)));
                match held {
                    Some((tab, held)) if held.session.is_none() => {
                        held.session = Some(session.clone());
                        state.sessions.insert(session, Place { tab, child: false });
                    }
                    // Whoever wanted it has gone meanwhile.
                    _ => {
                        let params = json!({ "sessionId": session });
                        state.send(None, "Target.detachFromTarget", &params, Waiting::Detached);
                        self.wake.notify_one();
                    }
                }
            }
            "Target.detachedFromTarget" => {
                let place = state.sessions.get(&text(&params, "sessionId")).copied();
                if let Some(Place { tab, child: false }) = place {
                    if let Some(held) = state.held.get_mut(&tab) {
                        held.session = None;
                    }
                    self.let_go(state, tab, DetachReason::Browser);
                }
            }
            _ => {}
        }
    }

    /// Something about a held tab.
    fn tab_event(&self, state: &mut State, session: &str, method: &str, mut params: Value) {
        let Some(Place { tab, child }) = state.sessions.get(session).copied() else { return };
        let Some(held) = state.held.get_mut(&tab) else { return };
        let child = child.then_some(session);
        let commits = held.guard.commits;
        let verdict = held.guard.event(child, method, &params, self.ports);
        if held.guard.commits != commits {
            self.moved();
        }
        match verdict {
            Verdict::Drop => return,
            Verdict::LetGo => return self.let_go(state, tab, DetachReason::Forbidden),
            Verdict::Pass => {}
            Verdict::LookAgain => {
                let tree = Tree {
                    tab,
                    session: session.to_owned(),
                    child: false,
                    commits,
                    tries: super::attach::TREE_TRIES,
                    attaching: None,
                };
                self.ask_tree(state, tree);
            }
            Verdict::SetUp(new) => {
                let commits = held.guard.commits;
                state.sessions.insert(new.clone(), Place { tab, child: true });
                for method in ["Page.enable", "Runtime.enable"] {
                    state.send(Some(&new), method, &json!({}), Waiting::Nobody);
                }
                let tree = Tree {
                    tab,
                    session: new,
                    child: true,
                    commits,
                    tries: super::attach::TREE_TRIES,
                    attaching: None,
                };
                self.ask_tree(state, tree);
            }
        }
        if method == "Target.detachedFromTarget" {
            let sessions = &mut state.sessions;
            if let Some(held) = state.held.get(&tab) {
                sessions.retain(|session, place| {
                    place.tab != tab || !place.child || held.guard.has_child(session)
                });
            }
        }
        if method == "Page.javascriptDialogOpening" && !self.top_is_covered(state, tab) {
            for text in ["message", "defaultPrompt"] {
                params[text] = Value::from("");
            }
        }
        let event = Event::Cdp { tab, session: child.map(str::to_owned), method: method.to_owned(), params };
        self.tell(state, tab, event);
    }

    /// Whether somebody who holds a tab may see what its own document says.
    fn top_is_covered(&self, state: &State, tab: u32) -> bool {
        let Some(held) = state.held.get(&tab) else { return false };
        let live = self.live.borrow();
        let holders = live.grants.iter().filter(|grant| held.guard.holders.contains(&grant.view.label));
        holders.into_iter().any(|grant| {
            let sites = grant.scope(&state.info.profile);
            let covers = |origin: &_| sites.covers(origin);
            held.guard.top_is_covered(&Scope { label: &grant.view.label, ports: self.ports, covers: &covers })
        })
    }

    pub(super) fn ask_tree(&self, state: &mut State, tree: Tree) {
        let session = tree.session.clone();
        state.send(Some(&session), "Page.getFrameTree", &json!({}), Waiting::Tree(tree));
        self.wake.notify_one();
    }

    fn tree_came(&self, state: &mut State, mut tree: Tree, answer: Answer) {
        let done = |tree: Tree, result| {
            if let Some((_, waits)) = tree.attaching {
                // Whoever waited may have given up.
                let _ = waits.send(result);
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return done(tree, Err(error)),
        };
        // The tab may have been let go of meanwhile, and attached anew.
        let same = state.sessions.contains_key(&tree.session);
        let Some(held) = state.held.get_mut(&tree.tab).filter(|_| same) else {
            return done(tree, Err(CallError::Browser("Inspected target navigated or closed".into())));
        };
        if held.guard.commits != tree.commits {
            // A commit came in between: the tree may be of before.
            if tree.tries == 0 {
                return done(tree, Err(CallError::Restless));
            }
            tree.tries -= 1;
            tree.commits = held.guard.commits;
            return self.ask_tree(state, tree);
        }
        let child = tree.child.then_some(tree.session.as_str());
        if child.is_none() && tree.attaching.is_none() {
            // A document that no event told of.
            let frame = json!({ "frame": answer["frameTree"]["frame"] });
            return self.tab_event(state, &tree.session, "Page.frameNavigated", frame);
        }
        if held.guard.seed(child, &answer, self.ports) == Verdict::LetGo {
            self.let_go(state, tree.tab, DetachReason::Forbidden);
            return done(tree, Ok(()));
        }
        match &tree.attaching {
            None => {
                // Only after the tree that they belong to come the frames of yet other processes.
                let auto = super::attach::auto_attach();
                state.send(Some(&tree.session), "Target.setAutoAttach", &auto, Waiting::Nobody);
                self.wake.notify_one();
            }
            // From here on nobody but the tab's events changes what is known of it, so the grant is told to hold it at
            // this very place among them.
            Some((label, _)) if held.guard.holders.contains(label) => {
                let backlog = held.backlog.take().unwrap_or_default();
                let id = state.tab_id(tree.tab);
                self.tabs.attached(&id, label, &Value::Null);
                for event in &backlog {
                    self.tabs.event(&id.profile, event);
                }
                self.tabs.attached(&id, label, &answer);
            }
            Some(_) => {}
        }
        done(tree, Ok(()));
    }
}
