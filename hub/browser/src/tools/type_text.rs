//! `type_text`.

use consentry_core::{Annotations, Content, Effective, ToolAsk};
use consentry_wire::document::DocumentId;
use consentry_wire::{ErrorCode, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::navigate_tab::tab_id;
use super::{ACTS, BrowserTool, Done, SCRIPT_LIMIT, target, without_text};
use crate::keyboard::Stroke;
use crate::outcome::{checked, guarded, located};
use crate::page::{Caret, Content as FieldContent, Focus, FocusState, Locate, Purpose, WhatHasFocus};
use crate::session::{Hands, PageSession};

/// The longest text of one call, in characters.
const MAX_TEXT: usize = 100_000;
/// How much of a field is read back.
const READ_BACK: u32 = 200_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
    /// A newline is a real Enter.
    text: String,
    /// From read_page; without it and selector: into what has the focus.
    #[serde(default, rename = "ref")]
    reference: Option<String>,
    #[serde(default)]
    selector: Option<String>,
    /// Replaces what is there instead of adding to it.
    #[serde(default)]
    clear: bool,
}

/// What the field holds now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The field, if the page is still there.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    /// Characters that the field holds now.
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    /// The page went to another document, as after Enter in a search field.
    navigated: bool,
}

pub(crate) struct TypeText;

impl BrowserTool for TypeText {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "type_text";
    const TITLE: &'static str = "Type text";
    const DESCRIPTION: &'static str = "Types into a field and reads back what it holds. Never into password, \
        one-time-code or card fields.";
    const MARKS: Annotations = ACTS;

    fn summary(args: &Map<String, Value>) -> Map<String, Value> {
        without_text(args, "text")
    }

    fn asks(args: &Map<String, Value>) -> ToolAsk {
        let field = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let into = [field("ref"), field("selector")].concat();
        let into = if into.is_empty() { "what has the focus".to_owned() } else { into };
        let instead = if args.get("clear").is_some_and(|clear| clear == true) {
            ", replacing what is there"
        } else {
            ""
        };
        ToolAsk { text: format!("type into {into}{instead}:\n{}", field("text")), ..ToolAsk::default() }
    }

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let chars = args.text.chars().count();
        if chars > MAX_TEXT {
            return Err(Failure::argument(
                "text",
                format!("the text has {chars} characters"),
                format!("at most {MAX_TEXT}"),
            ));
        }
        let by = target(args.reference.as_deref(), args.selector.as_deref())?;
        let session = hands.tab(&tab_id(&args.tab)?).await?;
        let document = session.document()?;
        if let Some(by) = by {
            let locate = Locate { target: by, purpose: Purpose::Type };
            let found = located(session.script(&document, &locate, SCRIPT_LIMIT).await?)?;
            let select = if args.clear { Caret::All } else { Caret::End };
            let focus = Focus { reference: found.element.reference, select };
            if !checked(session.script(&document, &focus, SCRIPT_LIMIT).await?)?.focused {
                // Some fields take the focus only from a click.
                super::click_element::press(&session, &document, &found, "left", 1, 1).await?;
                checked(session.script(&document, &focus, SCRIPT_LIMIT).await?)?;
            }
        } else if args.clear {
            let reference = focused(&session, &document).await?.0;
            checked(
                session.script(&document, &Focus { reference, select: Caret::All }, SCRIPT_LIMIT).await?,
            )?;
        }
        let (reference, before) = focused(&session, &document).await?;
        let elsewhere = enter(&session, &document, &args.text).await?;
        if elsewhere {
            let output = Output { reference: None, length: None, navigated: true };
            return Ok(done(&session, "typed; the page went elsewhere", output, Effective::Unverified));
        }
        let after = match focused_state(&session, &document).await {
            Ok(state) if state.content.as_ref().is_some_and(|content| content.guarded.is_some()) => {
                let message = "the page moved the focus while it was typed: the text may be in a password, one-time-code or card field now";
                return Err(Failure::new(ErrorCode::GuardedField, message).maybe_done());
            }
            Ok(state) => state.content,
            Err(failure) if failure.code == ErrorCode::DocumentChanged => None,
            Err(failure) => return Err(failure.maybe_done()),
        };
        let (effect, words) = judge(&before, after.as_ref(), &args.text, args.clear);
        let length = after.and_then(|content| content.length);
        let output = Output { reference: Some(reference.to_string()), length, navigated: false };
        Ok(done(&session, words, output, effect))
    }
}

