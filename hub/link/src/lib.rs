//! The hub's doors for extensions and commands: the socket, the WebSocket, and the proofs at both.
//!
//! Invariants:
//! - Nothing is relayed, obeyed or told before both sides have proved that they hold the token. Whoever connects
//!   without it learns one nonce.
//! - The socket is ours alone: mode 0600, peers of the same user only, never taken from a hub that lives.
//! - A relay counts only under a browser that is known, and only for our own extension's id.
//! - A frame that is none ends that link alone. A second link never ends a first that answers.
//! - What a browser is allowed is sent on each change and every 2 s; what it acknowledges is waited for.
//!
//! It must never look into what a call does: it carries.

mod door;
mod links;
mod platform;
mod session;
mod socket;
mod websocket;

pub use door::{Door, LinkEvents};
pub use links::{LinkInfo, Links, Transport};
pub use platform::{Peer, parent_program};
pub use socket::{Commands, SocketError, bind, serve};
pub use websocket::websocket;
