//! What a held tab shows, and whether a command may reach it: decided by whoever holds the debugger, the extension or
//! a standalone program.
//!
//! A command that reads or acts passes only for the document that its frame holds right now, and only when the grant's
//! sites cover that document; its answer only while that is still so.

use std::collections::{BTreeMap, BTreeSet};

use crate::cdp::{self, Bound, Command, Kind};
use crate::document::{DocumentId, Documents, Frame, World};
use crate::forbidden::{self, Forbidden, HubPorts};
use crate::site::Origin;
use crate::{ErrorCode, Failure, GrantLabel};
use serde_json::{Map, Value};

/// What decides for one grant.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The grant.
    pub label: &'a GrantLabel,
    /// No page on these is ever driven.
    pub ports: HubPorts,
    /// Whether the grant's sites cover an origin.
    pub covers: &'a dyn Fn(&Origin) -> bool,
}

/// One command as it is asked for.
#[derive(Debug)]
pub struct Request<'a> {
    /// A child session; none for the tab's own.
    pub session: Option<&'a str>,
    /// The DevTools method.
    pub method: &'a str,
    /// Its parameters.
    pub params: &'a Map<String, Value>,
    /// The document that it is tied to.
    pub document: Option<&'a DocumentId>,
}

/// One command that passed, for the check after its answer.
#[derive(Debug)]
pub struct Ticket {
    document: Option<DocumentId>,
    /// What the command does.
    pub kind: Kind,
}

/// What is to be done with a tab as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Attaching to it, or loading the same again: its document is used.
    Use,
    /// Going elsewhere, bringing to the front, closing: its document is not.
    Move,
    /// Closing one that the grant itself opened: nothing of it is used, wherever it went.
    CloseOwn,
}

/// What one event means.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is told.
    Pass,
    /// It is told, and this child session has to be set up.
    SetUp(String),
    /// It is told, and it may come from a document that no event tells of: the tab's frame tree has to be asked for,
    /// and its top frame taken as if by `Page.frameNavigated`, unless a commit comes in between.
    LookAgain,
    /// It is not told.
    Drop,
    /// The tab went where nobody may drive it: it is let go of at once.
    LetGo,
}

/// A tab that is attached, or about to be.
#[derive(Debug, Default)]
pub struct HeldTab {
    /// The grants that hold it.
    pub holders: BTreeSet<GrantLabel>,
    documents: Documents,
    /// Sessions of frames in other processes, each with the one that it was reached through.
    children: BTreeMap<String, Option<String>>,
    /// Whose an empty document is, by its frame: its own script context alone says so.
    inherited: BTreeMap<String, Origin>,
    /// The tab's own session has lost its script contexts, and no document has been told since. Usually that is the
    /// moment of a commit; a debugger that was attached while a fresh tab's first page was on its way is never told of
    /// that page.
    unsure: bool,
    /// Counts commits, so that a frame tree asked for before one is not taken for what came after.
    pub commits: u64,
}

