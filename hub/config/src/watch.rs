//! Watching the state folder.

use std::path::{Path, PathBuf};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// Says which files of a folder changed, until the watcher is dropped. Changes that come faster than they are read are
/// as good as one.
///
/// # Errors
/// When the system cannot watch; whoever watches sweeps anyway.
pub fn watch(folder: &Path) -> notify::Result<(RecommendedWatcher, mpsc::Receiver<PathBuf>)> {
    let (sender, receiver) = mpsc::channel(64);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        for path in event.map(|event| event.paths).unwrap_or_default() {
            let _ = sender.try_send(path);
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok((watcher, receiver))
}
