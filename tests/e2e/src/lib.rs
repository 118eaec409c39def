//! Nothing but tests: see `tests/e2e`.
