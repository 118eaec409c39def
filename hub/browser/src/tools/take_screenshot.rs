//! `take_screenshot`.

use consentry_core::{Annotations, Content};
use consentry_wire::{ErrorCode, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::navigate_tab::tab_id;
use super::{BrowserTool, Done, READS, SCRIPT_LIMIT};
use crate::session::{Hands, PageSession, odd};

/// The largest side of a picture of a whole page, in CSS pixels: browsers draw no larger.
const MAX_SIDE: f64 = 16_384.0;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
    /// The whole page instead of what is in view.
    #[serde(default)]
    full_page: bool,
    /// jpeg if absent.
    #[serde(default)]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    Jpeg,
    Png,
    Webp,
}

/// What the picture shows, in CSS pixels of the page: one pixel of the picture is one of the page.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// The page is longer than any picture can be.
    cut: bool,
}

pub(crate) struct TakeScreenshot;

impl BrowserTool for TakeScreenshot {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "take_screenshot";
    const TITLE: &'static str = "Take screenshot";
    const DESCRIPTION: &'static str =
        "Takes a picture of a tab, also in the background, scaled to CSS pixels.";
    const MARKS: Annotations = READS;

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let session = hands.tab(&tab_id(&args.tab)?).await?;
        let document = session.document()?;
        let metrics = session.command("Page.getLayoutMetrics", json!({}), Some(&document)).await?;
        let ratio = session
            .script_raw(&document, "devicePixelRatio".into(), SCRIPT_LIMIT)
            .await?
            .as_f64()
            .unwrap_or(1.0);
        let output = area(&metrics, args.full_page)?;
        let clip = json!({
            "x": output.x, "y": output.y, "width": output.width, "height": output.height, "scale": 1.0 / ratio.max(0.1),
        });
        let (format, mime) = match args.format.unwrap_or(Format::Jpeg) {
            Format::Jpeg => ("jpeg", "image/jpeg"),
            Format::Png => ("png", "image/png"),
            Format::Webp => ("webp", "image/webp"),
        };
        let mut params = json!({ "format": format, "clip": clip, "captureBeyondViewport": args.full_page });
        if format != "png" {
            params["quality"] = json!(80);
        }
        let mut picture = capture(&session, params, &document).await?;
        let Value::String(data) = picture["data"].take() else { return Err(odd("no picture")) };
        let size = format!("{}×{}", output.width, output.height);
        let cut = if output.cut { ", cut: the page is longer" } else { "" };
        Ok(Done {
            content: vec![Content::Text(format!("{size} CSS pixels{cut}")), Content::Image { mime, data }],
            output,
            target: Some(session.origin()),
            effect: None,
        })
    }
}

/// A hidden tab draws nothing, and a capture of it waits for ever: a screencast that nobody watches makes it draw.
async fn capture(
    session: &PageSession<'_>,
    params: Value,
    document: &consentry_wire::document::DocumentId,
) -> Result<Value, Failure> {
    let hold =
        json!({ "format": "jpeg", "quality": 10, "maxWidth": 64, "maxHeight": 64, "everyNthFrame": 1000 });
    session.command("Page.startScreencast", hold, None).await?;
    let picture = session.command("Page.captureScreenshot", params, Some(document)).await;
    // Whatever came of it, the tab draws no more than it has to.
    let stopped = session.command("Page.stopScreencast", json!({}), None).await;
    let picture = picture?;
    stopped.map_err(
        |failure| if failure.code == ErrorCode::GrantEnded { failure } else { failure.maybe_done() },
    )?;
    Ok(picture)
}

fn area(metrics: &Value, full_page: bool) -> Result<Output, Failure> {
    let number = |area: &Value, name: &str| area[name].as_f64().ok_or_else(|| odd("no size of the page"));
    if full_page {
        let size = &metrics["cssContentSize"];
        let (width, height) = (number(size, "width")?, number(size, "height")?);
        let cut = width > MAX_SIDE || height > MAX_SIDE;
        return Ok(Output { x: 0.0, y: 0.0, width: width.min(MAX_SIDE), height: height.min(MAX_SIDE), cut });
    }
    let view = &metrics["cssVisualViewport"];
    Ok(Output {
        x: number(view, "pageX")?,
        y: number(view, "pageY")?,
        width: number(view, "clientWidth")?,
        height: number(view, "clientHeight")?,
        cut: false,
    })
}
