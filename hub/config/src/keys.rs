//! Keys as files: `keys/<name>.toml` holds a digest, never the key.

use std::io;
use std::path::PathBuf;

use consentry_core::{KeyKind, KeyRecord, KeyRing, digest};
use consentry_gate::KeyName;
use consentry_wire::PathName;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::read::read_text;
use crate::write::write_private;

/// The folder of keys.
#[derive(Debug, Clone)]
pub struct KeyStore(pub PathBuf);

/// One key's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// SHA-256 of the key, in hex.
    pub sha256: String,
    /// The one path that it opens; a named client key opens all, from this machine only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathName>,
    /// When it was made, RFC 3339.
    pub created: String,
}

/// Keys with their holders' names.
pub type Keys = Vec<(KeyName, KeyFile)>;

/// A key that was just made: the only time that it can be seen.
#[derive(Debug)]
pub struct NewKey {
    /// Its holder's name.
    pub name: KeyName,
    /// The key, to be shown once.
    pub secret: String,
    /// What is kept.
    pub file: KeyFile,
}

/// Why a key cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// There is one of that name.
    #[error("there is a key named {0} already: `consentry key rotate {0}` makes a new one in its place")]
    Exists(KeyName),
    /// There is none of that name.
    #[error("there is no key named {0}: `consentry key list` shows them")]
    Unknown(KeyName),
    /// The file is damaged.
    #[error("{0} is no key file")]
    Damaged(PathBuf, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The folder or a file cannot be used.
    #[error("{0} cannot be used")]
    Io(PathBuf, #[source] io::Error),
}

impl KeyStore {
    fn file(&self, name: &KeyName) -> PathBuf {
        self.0.join(format!("{name}.toml"))
    }

    /// Makes a key. It opens nothing before the owner has clicked for it.
    ///
    /// # Errors
    /// When there is one of that name, or it cannot be written.
    pub fn add(&self, name: KeyName, path: Option<PathName>) -> Result<NewKey, KeyStoreError> {
        if self.file(&name).exists() {
            return Err(KeyStoreError::Exists(name));
        }
        self.make(name, path)
    }

    /// Makes a new key in place of an old one.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be written.
    pub fn rotate(&self, name: KeyName) -> Result<NewKey, KeyStoreError> {
        let old = self.list()?.into_iter().find(|(known, _)| *known == name);
        let (_, old) = old.ok_or(KeyStoreError::Unknown(name.clone()))?;
        self.make(name, old.path)
    }

    fn make(&self, name: KeyName, path: Option<PathName>) -> Result<NewKey, KeyStoreError> {
        let random: [u8; 32] = rand::rng().random();
        let secret = format!("consentry_{}", hex(&random));
        let file = KeyFile { sha256: hex(&digest(&secret)), path, created: consentry_core::timestamp() };
        let place = self.file(&name);
        let text =
            toml::to_string(&file).map_err(|error| KeyStoreError::Damaged(place.clone(), Box::new(error)))?;
        write_private(&place, text.as_bytes()).map_err(|error| KeyStoreError::Io(place, error))?;
        Ok(NewKey { name, secret, file })
    }

    /// Takes a key away.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be removed.
    pub fn revoke(&self, name: &KeyName) -> Result<(), KeyStoreError> {
        let place = self.file(name);
        match std::fs::remove_file(&place) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(KeyStoreError::Unknown(name.clone()))
            }
            Err(error) => Err(KeyStoreError::Io(place, error)),
        }
    }

    /// All keys, by name. A file that is damaged is a key that opens nothing: see [`KeyStore::read`].
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Keys, KeyStoreError> {
        Ok(self.read()?.0)
    }

    /// All keys, and what is wrong with the files that are none.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(&self) -> Result<(Keys, Vec<KeyStoreError>), KeyStoreError> {
        let io = |error| KeyStoreError::Io(self.0.clone(), error);
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
            Err(error) => return Err(io(error)),
        };
        let (mut keys, mut damaged) = (Vec::new(), Vec::new());
        for entry in entries {
            let place = entry.map_err(io)?.path();
            if place.extension().is_some_and(|extension| extension == "toml") {
                match read_file(&place) {
                    Ok(key) => keys.push(key),
                    Err(error) => damaged.push(error),
                }
            }
        }
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        Ok((keys, damaged))
    }

    /// The keys as the core wants them; those with another digest than `approved` has wait for the owner.
    ///
    /// # Errors
    /// When the folder or a file cannot be read.
    pub fn ring(&self, approved: impl Fn(&KeyName, &KeyFile) -> bool) -> Result<KeyRing, KeyStoreError> {
        let record = |(name, file): (KeyName, KeyFile)| KeyRecord {
            digest: unhex(&file.sha256).unwrap_or_default(),
            kind: file.path.clone().map_or(KeyKind::Named, KeyKind::Path),
            approved: approved(&name, &file),
            name,
        };
        Ok(KeyRing(self.list()?.into_iter().map(record).collect()))
    }
}

