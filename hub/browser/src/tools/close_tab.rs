//! `close_tab`.

use consentry_core::{Annotations, Content, Effective};
use consentry_wire::frame::Op;
use consentry_wire::{ErrorCode, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::navigate_tab::tab_id;
use super::{ACTS, BrowserTool, Done};
use crate::session::{Hands, unknown_tab};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
}

/// Whether the tab is closed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    closed: bool,
}

pub(crate) struct CloseTab;

impl BrowserTool for CloseTab {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "close_tab";
    const TITLE: &'static str = "Close tab";
    const DESCRIPTION: &'static str = "Closes a tab that was opened under this grant.";
    const MARKS: Annotations = Annotations { idempotent: true, ..ACTS };

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let tab = tab_id(&args.tab)?;
        let listed = |tabs: &[consentry_wire::frame::TabInfo]| tabs.iter().any(|info| info.tab == tab.number);
        hands.browsers()?;
        if hands.tabs.opened_by(&tab).as_ref() != Some(hands.permit.label()) {
            if !listed(&hands.list(&tab.profile).await?) {
                return Err(unknown_tab(&tab));
            }
            let message = format!("{tab} was not opened under this grant, and only such tabs are closed");
            return Err(Failure::new(ErrorCode::Forbidden, message).next("leave it open"));
        }
        hands.op(&tab.profile, Op::Close { tab: tab.number }).await?;
        let closed = !listed(&hands.list(&tab.profile).await?);
        let text = if closed {
            format!("closed {tab}")
        } else {
            format!("{tab} is still open: the page may hold it back")
        };
        Ok(Done {
            content: vec![Content::Text(text)],
            output: Output { closed },
            target: None,
            effect: Some(if closed { Effective::Confirmed } else { Effective::NoEffect }),
        })
    }
}