fn done(session: &PageSession<'_>, words: &str, output: Output, effect: Effective) -> Done<Output> {
    Done {
        content: vec![Content::Text(words.to_owned())],
        output,
        target: Some(session.origin()),
        effect: Some(effect),
    }
}

async fn focused_state(session: &PageSession<'_>, document: &DocumentId) -> Result<FocusState, Failure> {
    session.script(document, &WhatHasFocus { max_chars: READ_BACK }, SCRIPT_LIMIT).await
}

/// What has the focus, if it takes text and is not guarded.
pub(super) async fn focused(
    session: &PageSession<'_>,
    document: &DocumentId,
) -> Result<(crate::page::Ref, FieldContent), Failure> {
    let state = focused_state(session, document).await?;
    let nothing = || {
        Failure::new(ErrorCode::NotActionable, "nothing that takes text has the focus")
            .next("name the field by ref")
    };
    let (Some(element), Some(content)) = (state.element, state.content) else { return Err(nothing()) };
    if content.guarded.is_some() {
        return Err(guarded(&element));
    }
    if !state.editable {
        return Err(nothing());
    }
    Ok((element.reference, content))
}

/// Puts the text in, line by line, with a real Enter between. Says whether the page went elsewhere meanwhile.
async fn enter(session: &PageSession<'_>, document: &DocumentId, text: &str) -> Result<bool, Failure> {
    let mut started = false;
    for (at, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if at > 0 {
            for event in Stroke::enter().events() {
                match session.command("Input.dispatchKeyEvent", event, Some(document)).await {
                    Err(failure) if failure.code == ErrorCode::DocumentChanged => return Ok(true),
                    other => other.map(drop).map_err(Failure::maybe_done)?,
                }
            }
            started = true;
            // What has the focus may be another field now, or a guarded one.
            if !line.is_empty() {
                match focused(session, document).await {
                    Err(failure) if failure.code == ErrorCode::DocumentChanged => return Ok(true),
                    other => other.map(drop).map_err(Failure::maybe_done)?,
                }
            }
        }
        if !line.is_empty() {
            let typed = session.command("Input.insertText", json!({ "text": line }), Some(document)).await;
            typed.map_err(|failure| if started { failure.maybe_done() } else { failure })?;
            started = true;
        }
    }
    Ok(session.document().map_or(true, |now| now != *document))
}

/// Compares what the field held with what it holds: white space aside, for editors keep theirs in their own way.
fn judge(
    before: &FieldContent,
    after: Option<&FieldContent>,
    text: &str,
    clear: bool,
) -> (Effective, &'static str) {
    let squeeze =
        |text: &str| text.chars().filter(|c| !c.is_whitespace() && *c != '\u{200b}').collect::<String>();
    let Some(after) = after.and_then(|content| content.value.as_deref()) else {
        return (Effective::Unverified, "typed; the field cannot be read back");
    };
    let (was, is, typed) =
        (squeeze(before.value.as_deref().unwrap_or_default()), squeeze(after), squeeze(text));
    let expected = if clear { is == typed } else { is.contains(&typed) && is.len() >= was.len() };
    if expected && (is != was || typed.is_empty()) {
        (Effective::Confirmed, "typed; the field holds it")
    } else if is == was && !typed.is_empty() && !(clear && was == typed) {
        (Effective::NoEffect, "the field did not take the text")
    } else if clear && is == typed {
        (Effective::Confirmed, "the field holds it")
    } else {
        (Effective::Unverified, "typed; the field holds something else, as after formatting or completion")
    }
}
