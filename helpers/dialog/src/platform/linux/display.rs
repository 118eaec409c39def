//! The X display: what it must have, how large its pixels are, and where the owner is looking.

use anyhow::{Context as _, ensure};
use x11rb::connection::Connection as _;
use x11rb::protocol::randr::ConnectionExt as _;
use x11rb::protocol::shape::{self, ConnectionExt as _};
use x11rb::protocol::xinput::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, AtomEnum, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use crate::environment;

/// What counts as one of the dots that lengths are given in.
const DOTS_PER_INCH: f32 = 96.0;
/// Left free around the dialog.
const MARGIN: f32 = 24.0;
/// A display that says less than this many dots an inch by its size is not asked to magnify.
const DENSE: f32 = 144.0;
/// A smaller screen cannot show a dialog that can be read.
const SMALLEST: (u16, u16) = (320, 300);

/// A connection to a display on which a real click can be told from a posted one.
#[derive(Debug)]
pub(super) struct Display {
    pub(super) connection: RustConnection,
    pub(super) root: xproto::Window,
    /// Says of a device that it is the server's own for posted events.
    pub(super) xtest_device: xproto::Atom,
    screen: usize,
}

/// The part of the screen that the dialog is shown on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Monitor {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) scale: f32,
}

impl Display {
    /// Opens the display that the environment names.
    pub(super) fn open() -> anyhow::Result<Self> {
        let (connection, screen) = x11rb::connect(None).context("cannot open the display")?;
        let root = connection.setup().roots.get(screen).context("the display has no such screen")?.root;
        connection
            .xinput_xi_query_version(2, 2)
            .ok()
            .and_then(|cookie| cookie.reply().ok())
            .filter(|version| version.major_version >= 2)
            .context("the display has no XInput 2")?;
        connection
            .shape_query_version()
            .ok()
            .and_then(|cookie| cookie.reply().ok())
            .with_context(|| format!("the display has no {} extension", shape::X11_EXTENSION_NAME))?;
        let xtest_device = connection.intern_atom(false, b"XTEST Device")?.reply()?.atom;
        Ok(Self { connection, root, xtest_device, screen })
    }

    /// Who made the server and which release, for the probe.
    pub(super) fn server(&self) -> String {
        let setup = self.connection.setup();
        format!("{} {}", String::from_utf8_lossy(&setup.vendor), setup.release_number)
    }

    /// A visual with 8 bits each of red, green and blue.
    pub(super) fn visual(&self) -> anyhow::Result<xproto::Visualid> {
        let screen = self.connection.setup().roots.get(self.screen).context("the screen is gone")?;
        screen
            .allowed_depths
            .iter()
            .filter(|depth| depth.depth == 24)
            .flat_map(|depth| &depth.visuals)
            .find(|visual| {
                visual.class == xproto::VisualClass::TRUE_COLOR
                    && (visual.red_mask, visual.green_mask, visual.blue_mask) == (0xff_0000, 0xff00, 0xff)
            })
            .map(|visual| visual.visual_id)
            .context("the display has no true colours")
    }

    /// The monitor that the pointer is on.
    pub(super) fn monitor(&self) -> anyhow::Result<Monitor> {
        let connection = &self.connection;
        let pointer = connection.query_pointer(self.root)?.reply()?;
        let (pointer_x, pointer_y) = (i32::from(pointer.root_x), i32::from(pointer.root_y));
        let whole = connection.get_geometry(self.root)?.reply()?;
        let monitors =
            connection.randr_get_monitors(self.root, true).ok().and_then(|cookie| cookie.reply().ok());
        let found = monitors.into_iter().flat_map(|reply| reply.monitors).find(|monitor| {
            let (x, y) = (pointer_x - i32::from(monitor.x), pointer_y - i32::from(monitor.y));
            (0..i32::from(monitor.width)).contains(&x) && (0..i32::from(monitor.height)).contains(&y)
        });
        let monitor = match found {
            Some(monitor) => Monitor {
                x: monitor.x.into(),
                y: monitor.y.into(),
                width: monitor.width,
                height: monitor.height,
                scale: self.scale(monitor.width, monitor.width_in_millimeters)?,
            },
            None => Monitor {
                x: 0,
                y: 0,
                width: whole.width,
                height: whole.height,
                scale: self.scale(whole.width, 0)?,
            },
        };
        ensure!(
            (monitor.width, monitor.height) >= SMALLEST && monitor.height >= SMALLEST.1,
            "the screen is too small"
        );
        Ok(monitor)
    }

