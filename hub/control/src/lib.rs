//! The control port: the status page with its sessions and events, and what browsers fetch.
//!
//! Invariants:
//! - Loopback only, by a Host of loopback with our own port; a request that went through any proxy is refused.
//! - Other users of the machine reach loopback too: without a session only `/healthz` and the browsers' own doors
//!   answer. A session begins with a link that works once.
//! - Every write carries the per-boot token, which only the page holds; no page of another origin can send it.
//! - No control here answers a dialog.
//!
//! It must never be reachable by a page that an agent drives: see `consentry_wire::forbidden`.

mod events;
mod guard;
mod router;
mod sessions;
mod state;

pub use router::{Actions, ControlConfig, ForgetSite, router};
pub use sessions::Sessions;
pub use state::{
    AuditRow, BrowserRow, DialogRow, GrantRow, PageState, SiteRow, StateSource, TabRow, Warning,
};
