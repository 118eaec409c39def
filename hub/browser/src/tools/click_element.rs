//! `click_element`.

use std::time::Duration;

use consentry_core::{Annotations, Content, Effective, ToolAsk};
use consentry_wire::document::DocumentId;
use consentry_wire::{ErrorCode, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::navigate_tab::tab_id;
use super::{ACTS, BrowserTool, Done, SCRIPT_LIMIT, target};
use crate::outcome::located;
use crate::page::{Call as _, EndObservation, Locate, Observation, Observe, Purpose, Target};
use crate::session::{Hands, PageSession, odd};

/// How long a page may take to show that a click did something.
const REACTION: Duration = Duration::from_millis(30);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
    /// From read_page; or else `selector`.
    #[serde(default, rename = "ref")]
    reference: Option<String>,
    /// A CSS selector that matches one visible element.
    #[serde(default)]
    selector: Option<String>,
    /// left if absent.
    #[serde(default)]
    button: Option<Button>,
    /// 2 for a double click.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3))]
    count: Option<u8>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Button {
    Left,
    Middle,
    Right,
}

impl Button {
    fn name(self) -> (&'static str, u8) {
        match self {
            Button::Left => ("left", 1),
            Button::Right => ("right", 2),
            Button::Middle => ("middle", 4),
        }
    }
}

/// What a click did, as far as it shows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The element that was clicked.
    #[serde(rename = "ref")]
    reference: String,
    /// The click was seen arriving at the element.
    arrived: bool,
    /// The page went to another document.
    navigated: bool,
    /// Something of the page changed.
    changed: bool,
}

pub(crate) struct ClickElement;

impl BrowserTool for ClickElement {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "click_element";
    const TITLE: &'static str = "Click element";
    const DESCRIPTION: &'static str = "Scrolls to an element and clicks it as a person would, in the background. A ref \
        whose element was replaced or is about something else now is refused.";
    const MARKS: Annotations = ACTS;

    fn asks(args: &Map<String, Value>) -> ToolAsk {
        let field = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        ToolAsk {
            text: format!("click {}{} {}", field("ref"), field("selector"), field("button")),
            ..ToolAsk::default()
        }
    }

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let by = target(args.reference.as_deref(), args.selector.as_deref())?
            .ok_or_else(|| Failure::argument("ref", "no element is named", "ref or selector"))?;
        let count = args.count.unwrap_or(1);
        if !(1..=3).contains(&count) {
            return Err(Failure::argument("count", format!("count is {count}"), "1 to 3"));
        }
        let session = hands.tab(&tab_id(&args.tab)?).await?;
        let document = session.document()?;
        let locate = Locate { target: by, purpose: Purpose::Click };
        let at = locate_and_watch(&session, &document, &locate).await?;
        let (button, buttons) = args.button.unwrap_or(Button::Left).name();
        press(&session, &document, &at, button, buttons, count).await?;
        let seen = reaction(&session, &document).await?;
        let (effect, output, words) = judge(&at, seen);
        Ok(Done {
            content: vec![Content::Text(words)],
            output,
            target: Some(session.origin()),
            effect: Some(effect),
        })
    }
}

/// Finds the element and begins to watch it, in one go: nothing comes between.
pub(super) async fn locate_and_watch(
    session: &PageSession<'_>,
    document: &DocumentId,
    locate: &Locate,
) -> Result<Target, Failure> {
    let call = locate.expression().map_err(|error| odd(&error.to_string()))?;
    let watch = Observe::FUNCTION;
    let expression = format!(
        "(async()=>{{const found=await {call};if(found.status==='ok')__consentry.{watch}({{ref:found.ref}});return found}})()"
    );
    let answer = session.script_raw(document, expression, SCRIPT_LIMIT).await?;
    located(serde_json::from_value(answer).map_err(|error| odd(&error.to_string()))?)
}

/// Moves there, presses and lets go.
pub(super) async fn press(
    session: &PageSession<'_>,
    document: &DocumentId,
    at: &Target,
    button: &str,
    buttons: u8,
    count: u8,
) -> Result<(), Failure> {
    let (x, y) = (at.point.x, at.point.y);
    let send = |kind: &'static str, held: u8, click: u8| {
        let button = if kind == "mouseMoved" { "none" } else { button };
        let params =
            json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": held, "clickCount": click });
        session.command("Input.dispatchMouseEvent", params, Some(document))
    };
    // All of them at once, in order: a hidden tab handles a lone movement only when its timer lets it, a second later,
    // and a press brings what waits before it along.
    let mut strokes = vec![send("mouseMoved", 0, 0)];
    for click in 1..=count {
        strokes.push(send("mousePressed", buttons, click));
        strokes.push(send("mouseReleased", 0, click));
    }
    for done in futures_util::future::join_all(strokes).await {
        match done {
            // The click itself made the page go elsewhere: that is an effect, not a failure.
            Err(failure) if failure.code == ErrorCode::DocumentChanged => break,
            other => other.map(drop)?,
        }
    }
    Ok(())
}

/// What a page showed of an action.
pub(super) enum Seen {
    /// It went to another document.
    Elsewhere,
    /// This much.
    Here(Option<Observation>),
}

/// Looks what came of an action.
pub(super) async fn reaction(session: &PageSession<'_>, document: &DocumentId) -> Result<Seen, Failure> {
    tokio::time::sleep(REACTION).await;
    let still_there = session.document().is_ok_and(|now| now == *document);
    if !still_there {
        return Ok(Seen::Elsewhere);
    }
    match session.script(document, &EndObservation {}, SCRIPT_LIMIT).await {
        Ok(observation) => Ok(Seen::Here(observation)),
        Err(failure) if failure.code == ErrorCode::DocumentChanged => Ok(Seen::Elsewhere),
        Err(failure) => Err(failure.maybe_done()),
    }
}

fn judge(at: &Target, seen: Seen) -> (Effective, Output, String) {
    let reference = at.element.reference.to_string();
    let output =
        |arrived, navigated, changed| Output { reference: reference.clone(), arrived, navigated, changed };
    match seen {
        Seen::Elsewhere => (
            Effective::Confirmed,
            output(true, true, true),
            format!("clicked {reference}; the page went elsewhere"),
        ),
        Seen::Here(None) => (
            Effective::Unverified,
            output(false, false, false),
            format!("clicked {reference}; what came of it is not known"),
        ),
        Seen::Here(Some(seen)) => {
            let arrived = seen.events.iter().any(|event| event.on_target && event.trusted);
            let elsewhere = !arrived && seen.events.iter().any(|event| event.trusted);
            let navigated = seen.url_changed || seen.navigating.is_some();
            let changed = seen.target_mutations > 0
                || seen.state_changed
                || !seen.connected
                || seen.focus_changed
                || seen.dialogs_opened != 0
                || navigated
                || (arrived && seen.mutations > 0);
            let (effect, words) = match (arrived, changed) {
                (true, true) => (Effective::Confirmed, "the click arrived and the page changed"),
                (true, false) => (Effective::Unverified, "the click arrived; nothing changed that shows"),
                (false, _) if elsewhere => {
                    (Effective::Unverified, "but something else came into its place and took the click")
                }
                (false, true) => {
                    (Effective::Unverified, "the page changed; whether by the click is not known")
                }
                (false, false) => (Effective::NoEffect, "the click did not arrive and nothing changed"),
            };
            let navigating = if navigated { "; it navigates" } else { "" };
            (effect, output(arrived, navigated, changed), format!("clicked {reference}; {words}{navigating}"))
        }
    }
}
