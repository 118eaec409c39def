//! One path alone, where no hub runs: a core of its own, standard input and output in place of the listener, and a
//! browser over DevTools in place of the extension.
//!
//! It shares with a hub of the same state folder what the owner wrote there and the kill switch, and nothing that
//! has one owner: not its socket, its ports, its audit or its decisions. A hub may start at any moment beside it.

mod audit;
mod browser;
mod owner;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use consentry_browser::{BrowserCapability, DevTools, Tabs};
use consentry_config::{Home, SwitchFile};
use consentry_consent::{DialogProcess, Notifications};
use consentry_core::{Capability as _, Client, Dialog, Hub, KeyRing, Ports, SystemClock};
use consentry_gate::{PathRules, Rules, SiteRule, Switch};
use consentry_mcp::PathServer;
use consentry_wire::PathName;
use rustix::event::{PollFd, PollFlags, poll};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::embedded;
use crate::serve::{Configuration, stop_signal};
use browser::Chosen;

/// What the one client is called: whoever started this program.
const CLIENT: &str = "standalone";
/// How long what was asked before the input ended may still be answered.
const LAST_ANSWERS: Duration = Duration::from_millis(300);
/// How long the core may take to end and write that down.
const ENDING: Duration = Duration::from_millis(300);

/// How it was asked to run.
#[derive(Debug)]
pub(crate) struct Options {
    /// Nobody is asked.
    pub(crate) no_consent: bool,
    /// The owner's own browser; of this folder, or the first that is found.
    pub(crate) attach: Option<Option<PathBuf>>,
    /// A scratch browser without a window.
    pub(crate) headless: bool,
    /// The scratch browser's program.
    pub(crate) program: Option<PathBuf>,
}

/// Serves until the input ends, the browser that was started is gone, or a signal comes.
pub(crate) async fn run(home: Home, path: &PathName, options: Options) -> anyhow::Result<()> {
    if *path != PathName::browser() {
        bail!("without a hub only the browser path is served, not {path}");
    }
    if options.no_consent && options.attach.is_some() {
        bail!(
            "--no-consent is refused together with --attach: your own browser is never driven without asking you"
        );
    }
    home.create()?;
    let settings = Configuration::load(&home)?.in_force();
    let configured = settings.rules();
    let configured = configured.paths.get(path);
    let configured = configured.with_context(|| format!("the {path} path is not enabled in config.toml"))?;
    if options.no_consent {
        owner::allows_no_consent()?;
    }
    let chosen = Chosen::new(&options)?;
    let rules = if options.no_consent { without_questions(configured) } else { configured.clone() };

    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (notifier, notifying) = Notifications::start();
    let ports = Ports {
        clock: Arc::new(SystemClock),
        dialog: dialog(&options, &settings.machine)?,
        audit: Arc::new(audit::open(&home)?),
        notifier: Arc::new(notifier),
        switch: Arc::new(SwitchFile(home.disabled())),
        memory: Arc::new(owner::Forgetful),
    };
    let (client, key) = Client::standalone(CLIENT.parse()?);
    let rules = Rules { paths: BTreeMap::from([(path.clone(), rules)]) };
    let (hub, actor) = Hub::start(ports, rules, KeyRing(vec![key]), Vec::new(), stop.clone());
    let mut core = JoinSet::new();
    core.spawn(actor);
    tasks.spawn(notifying);
    tasks.spawn(owner::watch_switch(home.clone(), hub.clone()));

    let tabs = Tabs::default();
    let (devtools, linked) = DevTools::start(chosen.source(), tabs.clone(), settings.ports, hub.live());
    let capability = Arc::new(BrowserCapability::new(Arc::new(devtools), tabs, settings.ports));
    tasks.spawn(capability.follow(hub.live()));
    hub.set_capabilities(vec![capability.clone()]);
    debug_assert_eq!(capability.path(), path);
    // The tools say what the owner's settings are, so that the list is the hub's own.
    let server = PathServer::new(hub.clone(), capability, configured).for_client(client, !options.no_consent);

    let ended = tokio::select! {
        served = consentry_mcp::serve_stdio(server) => served.map_err(|error| anyhow!("standard input or output: {error}")),
        ended = chosen.run(hub.live(), linked) => ended,
        () = input_ended() => Ok(()),
        _ = stop_signal() => Ok(()),
        _ = core.join_next() => Err(anyhow!("the core ended")),
        Some(ended) = tasks.join_next() => ended.context("a part broke").and(Err(anyhow!("a part ended"))),
    };
    // The grants end here and now, and the audit says so; what else runs is dropped.
    stop.cancel();
    let _ = tokio::time::timeout(ENDING, core.join_next()).await;
    ended
}

/// The rules for a browser in which there is nothing of the owner's: nobody is asked. What the owner switched off
/// stays off.
fn without_questions(configured: &PathRules) -> PathRules {
    let mut rules = PathRules { sites: SiteRule::Any, ask_changes: false, ..configured.clone() };
    for switch in rules.switches.values_mut() {
        if *switch == Switch::Ask {
            *switch = Switch::On;
        }
    }
    rules
}

fn dialog(options: &Options, machine: &str) -> anyhow::Result<Arc<dyn Dialog>> {
    if options.no_consent {
        return Ok(Arc::new(owner::Nobody));
    }
    let program = embedded::beside("consentry-dialog")?;
    Ok(Arc::new(DialogProcess::new(program, machine.to_owned())))
}

/// Waits until nobody can write to standard input any more, and a moment longer. The server itself ends when it has
/// read everything, but only after it has waited for the calls that run, which may take much longer.
async fn input_ended() {
    // Nothing is asked for, so only the other end's going away is told. A file has no other end.
    let ended = || poll(&mut [PollFd::new(&std::io::stdin(), PollFlags::empty())], None);
    match tokio::task::spawn_blocking(ended).await {
        Ok(Ok(_)) => tokio::time::sleep(LAST_ANSWERS).await,
        _ => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_owner_switched_off_stays_off() {
        let mut configured = PathRules { ask_changes: true, ..PathRules::default() };
        configured.switches.insert("evaluate_script".into(), Switch::Ask);
        configured.switches.insert("other".into(), Switch::Off);
        let rules = without_questions(&configured);
        assert_eq!((rules.sites, rules.ask_changes), (SiteRule::Any, false));
        assert_eq!((rules.switches["evaluate_script"], rules.switches["other"]), (Switch::On, Switch::Off));
    }
}