impl Scope<'_> {
    /// Whether the grant may open an address, or send a tab there.
    pub fn may_open(&self, address: &str) -> Result<(), Failure> {
        if address == "about:blank" {
            return Ok(());
        }
        self.covers(address, Origin::parse(address).as_ref())
    }

    /// Whether the grant may do something with a tab that shows an address.
    pub fn may_touch(&self, address: &str, touch: Touch) -> Result<(), Failure> {
        if address.is_empty() || address == "about:blank" {
            return Ok(());
        }
        match touch {
            Touch::Use => self.covers(address, Origin::parse(address).as_ref()),
            Touch::Move => not_forbidden(address, self.ports),
            Touch::CloseOwn => Ok(()),
        }
    }

    /// The address and the title as the grant may see them: no more than a host of what its sites do not cover.
    pub fn show(&self, address: &str, title: &str) -> (String, String) {
        if forbidden::check(address, self.ports).is_err() {
            let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
            return (format!("{scheme}:"), String::new());
        }
        match Origin::parse(address) {
            Some(origin) if !(self.covers)(&origin) => (origin.to_string(), String::new()),
            Some(_) => (address.to_owned(), title.to_owned()),
            // An empty tab: what it is called may come from the page that opened it.
            None => (address.to_owned(), String::new()),
        }
    }

    /// Whether the grant's sites cover a document. `origin` is whose it is, which its address alone does not say for
    /// about:blank and about:srcdoc.
    fn covers(&self, address: &str, origin: Option<&Origin>) -> Result<(), Failure> {
        not_forbidden(address, self.ports)?;
        let Some(origin) = origin else {
            return fail(ErrorCode::ForbiddenPage, "the document belongs to no http or https site");
        };
        not_forbidden(&origin.to_string(), self.ports)?;
        if (self.covers)(origin) {
            return Ok(());
        }
        let message = format!("{} is not among the sites of grant {}", origin.site(), self.label);
        fail(ErrorCode::SiteNotAllowed, message)
    }
}

impl HeldTab {
    /// The tab is attached anew: what was known of its documents no longer holds.
    pub fn attached(&mut self) {
        *self = Self { holders: std::mem::take(&mut self.holders), ..Self::default() };
    }

    /// Takes a session's frame tree.
    pub fn seed(&mut self, session: Option<&str>, tree: &Value, ports: HubPorts) -> Verdict {
        self.documents.seed(session, tree);
        let mut trees = vec![&tree["frameTree"]];
        while let Some(tree) = trees.pop() {
            if undrivable(&tree["frame"], session, ports) {
                return Verdict::LetGo;
            }
            trees.extend(tree["childFrames"].as_array().into_iter().flatten());
        }
        Verdict::Pass
    }

    /// Takes one DevTools event.
    pub fn event(&mut self, session: Option<&str>, method: &str, params: &Value, ports: HubPorts) -> Verdict {
        if !cdp::passes(method) || session.is_some_and(|session| !self.children.contains_key(session)) {
            return Verdict::Drop;
        }
        if let Some(frame) = self.documents.event(session, method, params) {
            self.commits += 1;
            self.inherited.remove(&frame);
        }
        if session.is_none() {
            match method {
                "Runtime.executionContextsCleared" => self.unsure = true,
                "Page.frameNavigated" if params["frame"]["parentId"].is_null() => self.unsure = false,
                _ => {}
            }
        }
        match method {
            // Usually the document's own event is there before the answer, which then says nothing new.
            "Runtime.executionContextsCleared" if session.is_none() => Verdict::LookAgain,
            "Page.loadEventFired" if session.is_none() && self.unsure => Verdict::LookAgain,
            "Runtime.executionContextCreated" => self.context_created(&params["context"], ports),
            "Page.frameNavigated" if undrivable(&params["frame"], session, ports) => Verdict::LetGo,
            "Target.attachedToTarget" => match params["sessionId"].as_str() {
                Some(child) if params["targetInfo"]["type"] == "iframe" => {
                    let address = params["targetInfo"]["url"].as_str().unwrap_or_default();
                    if forbidden::check(address, ports) == Err(Forbidden::Hub) {
                        return Verdict::LetGo;
                    }
                    self.children.insert(child.to_owned(), session.map(str::to_owned));
                    Verdict::SetUp(child.to_owned())
                }
                // Workers and the like are not used.
                _ => Verdict::Drop,
            },
            "Target.detachedFromTarget" => {
                let child = params["sessionId"].as_str().unwrap_or_default();
                let known = self.children.remove(child).is_some();
                self.children.retain(|_, parent| parent.as_deref() != Some(child));
                if known { Verdict::Pass } else { Verdict::Drop }
            }
            _ => Verdict::Pass,
        }
    }

