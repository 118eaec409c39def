//! Boxes and glyphs into pixels.

use consentry_wire::dialog::ButtonStyle;
use tiny_skia::{
    Color, FillRule, Mask, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, Transform,
};

use crate::layout::{Button, Layout, Pane, Rect, Shape};
use crate::text::{Block, Glyph, Typesetter};
use crate::theme::{Colour, Theme};

/// How far the corner of a Bézier curve reaches to look like a circle's quarter.
const ROUND: f32 = 0.552_284_8;

/// What changes while the dialog is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    /// The button under the pointer.
    pub(crate) hover: Option<usize>,
    /// The button that is held down.
    pub(crate) held: Option<usize>,
    /// Whether a click would count; until then the buttons are pale.
    pub(crate) armed: bool,
    /// The countdown's sentence.
    pub(crate) countdown: String,
    /// How much of the time is left, from 1 to 0.
    pub(crate) left: f32,
}

/// Paints the whole dialog. `None` if it has no size.
pub(crate) fn paint(
    layout: &Layout,
    view: &View,
    theme: &Theme,
    typesetter: &mut Typesetter,
) -> Option<Pixmap> {
    let pixmap = Pixmap::new(layout.width as u32, layout.height as u32)?;
    let clip = Mask::new(pixmap.width(), pixmap.height())?;
    let mut painter = Painter { pixmap, clip, clipped: None, theme, typesetter, scale: layout.scale };
    painter.pixmap.fill(colour(theme.ground));
    for shape in &layout.fixed {
        painter.shape(shape, (0.0, 0.0));
    }
    if let Some(pane) = &layout.detail {
        if let Some(frame) = pane.frame {
            painter.rounded(frame, 6.0 * layout.scale, theme.well, Some(theme.plain_edge));
        }
        painter.pane(pane);
    }
    painter.pane(&layout.facts);
    for (index, button) in layout.buttons.iter().enumerate() {
        painter.button(button, view, index, view.armed && layout.takes_clicks(button));
    }
    let (print, x, y) = layout.print();
    painter.text(print, *x, *y, 1.0);
    painter.countdown(layout, view);
    painter.edge(layout);
    Some(painter.pixmap)
}

struct Painter<'a> {
    pixmap: Pixmap,
    clip: Mask,
    /// The rows of pixels that may be painted, and whether `clip` says so too.
    clipped: Option<Rect>,
    theme: &'a Theme,
    typesetter: &'a mut Typesetter,
    scale: f32,
}

