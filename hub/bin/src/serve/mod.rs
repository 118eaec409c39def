//! The running hub: the wiring of everything.

mod audit;
mod browsers;
mod commands;
mod config;
mod http;
mod page;

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use consentry_browser::{BrowserCapability, Tabs};
use consentry_config::{Decisions, Home, SwitchFile};
use consentry_consent::{DialogProcess, Notifications};
use consentry_control::{ControlConfig, Sessions};
use consentry_core::{Capability, Hub, Ports, SystemClock};
use consentry_link::{Door, Links};
use consentry_mcp::{ListenerConfig, Paths};
use consentry_wire::forbidden::HubPorts;
use consentry_wire::frame::Welcome;
use consentry_wire::version;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::embedded;

pub(crate) use config::{Configuration, POLICY};

/// Says on standard output that the hub is ready, for whoever started it.
pub(crate) type Ready = Box<dyn FnOnce(HubPorts) + Send>;

/// What the parts of the running hub share.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) home: Home,
    pub(crate) hub: Hub,
    pub(crate) links: Links,
    pub(crate) tabs: Tabs,
    pub(crate) door: Door,
    pub(crate) sessions: Sessions,
    pub(crate) ports: HubPorts,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) extension_id: String,
    pub(crate) dialog_program: std::path::PathBuf,
}

/// Runs the hub until it is told to stop.
pub(crate) async fn run(home: Home, ready: Ready) -> anyhow::Result<()> {
    http::raise_descriptors();
    let stop = CancellationToken::new();
    // Grants end before what carries the answers of their calls.
    let end_grants = stop.child_token();
    let mut tasks = JoinSet::new();
    let running = start(home, &end_grants, &stop, &mut tasks).await?;
    ready(running.ports);
    let ended = tokio::select! {
        signal = stop_signal() => { tracing::info!(signal, "stopping"); Ok(()) }
        // None of them ends before it is told to: the first that does takes the hub with it.
        Some(ended) = tasks.join_next() => ended.context("a part of the hub broke").and_then(|part| part),
    };
    end_grants.cancel();
    tokio::time::sleep(LAST_ANSWERS).await;
    stop.cancel();
    running.links.end_all();
    let rest = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(3), rest).await;
    ended
}

/// How long calls that ran when the hub was told to stop have to say how they ended, and notifications to be shown.
const LAST_ANSWERS: std::time::Duration = std::time::Duration::from_millis(200);

/// How often it is looked whether the socket still lies there.
const SOCKET_LOOK: std::time::Duration = std::time::Duration::from_secs(2);

type Tasks = JoinSet<anyhow::Result<()>>;

