//! `consentry extension`

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use consentry_config::Home;
use consentry_policies::hosts::{self, Change, Entry, Force, Host, Platform, Reach};
use consentry_wire::socket::files;
use serde::Serialize;
use serde_json::json;

use crate::cli::{Output, say};
use crate::{embedded, exit};

/// The browser extension: where it lies, its token, its registration with browsers
#[derive(Debug, Subcommand)]
pub(crate) enum Extension {
    /// Registers the native-messaging host with every browser found
    Register(Register),
    /// Writes the unpacked copy and says where it lies
    Path(ShowPath),
    /// Shows the token for linking by WebSocket
    Token(Token),
}

/// Registers the native-messaging host with every browser found
#[derive(Debug, Args)]
pub(crate) struct Register {
    /// Takes the registration away
    #[arg(long)]
    remove: bool,
    /// Also for a browser that runs with this --user-data-dir
    #[arg(long, value_name = "DIR")]
    user_data_dir: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Writes the unpacked copy and says where it lies
#[derive(Debug, Args)]
pub(crate) struct ShowPath {
    #[command(flatten)]
    output: Output,
}

/// Shows the token for linking by WebSocket
#[derive(Debug, Args)]
pub(crate) struct Token {
    /// Makes another one; extensions that are linked by WebSocket need it, those linked natively do not notice
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    output: Output,
}

impl Extension {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let home = Home::from_env()?;
        home.create()?;
        match self {
            Extension::Register(command) => {
                let registered = if command.remove {
                    unregister(&home, &command.user_data_dir)?
                } else {
                    register(&home, &command.user_data_dir)?
                };
                if command.output.json {
                    say(json!(registered));
                } else if registered.is_empty() && !command.remove {
                    say(
                        "No browser was found; start one once, then run `consentry extension register` again",
                    );
                } else {
                    for line in &registered {
                        say(line);
                    }
                }
                let nothing = registered.is_empty() && !command.remove;
                return Ok(exit::code(if nothing { exit::ATTENTION } else { outcome(&registered) }));
            }
            Extension::Path(command) => {
                let (folder, changed) = embedded::write_copy(&home)?;
                let id = embedded::key(&home)?.id().to_string();
                if command.output.json {
                    say(json!({ "path": folder, "id": id, "changed": changed }))
                } else {
                    say(folder.display())
                }
            }
            Extension::Token(command) => {
                if command.new {
                    embedded::new_token(&home)?;
                }
                embedded::ensure_token(&home)?;
                let token =
                    std::fs::read_to_string(home.extension_token()).context("cannot read the token")?;
                let token = token.trim();
                if command.output.json { say(json!({ "token": token })) } else { say(token) }
            }
        }
        Ok(exit::code(exit::OK))
    }
}

/// What became of one browser's registration.
#[derive(Debug, Serialize)]
pub(crate) struct Registered {
    /// The browser's name, or the folder that was named.
    browser: String,
    /// `registered`, `unregistered`, `as it was` or `failed`.
    outcome: &'static str,
    /// Why it failed, or what has to be known about this browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl fmt::Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.browser, self.outcome)?;
        self.detail.as_ref().map_or(Ok(()), |detail| write!(f, " ({detail})"))
    }
}

/// The exit code: it needs attention where a browser could not be registered.
pub(crate) fn outcome(registered: &[Registered]) -> u8 {
    if registered.iter().any(|one| one.outcome == FAILED) { exit::ATTENTION } else { exit::OK }
}

const FAILED: &str = "failed";

/// Puts the relay into the state folder and registers it.
pub(crate) fn register(home: &Home, user_data_dirs: &[PathBuf]) -> anyhow::Result<Vec<Registered>> {
    for folder in user_data_dirs {
        ensure!(folder.is_dir(), "there is no folder {}: start that browser once first", folder.display());
    }
    let relay = install_relay(home)?;
    let host = host(home, &relay)?;
    let mut all = Vec::new();
    if let Some(user) = user_home() {
        all.extend(hosts::install(&user, Platform::CURRENT, &host, Force::No).iter().map(describe));
    }
    for folder in user_data_dirs {
        let place = hosts::custom_folder(folder);
        let change = host
            .install(&place, Force::No)
            .with_context(|| format!("cannot register in {}", place.display()))?;
        all.push(custom(&place, &change));
    }
    Ok(all)
}

fn unregister(home: &Home, user_data_dirs: &[PathBuf]) -> anyhow::Result<Vec<Registered>> {
    let host = host(home, &home.bin().join(files::RELAY))?;
    let mut all = Vec::new();
    if let Some(user) = user_home() {
        all.extend(hosts::remove(&user, Platform::CURRENT, &host, Force::No).iter().map(describe));
    }
    for folder in user_data_dirs {
        let place = hosts::custom_folder(folder);
        let change = host
            .remove(&place, Force::No)
            .with_context(|| format!("cannot unregister in {}", place.display()))?;
        all.push(custom(&place, &change));
    }
    Ok(all)
}

fn custom(place: &Path, change: &Change) -> Registered {
    Registered { browser: place.display().to_string(), outcome: word(change), detail: None }
}

fn describe(entry: &Entry<Change>) -> Registered {
    let browser = entry.browser.name().to_string();
    let note = match entry.browser.reach() {
        Reach::Always => None,
        Reach::Perhaps(why) | Reach::Never(why) => Some(why.to_string()),
    };
    match &entry.outcome {
        Ok(change) => Registered { browser, outcome: word(change), detail: note },
        Err(error) => Registered { browser, outcome: FAILED, detail: Some(error.to_string()) },
    }
}

fn word(change: &Change) -> &'static str {
    match change {
        Change::Written => "registered",
        Change::Removed => "unregistered",
        Change::None => "as it was",
    }
}

fn host(home: &Home, relay: &Path) -> anyhow::Result<Host> {
    let id = embedded::key(home)?.id().to_string();
    Host::new(&[id.as_str()], relay).context("cannot describe the native-messaging host")
}

/// A copy and no link: a relay tells its state folder by where it lies itself.
fn install_relay(home: &Home) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let source = embedded::beside(files::RELAY)?;
    let place = home.bin().join(files::RELAY);
    let content = std::fs::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
    if std::fs::read(&place).is_ok_and(|old| old == content) {
        return Ok(place);
    }
    // A new file and a rename: a relay that runs keeps the one that it was started from.
    let new = place.with_extension("new");
    std::fs::write(&new, &content).with_context(|| format!("cannot write {}", new.display()))?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o700))?;
    std::fs::rename(&new, &place).with_context(|| format!("cannot write {}", place.display()))?;
    Ok(place)
}

fn user_home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}
