//! DevTools commands: tied to the document that they were checked for, before they are sent and after.

use consentry_wire::cdp::{self, Bound, Command, Kind};
use consentry_wire::document::{DocumentId, Documents, Frame, World};
use consentry_wire::{ErrorCode, Failure, GrantLabel};
use serde_json::{Map, Value};

use super::{Guard, Moment, fail};

/// One command as the hub asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    pub(crate) tab: u32,
    pub(crate) session: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) params: &'a Map<String, Value>,
    pub(crate) document: Option<&'a DocumentId>,
}

/// A command that passed, for the check after its answer.
#[derive(Debug)]
pub(crate) struct Ticket {
    grant: GrantLabel,
    tab: u32,
    document: Option<DocumentId>,
    /// What the command does.
    pub(crate) kind: Kind,
}

impl Guard {
    /// Whether a grant may send a command right now.
    pub(crate) fn may_send(
        &self,
        label: &GrantLabel,
        request: &Request<'_>,
        now: Moment,
    ) -> Result<Ticket, Failure> {
        let command = cdp::check(request.method, request.params)
            .or_else(|refused| fail(ErrorCode::MethodNotAllowed, refused.to_string()))?;
        let (grant, ports) = self.live(label, now)?;
        let tab = self.tabs.get(&request.tab).filter(|tab| tab.holders.contains(label));
        let Some(tab) = tab else {
            return fail(ErrorCode::UnknownTab, format!("grant {label} holds no tab {}", request.tab));
        };
        if request.session.is_some_and(|session| !tab.sessions.contains_key(session)) {
            return changed("the frame's session has ended");
        }
        let ticket =
            |document| Ticket { grant: label.clone(), tab: request.tab, document, kind: command.kind };
        if reaches_whole_tab(command) {
            let top = tab.documents.main().map_or_else(|| changed("the tab holds no document yet"), Ok)?;
            tab.covered(grant, ports, top)?;
        }
        if command.bound == Bound::No {
            return Ok(ticket(None));
        }
        let Some(wanted) = request.document else {
            return Err(Failure::argument(
                "document",
                format!("{} is tied to a document", command.method),
                "the frame's id and its loader's",
            ));
        };
        let Some(frame) = tab.documents.holding(wanted) else {
            return changed("the frame has left that document");
        };
        tab.covered(grant, ports, frame)?;
        if !reaches(&tab.documents, frame, request) {
            return changed("the command and the document do not belong together");
        }
        Ok(ticket(Some(wanted.clone())))
    }

    /// Whether the answer to a command may still be given: the grant lives, holds the tab, and the document
    /// is the one that was checked.
    pub(crate) fn may_answer(&self, ticket: &Ticket, now: Moment) -> Result<(), Failure> {
        let late = |failure: Failure| if ticket.kind == Kind::Acts { failure.maybe_done() } else { failure };
        if self.live(&ticket.grant, now).is_err() || !self.holds(&ticket.grant, ticket.tab) {
            let message = format!("grant {} ended while the command ran", ticket.grant);
            return Err(late(Failure::new(ErrorCode::GrantEnded, message)));
        }
        let same = ticket.document.as_ref().is_none_or(|document| {
            self.tabs.get(&ticket.tab).is_some_and(|tab| tab.documents.holding(document).is_some())
        });
        if same { Ok(()) } else { changed("the page went elsewhere meanwhile").map_err(late) }
    }
}

fn changed<T>(message: &str) -> Result<T, Failure> {
    fail(ErrorCode::DocumentChanged, message)
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