    fn context_created(&mut self, context: &Value, ports: HubPorts) -> Verdict {
        let aux = &context["auxData"];
        let (Some(frame), Some(text)) = (aux["frameId"].as_str(), context["origin"].as_str()) else {
            return Verdict::Pass;
        };
        if forbidden::check(text, ports) == Err(Forbidden::Hub) {
            return Verdict::LetGo;
        }
        if let (true, Some(origin)) = (aux["isDefault"] == true, Origin::parse(text)) {
            self.inherited.insert(frame.to_owned(), origin);
        }
        let top = self.documents.main().is_some_and(|top| top.document.frame == frame);
        if top && self.unsure { Verdict::LookAgain } else { Verdict::Pass }
    }

    /// Whether a child session is known.
    pub fn has_child(&self, session: &str) -> bool {
        self.children.contains_key(session)
    }

    /// The address of the tab's own document.
    pub fn address(&self) -> Option<&str> {
        self.documents.main().map(|top| top.url.as_str())
    }

    /// The tab's own document.
    pub fn top(&self) -> Option<&DocumentId> {
        self.documents.main().map(|top| &top.document)
    }

    /// Whether a grant's sites cover the tab's own document.
    pub fn top_is_covered(&self, scope: &Scope<'_>) -> bool {
        self.documents.main().is_some_and(|top| self.covered(scope, top).is_ok())
    }

    fn covered(&self, scope: &Scope<'_>, frame: &Frame) -> Result<(), Failure> {
        let empty = frame.url.starts_with("about:");
        let inherited = self.inherited.get(&frame.document.frame).filter(|_| empty);
        scope.covers(&frame.url, frame.origin.as_ref().or(inherited))
    }

    /// Whether a grant may send a command right now.
    pub fn may_send(&self, scope: &Scope<'_>, request: &Request<'_>) -> Result<Ticket, Failure> {
        let command = cdp::check(request.method, request.params)
            .or_else(|refused| fail(ErrorCode::MethodNotAllowed, refused.to_string()))?;
        if !self.holders.contains(scope.label) {
            return fail(ErrorCode::UnknownTab, format!("grant {} does not hold the tab", scope.label));
        }
        if request.session.is_some_and(|session| !self.children.contains_key(session)) {
            return changed("the frame's session has ended");
        }
        if self.unsure && command.bound != Bound::No {
            return changed("the page is between two documents");
        }
        if reaches_whole_tab(command) {
            let top = self.documents.main().map_or_else(|| changed("the tab holds no document yet"), Ok)?;
            self.covered(scope, top)?;
        }
        if command.bound == Bound::No {
            return Ok(Ticket { document: None, kind: command.kind });
        }
        let Some(wanted) = request.document else {
            return Err(Failure::argument(
                "document",
                format!("{} is tied to a document", command.method),
                "the frame's id and its loader's",
            ));
        };
        let Some(frame) = self.documents.holding(wanted) else {
            return changed("the frame has left that document");
        };
        self.covered(scope, frame)?;
        if !reaches(&self.documents, frame, request) {
            return changed("the command and the document do not belong together");
        }
        Ok(Ticket { document: Some(wanted.clone()), kind: command.kind })
    }

    /// Whether the answer to a command may still be given: the grant holds the tab, and the document is the one that
    /// was checked.
    pub fn may_answer(&self, label: &GrantLabel, ticket: &Ticket) -> Result<(), Failure> {
        if !self.holders.contains(label) {
            return Err(ticket.let_go());
        }
        let same = ticket.document.as_ref().is_none_or(|document| self.documents.holding(document).is_some());
        if same { Ok(()) } else { Err(ticket.overtaken()) }
    }
}

impl Ticket {
    /// The tab was let go of while the command ran.
    pub fn let_go(&self) -> Failure {
        self.late(Failure::new(ErrorCode::DocumentChanged, "the tab was let go of while the command ran"))
    }

    /// The page went elsewhere while the command ran.
    pub fn overtaken(&self) -> Failure {
        self.late(Failure::new(ErrorCode::DocumentChanged, "the page went elsewhere meanwhile"))
    }

