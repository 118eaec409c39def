//! The MCP paths as clients meet them, with made-up tools and a scripted owner.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod calls;
mod control;
mod door;
mod http;
mod load;
mod results;
mod scene;
mod stdio;
mod tools;
mod versions;
