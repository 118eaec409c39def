//! Programs of the same display that want to answer the dialog for its owner.

use anyhow::{Context as _, bail};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{
    self, ConnectionExt as _, DeviceType, HierarchyChange, HierarchyChangeData, HierarchyChangeDataAddMaster,
    HierarchyChangeDataRemoveMaster,
};
use x11rb::protocol::xproto::{
    self, AtomEnum, ConfigureWindowAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask,
    PropMode, WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::dialog::{Area, LIMIT, root};
use super::xsession::wait_for;

const PRIMARY: u8 = 1;
const NOW: u32 = 0;

/// Moves the core pointer by XTEST.
pub(crate) fn fake_motion(connection: &RustConnection, x: u16, y: u16) -> anyhow::Result<()> {
    let (x, y) = (i16::try_from(x)?, i16::try_from(y)?);
    connection.xtest_fake_input(xproto::MOTION_NOTIFY_EVENT, 0, NOW, root(connection)?, x, y, 0)?.check()?;
    Ok(())
}

/// Clicks by XTEST, as xdotool does.
pub(crate) fn fake_click(connection: &RustConnection) -> anyhow::Result<()> {
    for kind in [xproto::BUTTON_PRESS_EVENT, xproto::BUTTON_RELEASE_EVENT] {
        connection.xtest_fake_input(kind, PRIMARY, NOW, x11rb::NONE, 0, 0, 0)?.check()?;
    }
    Ok(())
}

/// Clicks with somebody else's device, as `XTestFakeDeviceButtonEvent` does; the server waits `delay` milliseconds.
pub(crate) fn fake_device_click(connection: &RustConnection, device: u16, delay: u32) -> anyhow::Result<()> {
    let extension =
        connection.extension_information(xinput::X11_EXTENSION_NAME)?.context("no XInput extension")?;
    let device = u8::try_from(device)?;
    // The server posts on a device only for a client that has opened it.
    connection.xinput_open_device(device)?.reply()?;
    for (kind, delay) in
        [(xinput::DEVICE_BUTTON_PRESS_EVENT, delay), (xinput::DEVICE_BUTTON_RELEASE_EVENT, 0)]
    {
        let kind = extension.first_event + kind;
        connection.xtest_fake_input(kind, PRIMARY, delay, x11rb::NONE, 0, 0, device)?;
    }
    connection.sync()?;
    Ok(())
}

/// The slave pointer that a real hand moves.
pub(crate) fn real_pointer(connection: &RustConnection) -> anyhow::Result<u16> {
    let devices = connection.xinput_xi_query_device(xinput::Device::ALL)?.reply()?;
    devices
        .infos
        .iter()
        .find(|device| {
            device.type_ == DeviceType::SLAVE_POINTER
                && !String::from_utf8_lossy(&device.name).contains("XTEST")
        })
        .map(|device| device.deviceid)
        .context("no real pointer")
}

/// A second master pointer, whose clicks come from a device with another name. Gone when dropped.
#[derive(Debug)]
pub(crate) struct SecondMaster<'a> {
    connection: &'a RustConnection,
    pointer: u16,
}

impl<'a> SecondMaster<'a> {
    pub(crate) fn add(connection: &'a RustConnection) -> anyhow::Result<Self> {
        connection.xinput_xi_query_version(2, 2)?.reply()?;
        let name = b"other".to_vec();
        let units = 2 + name.len().div_ceil(4);
        let add = HierarchyChangeDataAddMaster { send_core: true, enable: true, name };
        let change =
            HierarchyChange { len: u16::try_from(units)?, data: HierarchyChangeData::AddMaster(add) };
        connection.xinput_xi_change_hierarchy(&[change])?.check()?;
        let devices = connection.xinput_xi_query_device(xinput::Device::ALL_MASTER)?.reply()?;
        let pointer = devices
            .infos
            .iter()
            .find(|device| device.name == b"other pointer")
            .map(|device| device.deviceid)
            .context("no second master pointer")?;
        connection.xinput_xi_set_client_pointer(x11rb::NONE, pointer)?.check()?;
        Ok(Self { connection, pointer })
    }
}

impl Drop for SecondMaster<'_> {
    fn drop(&mut self) {
        let remove = HierarchyChangeDataRemoveMaster {
            deviceid: self.pointer,
            return_mode: xinput::ChangeMode::FLOAT,
            return_pointer: 0,
            return_keyboard: 0,
        };
        let change = HierarchyChange { len: 3, data: HierarchyChangeData::RemoveMaster(remove) };
        drop(self.connection.xinput_xi_change_hierarchy(&[change]).map(|cookie| cookie.check()));
    }
}

/// Sends the window a click that never was, as `XSendEvent` does.
pub(crate) fn send_click(connection: &RustConnection, window: u32, x: i16, y: i16) -> anyhow::Result<()> {
    for response_type in [xproto::BUTTON_PRESS_EVENT, xproto::BUTTON_RELEASE_EVENT] {
        let event = xproto::ButtonPressEvent {
            response_type,
            detail: PRIMARY,
            sequence: 0,
            time: NOW,
            root: root(connection)?,
            event: window,
            child: x11rb::NONE,
            root_x: x,
            root_y: y,
            event_x: x,
            event_y: y,
            state: xproto::KeyButMask::default(),
            same_screen: true,
        };
        // Without a mask it goes to whoever made the window, selected or not.
        connection.send_event(false, window, EventMask::NO_EVENT, event)?.check()?;
    }
    Ok(())
}

