//! What tests share: a scratch hub with an owner at its screen, an MCP client, a Chromium with the extension, an X
//! session, a real pointer, pages to work on.
//!
//! Only ever a dev-dependency (and `cargo xtask demo` and `bench`, which are tests that people run).

pub mod cdp;
pub mod chromium;
pub mod fakes;
pub mod hand;
pub mod http;
pub mod hub;
pub mod link;
pub mod mcp;
pub mod pages;
pub mod scene;
pub mod xsession;