impl Painter<'_> {
    fn shape(&mut self, shape: &Shape, (x, y): (f32, f32)) {
        let shift = |rect: &Rect| Rect { x: rect.x + x, y: rect.y + y, ..*rect };
        match shape {
            Shape::Box { rect, radius, fill, edge } => self.rounded(shift(rect), *radius, *fill, *edge),
            Shape::Text { block, x: left, y: top } => self.text(block, left + x, top + y, 1.0),
            Shape::Shield(rect) => self.shield(shift(rect)),
            Shape::Caution(rect) => self.caution(shift(rect)),
        }
    }

    fn pane(&mut self, pane: &Pane) {
        self.clipped = Some(pane.area);
        self.clip.clear();
        if let Some(path) = rectangle(pane.area) {
            self.clip.fill_path(&path, FillRule::Winding, false, Transform::identity());
        }
        for shape in &pane.shapes {
            self.shape(shape, (pane.area.x, pane.area.y - pane.scrolled));
        }
        self.clipped = None;
        if let Some(thumb) = pane.thumb(self.scale) {
            let track = Rect { y: pane.area.y, height: pane.area.height, ..thumb };
            self.rounded(track, thumb.width / 2.0, self.theme.track, None);
            self.rounded(thumb, thumb.width / 2.0, self.theme.muted, None);
        }
    }

    fn button(&mut self, button: &Button, view: &View, index: usize, armed: bool) {
        let held = view.held == Some(index);
        let over = armed && view.hover == Some(index);
        let theme = self.theme;
        let (fill, edge) = match (button.style, held && over, over) {
            (ButtonStyle::Primary, true, _) => (theme.accent_pressed, None),
            (ButtonStyle::Primary, false, true) => (theme.accent_hover, None),
            (ButtonStyle::Primary, false, false) => (theme.accent, None),
            (_, true, _) => (theme.plain_pressed, Some(theme.plain_edge)),
            (_, false, true) => (theme.plain_hover, Some(theme.plain_edge)),
            (ButtonStyle::Plain, false, false) => (theme.plain, Some(theme.plain_edge)),
            (ButtonStyle::Quiet, false, false) => (theme.ground, Some(theme.track)),
        };
        let strength = if armed { 1.0 } else { 0.55 };
        self.rounded(button.rect, 7.0 * self.scale, fill.faded(strength), edge);
        let (x, y) = button.rect.centre();
        let (x, y) = ((x - button.label.width / 2.0).round(), (y - button.label.height / 2.0).round());
        self.text(&button.label, x, y, if armed { 1.0 } else { 0.7 });
    }

    fn countdown(&mut self, layout: &Layout, view: &View) {
        let (x, y, style) = layout.countdown;
        let sentence = self.typesetter.set(&view.countdown, style, Some(layout.bar.width));
        self.text(&sentence, x, y, 1.0);
        let radius = layout.bar.height / 2.0;
        self.rounded(layout.bar, radius, self.theme.track, None);
        let rest = Rect { width: layout.bar.width * view.left.clamp(0.0, 1.0), ..layout.bar };
        if rest.width > layout.bar.height {
            self.rounded(rest, radius, self.theme.accent, None);
        }
    }

    /// A line around the window, since nothing else separates it from what is behind.
    fn edge(&mut self, layout: &Layout) {
        let line = self.scale.round().max(1.0);
        let (width, height) = (layout.width, layout.height);
        for rect in [
            Rect { x: 0.0, y: 0.0, width, height: line },
            Rect { x: 0.0, y: height - line, width, height: line },
            Rect { x: 0.0, y: 0.0, width: line, height },
            Rect { x: width - line, y: 0.0, width: line, height },
        ] {
            self.rounded(rect, 0.0, self.theme.edge, None);
        }
    }

    fn rounded(&mut self, rect: Rect, radius: f32, fill: Colour, edge: Option<Colour>) {
        if let Some(path) = rounded(rect, radius) {
            self.fill(&path, fill);
        }
        if let Some(edge) = edge {
            let line = self.scale.round().max(1.0);
            let half = line / 2.0;
            let inner = Rect {
                x: rect.x + half,
                y: rect.y + half,
                width: rect.width - line,
                height: rect.height - line,
            };
            if let Some(path) = rounded(inner, (radius - half).max(0.0)) {
                self.stroke(&path, edge, line);
            }
        }
    }

    fn shield(&mut self, rect: Rect) {
        let Rect { x, y, width, height } = rect;
        let at = |across: f32, down: f32| (x + across * width, y + down * height);
        let mut path = PathBuilder::new();
        let start = at(0.5, 0.0);
        path.move_to(start.0, start.1);
        for [one, two, end] in [
            [at(0.65, 0.09), at(0.82, 0.13), at(1.0, 0.14)],
            [at(1.0, 0.55), at(0.88, 0.83), at(0.5, 1.0)],
            [at(0.12, 0.83), at(0.0, 0.55), at(0.0, 0.14)],
            [at(0.18, 0.13), at(0.35, 0.09), at(0.5, 0.0)],
        ] {
            path.cubic_to(one.0, one.1, two.0, two.1, end.0, end.1);
        }
        path.close();
        if let Some(path) = path.finish() {
            self.fill(&path, self.theme.accent);
        }
        self.line(&[at(0.28, 0.50), at(0.45, 0.66), at(0.73, 0.33)], 2.2 * self.scale, self.theme.on_accent);
    }

    fn caution(&mut self, rect: Rect) {
        let Rect { x, y, width, height } = rect;
        let corner = 1.6 * self.scale;
        let triangle = [
            (x + width / 2.0, y + corner),
            (x + width - corner, y + height - corner),
            (x + corner, y + height - corner),
        ];
        let mut path = PathBuilder::new();
        path.move_to(triangle[0].0, triangle[0].1);
        path.line_to(triangle[1].0, triangle[1].1);
        path.line_to(triangle[2].0, triangle[2].1);
        path.close();
        if let Some(path) = path.finish() {
            self.fill(&path, self.theme.amber);
            // A stroke with round joins rounds the corners.
            self.stroke(&path, self.theme.amber, 2.0 * corner);
        }
        let middle = x + width / 2.0;
        let mark = self.theme.amber_ground;
        self.line(&[(middle, y + height * 0.36), (middle, y + height * 0.62)], 2.0 * self.scale, mark);
        let dot = 2.2 * self.scale;
        let dot = Rect { x: middle - dot / 2.0, y: y + height * 0.75, width: dot, height: dot };
        self.rounded(dot, dot.width / 2.0, mark, None);
    }

    fn line(&mut self, points: &[(f32, f32)], width: f32, colour: Colour) {
        let mut path = PathBuilder::new();
        for (index, &(x, y)) in points.iter().enumerate() {
            if index == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        if let Some(path) = path.finish() {
            self.stroke(&path, colour, width);
        }
    }

    fn fill(&mut self, path: &Path, with: Colour) {
        let mask = self.clipped.is_some().then_some(&self.clip);
        self.pixmap.fill_path(path, &solid(with), FillRule::Winding, Transform::identity(), mask);
    }

    fn stroke(&mut self, path: &Path, with: Colour, width: f32) {
        let stroke = Stroke {
            width,
            line_cap: tiny_skia::LineCap::Round,
            line_join: tiny_skia::LineJoin::Round,
            ..Stroke::default()
        };
        let mask = self.clipped.is_some().then_some(&self.clip);
        self.pixmap.stroke_path(path, &solid(with), &stroke, Transform::identity(), mask);
    }

    fn text(&mut self, block: &Block, x: f32, y: f32, strength: f32) {
        let canvas = Rect { x: 0.0, y: 0.0, width: f32::MAX, height: block.height + y.max(0.0) };
        let area = self.clipped.unwrap_or(canvas);
        let lines = (area.y - y, area.y + area.height - y);
        let (pixmap, typesetter) = (&mut self.pixmap, &mut *self.typesetter);
        typesetter.glyphs(block, (x, y), lines, |glyph| blend(pixmap, &glyph, area, strength));
    }
}