/// A window of another program.
#[derive(Debug)]
pub(crate) struct Other<'a> {
    connection: &'a RustConnection,
    pub(crate) window: u32,
}

impl<'a> Other<'a> {
    /// A window that no window manager looks after, over this area.
    pub(crate) fn overlay(connection: &'a RustConnection, area: Area) -> anyhow::Result<Self> {
        let attributes = CreateWindowAux::new()
            .override_redirect(1)
            .background_pixel(0xff_00ff)
            .event_mask(EventMask::STRUCTURE_NOTIFY | EventMask::BUTTON_PRESS);
        Self::create(connection, area, &attributes)
    }

    /// An ordinary window, with the keyboard's focus.
    pub(crate) fn focused(connection: &'a RustConnection) -> anyhow::Result<Self> {
        let attributes = CreateWindowAux::new()
            .background_pixel(0x20_8040)
            .event_mask(EventMask::STRUCTURE_NOTIFY | EventMask::KEY_PRESS);
        let area = Area { x: 10, y: 10, w: 200, h: 150 };
        let other = Self::create(connection, area, &attributes)?;
        let protocols = connection.intern_atom(false, b"WM_PROTOCOLS")?.reply()?.atom;
        let delete = connection.intern_atom(false, b"WM_DELETE_WINDOW")?.reply()?.atom;
        connection.change_property32(
            PropMode::REPLACE,
            other.window,
            protocols,
            AtomEnum::ATOM,
            &[delete],
        )?;
        other.map()?;
        wait_for("the focus", LIMIT, || {
            let viewable = connection.get_window_attributes(other.window)?.reply()?.map_state;
            if viewable != xproto::MapState::VIEWABLE {
                return Ok(None);
            }
            connection
                .set_input_focus(xproto::InputFocus::PARENT, other.window, x11rb::CURRENT_TIME)?
                .check()?;
            let focus = connection.get_input_focus()?.reply()?.focus;
            Ok((focus == other.window).then_some(()))
        })?;
        Ok(other)
    }

    fn create(
        connection: &'a RustConnection,
        area: Area,
        attributes: &CreateWindowAux,
    ) -> anyhow::Result<Self> {
        let window = connection.generate_id()?;
        let Area { x, y, w, h } = area;
        let class = WindowClass::INPUT_OUTPUT;
        connection
            .create_window(
                0,
                window,
                root(connection)?,
                x,
                y,
                w,
                h,
                0,
                class,
                x11rb::COPY_FROM_PARENT,
                attributes,
            )?
            .check()?;
        Ok(Self { connection, window })
    }

    pub(crate) fn map(&self) -> anyhow::Result<()> {
        self.connection.map_window(self.window)?.check()?;
        Ok(())
    }

    /// Waits for an event of this window's program.
    pub(crate) fn event<T>(
        &self,
        what: &str,
        mut wanted: impl FnMut(&Event) -> Option<T>,
    ) -> anyhow::Result<T> {
        wait_for(what, LIMIT, || {
            while let Some(event) = self.connection.poll_for_event()? {
                if let Some(found) = wanted(&event) {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }
}

impl Drop for Other<'_> {
    fn drop(&mut self) {
        drop(self.connection.destroy_window(self.window));
        drop(self.connection.flush());
    }
}

/// Moves a window of somebody else's.
pub(crate) fn move_window(connection: &RustConnection, window: u32, x: i32, y: i32) -> anyhow::Result<()> {
    connection.configure_window(window, &ConfigureWindowAux::new().x(x).y(y))?.check()?;
    Ok(())
}

/// Draws a rectangle on a window of somebody else's; on the screen itself it shows on every window.
pub(crate) fn draw_on(connection: &RustConnection, drawable: u32, area: Area) -> anyhow::Result<()> {
    let context = connection.generate_id()?;
    let aux =
        CreateGCAux::new().foreground(0xff_00ff).subwindow_mode(xproto::SubwindowMode::INCLUDE_INFERIORS);
    connection.create_gc(context, drawable, &aux)?.check()?;
    let Area { x, y, w, h } = area;
    let rectangle = xproto::Rectangle { x, y, width: w, height: h };
    connection.poly_fill_rectangle(drawable, context, &[rectangle])?.check()?;
    Ok(())
}

/// Takes the keyboard, as a screen locker does.
pub(crate) fn grab_keyboard(connection: &RustConnection) -> anyhow::Result<()> {
    let mode = xproto::GrabMode::ASYNC;
    let grab =
        connection.grab_keyboard(false, root(connection)?, x11rb::CURRENT_TIME, mode, mode)?.reply()?;
    match grab.status {
        xproto::GrabStatus::SUCCESS => Ok(()),
        status => bail!("no keyboard: {status:?}"),
    }
}

/// Takes the pointer.
pub(crate) fn grab_pointer(connection: &RustConnection) -> anyhow::Result<()> {
    let mode = xproto::GrabMode::ASYNC;
    let grab = connection
        .grab_pointer(
            false,
            root(connection)?,
            EventMask::BUTTON_PRESS,
            mode,
            mode,
            x11rb::NONE,
            x11rb::NONE,
            x11rb::CURRENT_TIME,
        )?
        .reply()?;
    match grab.status {
        xproto::GrabStatus::SUCCESS => Ok(()),
        status => bail!("no pointer: {status:?}"),
    }
}
