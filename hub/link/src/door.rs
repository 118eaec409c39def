//! What both doors have in common: the secret, who is let in, and where events go.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use consentry_core::Hub;
use consentry_wire::ProfileId;
use consentry_wire::frame::{Event, Hello, Welcome};
use consentry_wire::proof::Token;

use crate::links::Links;

/// Hears what browsers say, in the order in which they say it, and before any reply that follows.
pub trait LinkEvents: Send + Sync {
    /// A profile is linked.
    fn linked(&self, hello: &Hello);
    /// It no longer is. Whatever was attached there is gone.
    fn unlinked(&self, profile: &ProfileId);
    /// Something happened in it.
    fn event(&self, profile: &ProfileId, event: Event);
}

/// The doors.
#[derive(Clone)]
pub struct Door {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) hub: Hub,
    pub(crate) links: Links,
    pub(crate) events: Arc<dyn LinkEvents>,
    pub(crate) welcome: Welcome,
    pub(crate) extension_id: String,
    pub(crate) token_file: PathBuf,
    /// Says which browser a program is, if any.
    pub(crate) known_browser: fn(&std::path::Path) -> Option<&'static str>,
    pub(crate) last_refusal: RwLock<Option<String>>,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Door({})", self.inner.extension_id)
    }
}

impl Door {
    /// Sets up the doors; nothing listens yet.
    pub fn new(
        hub: Hub,
        links: Links,
        events: Arc<dyn LinkEvents>,
        welcome: Welcome,
        extension_id: String,
        token_file: PathBuf,
        known_browser: fn(&std::path::Path) -> Option<&'static str>,
    ) -> Self {
        let inner = Inner {
            hub,
            links,
            events,
            welcome,
            extension_id,
            token_file,
            known_browser,
            last_refusal: RwLock::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The token as it is now: the owner may have made a new one.
    pub(crate) fn token(&self) -> Option<Token> {
        std::fs::read_to_string(&self.inner.token_file).ok().and_then(|text| Token::new(&text))
    }

    /// Why somebody was last not let in, for the status page.
    pub fn last_refusal(&self) -> Option<String> {
        self.inner.last_refusal.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(crate) fn refused(&self, why: &str) {
        tracing::warn!(why, "a link was refused");
        *self.inner.last_refusal.write().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some(why.to_owned());
    }
}

/// Fresh bytes for a nonce.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    use rand::RngExt as _;
    rand::rng().random()
}
