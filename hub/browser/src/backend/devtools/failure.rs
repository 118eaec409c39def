//! What the browser's words for a failed command mean.

use consentry_wire::cdp::Kind;
use consentry_wire::{ErrorCode, Failure};

/// Why a command has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallError {
    /// The browser refused it, in its own words.
    Browser(String),
    /// The connection broke.
    Lost,
    /// Too many commands wait for their answer.
    Full,
    /// The page went elsewhere again and again while it was asked for its frames.
    Restless,
}

/// A DevTools command of the allowlist failed.
pub(super) fn of_command(method: &str, kind: Kind, error: &CallError) -> Failure {
    let late = |failure: Failure| if kind == Kind::Acts { failure.maybe_done() } else { failure };
    let text = match error {
        CallError::Browser(text) => words(text),
        other => return late(of_link(other)),
    };
    let has = |part: &str| text.contains(part);
    let changed = |message: &str| Failure::new(ErrorCode::DocumentChanged, message);
    if has("uniqueContextId not found") || has("Cannot find context with specified id") {
        changed("the page went elsewhere before the command ran")
    } else if has("Session with given id not found") {
        changed("the frame's session has ended")
    } else if has("navigated or closed") || has("Not attached to an active page") {
        // Told as a change, which the commit's own event may still be on its way to say.
        late(changed(&format!("the page went elsewhere during {method}")))
    } else if has("crashed") {
        late(Failure::new(ErrorCode::TabCrashed, "the tab's page has crashed"))
    } else {
        // An error of the browser does not always mean that nothing was done.
        late(Failure::new(ErrorCode::BrowserError, format!("{method}: {text}")))
    }
}

/// Attaching to a tab, or setting it up, failed.
pub(super) fn of_attach(error: &CallError) -> Failure {
    match error {
        CallError::Browser(text) if gone(text) => Failure::new(ErrorCode::UnknownTab, words(text)),
        CallError::Browser(text) if text.contains("Not allowed") || text.contains("Cannot attach") => {
            Failure::new(ErrorCode::AttachRefused, "the browser lets nobody into this page")
        }
        CallError::Browser(text) => {
            Failure::new(ErrorCode::BrowserError, format!("attaching: {}", words(text)))
        }
        other => of_link(other),
    }
}

/// Something about a tab as a whole failed.
pub(super) fn of_tab(error: &CallError) -> Failure {
    match error {
        CallError::Browser(text) if gone(text) => Failure::new(ErrorCode::UnknownTab, words(text)),
        CallError::Browser(text) => Failure::new(ErrorCode::BrowserError, words(text)),
        other => of_link(other),
    }
}

fn of_link(error: &CallError) -> Failure {
    match error {
        CallError::Full => {
            Failure::new(ErrorCode::Busy, "the browser takes no more calls now").retry_after(200)
        }
        CallError::Restless => Failure::new(ErrorCode::BrowserError, "the page does not come to rest"),
        CallError::Lost | CallError::Browser(_) => {
            Failure::new(ErrorCode::LinkLost, "the link to the browser broke").maybe_done()
        }
    }
}

fn gone(text: &str) -> bool {
    ["No target with", "Session with given id not found", "navigated or closed"]
        .iter()
        .any(|part| text.contains(part))
}

fn words(text: &str) -> String {
    text.trim_end_matches('.').chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use consentry_wire::Outcome;

    #[test]
    fn a_context_that_is_gone_is_a_document_that_changed_and_nothing_was_done() {
        let error = CallError::Browser("uniqueContextId not found".into());
        let failure = of_command("Runtime.evaluate", Kind::Acts, &error);
        assert_eq!((failure.code, failure.outcome), (ErrorCode::DocumentChanged, Outcome::NotStarted));
    }

    #[test]
    fn what_may_have_been_done_says_so() {
        for (error, code) in [
            (CallError::Browser("Internal error".into()), ErrorCode::BrowserError),
            (CallError::Browser("Inspected target navigated or closed".into()), ErrorCode::DocumentChanged),
            (CallError::Lost, ErrorCode::LinkLost),
        ] {
            let failure = of_command("Input.insertText", Kind::Acts, &error);
            assert_eq!((failure.code, failure.outcome), (code, Outcome::MaybeDone));
        }
    }
}
