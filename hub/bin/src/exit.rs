//! What a command ends with. Documented in `consentry help`.

use std::process::ExitCode;

/// Everything went well.
pub(crate) const OK: u8 = 0;
/// It did not work; the message says what to do.
pub(crate) const FAILED: u8 = 1;
// 2 is a wrong command line, by clap.
/// The hub is not running.
pub(crate) const NOT_RUNNING: u8 = 3;
/// It works, and something needs attention: `doctor` found something, `status` is disabled.
pub(crate) const ATTENTION: u8 = 4;

pub(crate) fn code(code: u8) -> ExitCode {
    ExitCode::from(code)
}
