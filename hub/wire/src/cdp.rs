//! The DevTools allowlist: every command that Consentry ever sends, and every event that it listens to.
//!
//! Hub and extension compile the same table. What is not here is refused on both sides, so a hub that was
//! fooled cannot make the extension read cookies, and a page that was clever cannot make the hub ask.

use serde_json::{Map, Value};

/// What a command does to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Brings something of the page back.
    Reads,
    /// Can change the page.
    Acts,
    /// Neither: sets up events, emulation, capture.
    Plumbing,
}

/// What a command has to be tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Nothing of a page comes back and nothing acts.
    No,
    /// The document it was checked for: the last committed one of its frame, before and after.
    Document,
    /// As `Document`, and the browser itself is told which script context is meant.
    Context,
}

/// One command of the allowlist.
#[derive(Debug)]
pub struct Command {
    /// Its DevTools name.
    pub method: &'static str,
    /// What it does.
    pub kind: Kind,
    /// What it is tied to.
    pub bound: Bound,
    params: &'static [Param],
}

#[derive(Debug)]
struct Param {
    name: &'static str,
    required: bool,
    check: Check,
}

#[derive(Debug)]
enum Check {
    Text,
    Number,
    Flag,
    Object,
    List,
    /// Exactly this value.
    Is(fn() -> Value),
    OneOf(&'static [&'static str]),
    /// Milliseconds from 1 to the limit.
    Milliseconds(u32),
}

use Check::{Flag, Is, List, Milliseconds, Number, Object, OneOf, Text};

const fn must(name: &'static str, check: Check) -> Param {
    Param { name, required: true, check }
}

const fn may(name: &'static str, check: Check) -> Param {
    Param { name, required: false, check }
}

const fn command(method: &'static str, kind: Kind, bound: Bound, params: &'static [Param]) -> Command {
    Command { method, kind, bound, params }
}

/// The isolated world that the page script lives in.
pub const WORLD: &str = "consentry";

/// The longest that one evaluate may run.
pub const MAX_EVALUATE_MS: u32 = 120_000;

fn yes() -> Value {
    Value::Bool(true)
}

fn no() -> Value {
    Value::Bool(false)
}

fn world() -> Value {
    Value::from(WORLD)
}

