//! The dialog as a thing to look at and to point at, the same on every platform: it knows no window system.

use std::time::Duration;

use consentry_wire::dialog::DialogSpec;
use serde::Serialize;
use tiny_skia::Pixmap;

use crate::layout::{Layout, countdown};
use crate::paint::{View, paint};
use crate::text::Typesetter;
use crate::theme::Theme;
use crate::{environment, verdict};

/// The dialog's looks and where its parts are.
#[derive(Debug)]
pub(crate) struct Scene {
    theme: Theme,
    typesetter: Typesetter,
    layout: Layout,
    view: View,
    /// How long it lasts, and how many of these seconds are left.
    seconds: u16,
    left: u16,
    sentence: String,
    /// Where a drag of a scroll bar was last, and whether it is the detail's.
    drag: Option<(f32, bool)>,
}

/// Where things are on the screen, for a hand that must find them.
#[derive(Debug, Serialize)]
pub(crate) struct Places {
    window: Window,
    buttons: Vec<Place>,
}

#[derive(Debug, Serialize)]
struct Window {
    x: i32,
    y: i32,
    w: u32,
    h: u32,
}

#[derive(Debug, Serialize)]
struct Place {
    id: String,
    x: i32,
    y: i32,
}

impl Scene {
    /// For a screen of this size in pixels.
    pub(crate) fn new(spec: &DialogSpec, scale: f32, screen: (f32, f32)) -> Self {
        let theme = Theme::from_environment();
        let mut typesetter = Typesetter::for_texts(texts(spec));
        let layout = Layout::new(spec, &theme, &mut typesetter, scale, screen);
        let view = View {
            hover: None,
            held: None,
            armed: false,
            countdown: countdown(&spec.countdown, spec.seconds),
            left: 1.0,
        };
        Self {
            theme,
            typesetter,
            layout,
            view,
            seconds: spec.seconds,
            left: spec.seconds,
            sentence: spec.countdown.clone(),
            drag: None,
        }
    }

    /// Its size in pixels.
    pub(crate) fn size(&self) -> (u16, u16) {
        (self.layout.width as u16, self.layout.height as u16)
    }

    /// Its pixels.
    pub(crate) fn paint(&mut self) -> Option<Pixmap> {
        paint(&self.layout, &self.view, &self.theme, &mut self.typesetter)
    }

    /// The button at this place.
    pub(crate) fn button_at(&self, x: f32, y: f32) -> Option<usize> {
        self.layout.button_at(x, y)
    }

    /// The id of a button.
    pub(crate) fn button_id(&self, index: usize) -> Option<String> {
        self.layout.buttons.get(index).map(|button| button.id.clone())
    }

    /// So much time has passed. Says whether there is something to repaint.
    pub(crate) fn elapsed(&mut self, elapsed: Duration) -> bool {
        let all = Duration::from_secs(self.seconds.into());
        let left = all.saturating_sub(elapsed);
        // Rounded up: "Denied in 1 s." stands until the end.
        let seconds = u16::try_from(left.as_millis().div_ceil(1_000)).unwrap_or(self.seconds);
        if seconds == self.left {
            return false;
        }
        self.left = seconds;
        self.view.countdown = countdown(&self.sentence, seconds);
        self.view.left = left.as_secs_f32() / all.as_secs_f32();
        true
    }

    /// Whether a click would count. Says whether there is something to repaint.
    pub(crate) fn arm(&mut self, armed: bool) -> bool {
        std::mem::replace(&mut self.view.armed, armed) != armed
    }

    /// The pointer is here, or has left; `held` is the button that a press holds. Says whether to repaint.
    pub(crate) fn point(&mut self, at: Option<(f32, f32)>, held: Option<usize>) -> bool {
        let mut scrolled = false;
        if let (Some((_, y)), Some((last, of_detail))) = (at, self.drag) {
            let scale = self.layout.scale;
            let pane = if of_detail { self.layout.detail.as_mut() } else { Some(&mut self.layout.facts) };
            scrolled = pane.is_some_and(|pane| pane.drag(y - last, scale));
            self.drag = Some((y, of_detail));
        }
        let hover = at.and_then(|(x, y)| self.button_at(x, y));
        let changed = (hover, held) != (self.view.hover, self.view.held);
        (self.view.hover, self.view.held) = (hover, held);
        changed || scrolled
    }

    /// A wheel's notch here: down is positive. Says whether to repaint.
    pub(crate) fn wheel(&mut self, (x, y): (f32, f32), notches: f32) -> bool {
        self.layout.pane_at(x, y).is_some_and(|pane| pane.scroll(notches * pane.step))
    }

    /// A press here may take hold of a scroll bar, or turn a page beside its thumb. Says whether to repaint.
    pub(crate) fn grab(&mut self, (x, y): (f32, f32)) -> bool {
        let scale = self.layout.scale;
        let of_detail =
            self.layout.detail.as_ref().and_then(|pane| pane.frame).is_some_and(|at| at.contains(x, y));
        let Some(pane) = self.layout.pane_at(x, y) else { return false };
        let Some(thumb) = pane.thumb(scale) else { return false };
        if x < thumb.x - 4.0 * scale {
            return false;
        }
        if y >= thumb.y && y < thumb.y + thumb.height {
            self.drag = Some((y, of_detail));
            return false;
        }
        let page = pane.area.height * if y < thumb.y { -0.9 } else { 0.9 };
        pane.scroll(page)
    }

    /// The press is over.
    pub(crate) fn let_go(&mut self) {
        self.drag = None;
    }

