//! The browser's side: standard input, frame by frame.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::frame::{self, Found};
use crate::link::{BrowserGone, Slot};
use crate::native;
use crate::note::{Counted, note};

/// Passes the extension's frames on until the browser closes the pipe.
pub(crate) fn pump(mut input: impl Read + AsFd, slot: &Slot) {
    let (mut not_json, mut too_long) = (Counted::default(), Counted::default());
    let mut frame = Vec::new();
    loop {
        match native::read(&mut input, frame::MAX, &mut frame) {
            Ok(Found::Frame) => {}
            Ok(Found::TooLong) => {
                too_long.note(format_args!("the extension sent a frame over {} bytes: dropped", frame::MAX));
                continue;
            }
            Ok(Found::End) => return,
            Err(error) => {
                note(format_args!("cannot read from the browser: {error}"));
                return;
            }
        }
        // Looked up after the frame is whole: with no hub, it is dropped.
        let Some(live) = slot.live() else { continue };
        if let Err(reason) = frame::make_line(&mut frame) {
            not_json.note(format_args!("the extension sent {reason}: dropped"));
            continue;
        }
        if !live.admits(&frame) {
            continue;
        }
        frame.push(b'\n');
        if live.send(&frame, || hung_up(input.as_fd())) == Err(BrowserGone) {
            return;
        }
    }
}

/// Whether the other end of a pipe is closed, however much is still to be read from it.
fn hung_up(pipe: BorrowedFd<'_>) -> bool {
    // Linux reports it unasked, macOS to those who ask.
    let mut asked = [PollFd::new(&pipe, PollFlags::HUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::HUP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_hang_up_shows_behind_unread_bytes() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"unread").unwrap();
        assert!(!hung_up(reader.as_fd()));
        drop(writer);
        assert!(hung_up(reader.as_fd()));
    }
}
