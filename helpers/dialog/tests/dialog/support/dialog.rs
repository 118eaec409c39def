//! The dialog's process, its events and its window.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use consentry_wire::dialog::{
    ButtonStyle, DialogAnswer, DialogButton, DialogEvent, DialogRow, DialogSpec, IgnoredClick,
};
use serde::Deserialize;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};
use x11rb::rust_connection::RustConnection;

use super::hand::Hand;
use super::xsession::{XSession, wait_for};

/// No state takes longer to come about, however slow the machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// The colour of the label of a denying button that can be clicked.
pub(crate) const TEXT: u32 = 0x1d_2524;
/// The colour of a permitting button that can be clicked, and of one with the pointer on it.
const ARMED: [u32; 2] = [0x1f_5956, 0x19_4a47];

/// A dialog that is open.
#[derive(Debug)]
pub(crate) struct Dialog {
    child: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<DialogEvent>,
    places: Places,
}

/// What the dialog prints about itself for tests.
#[derive(Debug, Deserialize)]
struct Places {
    window: Area,
    buttons: Vec<Button>,
}

/// The dialog's window on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Area {
    pub(crate) x: i16,
    pub(crate) y: i16,
    pub(crate) w: u16,
    pub(crate) h: u16,
}

#[derive(Debug, Deserialize)]
struct Button {
    id: String,
    x: u16,
    y: u16,
}

/// A dialog that asks for the browser, for so many seconds.
pub(crate) fn spec(seconds: u16) -> DialogSpec {
    let button = |id: &str, label: &str, style| DialogButton {
        id: id.to_owned(),
        label: label.to_owned(),
        style,
        permits: id == "allow",
    };
    let row = |label: &str, value: &str, unverified| DialogRow {
        label: label.to_owned(),
        value: value.to_owned(),
        unverified,
    };
    DialogSpec {
        title: "Let an agent use your browser?".to_owned(),
        quote: Some("Compare three hotels in Lisbon, 你好, مرحبا, 👋.".to_owned()),
        rows: vec![row("Path", "browser", false), row("Caller", "Travel planner", true)],
        detail: None,
        warning: Some("It works in your signed-in browser.".to_owned()),
        buttons: vec![
            button("cool_down", "Disallow and cool down", ButtonStyle::Quiet),
            button("reject", "Reject", ButtonStyle::Plain),
            button("allow", "Allow", ButtonStyle::Primary),
        ],
        seconds,
        countdown: "Denied in {} s.".to_owned(),
    }
}

/// The program under test, on this session's display.
pub(crate) fn program(session: &XSession) -> Command {
    let mut command = session.command(env!("CARGO_BIN_EXE_consentry-dialog"));
    command.env_remove("CONSENTRY_THEME").env_remove("GDK_SCALE");
    command
}

/// Runs it to its end with this on standard input, which stays open.
pub(crate) fn run(mut command: Command, spec: &DialogSpec) -> anyhow::Result<DialogAnswer> {
    let dialog = Dialog::start(&mut command, spec)?;
    dialog.closed()
}

impl Dialog {
    /// Opens it and waits until it is shown.
    pub(crate) fn open(session: &XSession, spec: &DialogSpec) -> anyhow::Result<Self> {
        Self::open_with(&mut program(session), spec)
    }

    /// Opens it as this command and waits until it is shown.
    pub(crate) fn open_with(command: &mut Command, spec: &DialogSpec) -> anyhow::Result<Self> {
        let mut dialog =
            Self::start(command.env("CONSENTRY_DIALOG_LAYOUT", "1").stderr(Stdio::piped()), spec)?;
        let stderr = dialog.child.stderr.take().context("no standard error")?;
        let mut line = String::new();
        BufReader::new(stderr).read_line(&mut line)?;
        match dialog.next(LIMIT)? {
            DialogEvent::Shown => {}
            other => bail!("not shown but {other:?}"),
        }
        dialog.places = serde_json::from_str(&line).with_context(|| format!("no places in {line:?}"))?;
        Ok(dialog)
    }

    fn start(command: &mut Command, spec: &DialogSpec) -> anyhow::Result<Self> {
        let mut child = command.arg("show").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("no standard input")?;
        stdin.write_all(serde_json::to_string(spec)?.as_bytes())?;
        stdin.write_all(b"\n")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let (sender, events) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(event) = serde_json::from_str(&line) else { return };
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let window = Area { x: 0, y: 0, w: 0, h: 0 };
        Ok(Self { child, stdin: Some(stdin), events, places: Places { window, buttons: Vec::new() } })
    }

    /// Where it stands.
    pub(crate) fn area(&self) -> Area {
        self.places.window
    }

