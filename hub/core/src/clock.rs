//! The clocks.

use consentry_gate::{Moment, Now};
use rustix::time::{ClockId, clock_gettime};

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// The time that bounds permissions, and the local hour.
    fn now(&self) -> Now;
}

/// The machine's own clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// The clock that goes on while the machine sleeps: on macOS that is what CLOCK_MONOTONIC does.
#[cfg(target_os = "macos")]
const COUNTS_SUSPEND: ClockId = ClockId::Monotonic;
#[cfg(not(target_os = "macos"))]
const COUNTS_SUSPEND: ClockId = ClockId::Boottime;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let time = clock_gettime(COUNTS_SUSPEND);
        let ms = u64::try_from(time.tv_sec).unwrap_or(0) * 1000
            + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000;
        let local = jiff::Zoned::now();
        let minute = i16::from(local.hour()) * 60 + i16::from(local.minute());
        Now { moment: Moment(ms), minute_of_day: u16::try_from(minute).unwrap_or(0) }
    }
}

/// The wall clock for the audit: RFC 3339 in UTC, to the millisecond.
pub fn timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
