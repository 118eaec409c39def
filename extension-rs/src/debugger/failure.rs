//! What the browser's words for a failed call mean.

use consentry_wire::cdp::Kind;
use consentry_wire::{ErrorCode, Failure};

use crate::chrome::ChromeError;

/// A DevTools command failed.
pub(crate) fn of_command(method: &str, kind: Kind, error: &ChromeError) -> Failure {
    let text = words(&error.0);
    let has = |part: &str| text.contains(part);
    let failure = if has("uniqueContextId not found") || has("Cannot find context with specified id") {
        Failure::new(ErrorCode::DocumentChanged, "the page went elsewhere before the command ran")
    } else if has("Detached while handling command") || has("Debugger is not attached") {
        Failure::new(ErrorCode::UnknownTab, format!("the tab was let go of during {method}"))
    } else if has("Session with given id not found") {
        Failure::new(ErrorCode::DocumentChanged, "the frame's session has ended")
    } else if has("navigated or closed") || has("Not attached to an active page") {
        // Told as a change, which the commit's own event may still be on its way to say.
        let changed =
            Failure::new(ErrorCode::DocumentChanged, format!("the page went elsewhere during {method}"));
        return if kind == Kind::Acts { changed.maybe_done() } else { changed };
    } else if has("crashed") {
        Failure::new(ErrorCode::TabCrashed, "the tab's page has crashed")
    } else if let Some(refused) = refused(&text) {
        refused
    } else {
        Failure::new(ErrorCode::BrowserError, format!("{method}: {text}"))
    };
    // An error of the browser does not always mean that nothing was done.
    if kind == Kind::Acts && failure.code != ErrorCode::DocumentChanged {
        failure.maybe_done()
    } else {
        failure
    }
}

/// Attaching to a tab, or setting it up, failed.
pub(crate) fn of_attach(error: &ChromeError) -> Failure {
    let text = words(&error.0);
    if text.contains("No tab with") || text.contains("No target with") {
        return Failure::new(ErrorCode::UnknownTab, text);
    }
    refused(&text).unwrap_or_else(|| Failure::new(ErrorCode::BrowserError, format!("attaching: {text}")))
}

/// An operation on a tab as a whole failed.
pub(crate) fn of_tab(error: &ChromeError) -> Failure {
    let text = words(&error.0);
    let unknown = text.contains("No tab with") || text.contains("No window with");
    Failure::new(if unknown { ErrorCode::UnknownTab } else { ErrorCode::BrowserError }, text)
}

fn refused(text: &str) -> Option<Failure> {
    let has = |part: &str| text.contains(part);
    let refused = |message: &str| Failure::new(ErrorCode::AttachRefused, message);
    if has("Another debugger") {
        Some(refused("another debugger holds the tab"))
    } else if has("restricted by policy") || has("blocked by the administrator") || has("enterprise policy") {
        Some(refused("the browser's policy forbids this page").next("ask whoever manages this browser"))
    } else if has("Cannot attach") || has("Cannot access") {
        let message = "the browser lets no extension into this page";
        Some(Failure::new(ErrorCode::ForbiddenPage, message))
    } else {
        None
    }
}

/// The message of an error, which for a DevTools command is JSON around it.
fn words(text: &str) -> String {
    let inner = serde_json::from_str::<serde_json::Value>(text).ok();
    let inner = inner.and_then(|value| value["message"].as_str().map(str::to_owned));
    inner.unwrap_or_else(|| text.to_owned()).trim_end_matches('.').chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str, kind: Kind) -> Failure {
        of_command("Runtime.evaluate", kind, &ChromeError(text.into()))
    }

    #[test]
    fn a_context_that_is_gone_is_a_document_that_changed() {
        let failure = command(r#"{"code":-32000,"message":"uniqueContextId not found"}"#, Kind::Acts);
        assert_eq!(failure.code, ErrorCode::DocumentChanged);
        assert_eq!(failure, command("uniqueContextId not found", Kind::Reads));
    }

    #[test]
    fn what_may_have_been_done_says_so() {
        let failure = command(r#"{"code":-32000,"message":"Internal error"}"#, Kind::Acts);
        assert_eq!(
            (failure.code, failure.outcome),
            (ErrorCode::BrowserError, consentry_wire::Outcome::MaybeDone)
        );
    }

    #[test]
    fn reasons_for_not_attaching_are_told_apart() {
        let code = |text: &str| of_attach(&ChromeError(text.into())).code;
        assert_eq!(
            code("Another debugger is already attached to the tab with id: 7."),
            ErrorCode::AttachRefused
        );
        assert_eq!(code("Host access is restricted by policy"), ErrorCode::AttachRefused);
        assert_eq!(code("Cannot access a chrome:// URL"), ErrorCode::ForbiddenPage);
        assert_eq!(code("No tab with given id 5."), ErrorCode::UnknownTab);
    }
}
