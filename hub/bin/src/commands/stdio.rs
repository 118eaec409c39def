//! `consentry stdio`

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use consentry_config::{Home, env};
use consentry_wire::PathName;

use crate::cli::block_on;
use crate::{exit, stdio};

/// Serves one path on standard input and output, for clients that start their servers themselves
#[derive(Debug, Args)]
pub(crate) struct Stdio {
    /// Which path
    path: PathName,
}

impl Stdio {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let home = Home::from_env()?;
        let port = super::connect::mcp_port(&home)?;
        let key = std::env::var(env::KEY).ok().filter(|key| !key.is_empty());
        let key =
            key.with_context(|| format!("{} must hold a key: `consentry connect` sets it", env::KEY))?;
        block_on(stdio::relay(port, &self.path, &key))?;
        Ok(exit::code(exit::OK))
    }
}
