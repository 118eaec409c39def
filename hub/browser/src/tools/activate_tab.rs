//! `activate_tab`: the only tool that takes focus.

use consentry_core::{Annotations, Content, Effective};
use consentry_wire::Failure;
use consentry_wire::frame::Op;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::navigate_tab::tab_id;
use super::{BrowserTool, Done, MOVES};
use crate::session::Hands;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    tab: String,
}

/// Whether the tab is in front now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    active: bool,
}

pub(crate) struct ActivateTab;

impl BrowserTool for ActivateTab {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "activate_tab";
    const TITLE: &'static str = "Activate tab";
    const DESCRIPTION: &'static str = "Brings a tab to the front. It takes the owner's focus and no other tool needs it: only for showing something.";
    const MARKS: Annotations = Annotations { idempotent: true, ..MOVES };

    async fn run(hands: Hands<'_>, args: Args) -> Result<Done<Output>, Failure> {
        let tab = tab_id(&args.tab)?;
        let session = hands.tab(&tab).await?;
        hands.op(&tab.profile, Op::Activate { tab: tab.number }).await?;
        let active = hands.list(&tab.profile).await?.iter().any(|info| info.tab == tab.number && info.active);
        let text = if active { format!("{tab} is in front") } else { format!("{tab} is not in front") };
        Ok(Done {
            content: vec![Content::Text(text)],
            output: Output { active },
            target: Some(session.origin()),
            effect: Some(if active { Effective::Confirmed } else { Effective::NoEffect }),
        })
    }
}
