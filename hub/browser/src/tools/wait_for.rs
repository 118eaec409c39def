//! `wait_for`.

use std::time::Duration;

use consentry_core::{Annotations, Content};
use consentry_wire::{ErrorCode, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::navigate_tab::tab_id;
use super::{BrowserTool, Done, READS, without_text};
use crate::page::{Ref, Wait, WaitFor};
use crate::session::Hands;

/// The longest wait of one call.
const MAX_MS: u32 = 120_000;
/// How long is waited if the caller does not say.
const DEFAULT_MS: u32 = 10_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
    /// Visible text that contains this.
    #[serde(default)]
    text: Option<String>,
    /// A visible element by CSS selector.
    #[serde(default)]
    selector: Option<String>,
    #[serde(default, rename = "ref")]
    reference: Option<String>,
    /// An address that contains this.
    #[serde(default)]
    url: Option<String>,
    /// Waits for it to be gone.
    #[serde(default)]
    gone: bool,
    /// 10000 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 120_000))]
    timeout_ms: Option<u32>,
}

/// What came to pass.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The element that matched, if there is one.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    /// How long it took.
    waited_ms: u64,
}

pub(crate) struct WaitForTool;

impl BrowserTool for WaitForTool {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "wait_for";
    const TITLE: &'static str = "Wait for";
    const DESCRIPTION: &'static str =
        "Waits until a text, an element or an address is there, or gone. Give one of them.";
    const MARKS: Annotations = READS;

    fn summary(args: &Map<String, Value>) -> Map<String, Value> {
        without_text(&without_text(args, "text"), "url")
    }

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let timeout_ms = args.timeout_ms.unwrap_or(DEFAULT_MS);
        if !(1..=MAX_MS).contains(&timeout_ms) {
            return Err(Failure::argument(
                "timeout_ms",
                format!("timeout_ms is {timeout_ms}"),
                "1 to 120000",
            ));
        }
        let what = match (args.text, args.selector, args.reference, args.url) {
            (Some(text), None, None, None) => WaitFor::Text(text),
            (None, Some(selector), None, None) => WaitFor::Selector(selector),
            (None, None, Some(reference), None) => {
                WaitFor::Ref(reference.parse::<Ref>().map_err(|error| {
                    Failure::argument("ref", error.to_string(), "a ref that read_page gave, such as e12")
                })?)
            }
            (None, None, None, Some(url)) => WaitFor::Url(url),
            _ => {
                let message = "one thing to wait for is needed";
                return Err(Failure::argument("text", message, "one of text, selector, ref and url"));
            }
        };
        let session = hands.tab(&tab_id(&args.tab)?).await?;
        let started = Instant::now();
        let end = started + Duration::from_millis(u64::from(timeout_ms));
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let wait = Wait {
                what: what.clone(),
                gone: args.gone,
                timeout_ms: u32::try_from(left.as_millis()).unwrap_or(MAX_MS).max(1),
            };
            let document = session.document()?;
            match session.script(&document, &wait, left + Duration::from_secs(1)).await {
                Ok(waited) if waited.error.is_some() => {
                    let allowed = "a CSS selector such as button[type=submit]";
                    return Err(Failure::argument("selector", "that is no CSS selector", allowed));
                }
                Ok(waited) if waited.found => {
                    let reference = waited.reference.map(|reference| reference.to_string());
                    let waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                    let at =
                        reference.as_ref().map(|reference| format!(" at {reference}")).unwrap_or_default();
                    return Ok(Done {
                        content: vec![Content::Text(format!("it is so{at}, after {waited_ms} ms"))],
                        output: Output { reference, waited_ms },
                        target: Some(session.origin()),
                        effect: None,
                    });
                }
                // The page went elsewhere: waits on in the new document.
                Err(failure) if failure.code == ErrorCode::DocumentChanged && Instant::now() < end => {
                    session.settled(Some(&document), left).await?;
                    session.allow_current().await?;
                }
                Err(failure) => return Err(failure),
                Ok(_) => {
                    return Err(Failure::new(
                        ErrorCode::WaitTimedOut,
                        format!("it was not so within {timeout_ms} ms"),
                    ));
                }
            }
            if Instant::now() >= end {
                return Err(Failure::new(
                    ErrorCode::WaitTimedOut,
                    format!("it was not so within {timeout_ms} ms"),
                ));
            }
        }
    }
}
