//! The window: how it is made, whether it still stands as it was put, and how it is put back.
//!
//! Any client of the display may move it, cover it, cut holes into it or draw on it. None of that can be
//! forbidden, so all of it is looked for.

use anyhow::Context as _;
use tiny_skia::Pixmap;
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::shape::{self, ConnectionExt as _, SK};
use x11rb::protocol::xinput::{self, ConnectionExt as _, XIEventMask};
use x11rb::protocol::xproto::{
    self, AtomEnum, ConfigureWindowAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask,
    ImageFormat, ImageOrder, MapState, PropMode, StackMode, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

use super::display::Display;

const DEPTH: u8 = 24;
const BYTES: usize = 4;
/// The arrow in X's cursor font.
const ARROW: u16 = 68;
/// Planes of an image that hold colour: the fourth byte of a pixel means nothing.
const COLOUR_PLANES: u32 = 0x00ff_ffff;

/// The dialog's window.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) id: xproto::Window,
    pub(super) place: Place,
    context: xproto::Gcontext,
    /// What was painted last, as the server keeps it.
    pixels: Vec<u8>,
}

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) x: i16,
    pub(super) y: i16,
    pub(super) width: u16,
    pub(super) height: u16,
}

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// As it was put, with nothing above it.
    Well,
    /// Something is above it; `whole_screen` if that covers everything.
    Covered { whole_screen: bool },
    /// It is elsewhere, or of another size.
    Moved,
    /// It has another shape.
    Shaped,
    /// It is not on the screen, or not a window of its own.
    Taken,
    /// Something was drawn on it.
    DrawnOn,
    /// It does not exist.
    Gone,
}

impl Window {
    /// Makes the window, not yet on the screen.
    pub(super) fn create(display: &Display, place: Place) -> anyhow::Result<Self> {
        let connection = &display.connection;
        let visual = display.visual()?;
        let (id, context, colours) =
            (connection.generate_id()?, connection.generate_id()?, connection.generate_id()?);
        let (font, cursor) = (connection.generate_id()?, connection.generate_id()?);
        connection.create_colormap(xproto::ColormapAlloc::NONE, colours, display.root, visual)?;
        connection.open_font(font, b"cursor")?.ignore_error();
        let white = u16::MAX;
        let arrow = connection
            .create_glyph_cursor(cursor, font, font, ARROW, ARROW + 1, 0, 0, 0, white, white, white)?
            .check()
            .map_or(x11rb::NONE, |()| cursor);
        // No key events, and no core button events: only XInput 2 says which device clicked.
        let attributes = CreateWindowAux::new()
            .override_redirect(1)
            .border_pixel(0)
            .background_pixmap(x11rb::NONE)
            .colormap(colours)
            .cursor(arrow)
            .event_mask(EventMask::EXPOSURE | EventMask::VISIBILITY_CHANGE | EventMask::STRUCTURE_NOTIFY);
        connection
            .create_window(
                DEPTH,
                id,
                display.root,
                place.x,
                place.y,
                place.width,
                place.height,
                0,
                WindowClass::INPUT_OUTPUT,
                visual,
                &attributes,
            )?
            .check()
            .context("cannot make the window")?;
        connection.create_gc(context, id, &CreateGCAux::new())?;
        connection.change_property8(
            PropMode::REPLACE,
            id,
            AtomEnum::WM_NAME,
            AtomEnum::STRING,
            b"Consentry",
        )?;
        connection.change_property8(
            PropMode::REPLACE,
            id,
            AtomEnum::WM_CLASS,
            AtomEnum::STRING,
            b"consentry-dialog\0Consentry\0",
        )?;
        connection.xinput_xi_select_events(
            id,
            &[xinput::EventMask {
                deviceid: xinput::Device::ALL_MASTER.into(),
                mask: vec![
                    XIEventMask::BUTTON_PRESS
                        | XIEventMask::BUTTON_RELEASE
                        | XIEventMask::MOTION
                        | XIEventMask::LEAVE,
                ],
            }],
        )?;
        connection.shape_select_input(id, true)?;
        // Whatever else appears, moves or goes, so that nothing covers the dialog unseen.
        let everything = xproto::ChangeWindowAttributesAux::new()
            .event_mask(EventMask::SUBSTRUCTURE_NOTIFY | EventMask::STRUCTURE_NOTIFY);
        connection.change_window_attributes(display.root, &everything)?;
        Ok(Self { id, place, context, pixels: Vec::new() })
    }