async fn start(
    home: Home,
    end_grants: &CancellationToken,
    stop: &CancellationToken,
    tasks: &mut Tasks,
) -> anyhow::Result<Running> {
    home.create()?;
    let configuration = Arc::new(Configuration::load(&home)?);
    let settings = configuration.in_force();
    let ports = settings.ports;
    embedded::ensure_token(&home)?;
    let extension_id = embedded::key(&home)?.id().to_string();
    if embedded::present() {
        embedded::write_copy(&home)?;
    }
    // Whoever holds the socket is the hub of this state folder: it comes before anything else that is shared.
    let socket = consentry_link::bind(&home.socket()).await?;
    let mcp = listen(ports.mcp).await?;
    let control = listen(ports.control).await?;

    let (notifier, notifying) = Notifications::start();
    let dialog_program = embedded::beside("consentry-dialog")?;
    let adapters = Ports {
        clock: Arc::new(SystemClock),
        dialog: Arc::new(DialogProcess::new(dialog_program.clone(), settings.machine.clone())),
        audit: Arc::new(audit::Reopening::new(home.audit())),
        notifier: Arc::new(notifier),
        switch: Arc::new(SwitchFile(home.disabled())),
        memory: Arc::new(Decisions(home.decisions())),
    };
    let remembered = Decisions(home.decisions()).load().unwrap_or_else(|error| {
        tracing::error!(%error, "decisions.toml cannot be read: no site is remembered");
        Vec::new()
    });
    let (hub, actor) =
        Hub::start(adapters, settings.rules(), configuration.keys(&home)?, remembered, end_grants.clone());

    let links = Links::default();
    let tabs = Tabs::default();
    let (opener, opening) = browsers::opener();
    let events = browsers::Events { hub: hub.clone(), tabs: tabs.clone(), opener };
    let welcome = Welcome {
        version: version::CURRENT,
        build: env!("CARGO_PKG_VERSION").into(),
        machine: settings.machine.clone(),
        ports,
    };
    let door = Door::new(
        hub.clone(),
        links.clone(),
        Arc::new(events),
        welcome,
        extension_id.clone(),
        home.extension_token(),
        consentry_policies::hosts::known_browser,
    );
    let browser =
        Arc::new(BrowserCapability::new(Arc::new(browsers::Linked(links.clone())), tabs.clone(), ports));
    let following = browser.follow(hub.live());
    let capabilities: Vec<Arc<dyn Capability>> = vec![browser];
    hub.set_capabilities(capabilities.clone());
    let running = Running {
        home,
        hub: hub.clone(),
        links,
        tabs,
        door: door.clone(),
        sessions: Sessions::default(),
        ports,
        configuration,
        extension_id,
        dialog_program,
    };
    let paths = Paths::default();
    config::publish_paths(&running, &capabilities, &paths);

    tasks.spawn(whole(actor));
    // It has no end of its own, for the hub keeps its other side.
    let notifying_until = stop.clone();
    tasks.spawn(whole(async move {
        notifying_until.run_until_cancelled(notifying).await;
    }));
    tasks.spawn(whole(following));
    tasks.spawn(whole(browsers::open_pages(running.clone(), opening, stop.clone())));
    tasks.spawn(whole(config::follow(running.clone(), capabilities, paths.clone(), stop.clone())));
    let listener = ListenerConfig { port: ports.mcp, tunnel_host: settings.tunnel_host.clone() };
    let mcp_routes = consentry_mcp::router(hub.clone(), paths, listener, stop.clone());
    tasks.spawn(whole(http::serve(mcp, mcp_routes, stop.clone())));
    tasks.spawn(whole(http::serve(control, control_routes(&running, stop), stop.clone())));
    let commands = Arc::new(commands::HubCommands(running.clone()));
    tasks.spawn(whole(keep_socket(running.home.socket(), socket, door, commands, stop.clone())));
    Ok(running)
}

/// Serves the socket, and makes it again when somebody removed it: the command line finds the hub by it.
async fn keep_socket(
    place: std::path::PathBuf,
    socket: tokio::net::UnixListener,
    door: Door,
    commands: Arc<commands::HubCommands>,
    stop: CancellationToken,
) {
    let mut serving = JoinSet::new();
    serving.spawn(consentry_link::serve(socket, door.clone(), commands.clone(), stop.clone()));
    let mut look = tokio::time::interval(SOCKET_LOOK);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = look.tick() => {}
        }
        if place.symlink_metadata().is_err() {
            match consentry_link::bind(&place).await {
                Ok(socket) => {
                    tracing::warn!("hub.sock was removed and is there again");
                    // Whoever is connected to the old one stays.
                    serving.spawn(consentry_link::serve(
                        socket,
                        door.clone(),
                        commands.clone(),
                        stop.clone(),
                    ));
                }
                Err(error) => tracing::error!(%error, "hub.sock was removed and cannot be made again"),
            }
        }
    }
    while serving.join_next().await.is_some() {}
}

async fn whole(part: impl Future<Output = ()>) -> anyhow::Result<()> {
    part.await;
    Ok(())
}

fn control_routes(running: &Running, stop: &CancellationToken) -> Router {
    let doors =
        Router::new().route("/extension", get(consentry_link::websocket)).with_state(running.door.clone());
    let page = Arc::new(page::Page(running.clone()));
    let config = ControlConfig {
        port: running.ports.control,
        sessions: running.sessions.clone(),
        source: page.clone(),
        actions: page,
        changes: running.hub.changes(),
        stop: stop.clone(),
    };
    consentry_control::router(config, doors)
}

async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.with_context(|| {
        format!("cannot listen on 127.0.0.1:{port}: another program has it, or [ports] in config.toml names the wrong one")
    })
}

/// Waits for a signal that ends the program, and names it.
pub(crate) async fn stop_signal() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut hangup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        let _ = tokio::signal::ctrl_c().await;
        return "interrupt";
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "interrupt",
        _ = terminate.recv() => "terminate",
        _ = hangup.recv() => "hangup",
    }
}