fn read_file(place: &std::path::Path) -> Result<(KeyName, KeyFile), KeyStoreError> {
    let damaged =
        |error: Box<dyn std::error::Error + Send + Sync>| KeyStoreError::Damaged(place.to_owned(), error);
    let stem = place.file_stem().unwrap_or_default().to_string_lossy();
    let name: KeyName = stem.parse().map_err(|error| damaged(Box::new(error)))?;
    let text = read_text(place).map_err(|error| KeyStoreError::Io(place.to_owned(), error))?;
    let file: KeyFile = toml::from_str(&text).map_err(|error| damaged(Box::new(error)))?;
    if unhex(&file.sha256).is_none() {
        return Err(damaged("sha256 is not 64 digits of hex".into()));
    }
    Ok((name, file))
}

fn hex(bytes: &[u8]) -> String {
    consentry_wire::proof::hex(bytes)
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use consentry_core::Via;

    #[test]
    fn a_key_is_shown_once_kept_as_a_digest_and_opens_nothing_before_the_click() {
        let folder = tempfile::tempdir().unwrap();
        let store = KeyStore(folder.path().to_owned());
        let path = PathName::browser();
        let new = store.add("claude-code".parse().unwrap(), None).unwrap();
        let text = std::fs::read_to_string(folder.path().join("claude-code.toml")).unwrap();
        assert!(!text.contains(&new.secret) && !text.contains(new.secret.trim_start_matches("consentry_")));
        assert!(store.ring(|_, _| false).unwrap().identify(&path, &new.secret, Via::Local).is_err());
        let ring = store.ring(|name, file| *name == new.name && *file == new.file).unwrap();
        assert!(ring.identify(&path, &new.secret, Via::Local).is_ok());
        assert!(matches!(store.add(new.name.clone(), None), Err(KeyStoreError::Exists(_))));
        let rotated = store.rotate(new.name.clone()).unwrap();
        assert_ne!(rotated.secret, new.secret);
        assert!(
            store
                .ring(|_, file| *file == new.file)
                .unwrap()
                .identify(&path, &rotated.secret, Via::Local)
                .is_err()
        );
        store.revoke(&new.name).unwrap();
        assert!(matches!(store.revoke(&new.name), Err(KeyStoreError::Unknown(_))));
        assert!(store.list().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_file_is_named_and_keeps_no_other_key_from_being_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let store = KeyStore(folder.path().to_owned());
        let new = store.add("agent".parse().unwrap(), None).unwrap();
        std::fs::write(folder.path().join("bad.toml"), "sha256 = \"00\"\ncreated = \"now\"\n").unwrap();
        std::fs::write(folder.path().join(".#agent.toml"), "garbage").unwrap();
        let (keys, damaged) = store.read().unwrap();
        assert_eq!((keys.len(), damaged.len()), (1, 2));
        assert!(damaged.iter().any(|error| error.to_string().contains("bad.toml")));
        store.revoke(&new.name).unwrap();
        assert!(store.ring(|_, _| true).unwrap().0.is_empty());
    }
}
