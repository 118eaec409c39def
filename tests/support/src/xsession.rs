//! An X session of its own: a server that a [`Hand`](super::hand::Hand) can hold the mouse of, and a window
//! manager. Nothing is shared with the desktop that the tests run on.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

/// How long a server or a window manager may take to start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Between two looks at a state.
const PAUSE: Duration = Duration::from_millis(15);

/// A running X server with a window manager. Both end when this is dropped.
#[derive(Debug)]
pub struct XSession {
    display: String,
    rfb_port: u16,
    // In this order: the window manager goes before its server.
    _manager: Option<Running>,
    _server: Running,
}

/// How an [`XSession`] is to be.
#[derive(Debug, Clone)]
pub struct XSessionOptions {
    /// The screen's size in pixels.
    pub geometry: (u16, u16),
    /// Whether a window manager runs.
    pub window_manager: bool,
    /// Further arguments for the server, such as `-extension RECORD`.
    pub server_arguments: Vec<String>,
}

/// A child process that ends with its owner.
#[derive(Debug)]
struct Running(Child);

impl Default for XSessionOptions {
    fn default() -> Self {
        Self { geometry: (1_280, 800), window_manager: true, server_arguments: Vec::new() }
    }
}

impl XSession {
    /// Starts a session as most tests want it.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&XSessionOptions::default())
    }

    /// Starts a session.
    pub fn start_with(options: &XSessionOptions) -> anyhow::Result<Self> {
        let rfb_port = free_port()?;
        let (width, height) = options.geometry;
        let mut server = spawn(
            Command::new("Xtigervnc")
                // The server picks a free display and says which once it can be connected to.
                .args(["-displayfd", "1", "-localhost", "-SecurityTypes", "None"])
                .args(["-rfbport", &rfb_port.to_string(), "-geometry", &format!("{width}x{height}")])
                .args(&options.server_arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
            "tigervnc-standalone-server",
        )?;
        let stdout = server.0.stdout.take().context("the X server has no output")?;
        let mut number = String::new();
        BufReader::new(stdout).read_line(&mut number).context("the X server did not say its display")?;
        if number.trim().is_empty() {
            bail!("the X server ended without a display");
        }
        let display = format!(":{}", number.trim());
        let manager = if options.window_manager { Some(start_manager(&display)?) } else { None };
        Ok(Self { display, rfb_port, _manager: manager, _server: server })
    }

    /// What `DISPLAY` is for its clients.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The loopback port for a [`Hand`](super::hand::Hand).
    pub fn rfb_port(&self) -> u16 {
        self.rfb_port
    }

    /// A connection of one's own.
    pub fn connect(&self) -> anyhow::Result<RustConnection> {
        let (connection, _) = x11rb::connect(Some(&self.display))
            .with_context(|| format!("cannot connect to the display {}", self.display))?;
        Ok(connection)
    }

    /// A command whose display this is, and no other.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("DISPLAY", &self.display).env_remove("WAYLAND_DISPLAY").env_remove("XAUTHORITY");
        command
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits until `look` finds something, at most so long.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() >= end {
            bail!("waited {} s in vain for {what}", limit.as_secs_f32());
        }
        std::thread::sleep(PAUSE);
    }
}

fn start_manager(display: &str) -> anyhow::Result<Running> {
    let mut manager = Command::new("icewm");
    manager.env("DISPLAY", display).stdout(Stdio::null()).stderr(Stdio::null());
    // Nobody's own settings.
    manager.env("HOME", std::env::temp_dir()).env("ICEWM_PRIVCFG", std::env::temp_dir());
    let running = spawn(&mut manager, "icewm")?;
    let (connection, screen) = x11rb::connect(Some(display))?;
    let root = connection_root(&connection, screen)?;
    let check = connection.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK")?.reply()?.atom;
    wait_for("the window manager", START_LIMIT, || {
        let property = connection.get_property(false, root, check, AtomEnum::WINDOW, 0, 1)?.reply()?;
        Ok((property.value_len > 0).then_some(()))
    })?;
    Ok(running)
}

fn connection_root(connection: &RustConnection, screen: usize) -> anyhow::Result<u32> {
    let setup = x11rb::connection::Connection::setup(connection);
    Ok(setup.roots.get(screen).context("the display has no screen")?.root)
}

/// Starts a program that ends with its owner, or says what to install.
fn spawn(command: &mut Command, package: &str) -> anyhow::Result<Running> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program}: install it with `apt-get install {package}`"))?;
    Ok(Running(child))
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?.port())
}
