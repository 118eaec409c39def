//! What can be asked for, one function each.

use std::time::Duration;

use consentry_core::Permit;
use consentry_wire::document::DocumentId;
use consentry_wire::forbidden;
use consentry_wire::frame::{NavigateTo, Op, TabInfo};
use consentry_wire::{ErrorCode, Failure};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use super::Shared;
use super::attach::unknown;
use super::failure::{self, CallError};
use super::targets::TargetFacts;
use consentry_wire::held::{Request, Ticket, Touch};

/// The browser answers a navigation when the page begins to come, or cannot: what fails fails early, and the rest is
/// told by events.
const NAVIGATION_ANSWER: Duration = Duration::from_secs(1);
/// How long a page may take to close; one that asks its user stays open.
const CLOSING: Duration = Duration::from_secs(2);

impl Shared {
    pub(super) async fn run(&self, permit: &Permit, op: Op) -> Result<Value, Failure> {
        match op {
            Op::ListTabs => self.list_tabs(permit).await,
            // Tab groups are the extension's alone.
            Op::OpenTab { url, group: _ } => self.open_tab(permit, &url).await,
            Op::Navigate { tab, to } => self.navigate(permit, tab, to).await,
            Op::Activate { tab } => self.activate(permit, tab).await,
            Op::Close { tab } => self.close(permit, tab).await,
            Op::Attach { tab } => self.attach(permit, tab).await,
            Op::Detach { tab } => {
                self.release(permit.label(), tab);
                Ok(json!({}))
            }
            Op::Cdp { tab, session, method, params, document } => {
                self.command(permit, tab, session.as_deref(), &method, &params, document.as_ref()).await
            }
        }
    }

    async fn list_tabs(&self, permit: &Permit) -> Result<Value, Failure> {
        permit.check()?;
        let mut answer = self.call(None, "Target.getTargets", &json!({})).await.map_err(told)?;
        let all: Vec<TargetFacts> = serde_json::from_value(answer["targetInfos"].take())
            .map_err(|error| crate::session::odd(&error.to_string()))?;
        let mut tabs: Vec<(u32, TargetFacts)> = {
            let mut state = self.lock();
            all.into_iter().filter_map(|facts| Some((state.targets.number(&facts)?, facts))).collect()
        };
        tabs.sort_by_key(|(number, _)| *number);
        let windows = join_all(tabs.iter().map(|(_, facts)| self.window(&facts.target_id))).await;
        let list: Vec<TabInfo> = tabs
            .into_iter()
            .zip(windows)
            .map(|((number, facts), window)| self.show(permit, number, &facts, window))
            .collect();
        Ok(json!({ "tabs": list }))
    }

    fn show(&self, permit: &Permit, tab: u32, facts: &TargetFacts, window: u32) -> TabInfo {
        let (url, title) = self.scoped(permit, |scope| scope.show(&facts.url, &facts.title));
        let state = self.lock();
        let loading = self.tabs.with(&state.tab_id(tab), |tab| tab.loading).unwrap_or_default();
        let active = state.targets.is_active(window, tab);
        TabInfo { tab, url, title, active, window, loading, discarded: false, frozen: false }
    }

    /// The window of a tab; 0 when it has none.
    async fn window(&self, target: &str) -> u32 {
        let answer = self.call(None, "Browser.getWindowForTarget", &json!({ "targetId": target })).await;
        answer.ok().and_then(|answer| answer["windowId"].as_u64()?.try_into().ok()).unwrap_or_default()
    }

    async fn open_tab(&self, permit: &Permit, url: &str) -> Result<Value, Failure> {
        self.scoped(permit, |scope| scope.may_open(url))?;
        permit.check()?;
        // Named, because the browser would take the profile that was used last.
        let context = self.lock().targets.context().to_owned();
        let params = json!({ "url": url, "background": true, "browserContextId": context });
        let opened = self.call(None, "Target.createTarget", &params).await.map_err(told)?;
        let target = opened["targetId"].as_str().unwrap_or_default();
        let info = self.call(None, "Target.getTargetInfo", &json!({ "targetId": target })).await;
        let facts: TargetFacts = serde_json::from_value(info.map_err(told)?["targetInfo"].take())
            .map_err(|error| crate::session::odd(&error.to_string()))?;
        let number = self.lock().targets.number(&facts);
        let number = number.ok_or_else(|| {
            Failure::new(ErrorCode::BrowserError, "the browser opened something that is no tab").maybe_done()
        })?;
        let window = self.window(target).await;
        Ok(json!(self.show(permit, number, &facts, window)))
    }