    /// Where the buttons are when the window is there; only for those who ask for it.
    pub(crate) fn places(&self, x: i32, y: i32) -> Option<Places> {
        (environment::value(environment::LAYOUT).as_deref() == Some("1")).then(|| {
            let (w, h) = self.size();
            let buttons = self.layout.buttons.iter().map(|button| {
                let (across, down) = button.rect.centre();
                let (across, down) = (across as i32, down as i32);
                Place { id: button.id.clone(), x: x + across, y: y + down }
            });
            Places { window: Window { x, y, w: w.into(), h: h.into() }, buttons: buttons.collect() }
        })
    }
}

/// How long the window must stand still before a click counts.
pub(crate) const SETTLE: Duration = Duration::from_millis(verdict::SETTLE_MS as u64);

fn texts(spec: &DialogSpec) -> impl Iterator<Item = &str> {
    let rows = spec.rows.iter().flat_map(|row| [row.label.as_str(), row.value.as_str()]);
    let buttons = spec.buttons.iter().map(|button| button.label.as_str());
    [spec.title.as_str(), spec.countdown.as_str()]
        .into_iter()
        .chain(spec.quote.as_deref())
        .chain(spec.detail.as_deref())
        .chain(spec.warning.as_deref())
        .chain(rows)
        .chain(buttons)
}

#[cfg(test)]
mod tests {
    use consentry_wire::dialog::{ButtonStyle, DialogButton};

    use super::*;

    fn scene() -> Scene {
        let detail = (0..400).map(|line| format!("echo {line}\n")).collect();
        let button = |id: &str, style| DialogButton {
            id: id.to_owned(),
            label: id.to_owned(),
            style,
            permits: id == "allow",
        };
        let spec = DialogSpec {
            title: "Run this?".to_owned(),
            quote: None,
            rows: Vec::new(),
            detail: Some(detail),
            warning: None,
            buttons: vec![button("reject", ButtonStyle::Plain), button("allow", ButtonStyle::Primary)],
            seconds: 10,
            countdown: "Denied in {} s.".to_owned(),
        };
        Scene::new(&spec, 1.0, (1_280.0, 800.0))
    }

    fn detail(scene: &Scene) -> &crate::layout::Pane {
        scene.layout.detail.as_ref().unwrap()
    }

    #[test]
    fn the_last_second_stands_until_the_end() {
        let mut scene = scene();
        assert!(!scene.elapsed(Duration::ZERO), "it is painted already");
        assert!(!scene.elapsed(Duration::from_millis(999)));
        assert!(scene.elapsed(Duration::from_millis(1_000)));
        assert_eq!(scene.view.countdown, "Denied in 9 s.");
        assert!(scene.elapsed(Duration::from_millis(9_999)));
        assert_eq!(scene.view.countdown, "Denied in 1 s.");
    }

    #[test]
    fn what_can_be_clicked_looks_so() {
        let mut scene = scene();
        let pale = scene.paint().unwrap();
        assert!(scene.arm(true));
        let armed = scene.paint().unwrap();
        let allow = scene.layout.buttons[1].rect.centre();
        let over = detail(&scene).area.centre();
        assert!(scene.wheel(over, 1_000.0) && scene.wheel(over, -1_000.0));
        assert!(scene.point(Some(allow), None));
        let hovered = scene.paint().unwrap();
        assert!(scene.point(Some(allow), Some(1)));
        let held = scene.paint().unwrap();
        let looks = [pale, armed, hovered, held].map(|pixmap| pixmap.data().to_vec());
        assert!(looks.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(!scene.point(Some(allow), Some(1)), "nothing changed");
    }

    #[test]
    fn nothing_is_allowed_that_was_not_seen_to_its_end() {
        let mut scene = scene();
        scene.arm(true);
        let [reject, allow] = [0, 1].map(|at| scene.layout.buttons[at].rect.centre());
        let over = detail(&scene).area.centre();
        let at = |scene: &Scene, (x, y)| scene.button_at(x, y);
        assert_eq!((at(&scene, reject), at(&scene, allow)), (Some(0), None));
        let before = scene.paint().unwrap();
        assert!(scene.wheel(over, 3.0));
        assert_eq!(at(&scene, allow), None, "not the end yet");
        assert!(scene.wheel(over, 1_000.0) && scene.wheel(over, -1_000.0));
        assert_eq!(at(&scene, allow), Some(1), "back at the top, it was seen");
        assert_ne!(before.data(), scene.paint().unwrap().data());
    }

    #[test]
    fn the_wheel_scrolls_what_is_under_it() {
        let mut scene = scene();
        let over = detail(&scene).area.centre();
        assert!(scene.wheel(over, 1.0));
        assert!(detail(&scene).scrolled > 0.0);
        let elsewhere = scene.layout.buttons[0].rect.centre();
        assert!(!scene.wheel(elsewhere, 1.0));
    }

    #[test]
    fn the_thumb_can_be_dragged_to_the_end_and_the_track_turns_pages() {
        let mut scene = scene();
        let thumb = detail(&scene).thumb(1.0).unwrap();
        let area = detail(&scene).area;
        let (x, y) = thumb.centre();
        assert!(scene.grab((x, area.y + area.height - 1.0)), "a page down");
        assert!(detail(&scene).scrolled > 0.0);
        assert!(scene.wheel(area.centre(), -1_000.0), "back to the top");

        assert!(!scene.grab((x, y)), "the thumb is held");
        assert!(scene.point(Some((x, y + 2_000.0)), None));
        let pane = detail(&scene);
        assert!((pane.scrolled + pane.area.height - pane.content_height).abs() < 1.0);
        scene.let_go();
        assert!(!scene.point(Some((x, y)), None), "it is let go");
    }
}
