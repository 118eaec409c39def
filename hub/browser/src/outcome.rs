//! Answers of the page script about an element, turned into errors that say what is there now.

use consentry_wire::{ErrorCode, Failure};

use crate::page::{Change, Checked, Description, Element, Located, Target};

/// The element, or why it cannot be acted upon.
pub(crate) fn located(answer: Located) -> Result<Target, Failure> {
    let blocked = |what: &str, element: &Element| {
        Failure::new(ErrorCode::NotActionable, format!("{} {what}", element.reference))
            .said(describe(&element.description))
    };
    match answer {
        Located::Ok(target) => Ok(target),
        Located::Moved { was, now, why } => Err(moved(&was, &now, &why)),
        Located::Replaced { was, now } => Err(replaced(&was, &now)),
        Located::Gone { was } => Err(gone(was.as_ref())),
        Located::Unknown => Err(unknown()),
        Located::Ambiguous { count, candidates } => {
            let refs: Vec<String> = candidates.iter().map(|c| c.reference.to_string()).collect();
            let said: Vec<String> =
                candidates.iter().map(|c| format!("{} {}", c.reference, describe(&c.description))).collect();
            let allowed =
                format!("a selector that matches one element, or one of the refs {}", refs.join(", "));
            Err(Failure::argument(
                "selector",
                format!("the selector matches {count} visible elements"),
                allowed,
            )
            .said(said.join("\n")))
        }
        Located::BadSelector => Err(Failure::argument(
            "selector",
            "that is no CSS selector",
            "a CSS selector such as button[type=submit]",
        )),
        Located::Disabled(element) => Err(blocked("is disabled", &element)),
        Located::Invisible(element) => {
            Err(blocked("cannot be seen: it has no size or cannot be scrolled to", &element))
        }
        Located::Covered { element, by } => {
            let said = format!(
                "{}\ncovered by {} {}",
                describe(&element.description),
                by.reference,
                describe(&by.description)
            );
            let message = format!("{} is covered by {}", element.reference, by.reference);
            Err(Failure::new(ErrorCode::NotActionable, message).said(said))
        }
        Located::Guarded { element, .. } => Err(guarded(&element)),
    }
}

/// What is known about a ref, or why it no longer holds.
pub(crate) fn checked<T>(answer: Checked<T>) -> Result<T, Failure> {
    match answer {
        Checked::Ok(found) => Ok(found),
        Checked::Moved { was, now, why } => Err(moved(&was, &now, &why)),
        Checked::Replaced { was, now } => Err(replaced(&was, &now)),
        Checked::Gone { was } => Err(gone(was.as_ref())),
        Checked::Unknown => Err(unknown()),
    }
}

pub(crate) fn guarded(element: &Element) -> Failure {
    let message =
        format!("{} is a password, one-time-code or card field: nothing is typed there", element.reference);
    Failure::new(ErrorCode::GuardedField, message)
}

fn moved(was: &Description, now: &Element, why: &[Change]) -> Failure {
    let words: Vec<&str> = why
        .iter()
        .map(|change| match change {
            Change::Role => "its role",
            Change::Name => "its name",
            Change::Key => "its id or target",
            Change::Context => "the row or section that it belongs to",
        })
        .collect();
    let message = format!("moved: {} changed, so it may be about something else now", words.join(" and "));
    Failure::new(ErrorCode::StaleRef, message).said(format!(
        "was {}\nnow {} {}",
        describe(was),
        now.reference,
        describe(&now.description)
    ))
}

fn replaced(was: &Description, now: &Element) -> Failure {
    let message = format!("replaced: the element is gone, and {} looks the same", now.reference);
    Failure::new(ErrorCode::StaleRef, message)
        .next(format!("use {} if that is what you mean, or read the page again", now.reference))
        .said(format!("was {}\nnow {} {}", describe(was), now.reference, describe(&now.description)))
}

fn gone(was: Option<&Description>) -> Failure {
    let failure = Failure::new(ErrorCode::StaleRef, "gone: there is no such element any more");
    match was {
        Some(was) => failure.said(format!("was {}", describe(was))),
        None => failure,
    }
}

fn unknown() -> Failure {
    Failure::new(ErrorCode::UnknownRef, "this document never had such a ref")
}

fn describe(element: &Description) -> String {
    let context =
        if element.context.is_empty() { String::new() } else { format!(" in {:?}", element.context) };
    format!("{} {:?}{context}", element.role, element.name)
}
