//! Working on one tab under one permit.

use std::time::Duration;

use consentry_core::Permit;
use consentry_wire::document::{DocumentId, World};
use consentry_wire::forbidden::{self, Forbidden, HubPorts};
use consentry_wire::frame::{NavigateTo, Op, TabInfo};
use consentry_wire::held::uncommitted;
use consentry_wire::site::Origin;
use consentry_wire::{ErrorCode, Failure, ProfileId, TabId};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::page::{Call, SCRIPT};
use crate::seam::{Browser, BrowserInfo};
use crate::tabs::{PageDialog, Tab, Tabs, Trouble};

/// How long one thing in a browser may take.
const OP_LIMIT: Duration = Duration::from_secs(20);

/// When attaching is tried again.
const ATTACH_AGAIN: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(400)];
/// How long a fresh tab's first page, and a fresh document's script context, are waited for.
const FRESH: Duration = Duration::from_secs(5);

/// The browsers under one permit.
#[derive(Clone, Copy)]
pub(crate) struct Hands<'a> {
    pub(crate) browser: &'a dyn Browser,
    pub(crate) tabs: &'a Tabs,
    pub(crate) permit: &'a Permit,
    /// No page on these is ever driven.
    pub(crate) ports: HubPorts,
}

/// One tab under one permit, attached and on an allowed site when it was made.
#[derive(Clone)]
pub(crate) struct PageSession<'a> {
    pub(crate) hands: Hands<'a>,
    pub(crate) tab: TabId,
}

impl<'a> Hands<'a> {
    pub(crate) async fn op(&self, profile: &ProfileId, op: Op) -> Result<Value, Failure> {
        let limit = self.permit.time_left(OP_LIMIT);
        self.permit.during(self.browser.op(self.permit, profile, op, limit)).await?
    }

    /// The browsers that are linked; with none, an error that says what to do.
    pub(crate) fn browsers(&self) -> Result<Vec<BrowserInfo>, Failure> {
        let browsers = self.browser.browsers();
        if browsers.is_empty() {
            return Err(Failure::new(ErrorCode::ExtensionNotConnected, "no browser is connected"));
        }
        Ok(browsers)
    }

    /// The browser that this grant works in: the one named, the one it used first, or the first there is.
    pub(crate) fn pick(&self, named: Option<&str>) -> Result<BrowserInfo, Failure> {
        let browsers = self.browsers()?;
        let label = self.permit.label();
        let picked = self.tabs.picked(label);
        let by_name = |name: &str| {
            browsers.iter().find(|b| b.profile.as_str() == name || (!b.name.is_empty() && b.name == name))
        };
        let found = match (named, picked) {
            (Some(name), _) => by_name(name).ok_or_else(|| {
                let known: Vec<String> = browsers.iter().map(|b| b.profile.to_string()).collect();
                Failure {
                    field: Some("browser".into()),
                    allowed: Some(known.join(", ")),
                    ..Failure::new(ErrorCode::UnknownBrowser, format!("no browser {name:?} is connected"))
                }
            })?,
            (None, Some(picked)) => browsers.iter().find(|b| b.profile == picked).unwrap_or(&browsers[0]),
            (None, None) => &browsers[0],
        };
        self.tabs.pick(label, &found.profile);
        Ok(found.clone())
    }

    pub(crate) async fn list(&self, profile: &ProfileId) -> Result<Vec<TabInfo>, Failure> {
        let mut answer = self.op(profile, Op::ListTabs).await?;
        serde_json::from_value(answer["tabs"].take()).map_err(|error| odd(&error.to_string()))
    }