/// The allowlist, sorted by name.
pub const COMMANDS: &[Command] = &[
    command("DOM.getFrameOwner", Kind::Reads, Bound::Document, &[must("frameId", Text)]),
    command(
        "DOM.resolveNode",
        Kind::Reads,
        Bound::Document,
        &[must("backendNodeId", Number), must("executionContextId", Number), may("objectGroup", Text)],
    ),
    command("Emulation.setFocusEmulationEnabled", Kind::Plumbing, Bound::No, &[must("enabled", Flag)]),
    command(
        "Input.dispatchKeyEvent",
        Kind::Acts,
        Bound::Document,
        &[
            must("type", OneOf(&["keyDown", "keyUp", "rawKeyDown", "char"])),
            may("modifiers", Number),
            may("text", Text),
            may("unmodifiedText", Text),
            may("code", Text),
            may("key", Text),
            may("windowsVirtualKeyCode", Number),
            may("nativeVirtualKeyCode", Number),
            may("autoRepeat", Flag),
            may("isKeypad", Flag),
            may("location", Number),
            may("commands", List),
        ],
    ),
    command(
        "Input.dispatchMouseEvent",
        Kind::Acts,
        Bound::Document,
        &[
            must("type", OneOf(&["mousePressed", "mouseReleased", "mouseMoved", "mouseWheel"])),
            must("x", Number),
            must("y", Number),
            may("modifiers", Number),
            may("button", OneOf(&["none", "left", "middle", "right"])),
            may("buttons", Number),
            may("clickCount", Number),
            may("deltaX", Number),
            may("deltaY", Number),
        ],
    ),
    command("Input.insertText", Kind::Acts, Bound::Document, &[must("text", Text)]),
    command("Inspector.enable", Kind::Plumbing, Bound::No, &[]),
    command(
        "Page.captureScreenshot",
        Kind::Reads,
        Bound::Document,
        &[
            may("format", OneOf(&["jpeg", "png", "webp"])),
            may("quality", Number),
            may("clip", Object),
            may("captureBeyondViewport", Flag),
            may("optimizeForSpeed", Flag),
        ],
    ),
    command(
        "Page.createIsolatedWorld",
        Kind::Plumbing,
        Bound::Document,
        &[must("frameId", Text), must("worldName", Is(world))],
    ),
    command("Page.enable", Kind::Plumbing, Bound::No, &[]),
    command("Page.getFrameTree", Kind::Plumbing, Bound::No, &[]),
    command("Page.getLayoutMetrics", Kind::Reads, Bound::Document, &[]),
    command(
        "Page.handleJavaScriptDialog",
        Kind::Acts,
        Bound::No,
        &[must("accept", Flag), may("promptText", Text)],
    ),
    command(
        "Page.startScreencast",
        Kind::Plumbing,
        Bound::No,
        &[
            must("format", OneOf(&["jpeg"])),
            must("quality", Number),
            must("maxWidth", Number),
            must("maxHeight", Number),
            must("everyNthFrame", Number),
        ],
    ),
    command("Page.stopLoading", Kind::Acts, Bound::No, &[]),
    command("Page.stopScreencast", Kind::Plumbing, Bound::No, &[]),
    command(
        "Runtime.callFunctionOn",
        Kind::Acts,
        Bound::Document,
        &[
            must("functionDeclaration", Text),
            must("objectId", Text),
            may("arguments", List),
            must("returnByValue", Is(yes)),
            may("awaitPromise", Flag),
        ],
    ),
    command("Runtime.enable", Kind::Plumbing, Bound::No, &[]),
    command(
        "Runtime.evaluate",
        Kind::Acts,
        Bound::Context,
        &[
            must("expression", Text),
            must("uniqueContextId", Text),
            must("timeout", Milliseconds(MAX_EVALUATE_MS)),
            may("returnByValue", Flag),
            may("awaitPromise", Flag),
            may("userGesture", Flag),
            may("replMode", Flag),
            may("silent", Flag),
            may("includeCommandLineAPI", Is(no)),
        ],
    ),
    command("Runtime.releaseObjectGroup", Kind::Plumbing, Bound::No, &[must("objectGroup", Text)]),
    command(
        "Target.setAutoAttach",
        Kind::Plumbing,
        Bound::No,
        &[must("autoAttach", Flag), must("flatten", Is(yes)), must("waitForDebuggerOnStart", Is(no))],
    ),
];

/// The events that pass from the browser to the hub without being asked for.
pub const EVENTS: &[&str] = &[
    "Inspector.targetCrashed",
    "Inspector.targetReloadedAfterCrash",
    "Page.domContentEventFired",
    "Page.downloadWillBegin",
    "Page.frameAttached",
    "Page.frameDetached",
    "Page.frameNavigated",
    "Page.frameRequestedNavigation",
    "Page.frameStartedLoading",
    "Page.frameStoppedLoading",
    "Page.javascriptDialogClosed",
    "Page.javascriptDialogOpening",
    "Page.loadEventFired",
    "Page.navigatedWithinDocument",
    "Runtime.executionContextCreated",
    "Runtime.executionContextDestroyed",
    "Runtime.executionContextsCleared",
    "Target.attachedToTarget",
    "Target.detachedFromTarget",
];

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not on the list.
    #[error("{0} is not on the allowlist")]
    Method(String),
    /// A parameter that the list does not know for this command.
    #[error("{method} takes no parameter {name:?}")]
    Unknown {
        /// The command.
        method: &'static str,
        /// The parameter.
        name: String,
    },
    /// A parameter that is missing or not what it must be.
    #[error("{method} needs {name} as {allowed}")]
    Param {
        /// The command.
        method: &'static str,
        /// The parameter.
        name: &'static str,
        /// What it takes.
        allowed: String,
    },
}

