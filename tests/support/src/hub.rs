//! The real hub on a scratch state folder, the owner at its screen, and the owner's status page.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, MapState};
use x11rb::rust_connection::RustConnection;

use crate::hand::Hand;
use crate::http::{Answer, Http};
use crate::xsession::XSession;

/// How long the hub may take to be ready, on a busy machine.
const READY: Duration = Duration::from_secs(30);
/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(60);
/// How long the hub may take to end when it is told to.
const END: Duration = Duration::from_secs(10);
/// How long a dialog may take to appear.
const DIALOG: Duration = Duration::from_secs(40);
/// A dialog takes no click before it has stood so long; a little is added for the way from its log to here.
const SETTLE: Duration = Duration::from_millis(800);
/// How long a dialog may take to go once it was clicked.
const GONE: Duration = Duration::from_millis(1500);
/// Between two looks at a state.
const PAUSE: Duration = Duration::from_millis(20);

/// What has to be run when a program is missing.
const BUILD: &str = "cargo xtask build";

/// The built programs.
#[derive(Debug, Clone)]
pub struct Programs(PathBuf);

impl Programs {
    /// Those that lie beside the running test or task: of the same target folder and profile.
    ///
    /// # Errors
    /// When one is missing; the error names the command that builds it.
    pub fn beside_this() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot tell where this program lies")?;
        let folder = own.parent().context("this program lies nowhere")?;
        let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
        Self::in_folder(folder)
    }

    /// Those in a folder.
    ///
    /// # Errors
    /// When one is missing; the error names the command that builds it.
    pub fn in_folder(folder: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let folder = folder.into();
        for name in ["consentry", "consentry-native-host", "consentry-dialog"] {
            if !folder.join(name).is_file() {
                bail!("{} is missing: build it with `{BUILD}`", folder.join(name).display());
            }
        }
        Ok(Self(folder))
    }

    /// The hub and its command line.
    pub fn consentry(&self) -> PathBuf {
        self.0.join("consentry")
    }

    /// The dialog.
    pub fn dialog(&self) -> PathBuf {
        self.0.join("consentry-dialog")
    }
}

/// How a [`ScratchHub`] is to be.
#[derive(Debug, Clone, Default)]
pub struct HubOptions {
    /// The programs; otherwise those beside the running test.
    pub programs: Option<Programs>,
    /// Where its dialogs are shown; without one it cannot ask.
    pub display: Option<String>,
    /// Lines for `[paths.browser]` in its configuration, such as `window_seconds = 60`.
    pub browser_rules: String,
    /// Further variables of its environment.
    pub env: Vec<(String, String)>,
    /// A command that runs the hub's own command, which is added to it: such as one that gives it a disk of its own.
    pub under: Vec<String>,
}

/// A running hub with a state folder, a `HOME` and ports of its own. It ends with this value.
#[derive(Debug)]
pub struct ScratchHub {
    programs: Programs,
    options: HubOptions,
    folder: TempDir,
    mcp_port: u16,
    control_port: u16,
    running: Option<Running>,
    log: Log,
}

#[derive(Debug)]
struct Running {
    child: Child,
    pid: Pid,
}

/// What the hub and its dialogs wrote to standard error, over all its runs.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    text: String,
    layouts: Vec<(Instant, Layout)>,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a dialog and its buttons are on the screen, in pixels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Layout {
    /// Its window.
    pub window: Area,
    /// The middle of each button.
    pub buttons: Vec<Button>,
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Area {
    /// From the left.
    pub x: i32,
    /// From the top.
    pub y: i32,
    /// Width.
    pub w: u32,
    /// Height.
    pub h: u32,
}

/// A button of a dialog.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Button {
    /// `allow`, `reject`, `cool_down` or `grant`.
    pub id: String,
    /// From the left.
    pub x: i32,
    /// From the top.
    pub y: i32,
}

/// How a command ended and what it wrote.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Its standard output as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("no JSON: {self:?}"))
    }
}

