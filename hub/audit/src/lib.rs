//! The audit: one JSON line for each request, decision, call and outcome, chained by hashes.
//!
//! Invariants:
//! - A line is in the file before [`AuditLog::append`] returns, and on the disk within 200 ms, or before it returns
//!   where a decision is announced.
//! - Each line carries the hash of the one before it, across rotations too, so that a line that was changed,
//!   removed or put in shows ([`verify`]).
//! - Files are 0600. A line is written whole or not at all: what a crash cut off is marked at the next start.
//!
//! It must never hold typed text or a secret: its writers pass lengths and names, and what `consentry_core` redacts.

mod log;
mod read;
mod verify;

pub use log::{AuditLog, Limits};
pub use read::{Entry, of_grant, read_all, tail};
pub use verify::{Broken, Verified, holds, verify};
