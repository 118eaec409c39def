//! How long to wait before the next try.

const FIRST_MS: f64 = 250.0;
const LONGEST_MS: f64 = 15_000.0;

/// Doubles from a quarter of a second to fifteen seconds, without end. It begins anew only when a hub has
/// taken the link: one that accepts and drops at once is not hammered either.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next wait in milliseconds. `random` from 0 to 1 spreads the browsers that one hub lost together.
    pub(crate) fn next(&mut self, random: f64) -> f64 {
        let full = (FIRST_MS * f64::from(2u32.pow(self.failures.min(6)))).min(LONGEST_MS);
        self.failures = self.failures.saturating_add(1);
        full * (0.75 + 0.25 * random.clamp(0.0, 1.0))
    }

    /// The other side answered and says that trying again soon is of no use.
    pub(crate) fn settle(&mut self) {
        self.failures = self.failures.max(6);
    }

    /// It went well.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_a_limit_and_begin_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<f64> = (0..8).map(|_| backoff.next(1.0)).collect();
        assert_eq!(waits, [250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 15000.0, 15000.0]);
        backoff.reset();
        assert_eq!(backoff.next(1.0), 250.0);
        backoff.settle();
        assert_eq!(backoff.next(1.0), 15000.0);
    }

    proptest! {
        #[test]
        fn never_a_storm_and_never_an_end(randoms in proptest::collection::vec(-1.0f64..2.0, 1..200)) {
            let mut backoff = Backoff::default();
            for (n, random) in randoms.into_iter().enumerate() {
                let wait = backoff.next(random);
                prop_assert!((187.5..=15_000.0).contains(&wait));
                prop_assert!(n < 7 || wait >= 11_250.0);
            }
        }
    }
}
