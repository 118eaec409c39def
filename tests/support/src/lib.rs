//! What tests share: a Chromium, an X session, a real pointer, pages to work on.
//!
//! Only ever a dev-dependency (and `cargo xtask demo` and `bench`, which are tests that people run).

pub mod cdp;
pub mod chromium;
pub mod fakes;
pub mod pages;