    async fn navigate(&self, permit: &Permit, tab: u32, to: NavigateTo) -> Result<Value, Failure> {
        let touch = if to == NavigateTo::Reload { Touch::Use } else { Touch::Move };
        let session = self.touchable_session(permit, tab, touch)?;
        let session = Some(session.as_str());
        let (method, params) = match to {
            NavigateTo::Url(url) => {
                self.scoped(permit, |scope| scope.may_open(&url))?;
                ("Page.navigate", json!({ "url": url }))
            }
            NavigateTo::Reload => ("Page.reload", json!({})),
            NavigateTo::Back => self.history(session, -1).await?,
            NavigateTo::Forward => self.history(session, 1).await?,
        };
        permit.check()?;
        let reply = self.begin(&mut self.lock(), session, method, &params).map_err(told)?;
        match tokio::time::timeout(NAVIGATION_ANSWER, reply.get()).await {
            Err(_) => Ok(json!({})),
            Ok(Err(CallError::Browser(text))) if text.contains("invalid URL") => {
                Err(Failure::new(ErrorCode::NavigationFailed, "the browser does not take that address"))
            }
            Ok(Err(error)) => Err(told(error).maybe_done()),
            Ok(Ok(answer)) => match answer["errorText"].as_str() {
                // What becomes a download, or was overtaken by another navigation.
                None | Some("" | "net::ERR_ABORTED") => Ok(json!({})),
                Some(error) => {
                    let failure = Failure::new(ErrorCode::NavigationFailed, "the page could not be loaded");
                    Err(failure.said(error).maybe_done())
                }
            },
        }
    }

    /// The command that goes so many steps in the tab's history.
    async fn history(&self, session: Option<&str>, step: i64) -> Result<(&'static str, Value), Failure> {
        let history = self.call(session, "Page.getNavigationHistory", &json!({})).await.map_err(told)?;
        let at = history["currentIndex"].as_i64().unwrap_or_default() + step;
        let entry = usize::try_from(at).ok().and_then(|at| history["entries"].get(at));
        let Some(entry) = entry else {
            let failure = Failure::new(ErrorCode::NavigationFailed, "the tab's history ends here");
            return Err(failure.next("navigate to an address"));
        };
        forbidden::check(entry["url"].as_str().unwrap_or_default(), self.ports)
            .map_err(|why| Failure::new(ErrorCode::ForbiddenPage, why.reason()))?;
        Ok(("Page.navigateToHistoryEntry", json!({ "entryId": entry["id"] })))
    }

    /// The session of a tab that the grant holds and may do this with.
    fn touchable_session(&self, permit: &Permit, tab: u32, touch: Touch) -> Result<String, Failure> {
        let (session, address) = {
            let state = self.lock();
            let held = state.held.get(&tab).filter(|held| held.guard.holders.contains(permit.label()));
            let held = held.ok_or_else(|| unknown(tab))?;
            let session = held.session.clone().ok_or_else(|| unknown(tab))?;
            (session, held.guard.address().unwrap_or_default().to_owned())
        };
        // A page that could not be loaded is the browser's own, and the way out of it is to go elsewhere.
        if !(touch == Touch::Move && address.starts_with("chrome-error:")) {
            self.scoped(permit, |scope| scope.may_touch(&address, touch))?;
        }
        Ok(session)
    }

    async fn activate(&self, permit: &Permit, tab: u32) -> Result<Value, Failure> {
        let facts = self.touchable(permit, tab, Touch::Move).await?;
        let target = json!({ "targetId": facts.target_id });
        self.call(None, "Target.activateTarget", &target).await.map_err(told)?;
        let window = self.window(&facts.target_id).await;
        self.lock().targets.bring_to_front(window, tab);
        Ok(json!({}))
    }

