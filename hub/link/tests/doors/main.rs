//! Both doors with real sockets, and extensions and commands in front of them.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod calls;
mod commands;
mod extension;
mod flood;
mod frames;
mod profiles;
mod proof;
mod scene;
mod socket_file;
mod state;
