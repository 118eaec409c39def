//! What is where: a specification becomes boxes and lines, in pixels from the window's top left corner.
//!
//! The title, the warning, the buttons and the countdown are always whole. If the screen is too low, the detail
//! shrinks first and then the facts; both scroll.

use consentry_wire::dialog::{ButtonStyle, DialogSpec};

use crate::text::{Block, Face, Style, Typesetter, visible, visible_code};
use crate::theme::{Colour, Theme};

const BRAND: &str = "Consentry";
const QUOTE_CAPTION: &str = "Purpose, in the agent’s own words";
const UNVERIFIED: &str = "(not\u{a0}verified)";
const SMALL_PRINT: &str = "Only a click answers. Keys do nothing.";
/// Instead of it, as long as something that would be allowed was not seen.
const SCROLL_FIRST: &str = "Scroll to the end to allow.";

/// Lengths at a scale of 1.
const WIDTH: f32 = 520.0;
const PADDING: f32 = 24.0;
const GAP: f32 = 16.0;
const BUTTON_HEIGHT: f32 = 40.0;
const BUTTON_MIN_WIDTH: f32 = 108.0;
const BUTTON_GAP: f32 = 10.0;
const GUTTER: f32 = 14.0;
const DETAIL_LINES: f32 = 14.0;
const DETAIL_MIN_LINES: f32 = 6.0;
const FACTS_MIN: f32 = 56.0;
/// No text is smaller than this much of its size.
const SMALLEST: f32 = 0.6;

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Rect {
    pub(crate) x: f32,
    pub(crate) y: f32,
    pub(crate) width: f32,
    pub(crate) height: f32,
}

/// Something to paint.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A rectangle with rounded corners.
    Box { rect: Rect, radius: f32, fill: Colour, edge: Option<Colour> },
    /// A text with its top left corner.
    Text { block: Block, x: f32, y: f32 },
    /// The product's mark.
    Shield(Rect),
    /// A triangle with an exclamation mark.
    Caution(Rect),
}

/// A text with its top left corner.
pub(crate) type Placed = (Block, f32, f32);

/// A window onto shapes that may be taller than it; their places are relative to its top left corner.
#[derive(Debug, Default)]
pub(crate) struct Pane {
    pub(crate) area: Rect,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) content_height: f32,
    pub(crate) scrolled: f32,
    /// The furthest that it was ever scrolled.
    furthest: f32,
    /// How far one notch of a wheel goes.
    pub(crate) step: f32,
    /// The box around it, where it has one.
    pub(crate) frame: Option<Rect>,
}

/// A button.
#[derive(Debug)]
pub(crate) struct Button {
    pub(crate) id: String,
    pub(crate) rect: Rect,
    pub(crate) style: ButtonStyle,
    /// It takes no click before everything was seen.
    pub(crate) permits: bool,
    pub(crate) label: Block,
}

/// The dialog, placed.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) width: f32,
    pub(crate) height: f32,
    pub(crate) scale: f32,
    pub(crate) fixed: Vec<Shape>,
    /// The small print, and what stands there as long as something was not seen; each with its place.
    print: [Placed; 2],
    /// The quotation and the rows.
    pub(crate) facts: Pane,
    /// The text in full.
    pub(crate) detail: Option<Pane>,
    pub(crate) buttons: Vec<Button>,
    /// Where the countdown's sentence begins, and how it looks.
    pub(crate) countdown: (f32, f32, Style),
    /// The bar that shrinks with the time.
    pub(crate) bar: Rect,
}

impl Rect {
    pub(crate) fn contains(&self, x: f32, y: f32) -> bool {
        x >= self.x && y >= self.y && x < self.x + self.width && y < self.y + self.height
    }

    pub(crate) fn centre(&self) -> (f32, f32) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }
}

impl Pane {
    /// Scrolls by so many pixels, as far as there is something. Says whether anything moved.
    pub(crate) fn scroll(&mut self, by: f32) -> bool {
        let furthest = (self.content_height - self.area.height).max(0.0);
        let target = (self.scrolled + by).clamp(0.0, furthest);
        let moved = (target - self.scrolled).abs() > f32::EPSILON;
        self.scrolled = target;
        self.furthest = self.furthest.max(target);
        moved
    }

