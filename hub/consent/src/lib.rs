//! The dialog's process, its words, and the desktop's notifications.
//!
//! Invariants:
//! - The dialog is a process of its own: when it crashes, hangs, lies about the time or is killed, that is a denial.
//! - Only a button that the dialog offered is an answer, and only after it said that it was shown. A time-out counts
//!   as one only then, too: silence on a screen that showed nothing is nobody's silence.
//! - What the asker wrote is quoted and marked; the rest of the words are ours.
//!
//! It must never decide: it asks, and reports.

mod dialog;
mod notify;
mod platform;
mod words;

pub use dialog::{DialogProcess, probe};
pub use notify::Notifications;