    /// Puts it on the screen, above everything.
    pub(super) fn show(&self, display: &Display) -> anyhow::Result<()> {
        self.raise(display)?;
        display.connection.map_window(self.id)?;
        display.connection.flush()?;
        Ok(())
    }

    /// Puts it elsewhere.
    pub(super) fn relocate(&mut self, display: &Display, x: i16, y: i16) -> anyhow::Result<()> {
        self.place = Place { x, y, ..self.place };
        self.restore(display, Standing::Moved)
    }

    /// Shows these pixels.
    pub(super) fn present(&mut self, display: &Display, pixmap: &Pixmap) -> anyhow::Result<()> {
        let connection = &display.connection;
        let lowest_first = connection.setup().image_byte_order == ImageOrder::LSB_FIRST;
        self.pixels.clear();
        for pixel in pixmap.pixels() {
            let (red, green, blue) = (pixel.red(), pixel.green(), pixel.blue());
            self.pixels.extend(if lowest_first { [blue, green, red, 0] } else { [0, red, green, blue] });
        }
        let line = usize::from(self.place.width) * BYTES;
        let fitting = (connection.maximum_request_bytes().saturating_sub(64) / line).max(1);
        let mut y = 0_u16;
        for strip in self.pixels.chunks(fitting * line) {
            let height = u16::try_from(strip.len() / line).unwrap_or(0);
            connection.put_image(
                ImageFormat::Z_PIXMAP,
                self.id,
                self.context,
                self.place.width,
                height,
                0,
                i16::try_from(y).unwrap_or(i16::MAX),
                0,
                DEPTH,
                strip,
            )?;
            y = y.saturating_add(height);
        }
        connection.flush()?;
        Ok(())
    }

    /// How it stands now. One exchange with the server, so it may be asked at every click.
    pub(super) fn standing(&self, display: &Display) -> anyhow::Result<Standing> {
        let connection = &display.connection;
        let tree = connection.query_tree(display.root)?;
        let screen = connection.get_geometry(display.root)?;
        let attributes = connection.get_window_attributes(self.id)?;
        let geometry = connection.get_geometry(self.id)?;
        let extents = connection.shape_query_extents(self.id)?;
        let input = connection.shape_get_rectangles(self.id, SK::INPUT)?;
        let (tree, screen) = (tree.reply()?, screen.reply()?);
        let (Ok(attributes), Ok(geometry), Ok(extents), Ok(input)) =
            (attributes.reply(), geometry.reply(), extents.reply(), input.reply())
        else {
            return Ok(Standing::Gone);
        };
        // The tree goes from the bottom to the top.
        let Some(own) = tree.children.iter().position(|&child| child == self.id) else {
            return Ok(Standing::Taken);
        };
        if attributes.map_state != MapState::VIEWABLE || !attributes.override_redirect {
            return Ok(Standing::Taken);
        }
        let Place { x, y, width, height } = self.place;
        let stands_at =
            Place { x: geometry.x, y: geometry.y, width: geometry.width, height: geometry.height };
        if stands_at != self.place || geometry.border_width != 0 {
            return Ok(Standing::Moved);
        }
        let takes_every_click = matches!(
            input.rectangles.as_slice(),
            [whole] if (whole.x, whole.y, whole.width, whole.height) == (0, 0, width, height)
        );
        if extents.bounding_shaped || extents.clip_shaped || !takes_every_click {
            return Ok(Standing::Shaped);
        }
        let above = tree.children.get(own + 1..).unwrap_or_default();
        let asked: Vec<_> = above
            .iter()
            .map(|&other| Ok((connection.get_window_attributes(other)?, connection.get_geometry(other)?)))
            .collect::<Result<_, x11rb::errors::ConnectionError>>()?;
        let mut covered = None;
        for (attributes, geometry) in asked {
            // A window that is gone by now covers nothing.
            let (Ok(attributes), Ok(geometry)) = (attributes.reply(), geometry.reply()) else { continue };
            let border = 2 * i32::from(geometry.border_width);
            let (left, top) = (i32::from(geometry.x), i32::from(geometry.y));
            let right = left + i32::from(geometry.width) + border;
            let bottom = top + i32::from(geometry.height) + border;
            let overlaps = left < i32::from(x) + i32::from(width)
                && right > i32::from(x)
                && top < i32::from(y) + i32::from(height)
                && bottom > i32::from(y);
            if attributes.map_state == MapState::VIEWABLE && overlaps {
                let whole_screen = left <= 0
                    && top <= 0
                    && right >= i32::from(screen.width)
                    && bottom >= i32::from(screen.height);
                covered = Some(covered.unwrap_or(false) || whole_screen);
            }
        }
        Ok(covered.map_or(Standing::Well, |whole_screen| Standing::Covered { whole_screen }))
    }

