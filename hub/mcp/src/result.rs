//! Results on the wire.

use consentry_core::{Content, ToolOutput};
use consentry_wire::Failure;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Map, Value, json};

use crate::envelope::{boundary, enclose};

/// Where the structured result of a picture lies. Widely used clients show a model the structured part alone when
/// there is one, and the picture would be lost.
const STRUCTURED: &str = "com.consentry/structured";

/// A tool's output as clients get it: text, pictures, and beside them the structured result with the same text.
pub(crate) fn success(output: ToolOutput) -> CallToolResult {
    let boundary = boundary();
    let mut structured = output.structured;
    let mut pictures = false;
    let mut texts = Vec::new();
    let mut blocks = Vec::new();
    for content in output.content {
        match content {
            Content::Text(text) => texts.push(text),
            Content::Untrusted { source, text } => texts.push(enclose(&source, &text, &boundary)),
            Content::Image { mime, data } => {
                pictures = true;
                blocks.push(ContentBlock::image(data, mime));
            }
        }
    }
    if let Some(effect) = output.effect {
        structured.insert("outcome".into(), json!(effect));
    }
    let text = texts.join("\n");
    if !text.is_empty() {
        blocks.insert(0, ContentBlock::text(text.clone()));
    }
    let mut result = CallToolResult::success(blocks);
    if pictures {
        result.meta = Some(meta(structured));
    } else {
        structured.insert("text".into(), Value::String(text));
        result.structured_content = Some(Value::Object(structured));
    }
    result
}

fn meta(structured: Map<String, Value>) -> MetaObject {
    let mut meta = MetaObject::default();
    meta.0.insert(STRUCTURED.into(), Value::Object(structured));
    meta
}

/// A failure as clients get it: in-band, because models read results and rarely see protocol errors.
pub(crate) fn failure(failure: &Failure) -> CallToolResult {
    let mut text = format!("{}: {}.", failure.code, failure.message);
    if let Some(field) = &failure.field {
        text.push_str(&format!(" Field: {field}."));
    }
    if let Some(allowed) = &failure.allowed {
        text.push_str(&format!(" Allowed: {allowed}."));
    }
    if let Some(ms) = failure.retry_after_ms {
        text.push_str(&format!(" Try again after {} s.", ms.div_ceil(1000)));
    }
    text.push_str(&format!("\nNext: {}.", failure.next));
    let mut failure = failure.clone();
    if let Some(said) = failure.untrusted.take() {
        let enclosed = enclose("what was driven", &said, &boundary());
        text.push('\n');
        text.push_str(&enclosed);
        failure.untrusted = Some(enclosed);
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = serde_json::to_value(&failure).ok();
    result
}
