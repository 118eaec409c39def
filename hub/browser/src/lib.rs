//! Driving a real browser: the seam, the tabs as they are known, the page script, and the tools.
//!
//! Invariants:
//! - Everything that reaches a browser goes through [`Browser::op`], which takes a permit.
//! - Before a page is read or touched, its site is covered by the grant and its document is none of the forbidden;
//!   the browser's side checks the same again, right before and right after.
//! - A ref acts on the element that was shown, or on nothing.
//! - No call waits on a page without a deadline; a JavaScript dialog ends the wait.
//! - `confirmed` is said only after reading back.
//!
//! It must never take focus (but for `activate_tab`) or keep what a page showed.

mod backend;
mod capability;
mod keyboard;
mod outcome;
pub mod page;
mod seam;
mod session;
mod tabs;
mod tools;

pub use backend::{DevTools, DevToolsSource, Either};
pub use capability::BrowserCapability;
pub use seam::{Browser, BrowserInfo};
pub use tabs::Tabs;
