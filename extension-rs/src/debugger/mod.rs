//! `chrome.debugger`: attached for the first grant that holds a tab, let go of with the last.

pub(crate) mod failure;
mod signal;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::pin;
use std::rc::Rc;

use consentry_wire::cdp::{self, Kind};
use consentry_wire::document::DocumentId;
use consentry_wire::frame::{DetachReason, Event};
use consentry_wire::held::{Request, Touch, Verdict};
use consentry_wire::{ErrorCode, Failure, GrantLabel};
use futures_util::future::{Either, join, join_all, select, try_join_all};
use futures_util::lock::Mutex;
use js_sys::Promise;
use js_sys::futures::{future_to_promise, spawn_local};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wasm_bindgen::JsValue;

use self::signal::Signal;
use crate::chrome::time::{moment, sleep};
use crate::chrome::{self, ChromeError, debugger, tabs};
use crate::guard::{Guard, TabFacts};

const PROTOCOL: &str = "1.3";

/// The longest answer to a command, in bytes of JSON: a large picture, and more text than any tool passes on.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// How long messages that came while the worker was busy are given to be taken.
const QUEUED_MS: f64 = 100.0;

/// How often a frame tree is asked for again because a commit came in between.
const TREE_TRIES: u32 = 20;

/// The attachments of this browser.
pub(crate) struct Debugger {
    guard: Rc<RefCell<Guard>>,
    lanes: RefCell<HashMap<u32, Rc<Lane>>>,
    /// A frame committed another document, or a tab was let go of.
    moved: Signal,
    emit: Box<dyn Fn(Event)>,
}

/// What is done with one tab is done one thing after the other.
#[derive(Default)]
struct Lane {
    turn: Mutex<()>,
    attached: Cell<bool>,
}

/// Who or what an event comes from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Source {
    pub(crate) tab_id: Option<u32>,
    pub(crate) session_id: Option<String>,
}

impl Debugger {
    pub(crate) fn new(guard: Rc<RefCell<Guard>>, emit: impl Fn(Event) + 'static) -> Rc<Self> {
        Rc::new(Self { guard, lanes: RefCell::default(), moved: Signal::default(), emit: Box::new(emit) })
    }

