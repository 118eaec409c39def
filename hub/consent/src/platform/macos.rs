//! Notifications by the system's own script runner: the text travels as arguments to a constant script.

use std::process::Stdio;
use std::time::Duration;

use crate::notify::Notice;

const SCRIPT: &str =
    "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run";

#[derive(Debug, Default)]
pub(crate) struct Desktop {}

impl Desktop {
    pub(crate) async fn show(&mut self, notice: &Notice) -> std::io::Result<()> {
        let mut command = tokio::process::Command::new("/usr/bin/osascript");
        command.args(["-e", SCRIPT, &notice.title, &notice.body]).stdin(Stdio::null()).stdout(Stdio::null());
        let run = command.stderr(Stdio::null()).kill_on_drop(true).status();
        tokio::time::timeout(Duration::from_secs(5), run).await.map_err(std::io::Error::other)??;
        Ok(())
    }
}