    async fn close(&self, permit: &Permit, tab: u32) -> Result<Value, Failure> {
        let id = self.lock().tab_id(tab);
        let own = self.tabs.opened_by(&id).as_ref() == Some(permit.label());
        let touch = if own { Touch::CloseOwn } else { Touch::Move };
        let facts = self.touchable(permit, tab, touch).await?;
        let mut moved = self.moved.subscribe();
        let target = json!({ "targetId": facts.target_id });
        self.call(None, "Target.closeTarget", &target).await.map_err(told)?;
        let closed =
            async { while self.lock().targets.target(tab).is_some() && moved.changed().await.is_ok() {} };
        // One that is still there then is listed, and so is told.
        let _ = tokio::time::timeout(CLOSING, closed).await;
        Ok(json!({}))
    }

    /// The tab as it is now, if the grant may do that with it.
    async fn touchable(&self, permit: &Permit, tab: u32, touch: Touch) -> Result<TargetFacts, Failure> {
        let facts = self.facts(tab).await?;
        self.scoped(permit, |scope| scope.may_touch(&facts.url, touch))?;
        permit.check()?;
        Ok(facts)
    }

    /// Sends one command of the allowlist, if it passes, and gives its result, if it still does.
    async fn command(
        &self,
        permit: &Permit,
        tab: u32,
        session: Option<&str>,
        method: &str,
        params: &Map<String, Value>,
        document: Option<&DocumentId>,
    ) -> Result<Value, Failure> {
        permit.check()?;
        let request = Request { session, method, params, document };
        let mut moved = self.moved.subscribe();
        let (reply, ticket, reached) = self.scoped(permit, |scope| {
            // Checked and put on its way as one.
            let mut state = self.lock();
            let held = state.held.get(&tab).ok_or_else(|| unknown(tab))?;
            let ticket = held.guard.may_send(scope, &request)?;
            let reached = session.map(str::to_owned).or_else(|| held.session.clone());
            let reached = reached.ok_or_else(|| unknown(tab))?;
            let reply = self.begin(&mut state, Some(&reached), method, params);
            let reply = reply.map_err(|error| failure::of_command(method, ticket.kind, &error))?;
            Ok::<_, Failure>((reply, ticket, reached))
        })?;
        let overtaken = async {
            // A page that goes away takes some of its answers with it.
            while moved.changed().await.is_ok() {
                if let Err(failure) = self.may_answer(permit, tab, &ticket) {
                    return failure;
                }
            }
            ticket.let_go()
        };
        let answer = tokio::select! {
            biased;
            answer = reply.get() => answer,
            failure = overtaken => return Err(failure),
        };
        let failed = |error: CallError| failure::of_command(method, ticket.kind, &error);
        if answer == Err(CallError::Lost) {
            return answer.map_err(failed);
        }
        self.may_answer(permit, tab, &ticket)?;
        let answer = answer.map_err(failed)?;
        if method == "Page.captureScreenshot" {
            self.still_there(permit, tab, &reached, &ticket).await?;
        }
        Ok(answer)
    }

    fn may_answer(&self, permit: &Permit, tab: u32, ticket: &Ticket) -> Result<(), Failure> {
        permit.check().map_err(|failure| ticket.late(failure))?;
        let state = self.lock();
        state
            .held
            .get(&tab)
            .map_or_else(|| Err(ticket.let_go()), |held| held.guard.may_answer(permit.label(), ticket))
    }

    /// A picture comes from the browser, and the news that a page went elsewhere from the page: asks the page, whose
    /// answer comes after its news, so that no picture of another document passes.
    async fn still_there(
        &self,
        permit: &Permit,
        tab: u32,
        session: &str,
        ticket: &Ticket,
    ) -> Result<(), Failure> {
        let tree = self.call(Some(session), "Page.getFrameTree", &json!({})).await;
        let tree = tree.map_err(|error| failure::of_command("Page.getFrameTree", ticket.kind, &error))?;
        self.may_answer(permit, tab, ticket)?;
        let loader = tree["frameTree"]["frame"]["loaderId"].as_str();
        let same =
            self.lock().held.get(&tab).and_then(|held| held.guard.top()).map(|top| top.loader.as_str())
                == loader;
        if same { Ok(()) } else { Err(ticket.overtaken()) }
    }
}

fn told(error: CallError) -> Failure {
    failure::of_tab(&error)
}
