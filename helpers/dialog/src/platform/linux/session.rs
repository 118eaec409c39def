//! One dialog on the screen: what each event does to it.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use consentry_wire::dialog::{DialogAnswer, DialogEvent, DialogSpec, IgnoredClick};
use x11rb::connection::Connection as _;
use x11rb::protocol::xinput::{ButtonPressEvent, Fp1616};
use x11rb::protocol::{Event, xproto};

use super::display::Display;
use super::lock;
use super::record::{Heard, Recorder};
use super::window::{Place, Standing, Window};
use crate::scene::{SETTLE, Scene};
use crate::verdict::{Click, Decision, GUARD_MS, Posted, Source, Time, Verdict};

/// How often the window is looked at without cause, for what no event tells.
const LOOK_INTERVAL: Duration = Duration::from_millis(150);
/// How soon it is looked at when another window appears or moves: too short a time to mislead an eye.
const SOON: Duration = Duration::from_millis(15);
/// How long the server may take to come back with the time.
const CLOCK_LIMIT: Duration = Duration::from_secs(3);
/// How long a click that began in time may take.
const LAST_CLICK: Duration = Duration::from_secs(1);
/// How often the window is put back before it is given up.
const MOST_RESTORED: u32 = 200;
/// How often it is put back on the screen, or out of another window, before it is given up.
const MOST_RETAKEN: u32 = 10;
/// How many refused clicks are reported: enough for the audit, not enough to flood it.
const MOST_REPORTED: u32 = 32;
/// A posted event that a client sent to the window itself has this bit in its type.
const SENT: u8 = 0x80;

const PRIMARY: u32 = 1;
const WHEEL_UP: u32 = 4;
const WHEEL_DOWN: u32 = 5;

/// Something arrived.
#[derive(Debug)]
pub(super) enum Signal {
    /// From the display.
    Event(Box<Event>),
    /// The display is gone.
    Lost(String),
    /// From the RECORD stream.
    Heard(Heard),
    /// The screen is locked.
    Locked,
    /// Standard input ended.
    Withdrawn,
}

/// A dialog on the screen.
#[derive(Debug)]
pub(super) struct Session {
    display: Arc<Display>,
    recorder: Recorder,
    window: Window,
    scene: Scene,
    verdict: Verdict,
    started: Instant,
    lasts: Duration,
    /// The window was covered, when the server last said something about it.
    obscured: bool,
    /// It has been painted since it appeared.
    painted: bool,
    shown: bool,
    /// The number and the time of the question that settles the window once it comes back.
    settling: Option<(u16, Instant)>,
    /// When clicks begin to count.
    arms_at: Option<Instant>,
    /// The question for the click that waits: when to ask it, or that it was asked.
    deciding: Option<Deciding>,
    look_at: Instant,
    restored: u32,
    retaken: u32,
    reported: u32,
}

#[derive(Debug, Clone, Copy)]
enum Deciding {
    AskAt(Instant),
    AskedAt(Instant),
}

type Tell<'a> = &'a mut dyn FnMut(DialogEvent);
type Outcome = anyhow::Result<Option<DialogAnswer>>;

impl Session {
    /// Prepares the dialog, and listens to the display.
    pub(super) fn open(
        display: Display,
        recorder: Recorder,
        spec: &DialogSpec,
        sender: Sender<Signal>,
    ) -> anyhow::Result<Self> {
        let monitor = display.monitor()?;
        let scene = Scene::new(spec, monitor.scale, monitor.room());
        let (width, height) = scene.size();
        ensure!(height <= monitor.height, "the screen is too small for the dialog");
        let (x, y) = monitor.place((width, height));
        let window = Window::create(&display, Place { x, y, width, height })?;
        let display = Arc::new(display);
        let listening = Arc::clone(&display);
        std::thread::Builder::new().name("display".to_owned()).spawn(move || {
            loop {
                let (signal, last) = match listening.connection.wait_for_event() {
                    Ok(event) => (Signal::Event(Box::new(event)), false),
                    Err(error) => (Signal::Lost(error.to_string()), true),
                };
                if sender.send(signal).is_err() || last {
                    return;
                }
            }
        })?;
        let now = Instant::now();
        Ok(Self {
            display,
            recorder,
            window,
            scene,
            verdict: Verdict::default(),
            started: now,
            lasts: Duration::from_secs(spec.seconds.into()),
            obscured: false,
            painted: false,
            shown: false,
            settling: None,
            arms_at: None,
            deciding: None,
            look_at: now,
            restored: 0,
            retaken: 0,
            reported: 0,
        })
    }

