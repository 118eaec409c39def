//! `consentry stdio`

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use consentry_config::{Home, env};
use consentry_wire::PathName;
use tracing_subscriber::EnvFilter;

use crate::cli::block_on;
use crate::{exit, standalone, stdio};

/// Serves one path on standard input and output, for clients that start their servers themselves. It relays to the
/// running hub, with the key in CONSENTRY_KEY; where no hub runs it runs alone, with a browser of its own
#[derive(Debug, Args)]
pub(crate) struct Stdio {
    /// Which path
    path: PathName,
    /// Where no hub runs: asks nobody. Only for the scratch browser, in which there is nothing of yours
    #[arg(long)]
    no_consent: bool,
    /// Where no hub runs: drives your own running Chrome, with the switch on chrome://inspect/#remote-debugging on,
    /// instead of starting a scratch browser; of this profile folder, or the first that is found
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true)]
    attach: Option<Option<PathBuf>>,
    /// Where no hub runs: the scratch browser has no window
    #[arg(long)]
    headless: bool,
    /// Where no hub runs: the program of the scratch browser
    #[arg(long, value_name = "PROGRAM")]
    browser: Option<PathBuf>,
}

impl Stdio {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        // Standard output belongs to the protocol.
        let filter = EnvFilter::try_from_env(env::LOG).unwrap_or_else(|_| EnvFilter::new("warn"));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
        let home = Home::from_env()?;
        if !hub_runs(&home)? {
            return self.alone(home);
        }
        if self.no_consent {
            bail!(
                "a hub runs for {}: it asks its owner, and --no-consent is for running without one",
                home.path().display()
            );
        }
        let port = super::connect::mcp_port(&home)?;
        let key = std::env::var(env::KEY).ok().filter(|key| !key.is_empty());
        let key = key.with_context(|| {
            format!(
                "a hub runs for {}, and {} holds no key for it: `consentry connect` makes one for a client",
                home.path().display(),
                env::KEY
            )
        })?;
        block_on(stdio::relay(port, &self.path, &key))?;
        Ok(exit::code(exit::OK))
    }

    fn alone(self, home: Home) -> anyhow::Result<ExitCode> {
        let Self { path, no_consent, attach, headless, browser: program } = self;
        let with = if attach.is_some() { "your own browser" } else { "a scratch browser" };
        tracing::warn!("no hub runs for {}: running alone, with {with}", home.path().display());
        let options = standalone::Options { no_consent, attach, headless, program };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = runtime.block_on(standalone::run(home, &path, options));
        // Whoever reads standard input cannot be stopped, and must not hold up the end.
        runtime.shutdown_background();
        ended.map(|()| exit::code(exit::OK))
    }
}

/// Whether somebody listens on the hub's socket.
fn hub_runs(home: &Home) -> anyhow::Result<bool> {
    match UnixStream::connect(home.socket()) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(false),
        Err(error) => Err(error)
            .with_context(|| format!("cannot tell whether a hub runs behind {}", home.socket().display())),
    }
}
