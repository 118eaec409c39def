//! The key pair of an extension.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::rngs::SysRng;
use rsa::pkcs1::DecodeRsaPrivateKey as _;
use rsa::pkcs8::der::Decode as _;
use rsa::pkcs8::{
    DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding, SubjectPublicKeyInfoRef,
};
use rsa::traits::PublicKeyParts as _;
use zeroize::Zeroizing;

use crate::ExtensionId;

/// Why something is not a key, or no key could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No key came of the attempt, for example because the system has no randomness to give.
    #[error("could not generate an RSA key")]
    Generate(#[source] rsa::Error),
    /// Text without the first line of a private key.
    #[error("this is no private key in PEM: it must begin with \"{PKCS8_LABEL}\" or \"{PKCS1_LABEL}\"")]
    NotPem,
    /// It begins like PKCS#8.
    #[error("this PKCS#8 key cannot be read as an RSA key")]
    Pkcs8(#[source] rsa::pkcs8::Error),
    /// It begins like PKCS#1.
    #[error("this PKCS#1 key cannot be read as an RSA key")]
    Pkcs1(#[source] rsa::pkcs1::Error),
    /// Too short to be safe, or longer than anything needs.
    #[error("an RSA key must have {MIN_BITS} to {MAX_BITS} bits, this one has {bits}")]
    Size {
        /// The size of its modulus.
        bits: u32,
    },
    /// The encoder refused a key that was read or made before.
    #[error("could not write the key")]
    Encode(#[source] rsa::pkcs8::Error),
    /// The encoder refused the public half.
    #[error("could not write the public key")]
    EncodePublic(#[source] rsa::pkcs8::spki::Error),
    /// A manifest's `key` that is no base64.
    #[error("the key of a manifest must be base64")]
    NotBase64(#[source] base64::DecodeError),
    /// Bytes that are no `SubjectPublicKeyInfo`.
    #[error("this is no public key in DER")]
    NotAPublicKey(#[source] rsa::pkcs8::der::Error),
}

/// What Chrome's own packer makes.
const BITS: usize = 2048;
const MIN_BITS: u32 = 2048;
const MAX_BITS: u32 = 4096;
const PKCS8_LABEL: &str = "-----BEGIN PRIVATE KEY-----";
const PKCS1_LABEL: &str = "-----BEGIN RSA PRIVATE KEY-----";

/// The private key that signs an extension's packages: RSA.
#[derive(Clone)]
pub struct PrivateKey {
    key: rsa::PrivateKey,
    public: PublicKey,
}

impl PrivateKey {
    /// Makes a new key of 2048 bits from the system's randomness. It takes up to a few seconds.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate() -> Result<Self, KeyError> {
        Self::checked(rsa::PrivateKey::new(&mut SysRng, BITS).map_err(KeyError::Generate)?)
    }

    /// Reads PKCS#8 (`BEGIN PRIVATE KEY`) or PKCS#1 (`BEGIN RSA PRIVATE KEY`), white space around it aside.
    ///
    /// # Errors
    /// When it is neither, encrypted, not RSA, of a size that is not accepted, or not consistent.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let pem = pem.trim();
        if pem.starts_with(PKCS8_LABEL) {
            Self::checked(rsa::PrivateKey::from_pkcs8_pem(pem).map_err(KeyError::Pkcs8)?)
        } else if pem.starts_with(PKCS1_LABEL) {
            Self::checked(rsa::PrivateKey::from_pkcs1_pem(pem).map_err(KeyError::Pkcs1)?)
        } else {
            Err(KeyError::NotPem)
        }
    }

    fn checked(key: rsa::PrivateKey) -> Result<Self, KeyError> {
        let bits = key.n().bit_width_vartime();
        if !(MIN_BITS..=MAX_BITS).contains(&bits) {
            return Err(KeyError::Size { bits });
        }
        let der = key.as_public_key().to_public_key_der().map_err(KeyError::EncodePublic)?;
        Ok(Self { public: PublicKey { der: der.as_bytes().to_vec() }, key })
    }

    /// Writes PKCS#8 in PEM, with a line break at its end. The text is erased from memory when dropped.
    ///
    /// # Errors
    /// When the encoder refuses the key.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        self.key.to_pkcs8_pem(LineEnding::LF).map_err(KeyError::Encode)
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The id of the extension that this key signs.
    pub fn id(&self) -> ExtensionId {
        self.public.id()
    }

    /// The `key` of a manifest, which gives an unpacked extension the same id.
    pub fn manifest_key(&self) -> String {
        self.public.manifest_key()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey(of {})", self.id())
    }
}

/// The public key of an extension, of any algorithm.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    der: Vec<u8>,
}

impl PublicKey {
    /// Takes a `SubjectPublicKeyInfo` in DER.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        SubjectPublicKeyInfoRef::from_der(der).map_err(KeyError::NotAPublicKey)?;
        Ok(Self { der: der.to_vec() })
    }

    /// Takes the `key` of a manifest. Chrome ignores white space in it, so this does too.
    ///
    /// # Errors
    /// When it is not the base64 of a public key.
    pub fn from_manifest_key(key: &str) -> Result<Self, KeyError> {
        let key: String = key.split_ascii_whitespace().collect();
        Self::from_der(&STANDARD.decode(key).map_err(KeyError::NotBase64)?)
    }

    /// The `SubjectPublicKeyInfo` in DER, as a CRX proof holds it.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The `key` of a manifest.
    pub fn manifest_key(&self) -> String {
        STANDARD.encode(&self.der)
    }

    /// The id of the extension.
    pub fn id(&self) -> ExtensionId {
        ExtensionId::from_public_key_der(&self.der)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey(of {})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rsa::pkcs8::der::pem;

    // Made with openssl for these tests, and used for nothing else.
    const PKCS8: &str = include_str!("testdata/openssl-pkcs8.pem");
    const PKCS1: &str = include_str!("testdata/openssl-pkcs1.pem");

    /// `openssl pkey -pubout -outform DER | sha256sum` says `2a93d8885153981a93c5846e98738ddb…`.
    const ID: &str = "ckjdniiifbfdjibkjdmfiegojihdinnl";

    #[test]
    fn openssls_key_is_read_in_both_forms_and_written_as_openssl_does() {
        let key = PrivateKey::from_pem(PKCS8).unwrap();
        assert_eq!(key.id().to_string(), ID);
        assert_eq!(*key.to_pem().unwrap(), PKCS8);
        let old = PrivateKey::from_pem(&format!("\n{PKCS1}\r\n")).unwrap();
        assert_eq!(old.public(), key.public());
        assert_eq!(*old.to_pem().unwrap(), PKCS8);
    }

    #[test]
    fn a_new_key_has_2048_bits_and_is_read_as_it_was_written() {
        let key = PrivateKey::generate().unwrap();
        assert_eq!(key.key.n().bit_width_vartime(), 2048);
        let again = PrivateKey::from_pem(&key.to_pem().unwrap()).unwrap();
        assert_eq!(again.public(), key.public());
        assert_eq!(ExtensionId::from_manifest_key(&key.manifest_key()).unwrap(), key.id());
        assert_eq!(PublicKey::from_der(key.public().der()).unwrap(), *key.public());
        assert_ne!(key.id().to_string(), ID);
    }

    #[test]
    fn other_keys_are_refused_by_name() {
        let refused = |pem: &str| PrivateKey::from_pem(pem).unwrap_err();
        let short = refused(include_str!("testdata/openssl-1024-bits.pem"));
        assert!(matches!(short, KeyError::Size { bits: 1024 }), "{short:?}");
        let curve = refused(include_str!("testdata/openssl-p256.pem"));
        assert!(matches!(curve, KeyError::Pkcs8(_)), "{curve:?}");
        for other in
            ["", "nonsense", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "-----BEGIN PUBLIC KEY-----\n"]
        {
            assert!(matches!(refused(other), KeyError::NotPem), "{other}");
        }
        assert!(matches!(refused(&PKCS8[..200]), KeyError::Pkcs8(_)));
        assert!(matches!(refused(&PKCS1[..200]), KeyError::Pkcs1(_)));
    }

    #[test]
    fn a_manifests_key_must_be_a_public_key() {
        let key = PrivateKey::from_pem(PKCS8).unwrap().manifest_key();
        let folded = format!(" {}\n{}", &key[..100], &key[100..]);
        assert_eq!(ExtensionId::from_manifest_key(&folded).unwrap().to_string(), ID);
        let refused = |key: &str| PublicKey::from_manifest_key(key).unwrap_err();
        assert!(matches!(refused("not base64!"), KeyError::NotBase64(_)));
        assert!(matches!(refused(""), KeyError::NotAPublicKey(_)));
        assert!(matches!(refused(&key[..key.len() - 4]), KeyError::NotAPublicKey(_)));
        let private: String = PKCS8.lines().filter(|line| !line.starts_with('-')).collect();
        assert!(matches!(refused(&private), KeyError::NotAPublicKey(_)));
    }

    #[test]
    fn debugging_a_key_shows_its_id_only() {
        let key = PrivateKey::from_pem(PKCS8).unwrap();
        assert_eq!(format!("{key:?} {:?}", key.public()), format!("PrivateKey(of {ID}) PublicKey(of {ID})"));
    }

    fn spoilt(pem: &str, changes: &[(usize, u8)]) -> String {
        let (label, mut der) = pem::decode_vec(pem.as_bytes()).unwrap();
        for (at, byte) in changes {
            let at = at % der.len();
            der[at] ^= byte;
        }
        pem::encode_string(label, LineEnding::LF, &der).unwrap()
    }

    proptest! {
        #[test]
        fn no_text_makes_reading_a_key_panic(text in "(-----BEGIN (RSA )?PRIVATE KEY-----\n)?.{0,200}") {
            prop_assert!(PrivateKey::from_pem(&text).is_err());
            let _ = PublicKey::from_manifest_key(&text);
        }

        #[test]
        fn no_bytes_make_reading_a_public_key_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = PublicKey::from_der(&bytes);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn a_spoilt_key_is_an_error_and_never_a_panic(
            changes in proptest::collection::vec((any::<usize>(), 1u8..), 1..4), old: bool,
        ) {
            // What is still consistent after a change is a key, and then it can be written.
            if let Ok(key) = PrivateKey::from_pem(&spoilt(if old { PKCS1 } else { PKCS8 }, &changes)) {
                prop_assert!(key.to_pem().is_ok());
            }
        }
    }
}
