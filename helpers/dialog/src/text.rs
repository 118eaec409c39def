//! Words into lines of glyphs, at a size in pixels.
//!
//! Latin, Greek and Cyrillic come from fonts that are part of the program, so the dialog reads the same on every
//! machine and no font that somebody installed can make "Reject" look like "Allow". Other scripts and emoji
//! come from the system's fonts, which are looked through only if a text needs them.

use std::sync::Arc;

use cosmic_text::fontdb::{Database, Source};
use cosmic_text::{
    Align, Attrs, Buffer, Family, FeatureTag, FontFeatures, FontSystem, Metrics, Shaping, SwashCache,
    SwashContent, Weight, Wrap,
};

use crate::theme::Colour;

const SANS: &str = "Inter";
const MONO: &str = "JetBrains Mono";
const REGULAR_FACE: &[u8] = include_bytes!("../fonts/Inter_400Regular.ttf");
const BOLD_FACE: &[u8] = include_bytes!("../fonts/Inter_600SemiBold.ttf");
const MONO_FACE: &[u8] = include_bytes!("../fonts/JetBrainsMono_400Regular.ttf");
/// A longer line is shaped in pieces: shaping slows down with the length of a line.
const LONGEST_LINE: usize = 4_096;

/// Which face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    Regular,
    Bold,
    Mono,
}

/// How a text looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) face: Face,
    /// In pixels.
    pub(crate) size: f32,
    /// From one line to the next, in pixels.
    pub(crate) leading: f32,
    pub(crate) colour: Colour,
}

/// A text in lines.
#[derive(Debug)]
pub(crate) struct Block {
    buffer: Buffer,
    colour: Colour,
    pub(crate) width: f32,
    pub(crate) height: f32,
}

/// Fonts, and the glyphs that were drawn with them.
#[derive(Debug)]
pub(crate) struct Typesetter {
    fonts: FontSystem,
    glyphs: SwashCache,
}

impl Typesetter {
    /// With fonts for these texts.
    pub(crate) fn for_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut faces = Database::new();
        for face in [REGULAR_FACE, BOLD_FACE, MONO_FACE] {
            faces.load_font_source(Source::Binary(Arc::new(face)));
        }
        let mut fonts = FontSystem::new_with_locale_and_db("en".to_owned(), faces);
        if texts.into_iter().any(|text| !covers(&mut fonts, text)) {
            let (locale, mut faces) = fonts.into_locale_and_db();
            faces.load_system_fonts();
            remove_namesakes(&mut faces);
            fonts = FontSystem::new_with_locale_and_db(locale, faces);
        }
        Self { fonts, glyphs: SwashCache::new() }
    }

    /// Sets a text; `width` wraps it.
    pub(crate) fn set(&mut self, text: &str, style: Style, width: Option<f32>) -> Block {
        self.set_spans(&[(text, style.face, style.colour)], style, width)
    }

    /// Sets a text whose parts differ in face and colour.
    pub(crate) fn set_spans(
        &mut self,
        spans: &[(&str, Face, Colour)],
        style: Style,
        width: Option<f32>,
    ) -> Block {
        let mut buffer = Buffer::new_empty(Metrics::new(style.size, style.leading));
        buffer.set_wrap(if width.is_some() { Wrap::WordOrGlyph } else { Wrap::None });
        buffer.set_size(width, None);
        let pieces: Vec<(String, Attrs<'_>)> =
            spans.iter().map(|&(text, face, colour)| (in_pieces(text), attributes(face, colour))).collect();
        buffer.set_rich_text(
            pieces.iter().map(|(text, attributes)| (text.as_str(), attributes.clone())),
            &attributes(style.face, style.colour),
            Shaping::Advanced,
            // Right-to-left text stays at the left edge too: that is where the eye looks in a table.
            Some(Align::Left),
        );
        buffer.shape_until_scroll(&mut self.fonts, false);
        let (mut block_width, mut height) = (0.0_f32, 0.0_f32);
        for run in buffer.layout_runs() {
            block_width = block_width.max(run.line_w);
            height = height.max(run.line_top + run.line_height);
        }
        Block { buffer, colour: style.colour, width: block_width.ceil(), height: height.ceil() }
    }

    /// Calls `paint` with each glyph of the lines between `top` and `bottom`, both measured from the block's top.
    pub(crate) fn glyphs(
        &mut self,
        block: &Block,
        origin: (f32, f32),
        (top, bottom): (f32, f32),
        mut paint: impl FnMut(Glyph<'_>),
    ) {
        for run in block.buffer.layout_runs() {
            if run.line_top + run.line_height < top {
                continue;
            }
            if run.line_top > bottom {
                break;
            }
            for glyph in run.glyphs {
                let place = glyph.physical((origin.0, origin.1 + run.line_y), 1.0);
                let Some(image) = self.glyphs.get_image(&mut self.fonts, place.cache_key) else { continue };
                let colour = glyph.color_opt.map_or(block.colour, |colour| Colour {
                    red: colour.r(),
                    green: colour.g(),
                    blue: colour.b(),
                    alpha: colour.a(),
                });
                paint(Glyph {
                    left: place.x + image.placement.left,
                    top: place.y - image.placement.top,
                    width: image.placement.width,
                    height: image.placement.height,
                    pixels: &image.data,
                    colour: match image.content {
                        SwashContent::Color => None,
                        SwashContent::Mask | SwashContent::SubpixelMask => Some(colour),
                    },
                });
            }
        }
    }
}

/// One glyph's pixels and where they go.
#[derive(Debug)]
pub(crate) struct Glyph<'a> {
    pub(crate) left: i32,
    pub(crate) top: i32,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Opacity, a byte a pixel; or red, green, blue, alpha if the glyph has its own colours.
    pub(crate) pixels: &'a [u8],
    /// None if the glyph has its own colours.
    pub(crate) colour: Option<Colour>,
}

