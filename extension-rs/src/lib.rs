//! The browser extension: it holds `chrome.debugger` and obeys the hub within its grants.
//!
//! One WebAssembly module serves the service worker, the popup and the options page; `static/` has the few
//! lines of JavaScript that load it.
//!
//! Invariants:
//! - No frame is obeyed before a hub has proved itself and taken the link; when it is lost every tab is let
//!   go of and every grant forgotten.
//! - Everything that the hub wants passes [`guard`] first, which repeats the hub's own checks and trusts none
//!   of them.
//! - The owner's Stop works here and at once, whatever the hub does.
//! - Listeners stand before the worker's first turn ends.
//!
//! It must never keep a grant beyond the worker's life, or anything of a page.

mod chrome;
mod debugger;
mod guard;
mod link;
mod ui;
mod worker;

use wasm_bindgen::prelude::*;

/// The service worker's beginning.
#[wasm_bindgen]
pub fn worker() {
    chrome::survive_panics();
    worker::start();
}

/// The beginning of the popup and of the options page.
#[wasm_bindgen]
pub fn page() {
    ui::start();
}
