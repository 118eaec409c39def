//! Whether the screen is locked.
//!
//! Three sources, each of which may be silent: logind's `LockedHint`, which desktops and their lockers set; the
//! server's own screen saver; and a window that covers the whole screen while its program holds the keyboard, as
//! i3lock, slock, xsecurelock and xscreensaver do. What none of them sees: a locker that covers nothing and tells
//! nobody. It holds the pointer, so no click arrives either.

use std::process::{Command, Stdio};

use x11rb::protocol::screensaver::{ConnectionExt as _, State};
use x11rb::protocol::xproto::{ConnectionExt as _, GrabMode, GrabStatus};

use super::display::Display;
use crate::environment;

/// Somebody who may know that the screen is locked.
pub(super) trait LockWatch: Send {
    /// Whether it is, as far as this one knows.
    fn locked(&self) -> bool;
}

/// logind, asked with its own command: where there is none, or no session, it knows nothing.
#[derive(Debug, Default)]
pub(super) struct Logind;

impl LockWatch for Logind {
    fn locked(&self) -> bool {
        let session = environment::value(environment::SESSION).unwrap_or_else(|| "auto".to_owned());
        Command::new("loginctl")
            .args(["show-session", "--property=LockedHint", "--value", &session])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .is_ok_and(|output| output.stdout.trim_ascii() == b"yes")
    }
}

/// Whether the server's own screen saver is on.
pub(super) fn screen_saver_is_on(display: &Display) -> bool {
    display
        .connection
        .screensaver_query_info(display.root)
        .ok()
        .and_then(|cookie| cookie.reply().ok())
        .is_some_and(|info| info.state == u8::from(State::ON))
}

/// Whether a program holds the keyboard. Asked only where a window covers the whole screen, because asking takes
/// the keyboard for a moment.
pub(super) fn keyboard_is_held(display: &Display) -> bool {
    let connection = &display.connection;
    let grab = connection
        .grab_keyboard(false, display.root, x11rb::CURRENT_TIME, GrabMode::ASYNC, GrabMode::ASYNC)
        .ok()
        .and_then(|cookie| cookie.reply().ok());
    let held = grab.is_some_and(|grab| grab.status == GrabStatus::ALREADY_GRABBED);
    if let Ok(cookie) = connection.ungrab_keyboard(x11rb::CURRENT_TIME) {
        cookie.ignore_error();
    }
    held
}

/// Whether a program holds the pointer, so that no click can reach the dialog.
pub(super) fn pointer_is_held(display: &Display) -> bool {
    let connection = &display.connection;
    let grab = connection
        .grab_pointer(
            false,
            display.root,
            x11rb::protocol::xproto::EventMask::NO_EVENT,
            GrabMode::ASYNC,
            GrabMode::ASYNC,
            x11rb::NONE,
            x11rb::NONE,
            x11rb::CURRENT_TIME,
        )
        .ok()
        .and_then(|cookie| cookie.reply().ok());
    let held = grab.is_some_and(|grab| grab.status == GrabStatus::ALREADY_GRABBED);
    if let Ok(cookie) = connection.ungrab_pointer(x11rb::CURRENT_TIME) {
        cookie.ignore_error();
    }
    held
}
