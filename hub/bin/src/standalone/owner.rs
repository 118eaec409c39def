//! The owner, as far as a program that runs alone has to do with them.

use anyhow::bail;
use async_trait::async_trait;
use consentry_config::Home;
use consentry_core::{Dialog, DialogReport, Hub, Memory};
use consentry_gate::{Answer, Remembered, Shown};

use crate::serve::POLICY;

/// Nobody is asked under `--no-consent`, and whatever asks all the same is denied.
pub(super) struct Nobody;

#[async_trait]
impl Dialog for Nobody {
    async fn ask(&self, _shown: Shown) -> DialogReport {
        DialogReport { answer: Answer::NoDisplay, notes: vec!["nobody is asked under --no-consent".into()] }
    }
}

/// Sites hold as long as this program runs. The file of decisions is the hub's, which may run beside it.
pub(super) struct Forgetful;

impl Memory for Forgetful {
    fn keep(&self, _sites: &[Remembered]) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whoever manages this machine decides how consent is asked for; there it is never left out.
pub(super) fn allows_no_consent() -> anyhow::Result<()> {
    match std::fs::symlink_metadata(POLICY) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        _ => bail!("--no-consent is refused: this machine has a policy, {POLICY}"),
    }
}

/// Notices the kill switch at once. The core looks at it before each call and every two seconds anyway.
pub(super) async fn watch_switch(home: Home, hub: Hub) {
    let watched = consentry_config::watch(home.path());
    let Ok((_watcher, mut changes)) = watched else {
        tracing::warn!("the state folder cannot be watched; DISABLED is noticed within two seconds");
        return std::future::pending().await;
    };
    while let Some(path) = changes.recv().await {
        if path == home.disabled() {
            hub.switch_changed();
        }
    }
    std::future::pending().await
}