    /// Whether there is something in it that was never on the screen.
    fn unread(&self) -> bool {
        self.furthest + self.area.height + 1.0 < self.content_height
    }

    /// The scroll bar's thumb, if there is more than fits.
    pub(crate) fn thumb(&self, scale: f32) -> Option<Rect> {
        let furthest = self.content_height - self.area.height;
        if furthest <= 0.5 {
            return None;
        }
        let height = (self.area.height * self.area.height / self.content_height)
            .max(28.0 * scale)
            .min(self.area.height);
        let travel = self.area.height - height;
        let width = 6.0 * scale;
        Some(Rect {
            x: self.area.x + self.area.width - width,
            y: self.area.y + travel * self.scrolled / furthest,
            width,
            height,
        })
    }

    /// Scrolls by as much as dragging the thumb so far does.
    pub(crate) fn drag(&mut self, by: f32, scale: f32) -> bool {
        let Some(thumb) = self.thumb(scale) else { return false };
        let travel = self.area.height - thumb.height;
        let furthest = self.content_height - self.area.height;
        travel > 0.0 && self.scroll(by * furthest / travel)
    }

    fn overflows(&self) -> bool {
        self.content_height > self.area.height + 0.5
    }
}

impl Layout {
    /// Places everything for a screen of this size, in pixels.
    pub(crate) fn new(
        spec: &DialogSpec,
        theme: &Theme,
        typesetter: &mut Typesetter,
        scale: f32,
        screen: (f32, f32),
    ) -> Self {
        let screen = (screen.0.floor(), screen.1.floor());
        let mut smaller = scale;
        loop {
            let width = (WIDTH * smaller).floor().min(screen.0);
            let layout = Placer { theme, typesetter, scale: smaller, screen, width }.place(spec);
            // On a screen too small for what must be whole, everything is smaller rather than something cut off.
            if layout.height <= screen.1 || smaller < scale * SMALLEST {
                return layout;
            }
            smaller *= 0.9;
        }
    }

    /// The button at this place, if it takes a click.
    pub(crate) fn button_at(&self, x: f32, y: f32) -> Option<usize> {
        self.buttons.iter().position(|button| button.rect.contains(x, y) && self.takes_clicks(button))
    }

    /// Whether a button may be clicked: nothing is permitted that was not seen whole.
    pub(crate) fn takes_clicks(&self, button: &Button) -> bool {
        !button.permits || !self.unread()
    }

    fn unread(&self) -> bool {
        self.facts.unread() || self.detail.as_ref().is_some_and(Pane::unread)
    }

    /// The small print as it is now, with its place.
    pub(crate) fn print(&self) -> &Placed {
        &self.print[usize::from(self.unread())]
    }

    /// The pane at this place that has more than it shows.
    pub(crate) fn pane_at(&mut self, x: f32, y: f32) -> Option<&mut Pane> {
        self.detail
            .iter_mut()
            .chain([&mut self.facts])
            .find(|pane| pane.overflows() && pane.frame.unwrap_or(pane.area).contains(x, y))
    }
}

struct Placer<'a> {
    theme: &'a Theme,
    typesetter: &'a mut Typesetter,
    scale: f32,
    screen: (f32, f32),
    width: f32,
}