/// Finds a command and checks its parameters.
///
/// # Errors
/// When the command or a parameter is not on the list.
pub fn check(method: &str, params: &Map<String, Value>) -> Result<&'static Command, Refused> {
    let command = COMMANDS
        .binary_search_by(|command| command.method.cmp(method))
        .map(|at| &COMMANDS[at])
        .map_err(|_| Refused::Method(method.chars().take(80).collect()))?;
    if let Some(name) =
        params.keys().find(|name| !command.params.iter().any(|param| param.name == name.as_str()))
    {
        return Err(Refused::Unknown { method: command.method, name: name.chars().take(80).collect() });
    }
    for param in command.params {
        let fits = match params.get(param.name) {
            None => !param.required,
            Some(value) => param.check.fits(value),
        };
        if !fits {
            return Err(Refused::Param {
                method: command.method,
                name: param.name,
                allowed: param.check.words(),
            });
        }
    }
    Ok(command)
}

/// Whether an event passes to the hub.
pub fn passes(event: &str) -> bool {
    EVENTS.binary_search(&event).is_ok()
}

impl Check {
    fn fits(&self, value: &Value) -> bool {
        match self {
            Text => value.is_string(),
            Number => value.is_number(),
            Flag => value.is_boolean(),
            Object => value.is_object(),
            List => value.is_array(),
            Is(exact) => *value == exact(),
            OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Milliseconds(limit) => value.as_f64().is_some_and(|ms| ms >= 1.0 && ms <= f64::from(*limit)),
        }
    }

    fn words(&self) -> String {
        match self {
            Text => "text".into(),
            Number => "a number".into(),
            Flag => "true or false".into(),
            Object => "an object".into(),
            List => "a list".into(),
            Is(exact) => exact().to_string(),
            OneOf(words) => format!("one of {}", words.join(", ")),
            Milliseconds(limit) => format!("milliseconds from 1 to {limit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(method: &str, params: Value) -> Result<&'static Command, Refused> {
        check(method, params.as_object().unwrap())
    }

    #[test]
    fn both_lists_are_sorted_so_that_looking_up_finds() {
        assert!(COMMANDS.windows(2).all(|pair| pair[0].method < pair[1].method));
        assert!(EVENTS.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn everything_that_reads_or_acts_is_tied_to_a_document() {
        // Answering a page's own dialog and stopping a load bring nothing back and name no element.
        let free = ["Page.handleJavaScriptDialog", "Page.stopLoading"];
        for command in COMMANDS {
            let tied = command.bound != Bound::No;
            assert!(
                tied || command.kind == Kind::Plumbing || free.contains(&command.method),
                "{}",
                command.method
            );
        }
    }

    #[test]
    fn what_is_not_listed_is_refused() {
        for method in [
            "Network.getAllCookies",
            "Storage.getCookies",
            "runtime.evaluate",
            "Page.navigate",
            "",
            "Target.createTarget",
        ] {
            assert!(matches!(verdict(method, json!({})), Err(Refused::Method(_))), "{method}");
        }
        assert!(!passes("Network.responseReceived") && passes("Page.frameNavigated"));
    }

    #[test]
    fn parameters_are_checked() {
        let good = json!({"expression": "1", "uniqueContextId": "x", "timeout": 1000});
        assert!(verdict("Runtime.evaluate", good.clone()).is_ok());
        for (name, value) in [
            ("contextId", json!(3)),
            ("timeout", json!(0)),
            ("timeout", json!(9_000_000)),
            ("timeout", json!("1")),
            ("expression", json!(1)),
            ("includeCommandLineAPI", json!(true)),
        ] {
            let mut bad = good.clone();
            bad[name] = value.clone();
            assert!(verdict("Runtime.evaluate", bad).is_err(), "{name} {value}");
        }
        assert!(verdict("Runtime.evaluate", json!({"expression": "1", "timeout": 5})).is_err());
        assert!(
            verdict(
                "Page.createIsolatedWorld",
                json!({"frameId": "F", "worldName": "consentry", "grantUniveralAccess": true})
            )
            .is_err()
        );
        assert!(
            verdict(
                "Target.setAutoAttach",
                json!({"autoAttach": true, "flatten": true, "waitForDebuggerOnStart": true})
            )
            .is_err()
        );
    }
}
