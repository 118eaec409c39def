//! A Chromium of our own: started in a process group of its own, on a fresh profile, and gone when the value is dropped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How to start it. [`Options::default`] is headless on a fresh profile.
#[derive(Debug, Clone)]
pub struct Options {
    /// Without a window.
    pub headless: bool,
    /// The X display to show the window on, when not headless.
    pub display: Option<OsString>,
    /// An unpacked extension.
    pub load_extension: Option<PathBuf>,
    /// A profile that outlives the browser; otherwise a fresh one that goes with it.
    pub user_data_dir: Option<PathBuf>,
    /// Further arguments.
    pub args: Vec<OsString>,
    /// What is opened first.
    pub url: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            headless: true,
            display: None,
            load_extension: None,
            user_data_dir: None,
            args: Vec::new(),
            url: "about:blank".to_owned(),
        }
    }
}

/// A running Chromium.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    group: Pid,
    endpoint: String,
    profile: PathBuf,
    // Removed after the processes that write into it were killed: fields drop in order, after `drop`.
    _temporary: Option<TempDir>,
}

/// Generous: a cold start on a busy machine with two cores takes seconds.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(10);

impl Chromium {
    /// Starts it and waits until it listens for DevTools. `CONSENTRY_CHROMIUM` names another program.
    ///
    /// # Errors
    /// If there is no Chromium, or it does not listen within a minute.
    pub async fn launch(options: Options) -> anyhow::Result<Self> {
        let temporary = match options.user_data_dir {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("consentry-chromium-").tempdir()?),
        };
        let profile = match (&options.user_data_dir, &temporary) {
            (Some(dir), _) => dir.clone(),
            (None, Some(dir)) => dir.path().to_owned(),
            (None, None) => bail!("no profile"),
        };
        let program = std::env::var_os("CONSENTRY_CHROMIUM").unwrap_or_else(|| "/usr/bin/chromium".into());
        let mut command = Command::new(&program);
        command
            .args([
                "--no-sandbox",
                "--no-first-run",
                "--no-default-browser-check",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-gpu",
                "--password-store=basic",
                "--remote-debugging-port=0",
                "--window-size=1200,900",
            ])
            .arg(prefixed("--user-data-dir=", &profile))
            .args(&options.args);
        // What it keeps beside its profile, such as crash reports, goes with the profile.
        for (variable, folder) in
            [("TMPDIR", "tmp"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache")]
        {
            let folder = profile.join(folder);
            std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
            command.env(variable, folder);
        }
        if options.headless {
            command.arg("--headless=new").env_remove("DISPLAY");
        } else if let Some(display) = &options.display {
            command.env("DISPLAY", display);
        }
        if let Some(extension) = &options.load_extension {
            command.arg(prefixed("--load-extension=", extension));
        }
        command.arg(&options.url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let group = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .context("Chromium ended at once")?;
        let stderr = child.stderr.take().context("Chromium's stderr")?;
        let mut browser = Self { child, group, endpoint: String::new(), profile, _temporary: temporary };
        let mut lines = BufReader::new(stderr).lines();
        let announced = timeout(START, async {
            while let Some(line) = lines.next_line().await? {
                if let Some(endpoint) = line.strip_prefix("DevTools listening on ") {
                    return Ok(endpoint.trim().to_owned());
                }
            }
            bail!("Chromium ended before it listened for DevTools")
        });
        browser.endpoint = announced.await.context("Chromium did not listen for DevTools in time")??;
        // A full pipe would stop the browser, so its log is read to the end; that task ends with the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(browser)
    }

    /// Its DevTools WebSocket address.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Its profile.
    pub fn user_data_dir(&self) -> &Path {
        &self.profile
    }

    /// The process id, which is also its process group.
    pub fn pid(&self) -> u32 {
        self.group.as_raw_nonzero().get().unsigned_abs()
    }

    /// Kills it and waits until it is gone.
    ///
    /// # Errors
    /// If it is still there after ten seconds.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        kill_process_group(self.group, Signal::KILL).context("killing Chromium")?;
        timeout(END, self.child.wait()).await.context("Chromium did not end")??;
        Ok(())
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The leader is a child that was not waited for, or the group is empty: never somebody else's group.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        // The profile can only be removed once nobody writes into it, and `drop` cannot wait asynchronously.
        let killed = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && killed.elapsed() < END {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn prefixed(option: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(path);
    argument
}