impl ScratchHub {
    /// Makes the state folder with `consentry setup`, and starts the hub.
    ///
    /// # Errors
    /// When a program is missing, setup fails, or the hub is not ready in time.
    pub async fn start(options: HubOptions) -> anyhow::Result<Self> {
        let mut hub = Self::prepare(options).await?;
        hub.launch().await?;
        Ok(hub)
    }

    /// Makes the state folder with `consentry setup`, and starts nothing yet.
    ///
    /// # Errors
    /// When a program is missing or setup fails.
    pub async fn prepare(options: HubOptions) -> anyhow::Result<Self> {
        let programs = match &options.programs {
            Some(programs) => programs.clone(),
            None => Programs::beside_this()?,
        };
        // Short, for a socket lies in it.
        let folder = tempfile::Builder::new().prefix("cs-").tempdir_in("/tmp")?;
        std::fs::create_dir(folder.path().join("user"))?;
        let (mcp_port, control_port) = free_ports()?;
        let hub =
            Self { programs, options, folder, mcp_port, control_port, running: None, log: Log::default() };
        let (mcp, control) = (mcp_port.to_string(), control_port.to_string());
        let ran = hub.run(&["setup", "--mcp-port", &mcp, "--control-port", &control]).await?;
        if ran.code != Some(0) {
            bail!("consentry setup failed: {ran:?}");
        }
        let rules = hub.options.browser_rules.clone();
        hub.configure(&rules)?;
        Ok(hub)
    }