    /// Where the middle of this button is on the screen.
    pub(crate) fn button(&self, id: &str) -> anyhow::Result<(u16, u16)> {
        let button = self.places.buttons.iter().find(|button| button.id == id).context("no such button")?;
        Ok((button.x, button.y))
    }

    /// The next thing that it says.
    pub(crate) fn next(&self, limit: Duration) -> anyhow::Result<DialogEvent> {
        self.events.recv_timeout(limit).context("the dialog says nothing")
    }

    /// Waits until it says that it ignored a click, and why.
    pub(crate) fn ignored(&self) -> anyhow::Result<IgnoredClick> {
        match self.next(LIMIT)? {
            DialogEvent::Ignored { reason } => Ok(reason),
            other => bail!("no click was ignored but {other:?}"),
        }
    }

    /// Waits until it is gone, past clicks that it ignores.
    pub(crate) fn closed(self) -> anyhow::Result<DialogAnswer> {
        let end = Instant::now() + LIMIT;
        loop {
            match self.next(end.saturating_duration_since(Instant::now()))? {
                DialogEvent::Closed { answer } => return Ok(answer),
                DialogEvent::Shown | DialogEvent::Ignored { .. } => {}
            }
        }
    }

    /// It has said nothing since, and is still there.
    pub(crate) fn is_still_open(&mut self) -> anyhow::Result<()> {
        match self.events.try_recv() {
            Err(mpsc::TryRecvError::Empty) => {}
            other => bail!("not silent but {other:?}"),
        }
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("it ended with {status}"),
        }
    }

    /// Stays silent for so long.
    pub(crate) fn says_nothing_for(&self, time: Duration) -> anyhow::Result<()> {
        match self.events.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            other => bail!("not silent but {other:?}"),
        }
    }

    /// Ends its standard input, as the hub does to withdraw a question.
    pub(crate) fn withdraw(&mut self) {
        self.stdin = None;
    }

    /// Waits until a click would count: the permitting button has its full colour.
    pub(crate) fn armed(&self, connection: &RustConnection) -> anyhow::Result<()> {
        let (x, y) = self.button("allow")?;
        // Beside the label.
        let (x, y) = (i16::try_from(x)? - 40, i16::try_from(y)?);
        wait_for("the dialog to be armed", LIMIT, || {
            let pixel = pixel(connection, x, y)?;
            Ok(ARMED.contains(&pixel).then_some(()))
        })
    }

    /// A real pointer clicks a button, and that answers: the dialog is none the worse for what came before.
    pub(crate) fn answers_to(self, session: &XSession, id: &str) -> anyhow::Result<()> {
        let (x, y) = self.button(id)?;
        let mut hand = Hand::connect(session.rfb_port())?;
        let connection = session.connect()?;
        hand.move_to(x, y)?;
        self.armed(&connection)?;
        hand.click(x, y)?;
        let answer = self.closed()?;
        anyhow::ensure!(answer == DialogAnswer::Button { id: id.to_owned() }, "{answer:?}");
        Ok(())
    }

    /// The dialog's window, as any client can find it.
    pub(crate) fn window(&self, connection: &RustConnection) -> anyhow::Result<u32> {
        let root = root(connection)?;
        let Area { x, y, w, h } = self.area();
        for child in connection.query_tree(root)?.reply()?.children {
            let Ok(place) = connection.get_geometry(child)?.reply() else { continue };
            if (place.x, place.y, place.width, place.height) == (x, y, w, h) {
                return Ok(child);
            }
        }
        bail!("no window at {:?}", self.area())
    }
}

impl Drop for Dialog {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The root window of the first screen.
pub(crate) fn root(connection: &RustConnection) -> anyhow::Result<u32> {
    Ok(connection.setup().roots.first().context("no screen")?.root)
}

/// The colour of a pixel on the screen.
pub(crate) fn pixel(connection: &RustConnection, x: i16, y: i16) -> anyhow::Result<u32> {
    let image =
        connection.get_image(ImageFormat::Z_PIXMAP, root(connection)?, x, y, 1, 1, u32::MAX)?.reply()?;
    let bytes = image.data.first_chunk().context("no pixel")?;
    Ok(u32::from_ne_bytes(*bytes) & 0xff_ffff)
}

/// How many pixels of each colour a part of the screen has.
pub(crate) fn colours(connection: &RustConnection, area: Area) -> anyhow::Result<HashMap<u32, usize>> {
    let Area { x, y, w, h } = area;
    let image =
        connection.get_image(ImageFormat::Z_PIXMAP, root(connection)?, x, y, w, h, u32::MAX)?.reply()?;
    let mut counts = HashMap::new();
    for bytes in image.data.chunks_exact(4) {
        let colour = u32::from_ne_bytes(bytes.try_into()?) & 0xff_ffff;
        *counts.entry(colour).or_default() += 1;
    }
    Ok(counts)
}
