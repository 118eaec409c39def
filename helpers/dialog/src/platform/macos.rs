//! The dialog on macOS: a panel that cannot become key, out of the accessibility tree.
//!
//! Events are taken from the queue one by one and looked at before AppKit sees them. A click whose event names a
//! source process was posted by a program; one of the owner's comes from the hardware's own source, with none.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use consentry_wire::dialog::{DialogAnswer, DialogEvent, DialogProbe, DialogSpec, IgnoredClick};
use objc2::rc::Retained;
use objc2::{AllocAnyThread as _, MainThreadMarker, MainThreadOnly as _, define_class, msg_send};
use objc2_app_kit::{
    NSAccessibility as _, NSApplication, NSApplicationActivationPolicy, NSBackingStoreType, NSBitmapImageRep,
    NSDeviceRGBColorSpace, NSEvent, NSEventMask, NSEventType, NSImage, NSImageView, NSPanel, NSScreen,
    NSScreenSaverWindowLevel, NSWindowCollectionBehavior, NSWindowOcclusionState, NSWindowSharingType,
    NSWindowStyleMask,
};
use objc2_core_foundation::{CFDictionary, CFNumber, CFRetained, CFString, CFType, CGRect};
use objc2_core_graphics::{
    CGEvent, CGEventField, CGRectIntersectsRect, CGRectMakeWithDictionaryRepresentation,
    CGSessionCopyCurrentDictionary, CGWindowListCopyWindowInfo, CGWindowListOption, kCGWindowAlpha,
    kCGWindowBounds, kCGWindowOwnerPID,
};
use objc2_foundation::{NSDate, NSDefaultRunLoopMode, NSPoint, NSProcessInfo, NSRect, NSSize};
use tiny_skia::Pixmap;

use crate::scene::{SETTLE, Scene};
use crate::verdict::{Click, Decision, Posted, Source, Time, Verdict};

/// How long to wait for an event before looking at the clock and at the panel.
const TICK: Duration = Duration::from_millis(50);
/// How long a click that began in time may take.
const LAST_CLICK: Duration = Duration::from_secs(1);
/// Left free around the dialog, in points.
const MARGIN: f64 = 24.0;
/// How many refused clicks are reported: enough for the audit, not enough to flood it.
const MOST_REPORTED: u32 = 32;
/// How far one notch of a wheel without fine steps goes, in notches of ours.
const NOTCH: f64 = 1.0 / 3.0;

/// Keys of the session's dictionary, from CGSession.h and, for the lock, as loginwindow sets it.
const ON_CONSOLE: &str = "kCGSSessionOnConsoleKey";
const SCREEN_IS_LOCKED: &str = "CGSSessionScreenIsLocked";

define_class!(
    // SAFETY: NSPanel has no requirements for its subclasses, and this one has no instance variables and no Drop.
    #[unsafe(super(NSPanel))]
    #[thread_kind = objc2::MainThreadOnly]
    #[name = "ConsentryDialogPanel"]
    #[derive(Debug)]
    struct Panel;

    impl Panel {
        #[unsafe(method(canBecomeKeyWindow))]
        fn can_become_key_window(&self) -> bool {
            false
        }

        #[unsafe(method(canBecomeMainWindow))]
        fn can_become_main_window(&self) -> bool {
            false
        }

        #[unsafe(method(isAccessibilityElement))]
        fn is_accessibility_element(&self) -> bool {
            false
        }
    }
);

/// Shows the dialog until it is answered or over.
pub(crate) fn show(spec: &DialogSpec, tell: &mut dyn FnMut(DialogEvent)) -> DialogAnswer {
    run(spec, tell).unwrap_or_else(|error| DialogAnswer::NoDisplay { detail: format!("{error:#}") })
}

/// Whether a dialog could be shown now.
pub(crate) fn probe() -> DialogProbe {
    match screen_is_locked() {
        Ok(locked) => DialogProbe { ready: !locked, locked, detail: "the window server answers".to_owned() },
        Err(error) => DialogProbe { ready: false, locked: false, detail: format!("{error:#}") },
    }
}

