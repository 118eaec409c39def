//! The text of a host manifest.

use std::path::{Path, PathBuf};

use consentry_wire::socket::NATIVE_HOST;
use serde::{Deserialize, Serialize};

/// What a browser is to be told: which relay, and which extensions may start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    relay: PathBuf,
    text: String,
}

/// Why nothing can be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// A browser would resolve it against a folder of its own.
    #[error("the path of the relay must be absolute: {}", .0.display())]
    RelativePath(PathBuf),
    /// JSON cannot hold it.
    #[error("the path of the relay must be UTF-8: {}", .0.display())]
    PathNotText(PathBuf),
    /// A relay has to lie in a folder of the state folder.
    #[error("the relay must lie in a folder of the state folder: {}", .0.display())]
    NoState(PathBuf),
    /// Not 32 letters from a to p. Wildcards are not allowed either.
    #[error("not the id of an extension: {0:?}")]
    BadId(String),
    /// A manifest that lets nobody in.
    #[error("at least one extension must be named")]
    NoIds,
}

/// What a manifest holds, in the order in which it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Content {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    pub(super) path: PathBuf,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    pub(super) allowed_origins: Vec<String>,
}

impl Host {
    /// Describes the relay at `relay`, in `<state>/bin/`, for the extensions of these ids.
    ///
    /// # Errors
    /// When the path or an id cannot stand in a manifest.
    pub fn new(ids: &[impl AsRef<str>], relay: &Path) -> Result<Self, ManifestError> {
        if !relay.is_absolute() {
            return Err(ManifestError::RelativePath(relay.to_owned()));
        }
        if relay.to_str().is_none() {
            return Err(ManifestError::PathNotText(relay.to_owned()));
        }
        if relay.parent().and_then(Path::parent).and_then(Path::file_name).is_none() {
            return Err(ManifestError::NoState(relay.to_owned()));
        }
        if let Some(bad) = ids.iter().map(AsRef::as_ref).find(|id| !is_extension_id(id)) {
            return Err(ManifestError::BadId(bad.to_owned()));
        }
        let mut allowed_origins: Vec<_> =
            ids.iter().map(|id| format!("chrome-extension://{}/", id.as_ref())).collect();
        allowed_origins.sort();
        allowed_origins.dedup();
        if allowed_origins.is_empty() {
            return Err(ManifestError::NoIds);
        }
        let content = Content {
            name: NATIVE_HOST.to_owned(),
            description: "The relay between the Consentry extension and the hub".to_owned(),
            path: relay.to_owned(),
            kind: "stdio".to_owned(),
            allowed_origins,
        };
        // Plain data, and the one path was checked: it always serialises.
        let mut text = serde_json::to_string_pretty(&content).unwrap_or_default();
        text.push('\n');
        Ok(Self { relay: relay.to_owned(), text })
    }

    /// The text of the manifest, with a line break at its end; the same for the same ids in any order.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The relay.
    pub fn relay(&self) -> &Path {
        &self.relay
    }

    /// Whether a manifest's `path` lies in this relay's state folder, and so is ours.
    pub(super) fn owns(&self, path: &Path) -> bool {
        // A path with `..` in it could lead anywhere.
        let plain = path.components().all(|part| part != std::path::Component::ParentDir);
        let state = self.relay.parent().and_then(Path::parent);
        plain && state.is_some_and(|state| path.starts_with(state))
    }
}

/// The text of the manifest that names a relay and the extensions that may start it: [`Host::text`].
///
/// # Errors
/// When the path or an id cannot stand in a manifest.
pub fn manifest(ids: &[impl AsRef<str>], relay: &Path) -> Result<String, ManifestError> {
    Ok(Host::new(ids, relay)?.text)
}

fn is_extension_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|letter| matches!(letter, b'a'..=b'p'))
}
