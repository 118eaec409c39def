//! `evaluate_script`.

use std::time::Duration;

use consentry_core::{Annotations, Content, Effective, ToolAsk};
use consentry_wire::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::navigate_tab::tab_id;
use super::{ACTS, BrowserTool, Done, without_text};
use crate::session::Hands;

/// The longest script, in characters.
const MAX_SCRIPT: usize = 100_000;
/// The longest result, in characters.
const MAX_RESULT: usize = 100_000;
/// How long a script may run if the caller does not say, and at most.
const DEFAULT_MS: u32 = 10_000;
const MAX_MS: u32 = 60_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
    /// An expression; a promise is waited for. The result must be JSON.
    expression: String,
    /// 10000 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 60_000))]
    timeout_ms: Option<u32>,
}

/// What the script gave.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Its type in JavaScript.
    kind: String,
    /// The result was longer than fits and is cut.
    cut: bool,
}

pub(crate) struct EvaluateScript;

impl BrowserTool for EvaluateScript {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "evaluate_script";
    const TITLE: &'static str = "Evaluate script";
    const DESCRIPTION: &'static str = "Runs JavaScript as the page. The owner is shown the whole script and asked, unless they switched that off.";
    const MARKS: Annotations = ACTS;

    fn summary(args: &Map<String, Value>) -> Map<String, Value> {
        without_text(args, "expression")
    }

    fn check(args: &Args) -> Result<(), Failure> {
        let chars = args.expression.chars().count();
        if chars > MAX_SCRIPT {
            let message = format!("the script has {chars} characters");
            return Err(Failure::argument("expression", message, format!("at most {MAX_SCRIPT}")));
        }
        let timeout_ms = args.timeout_ms.unwrap_or(DEFAULT_MS);
        if !(1..=MAX_MS).contains(&timeout_ms) {
            return Err(Failure::argument("timeout_ms", format!("timeout_ms is {timeout_ms}"), "1 to 60000"));
        }
        Ok(())
    }

    fn asks(args: &Map<String, Value>) -> ToolAsk {
        let field = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        ToolAsk { text: field("expression"), ..ToolAsk::default() }
    }

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let timeout_ms = args.timeout_ms.unwrap_or(DEFAULT_MS);
        let session = hands.tab(&tab_id(&args.tab)?).await?;
        let document = session.document()?;
        let context = session.page_context(&document).await?;
        let limit = Duration::from_millis(u64::from(timeout_ms));
        let result = session.evaluate(&document, &context, args.expression, true, limit).await?;
        let kind = result["subtype"].as_str().or(result["type"].as_str()).unwrap_or("undefined").to_owned();
        let text = match (
            result.get("value"),
            result["unserializableValue"].as_str(),
            result["description"].as_str(),
        ) {
            (Some(value), _, _) => value.to_string(),
            (None, Some(special), _) => special.to_owned(),
            (None, None, Some(description)) => description.to_owned(),
            (None, None, None) => "undefined".to_owned(),
        };
        let cut = text.chars().count() > MAX_RESULT;
        let text: String = if cut { text.chars().take(MAX_RESULT).collect() } else { text };
        let origin = session.origin();
        let mut content = vec![Content::Untrusted { source: origin.clone(), text }];
        if cut {
            content.push(Content::Text(format!("cut after {MAX_RESULT} characters: return less")));
        }
        Ok(Done {
            content,
            output: Output { kind, cut },
            target: Some(origin),
            effect: Some(Effective::Unverified),
        })
    }
}
