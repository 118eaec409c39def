//! `press_key`.

use consentry_core::{Annotations, Content, Effective, ToolAsk};
use consentry_wire::{ErrorCode, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::click_element::{Seen, reaction};
use super::navigate_tab::tab_id;
use super::{ACTS, BrowserTool, Done, SCRIPT_LIMIT, target, without_text};
use crate::keyboard::Stroke;
use crate::outcome::{checked, guarded};
use crate::page::{Caret, Focus, Observe, TargetBy, WhatHasFocus};
use crate::session::Hands;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
    /// Enter, Tab, Escape, ArrowDown, F5, a, or a chord such as Control+A.
    key: String,
    /// Focuses this element first.
    #[serde(default, rename = "ref")]
    reference: Option<String>,
}

/// What a key did, as far as it shows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The page received the key.
    arrived: bool,
    /// The page went to another document.
    navigated: bool,
    /// Something of the page changed.
    changed: bool,
}

pub(crate) struct PressKey;

impl BrowserTool for PressKey {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "press_key";
    const TITLE: &'static str = "Press key";
    const DESCRIPTION: &'static str = "Presses a key or a chord in a tab, in the background.";
    const MARKS: Annotations = ACTS;

    /// A key that types is typed text: the audit keeps that there was one.
    fn summary(args: &Map<String, Value>) -> Map<String, Value> {
        let key = args.get("key").and_then(Value::as_str).unwrap_or_default();
        if key.chars().count() > 1 { args.clone() } else { without_text(args, "key") }
    }

    fn asks(args: &Map<String, Value>) -> ToolAsk {
        let field = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let on = if field("ref").is_empty() { "what has the focus" } else { field("ref") };
        ToolAsk { text: format!("press {} on {on}", field("key")), ..ToolAsk::default() }
    }

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let stroke = Stroke::parse(&args.key, cfg!(target_os = "macos"))?;
        let by = target(args.reference.as_deref(), None)?;
        let session = hands.tab(&tab_id(&args.tab)?).await?;
        let document = session.document()?;
        if let Some(TargetBy::Ref(reference)) = by {
            let focus = Focus { reference, select: Caret::None };
            checked(session.script(&document, &focus, SCRIPT_LIMIT).await?)?;
        }
        let state = session.script(&document, &WhatHasFocus { max_chars: 1 }, SCRIPT_LIMIT).await?;
        if let (Some(element), Some(content)) = (&state.element, &state.content)
            && content.guarded.is_some()
            && stroke.edits()
        {
            return Err(guarded(element));
        }
        let reference = state.element.map(|element| element.reference);
        session.script(&document, &Observe { reference }, SCRIPT_LIMIT).await?;
        for event in stroke.events() {
            match session.command("Input.dispatchKeyEvent", event, Some(&document)).await {
                Err(failure) if failure.code == ErrorCode::DocumentChanged => break,
                other => other.map(drop)?,
            }
        }
        let (effect, output, words) = match reaction(&session, &document).await? {
            Seen::Elsewhere => (
                Effective::Confirmed,
                Output { arrived: true, navigated: true, changed: true },
                "pressed; the page went elsewhere",
            ),
            Seen::Here(None) => (
                Effective::Unverified,
                Output { arrived: false, navigated: false, changed: false },
                "pressed; what came of it is not known",
            ),
            Seen::Here(Some(seen)) => {
                let arrived = seen.events.iter().any(|event| event.trusted && event.kind.starts_with("key"));
                let navigated = seen.url_changed || seen.navigating.is_some();
                let changed = seen.mutations > 0
                    || seen.state_changed
                    || seen.focus_changed
                    || seen.scroll_changed
                    || seen.dialogs_opened != 0
                    || navigated;
                let (effect, words) = match (arrived, changed) {
                    (true, true) => (Effective::Confirmed, "the key arrived and the page changed"),
                    (false, true) => {
                        (Effective::Unverified, "the page changed; whether by the key is not known")
                    }
                    (true, false) => (Effective::Unverified, "the key arrived; nothing changed that shows"),
                    (false, false) => (Effective::NoEffect, "the key did not arrive and nothing changed"),
                };
                (effect, Output { arrived, navigated, changed }, words)
            }
        };
        Ok(Done {
            content: vec![Content::Text(words.into())],
            output,
            target: Some(session.origin()),
            effect: Some(effect),
        })
    }
}
