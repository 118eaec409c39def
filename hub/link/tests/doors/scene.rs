//! A hub behind its doors, with a scripted owner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::routing::get;
use consentry_core::{Client, ControlRequest, Hub, KeyKind, KeyRecord, KeyRing, Start, Via, digest};
use consentry_gate::{Answer, PathRules, Remembered, Rules};
use consentry_link::{Commands, Door, LinkEvents, Links, bind, serve, websocket};
use consentry_test_support::fakes::Fakes;
use consentry_wire::forbidden::HubPorts;
use consentry_wire::frame::{Event, Hello, Welcome};
use consentry_wire::socket::{Reply, Request};
use consentry_wire::version::CURRENT;
use consentry_wire::{ErrorCode, Failure, GrantLabel, PathName, ProfileId};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const TOKEN: &str = "c4n4ry-token-of-this-hub";
pub(crate) const EXTENSION: &str = "abcdefghijklmnopabcdefghijklmnop";

/// Bounds a wait that has to end by itself.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("it takes too long")
}

/// Waits for a state of things; looks often, and not for ever.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Keeps what browsers said, in order.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Heard {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl LinkEvents for Heard {
    fn linked(&self, hello: &Hello) {
        self.add(format!("linked {} {}", hello.profile, hello.worker));
    }
    fn unlinked(&self, profile: &ProfileId) {
        self.add(format!("unlinked {profile}"));
    }
    fn event(&self, profile: &ProfileId, event: Event) {
        self.add(format!("{profile} {event:?}"));
    }
}

/// Counts what is still running when its guard is dropped.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    pub(crate) seen: Mutex<Vec<Request>>,
    pub(crate) abandoned: Arc<Mutex<usize>>,
}

struct Abandoned(Arc<Mutex<usize>>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
}

#[async_trait]
impl Commands for CommandLine {
    async fn run(&self, request: Request, replies: mpsc::Sender<Reply>) {
        self.seen.lock().unwrap().push(request.clone());
        let reply = |more, result| Reply { result: Some(result), error: None, more };
        match request.command.as_str() {
            "echo" => drop(replies.send(reply(false, request.args)).await),
            "count" => {
                for n in 0..3 {
                    let _ = replies.send(reply(n < 2, json!(n))).await;
                }
            }
            "follow" => {
                let _abandoned = Abandoned(self.abandoned.clone());
                let _ = replies.send(reply(true, json!("followed"))).await;
                std::future::pending::<()>().await;
            }
            other => {
                let error = Failure::new(ErrorCode::InvalidArgument, format!("no command {other:?}"));
                let _ = replies.send(Reply { result: None, error: Some(error), more: false }).await;
            }
        }
    }
}

pub(crate) struct Scene {
    pub(crate) hub: Hub,
    pub(crate) fakes: Fakes,
    pub(crate) links: Links,
    pub(crate) heard: Arc<Heard>,
    pub(crate) commands: Arc<CommandLine>,
    pub(crate) door: Door,
    pub(crate) socket: PathBuf,
    client: Client,
    folder: tempfile::TempDir,
    tasks: JoinSet<()>,
    _stop: DropGuard,
}

/// What a scene may begin with, beside the usual.
pub(crate) struct Setting {
    pub(crate) known_browser: fn(&Path) -> Option<&'static str>,
    pub(crate) rules: Rules,
    pub(crate) remembered: Vec<Remembered>,
    pub(crate) token: Option<&'static str>,
}

impl Default for Setting {
    fn default() -> Self {
        let shell: PathName = "shell".parse().unwrap();
        // A grant that is killed may be followed by the next at once.
        let rules = PathRules { cooldown: Duration::ZERO, ..PathRules::default() };
        let paths = BTreeMap::from([(PathName::browser(), rules.clone()), (shell, rules)]);
        Self {
            known_browser: |_| Some("the program that runs the tests"),
            rules: Rules { paths },
            remembered: Vec::new(),
            token: Some(TOKEN),
        }
    }
}

impl Scene {
    pub(crate) async fn start() -> Self {
        Self::with(Setting::default()).await
    }

    pub(crate) async fn with(setting: Setting) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("hub.sock");
        let token_file = folder.path().join("extension-token");
        if let Some(token) = setting.token {
            std::fs::write(&token_file, token).unwrap();
        }
        let fakes = Fakes::default();
        let stop = CancellationToken::new();
        let keys = KeyRing(vec![KeyRecord {
            name: "agent".parse().unwrap(),
            digest: digest("agent"),
            kind: KeyKind::Named,
            approved: true,
        }]);
        let (hub, actor) = Hub::start(fakes.ports(), setting.rules, keys, setting.remembered, stop.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(actor);
        let client = hub.identify(&PathName::browser(), "agent", Via::Local).unwrap();
        let links = Links::default();
        let heard = Arc::new(Heard::default());
        let welcome = Welcome {
            version: CURRENT,
            build: "0.1.0".into(),
            machine: "desk".into(),
            ports: HubPorts { mcp: 7311, control: 7312 },
        };
        let door = Door::new(
            hub.clone(),
            links.clone(),
            heard.clone(),
            welcome,
            EXTENSION.into(),
            token_file,
            setting.known_browser,
        );
        let commands = Arc::new(CommandLine::default());
        let listener = bind(&socket).await.unwrap();
        tasks.spawn(serve(listener, door.clone(), commands.clone(), stop.clone()));
        Self {
            hub,
            fakes,
            links,
            heard,
            commands,
            door,
            socket,
            client,
            folder,
            tasks,
            _stop: stop.drop_guard(),
        }
    }

    /// Opens the WebSocket door on a free port.
    pub(crate) async fn open_websocket(&mut self) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/extension", get(websocket)).with_state(self.door.clone());
        self.tasks.spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        address
    }

    pub(crate) fn new_token(&self, token: &str) {
        std::fs::write(self.folder.path().join("extension-token"), token).unwrap();
    }

    /// A grant of a path, as the owner gives it.
    pub(crate) async fn grant(&self, path: &str, sites: &[&str]) -> GrantLabel {
        self.fakes.owner.will(Answer::Allow);
        let request = ControlRequest {
            purpose: "Read the invoices.".into(),
            sites: sites.iter().map(ToString::to_string).collect(),
            ..ControlRequest::default()
        };
        let path = path.parse().unwrap();
        let asked = self.hub.request_control(&self.client, &path, request, Duration::from_secs(45)).await;
        let Ok(Start::Granted(_, view)) = asked else { panic!("not granted: {asked:?}") };
        view.label
    }

    pub(crate) fn linked(&self) -> Vec<String> {
        self.links.list().into_iter().map(|link| link.profile.to_string()).collect()
    }

    /// Waits until somebody was not let in, and says why.
    pub(crate) async fn refusal(&self) -> String {
        until(|| self.door.last_refusal().is_some()).await;
        self.door.last_refusal().unwrap()
    }
}

/// A grant that no state holds, for calls that are about the link.
pub(crate) fn label() -> GrantLabel {
    "KQXZ".parse().unwrap()
}

pub(crate) fn profile(text: &str) -> ProfileId {
    text.parse().unwrap()
}
