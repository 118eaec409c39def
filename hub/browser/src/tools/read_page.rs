//! `read_page`.

use consentry_core::{Annotations, Content};
use consentry_wire::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::navigate_tab::tab_id;
use super::{BrowserTool, Done, READS, SCRIPT_LIMIT};
use crate::outcome::checked;
use crate::page::{Mode, Read};
use crate::session::Hands;

/// Characters of one answer, unless the caller says.
const DEFAULT_CHARS: u32 = 30_000;
/// Characters of one answer at most.
const MAX_CHARS: u32 = 1_000_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
    /// outline (default): one line a node, with refs; text: as a person reads it.
    #[serde(default)]
    mode: Option<ReadMode>,
    /// Only what can be acted upon, and what tells it apart.
    #[serde(default)]
    interactive_only: bool,
    /// Only this element and what is in it.
    #[serde(default, rename = "ref")]
    reference: Option<String>,
    /// 30000 if absent.
    #[serde(default)]
    #[schemars(range(min = 200, max = 1_000_000))]
    max_chars: Option<u32>,
    /// From the answer before: goes on where that ended.
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ReadMode {
    Outline,
    Text,
}

/// One page of a reading.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The page's address.
    url: String,
    /// Goes on reading; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// The page changed since the answer that `cursor` came from.
    changed: bool,
    /// Characters of the whole.
    total_chars: u64,
}

pub(crate) struct ReadPage;

impl BrowserTool for ReadPage {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "read_page";
    const TITLE: &'static str = "Read page";
    const DESCRIPTION: &'static str = "Reads a tab as an outline whose refs (e12) the other tools take, or as text. \
        Works in the background. A ref names its element as long as the document lives.";
    const MARKS: Annotations = READS;

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let max_chars = args.max_chars.unwrap_or(DEFAULT_CHARS);
        if !(200..=MAX_CHARS).contains(&max_chars) {
            return Err(Failure::argument(
                "max_chars",
                format!("max_chars is {max_chars}"),
                "200 to 1000000",
            ));
        }
        let root = match super::target(args.reference.as_deref(), None)? {
            Some(crate::page::TargetBy::Ref(root)) => Some(root),
            _ => None,
        };
        let session = hands.tab(&tab_id(&args.tab)?).await?;
        let mode = match args.mode {
            Some(ReadMode::Text) => Mode::Text,
            Some(ReadMode::Outline) | None => Mode::Outline,
        };
        let read = Read {
            mode,
            interactive_only: args.interactive_only,
            links: false,
            max_chars,
            cursor: args.cursor,
            root,
        };
        let document = session.document()?;
        let page = checked(session.script(&document, &read, SCRIPT_LIMIT).await?)?;
        let mut head = format!("{} characters", page.total_chars);
        if let Some(cursor) = &page.cursor {
            head.push_str(&format!("; more with cursor {cursor}"));
        }
        if page.changed {
            head.push_str("; the page changed since the answer before, so the parts may not fit together");
        }
        if page.omitted > 0 {
            head.push_str(&format!("; {} parts nested too deeply are left out", page.omitted));
        }
        let origin = session.origin();
        let text = format!("{}\n{}\n{}", consentry_gate::clean(&page.title), page.url, page.text);
        Ok(Done {
            content: vec![Content::Text(head), Content::Untrusted { source: origin.clone(), text }],
            output: Output {
                url: page.url,
                cursor: page.cursor,
                changed: page.changed,
                total_chars: page.total_chars,
            },
            target: Some(origin),
            effect: None,
        })
    }
}