    /// Writes `config.toml` with these lines under `[paths.browser]`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn configure(&self, browser_rules: &str) -> anyhow::Result<()> {
        let text = format!(
            "machine = \"desk\"\n\n[ports]\nmcp = {}\ncontrol = {}\n\n[paths.browser]\nenabled = true\n{browser_rules}\n",
            self.mcp_port, self.control_port
        );
        // In one step, as editors do: the hub may read at any moment.
        let (new, place) = (self.home().join("config.new"), self.home().join("config.toml"));
        std::fs::write(&new, text)?;
        std::fs::rename(new, place)?;
        Ok(())
    }

    /// Starts the hub and waits until it says that it is ready.
    ///
    /// # Errors
    /// When it runs already or is not ready in time; the error has its log.
    pub async fn launch(&mut self) -> anyhow::Result<()> {
        if self.running.is_some() {
            bail!("the hub runs already");
        }
        let mut command = match self.options.under.split_first() {
            Some((program, arguments)) => {
                let mut command = self.command_of(program);
                command.args(arguments).arg(self.programs.consentry());
                command
            }
            None => self.command(),
        };
        command.args(["serve", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("starting the hub")?;
        let pid = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .context("the hub ended at once")?;
        let stdout = child.stdout.take().context("the hub's output")?;
        let stderr = child.stderr.take().context("the hub's log")?;
        // Ends with the pipe, that is with the hub and its dialogs.
        tokio::spawn(follow(stderr, self.log.clone()));
        self.running = Some(Running { child, pid });
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(READY, lines.next_line()).await;
        let ready = line
            .ok()
            .and_then(Result::ok)
            .flatten()
            .and_then(|line| serde_json::from_str::<Value>(&line).ok());
        if ready.is_none_or(|ready| ready["ready"] != true) {
            bail!("the hub was not ready in time; it said:\n{}", self.log());
        }
        Ok(())
    }

    /// Ends it as a service manager would, and waits.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        self.end(Signal::TERM).await
    }

    /// Ends it without any warning, and waits.
    ///
    /// # Errors
    /// When it is still there.
    pub async fn kill_9(&mut self) -> anyhow::Result<ExitStatus> {
        self.end(Signal::KILL).await
    }

    async fn end(&mut self, signal: Signal) -> anyhow::Result<ExitStatus> {
        let mut running = self.running.take().context("the hub does not run")?;
        kill_process(running.pid, signal).context("signalling the hub")?;
        Ok(timeout(END, running.child.wait()).await.context("the hub did not end")??)
    }

    /// The program that this runs, with the environment of this hub: for a command, or for a client.
    pub fn command(&self) -> Command {
        self.command_of(self.programs.consentry())
    }

    /// Another program with the environment of this hub.
    pub fn command_of(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.surround(|name, value| {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        });
        command.stdin(Stdio::null());
        command
    }

    fn surround(&self, mut set: impl FnMut(&str, Option<&str>)) {
        for name in
            ["WAYLAND_DISPLAY", "XAUTHORITY", "XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS", "CONSENTRY_KEY"]
        {
            set(name, None);
        }
        set("DISPLAY", self.options.display.as_deref());
        set("CONSENTRY_HOME", self.home().to_str());
        set("HOME", self.user().to_str());
        set("CONSENTRY_DIALOG_LAYOUT", Some("1"));
        for (name, value) in &self.options.env {
            set(name, Some(value));
        }
    }

    /// Runs `consentry <arguments>` against it.
    ///
    /// # Errors
    /// When it cannot be started or does not end within a minute. A failure of the command itself is in [`Ran`].
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        let output = self.command().args(arguments).kill_on_drop(true).output();
        let output = timeout(COMMAND, output)
            .await
            .with_context(|| format!("consentry {arguments:?} does not end"))?;
        let output = output.with_context(|| format!("running consentry {arguments:?}"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) })
    }

    /// Makes a named client key. It opens nothing before the owner has clicked `allow`.
    ///
    /// # Errors
    /// When there is one of that name.
    pub async fn add_key(&self, name: &str) -> anyhow::Result<String> {
        let made = self.run(&["key", "add", name, "--json"]).await?.json()?;
        Ok(made["key"].as_str().context("a key")?.to_owned())
    }

    /// What `consentry status --json` says.
    ///
    /// # Errors
    /// When the hub does not answer.
    pub async fn status(&self) -> anyhow::Result<Value> {
        self.run(&["status", "--json"]).await?.json()
    }

    /// Opens the status page as a browser would, by a link that works once.
    ///
    /// # Errors
    /// When there is no link or it opens nothing.
    pub async fn page(&self) -> anyhow::Result<StatusPage> {
        let link = self.run(&["open", "--print"]).await?.stdout;
        StatusPage::open(self.control_port, link.trim()).await
    }

    /// Waits until `look` finds something in `consentry status --json`.
    ///
    /// # Errors
    /// When it does not in that time; the error has the last status.
    pub async fn wait_status<T>(
        &self,
        what: &str,
        limit: Duration,
        look: impl FnMut(&Value) -> Option<T>,
    ) -> anyhow::Result<T> {
        let found = until(what, limit, async || self.status().await, look).await;
        found.with_context(|| format!("the hub said:\n{}", self.log()))
    }

    /// The state folder.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Its `HOME`.
    pub fn user(&self) -> PathBuf {
        self.folder.path().join("user")
    }

    /// A folder for whatever belongs to this hub, such as a browser's profile.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The port for agents.
    pub fn mcp_port(&self) -> u16 {
        self.mcp_port
    }

    /// The port of the status page and the extension.
    pub fn control_port(&self) -> u16 {
        self.control_port
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Where agents reach a path such as `browser`.
    pub fn mcp_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}/mcp", self.mcp_port)
    }

    /// The unpacked extension.
    pub fn extension(&self) -> PathBuf {
        self.home().join("extension")
    }

    /// Everything that it and its dialogs logged, over all its runs.
    pub fn log(&self) -> String {
        self.log.lock().text.clone()
    }

    /// How many dialogs have been shown so far.
    pub fn dialogs_shown(&self) -> usize {
        self.log.lock().layouts.len()
    }

    /// The owner at this screen, which must be the hub's own display.
    ///
    /// # Errors
    /// When the mouse cannot be taken.
    pub fn owner(&self, screen: &XSession) -> anyhow::Result<Owner> {
        let hand = Hand::connect(screen.rfb_port()).context("taking the mouse")?;
        let screen = screen.connect()?;
        Ok(Owner {
            inner: Arc::new(OwnerInner {
                hand: Mutex::new(hand),
                screen,
                log: self.log.clone(),
                seen: AtomicUsize::new(self.dialogs_shown()),
            }),
        })
    }
}

