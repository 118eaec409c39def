//! How much of the audit one key may fill with what was refused.
//!
//! Nothing is done for a refused caller, so no line is owed before an effect; but the audit is rotated, and whoever
//! holds only a key must not be able to push out the lines about what was done.

use std::collections::HashMap;

use consentry_gate::{KeyName, Moment};

/// Refusals of one key that are written at once.
const BURST: u64 = 60;
/// And so often one more.
const REFILL_MS: u64 = 10_000;

/// What was refused lately, by key.
#[derive(Debug, Default)]
pub(crate) struct Knocks(HashMap<KeyName, Knocking>);

#[derive(Debug, Default)]
struct Knocking {
    /// When the written ones will be paid back.
    paid: Moment,
    unwritten: u64,
}

impl Knocks {
    /// Something was refused. Gives how many before it were not written, if it is to be written itself.
    pub(crate) fn refused(&mut self, key: &KeyName, now: Moment) -> Option<u64> {
        let knocking = self.0.entry(key.clone()).or_default();
        let paid = Moment(knocking.paid.0.max(now.0) + REFILL_MS);
        if paid.0 - now.0 > BURST * REFILL_MS {
            knocking.unwritten += 1;
            return None;
        }
        knocking.paid = paid;
        Some(std::mem::take(&mut knocking.unwritten))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_a_pause_is_forgiven() {
        let (key, other): (KeyName, KeyName) = ("pest".parse().unwrap(), "other".parse().unwrap());
        let mut knocks = Knocks::default();
        let written = (0..1000).filter(|_| knocks.refused(&key, Moment(5)).is_some()).count();
        assert_eq!(written, 60);
        assert_eq!(knocks.refused(&other, Moment(5)), Some(0), "another key is another");
        assert_eq!(knocks.refused(&key, Moment(10_005)), Some(940), "the next one tells how many were not");
        assert_eq!(knocks.refused(&key, Moment(10_006)), None);
        let later = Moment(1_000_000);
        assert_eq!((0..100).filter(|_| knocks.refused(&key, later).is_some()).count(), 60);
    }
}
