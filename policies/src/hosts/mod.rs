//! The native-messaging host of each browser: a small JSON file that names the relay and the extensions that
//! may start it. <https://developer.chrome.com/docs/extensions/develop/concepts/native-messaging>
//!
//! One [table](BROWSERS) of browsers; over it [`install`], [`refresh`], [`remove`] and [`status`]. One folder
//! at a time, for a browser that was started with `--user-data-dir` or for a system's own folder, the same
//! are methods of [`Host`].

mod file;
mod manifest;
mod process;
mod table;

pub use file::{Change, Force, HostError, State};
pub use manifest::{Host, ManifestError, manifest};
pub use process::known_browser;
pub use table::{BROWSERS, Browser, Platform, Reach, custom_folder, found};

use std::path::{Path, PathBuf};

/// One folder of one browser, and what was found or done there.
#[derive(Debug)]
pub struct Entry<T> {
    /// Which browser.
    pub browser: &'static Browser,
    /// The folder that holds host manifests.
    pub folder: PathBuf,
    /// What was found or done.
    pub outcome: Result<T, HostError>,
}

/// What each browser in this home is told now.
pub fn status(home: &Path, platform: Platform, host: &Host) -> Vec<Entry<State>> {
    each(home, platform, |folder| host.state(folder))
}

/// Tells every browser that is [`found`]. A browser that cannot start the relay at all is left out.
pub fn install(home: &Path, platform: Platform, host: &Host, force: Force) -> Vec<Entry<Change>> {
    each(home, platform, |folder| host.install(folder, force))
}

/// Corrects what is stale, for example after the relay or the extension's id became another. Nothing is
/// installed where nothing was.
pub fn refresh(home: &Path, platform: Platform, host: &Host) -> Vec<Entry<Change>> {
    each(home, platform, |folder| host.refresh(folder))
}

/// Takes back what [`install`] did.
pub fn remove(home: &Path, platform: Platform, host: &Host, force: Force) -> Vec<Entry<Change>> {
    each(home, platform, |folder| host.remove(folder, force))
}

/// Some browsers share a folder: it is visited once, for the first of them.
fn each<T>(home: &Path, platform: Platform, visit: impl Fn(&Path) -> Result<T, HostError>) -> Vec<Entry<T>> {
    let mut entries: Vec<Entry<T>> = Vec::new();
    for browser in found(home, platform) {
        if matches!(browser.reach(), Reach::Never(_)) {
            continue;
        }
        for folder in browser.folders(home, platform) {
            if entries.iter().all(|entry| entry.folder != folder) {
                let outcome = visit(&folder);
                entries.push(Entry { browser, folder, outcome });
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests;