impl Placer<'_> {
    fn place(mut self, spec: &DialogSpec) -> Layout {
        let inner = self.width - 2.0 * self.px(PADDING);
        let left = self.px(PADDING);
        let (gap, before_buttons) = (self.px(GAP), self.px(GAP * 1.25));
        let mut fixed = Vec::new();

        let header_end = self.header(&spec.title, inner, &mut fixed);
        let (warning, warning_height) = self.warning(spec.warning.as_deref(), inner);
        let mut buttons = self.buttons(spec, inner);
        let buttons_height =
            buttons.iter().map(|button| button.rect.y + button.rect.height).fold(0.0, f32::max);
        let (print, footer_height, countdown) = self.footer(spec, inner);

        let below = warning_height + before_buttons + buttons_height + gap + footer_height + self.px(PADDING);
        let room = (self.screen.1 - header_end - below).max(0.0);
        let (mut facts, detail) = self.panes(spec, inner, room);

        let mut y = header_end;
        facts.area.x = left;
        facts.area.y = y;
        y += facts.area.height;
        let detail = detail.map(|mut pane| {
            let frame = pane.frame.unwrap_or_default();
            let inset = self.px(12.0);
            y += gap;
            pane.frame = Some(Rect { x: left, y, ..frame });
            pane.area.x = left + inset;
            pane.area.y = y + inset * 0.75;
            y += frame.height;
            pane
        });
        fixed.extend(warning.into_iter().map(|shape| moved(shape, left, y)));
        y += warning_height + before_buttons;
        for button in &mut buttons {
            button.rect.x += left;
            button.rect.y += y;
        }
        y += buttons_height + gap;
        let print = print.map(|(block, across, down)| (block, left + across, y + down));
        let (countdown_y, style) = countdown;
        Layout {
            width: self.width,
            height: (y + footer_height + self.px(PADDING)).ceil(),
            scale: self.scale,
            fixed,
            print,
            facts,
            detail,
            buttons,
            countdown: (left, y + countdown_y, style),
            bar: Rect { x: left, y, width: inner, height: self.px(4.0) },
        }
    }

    fn header(&mut self, title: &str, inner: f32, shapes: &mut Vec<Shape>) -> f32 {
        let padding = self.px(PADDING);
        let mark = Rect { x: padding, y: padding, width: self.px(20.0), height: self.px(22.0) };
        let brand_style = self.style(Face::Bold, 13.0, 22.0, self.theme.muted);
        let brand = self.typesetter.set(BRAND, brand_style, None);
        shapes.push(Shape::Shield(mark));
        shapes.push(Shape::Text { block: brand, x: padding + self.px(28.0), y: padding });
        let title_style = self.style(Face::Bold, 20.0, 27.0, self.theme.text);
        let block = self.typesetter.set(&visible(title), title_style, Some(inner));
        let y = padding + self.px(22.0 + 14.0);
        let end = y + block.height + self.px(GAP);
        shapes.push(Shape::Text { block, x: padding, y });
        end
    }

    /// The facts and the detail, no taller together than `room`.
    fn panes(&mut self, spec: &DialogSpec, inner: f32, room: f32) -> (Pane, Option<Pane>) {
        let mut facts = self.facts(spec, inner);
        let detail = spec.detail.as_deref().map(|text| self.detail(text, inner));
        let gap = if detail.is_some() { self.px(GAP) } else { 0.0 };
        let room = (room - gap).max(0.0);
        let least = self.px(DETAIL_MIN_LINES * 18.0 + 18.0);
        let detail_height = detail.as_ref().map_or(0.0, |(_, wanted)| {
            wanted.min((room - facts.content_height).max(least.min(*wanted))).min(room)
        });
        let facts_room = (room - detail_height).max(self.px(FACTS_MIN).min(room));
        if facts.content_height > facts_room {
            facts = self.facts(spec, inner - self.px(GUTTER));
            facts.area.width = inner;
        }
        facts.area.height = facts.content_height.min(facts_room);
        let detail = detail.map(|(mut pane, _)| {
            pane.frame = Some(Rect { width: inner, height: detail_height, ..Rect::default() });
            pane.area.height = (detail_height - self.px(18.0)).max(0.0);
            pane
        });
        (facts, detail)
    }

    fn facts(&mut self, spec: &DialogSpec, width: f32) -> Pane {
        let mut shapes = Vec::new();
        let mut y = 0.0;
        if let Some(quote) = &spec.quote {
            y = self.quote(quote, width, &mut shapes);
        }
        let label_style = self.style(Face::Regular, 13.0, 20.0, self.theme.muted);
        let labels: Vec<String> = spec.rows.iter().map(|row| visible(&row.label)).collect();
        let widest = width * 0.36;
        let labels: Vec<Block> =
            labels.iter().map(|label| self.typesetter.set(label, label_style, Some(widest))).collect();
        let column = labels.iter().map(|label| label.width).fold(0.0, f32::max) + self.px(20.0);
        for (index, (row, label)) in spec.rows.iter().zip(labels).enumerate() {
            if index > 0 {
                let line = Rect { x: 0.0, y: y.round(), width, height: self.scale.round().max(1.0) };
                shapes.push(Shape::Box { rect: line, radius: 0.0, fill: self.theme.track, edge: None });
            } else if spec.quote.is_some() {
                y += self.px(6.0);
            }
            y += self.px(8.0);
            let style = self.style(Face::Regular, 14.0, 20.0, self.theme.text);
            let value = visible(&row.value);
            let mut spans = vec![(value.as_str(), Face::Regular, self.theme.text)];
            if row.unverified {
                spans.push(("  ", Face::Regular, self.theme.text));
                spans.push((UNVERIFIED, Face::Regular, self.theme.amber));
            }
            let value = self.typesetter.set_spans(&spans, style, Some(width - column));
            let height = value.height.max(label.height);
            shapes.push(Shape::Text { block: label, x: 0.0, y });
            shapes.push(Shape::Text { block: value, x: column, y });
            y += height + self.px(8.0);
        }
        Pane {
            area: Rect { width, ..Rect::default() },
            shapes,
            content_height: y.ceil(),
            step: self.px(40.0),
            ..Pane::default()
        }
    }

    fn quote(&mut self, quote: &str, width: f32, shapes: &mut Vec<Shape>) -> f32 {
        let inset = self.px(16.0);
        let caption_style = self.style(Face::Regular, 12.0, 18.0, self.theme.muted);
        let caption = self.typesetter.set(QUOTE_CAPTION, caption_style, Some(width - 2.0 * inset));
        let style = self.style(Face::Regular, 15.0, 22.0, self.theme.text);
        let words = format!("“{}”", visible(quote));
        let words = self.typesetter.set(&words, style, Some(width - 2.0 * inset));
        let top = self.px(10.0);
        let height = top + caption.height + self.px(2.0) + words.height + self.px(12.0);
        let rect = Rect { x: 0.0, y: 0.0, width, height };
        shapes.push(Shape::Box { rect, radius: self.px(6.0), fill: self.theme.quote, edge: None });
        let bar = Rect { width: self.px(4.0), ..rect };
        shapes.push(Shape::Box { rect: bar, radius: self.px(2.0), fill: self.theme.accent, edge: None });
        let words_y = top + caption.height + self.px(2.0);
        shapes.push(Shape::Text { block: caption, x: inset, y: top });
        shapes.push(Shape::Text { block: words, x: inset, y: words_y });
        height
    }

    /// The detail, and the height of its frame if there is room.
    fn detail(&mut self, text: &str, inner: f32) -> (Pane, f32) {
        let style = self.style(Face::Mono, 12.5, 18.0, self.theme.text);
        let width = inner - self.px(24.0);
        let block = self.typesetter.set(&visible_code(text), style, Some(width - self.px(GUTTER)));
        let height = block.height;
        let pane = Pane {
            area: Rect { width, ..Rect::default() },
            shapes: vec![Shape::Text { block, x: 0.0, y: 0.0 }],
            content_height: height,
            step: self.px(18.0 * 3.0),
            ..Pane::default()
        };
        (pane, height.min(self.px(DETAIL_LINES * 18.0)) + self.px(18.0))
    }

    fn warning(&mut self, text: Option<&str>, inner: f32) -> (Vec<Shape>, f32) {
        let Some(text) = text else { return (Vec::new(), 0.0) };
        let gap = self.px(GAP);
        let inset = self.px(44.0);
        let style = self.style(Face::Regular, 13.5, 20.0, self.theme.amber_text);
        let block = self.typesetter.set(&visible(text), style, Some(inner - inset - self.px(14.0)));
        let height = block.height + self.px(20.0);
        let rect = Rect { x: 0.0, y: gap, width: inner, height };
        let icon =
            Rect { x: self.px(14.0), y: gap + self.px(11.0), width: self.px(20.0), height: self.px(18.0) };
        let ground = Shape::Box { rect, radius: self.px(6.0), fill: self.theme.amber_ground, edge: None };
        let words = Shape::Text { block, x: inset, y: gap + self.px(10.0) };
        (vec![ground, Shape::Caution(icon), words], gap + height)
    }

    /// The buttons in one line that ends at the right, or one under the other if they are too long for that.
    fn buttons(&mut self, spec: &DialogSpec, inner: f32) -> Vec<Button> {
        let height = self.px(BUTTON_HEIGHT);
        let gap = self.px(BUTTON_GAP);
        let mut buttons: Vec<Button> = spec
            .buttons
            .iter()
            .map(|button| {
                let colour = match button.style {
                    ButtonStyle::Primary => self.theme.on_accent,
                    ButtonStyle::Plain => self.theme.text,
                    ButtonStyle::Quiet => self.theme.muted,
                };
                let style = self.style(Face::Bold, 14.0, 20.0, colour);
                let label = self.typesetter.set(&visible(&button.label), style, Some(inner - self.px(32.0)));
                let width = (label.width + self.px(32.0)).max(self.px(BUTTON_MIN_WIDTH)).min(inner);
                let height = height.max(label.height + self.px(16.0));
                let rect = Rect { width, height, ..Rect::default() };
                Button { id: button.id.clone(), rect, style: button.style, permits: button.permits, label }
            })
            .collect();
        let gaps = buttons.iter().skip(1).map(|_| gap).sum::<f32>();
        let together = buttons.iter().map(|button| button.rect.width).sum::<f32>() + gaps;
        if together <= inner {
            let mut x = inner - together;
            for button in &mut buttons {
                // The safest, where it is a quiet one, keeps its distance from the others.
                button.rect.x = if button.style == ButtonStyle::Quiet { 0.0 } else { x };
                x += button.rect.width + gap;
            }
            let overlap = buttons.windows(2).any(|pair| pair[0].rect.x + pair[0].rect.width > pair[1].rect.x);
            if !overlap {
                return buttons;
            }
        }
        let mut y = 0.0;
        for button in &mut buttons {
            button.rect = Rect { x: 0.0, y, width: inner, ..button.rect };
            y += button.rect.height + gap;
        }
        buttons
    }

    /// The small print, its height with the bar and the countdown, and where in it the countdown stands.
    fn footer(&mut self, spec: &DialogSpec, inner: f32) -> ([Placed; 2], f32, (f32, Style)) {
        let style = self.style(Face::Regular, 13.0, 18.0, self.theme.muted);
        let small = self.style(Face::Regular, 12.0, 18.0, self.theme.muted);
        let longest = countdown(&spec.countdown, spec.seconds);
        let longest = self.typesetter.set(&longest, style, Some(inner));
        let print = self.typesetter.set(SMALL_PRINT, small, Some(inner));
        let hint = Style { face: Face::Bold, colour: self.theme.amber, ..small };
        let hint = self.typesetter.set(SCROLL_FIRST, hint, Some(inner));
        let top = self.px(12.0);
        let beside = longest.width + self.px(24.0) + print.width.max(hint.width) <= inner;
        let y = if beside { top } else { top + longest.height + self.px(2.0) };
        let height = y + print.height.max(hint.height).max(if beside { longest.height } else { 0.0 });
        let prints = [print, hint].map(|block| {
            let x = if beside { inner - block.width } else { 0.0 };
            (block, x, y)
        });
        (prints, height, (top, style))
    }

    fn style(&self, face: Face, size: f32, leading: f32, colour: Colour) -> Style {
        Style { face, size: size * self.scale, leading: (leading * self.scale).round(), colour }
    }

    fn px(&self, length: f32) -> f32 {
        (length * self.scale).round()
    }
}

/// The countdown's sentence with its seconds.
pub(crate) fn countdown(sentence: &str, seconds: u16) -> String {
    visible(&sentence.replace("{}", &seconds.to_string()))
}

fn moved(shape: Shape, by_x: f32, by_y: f32) -> Shape {
    let shift = |rect: Rect| Rect { x: rect.x + by_x, y: rect.y + by_y, ..rect };
    match shape {
        Shape::Box { rect, radius, fill, edge } => Shape::Box { rect: shift(rect), radius, fill, edge },
        Shape::Text { block, x, y } => Shape::Text { block, x: x + by_x, y: y + by_y },
        Shape::Shield(rect) => Shape::Shield(shift(rect)),
        Shape::Caution(rect) => Shape::Caution(shift(rect)),
    }
}

#[cfg(test)]
mod tests;