    /// Lets go of what a former worker still held: attachments outlive it, grants do not.
    pub(crate) async fn let_go_of_leftovers(&self) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Target {
            tab_id: Option<u32>,
            attached: bool,
        }
        let targets: Vec<Target> = chrome::fetch(debugger::get_targets()).await.unwrap_or_default();
        let attached =
            targets.into_iter().filter(|target| target.attached).filter_map(|target| target.tab_id);
        let calls: Vec<_> = attached.map(|tab| debugger::detach(&target(tab, None))).collect();
        // Another debugger's tabs refuse, as they should.
        join_all(calls.into_iter().map(chrome::settle)).await;
    }

    /// Attaches a tab for a grant; gives its frame tree as JSON. It goes on when nobody waits for it any
    /// more, so that a tab is never left half set up.
    pub(crate) async fn attach(
        self: &Rc<Self>,
        grant: GrantLabel,
        tab: u32,
        deadline_ms: f64,
    ) -> Result<String, Failure> {
        let this = Rc::clone(self);
        let work = future_to_promise(async move {
            let lane = this.lane(tab);
            let _turn = lane.turn.lock().await;
            let timeout = sleep(deadline_ms);
            let attaching = pin!(this.attach_in_turn(&lane, &grant, tab));
            let result = match select(attaching, timeout).await {
                Either::Left((result, _)) => result,
                Either::Right(..) => {
                    let message = format!("tab {tab} did not answer while it was being attached");
                    Err(Failure::new(ErrorCode::DeadlineExceeded, message))
                }
            };
            if result.is_err() {
                this.guard.borrow_mut().release(&grant, tab);
            }
            if !this.guard.borrow().is_held(tab) {
                this.detach(&lane, tab).await;
            }
            match result {
                Ok(tree) => Ok(JsValue::from_str(&tree)),
                Err(failure) => Err(chrome::to_js(&failure)),
            }
        });
        match work.await {
            Ok(tree) => Ok(tree.as_string().unwrap_or_default()),
            Err(error) => Err(chrome::from_js(&error)
                .unwrap_or_else(|error| Failure::new(ErrorCode::Internal, error.to_string()))),
        }
    }

    async fn attach_in_turn(
        self: &Rc<Self>,
        lane: &Lane,
        grant: &GrantLabel,
        tab: u32,
    ) -> Result<String, Failure> {
        let facts = self.awake(grant, tab).await?;
        self.guard.borrow().may_touch(grant, &facts, Touch::Use, moment())?;
        self.guard.borrow_mut().hold(grant, tab);
        if lane.attached.get() {
            let tree = send(tab, None, "Page.getFrameTree", &json!({}));
            let tree = chrome::settle(tree).await.map_err(|error| failure::of_attach(&error))?;
            return Ok(chrome::to_json(&tree));
        }
        self.guard.borrow_mut().attached(tab);
        if let Err(error) = chrome::settle(debugger::attach(&target(tab, None), PROTOCOL)).await {
            // An attachment outlives the worker that made it: it may be our own.
            let ours = error.0.contains("Another debugger")
                && chrome::settle(send(tab, None, "Page.enable", &json!({}))).await.is_ok();
            if !ours {
                return Err(failure::of_attach(&error));
            }
        }
        lane.attached.set(true);
        if !self.guard.borrow().holds(grant, tab) {
            return Err(Failure::new(ErrorCode::GrantEnded, format!("grant {grant} ended meanwhile")));
        }
        let tree = self.set_up(tab, None).await.map_err(|error| failure::of_attach(&error))?;
        // Attaching may have been overtaken by the grant's end, or by a page that is never driven.
        if self.guard.borrow().holds(grant, tab) {
            Ok(tree)
        } else {
            Err(Failure::new(ErrorCode::ForbiddenPage, "the tab went where nobody may drive it"))
        }
    }

    /// The tab as it is, loaded first if the browser had discarded it: a discarded tab takes commands and
    /// never answers them.
    async fn awake(&self, grant: &GrantLabel, tab: u32) -> Result<TabFacts, Failure> {
        let get = || chrome::fetch::<TabFacts>(tabs::get(tab));
        let facts = get().await.map_err(|error| failure::of_tab(&error))?;
        if !facts.discarded {
            return Ok(facts);
        }
        self.guard.borrow().may_touch(grant, &facts, Touch::Use, moment())?;
        chrome::settle(tabs::reload(tab)).await.map_err(|error| failure::of_tab(&error))?;
        loop {
            sleep(100.0).await;
            let facts = get().await.map_err(|error| failure::of_tab(&error))?;
            if !facts.discarded && facts.status == "complete" {
                return Ok(facts);
            }
        }
    }

    /// Makes a session tell of its documents and frames. What can be is sent at once, so that nothing waits
    /// for the answer before it; only the frames of other processes come after the tree that they belong to.
    async fn set_up(&self, tab: u32, session: Option<&str>) -> Result<String, ChromeError> {
        let mut calls = vec![
            send(tab, session, "Page.enable", &json!({})),
            send(tab, session, "Runtime.enable", &json!({})),
            // Tells of a renderer that crashed, which answers nothing any more.
            send(tab, session, "Inspector.enable", &json!({})),
        ];
        if session.is_none() {
            // Without it keys and the first click are dropped in a background tab.
            let on = json!({"enabled": true});
            calls.push(send(tab, session, "Emulation.setFocusEmulationEnabled", &on));
        }
        let ready = try_join_all(calls.into_iter().map(chrome::settle));
        let (ready, tree) = join(ready, self.seed(tab, session)).await;
        ready?;
        let auto = json!({"autoAttach": true, "flatten": true, "waitForDebuggerOnStart": false});
        chrome::settle(send(tab, session, "Target.setAutoAttach", &auto)).await?;
        tree
    }

    async fn seed(&self, tab: u32, session: Option<&str>) -> Result<String, ChromeError> {
        for _ in 0..TREE_TRIES {
            let commits = self.guard.borrow().commits(tab);
            let call = send(tab, session, "Page.getFrameTree", &json!({}));
            let answer = chrome::to_json(&chrome::settle(call).await?);
            if self.guard.borrow().commits(tab) != commits {
                // A commit came in between: the tree may be of before.
                continue;
            }
            let value: Value = serde_json::from_str(&answer).unwrap_or_default();
            let verdict = self.guard.borrow_mut().seed(tab, session, &value);
            if verdict == Verdict::LetGo {
                self.forbid(tab);
            }
            return Ok(answer);
        }
        Err(ChromeError("the page does not come to rest".into()))
    }

    /// A grant lets go of a tab.
    pub(crate) async fn release(&self, grant: &GrantLabel, tab: u32) {
        if self.guard.borrow_mut().release(grant, tab) {
            self.let_go(tab).await;
        }
    }

    /// Lets go of every tab that nobody holds; done when none of them is attached.
    pub(crate) async fn let_go_of_unheld(&self) {
        let mut tabs: Vec<u32> = self.lanes.borrow().keys().copied().collect();
        tabs.retain(|tab| !self.guard.borrow().is_held(*tab));
        join_all(tabs.into_iter().map(|tab| self.let_go(tab))).await;
    }

    async fn let_go(&self, tab: u32) {
        let Some(lane) = self.lanes.borrow().get(&tab).map(Rc::clone) else { return };
        // Detaching makes whatever is being done on the tab fail at once, so it does not wait for its turn.
        if self.detach(&lane, tab).await {
            (self.emit)(Event::Detached { tab, reason: DetachReason::Released });
        }
        let _turn = lane.turn.lock().await;
        if !lane.attached.get() && !self.guard.borrow().is_held(tab) {
            self.lanes.borrow_mut().remove(&tab);
            self.guard.borrow_mut().gone(tab);
        }
    }

    async fn detach(&self, lane: &Lane, tab: u32) -> bool {
        let was = lane.attached.replace(false);
        if was {
            // A tab that is gone is let go of as well.
            let _ = chrome::settle(debugger::detach(&target(tab, None))).await;
        }
        was
    }

    /// The tab went where nobody may drive it.
    fn forbid(&self, tab: u32) {
        self.guard.borrow_mut().gone(tab);
        self.moved.fire();
        let lane = self.lanes.borrow().get(&tab).map(Rc::clone);
        if lane.is_some_and(|lane| lane.attached.replace(false)) {
            let call = debugger::detach(&target(tab, None));
            spawn_local(async move {
                let _ = chrome::settle(call).await;
            });
        }
        (self.emit)(Event::Detached { tab, reason: DetachReason::Forbidden });
    }

    /// Sends one command, if the guard lets it pass, and gives its result as JSON, if it still does.
    pub(crate) async fn command(
        &self,
        grant: &GrantLabel,
        tab: u32,
        session: Option<&str>,
        method: &str,
        params: &Map<String, Value>,
        document: Option<&DocumentId>,
    ) -> Result<String, Failure> {
        let request = Request { session, method, params, document };
        let ticket = self.guard.borrow().may_send(grant, tab, &request, moment())?;
        let answer = chrome::settle(send(tab, session, method, params));
        // A page that goes away takes some of its answers with it.
        let overtaken = self.moved.until(|| self.guard.borrow().may_answer(&ticket, moment()).err());
        let answer = match select(pin!(answer), pin!(overtaken)).await {
            Either::Left((answer, _)) => answer,
            Either::Right((failure, _)) => return Err(failure),
        };
        if self.guard.borrow().is_stale(moment()) {
            // Taking a large answer can keep the worker busy for longer than a state holds: those that wait for it
            // come first.
            sleep(QUEUED_MS).await;
        }
        self.guard.borrow().may_answer(&ticket, moment())?;
        match answer {
            Ok(result) => {
                let result = chrome::to_json(&result);
                if result.len() <= MAX_ANSWER {
                    return Ok(result);
                }
                let message = format!("the answer to {method} has {} MB", result.len() / 1_000_000);
                let failure = Failure::new(ErrorCode::TooLarge, message);
                Err(if ticket.kind() == Kind::Acts { failure.maybe_done() } else { failure })
            }
            Err(error) => Err(failure::of_command(method, ticket.kind(), &error)),
        }
    }

    /// One DevTools event came.
    pub(crate) fn event(self: &Rc<Self>, source: Source, method: String, params: &JsValue) {
        let Some(tab) = source.tab_id else { return };
        if !cdp::passes(&method) {
            return;
        }
        let session = source.session_id;
        let mut params: Value = serde_json::from_str(&chrome::to_json(params)).unwrap_or_default();
        let commits = self.guard.borrow().commits(tab);
        let verdict = self.guard.borrow_mut().event(tab, session.as_deref(), &method, &params);
        if self.guard.borrow().commits(tab) != commits {
            self.moved.fire();
        }
        match verdict {
            Verdict::Drop => return,
            Verdict::LetGo => return self.forbid(tab),
            Verdict::Pass => {}
            Verdict::LookAgain => {
                let this = Rc::clone(self);
                spawn_local(async move { this.look_again(tab).await });
            }
            Verdict::SetUp(child) => {
                let this = Rc::clone(self);
                spawn_local(async move {
                    // A frame that went away meanwhile needs no set-up.
                    let _ = this.set_up(tab, Some(&child)).await;
                });
            }
        }
        if method == "Page.javascriptDialogOpening" && !self.guard.borrow().top_is_covered(tab) {
            for text in ["message", "defaultPrompt"] {
                params[text] = Value::from("");
            }
        }
        (self.emit)(Event::Cdp { tab, session, method, params });
    }

    /// The tab's own document is one that no event told of.
    async fn look_again(self: &Rc<Self>, tab: u32) {
        let commits = self.guard.borrow().commits(tab);
        // A tab that is gone, or another document meanwhile, has an event of its own.
        let Ok(tree) = chrome::settle(send(tab, None, "Page.getFrameTree", &json!({}))).await else { return };
        if self.guard.borrow().commits(tab) != commits {
            return;
        }
        let tree: Value = serde_json::from_str(&chrome::to_json(&tree)).unwrap_or_default();
        let source = Source { tab_id: Some(tab), session_id: None };
        let params = chrome::to_js(&json!({ "frame": tree["frameTree"]["frame"] }));
        self.event(source, "Page.frameNavigated".to_owned(), &params);
        let verdict = self.guard.borrow_mut().seed(tab, None, &tree);
        if verdict == Verdict::LetGo && self.guard.borrow().is_held(tab) {
            self.forbid(tab);
        }
    }

    /// The browser ended an attachment. Says whether anybody held it.
    pub(crate) fn detached(&self, tab: u32, closed: bool) -> bool {
        if let Some(lane) = self.lanes.borrow_mut().remove(&tab) {
            lane.attached.set(false);
        }
        let held = self.guard.borrow_mut().gone(tab);
        self.moved.fire();
        if held {
            let reason = if closed { DetachReason::Closed } else { DetachReason::Browser };
            (self.emit)(Event::Detached { tab, reason });
        }
        held
    }

    fn lane(&self, tab: u32) -> Rc<Lane> {
        Rc::clone(self.lanes.borrow_mut().entry(tab).or_default())
    }
}

fn target(tab: u32, session: Option<&str>) -> JsValue {
    let target = match session {
        None => json!({ "tabId": tab }),
        Some(session) => json!({ "tabId": tab, "sessionId": session }),
    };
    chrome::to_js(&target)
}

fn send(
    tab: u32,
    session: Option<&str>,
    method: &str,
    params: &impl serde::Serialize,
) -> Result<Promise, JsValue> {
    debugger::send_command(&target(tab, session), method, &chrome::to_js(params))
}

/// Whether a command changes something, for the outcome of one that ran out of time.
pub(crate) fn acts(method: &str, params: &Map<String, Value>) -> bool {
    cdp::check(method, params).is_ok_and(|command| command.kind == Kind::Acts)
}
