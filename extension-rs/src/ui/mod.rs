//! What the owner sees: the badge, the popup and the options page.

pub(crate) mod badge;
mod dom;
mod options;
mod popup;
pub(crate) mod snapshot;
mod standing;

/// Starts the page that this is loaded into.
pub(crate) fn start() {
    let Some(page) = dom::Page::here() else { return };
    match page.name().as_str() {
        "popup" => popup::start(page),
        "options-page" => options::start(page),
        _ => {}
    }
}
