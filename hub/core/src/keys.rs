//! Keys: who may knock at all. A key gives nothing by itself but the right to ask.

use std::fmt;

use consentry_gate::KeyName;
use consentry_wire::PathName;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What a key is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyKind {
    /// One path, for a gateway: may come through the tunnel.
    Path(PathName),
    /// One of this machine's own clients, on every path: refused through the tunnel.
    Named,
}

/// A key as it is kept: never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// The holder's name.
    pub name: KeyName,
    /// SHA-256 of the key.
    pub digest: [u8; 32],
    /// What for.
    pub kind: KeyKind,
    /// Whether the owner has clicked for it.
    pub approved: bool,
}

/// How a request reached the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// From this machine.
    Local,
    /// Through the tunnel.
    Tunnel,
}

/// Why a key does not open a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthFailure {
    /// Unknown, or another path's.
    Unknown,
    /// The owner has not clicked for it yet.
    NotApproved,
    /// A local key came through the tunnel.
    LocalOnly,
}

/// Somebody who showed a key. Checked again at each admission, so that a revoked key is over at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub(crate) name: KeyName,
    pub(crate) digest: [u8; 32],
}

impl Client {
    /// The key's name.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// The one client of a standalone program, which has no listener and so no key.
    pub fn standalone(name: KeyName) -> (Self, KeyRecord) {
        let digest = [0; 32];
        let record = KeyRecord { name: name.clone(), digest, kind: KeyKind::Named, approved: true };
        (Self { name, digest }, record)
    }
}

/// All keys.
#[derive(Clone, Default)]
pub struct KeyRing(pub Vec<KeyRecord>);

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.name)).finish()
    }
}

impl KeyRing {
    /// Finds who holds a key. Compares with every key, each in constant time.
    ///
    /// # Errors
    /// When the key does not open the path.
    pub fn identify(&self, path: &PathName, secret: &str, via: Via) -> Result<Client, AuthFailure> {
        let shown = digest(secret);
        let mut found = None;
        for key in &self.0 {
            if bool::from(key.digest.ct_eq(&shown)) {
                found = Some(key);
            }
        }
        let key = found.ok_or(AuthFailure::Unknown)?;
        match &key.kind {
            KeyKind::Path(own) if own != path => return Err(AuthFailure::Unknown),
            KeyKind::Named if via == Via::Tunnel => return Err(AuthFailure::LocalOnly),
            _ => {}
        }
        if !key.approved {
            return Err(AuthFailure::NotApproved);
        }
        Ok(Client { name: key.name.clone(), digest: key.digest })
    }

    pub(crate) fn holds(&self, client: &Client) -> bool {
        self.0.iter().any(|key| key.approved && key.name == client.name && key.digest == client.digest)
    }
}

/// What is kept of a key.
pub fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_its_own_path_only_and_a_named_one_never_through_the_tunnel() {
        let shell: PathName = "shell".parse().unwrap();
        let key = |name: &str, kind| KeyRecord {
            name: name.parse().unwrap(),
            digest: digest(name),
            kind,
            approved: true,
        };
        let mut ring =
            KeyRing(vec![key("gateway", KeyKind::Path(PathName::browser())), key("claude", KeyKind::Named)]);
        let browser = PathName::browser();
        assert_eq!(ring.identify(&browser, "gateway", Via::Tunnel).unwrap().name().as_str(), "gateway");
        assert_eq!(ring.identify(&shell, "gateway", Via::Tunnel), Err(AuthFailure::Unknown));
        assert!(ring.identify(&shell, "claude", Via::Local).is_ok());
        assert_eq!(ring.identify(&shell, "claude", Via::Tunnel), Err(AuthFailure::LocalOnly));
        assert_eq!(ring.identify(&shell, "", Via::Local), Err(AuthFailure::Unknown));
        ring.0[1].approved = false;
        assert_eq!(ring.identify(&shell, "claude", Via::Local), Err(AuthFailure::NotApproved));
    }
}
