//! The configuration in force: what was written, what was approved, and the stricter of both until the owner clicks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use consentry_config::{Home, KeyFile, KeyStore, Settings, read_text, write_private};
use consentry_core::{Capability, KeyRing};
use consentry_gate::KeyName;
use consentry_mcp::{PathServer, Paths};
use consentry_wire::{ErrorCode, PathName};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Running;

/// The machine's own policy.
pub(crate) const POLICY: &str = "/etc/consentry/policy.toml";
/// Changes that come together are taken together.
const SETTLE: Duration = Duration::from_millis(150);
/// And without any sign of one, it is looked at this often.
const SWEEP: Duration = Duration::from_secs(30);
/// A question that nobody answered is asked again after so long, so many times.
const ASK_AGAIN: Duration = Duration::from_secs(300);
const ASK_TIMES: u32 = 12;

/// What holds, and what waits.
#[derive(Debug)]
pub(crate) struct Configuration {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    in_force: Settings,
    written: Settings,
    approved: Approved,
    /// Why the file as it is now does not hold.
    error: Option<String>,
    /// What waits for the owner's click.
    waiting: Vec<String>,
    /// The owner has said no to it, and is not asked again before it changes or the hub starts anew.
    declined: bool,
}

/// What the owner has clicked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Approved {
    settings: Settings,
    keys: BTreeMap<KeyName, String>,
}

/// What the owner is asked: the whole that would be approved, digests of keys included, and the words for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Proposal {
    approved: Approved,
    changes: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct ApprovedKeys {
    #[serde(default)]
    approved_keys: BTreeMap<KeyName, String>,
}

impl Configuration {
    /// Reads everything. At start a configuration that cannot be read is an error: there is none that could stay in
    /// force.
    pub(crate) fn load(home: &Home) -> anyhow::Result<Self> {
        let written = read_settings(home)?;
        let approved = read_approved(home)?;
        let in_force = written.tighten(&approved.settings);
        let state = State { in_force, written, approved, error: None, waiting: Vec::new(), declined: false };
        Ok(Self { state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings that hold now.
    pub(crate) fn in_force(&self) -> Settings {
        self.lock().in_force.clone()
    }

    /// The keys, approved or not.
    pub(crate) fn keys(&self, home: &Home) -> anyhow::Result<KeyRing> {
        let approved = self.lock().approved.keys.clone();
        Ok(KeyStore(home.keys()).ring(|name, file| approved.get(name) == Some(&opens(file)))?)
    }

    /// What is wrong with the file, what waits for a click, and what is looser than the defaults.
    pub(crate) fn warnings(&self) -> (Option<String>, Vec<String>, Vec<String>) {
        let state = self.lock();
        let waiting = state.waiting.iter().map(|change| {
            if state.declined {
                format!("{change} (you said no; the next start of the hub asks again)")
            } else {
                change.clone()
            }
        });
        let loose = state.in_force.looser_than_default().into_iter().map(|weakening| weakening.0).collect();
        (state.error.clone(), waiting.collect(), loose)
    }

    /// Reads the file again; whole, or not at all.
    fn reload(&self, home: &Home) -> bool {
        let read = read_settings(home);
        let mut state = self.lock();
        match read {
            Ok(written) => {
                state.error = None;
                state.in_force = written.tighten(&state.approved.settings);
                // The ports are kept as they were at start: everything that is registered follows them.
                let changed = state.written != written;
                state.written = written;
                changed
            }
            Err(error) => {
                let text = format!("config.toml is not in force: {error:#}");
                tracing::error!("{text}");
                state.error = Some(text);
                false
            }
        }
    }

    /// What is written now, and what of it is weaker than what was approved.
    fn propose(&self, home: &Home) -> Proposal {
        let keys = KeyStore(home.keys()).list().unwrap_or_default();
        let state = self.lock();
        let mut changes: Vec<String> = state
            .written
            .weaker_than(&state.approved.settings)
            .into_iter()
            .map(|weakening| weakening.0)
            .collect();
        for (name, file) in &keys {
            if state.approved.keys.get(name) != Some(&opens(file)) {
                let path = file.path.as_ref();
                let what = path.map_or_else(
                    || "every path, from this machine".to_owned(),
                    |path| format!("the {path} path"),
                );
                changes.push(format!("the key {name} opens {what}"));
            }
        }
        let keys = keys.into_iter().map(|(name, file)| (name, opens(&file))).collect();
        Proposal { approved: Approved { settings: state.written.clone(), keys }, changes }
    }

    /// The owner clicked: exactly what was shown is approved, and holds if it is still what is written.
    fn approve(&self, home: &Home, shown: &Proposal) -> anyhow::Result<bool> {
        if self.propose(home) != *shown {
            return Ok(false);
        }
        let mut state = self.lock();
        write_approved(home, &shown.approved)?;
        state.approved = shown.approved.clone();
        state.in_force = state.written.tighten(&state.approved.settings);
        state.waiting.clear();
        Ok(true)
    }

    /// What is stricter needs no click, and becomes what the next weakening is measured by.
    fn remember_stricter(&self, home: &Home) -> anyhow::Result<()> {
        let keys = KeyStore(home.keys()).list()?;
        let mut state = self.lock();
        let stricter = Approved {
            settings: state.in_force.clone(),
            keys: keys
                .into_iter()
                .filter(|(name, file)| state.approved.keys.get(name) == Some(&opens(file)))
                .map(|(name, file)| (name, opens(&file)))
                .collect(),
        };
        if stricter != state.approved {
            write_approved(home, &stricter)?;
            state.approved = stricter;
        }
        Ok(())
    }
}

/// What a key is approved as: its digest and what it opens, so that neither is changed without a click.
fn opens(file: &KeyFile) -> String {
    match &file.path {
        Some(path) => format!("{} {path}", file.sha256),
        None => file.sha256.clone(),
    }
}

fn machine_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = name.split('.').next().unwrap_or_default();
    if name.is_empty() { "this machine".to_owned() } else { name.to_owned() }
}

fn supported() -> Vec<PathName> {
    vec![PathName::browser()]
}

fn read_settings(home: &Home) -> anyhow::Result<Settings> {
    let text = read_or_empty(&home.config())?;
    let machine = machine_name();
    match read_policy()? {
        None => Settings::parse(&text, &machine, &supported()).context("config.toml"),
        Some((place, policy)) => {
            Settings::parse(&text, &machine, &supported()).context("config.toml")?;
            Settings::under_policy(&text, &policy, &machine, &supported())
                .context(place.display().to_string())
        }
    }
}

/// The machine's policy counts only when root alone can have written it.
fn read_policy() -> anyhow::Result<Option<(PathBuf, String)>> {
    use std::os::unix::fs::MetadataExt as _;
    let place = PathBuf::from(POLICY);
    let metadata = match std::fs::metadata(&place) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", place.display())),
    };
    if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
        anyhow::bail!("{} must belong to root and be writable by root alone", place.display());
    }
    let text = read_text(&place).with_context(|| format!("cannot read {}", place.display()))?;
    Ok(Some((place, text)))
}

