//! Chrome extension packages: so far the keys that sign them, and the ids that follow from the keys.
//!
//! The CRX3 container with its proofs, the ZIP inside it and the update manifest come later, as modules beside
//! these; they sign with [`PrivateKey`] and name what they packed by [`ExtensionId`].
//!
//! Invariants:
//! - An extension's id follows from its public key and from nothing else. Whoever loses the private key can
//!   never update what is installed, so a key that exists is never replaced, not even a broken one.
//! - No input makes this crate panic: what cannot be read is a typed error.
//! - A private key is written to files that only their owner may read, and erased from memory when dropped.
//!
//! It must never print or log a private key, and knows nothing of the hub.

mod id;
mod key;
mod key_file;

pub use id::{BadId, ExtensionId};
pub use key::{KeyError, PrivateKey, PublicKey};
pub use key_file::KeyFileError;
