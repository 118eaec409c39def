//! Admission, the one actor that owns the gate, and the traits that adapters implement.
//!
//! Invariants:
//! - [`Hub::admit`] is the only order of checks (key, kill switch, grant, policy, audit) and the only source of a
//!   [`Permit`]. Every method with an effect takes `&Permit`, so no effect can be written that skips one.
//! - An audit line is written before the effect it announces; if it cannot be written, nothing runs. Ending,
//!   killing and disabling never wait for it.
//! - When a grant ends, its cancellation is raised before anything else is told.
//! - The kill switch is read on every admission, again after a dialog closes, and before each send
//!   ([`Permit::check`]).
//! - No detached tasks: the actor owns what it starts.
//!
//! It must never know what a capability does, how a dialog looks or where a file lies.

mod actor;
mod args;
mod capability;
mod clock;
mod handle;
mod keys;
mod knocks;
mod live;
mod permit;
mod ports;
mod redact;

pub use args::{ArgumentError, compact_schema, parse_args};
pub use capability::{
    Annotations, Capability, Content, Effective, Site as AskedSite, Tool, ToolAsk, ToolOutput, ToolSpec,
};
pub use clock::{Clock, SystemClock, timestamp};
pub use handle::{CallRequest, ControlRequest, Ended, Hub, Start};
pub use keys::{AuthFailure, Client, KeyKind, KeyRecord, KeyRing, Via, digest};
pub use live::{Live, LiveGrant, Status};
pub use permit::Permit;
pub use ports::{
    Audit, AuditError, Dialog, DialogReport, KillSwitch, Memory, Notifier, Ports, Record, Weight,
};
pub use redact::redact_url;
