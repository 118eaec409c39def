//! The link to the hub: made, kept, lost and made again.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use consentry_wire::frame::{self as wire, FromRelay};

use crate::frame::{self, Found};
use crate::hub::{self, Input, Refusal};
use crate::note::{Counted, note};
use crate::place::Place;
use crate::{line, native};

/// How long a hub may take none of the bytes that it is sent. Longer than any hub that lives; the extension
/// itself gives up after 6 s without the hub's word.
const STALL: Duration = Duration::from_secs(5);

/// A link that held for this long was no accident, and the next attempt comes soon.
const HELD: Duration = Duration::from_secs(2);

/// The proven hub of this moment, if there is one, for the thread that reads from the browser.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Option<Arc<Live>>>);

impl Slot {
    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, live: Option<Arc<Live>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = live;
    }
}

/// The writing half of a proven hub.
#[derive(Debug)]
pub(crate) struct Live {
    stream: UnixStream,
    greeted: AtomicBool,
    stalled: AtomicBool,
}

/// The browser went away while the hub did not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BrowserGone;

impl Live {
    fn new(stream: UnixStream) -> Self {
        Self { stream, greeted: AtomicBool::new(false), stalled: AtomicBool::new(false) }
    }

    /// Whether a frame may pass. A frame that was under way when this hub came was meant for the one before
    /// it, and the extension says hello to each: so nothing passes until it did.
    pub(crate) fn admits(&self, frame: &[u8]) -> bool {
        if !self.greeted.load(Ordering::Relaxed) {
            self.greeted.store(frame::is_hello(frame), Ordering::Relaxed);
        }
        self.greeted.load(Ordering::Relaxed)
    }

