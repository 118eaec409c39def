//! What browsers are told by files that lie where they look: so far the manifests of the native-messaging
//! host, for each browser that a person uses.
//!
//! Invariants:
//! - A file that is not ours is reported and left alone, unless the caller insists.
//! - A file is replaced whole or not at all, and its text follows from its content alone, so that "is it
//!   still right?" is one comparison.
//! - What a browser's folder is called stands in one table.
//!
//! It must never start a browser or a relay, ask the owner, or decide whether something may be installed.

pub mod hosts;