    /// As a failure that came after the command was sent.
    pub fn late(&self, failure: Failure) -> Failure {
        if self.kind == Kind::Acts { failure.maybe_done() } else { failure }
    }
}

/// Whether a frame that committed makes its whole tab one that is never driven: the tab's own document when it is not
/// of the web, and any frame when it is the hub's, where a click could allow something. A page that could not be
/// loaded is the browser's own too, but the tab will leave it again; nothing covers it.
fn undrivable(frame: &Value, session: Option<&str>, ports: HubPorts) -> bool {
    let text = |name: &str| frame[name].as_str().unwrap_or_default();
    let why = |name: &str| forbidden::check(text(name), ports).err();
    let hub = ["url", "securityOrigin", "unreachableUrl"].map(why).contains(&Some(Forbidden::Hub));
    let top = session.is_none() && frame["parentId"].as_str().is_none();
    let failed = !text("unreachableUrl").is_empty();
    hub || (top && why("url").is_some() && !failed && !uncommitted(text("url")))
}

/// Whether a document's address is that of a fresh tab before its first page comes. There is nothing in it, and nothing
/// covers it.
pub fn uncommitted(url: &str) -> bool {
    matches!(url, "" | ":")
}

/// Commands whose effect or answer is not confined to the frame they name.
fn reaches_whole_tab(command: &Command) -> bool {
    command.method.starts_with("Input.")
        || matches!(command.method, "Page.captureScreenshot" | "Page.handleJavaScriptDialog")
}

/// Whether a command reaches the document that it names and no other one.
fn reaches(documents: &Documents, frame: &Frame, request: &Request<'_>) -> bool {
    let text = |name: &str| request.params.get(name).and_then(Value::as_str);
    let id = frame.document.frame.as_str();
    let own_session = frame.session.as_deref() == request.session;
    // The numbers of the two contexts that a command may run in.
    let own_context = |number: i64| {
        [World::Page, World::Isolated]
            .into_iter()
            .any(|world| documents.context(id, world).is_some_and(|(_, known)| known == number))
    };
    let is_top = documents.main().is_some_and(|top| top.document == frame.document);
    match request.method {
        // The browser routes input from the tab's own session to any frame.
        method if method.starts_with("Input.") => own_session || request.session.is_none(),
        // A picture shows the tab, whichever frame is named.
        "Page.captureScreenshot" => own_session && is_top,
        "Page.createIsolatedWorld" => own_session && text("frameId") == Some(id),
        "DOM.getFrameOwner" => {
            let child = text("frameId").and_then(|child| documents.frame(child));
            own_session && child.is_none_or(|child| child.parent.as_deref() == Some(id))
        }
        "DOM.resolveNode" => {
            let context = request.params.get("executionContextId").and_then(Value::as_i64);
            own_session && context.is_some_and(own_context)
        }
        "Runtime.callFunctionOn" => {
            own_session && text("objectId").and_then(context_of_object).is_some_and(own_context)
        }
        "Runtime.evaluate" => {
            let context = text("uniqueContextId").and_then(|unique| documents.context_frame(unique));
            own_session && context.is_some_and(|(holder, _)| holder.document == frame.document)
        }
        _ => own_session,
    }
}

/// V8 writes an object's id as `<isolate>.<context>.<object>`.
fn context_of_object(object: &str) -> Option<i64> {
    let mut parts = object.split('.');
    let (_, context, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() { None } else { context.parse().ok() }
}

fn not_forbidden(address: &str, ports: HubPorts) -> Result<(), Failure> {
    forbidden::check(address, ports).or_else(|why| fail(ErrorCode::ForbiddenPage, why.reason()))
}

fn fail<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(code, message))
}

fn changed<T>(message: &str) -> Result<T, Failure> {
    fail(ErrorCode::DocumentChanged, message)
}

#[cfg(test)]
mod tests;