    /// Gets hold of a tab: its site is allowed, by asking if need be, and it is attached.
    pub(crate) async fn tab(&self, tab: &TabId) -> Result<PageSession<'a>, Failure> {
        let linked = self.browsers()?.iter().any(|browser| browser.profile == tab.profile);
        if !linked {
            return Err(unknown_tab(tab));
        }
        self.tabs.pick(self.permit.label(), &tab.profile);
        let session = PageSession { hands: *self, tab: tab.clone() };
        if self.tabs.holds(tab, self.permit.label()) {
            session.allow_current().await?;
            return Ok(session);
        }
        let listed = self.list(&tab.profile).await?;
        let info = listed.into_iter().find(|info| info.tab == tab.number).ok_or_else(|| unknown_tab(tab))?;
        self.allow_address(&tab.profile, &info.url).await?;
        session.attach().await?;
        session.allow_current().await?;
        Ok(session)
    }

    /// Makes sure that an address may be touched.
    pub(crate) async fn allow_address(&self, profile: &ProfileId, address: &str) -> Result<(), Failure> {
        if address.is_empty() {
            return Ok(());
        }
        // Nobody is asked about a page that is never driven.
        forbidden::check(address, self.ports).map_err(never_driven)?;
        if address.starts_with("about:") {
            return Ok(());
        }
        match Origin::parse(address) {
            Some(origin) => self.permit.site(profile, &origin).await,
            None => Err(never_driven(Forbidden::Unreadable)),
        }
    }
}