    /// Whether the server shows what was painted. Any client may draw on any window, and no event tells.
    pub(super) fn is_intact(&self, display: &Display) -> anyhow::Result<bool> {
        let line = usize::from(self.place.width) * BYTES;
        let image = display
            .connection
            .get_image(
                ImageFormat::Z_PIXMAP,
                self.id,
                0,
                0,
                self.place.width,
                self.place.height,
                COLOUR_PLANES,
            )?
            .reply();
        // It fails if the window is not wholly on the screen.
        let Ok(image) = image else { return Ok(false) };
        let colour =
            if display.connection.setup().image_byte_order == ImageOrder::LSB_FIRST { 0..3 } else { 1..4 };
        Ok(image.data.len() == self.pixels.len()
            && image.data.len() == line * usize::from(self.place.height)
            && image
                .data
                .chunks_exact(BYTES)
                .zip(self.pixels.chunks_exact(BYTES))
                .all(|(shown, painted)| shown[colour.clone()] == painted[colour.clone()]))
    }

    /// Undoes what another client did.
    pub(super) fn restore(&self, display: &Display, standing: Standing) -> anyhow::Result<()> {
        let connection = &display.connection;
        match standing {
            Standing::Well | Standing::DrawnOn | Standing::Gone => {}
            Standing::Covered { .. } => self.raise(display)?,
            Standing::Moved => self.put_back(display)?,
            Standing::Shaped => {
                for kind in [SK::BOUNDING, SK::CLIP, SK::INPUT] {
                    connection.shape_mask(shape::SO::SET, kind, self.id, 0, 0, x11rb::NONE)?.ignore_error();
                }
            }
            Standing::Taken => {
                let attributes = xproto::ChangeWindowAttributesAux::new().override_redirect(1);
                connection.change_window_attributes(self.id, &attributes)?.ignore_error();
                connection.reparent_window(self.id, display.root, self.place.x, self.place.y)?.ignore_error();
                self.put_back(display)?;
                connection.map_window(self.id)?.ignore_error();
            }
        }
        connection.flush()?;
        Ok(())
    }

    fn raise(&self, display: &Display) -> anyhow::Result<()> {
        let top = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
        display.connection.configure_window(self.id, &top)?.ignore_error();
        Ok(())
    }

    fn put_back(&self, display: &Display) -> anyhow::Result<()> {
        let Place { x, y, width, height } = self.place;
        let place = ConfigureWindowAux::new()
            .x(i32::from(x))
            .y(i32::from(y))
            .width(u32::from(width))
            .height(u32::from(height))
            .border_width(0)
            .stack_mode(StackMode::ABOVE);
        display.connection.configure_window(self.id, &place)?.ignore_error();
        Ok(())
    }
}