/// Lays a glyph over what is there.
fn blend(pixmap: &mut Pixmap, glyph: &Glyph<'_>, area: Rect, strength: f32) {
    let (canvas_width, canvas_height) = (pixmap.width(), pixmap.height());
    let bytes = if glyph.colour.is_some() { 1 } else { 4 };
    for (row, line) in (0..glyph.height).zip(glyph.pixels.chunks_exact((glyph.width as usize * bytes).max(1)))
    {
        for (column, pixel) in (0..glyph.width).zip(line.chunks_exact(bytes)) {
            let (Some(x), Some(y)) =
                (column.checked_add_signed(glyph.left), row.checked_add_signed(glyph.top))
            else {
                continue;
            };
            let inside =
                x < canvas_width && y < canvas_height && area.contains(x as f32 + 0.5, y as f32 + 0.5);
            if !inside {
                continue;
            }
            let source = match (glyph.colour, pixel) {
                (Some(colour), &[coverage]) => colour.faded(f32::from(coverage) / 255.0 * strength),
                (None, &[red, green, blue, alpha]) => Colour { red, green, blue, alpha }.faded(strength),
                _ => continue,
            };
            if let Some(under) = pixmap.pixels_mut().get_mut((y * canvas_width + x) as usize) {
                *under = over(source, *under);
            }
        }
    }
}

/// `source` over an opaque pixel.
fn over(source: Colour, under: PremultipliedColorU8) -> PremultipliedColorU8 {
    let mix = |above: u8, below: u8| {
        let alpha = u32::from(source.alpha);
        let sum = u32::from(above) * alpha + u32::from(below) * (255 - alpha);
        u8::try_from((sum + 127) / 255).unwrap_or(u8::MAX)
    };
    PremultipliedColorU8::from_rgba(
        mix(source.red, under.red()),
        mix(source.green, under.green()),
        mix(source.blue, under.blue()),
        255,
    )
    .unwrap_or(under)
}

fn colour(of: Colour) -> Color {
    Color::from_rgba8(of.red, of.green, of.blue, of.alpha)
}

fn solid(with: Colour) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(colour(with));
    paint
}

fn rectangle(rect: Rect) -> Option<Path> {
    Some(PathBuilder::from_rect(tiny_skia::Rect::from_xywh(rect.x, rect.y, rect.width, rect.height)?))
}

fn rounded(rect: Rect, radius: f32) -> Option<Path> {
    let radius = radius.min(rect.width / 2.0).min(rect.height / 2.0);
    if radius <= 0.0 {
        return rectangle(rect);
    }
    let (left, top) = (rect.x, rect.y);
    let (right, bottom) = (rect.x + rect.width, rect.y + rect.height);
    let control = radius * (1.0 - ROUND);
    let mut path = PathBuilder::new();
    path.move_to(left + radius, top);
    path.line_to(right - radius, top);
    path.cubic_to(right - control, top, right, top + control, right, top + radius);
    path.line_to(right, bottom - radius);
    path.cubic_to(right, bottom - control, right - control, bottom, right - radius, bottom);
    path.line_to(left + radius, bottom);
    path.cubic_to(left + control, bottom, left, bottom - control, left, bottom - radius);
    path.line_to(left, top + radius);
    path.cubic_to(left, top + control, left + control, top, left + radius, top);
    path.close();
    path.finish()
}