impl PageSession<'_> {
    pub(crate) async fn attach(&self) -> Result<(), Failure> {
        let attach = || {
            self.hands.tabs.expect(&self.tab);
            self.unless_troubled(self.hands.op(&self.tab.profile, Op::Attach { tab: self.tab.number }))
        };
        let mut tree = attach().await;
        for pause in ATTACH_AGAIN {
            // A tab that was just made can lose its first attachment while its page gets a process. Attaching does
            // nothing that could be done twice.
            if !tree.as_ref().is_err_and(|failure| {
                matches!(failure.code, ErrorCode::BrowserError | ErrorCode::DocumentChanged)
            }) {
                break;
            }
            self.hands.permit.during(tokio::time::sleep(pause)).await?;
            tree = attach().await;
        }
        self.hands.tabs.attached(&self.tab, self.hands.permit.label(), &tree?);
        Ok(())
    }

    pub(crate) async fn navigate(&self, to: NavigateTo) -> Result<(), Failure> {
        let op = Op::Navigate { tab: self.tab.number, to };
        self.hands.op(&self.tab.profile, op).await.map(drop)
    }

    /// The site of the document that is there now is allowed, by asking if need be.
    pub(crate) async fn allow_current(&self) -> Result<(), Failure> {
        let main =
            |tab: &mut Tab| tab.documents.main().map(|frame| (frame.url.clone(), frame.origin.clone()));
        let mut there = self.look(main)?;
        if there.as_ref().is_none_or(|(url, _)| uncommitted(url)) {
            let committed = |tab: &mut Tab| main(tab).filter(|(url, _)| !uncommitted(url));
            there = Some(self.wait(FRESH, committed).await?.ok_or_else(nothing_there)?);
        }
        match there {
            Some((url, Some(origin))) => {
                forbidden::check(&url, self.hands.ports).map_err(never_driven)?;
                self.hands.permit.site(&self.tab.profile, &origin).await
            }
            Some((url, None)) if url.starts_with("about:") => Ok(()),
            _ => Err(never_driven(Forbidden::Scheme)),
        }
    }

    /// Looks at what is known of the tab.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Tab) -> T) -> Result<T, Failure> {
        self.hands.tabs.with(&self.tab, look).ok_or_else(|| self.lost())
    }

    fn lost(&self) -> Failure {
        // What a grant held is let go of with it.
        if let Err(failure) = self.hands.permit.check() {
            return failure;
        }
        Failure::new(
            ErrorCode::DocumentChanged,
            format!("the tab {} was let go of: it closed or went to a page that is never driven", self.tab),
        )
        .next("call list_tabs")
    }

    /// The tab's own document as it is now. When the owner was asked about this call, it has to be where they were
    /// shown that it is.
    pub(crate) fn document(&self) -> Result<DocumentId, Failure> {
        let main = self.look(|tab| {
            tab.documents
                .main()
                .map(|main| (main.document.clone(), main.origin.as_ref().map(ToString::to_string)))
        })?;
        let (document, origin) = main.ok_or_else(|| self.lost())?;
        match self.hands.permit.asked() {
            Some(asked) if origin.as_deref() != Some(asked) => {
                let message = "the page went to another site after the owner was asked about this one";
                Err(Failure::new(ErrorCode::DocumentChanged, message))
            }
            _ => Ok(document),
        }
    }

    /// Where the document comes from, for envelopes and the audit.
    pub(crate) fn origin(&self) -> String {
        let origin = self.look(|tab| {
            tab.documents.main().map(|f| f.origin.as_ref().map_or_else(|| f.url.clone(), ToString::to_string))
        });
        origin.ok().flatten().unwrap_or_default()
    }

    /// The address and the title of the page.
    pub(crate) fn url(&self) -> String {
        self.look(|tab| tab.documents.main().map(|frame| frame.url.clone()))
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// One DevTools command. A dialog of the page ends the wait: while it stands, nothing else answers.
    pub(crate) async fn command(
        &self,
        method: &str,
        params: Value,
        document: Option<&DocumentId>,
    ) -> Result<Value, Failure> {
        let session = document.and_then(|document| {
            self.look(|tab| tab.documents.frame(&document.frame).and_then(|frame| frame.session.clone()))
                .ok()
                .flatten()
        });
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        let op = Op::Cdp {
            tab: self.tab.number,
            session,
            method: method.into(),
            params,
            document: document.cloned(),
        };
        self.unless_troubled(self.hands.op(&self.tab.profile, op)).await
    }

    /// Waits for something that the page has to answer. While it shows a dialog of its own, or when its renderer has
    /// crashed, it answers nothing.
    async fn unless_troubled<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            trouble = self.hands.tabs.until(&self.tab, |tab| tab.trouble()) => Err(match trouble {
                Some(Trouble::Dialog(dialog)) => dialog_open(&dialog),
                Some(Trouble::Crashed) => {
                    Failure::new(ErrorCode::TabCrashed, format!("the page of {} crashed", self.tab)).maybe_done()
                }
                None => self.lost().maybe_done(),
            }),
            answer = work => answer,
        }
    }

    /// Waits until something about the tab is so; `None` when `limit` passes first. A dialog of the page ends the
    /// wait: it would hold back whatever is waited for.
    pub(crate) async fn wait<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut(&mut Tab) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let found = self.hands.tabs.until(&self.tab, |tab| match tab.dialog.clone() {
            Some(dialog) => Some(Err(dialog_open(&dialog))),
            None => look(tab).map(Ok),
        });
        let limit = self.hands.permit.time_left(limit);
        match tokio::time::timeout(limit, self.hands.permit.during(found)).await {
            Err(_) => Ok(None),
            Ok(found) => found?.ok_or_else(|| self.lost())?.map(Some),
        }
    }

    /// Evaluates in a frame's page or isolated world.
    pub(crate) async fn evaluate(
        &self,
        document: &DocumentId,
        context: &str,
        expression: String,
        by_value: bool,
        limit: Duration,
    ) -> Result<Value, Failure> {
        let timeout = self.hands.permit.time_left(limit).as_millis().clamp(1, 120_000) as u64;
        let params = json!({
            "expression": expression, "uniqueContextId": context, "timeout": timeout,
            "returnByValue": by_value, "awaitPromise": true, "userGesture": true,
        });
        let waited = tokio::time::timeout(
            limit + Duration::from_millis(500),
            self.command("Runtime.evaluate", params, Some(document)),
        );
        let started = Instant::now();
        let mut answer = match waited.await {
            Err(_) => return Err(too_slow().next("if the page stays busy, close the tab")),
            // The browser has no word of its own for a script that it stopped.
            Ok(Err(failure)) if failure.code == ErrorCode::BrowserError && started.elapsed() >= limit => {
                return Err(too_slow());
            }
            Ok(answer) => answer?,
        };
        if let Some(thrown) = answer.get("exceptionDetails").filter(|details| !details.is_null()) {
            return Err(script_failed(thrown));
        }
        Ok(answer["result"].take())
    }

    /// The script context of a frame, for the page's own world. It comes a moment after its document.
    pub(crate) async fn page_context(&self, document: &DocumentId) -> Result<String, Failure> {
        let context =
            |tab: &mut Tab| tab.documents.context(&document.frame, World::Page).map(|(id, _)| id.to_owned());
        if let Some(context) = self.look(context)? {
            return Ok(context);
        }
        self.wait(FRESH, context)
            .await?
            .ok_or_else(|| Failure::new(ErrorCode::DocumentChanged, "the page is between two documents"))
    }

    /// Calls the page script in a frame's isolated world; brings it there first if it is not.
    pub(crate) async fn script<C: Call + Sync>(
        &self,
        document: &DocumentId,
        call: &C,
        limit: Duration,
    ) -> Result<C::Answer, Failure> {
        let expression = call.expression().map_err(|error| odd(&error.to_string()))?;
        let value = self.script_raw(document, expression, limit).await?;
        serde_json::from_value(value).map_err(|error| odd(&error.to_string()))
    }

    pub(crate) async fn script_raw(
        &self,
        document: &DocumentId,
        expression: String,
        limit: Duration,
    ) -> Result<Value, Failure> {
        let known = self.isolated_context(document)?;
        let context = match known {
            Some(context) => context,
            None => {
                let params = json!({ "frameId": document.frame, "worldName": consentry_wire::cdp::WORLD });
                self.command("Page.createIsolatedWorld", params, Some(document)).await?;
                let made = self.isolated_context(document)?;
                made.ok_or_else(|| {
                    Failure::new(ErrorCode::DocumentChanged, "the page is between two documents")
                })?
            }
        };
        let scripted = self.look(|tab| tab.scripted.contains(&context))?;
        let expression = if scripted { expression } else { format!("{SCRIPT};\n{expression}") };
        let mut answer = self.evaluate(document, &context, expression, true, limit).await?;
        if !scripted {
            self.look(|tab| tab.scripted.insert(context))?;
        }
        Ok(answer["value"].take())
    }

    fn isolated_context(&self, document: &DocumentId) -> Result<Option<String>, Failure> {
        self.look(|tab| tab.documents.context(&document.frame, World::Isolated).map(|(id, _)| id.to_owned()))
    }

    /// Waits until the tab's own document is another one than `before` and has loaded, or until `limit`.
    /// Says whether it has loaded.
    pub(crate) async fn settled(
        &self,
        before: Option<&DocumentId>,
        limit: Duration,
    ) -> Result<bool, Failure> {
        let loaded = self.wait(limit, |tab| {
            let now = tab.documents.main().map(|frame| &frame.document);
            (now.is_some() && now != before && !tab.loading).then_some(())
        });
        Ok(loaded.await?.is_some())
    }
}