    /// Puts it on the screen.
    pub(super) fn begin(&mut self, tell: Tell<'_>) -> Outcome {
        self.started = Instant::now();
        self.window.show(&self.display)?;
        self.look(tell)
    }

    /// When [`Session::wake`] has something to do.
    pub(super) fn wake_at(&self) -> Instant {
        let asks = match self.deciding {
            Some(Deciding::AskAt(at)) => Some(at),
            _ => None,
        };
        [Some(self.look_at), Some(self.ends_at()), self.arms_at, asks]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.look_at)
    }

    /// Some time has passed.
    pub(super) fn wake(&mut self, tell: Tell<'_>) -> Outcome {
        let now = Instant::now();
        if let Some(Deciding::AskAt(at)) = self.deciding
            && now >= at
        {
            self.recorder.ask(&self.display.connection)?;
            self.deciding = Some(Deciding::AskedAt(now));
        }
        let asked = match self.deciding {
            Some(Deciding::AskedAt(at)) => Some(at),
            _ => self.settling.map(|(_, at)| at),
        };
        if asked.is_some_and(|at| now.duration_since(at) > CLOCK_LIMIT) {
            bail!("the display does not say any more what other programs post");
        }
        if now >= self.ends_at() {
            return Ok(Some(self.run_out()));
        }
        let mut repaint = self.scene.elapsed(self.started.elapsed());
        if self.arms_at.is_some_and(|at| now >= at) {
            self.arms_at = None;
            repaint |= self.scene.arm(true);
        }
        if repaint {
            self.repaint()?;
        }
        if now >= self.look_at {
            if lock::screen_saver_is_on(&self.display) {
                return Ok(Some(DialogAnswer::ScreenLocked));
            }
            return self.look(tell);
        }
        Ok(None)
    }

    /// Something arrived.
    pub(super) fn take(&mut self, signal: Signal, tell: Tell<'_>) -> Outcome {
        match signal {
            Signal::Event(event) => self.event(*event, tell),
            Signal::Heard(heard) => self.heard(heard, tell),
            Signal::Lost(reason) => bail!("the display is gone: {reason}"),
            Signal::Locked => Ok(Some(DialogAnswer::ScreenLocked)),
            Signal::Withdrawn => Ok(Some(DialogAnswer::Withdrawn)),
        }
    }

    fn event(&mut self, event: Event, tell: Tell<'_>) -> Outcome {
        let own = self.window.id;
        if event.raw_response_type() & SENT != 0 {
            // A client made it up. Only a click is worth a word.
            if matches!(event, Event::ButtonPress(_)) {
                self.report(IgnoredClick::SyntheticDevice, tell);
            }
            return Ok(None);
        }
        match event {
            Event::Expose(expose) if expose.window == own => {
                self.repaint()?;
                self.painted = true;
                return self.look(tell);
            }
            Event::VisibilityNotify(visibility) if visibility.window == own => {
                self.obscured = visibility.state != xproto::Visibility::UNOBSCURED;
                if self.obscured {
                    self.disturbed(tell)?;
                }
                // What covers it may be a lock, above which it must not go: so it looks before it raises.
                return self.look(tell);
            }
            Event::DestroyNotify(destroyed) if destroyed.window == own => {
                return Ok(Some(DialogAnswer::Withdrawn));
            }
            Event::ConfigureNotify(xproto::ConfigureNotifyEvent { window, .. })
            | Event::UnmapNotify(xproto::UnmapNotifyEvent { window, .. })
            | Event::ReparentNotify(xproto::ReparentNotifyEvent { window, .. })
            | Event::MapNotify(xproto::MapNotifyEvent { window, .. })
                if window == own =>
            {
                self.disturbed(tell)?;
                return self.look(tell);
            }
            Event::ConfigureNotify(screen) if screen.window == self.display.root => {
                self.disturbed(tell)?;
                let (x, y) = self.display.monitor()?.place(self.scene.size());
                self.window.relocate(&self.display, x, y)?;
                self.print_places();
                return self.look(tell);
            }
            Event::ShapeNotify(shaped) if shaped.affected_window == own => {
                self.disturbed(tell)?;
                return self.look(tell);
            }
            Event::MapNotify(_)
            | Event::ConfigureNotify(_)
            | Event::CirculateNotify(_)
            | Event::ReparentNotify(_) => {
                // Of another window, which may now be above. Not at each of a thousand such events.
                self.look_at = self.look_at.min(Instant::now() + SOON);
            }
            Event::XinputButtonPress(press) => return self.press(&press, tell),
            Event::XinputButtonRelease(release) => return self.release(&release),
            Event::XinputMotion(motion) => {
                self.point(Some(place(motion.event_x, motion.event_y)))?;
            }
            Event::XinputLeave(_) => self.point(None)?,
            _ => {}
        }
        Ok(None)
    }

    fn heard(&mut self, heard: Heard, tell: Tell<'_>) -> Outcome {
        match heard {
            Heard::Started => {}
            Heard::Posted { known, at, what } => {
                self.verdict.posted(known, at, what);
                if what == Posted::Motion && self.verdict.is_settled() {
                    self.arms_at = Some(Instant::now() + SETTLE);
                    self.disarm()?;
                }
            }
            Heard::Ended(reason) => {
                bail!("the display does not say any more what other programs post: {reason}")
            }
            Heard::Reached(number, now) => {
                if self.settling.is_some_and(|(asked, _)| asked == number) {
                    self.settling = None;
                    self.verdict.settle(now);
                    self.arms_at = Some(Instant::now() + SETTLE);
                    if !self.shown {
                        self.shown = true;
                        self.print_places();
                        tell(DialogEvent::Shown);
                    }
                }
                if let Some(Deciding::AskedAt(_)) = self.deciding {
                    return self.decide(now, tell);
                }
            }
        }
        Ok(None)
    }

    fn press(&mut self, event: &ButtonPressEvent, tell: Tell<'_>) -> Outcome {
        let at = place(event.event_x, event.event_y);
        let click = self.click(event);
        let real = click.source == Source::Pointer;
        match event.detail {
            PRIMARY => {
                // What is drawn on the window must be what was painted when it is clicked, not only lately.
                self.look_closely(tell)?;
                let refused = self.verdict.press(click);
                if let Some(reason) = refused {
                    self.report(reason, tell);
                }
                if real && self.scene.grab(at) {
                    self.repaint()?;
                }
                self.point(Some(at))?;
            }
            WHEEL_UP | WHEEL_DOWN if real => {
                let notches = if event.detail == WHEEL_UP { -1.0 } else { 1.0 };
                if self.scene.wheel(at, notches) {
                    self.repaint()?;
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn release(&mut self, event: &ButtonPressEvent) -> Outcome {
        if event.detail != PRIMARY {
            return Ok(None);
        }
        self.scene.let_go();
        self.verdict.release(self.click(event));
        if self.verdict.decidable_at().is_some() && self.deciding.is_none() {
            self.deciding = Some(Deciding::AskAt(Instant::now() + Duration::from_millis(GUARD_MS.into())));
        }
        self.point(Some(place(event.event_x, event.event_y)))?;
        Ok(None)
    }

    fn click(&self, event: &ButtonPressEvent) -> Click {
        let (x, y) = place(event.event_x, event.event_y);
        // A master device is no hand: what comes through it has the hand's own device as its source.
        let real = event.sourceid != event.deviceid && self.display.is_real(event.sourceid);
        Click {
            at: Time(event.time),
            target: self.scene.button_at(x, y),
            source: if real { Source::Pointer } else { Source::Program(IgnoredClick::SyntheticDevice) },
        }
    }

    /// Decides the click that waits: everything posted before `now` is known.
    fn decide(&mut self, now: Time, tell: Tell<'_>) -> Outcome {
        let Some(decidable_at) = self.verdict.decidable_at() else {
            self.deciding = None;
            return Ok(None);
        };
        let missing = decidable_at.since(now);
        if missing > 0 {
            let wait = Duration::from_millis(u64::from(missing.unsigned_abs()));
            self.deciding = Some(Deciding::AskAt(Instant::now() + wait));
            return Ok(None);
        }
        // A disturbance found here refuses the click.
        self.look_closely(tell)?;
        self.deciding = None;
        match self.verdict.confirm(now) {
            Some(Decision::Answer(index)) => {
                let id = self.scene.button_id(index).context("no such button")?;
                Ok(Some(DialogAnswer::Button { id }))
            }
            Some(Decision::Ignored(reason)) => {
                self.report(reason, tell);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// The time is up.
    fn run_out(&self) -> DialogAnswer {
        // Where silence means yes, a program that keeps the owner from answering must not profit from it.
        if self.verdict.silence_counts() && !lock::pointer_is_held(&self.display) {
            DialogAnswer::TimedOut
        } else {
            DialogAnswer::Withdrawn
        }
    }

    /// When the dialog is over. A click that began in time is heard.
    fn ends_at(&self) -> Instant {
        let end = self.started + self.lasts;
        let clicking = self.verdict.held().is_some() || self.verdict.decidable_at().is_some();
        if clicking { end + LAST_CLICK } else { end }
    }

    /// Looks whether the window stands as it was put; puts it back if not, and settles it if so.
    fn look(&mut self, tell: Tell<'_>) -> Outcome {
        self.look_at = Instant::now() + LOOK_INTERVAL;
        let standing = self.look_closely(tell)?;
        match standing {
            Standing::Well if self.obscured => {
                self.window.restore(&self.display, Standing::Covered { whole_screen: false })?;
            }
            Standing::Well => {
                let settled = self.settling.is_some() || self.verdict.is_settled();
                if self.painted && !settled {
                    let number = self.recorder.ask(&self.display.connection)?;
                    self.settling = Some((number, Instant::now()));
                }
            }
            Standing::Gone => return Ok(Some(DialogAnswer::Withdrawn)),
            Standing::Covered { whole_screen: true } if lock::keyboard_is_held(&self.display) => {
                return Ok(Some(DialogAnswer::ScreenLocked));
            }
            Standing::DrawnOn => self.repaint()?,
            standing => {
                self.restored += 1;
                self.retaken += u32::from(standing == Standing::Taken && self.painted);
                if self.restored > MOST_RESTORED || self.retaken > MOST_RETAKEN {
                    return Ok(Some(DialogAnswer::Withdrawn));
                }
                self.window.restore(&self.display, standing)?;
            }
        }
        Ok(None)
    }

    /// How the window stands, what is drawn on it included. If not well, clicks do not count.
    fn look_closely(&mut self, tell: Tell<'_>) -> anyhow::Result<Standing> {
        let mut standing = self.window.standing(&self.display)?;
        if standing == Standing::Well && self.painted && !self.window.is_intact(&self.display)? {
            standing = Standing::DrawnOn;
        }
        if standing != Standing::Well {
            self.disturbed(tell)?;
        }
        Ok(standing)
    }

    fn disturbed(&mut self, tell: Tell<'_>) -> anyhow::Result<()> {
        self.settling = None;
        self.arms_at = None;
        if let Some(reason) = self.verdict.unsettle() {
            self.report(reason, tell);
        }
        self.disarm()
    }

    /// Shows that a click would not count.
    fn disarm(&mut self) -> anyhow::Result<()> {
        if self.scene.arm(false) { self.repaint() } else { Ok(()) }
    }

    fn point(&mut self, at: Option<(f32, f32)>) -> anyhow::Result<()> {
        if self.scene.point(at, self.verdict.held()) { self.repaint() } else { Ok(()) }
    }

    fn repaint(&mut self) -> anyhow::Result<()> {
        let pixmap = self.scene.paint().context("the dialog has no size")?;
        self.window.present(&self.display, &pixmap)
    }

    fn report(&mut self, reason: IgnoredClick, tell: Tell<'_>) {
        self.reported += 1;
        if self.reported <= MOST_REPORTED {
            tell(DialogEvent::Ignored { reason });
        }
    }

    fn print_places(&self) {
        let Place { x, y, .. } = self.window.place;
        let places = self.scene.places(x.into(), y.into());
        if let Some(line) = places.and_then(|places| serde_json::to_string(&places).ok()) {
            // Whoever asked for it may have gone; the dialog does not depend on it.
            drop(writeln!(std::io::stderr(), "{line}"));
        }
    }
}

fn place(x: Fp1616, y: Fp1616) -> (f32, f32) {
    let pixels = |fixed: Fp1616| fixed as f32 / 65_536.0;
    (pixels(x), pixels(y))
}
