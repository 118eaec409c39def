//! The contract between the hub, the extension and the helpers.
//!
//! Everything here is compiled by both ends of a link, the browser's end as wasm32. So it holds data and
//! pure decisions only: no clock, no file, no socket, no randomness.
//!
//! Invariants:
//! - An incoming frame is either understood whole or refused; unknown *fields* are ignored, so that a newer
//!   minor version can add some, and unknown *kinds* are a typed error.
//! - A DevTools method that [`cdp`] does not list is never sent by the hub and never obeyed by the extension.
//! - A document that [`forbidden`] names is never attached, opened, read or listed beyond its host.
//!
//! It must never hold a grant's secret: the extension and the helpers know a grant by its label alone.

pub mod cdp;
pub mod chunk;
pub mod dialog;
pub mod document;
pub mod error;
pub mod forbidden;
pub mod frame;
pub mod held;
pub mod id;
pub mod proof;
pub mod site;
pub mod socket;
pub mod version;

pub use error::{ErrorCode, Failure, Outcome};
pub use id::{Epoch, GrantLabel, PathName, ProfileId, TabId};
pub use version::Version;