fn read_or_empty(path: &Path) -> anyhow::Result<String> {
    match read_text(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn read_approved(home: &Home) -> anyhow::Result<Approved> {
    let text = read_or_empty(&home.approved())?;
    let damaged =
        || format!("{} is damaged: move it away, and you are asked again", home.approved().display());
    let mut table: toml::Table = toml::from_str(&text).with_context(damaged)?;
    let keys = table.remove("approved_keys").unwrap_or_else(|| toml::Value::Table(toml::Table::new()));
    let keys = keys.try_into().with_context(damaged)?;
    let settings = toml::to_string(&table).with_context(damaged)?;
    let settings = Settings::parse(&settings, &machine_name(), &supported()).with_context(damaged)?;
    Ok(Approved { settings, keys })
}

fn write_approved(home: &Home, approved: &Approved) -> anyhow::Result<()> {
    let keys = toml::to_string(&ApprovedKeys { approved_keys: approved.keys.clone() })?;
    let head = "# What you clicked for. Consentry writes this; change config.toml instead.\n";
    let text = format!("{head}{}\n{keys}", approved.settings.to_toml());
    write_private(&home.approved(), text.as_bytes()).context("cannot write approved.toml")
}

/// Makes the enabled paths answer, with what their descriptions say about the rules in force.
pub(crate) fn publish_paths(running: &Running, capabilities: &[Arc<dyn Capability>], paths: &Paths) {
    let rules = running.configuration.in_force().rules();
    let served = capabilities.iter().filter_map(|capability| {
        let rules = rules.paths.get(capability.path())?;
        let server = PathServer::new(running.hub.clone(), capability.clone(), rules);
        Some((capability.path().clone(), server))
    });
    paths.set(served.collect());
}

/// Takes changes of the state folder as they come.
pub(crate) async fn follow(
    running: Running,
    capabilities: Vec<Arc<dyn Capability>>,
    paths: Paths,
    stop: CancellationToken,
) {
    let home = running.home.clone();
    let watched = consentry_config::watch(home.path()).inspect_err(|error| {
        tracing::warn!(%error, "the state folder cannot be watched; changes are noticed later");
    });
    let keys = consentry_config::watch(&home.keys()).ok();
    let (_watcher, mut changes) = match watched {
        Ok((watcher, changes)) => (Some(watcher), Some(changes)),
        Err(_) => (None, None),
    };
    let (_keys_watcher, mut key_changes) = keys.map_or((None, None), |(w, c)| (Some(w), Some(c)));
    let mut live = running.hub.live();
    let mut asking = None;
    let mut asked = None;
    let mut times = 0;
    let mut again = None;
    loop {
        apply(&running, &capabilities, &paths);
        let proposal = running.configuration.propose(&home);
        let disabled = live.borrow_and_update().disabled;
        let due = again.is_some_and(|at| tokio::time::Instant::now() >= at);
        if disabled {
            // Nothing is asked now. As soon as it is enabled, as if for the first time.
            running.configuration.lock().waiting.clone_from(&proposal.changes);
            (asked, asking, again) = (None, None, None);
        } else if asked.as_ref() != Some(&proposal) || due {
            // What was shown is no longer what would hold, or nobody saw it: a dialog has to say it.
            running.configuration.lock().declined = false;
            times = if due && asked.as_ref() == Some(&proposal) { times + 1 } else { 1 };
            again = None;
            running.configuration.lock().waiting.clone_from(&proposal.changes);
            running.hub.touch();
            let wanted = !proposal.changes.is_empty();
            asked = Some(proposal.clone());
            asking = wanted.then(|| Box::pin(ask(running.clone(), proposal)));
        }
        tokio::select! {
            () = stop.cancelled() => return,
            path = next(&mut changes) => {
                if path.as_deref() == Some(home.disabled().as_path()) {
                    running.hub.switch_changed();
                } else {
                    tokio::time::sleep(SETTLE).await;
                }
            }
            _ = next(&mut key_changes) => tokio::time::sleep(SETTLE).await,
            answer = wait_for(&mut asking) => {
                asking = None;
                running.configuration.lock().declined = answer == Approval::Declined;
                running.hub.touch();
                if answer == Approval::Unanswered && times < ASK_TIMES {
                    again = Some(tokio::time::Instant::now() + ASK_AGAIN);
                }
            }
            () = async { drop(live.wait_for(|live| live.disabled != disabled).await) } => {}
            () = tokio::time::sleep(SWEEP) => {}
        }
    }
}

/// What the owner said to weaker settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    /// They hold.
    Given,
    /// The stricter ones stay, and nobody asks again.
    Declined,
    /// Nobody saw the question, or nobody answered.
    Unanswered,
}

/// Reads everything again and puts it in force.
fn apply(running: &Running, capabilities: &[Arc<dyn Capability>], paths: &Paths) {
    let configuration = &running.configuration;
    if configuration.reload(&running.home) {
        tracing::info!("config.toml is in force");
    }
    if let Err(error) = configuration.remember_stricter(&running.home) {
        tracing::error!(error = format!("{error:#}"), "approved.toml cannot be written");
    }
    running.hub.set_rules(configuration.in_force().rules());
    match configuration.keys(&running.home) {
        Ok(keys) => running.hub.set_keys(keys),
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the keys cannot be read; none holds");
            running.hub.set_keys(KeyRing::default());
        }
    }
    publish_paths(running, capabilities, paths);
}

/// Asks the owner, and writes the approval down.
async fn ask(running: Running, proposal: Proposal) -> Approval {
    if let Err(failure) = running.hub.approve(proposal.changes.clone()).await {
        tracing::info!(code = %failure.code, "weaker settings were not approved; the stricter ones stay");
        return if failure.code == ErrorCode::Rejected { Approval::Declined } else { Approval::Unanswered };
    }
    match running.configuration.approve(&running.home, &proposal) {
        Ok(true) => Approval::Given,
        // They changed while the dialog stood, so another one follows.
        Ok(false) => Approval::Declined,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the approval cannot be kept");
            Approval::Unanswered
        }
    }
}

async fn next(changes: &mut Option<tokio::sync::mpsc::Receiver<PathBuf>>) -> Option<PathBuf> {
    match changes {
        Some(changes) => match changes.recv().await {
            Some(path) => Some(path),
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn wait_for(asking: &mut Option<std::pin::Pin<Box<impl Future<Output = Approval>>>>) -> Approval {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}