fn dialog_open(dialog: &PageDialog) -> Failure {
    let kind: String = dialog.kind.chars().filter(char::is_ascii_alphabetic).take(20).collect();
    let said: String = dialog.message.chars().take(500).collect();
    let message = format!("the page shows a dialog of its own: {kind}");
    Failure::new(ErrorCode::PageDialogOpen, message).said(said).maybe_done()
}

pub(crate) fn unknown_tab(tab: &TabId) -> Failure {
    Failure {
        field: Some("tab".into()),
        ..Failure::new(ErrorCode::UnknownTab, format!("there is no tab {tab}"))
    }
}

fn never_driven(why: Forbidden) -> Failure {
    Failure::new(ErrorCode::ForbiddenPage, why.reason())
}

/// The browser answered something that this version does not understand.
pub(crate) fn odd(what: &str) -> Failure {
    let said: String = what.chars().take(500).collect();
    Failure::new(ErrorCode::BrowserError, "the browser answered something unexpected").said(said)
}

fn too_slow() -> Failure {
    Failure::new(ErrorCode::ScriptFailed, "the script did not end in time").maybe_done()
}

fn nothing_there() -> Failure {
    let message = "no page has come to the tab: its address may lead to a download or to nothing";
    Failure::new(ErrorCode::NavigationFailed, message)
}

fn script_failed(thrown: &Value) -> Failure {
    let description = thrown["exception"]["description"].as_str();
    let value = thrown["exception"].get("value").map(ToString::to_string);
    let text = thrown["text"].as_str().unwrap_or("it threw");
    let said = description.map(str::to_owned).or(value).unwrap_or_else(|| text.to_owned());
    let said: String = said.chars().take(1000).collect();
    Failure::new(ErrorCode::ScriptFailed, "the script threw").said(said).maybe_done()
}
