//! The MCP paths: the listener with its keys, the two control tools, progress, and stdio. The only crate that
//! names the MCP library.
//!
//! Invariants:
//! - A request without a key of that path reaches no handler (401); a path that the owner did not enable does not
//!   exist (404); any `Origin` is refused, for no web page has business here.
//! - Every tool but `request_control` takes `grant_id`; this crate adds it to each schema and strips it before the
//!   tool sees its arguments, so no tool can be written that forgets it.
//! - Text that came from elsewhere leaves in the one envelope that marks it untrusted.
//! - A failure is a result with an error code in it, never a protocol error: models read results.
//!
//! It must never decide anything: it authenticates, asks the core, and words the answer.

mod control;
mod envelope;
mod listener;
mod result;
mod server;
mod stdio;

pub use envelope::enclose;
pub use listener::{ListenerConfig, router};
pub use server::{PathServer, Paths};
pub use stdio::serve_stdio;
