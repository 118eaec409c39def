//! What tests share: a Chromium, an X session, a real pointer, pages to work on.
//!
//! Only ever a dev-dependency (and `cargo xtask demo` and `bench`, which are tests that people run).
