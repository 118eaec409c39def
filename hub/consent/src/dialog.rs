//! The dialog's process.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use consentry_core::{Dialog, DialogReport};
use consentry_gate::{Answer, Shown};
use consentry_wire::dialog::{DialogAnswer, DialogEvent, DialogProbe};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::words::{Worded, word};

/// A dialog that has not said so long after its window that it is gone, is.
const GRACE: Duration = Duration::from_secs(2);
/// How long looking whether a dialog could be shown may take.
const PROBE: Duration = Duration::from_secs(5);
/// The longest line that is read from a dialog.
const MAX_LINE: u64 = 64 * 1024;

/// Shows dialogs by a program of its own.
#[derive(Debug, Clone)]
pub struct DialogProcess {
    program: PathBuf,
    machine: String,
}

impl DialogProcess {
    /// With this program, for this machine's name.
    pub fn new(program: PathBuf, machine: String) -> Self {
        Self { program, machine }
    }

    fn start(&self, argument: &str) -> std::io::Result<Child> {
        command(self.program.as_os_str(), argument).spawn()
    }

    async fn run(&self, worded: &Worded, notes: &mut Vec<String>) -> Answer {
        let mut child = match self.start("show") {
            Ok(child) => child,
            Err(error) => {
                notes.push(format!("{} cannot be started: {error}", self.program.display()));
                return Answer::NoDisplay;
            }
        };
        // The pipe stays open as long as the dialog is wanted: its end takes the dialog from the screen.
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Answer::NoDisplay;
        };
        let mut line = serde_json::to_vec(&worded.spec).unwrap_or_default();
        line.push(b'\n');
        if let Err(error) = input.write_all(&line).await {
            notes.push(format!("the dialog does not listen: {error}"));
            return Answer::NoDisplay;
        }
        let limit = Duration::from_secs(u64::from(worded.spec.seconds)) + GRACE;
        let lines = BufReader::new(output.take(MAX_LINE * 16)).lines();
        match tokio::time::timeout(limit, read(lines, worded, notes)).await {
            Ok(answer) => answer,
            Err(_) => {
                notes.push("the dialog did not end by itself".into());
                Answer::NoDisplay
            }
        }
    }
}

#[async_trait]
impl Dialog for DialogProcess {
    async fn ask(&self, shown: Shown) -> DialogReport {
        let worded = word(&shown, &self.machine);
        let mut notes = Vec::new();
        let answer = self.run(&worded, &mut notes).await;
        DialogReport { answer, notes }
    }
}

fn command(program: &OsStr, argument: &str) -> Command {
    let mut command = Command::new(program);
    command
        .arg(argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    command
}

async fn read(
    mut lines: Lines<BufReader<tokio::io::Take<ChildStdout>>>,
    worded: &Worded,
    notes: &mut Vec<String>,
) -> Answer {
    let mut was_shown = false;
    loop {
        let line = match lines.next_line().await {
            Ok(Some(line)) => line,
            Ok(None) => {
                notes.push("the dialog ended without an answer".into());
                return Answer::Withdrawn;
            }
            Err(error) => {
                notes.push(format!("the dialog cannot be read: {error}"));
                return Answer::NoDisplay;
            }
        };
        match serde_json::from_str(&line) {
            Ok(DialogEvent::Shown) => was_shown = true,
            Ok(DialogEvent::Ignored { reason }) => notes.push(format!("ignored a click: {reason:?}")),
            Ok(DialogEvent::Closed { answer }) => return meaning(answer, was_shown, worded, notes),
            Err(error) => {
                notes.push(format!("the dialog said something that is no event: {error}"));
                return Answer::NoDisplay;
            }
        }
    }
}

fn meaning(answer: DialogAnswer, was_shown: bool, worded: &Worded, notes: &mut Vec<String>) -> Answer {
    match answer {
        DialogAnswer::Button { id } if was_shown => {
            let found = worded.meaning.iter().find(|(known, _)| *known == id).map(|(_, answer)| *answer);
            found.unwrap_or_else(|| {
                notes.push("the dialog answered with a button that it does not have".into());
                Answer::NoDisplay
            })
        }
        DialogAnswer::TimedOut if was_shown => Answer::TimedOut,
        DialogAnswer::Button { .. } | DialogAnswer::TimedOut => {
            notes.push("the dialog answered before it was shown".into());
            Answer::NoDisplay
        }
        DialogAnswer::NoDisplay { detail } => {
            notes.push(detail);
            Answer::NoDisplay
        }
        DialogAnswer::ScreenLocked => Answer::ScreenLocked,
        DialogAnswer::Withdrawn => Answer::Withdrawn,
    }
}

/// Looks whether a dialog could be shown now, for `consentry doctor` and the status page.
pub async fn probe(program: &std::path::Path) -> DialogProbe {
    let failed = |detail: String| DialogProbe { ready: false, locked: false, detail };
    let child = match command(program.as_os_str(), "probe").spawn() {
        Ok(child) => child,
        Err(error) => return failed(format!("{} cannot be started: {error}", program.display())),
    };
    match tokio::time::timeout(PROBE, child.wait_with_output()).await {
        Err(_) => failed("the dialog's program does not answer".into()),
        Ok(Err(error)) => failed(error.to_string()),
        Ok(Ok(output)) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| failed(format!("the dialog's program says something else: {error}"))),
    }
}
