//! Which browser a program that runs alone drives: a scratch one that it starts, or the owner's own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use consentry_browser::DevToolsSource;
use consentry_core::Live;
use consentry_policies::hosts::{BROWSERS, Platform};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use super::Options;

/// Programs that are looked for, in this order.
const PROGRAMS: &[&str] =
    &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge"];
/// Where macOS keeps them.
const APPLICATIONS: &[&str] = &[
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
];
/// Starts a program with its DevTools pipe on our end of standard input: a browser whose pipe ends, ends. So it goes
/// with this program however that is killed, also where nobody is left to kill it.
const WITH_PIPE: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null"#;
/// How long a killed browser may take to be gone, and its folder to be removed.
const GONE: Duration = Duration::from_millis(400);

/// The browser.
pub(super) enum Chosen {
    /// Started when it is first needed, on a profile of its own that goes with it.
    Scratch { program: PathBuf, headless: bool, profile: TempDir },
    /// The owner's, looked for in these folders.
    Own(Vec<PathBuf>),
}

impl Chosen {
    pub(super) fn new(options: &Options) -> anyhow::Result<Self> {
        if let Some(folder) = &options.attach {
            if options.headless || options.program.is_some() {
                bail!("--attach drives a browser that runs; --headless and --browser say how to start one");
            }
            return Ok(Self::Own(match folder {
                Some(folder) => vec![folder.clone()],
                None => usual_folders()?,
            }));
        }
        let program = match &options.program {
            Some(program) => program.clone(),
            None => find()?,
        };
        let shown = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
        if cfg!(target_os = "linux") && !options.headless && !shown {
            bail!("there is no display for the scratch browser's window: pass --headless");
        }
        let profile = tempfile::Builder::new().prefix("consentry-browser-").tempdir();
        let profile = profile.context("cannot make a folder for the scratch browser")?;
        Ok(Self::Scratch { program, headless: options.headless, profile })
    }

    pub(super) fn source(&self) -> DevToolsSource {
        match self {
            Self::Scratch { profile, .. } => DevToolsSource::Launched(profile.path().to_owned()),
            Self::Own(folders) => DevToolsSource::Running(folders.clone()),
        }
    }

    /// Keeps the browser and the link to it. A scratch browser is started with the first grant: before, nobody has
    /// allowed anything that it would be for.
    pub(super) async fn run(
        self,
        mut live: watch::Receiver<Live>,
        linked: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let Self::Scratch { program, headless, profile } = self else {
            linked.await;
            bail!("the link to the browser ended");
        };
        if live.wait_for(|live| !live.grants.is_empty()).await.is_err() {
            return Ok(());
        }
        let mut scratch = Scratch::start(&program, headless, profile)?;
        tokio::select! {
            status = scratch.child.wait() => {
                let status = status.context("the scratch browser cannot be waited for")?;
                bail!("the scratch browser was closed or could not start ({status}; {})", program.display())
            }
            () = linked => bail!("the link to the scratch browser ended"),
        }
    }
}

/// A running scratch browser. It ends with this value.
struct Scratch {
    child: Child,
    group: Pid,
    /// Its end is the browser's.
    _pipe: ChildStdin,
    profile: TempDir,
}

impl Scratch {
    fn start(program: &Path, headless: bool, profile: TempDir) -> anyhow::Result<Self> {
        let mut folder = OsString::from("--user-data-dir=");
        folder.push(profile.path());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WITH_PIPE]).arg(program).arg(folder).args([
            "--remote-debugging-pipe",
            "--remote-debugging-port=0",
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-sync",
            "--password-store=basic",
            "--use-mock-keychain",
        ]);
        if headless {
            command.arg("--headless=new");
        }
        if rustix::process::geteuid().is_root() {
            // Chromium refuses root otherwise.
            tracing::warn!("running as root: the scratch browser runs without its sandbox");
            command.arg("--no-sandbox");
        }
        if cfg!(target_os = "linux") {
            // What it makes there, it does not remove when it is killed.
            command.env("TMPDIR", profile.path());
        }
        command.arg("about:blank").process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        // Whoever waits for a child closes what it still holds of its input.
        let pipe = child.stdin.take().context("the scratch browser has no pipe")?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let group = group.context("the scratch browser ended at once")?;
        Ok(Self { child, group, _pipe: pipe, profile })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A child that was not waited for, so its group is nobody else's. Nothing in it is worth saving.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        // The folder can be removed once nobody writes into it any more, and `drop` cannot wait otherwise.
        let killed = Instant::now();
        let mut gone = || {
            !matches!(self.child.try_wait(), Ok(None)) && std::fs::remove_dir_all(self.profile.path()).is_ok()
        };
        while !gone() && killed.elapsed() < GONE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn find() -> anyhow::Result<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let in_path =
        |name: &&str| std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|p| p.is_file());
    let found = PROGRAMS.iter().find_map(in_path);
    let found = found.or_else(|| APPLICATIONS.iter().map(PathBuf::from).find(|place| place.is_file()));
    found.context("there is no Chrome or Chromium to start: install one, or name its program with --browser")
}

/// The profile folders of the browsers that are known.
fn usual_folders() -> anyhow::Result<Vec<PathBuf>> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).context("HOME is not set")?;
    let home = PathBuf::from(home);
    Ok(BROWSERS.iter().filter_map(|browser| browser.profile(&home, Platform::CURRENT)).collect())
}
