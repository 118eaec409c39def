//! How the link stands, as both pages show it.

use js_sys::futures::spawn_local;

use super::dom::Page;
use super::snapshot::{Order, Snapshot};
use crate::chrome::{self, ChromeError, runtime};
use crate::link::status::Status;

/// Asks the worker, which the question wakes if need be.
pub(super) async fn ask(order: Order) -> Result<Snapshot, ChromeError> {
    chrome::fetch(runtime::send_message(&chrome::to_js(&order))).await
}

/// Shows it.
pub(super) fn show(page: &Page, snapshot: &Snapshot) {
    let mut words = snapshot.status.words();
    let linked = matches!(snapshot.status, Status::Linked { .. });
    if linked && snapshot.disabled {
        words.headline = "Disabled".to_owned();
        words.detail = "You turned everything off. Turn it on again at the machine:".to_owned();
        words.command = Some("consentry enable".to_owned());
    }
    page.set_text("headline", &words.headline);
    page.set_text("detail", &words.detail);
    page.show("remedy", words.command.is_some());
    page.set_text("command", words.command.as_deref().unwrap_or_default());
    let dot = match &snapshot.status {
        Status::Linked { .. } if snapshot.disabled => "dot trouble",
        Status::Linked { .. } if snapshot.calls > 0 => "dot busy",
        Status::Linked { .. } => "dot linked",
        Status::Connecting => "dot",
        Status::HubGone { .. } | Status::Down { .. } => "dot trouble",
    };
    if let Some(element) = page.find("dot") {
        element.set_class_name(dot);
    }
}

/// Makes the button beside a command copy it.
pub(super) fn let_copy(page: &Page) {
    let here = page.clone();
    page.on_click("copy", move || {
        let text = here.find("command").and_then(|command| command.text_content()).unwrap_or_default();
        let here = here.clone();
        spawn_local(async move {
            let copied = chrome::settle(chrome::write_clipboard(&text)).await;
            here.set_text("copy", if copied.is_ok() { "Copied" } else { "Select it" });
        });
    });
}
