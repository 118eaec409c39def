//! The id of an extension.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::{KeyError, PublicKey};

/// The id of an extension: the first 16 bytes of the SHA-256 of its public key, written as 32 letters from
/// `a` to `p`, one for each half byte.
///
/// Chromium: `components/crx_file/id_util.cc`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtensionId([u8; Self::BYTES]);

impl ExtensionId {
    /// Bytes of an id, as a CRX header holds it.
    pub const BYTES: usize = 16;

    /// The id of a public key in DER (`SubjectPublicKeyInfo`). Like Chrome it hashes whatever it is given;
    /// [`PublicKey::from_der`] looks whether it is a key.
    pub fn from_public_key_der(der: &[u8]) -> Self {
        let hash: [u8; 32] = Sha256::digest(der).into();
        let mut id = [0; Self::BYTES];
        id.copy_from_slice(&hash[..Self::BYTES]);
        Self(id)
    }

    /// The id that the `key` of a manifest gives.
    ///
    /// # Errors
    /// When it is not the base64 of a public key.
    pub fn from_manifest_key(key: &str) -> Result<Self, KeyError> {
        Ok(PublicKey::from_manifest_key(key)?.id())
    }

    /// The bytes, as a CRX header holds them.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The origin of the extension's pages, as a native-messaging host's manifest lists it:
    /// `chrome-extension://<id>/`.
    pub fn origin(&self) -> String {
        format!("chrome-extension://{self}/")
    }
}

impl fmt::Display for ExtensionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            for half in [byte >> 4, byte & 0xf] {
                fmt::Write::write_char(f, char::from(b'a' + half))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ExtensionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtensionId({self})")
    }
}

/// Text that is not the id of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an extension's id is 32 letters from a to p")]
pub struct BadId;

impl FromStr for ExtensionId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let letters: &[u8; Self::BYTES * 2] = text.as_bytes().try_into().map_err(|_| BadId)?;
        let half = |letter: u8| match letter {
            b'a'..=b'p' => Ok(letter - b'a'),
            _ => Err(BadId),
        };
        let mut id = [0; Self::BYTES];
        for (byte, pair) in id.iter_mut().zip(letters.chunks_exact(2)) {
            *byte = half(pair[0])? << 4 | half(pair[1])?;
        }
        Ok(Self(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Chromium's own test vectors (`id_util_unittest.cc`).
    #[test]
    fn chromiums_vectors() {
        for (input, id) in
            [("test", "jpignaibiiemhngfjkcpokkamffknabf"), ("_", "ncocknphbhhlhkikpnnlmbcnbgdempcd")]
        {
            assert_eq!(ExtensionId::from_public_key_der(input.as_bytes()).to_string(), id);
        }
    }

    /// Chromium's PDF viewer: the `key` of its manifest, and the id that its pages have.
    #[test]
    fn the_key_of_chromiums_pdf_viewer_gives_its_id() {
        let key = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDN6hM0rsDYGbzQPQfOygqlRtQgKUXMfnSjhIBL7LnReAVBEd7ZmKty\
                   N2qmSasMl4HZpMhVe2rPWVVwBDl6iyNE/Kok6E6v6V3vCLGsOpQAuuNVye/3QxzIldzG/jQAdWZiyXReRVapOhZtLjGfyw\
                   CvlWq7Sl/e3sbc0vWybSDI2QIDAQAB";
        let id = ExtensionId::from_manifest_key(key).unwrap();
        assert_eq!(id.to_string(), "mhjfbmdgcfjbbpaeojofohoefgiehjai");
        assert_eq!(id.origin(), "chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai/");
    }

    #[test]
    fn other_text_is_no_id() {
        let good = "abcdefghijklmnop".repeat(2);
        assert_eq!(good.parse::<ExtensionId>().unwrap().to_string(), good);
        for bad in ["", "a", &good[1..], &good.to_uppercase(), &good.replace('p', "q"), &format!("{good}a")] {
            assert_eq!(bad.parse::<ExtensionId>(), Err(BadId), "{bad:?}");
        }
        assert_eq!("é".repeat(16).parse::<ExtensionId>(), Err(BadId));
    }

    proptest! {
        #[test]
        fn any_id_is_read_as_it_was_written(bytes in any::<[u8; 16]>()) {
            let id = ExtensionId(bytes);
            prop_assert_eq!(id.to_string().parse::<ExtensionId>(), Ok(id));
        }

        #[test]
        fn only_what_would_be_written_is_read(text in ".{0,40}|[a-q]{31,33}") {
            if let Ok(id) = text.parse::<ExtensionId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
