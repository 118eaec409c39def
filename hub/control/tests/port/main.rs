//! The control port's routes, with made-up state and actions behind them.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod address;
mod events;
mod headers;
mod scene;
mod sessions;
mod writes;
