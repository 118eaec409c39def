//! What keeps a caller from asking the owner over and over.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use consentry_wire::PathName;

use crate::moment::{Moment, milliseconds};
use crate::rules::KeyName;

/// Denials within this time count together.
const WINDOW: Duration = Duration::from_secs(600);
/// So many of them make the key wait.
const DENIALS: usize = 3;
/// The first wait; each further denial doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60);

/// Cooldowns of paths, and the patience that each key has left.
#[derive(Debug, Default)]
pub(crate) struct Restraint {
    paths: HashMap<PathName, Moment>,
    keys: HashMap<KeyName, Patience>,
}

#[derive(Debug, Default)]
struct Patience {
    denials: VecDeque<Moment>,
    doublings: u32,
    until: Moment,
}

impl Restraint {
    /// Milliseconds that the path still wants quiet.
    pub(crate) fn cooling(&self, path: &PathName, now: Moment) -> Option<u64> {
        left(*self.paths.get(path)?, now)
    }

    /// Milliseconds that the key still has to wait.
    pub(crate) fn waiting(&self, key: &KeyName, now: Moment) -> Option<u64> {
        left(self.keys.get(key)?.until, now)
    }

    /// The owner wants quiet on a path.
    pub(crate) fn cool(&mut self, path: &PathName, until: Moment) {
        self.paths.insert(path.clone(), until);
    }

    /// The owner denied a key, or did not answer it.
    pub(crate) fn denied(&mut self, key: &KeyName, now: Moment) {
        let patience = self.keys.entry(key.clone()).or_default();
        patience.forget(now);
        patience.denials.push_back(now);
        if patience.denials.len() < DENIALS {
            return;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << patience.doublings.min(10)).min(LONGEST_WAIT);
        patience.doublings += 1;
        patience.until = now.after(wait);
    }

    /// The owner allowed a key something: it is no nuisance.
    pub(crate) fn allowed(&mut self, key: &KeyName) {
        self.keys.remove(key);
    }
}

impl Patience {
    /// Denials that are older than the window no longer count, and neither do the doublings once the last wait
    /// has been over for as long.
    fn forget(&mut self, now: Moment) {
        let window = milliseconds(WINDOW);
        self.denials.retain(|at| now.since(*at) < window);
        // A wait can be longer than the window, so the ladder is kept for a window after its end.
        if self.doublings > 0 {
            if now.since(self.until) >= window && now > self.until {
                self.doublings = 0;
            } else {
                while self.denials.len() < DENIALS - 1 {
                    self.denials.push_front(now);
                }
            }
        }
    }
}

fn left(until: Moment, now: Moment) -> Option<u64> {
    (until > now).then(|| until.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;

    #[test]
    fn the_third_denial_in_ten_minutes_makes_a_key_wait_and_each_further_one_twice_as_long() {
        let key: KeyName = "agent".parse().unwrap();
        let mut restraint = Restraint::default();
        let mut now = Moment(0);
        restraint.denied(&key, now);
        restraint.denied(&key, now);
        assert_eq!(restraint.waiting(&key, now), None);
        let mut waits = Vec::new();
        for _ in 0..7 {
            restraint.denied(&key, now);
            let wait = restraint.waiting(&key, now).unwrap();
            waits.push(wait / SECOND);
            now = Moment(now.0 + wait);
            assert_eq!(restraint.waiting(&key, now), None);
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1800, 1800]);
        restraint.allowed(&key);
        restraint.denied(&key, now);
        assert_eq!(restraint.waiting(&key, now), None);
    }

    #[test]
    fn denials_far_apart_do_not_add_up() {
        let key: KeyName = "agent".parse().unwrap();
        let mut restraint = Restraint::default();
        for n in 0..10 {
            restraint.denied(&key, Moment(n * 301 * SECOND));
            assert_eq!(restraint.waiting(&key, Moment(n * 301 * SECOND)), None, "{n}");
        }
    }

    #[test]
    fn the_ladder_is_forgotten_ten_minutes_after_the_last_wait() {
        let key: KeyName = "agent".parse().unwrap();
        let mut restraint = Restraint::default();
        for _ in 0..3 {
            restraint.denied(&key, Moment(0));
        }
        let later = Moment(60 * SECOND + 600 * SECOND + 1);
        restraint.denied(&key, later);
        assert_eq!(restraint.waiting(&key, later), None);
    }
}
