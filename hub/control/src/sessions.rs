//! Sessions of the status page: a link that works once makes one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

/// A link that was not used for so long is void.
const LINK_LIVES: Duration = Duration::from_secs(60);
/// A session ends by itself.
const SESSION_LIVES: Duration = Duration::from_secs(12 * 3600);
/// Links and sessions at a time.
const MOST: usize = 32;

/// All sessions of this run of the hub.
#[derive(Debug, Clone)]
pub struct Sessions {
    inner: Arc<Mutex<State>>,
    token: Arc<str>,
}

#[derive(Debug, Default)]
struct State {
    links: HashMap<String, Instant>,
    sessions: HashMap<String, Instant>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { inner: Arc::default(), token: random().into() }
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a link's secret, for `consentry open` and the popup.
    pub fn link(&self) -> String {
        let secret = random();
        let mut state = self.lock();
        forget(&mut state.links, LINK_LIVES);
        state.links.insert(secret.clone(), Instant::now());
        secret
    }

    /// Uses a link up; gives the session's secret.
    pub(crate) fn redeem(&self, link: &str) -> Option<String> {
        let mut state = self.lock();
        forget(&mut state.links, LINK_LIVES);
        let known = find(&state.links, link)?;
        state.links.remove(&known);
        forget(&mut state.sessions, SESSION_LIVES);
        let secret = random();
        state.sessions.insert(secret.clone(), Instant::now());
        Some(secret)
    }

    pub(crate) fn holds(&self, session: &str) -> bool {
        let mut state = self.lock();
        forget(&mut state.sessions, SESSION_LIVES);
        find(&state.sessions, session).is_some()
    }

    /// The token that every write carries.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn is_token(&self, shown: &str) -> bool {
        self.token.as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

/// Compares with each in constant time.
fn find(all: &HashMap<String, Instant>, shown: &str) -> Option<String> {
    let mut found = None;
    for known in all.keys() {
        if bool::from(known.as_bytes().ct_eq(shown.as_bytes())) {
            found = Some(known.clone());
        }
    }
    found
}

fn forget(all: &mut HashMap<String, Instant>, lives: Duration) {
    all.retain(|_, since| since.elapsed() < lives);
    while all.len() >= MOST {
        let Some(oldest) = all.iter().min_by_key(|(_, since)| **since).map(|(secret, _)| secret.clone())
        else {
            return;
        };
        all.remove(&oldest);
    }
}

fn random() -> String {
    use rand::RngExt as _;
    let bytes: [u8; 32] = rand::rng().random();
    consentry_wire::proof::hex(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_link_works_once_and_not_for_long() {
        let sessions = Sessions::default();
        let link = sessions.link();
        let session = sessions.redeem(&link).unwrap();
        assert!(sessions.holds(&session) && sessions.redeem(&link).is_none());
        assert!(!sessions.holds(&link) && !sessions.holds(""));
        let late = sessions.link();
        tokio::time::advance(LINK_LIVES).await;
        assert!(sessions.redeem(&late).is_none());
        tokio::time::advance(SESSION_LIVES).await;
        assert!(!sessions.holds(&session));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_links_stays_small() {
        let sessions = Sessions::default();
        for _ in 0..1000 {
            sessions.link();
        }
        assert!(sessions.lock().links.len() <= MOST);
    }
}