fn run(spec: &DialogSpec, tell: &mut dyn FnMut(DialogEvent)) -> anyhow::Result<DialogAnswer> {
    if screen_is_locked()? {
        return Ok(DialogAnswer::ScreenLocked);
    }
    let withdrawn = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&withdrawn);
    crate::on_withdrawal(move || told.store(true, Ordering::Release))?;
    let main_thread = MainThreadMarker::new().context("the dialog needs the main thread")?;
    let app = NSApplication::sharedApplication(main_thread);
    app.setActivationPolicy(NSApplicationActivationPolicy::Accessory);
    app.finishLaunching();
    let mut dialog = Dialog::open(spec, main_thread)?;
    loop {
        let until = NSDate::dateWithTimeIntervalSinceNow(TICK.as_secs_f64());
        // SAFETY: a constant that Foundation exports.
        let mode = unsafe { NSDefaultRunLoopMode };
        let event =
            app.nextEventMatchingMask_untilDate_inMode_dequeue(NSEventMask::Any, Some(&until), mode, true);
        if let Some(event) = event
            && !dialog.event(&event, tell)?
        {
            app.sendEvent(&event);
        }
        if withdrawn.load(Ordering::Acquire) {
            return Ok(DialogAnswer::Withdrawn);
        }
        if let Some(answer) = dialog.tick(tell)? {
            return Ok(answer);
        }
    }
}

/// A dialog on the screen.
#[derive(Debug)]
struct Dialog {
    panel: Retained<Panel>,
    view: Retained<NSImageView>,
    frame: NSRect,
    /// Pixels in a point.
    scale: f64,
    scene: Scene,
    verdict: Verdict,
    started: Instant,
    lasts: Duration,
    arms_at: Option<Instant>,
    shown: bool,
    reported: u32,
}

impl Dialog {
    fn open(spec: &DialogSpec, main_thread: MainThreadMarker) -> anyhow::Result<Self> {
        let screen = NSScreen::mainScreen(main_thread).context("there is no screen")?;
        let scale = screen.backingScaleFactor();
        let visible = screen.visibleFrame();
        let room = |length: f64| narrow((length - 2.0 * MARGIN) * scale);
        let scene = Scene::new(spec, narrow(scale), (room(visible.size.width), room(visible.size.height)));
        let (width, height) = scene.size();
        if f64::from(height) > visible.size.height * scale {
            bail!("the screen is too small for the dialog");
        }
        let size = NSSize::new(f64::from(width) / scale, f64::from(height) / scale);
        let origin = NSPoint::new(
            (visible.origin.x + (visible.size.width - size.width) / 2.0).round(),
            (visible.origin.y + (visible.size.height - size.height) * 0.6).round(),
        );
        let frame = NSRect::new(origin, size);
        let panel = panel(frame, main_thread);
        let view = NSImageView::initWithFrame(
            NSImageView::alloc(main_thread),
            NSRect::new(NSPoint::new(0.0, 0.0), size),
        );
        view.setAccessibilityElement(false);
        panel.setContentView(Some(&view));
        let mut dialog = Self {
            panel,
            view,
            frame,
            scale,
            scene,
            verdict: Verdict::default(),
            started: Instant::now(),
            lasts: Duration::from_secs(spec.seconds.into()),
            arms_at: None,
            shown: false,
            reported: 0,
        };
        dialog.repaint()?;
        dialog.panel.orderFrontRegardless();
        Ok(dialog)
    }

