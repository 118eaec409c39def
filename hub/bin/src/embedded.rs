//! The built extension that this program carries, and the unpacked copy of it in the state folder.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use consentry_config::{Home, write_private};
use consentry_crx::PrivateKey;
use serde_json::{Value, json};

include!(concat!(env!("OUT_DIR"), "/extension.rs"));

/// How to get a program that carries the extension.
const NO_EXTENSION: &str = "this build carries no extension: build it with `cargo xtask build`";

/// Whether this program carries the extension.
pub(crate) fn present() -> bool {
    !FILES.is_empty()
}

/// The install's own key, made once.
pub(crate) fn key(home: &Home) -> anyhow::Result<PrivateKey> {
    PrivateKey::load_or_create(&home.extension_key()).context("cannot use the extension's key")
}

/// Writes the unpacked copy under the install's own id. Says whether anything changed.
pub(crate) fn write_copy(home: &Home) -> anyhow::Result<(PathBuf, bool)> {
    if !present() {
        bail!(NO_EXTENSION);
    }
    let key = key(home)?;
    let folder = home.extension();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut changed = false;
    for (name, content) in FILES {
        let content = if *name == "manifest.json" { manifest(content, &key)? } else { content.to_vec() };
        let place = folder.join(name);
        if std::fs::read(&place).is_ok_and(|old| old == content) {
            continue;
        }
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent)?;
        }
        write_private(&place, &content).with_context(|| format!("cannot write {}", place.display()))?;
        changed = true;
    }
    changed |= remove_strangers(&folder, &folder)?;
    Ok((folder, changed))
}

/// The manifest with the public half of the key, from which browsers derive the id.
fn manifest(content: &[u8], key: &PrivateKey) -> anyhow::Result<Vec<u8>> {
    let mut manifest: Value =
        serde_json::from_slice(content).context("the extension's manifest is damaged")?;
    manifest["key"] = json!(key.manifest_key());
    manifest["version"] = json!(env!("CARGO_PKG_VERSION"));
    let mut text = serde_json::to_vec_pretty(&manifest)?;
    text.push(b'\n');
    Ok(text)
}

/// What an earlier version left behind would be loaded with the rest.
fn remove_strangers(root: &std::path::Path, folder: &std::path::Path) -> anyhow::Result<bool> {
    let mut removed = false;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            removed |= remove_strangers(root, &path)?;
            continue;
        }
        let name =
            path.strip_prefix(root).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Browsers write a folder of their own, which begins with an underscore.
        if !name.starts_with('_') && !FILES.iter().any(|(known, _)| *known == name) {
            std::fs::remove_file(&path)?;
            removed = true;
        }
    }
    Ok(removed)
}

/// Makes the token, unless there is one.
pub(crate) fn ensure_token(home: &Home) -> anyhow::Result<()> {
    if !home.extension_token().exists() {
        new_token(home)?;
    }
    Ok(())
}

/// Makes another token in place of the old one.
pub(crate) fn new_token(home: &Home) -> anyhow::Result<()> {
    use rand::RngExt as _;
    let random: [u8; 32] = rand::rng().random();
    let text = consentry_wire::proof::hex(&random) + "\n";
    write_private(&home.extension_token(), text.as_bytes()).context("cannot write the token")
}

/// A program that lies beside this one.
pub(crate) fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program lies")?;
    let place = own.with_file_name(name);
    if !place.exists() {
        bail!("{} is missing beside {}: build everything with `cargo xtask build`", name, own.display());
    }
    Ok(place)
}
