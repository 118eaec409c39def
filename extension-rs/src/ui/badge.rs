//! The badge: nothing while all is quiet, a mark while a tab is held, pulsing while a call runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::Promise;
use js_sys::futures::spawn_local;
use serde_json::json;
use wasm_bindgen::JsValue;

use crate::chrome::time::Timer;
use crate::chrome::{self, action};

const PULSE_MS: f64 = 600.0;

/// What the badge says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Quiet,
    Unlinked,
    Held,
    /// A call runs; `bright` alternates.
    Busy {
        bright: bool,
    },
}

impl Look {
    fn text(self) -> &'static str {
        match self {
            Look::Quiet => "",
            Look::Unlinked => "!",
            Look::Held | Look::Busy { .. } => "●",
        }
    }

    /// Background and text.
    fn colours(self) -> (&'static str, &'static str) {
        match self {
            Look::Quiet | Look::Unlinked => ("#6b7280", "#ffffff"),
            Look::Held | Look::Busy { bright: false } => ("#b45309", "#ffffff"),
            Look::Busy { bright: true } => ("#fbbf24", "#78350f"),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Look::Quiet => "Consentry",
            Look::Unlinked => "Consentry: not connected",
            Look::Held => "Consentry: an agent holds a tab",
            Look::Busy { .. } => "Consentry: an agent is working",
        }
    }
}

/// The badge. It tells the browser only what has changed.
#[derive(Default, Clone)]
pub(crate) struct Badge(Rc<Inner>);

#[derive(Default)]
struct Inner {
    shown: Cell<Option<Look>>,
    busy: Cell<bool>,
    bright: Cell<bool>,
    /// What it falls back to when the call has ended.
    rest: Cell<Option<Look>>,
    pulse: RefCell<Option<Timer>>,
}

impl Badge {
    /// Shows how things stand.
    pub(crate) fn show(&self, linked: bool, held: usize, calls: usize) {
        let rest = match (linked, held) {
            (false, _) => Look::Unlinked,
            (true, 0) => Look::Quiet,
            (true, _) => Look::Held,
        };
        self.0.rest.set(Some(rest));
        self.0.busy.set(linked && calls > 0);
        // A call of a few milliseconds ends before its pulse does: it is seen all the same.
        if self.0.pulse.borrow().is_none() {
            if self.0.busy.get() {
                self.beat();
            } else {
                self.draw(rest);
            }
        } else if rest == Look::Unlinked {
            self.0.pulse.take();
            self.draw(rest);
        }
    }

    fn beat(&self) {
        if !self.0.busy.get() {
            self.0.pulse.take();
            self.draw(self.0.rest.get().unwrap_or(Look::Quiet));
            return;
        }
        let bright = !self.0.bright.get();
        self.0.bright.set(bright);
        self.draw(Look::Busy { bright });
        let this = self.clone();
        let next = Timer::after(PULSE_MS, move || this.beat());
        if let Some(done) = self.0.pulse.replace(Some(next)) {
            spawn_local(async move { drop(done) });
        }
    }

    fn draw(&self, look: Look) {
        let Some(before) = self
            .0
            .shown
            .replace(Some(look))
            .map_or(Some(None), |before| if before == look { None } else { Some(Some(before)) })
        else {
            return;
        };
        let changed = |part: fn(Look) -> &'static str| before.is_none_or(|before| part(before) != part(look));
        if changed(Look::text) {
            tell(action::set_badge_text, &json!({"text": look.text()}));
        }
        if changed(Look::title) {
            tell(action::set_title, &json!({"title": look.title()}));
        }
        if before.is_none_or(|before| before.colours() != look.colours()) {
            let (background, text) = look.colours();
            tell(action::set_badge_background_color, &json!({ "color": background }));
            tell(action::set_badge_text_color, &json!({ "color": text }));
        }
    }
}

fn tell(call: fn(&JsValue) -> Result<Promise, JsValue>, details: &serde_json::Value) {
    let call = call(&chrome::to_js(details));
    spawn_local(async move {
        // A badge that cannot be set is no reason to stop anything.
        let _ = chrome::settle(call).await;
    });
}