/// The text with what would not show made visible: direction overrides that reorder a line, controls, and
/// invisible characters. Line breaks stay; joiners stay, since scripts and emoji need them.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\n' => shown.push('\n'),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\t' => shown.push_str("    "),
            '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{34f}'
            | '\u{180e}'
            | '\u{2800}'
            | '\u{fe00}'..='\u{fe0e}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{3164}'
            | '\u{ffa0}' => {
                shown.push_str(&format!("[U+{:04X}]", u32::from(character)));
            }
            control if control.is_control() => shown.push_str(&format!("[U+{:04X}]", u32::from(control))),
            other => shown.push(other),
        }
    }
    shown
}

/// Code as its characters are, one after the other: letters that are written from right to left would carry what
/// stands between them to another place, and a statement can look like a comment.
pub(crate) fn visible_code(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match u32::from(character) {
            0x590..=0x8ff | 0xfb1d..=0xfdff | 0xfe70..=0xfeff | 0x1_0800..=0x1_0fff | 0x1_e800..=0x1_efff => {
                shown.push_str(&format!("[U+{:04X}]", u32::from(character)))
            }
            _ => shown.push(character),
        }
    }
    shown
}

fn attributes(face: Face, colour: Colour) -> Attrs<'static> {
    let (family, weight) = match face {
        Face::Regular => (SANS, Weight::NORMAL),
        Face::Bold => (SANS, Weight::SEMIBOLD),
        Face::Mono => (MONO, Weight::NORMAL),
    };
    let Colour { red, green, blue, alpha } = colour;
    // A command is shown as its characters are: no "!=" that becomes one sign.
    let mut features = FontFeatures::new();
    if face == Face::Mono {
        for ligatures in [FeatureTag::STANDARD_LIGATURES, FeatureTag::CONTEXTUAL_ALTERNATES] {
            features.disable(ligatures);
        }
    }
    Attrs::new()
        .font_features(features)
        .family(Family::Name(family))
        .weight(weight)
        .color(cosmic_text::Color::rgba(red, green, blue, alpha))
}