impl Drop for ScratchHub {
    fn drop(&mut self) {
        let Some(running) = &mut self.running else { return };
        // A child that was not waited for: never somebody else's process.
        if !matches!(running.child.try_wait(), Ok(None)) {
            return;
        }
        let _ = kill_process(running.pid, Signal::KILL);
        // The folder can only be removed once nobody writes into it, and `drop` cannot wait asynchronously.
        let killed = Instant::now();
        while matches!(running.child.try_wait(), Ok(None)) && killed.elapsed() < END {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

async fn follow(stderr: impl AsyncRead + Unpin, log: Log) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut written = log.lock();
        if let Ok(layout) = serde_json::from_str::<Layout>(&line) {
            written.layouts.push((Instant::now(), layout));
        }
        // Writing to memory does not fail.
        let _ = writeln!(written.text, "{line}");
    }
}

/// Below what systems give out to outgoing connections, so that nobody takes them before the hub does.
fn free_ports() -> anyhow::Result<(u16, u16)> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let own = std::process::id() as usize;
    let mut free = (0..4000).filter_map(|_| {
        let port = 20_000 + (own * 37 + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        let port = u16::try_from(port).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    });
    free.next().zip(free.next()).context("no free ports on loopback")
}

/// The owner of the machine: a hand on a real pointer, which sees the dialogs come. Clones are the same person.
#[derive(Debug, Clone)]
pub struct Owner {
    inner: Arc<OwnerInner>,
}

#[derive(Debug)]
struct OwnerInner {
    hand: Mutex<Hand>,
    screen: RustConnection,
    log: Log,
    seen: AtomicUsize,
}

impl Owner {
    /// Waits for the next dialog and clicks this button of it, once it takes clicks; then waits until it is gone.
    ///
    /// # Errors
    /// When no dialog comes in time, it has no such button, or does not go.
    pub async fn click(&self, button: &str) -> anyhow::Result<Layout> {
        let layout = self.next_dialog().await?;
        self.answer(&layout, button).await?;
        Ok(layout)
    }