    /// Sends one line, its end included. A hub that is lost meanwhile loses the line too; the link's own
    /// thread sees to the rest.
    ///
    /// `browser_gone` is asked while the hub does not read.
    pub(crate) fn send(&self, line: &[u8], browser_gone: impl Fn() -> bool) -> Result<(), BrowserGone> {
        let mut rest = line;
        let mut moved = Instant::now();
        while !rest.is_empty() {
            match (&self.stream).write(rest) {
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    moved = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if browser_gone() {
                        return Err(BrowserGone);
                    }
                    if moved.elapsed() > STALL {
                        self.stalled.store(true, Ordering::Relaxed);
                        self.close();
                        return Ok(());
                    }
                }
                Err(_) => {
                    self.close();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Wakes the thread that reads from this hub. A line that was cut must not be followed by another.
    fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Keeps the link up until the browser no longer reads.
pub(crate) fn run(place: &Place, origin: &str, slot: &Slot, mut output: File) {
    // Every way out is a failed write to the browser, and nobody is left to hear of it.
    let _ = keep(place, origin, slot, &mut output);
}

fn keep(place: &Place, origin: &str, slot: &Slot, output: &mut File) -> io::Result<()> {
    let mut told = Told::default();
    let mut pause = Pause::default();
    loop {
        match linked(place, origin) {
            Ok((mut input, live)) => {
                let live = Arc::new(live);
                // Before the extension hears of it: it answers with hello.
                slot.set(Some(Arc::clone(&live)));
                told.here();
                note(format_args!("linked to the hub"));
                tell(output, &FromRelay::HubHere)?;
                let since = Instant::now();
                let end = forward(&mut input, output);
                slot.set(None);
                live.close();
                let reason = match end? {
                    _ if live.stalled.load(Ordering::Relaxed) => "consentry does not answer".to_owned(),
                    Some(error) => format!("the link to consentry broke: {error}"),
                    None => "consentry stopped".to_owned(),
                };
                told.lost(&reason);
                tell(output, &FromRelay::HubGone { reason: reason.clone() })?;
                note(format_args!("lost the hub: {reason}"));
                if since.elapsed() > HELD {
                    pause = Pause::default();
                }
            }
            Err(refusal) => {
                if let Some(reason) = told.refused(&refusal) {
                    tell(output, &FromRelay::HubGone { reason: reason.clone() })?;
                    note(format_args!("no hub: {reason}"));
                }
            }
        }
        thread::sleep(pause.next());
    }
}

fn linked(place: &Place, origin: &str) -> Result<(Input, Live), Refusal> {
    let input = hub::connect(place, origin)?;
    let stream = input.get_ref().stream().try_clone();
    let stream = stream.map_err(|cause| Refusal::Broken { path: place.socket.clone(), cause })?;
    Ok((input, Live::new(stream)))
}

fn tell(output: &mut File, frame: &FromRelay) -> io::Result<()> {
    native::write(output, wire::write(frame).as_bytes())
}

/// Passes the hub's lines on until the hub is lost; gives the error that lost it. Fails when the browser no
/// longer reads.
fn forward(input: &mut Input, output: &mut File) -> io::Result<Option<io::Error>> {
    let (mut not_json, mut too_long) = (Counted::default(), Counted::default());
    let mut frame = Vec::new();
    loop {
        match line::read(input, frame::MAX, &mut frame) {
            Ok(Found::Frame) => match frame::make_line(&mut frame) {
                Ok(()) => native::write(output, &frame)?,
                Err(reason) => not_json.note(format_args!("the hub sent {reason}: dropped")),
            },
            Ok(Found::TooLong) => {
                too_long.note(format_args!("the hub sent a line over {} bytes: dropped", frame::MAX));
            }
            Ok(Found::End) => return Ok(None),
            Err(error) => return Ok(Some(error)),
        }
    }
}

/// What the extension was last told about a missing hub.
#[derive(Debug, Default)]
struct Told(Option<String>);

impl Told {
    fn here(&mut self) {
        self.0 = None;
    }

    fn lost(&mut self, reason: &str) {
        self.0 = Some(reason.to_owned());
    }

    /// What to tell now: the first refusal, and later only what the owner could not guess from a hub that
    /// is away, once each time it changes.
    fn refused(&mut self, refusal: &Refusal) -> Option<String> {
        if self.0.is_some() && matches!(refusal, Refusal::Absent) {
            return None;
        }
        let reason = refusal.to_string();
        if self.0.as_ref() == Some(&reason) {
            return None;
        }
        self.0 = Some(reason.clone());
        Some(reason)
    }
}

/// The pauses between attempts. The longest keeps a hub that returns from waiting a second.
#[derive(Debug)]
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(Duration::from_millis(100))
    }
}

impl Pause {
    const LONGEST: Duration = Duration::from_millis(800);

    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(Self::LONGEST);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_under_a_second() {
        let mut pause = Pause::default();
        let pauses: Vec<_> = (0..6).map(|_| pause.next().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 800, 800]);
    }

    #[test]
    fn an_absent_hub_is_told_of_once_and_anything_stranger_when_it_changes() {
        let strange = || Refusal::NotASocket("/s".into());
        let mut told = Told::default();
        assert!(told.refused(&Refusal::Absent).is_some());
        assert!(told.refused(&Refusal::Absent).is_none());
        assert!(told.refused(&strange()).is_some());
        assert!(told.refused(&strange()).is_none());
        assert!(told.refused(&Refusal::Absent).is_none());
        told.here();
        told.lost("consentry stopped");
        assert!(told.refused(&Refusal::Absent).is_none());
        assert!(told.refused(&strange()).is_some());
    }

    #[test]
    fn nothing_passes_before_hello_and_everything_after_it() {
        let (near, _far) = UnixStream::pair().unwrap();
        let live = Live::new(near);
        assert!(!live.admits(br#"{"type":"done","id":7,"result":{}}"#));
        assert!(live.admits(br#"{"type":"hello"}"#));
        assert!(live.admits(br#"{"type":"done","id":7,"result":{}}"#));
    }

    #[test]
    fn a_hub_that_does_not_read_ends_with_its_browser() {
        let (near, _far) = UnixStream::pair().unwrap();
        near.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
        let live = Live::new(near);
        assert_eq!(live.send(&vec![b' '; 8 << 20], || true), Err(BrowserGone));
    }
}