/// Whether the program's own fonts have every character.
fn covers(fonts: &mut FontSystem, text: &str) -> bool {
    let own: Vec<_> = fonts.db().faces().map(|face| (face.id, face.weight)).collect();
    let faces: Vec<_> = own.into_iter().filter_map(|(id, weight)| fonts.get_font(id, weight)).collect();
    text.chars()
        .filter(|character| !character.is_control())
        .all(|character| faces.iter().all(|face| face.as_swash().charmap().map(character) != 0))
}

/// Drops the system's fonts that bear the name of one of ours.
fn remove_namesakes(faces: &mut Database) {
    let namesakes: Vec<_> = faces
        .faces()
        .filter(|face| !matches!(face.source, Source::Binary(_)))
        .filter(|face| face.families.iter().any(|(name, _)| name == SANS || name == MONO))
        .map(|face| face.id)
        .collect();
    for id in namesakes {
        faces.remove_face(id);
    }
}

/// Breaks lines of more than [`LONGEST_LINE`] bytes.
fn in_pieces(text: &str) -> String {
    let mut pieces = String::with_capacity(text.len());
    let mut line = 0;
    for character in text.chars() {
        if character == '\n' {
            line = 0;
        } else {
            line += character.len_utf8();
            if line > LONGEST_LINE {
                pieces.push('\n');
                line = character.len_utf8();
            }
        }
        pieces.push(character);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style {
        face: Face::Regular,
        size: 14.0,
        leading: 20.0,
        colour: Colour { red: 0, green: 0, blue: 0, alpha: 255 },
    };

    fn ink(typesetter: &mut Typesetter, block: &Block) -> usize {
        let mut glyphs = 0;
        typesetter.glyphs(block, (0.0, 0.0), (0.0, block.height), |glyph| {
            glyphs += usize::from(glyph.pixels.iter().any(|&pixel| pixel > 0));
        });
        glyphs
    }

    #[test]
    fn code_keeps_its_order_whatever_letters_are_in_it() {
        let shown = visible_code("א; f() // ב\u{2800}");
        assert_eq!(shown, "[U+05D0]; f() // [U+05D1][U+2800]");
        assert_eq!(visible_code("if a != é { 你好 }"), "if a != é { 你好 }");
    }

    #[test]
    fn every_script_is_drawn() {
        for text in ["Résumé", "你好", "שלום עולם", "مرحبا", "👩‍🔬 ok", "a\u{301}\u{301}\u{301}", "\u{10ffff}"]
        {
            let mut typesetter = Typesetter::for_texts([text]);
            let block = typesetter.set(text, STYLE, Some(200.0));
            assert!(ink(&mut typesetter, &block) > 0, "{text}");
        }
    }

    #[test]
    fn a_long_word_wraps() {
        let text = "x".repeat(500);
        let mut typesetter = Typesetter::for_texts([text.as_str()]);
        let block = typesetter.set(&text, STYLE, Some(200.0));
        assert!(block.width <= 200.0);
        assert!(block.height >= 10.0 * STYLE.leading);
    }

    #[test]
    fn a_hundred_kilobytes_in_one_line_are_set_whole() {
        let text = "y".repeat(100_000);
        let mut typesetter = Typesetter::for_texts([text.as_str()]);
        let block = typesetter.set(&text, Style { face: Face::Mono, ..STYLE }, Some(400.0));
        assert_eq!(ink(&mut typesetter, &block), 100_000);
    }

    #[test]
    fn a_command_is_shown_sign_by_sign() {
        let mut typesetter = Typesetter::for_texts([]);
        let mono = Style { face: Face::Mono, ..STYLE };
        let mut last_sign = |text: &str| {
            let block = typesetter.set(text, mono, None);
            let mut pixels = Vec::new();
            typesetter
                .glyphs(&block, (0.0, 0.0), (0.0, block.height), |glyph| pixels = glyph.pixels.to_vec());
            pixels
        };
        assert_eq!(last_sign("x="), last_sign("!="));
    }

    #[test]
    fn what_would_not_show_is_shown() {
        assert_eq!(visible("a\u{202e}b\u{200b}\tc\r\nd\u{7}"), "a[U+202E]b[U+200B]    c\nd[U+0007]");
        assert_eq!(visible("👩\u{200d}🔬"), "👩\u{200d}🔬");
    }
}