    /// Waits for the next dialog and leaves it alone.
    ///
    /// # Errors
    /// When none comes in time.
    pub async fn next_dialog(&self) -> anyhow::Result<Layout> {
        let end = Instant::now() + DIALOG;
        let inner = &self.inner;
        loop {
            // Counted only when it is there, so that waiting for one can be given up.
            let at = inner.seen.load(Ordering::SeqCst);
            let found = inner.log.lock().layouts.get(at).cloned();
            if let Some((since, layout)) = found
                && inner.seen.compare_exchange(at, at + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            {
                tokio::time::sleep_until((since + SETTLE).into()).await;
                return Ok(layout);
            }
            if Instant::now() >= end {
                bail!("no dialog came in {} s; the hub said:\n{}", DIALOG.as_secs(), inner.log.lock().text);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Clicks a button of the dialog that stands, and waits until it is gone.
    ///
    /// # Errors
    /// When it has no such button, or does not go.
    pub async fn answer(&self, layout: &Layout, button: &str) -> anyhow::Result<()> {
        let place = layout.buttons.iter().find(|place| place.id == button);
        let place = place.with_context(|| format!("the dialog has no button {button:?}: {layout:?}"))?;
        let (x, y) = (u16::try_from(place.x)?, u16::try_from(place.y)?);
        // A dialog that was covered for a moment starts to settle again, and takes no click meanwhile.
        for _ in 0..4 {
            let inner = Arc::clone(&self.inner);
            let click = move || inner.hand.lock().unwrap_or_else(PoisonError::into_inner).click(x, y);
            tokio::task::spawn_blocking(click).await?.context("clicking")?;
            let end = Instant::now() + GONE;
            while Instant::now() < end {
                if !self.stands(layout)? {
                    return Ok(());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        bail!("the dialog takes no click; the hub said:\n{}", self.inner.log.lock().text)
    }

    /// Does something with the mouse itself.
    ///
    /// # Errors
    /// When the screen is gone.
    pub async fn hand<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Hand) -> std::io::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let inner = Arc::clone(&self.inner);
        let act = move || act(&mut inner.hand.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(tokio::task::spawn_blocking(act).await??)
    }

    /// Whether a dialog is on the screen.
    ///
    /// # Errors
    /// When the screen is gone.
    pub fn stands(&self, layout: &Layout) -> anyhow::Result<bool> {
        let Area { x, y, w, h } = layout.window;
        let screen = &self.inner.screen;
        let root = screen.setup().roots.first().context("the display has no screen")?.root;
        for window in screen.query_tree(root)?.reply()?.children {
            // A window may go between these questions.
            let (Ok(at), Ok(is)) =
                (screen.get_geometry(window)?.reply(), screen.get_window_attributes(window)?.reply())
            else {
                continue;
            };
            let same =
                (i32::from(at.x), i32::from(at.y), u32::from(at.width), u32::from(at.height)) == (x, y, w, h);
            if same && is.map_state == MapState::VIEWABLE {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The status page, opened with a link that works once.
#[derive(Debug, Clone)]
pub struct StatusPage {
    port: u16,
    http: Http,
    cookie: String,
    token: String,
}

impl StatusPage {
    /// Opens it with a link that `consentry open --print` gave.
    ///
    /// # Errors
    /// When the link makes no session.
    pub async fn open(port: u16, link: &str) -> anyhow::Result<Self> {
        let http = Http::default();
        let opened = http.get(link, &[]).await?;
        let cookie = opened.header("set-cookie").and_then(|cookie| cookie.split(';').next());
        let cookie = cookie.with_context(|| format!("the link makes no session: {opened:?}"))?.to_owned();
        let index = http.get(&format!("http://127.0.0.1:{port}/"), &[("cookie", &cookie)]).await?.text();
        let token = index.split("name=\"token\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
        let token = token.with_context(|| format!("the page has no token: {index}"))?.to_owned();
        Ok(Self { port, http, cookie, token })
    }

    /// Reads a path such as `/state.json`.
    ///
    /// # Errors
    /// When the port does not answer.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.http.get(&self.url(path), &[("cookie", &self.cookie)]).await
    }

    /// `/state.json`.
    ///
    /// # Errors
    /// When the port does not answer, or not with JSON.
    pub async fn state(&self) -> anyhow::Result<Value> {
        self.get("/state.json").await?.json()
    }

    /// Waits until `look` finds something in `/state.json`.
    ///
    /// # Errors
    /// When it does not in that time; the error has the last state.
    pub async fn wait<T>(
        &self,
        what: &str,
        limit: Duration,
        look: impl FnMut(&Value) -> Option<T>,
    ) -> anyhow::Result<T> {
        until(what, limit, async || self.state().await, look).await
    }

    /// Posts to a path such as `/kill`, as the page does.
    ///
    /// # Errors
    /// When the port does not answer.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let headers = [("cookie", self.cookie.as_str()), ("x-consentry-token", self.token.as_str())];
        self.http.post(&self.url(path), &headers, &body.to_string()).await
    }

    /// The session's cookie, as it is sent.
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// The token that every write carries.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// Asks again and again until `look` finds something in the answer.
async fn until<T>(
    what: &str,
    limit: Duration,
    ask: impl AsyncFn() -> anyhow::Result<Value>,
    mut look: impl FnMut(&Value) -> Option<T>,
) -> anyhow::Result<T> {
    let end = Instant::now() + limit;
    loop {
        let mut state = ask().await?;
        if let Some(found) = look(&state) {
            return Ok(found);
        }
        if Instant::now() >= end {
            state["audit"] = Value::Null;
            bail!("waited {} ms in vain for {what}: {state:#}", limit.as_millis());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