    /// How many pixels a dot has: what the desktop says, else what the monitor's size says.
    fn scale(&self, pixels: u16, millimetres: u32) -> anyhow::Result<f32> {
        let resources = self
            .connection
            .get_property(false, self.root, AtomEnum::RESOURCE_MANAGER, AtomEnum::STRING, 0, 16 * 1024)?
            .reply()?;
        let named = xft_dpi(&resources.value).map(|dpi| dpi / DOTS_PER_INCH);
        let asked = || environment::value(environment::SCALE)?.parse::<f32>().ok();
        let scale = named.or_else(asked).unwrap_or_else(|| physical_scale(pixels, millimetres));
        // A whole screen must hold the dialog, whatever somebody wrote into the resources.
        let most = f32::from(pixels) / 360.0;
        Ok(scale.clamp(1.0, 4.0).min(most.max(1.0)))
    }

    /// Whether the device is a real one. Its property is the server's: no client can set or remove it.
    pub(super) fn is_real(&self, device: xinput::DeviceId) -> bool {
        let property = self
            .connection
            .xinput_xi_get_property(device, false, self.xtest_device, AtomEnum::ANY.into(), 0, 1)
            .ok()
            .and_then(|cookie| cookie.reply().ok());
        // A device that is gone, or that cannot be asked, is not a real one.
        property.is_some_and(|property| property.type_ == x11rb::NONE)
    }
}

impl Monitor {
    /// The room for a dialog.
    pub(super) fn room(&self) -> (f32, f32) {
        let free = 2.0 * MARGIN * self.scale;
        (f32::from(self.width) - free, f32::from(self.height) - free)
    }

    /// Where a dialog of this size stands: in the middle, a little above.
    pub(super) fn place(&self, (width, height): (u16, u16)) -> (i16, i16) {
        let x = self.x + (i32::from(self.width) - i32::from(width)) / 2;
        let y = self.y + (i32::from(self.height) - i32::from(height)) * 2 / 5;
        (i16::try_from(x).unwrap_or(0), i16::try_from(y).unwrap_or(0))
    }
}

fn xft_dpi(resources: &[u8]) -> Option<f32> {
    String::from_utf8_lossy(resources).lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "Xft.dpi").then(|| value.trim().parse().ok())?
    })
}

fn physical_scale(pixels: u16, millimetres: u32) -> f32 {
    if millimetres == 0 {
        return 1.0;
    }
    let dpi = f32::from(pixels) * 25.4 / millimetres as f32;
    // In quarters, so that lines stay sharp.
    if dpi < DENSE { 1.0 } else { (dpi / DOTS_PER_INCH * 4.0).round() / 4.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_desktops_own_scale_is_found() {
        assert_eq!(xft_dpi(b"*customization:\t-color\nXft.dpi:\t192\nXft.rgba: none\n"), Some(192.0));
        assert_eq!(xft_dpi(b"Xft.dpi: many\n"), None);
        assert_eq!(xft_dpi(b""), None);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "quarters are exact")]
    fn a_dense_monitor_magnifies() {
        assert_eq!(physical_scale(1_920, 527), 1.0);
        assert_eq!(physical_scale(3_840, 600), 1.75);
        assert_eq!(physical_scale(3_840, 0), 1.0);
    }

    #[test]
    fn the_dialog_stands_on_its_monitor() {
        let monitor = Monitor { x: 1_920, y: 0, width: 1_280, height: 800, scale: 1.0 };
        assert_eq!(monitor.place((520, 400)), (2_300, 160));
    }
}
