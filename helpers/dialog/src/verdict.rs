//! Whether a click counts. Pure: times come in with what happened, so every order of events can be tested.
//!
//! A click answers only if all of this holds; anything else is a refusal with its reason:
//!
//! - press and release were of the primary button of a real pointer, on the same button of the dialog;
//! - the window had stood shown, unmoved and topmost for [`SETTLE_MS`] before the press, and until now;
//! - no program posted a button from [`GUARD_MS`] before the press to [`GUARD_MS`] after the release;
//! - no program put the pointer where it is in the [`SETTLE_MS`] before the press.
//!
//! A release is therefore never an answer at once: it waits until the platform has vouched, with
//! [`Verdict::confirm`], that it knows of everything posted up to a time [`GUARD_MS`] later.

use consentry_wire::dialog::IgnoredClick;

/// How long the window must have stood still before a press counts, in milliseconds. Long enough to see it.
pub(crate) const SETTLE_MS: u32 = 700;
/// How near a posted button spoils a click, in milliseconds, on either side.
pub(crate) const GUARD_MS: u32 = 100;
/// More posted events than this at once are a flood, in which no click counts.
const POSTED_KEPT: usize = 4_096;

/// A moment on the display server's own clock, in milliseconds. It wraps after 49 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) u32);

impl Time {
    /// Milliseconds from `earlier` until this; negative if this came first.
    pub(crate) fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }

    /// This many milliseconds later.
    pub(crate) fn after(self, milliseconds: u32) -> Self {
        Self(self.0.wrapping_add(milliseconds))
    }
}

/// Where a press or release comes from, as far as the device or the event itself tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A pointer that is not the system's own for posted events.
    Pointer,
    /// A program, and how it is known.
    Program(IgnoredClick),
}

/// A press or a release of the primary button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Click {
    /// When it happened, by its own time stamp: not when it arrived, which a grab can delay.
    pub(crate) at: Time,
    /// The dialog's button under the pointer.
    pub(crate) target: Option<usize>,
    /// Where it comes from.
    pub(crate) source: Source,
}

/// What a program posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// A press or release of some button.
    Button,
    /// A movement of the pointer.
    Motion,
}

/// What has become of a click that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It answers: the index of the button.
    Answer(usize),
    /// It does not count.
    Ignored(IgnoredClick),
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    press: Time,
    release: Time,
    target: usize,
}

/// The state between events.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    settled: Option<Time>,
    posted: Vec<(Time, Posted)>,
    flooded: bool,
    press: Option<(Time, usize)>,
    pending: Option<Pending>,
    hindered: bool,
}

impl Verdict {
    /// The window stands shown, unmoved and topmost from this time on.
    pub(crate) fn settle(&mut self, at: Time) {
        self.settled = Some(at);
    }

    /// The window moved, was covered or changed. A click under way is refused.
    pub(crate) fn unsettle(&mut self) -> Option<IgnoredClick> {
        self.settled = None;
        let click_under_way = self.press.take().is_some() | self.pending.take().is_some();
        click_under_way.then(|| self.hinder(IgnoredClick::NotSettled))
    }

    /// A program posted this, to take effect `at` that time. It became `known` at another: effects can be delayed.
    pub(crate) fn posted(&mut self, known: Time, at: Time, what: Posted) {
        if self.posted.len() >= POSTED_KEPT && self.press.is_none() && self.pending.is_none() {
            self.posted.retain(|&(effect, _)| known.since(effect) <= SETTLE_MS.cast_signed());
        }
        // Forgetting some would let a program hide one posted click behind many others.
        if self.posted.len() >= POSTED_KEPT {
            self.flooded = true;
        } else {
            self.posted.push((at, what));
        }
    }

    /// The primary button went down.
    pub(crate) fn press(&mut self, click: Click) -> Option<IgnoredClick> {
        if let Source::Program(reason) = click.source {
            return click.target.map(|_| reason);
        }
        self.press = None;
        let target = click.target?;
        if self.pending.is_some() {
            // A double click is one click.
            return None;
        }
        if self.settled.is_none_or(|since| click.at.since(since) < SETTLE_MS.cast_signed()) {
            return Some(self.hinder(IgnoredClick::NotSettled));
        }
        self.press = Some((click.at, target));
        None
    }

    /// The primary button went up.
    pub(crate) fn release(&mut self, click: Click) {
        if click.source != Source::Pointer {
            return;
        }
        let Some((press, target)) = self.press.take() else { return };
        if click.target == Some(target) {
            self.pending = Some(Pending { press, release: click.at, target });
        } else {
            // A change of mind, or a pointer that a program pulled away: either way the owner was not silent.
            self.hindered = true;
        }
    }

    /// When [`Verdict::confirm`] can decide the click that waits, if one does.
    pub(crate) fn decidable_at(&self) -> Option<Time> {
        self.pending.map(|pending| pending.release.after(GUARD_MS))
    }

    /// Whether the window stands shown, unmoved and topmost, for however short a time.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// Which button is held down by a press that may yet count.
    pub(crate) fn held(&self) -> Option<usize> {
        self.press.map(|(_, target)| target)
    }

    /// Everything posted up to this time is known. Decides the click that waits, if its time has come.
    pub(crate) fn confirm(&mut self, known: Time) -> Option<Decision> {
        let pending = self.pending?;
        if known.since(pending.release.after(GUARD_MS)) < 0 {
            return None;
        }
        self.pending = None;
        if self.flooded || self.posted.iter().any(|&(at, what)| spoils(at, what, pending)) {
            return Some(Decision::Ignored(self.hinder(IgnoredClick::PostedNearby)));
        }
        Some(Decision::Answer(pending.target))
    }

    /// Whether letting the time run out may stand for the owner's silence: the dialog can be answered now, and
    /// no click of a real pointer was refused or left unfinished. Otherwise a program that disturbs it could make a veto unheard.
    pub(crate) fn silence_counts(&self) -> bool {
        self.settled.is_some() && !self.hindered && self.press.is_none() && self.pending.is_none()
    }

    fn hinder(&mut self, reason: IgnoredClick) -> IgnoredClick {
        self.hindered = true;
        reason
    }
}

fn spoils(at: Time, what: Posted, click: Pending) -> bool {
    let (before, after) = match what {
        Posted::Button => (GUARD_MS, GUARD_MS),
        Posted::Motion => (SETTLE_MS, 0),
    };
    let after_start = at.since(click.press) >= -before.cast_signed();
    let before_end = at.since(click.release) <= after.cast_signed();
    after_start && before_end
}

#[cfg(test)]
mod tests;
