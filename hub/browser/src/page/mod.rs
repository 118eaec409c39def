//! The page script and the words that the hub and the script exchange.
//!
//! [`SCRIPT`] is evaluated once per document, in an isolated world of each frame; evaluating it again does nothing. It
//! defines one frozen global, `__consentry`. Each [`Call`] is one of its functions: [`Call::expression`] is what to
//! evaluate (`returnByValue`, `awaitPromise`), [`Call::Answer`] what comes back. Two functions deal in nodes rather than
//! JSON: [`element_expression`] and [`ADOPT_FUNCTION`].
//!
//! What must never happen: a ref acting on another element than the one the agent was shown (see [`Checked`]), a guarded
//! field's value leaving the page, text of the page that reads as outline syntax, a change of the page's DOM.
//!
//! Shapes of answers are ours, their texts are the page's: names, values, titles and addresses are untrusted.

mod messages;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use messages::{
    Area, Caret, Change, Checked, Content, Current, Description, Element, EndObservation, Event, FieldKind,
    FindHosts, Focus, FocusState, FocusTaken, Frame, Guard, Hosts, Locate, Located, Mode, Observation,
    Observe, Page, Point, Purpose, Read, Resolve, Resolved, Selection, Target, TargetBy, Value, Wait,
    WaitFor, Waited, Watching, WhatHasFocus,
};

/// The script, as it is evaluated in the page.
pub const SCRIPT: &str = include_str!("page.js");

/// Takes in a closed shadow root: `Runtime.callFunctionOn` in the script's world, with the root as the only argument.
/// Answers `true`, or `false` if the argument is no shadow root.
pub const ADOPT_FUNCTION: &str = "function (root) { return __consentry.adopt(root) }";

/// A function of the script: what it is asked and what it answers.
pub trait Call: Serialize {
    /// The function's name in the script.
    const FUNCTION: &'static str;
    /// What the function answers.
    type Answer: DeserializeOwned;

    /// The expression to evaluate.
    ///
    /// # Errors
    /// If the arguments cannot be written as JSON.
    fn expression(&self) -> Result<String, serde_json::Error> {
        call_expression(Self::FUNCTION, self)
    }
}

/// A call of `function` with `arguments`. Safe for any content: JSON is an expression of JavaScript, and a string in it ends
/// nowhere but at its own quote.
///
/// # Errors
/// If the arguments cannot be written as JSON.
pub fn call_expression<A: Serialize + ?Sized>(
    function: &str,
    arguments: &A,
) -> Result<String, serde_json::Error> {
    Ok(format!("__consentry.{function}({})", serde_json::to_string(arguments)?))
}

/// Evaluates to the node that `reference` names, or to null; to be asked for as a remote object, never by value.
/// For `DOM.describeNode` (the frame id of an iframe), a screenshot's clip, an input's files.
pub fn element_expression(reference: Ref) -> String {
    format!("__consentry.element({{\"ref\":\"{reference}\"}})")
}

/// Names a node of one document for as long as that lives, written `e12`. Never used for another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ref(NonZeroU32);

/// A string that is not a ref.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a ref such as e12")]
pub struct InvalidRef(String);

impl FromStr for Ref {
    type Err = InvalidRef;
    fn from_str(text: &str) -> Result<Self, InvalidRef> {
        let number =
            text.strip_prefix('e').filter(|digits| digits.starts_with(|c: char| ('1'..='9').contains(&c)));
        let number = number.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        number
            .and_then(|digits| digits.parse().ok())
            .map(Self)
            .ok_or_else(|| InvalidRef(text.chars().take(40).collect()))
    }
}

impl TryFrom<String> for Ref {
    type Error = InvalidRef;
    fn try_from(text: String) -> Result<Self, InvalidRef> {
        text.parse()
    }
}

impl From<Ref> for String {
    fn from(reference: Ref) -> Self {
        reference.to_string()
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_take_only_their_own_shape() {
        assert_eq!("e12".parse::<Ref>().map(|r| r.to_string()), Ok("e12".to_owned()));
        for bad in ["", "e", "e0", "e01", "12", "f1e2", "e-1", "e+1", "e1 ", "e99999999999", "E1"] {
            assert!(bad.parse::<Ref>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_argument_cannot_leave_its_string() {
        let wait = Wait {
            what: WaitFor::Text("\"}); alert(1); ({\"\u{2028}</script>\\".to_owned()),
            gone: false,
            timeout_ms: 5,
        };
        let expression = wait.expression().expect("strings are JSON");
        assert_eq!(
            expression,
            "__consentry.wait({\"text\":\"\\\"}); alert(1); ({\\\"\u{2028}</script>\\\\\",\"gone\":false,\"timeout_ms\":5})"
        );
    }

    #[test]
    fn unknown_fields_of_an_answer_are_ignored_and_stale_answers_are_typed() {
        let answer = r#"{"status":"moved","was":{"tag":"a","role":"link","name":"Bob","context":""},
            "now":{"ref":"e3","tag":"a","role":"link","name":"Carol","context":""},"why":["name"],"later":1}"#;
        let Checked::Moved { was, now, why } =
            serde_json::from_str::<Resolved>(answer).expect("an answer of the script")
        else {
            panic!("the answer is `moved`");
        };
        assert_eq!(
            (was.name.as_str(), now.description.name.as_str(), now.reference.to_string().as_str()),
            ("Bob", "Carol", "e3")
        );
        assert_eq!(why, [Change::Name]);
    }
}
