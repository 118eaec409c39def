//! The dialog on X11, and under Wayland through XWayland.
//!
//! Three threads only pass on what arrives: the display's events, the RECORD stream, the end of standard input.
//! One loop decides. It knows the time by the server's own clock, from the RECORD stream (see [`record`]), so a
//! press that a grab held back is judged by when it was made.

mod display;
mod lock;
mod record;
mod session;
mod window;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use consentry_wire::dialog::{DialogAnswer, DialogEvent, DialogProbe, DialogSpec};

use display::Display;
use lock::{LockWatch as _, Logind};
use record::{Heard, Recorder};
use session::{Session, Signal};

/// How long the server may take to begin recording.
const START_LIMIT: Duration = Duration::from_secs(3);
/// How often logind is asked.
const LOCK_INTERVAL: Duration = Duration::from_secs(2);

/// Shows the dialog until it is answered or over.
pub(crate) fn show(spec: &DialogSpec, tell: &mut dyn FnMut(DialogEvent)) -> DialogAnswer {
    run(spec, tell).unwrap_or_else(|error| DialogAnswer::NoDisplay { detail: format!("{error:#}") })
}

/// Whether a dialog could be shown now.
pub(crate) fn probe() -> DialogProbe {
    let locked = Logind.locked();
    match look() {
        Ok((saver, detail)) => {
            let locked = locked || saver;
            DialogProbe { ready: !locked, locked, detail }
        }
        Err(error) => DialogProbe { ready: false, locked, detail: format!("{error:#}") },
    }
}

fn look() -> anyhow::Result<(bool, String)> {
    let display = Display::open()?;
    let (sender, signals) = mpsc::channel();
    Recorder::start(&display.connection, sender, std::convert::identity)?;
    match signals.recv_timeout(START_LIMIT) {
        Ok(Heard::Started) => {}
        Ok(Heard::Ended(reason)) => bail!("cannot record what other programs post: {reason}"),
        other => bail!("the display does not record what other programs post: {other:?}"),
    }
    display.visual()?;
    let monitor = display.monitor()?;
    let detail = format!(
        "{}, {} × {} at a scale of {}, with RECORD, XInput 2, XTEST and SHAPE",
        display.server(),
        monitor.width,
        monitor.height,
        monitor.scale
    );
    Ok((lock::screen_saver_is_on(&display), detail))
}

fn run(spec: &DialogSpec, tell: &mut dyn FnMut(DialogEvent)) -> anyhow::Result<DialogAnswer> {
    if Logind.locked() {
        return Ok(DialogAnswer::ScreenLocked);
    }
    let (sender, signals) = mpsc::channel();
    let withdrawal = sender.clone();
    crate::on_withdrawal(move || drop(withdrawal.send(Signal::Withdrawn)))?;
    let display = Display::open()?;
    if lock::screen_saver_is_on(&display) {
        return Ok(DialogAnswer::ScreenLocked);
    }
    let recorder = Recorder::start(&display.connection, sender.clone(), Signal::Heard)?;
    loop {
        match signals
            .recv_timeout(START_LIMIT)
            .context("the display does not record what other programs post")?
        {
            Signal::Heard(Heard::Started) => break,
            Signal::Heard(Heard::Ended(reason)) => bail!("cannot record what other programs post: {reason}"),
            Signal::Withdrawn => return Ok(DialogAnswer::Withdrawn),
            _ => {}
        }
    }
    let lock_sender = sender.clone();
    std::thread::Builder::new().name("lock".to_owned()).spawn(move || watch_lock(&Logind, &lock_sender))?;

    let mut session = Session::open(display, recorder, spec, sender)?;
    let mut answer = session.begin(tell)?;
    while answer.is_none() {
        let wait = session.wake_at().saturating_duration_since(Instant::now());
        match signals.recv_timeout(wait) {
            Ok(signal) => answer = session.take(signal, tell)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("nothing listens to the display any more"),
        }
        // Not only when nothing arrives: a flood must not stop the clock.
        if answer.is_none() && Instant::now() >= session.wake_at() {
            answer = session.wake(tell)?;
        }
    }
    answer.context("the dialog ended without an answer")
}

fn watch_lock(watch: &dyn lock::LockWatch, sender: &mpsc::Sender<Signal>) {
    while !watch.locked() {
        std::thread::sleep(LOCK_INTERVAL);
    }
    // Nobody listens any more once the dialog is gone.
    drop(sender.send(Signal::Locked));
}