    /// Looks at an event. Says whether it was the dialog's, so that AppKit need not see it.
    fn event(&mut self, event: &NSEvent, tell: &mut dyn FnMut(DialogEvent)) -> anyhow::Result<bool> {
        let kind = event.r#type();
        let key = matches!(kind, NSEventType::KeyDown | NSEventType::KeyUp | NSEventType::FlagsChanged);
        if key || event.windowNumber() != self.panel.windowNumber() {
            return Ok(key);
        }
        let source = source(event);
        let at = self.place(event);
        let now = Time(milliseconds(event.timestamp()));
        let click = Click { at: now, target: self.scene.button_at(at.0, at.1), source };
        match kind {
            NSEventType::LeftMouseDown => {
                self.look(tell)?;
                self.note(source, now, Posted::Button);
                if let Some(reason) = self.verdict.press(click) {
                    self.report(reason, tell);
                }
                if source == Source::Pointer && self.scene.grab(at) {
                    self.repaint()?;
                }
                self.point(Some(at))?;
            }
            NSEventType::LeftMouseUp => {
                self.note(source, now, Posted::Button);
                self.scene.let_go();
                self.verdict.release(click);
                self.point(Some(at))?;
            }
            NSEventType::MouseMoved | NSEventType::LeftMouseDragged => {
                self.note(source, now, Posted::Motion);
                self.point(Some(at))?;
            }
            NSEventType::MouseExited => self.point(None)?,
            NSEventType::ScrollWheel if source == Source::Pointer => {
                let step = if event.hasPreciseScrollingDeltas() { NOTCH / 4.0 } else { NOTCH };
                if self.scene.wheel(at, narrow(-event.scrollingDeltaY() * step)) {
                    self.repaint()?;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Some time has passed.
    fn tick(&mut self, tell: &mut dyn FnMut(DialogEvent)) -> anyhow::Result<Option<DialogAnswer>> {
        if screen_is_locked()? {
            return Ok(Some(DialogAnswer::ScreenLocked));
        }
        self.look(tell)?;
        let now = Instant::now();
        // Every posted event that the panel was given so far is known.
        match self.verdict.confirm(uptime()) {
            Some(Decision::Answer(index)) => {
                let id = self.scene.button_id(index).context("no such button")?;
                return Ok(Some(DialogAnswer::Button { id }));
            }
            Some(Decision::Ignored(reason)) => self.report(reason, tell),
            None => {}
        }
        let clicking = self.verdict.held().is_some() || self.verdict.decidable_at().is_some();
        let ends_at = self.started + self.lasts + if clicking { LAST_CLICK } else { Duration::ZERO };
        if now >= ends_at {
            // Where silence means yes, a program that keeps the owner from answering must not profit from it.
            let silent = self.verdict.silence_counts();
            return Ok(Some(if silent { DialogAnswer::TimedOut } else { DialogAnswer::Withdrawn }));
        }
        let mut repaint = self.scene.elapsed(self.started.elapsed());
        if self.arms_at.is_some_and(|at| now >= at) {
            self.arms_at = None;
            repaint |= self.scene.arm(true);
        }
        if repaint {
            self.repaint()?;
        }
        Ok(None)
    }

    /// Looks whether the panel stands shown, unmoved and topmost, and puts it back if not.
    fn look(&mut self, tell: &mut dyn FnMut(DialogEvent)) -> anyhow::Result<()> {
        let stands = self.panel.isVisible()
            && self.panel.frame() == self.frame
            && self.panel.occlusionState().contains(NSWindowOcclusionState::Visible)
            && !self.is_covered()?;
        if stands && !self.verdict.is_settled() {
            self.verdict.settle(uptime());
            self.arms_at = Some(Instant::now() + SETTLE);
            if !self.shown {
                self.shown = true;
                self.print_places();
                tell(DialogEvent::Shown);
            }
        } else if !stands {
            if let Some(reason) = self.verdict.unsettle() {
                self.report(reason, tell);
            }
            self.arms_at = None;
            self.panel.setFrame_display(self.frame, false);
            self.panel.orderFrontRegardless();
            if self.scene.arm(false) {
                self.repaint()?;
            }
        }
        Ok(())
    }

    /// Whether a window of another program is above the panel.
    fn is_covered(&self) -> anyhow::Result<bool> {
        let number = u32::try_from(self.panel.windowNumber()).context("the panel has no number")?;
        let above = CGWindowListCopyWindowInfo(CGWindowListOption::OptionOnScreenAboveWindow, number)
            .context("the window server lists no windows")?;
        // SAFETY: documented as an array of dictionaries with strings as keys.
        let above = unsafe { above.cast_unchecked::<CFDictionary<CFString, CFType>>() };
        let own = i64::from(std::process::id());
        let frame = self.frame_from_above()?;
        Ok(above.iter().any(|window| {
            // SAFETY: constants that Core Graphics exports.
            let (owner, bounds, alpha) = unsafe { (kCGWindowOwnerPID, kCGWindowBounds, kCGWindowAlpha) };
            let seen = number_in(&window, alpha).is_none_or(|alpha| alpha > 0.0);
            let others = number_in(&window, owner).is_none_or(|owner| owner as i64 != own);
            // A window whose place is not told could be anywhere.
            let overlaps = rectangle_in(&window, bounds).is_none_or(|rect| CGRectIntersectsRect(rect, frame));
            seen && others && overlaps
        }))
    }

    /// The frame as Core Graphics counts: from the upper left corner of the first screen.
    fn frame_from_above(&self) -> anyhow::Result<CGRect> {
        let main_thread = MainThreadMarker::new().context("the dialog needs the main thread")?;
        let first = NSScreen::screens(main_thread).firstObject().context("there is no screen")?;
        let top = first.frame().size.height - self.frame.origin.y - self.frame.size.height;
        Ok(CGRect::new(NSPoint::new(self.frame.origin.x, top), self.frame.size))
    }

    /// Remembers what a program posted.
    fn note(&mut self, source: Source, at: Time, what: Posted) {
        if source != Source::Pointer {
            self.verdict.posted(at, at, what);
        }
    }

    fn point(&mut self, at: Option<(f32, f32)>) -> anyhow::Result<()> {
        if self.scene.point(at, self.verdict.held()) { self.repaint() } else { Ok(()) }
    }

    fn repaint(&mut self) -> anyhow::Result<()> {
        let pixmap = self.scene.paint().context("the dialog has no size")?;
        let image = image(&pixmap, self.frame.size)?;
        self.view.setImage(Some(&image));
        self.view.display();
        Ok(())
    }

    /// Where an event happened, in pixels from the upper left corner.
    fn place(&self, event: &NSEvent) -> (f32, f32) {
        let at = event.locationInWindow();
        (narrow(at.x * self.scale), narrow((self.frame.size.height - at.y) * self.scale))
    }

    fn report(&mut self, reason: IgnoredClick, tell: &mut dyn FnMut(DialogEvent)) {
        self.reported += 1;
        if self.reported <= MOST_REPORTED {
            tell(DialogEvent::Ignored { reason });
        }
    }

    fn print_places(&self) {
        let Ok(frame) = self.frame_from_above() else { return };
        let (x, y) = ((frame.origin.x * self.scale) as i32, (frame.origin.y * self.scale) as i32);
        let places = self.scene.places(x, y);
        if let Some(line) = places.and_then(|places| serde_json::to_string(&places).ok()) {
            // Whoever asked for it may have gone; the dialog does not depend on it.
            drop(std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes()));
        }
    }
}

fn panel(frame: NSRect, main_thread: MainThreadMarker) -> Retained<Panel> {
    let style = NSWindowStyleMask::Borderless | NSWindowStyleMask::NonactivatingPanel;
    // SAFETY: the designated initializer of NSPanel, with arguments of its types.
    let panel: Retained<Panel> = unsafe {
        msg_send![
            Panel::alloc(main_thread),
            initWithContentRect: frame,
            styleMask: style,
            backing: NSBackingStoreType::Buffered,
            defer: false
        ]
    };
    panel.setAccessibilityElement(false);
    // SAFETY: `panel` is retained here, so closing must not release it once more.
    unsafe { panel.setReleasedWhenClosed(false) };
    panel.setFloatingPanel(true);
    panel.setBecomesKeyOnlyIfNeeded(true);
    panel.setHidesOnDeactivate(false);
    panel.setMovable(false);
    panel.setAcceptsMouseMovedEvents(true);
    panel.setHasShadow(true);
    panel.setSharingType(NSWindowSharingType::ReadOnly);
    // On every Space and above full-screen windows: the owner must see it wherever they are.
    panel.setCollectionBehavior(
        NSWindowCollectionBehavior::CanJoinAllSpaces
            | NSWindowCollectionBehavior::FullScreenAuxiliary
            | NSWindowCollectionBehavior::Stationary
            | NSWindowCollectionBehavior::IgnoresCycle,
    );
    panel.setLevel(NSScreenSaverWindowLevel);
    panel
}

/// Where an event comes from. One without a Core Graphics event was made by a program too.
fn source(event: &NSEvent) -> Source {
    let Some(event) = event.CGEvent() else { return Source::Program(IgnoredClick::SourceProcess) };
    let process = CGEvent::integer_value_field(Some(&event), CGEventField::EventSourceUnixProcessID);
    if process == 0 { Source::Pointer } else { Source::Program(IgnoredClick::SourceProcess) }
}

/// Whether the screen is locked, or shows another user's session.
fn screen_is_locked() -> anyhow::Result<bool> {
    let session = CGSessionCopyCurrentDictionary().context("there is no session with a screen")?;
    // SAFETY: documented as a dictionary with strings as keys.
    let session: CFRetained<CFDictionary<CFString, CFType>> = unsafe { CFRetained::cast_unchecked(session) };
    let flag = |key| number_or_flag(&session, key);
    Ok(flag(SCREEN_IS_LOCKED).unwrap_or(false) || !flag(ON_CONSOLE).unwrap_or(true))
}

fn number_or_flag(dictionary: &CFDictionary<CFString, CFType>, key: &str) -> Option<bool> {
    let value = dictionary.get(&CFString::from_str(key))?;
    value
        .downcast_ref::<objc2_core_foundation::CFBoolean>()
        .map(objc2_core_foundation::CFBoolean::as_bool)
        .or_else(|| Some(value.downcast_ref::<CFNumber>()?.as_i64()? != 0))
}

fn number_in(dictionary: &CFDictionary<CFString, CFType>, key: &CFString) -> Option<f64> {
    dictionary.get(key)?.downcast_ref::<CFNumber>()?.as_f64()
}

fn rectangle_in(dictionary: &CFDictionary<CFString, CFType>, key: &CFString) -> Option<CGRect> {
    let value = dictionary.get(key)?;
    let bounds = value.downcast_ref::<CFDictionary>()?;
    let mut rect = CGRect::default();
    // SAFETY: `rect` is valid for writes, and the function checks the dictionary itself.
    let is_one = unsafe { CGRectMakeWithDictionaryRepresentation(Some(bounds), &raw mut rect) };
    is_one.then_some(rect)
}

/// The pixels as an image of this size in points.
fn image(pixmap: &Pixmap, size: NSSize) -> anyhow::Result<Retained<NSImage>> {
    let (width, height) = (isize::try_from(pixmap.width())?, isize::try_from(pixmap.height())?);
    // SAFETY: without planes the representation allocates its own, of `height` rows of `4 * width` bytes.
    let representation = unsafe {
        NSBitmapImageRep::initWithBitmapDataPlanes_pixelsWide_pixelsHigh_bitsPerSample_samplesPerPixel_hasAlpha_isPlanar_colorSpaceName_bytesPerRow_bitsPerPixel(
            NSBitmapImageRep::alloc(),
            std::ptr::null_mut(),
            width,
            height,
            8,
            4,
            true,
            false,
            NSDeviceRGBColorSpace,
            4 * width,
            32,
        )
    }
    .context("cannot make an image")?;
    let Some(pixels) = NonNull::new(representation.bitmapData()) else { bail!("the image has no pixels") };
    let data = pixmap.data();
    // SAFETY: both are `4 * width * height` bytes long, and one is a fresh allocation of the other's owner.
    unsafe { pixels.as_ptr().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    let image = NSImage::initWithSize(NSImage::alloc(), size);
    image.addRepresentation(&representation);
    Ok(image)
}

/// The clock of event time stamps.
fn uptime() -> Time {
    Time(milliseconds(NSProcessInfo::processInfo().systemUptime()))
}

/// Seconds into milliseconds that wrap.
fn milliseconds(seconds: f64) -> u32 {
    (seconds * 1_000.0) as u64 as u32
}

fn narrow(length: f64) -> f32 {
    length as f32
}
