//! Time as the gate knows it.

use std::time::Duration;

/// A point in time: milliseconds on a clock that counts suspend (CLOCK_BOOTTIME, mach_continuous_time), so
/// that a permission does not outlive its minutes in a sleeping machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// That much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(milliseconds(duration)))
    }

    /// Milliseconds from `earlier` to here; none if it is not earlier.
    pub fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The time of an input to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// The clock that bounds permissions.
    pub moment: Moment,
    /// Minutes since local midnight, for rules that hold at certain hours only.
    pub minute_of_day: u16,
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
