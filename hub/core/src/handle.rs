//! The handle that everybody holds: sends to the actor, and waits.

use std::sync::Arc;
use std::time::Duration;

use consentry_gate::{
    Caller, ControlAsk, EndReason, GrantId, GrantView, KeyName, Polled, Purpose, Remembered, RequestId,
    Rules, Which, parse_site,
};
use consentry_wire::site::Origin;
use consentry_wire::{Epoch, ErrorCode, Failure, GrantLabel, PathName, ProfileId};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::actor::{Actor, Call, Message, Urgent};
use crate::capability::{Tool, ToolAsk};
use crate::keys::{AuthFailure, Client, KeyRing, Via};
use crate::live::{Live, Status};
use crate::permit::Permit;
use crate::ports::Ports;

/// Ordinary messages that may wait for the actor.
const QUEUE: usize = 256;
/// Characters of one argument that the audit keeps.
const KEPT: usize = 300;
/// The longest site that can be named: a host name and a little more.
const MAX_SITE: usize = 300;
/// How long ending waits for what is behind the paths to acknowledge.
const SETTLE: Duration = Duration::from_secs(1);

/// The hub's core. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ports: Ports,
    messages: mpsc::Sender<Message>,
    urgent: mpsc::UnboundedSender<Urgent>,
    live: watch::Receiver<Live>,
    changes: Arc<watch::Sender<u64>>,
    keys: std::sync::RwLock<KeyRing>,
    capabilities: std::sync::OnceLock<Vec<Arc<dyn crate::Capability>>>,
}

impl std::fmt::Debug for dyn crate::Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Capability({})", self.path())
    }
}

/// A request for control as it comes from a caller.
#[derive(Debug, Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// What you will do and why, in one or two plain sentences of at most 280 characters; the owner reads it.
    #[serde(default)]
    pub purpose: String,
    /// Minutes that you need, 30 if absent.
    #[serde(default)]
    pub minutes: Option<u16>,
    /// Who asks, for the owner to read; shown as not verified.
    #[serde(default)]
    pub caller: Option<String>,
    /// Sites that you will touch, such as example.com (with its subdomains, over https) or http://localhost:8080.
    #[serde(default)]
    pub sites: Vec<String>,
    /// From a pending answer: waits on for that request, and the rest may be left out.
    #[serde(default)]
    pub request_id: Option<u64>,
}

/// What became of a request for control so far.
#[derive(Debug)]
pub enum Start {
    /// Here is the grant.
    Granted(GrantId, Box<GrantView>),
    /// Nobody has answered yet: come back with this.
    Pending(RequestId),
}

/// One call that wants to be admitted.
#[derive(Debug)]
pub struct CallRequest<'a> {
    /// Who.
    pub client: &'a Client,
    /// On which path.
    pub path: &'a PathName,
    /// With which grant, as the caller passed it.
    pub grant_id: Option<&'a str>,
    /// How long the call may take.
    pub limit: Duration,
}

/// What ending brought about.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Ended {
    /// How many grants ended.
    pub grants: usize,
    /// Whether everything behind them acknowledged within a second. What a page already started may go on.
    pub acknowledged: bool,
}

impl Hub {
    /// Starts the actor; it runs until `stop` is raised. The returned future is the actor itself.
    pub fn start(
        ports: Ports,
        rules: Rules,
        keys: KeyRing,
        remembered: Vec<Remembered>,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (messages, inbox) = mpsc::channel(QUEUE);
        let (urgent, urgent_inbox) = mpsc::unbounded_channel();
        let (live, live_seen) = watch::channel(Live::default());
        let changes = Arc::new(watch::channel(0).0);
        let inner = Inner {
            ports,
            messages,
            urgent,
            live: live_seen,
            changes: Arc::clone(&changes),
            keys: std::sync::RwLock::new(keys),
            capabilities: std::sync::OnceLock::new(),
        };
        let hub = Self { inner: Arc::new(inner) };
        let actor = Actor::new(hub.clone(), rules, remembered, live, changes);
        (hub, actor.run(inbox, urgent_inbox, stop))
    }

    /// Says what is behind the paths, once: ending waits for it.
    pub fn set_capabilities(&self, capabilities: Vec<Arc<dyn crate::Capability>>) {
        // A second call would be a mistake in the wiring, and the first stays in force.
        let _ = self.inner.capabilities.set(capabilities);
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.inner.ports
    }

    /// What is allowed now, and whenever that changes.
    pub fn live(&self) -> watch::Receiver<Live> {
        self.inner.live.clone()
    }

    /// Counts everything that the status page shows.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Something that the status page shows changed outside of the core.
    pub fn touch(&self) {
        self.inner.changes.send_modify(|count| *count += 1);
    }

    // Keys.

    /// Finds who holds a key.
    ///
    /// # Errors
    /// When the key does not open the path.
    pub fn identify(&self, path: &PathName, secret: &str, via: Via) -> Result<Client, AuthFailure> {
        self.keys().identify(path, secret, via)
    }

    pub(crate) fn holds(&self, client: &Client) -> bool {
        self.keys().holds(client)
    }

    fn keys(&self) -> std::sync::RwLockReadGuard<'_, KeyRing> {
        self.inner.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Other keys hold from now on. The grants, dialogs and calls of keys that are gone or were replaced end.
    pub fn set_keys(&self, keys: KeyRing) {
        let gone: Vec<KeyName> = {
            let mut current = self.inner.keys.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A key that the owner has just approved is the same key; one that opened something and no longer does ends.
            let stays = |old: &crate::KeyRecord| {
                !old.approved
                    || keys.0.iter().any(|new| {
                        new.approved
                            && new.name == old.name
                            && new.digest == old.digest
                            && new.kind == old.kind
                    })
            };
            let gone = current.0.iter().filter(|old| !stays(old)).map(|old| old.name.clone()).collect();
            *current = keys;
            gone
        };
        for key in gone {
            let _ = self.inner.urgent.send(Urgent::Revoke(key));
        }
    }

    // Control.

    /// Asks the owner for control, or waits on for an earlier request, at most `wait`.
    ///
    /// # Errors
    /// When it is refused, before or by the owner.
    pub async fn request_control(
        &self,
        client: &Client,
        path: &PathName,
        request: ControlRequest,
        wait: Duration,
    ) -> Result<Start, Failure> {
        let id = match request.request_id {
            Some(id) => RequestId(id),
            None => {
                let ask = validate(request)?;
                self.send(|reply| Message::Request { client: client.clone(), path: path.clone(), ask, reply })
                    .await??
            }
        };
        // A caller that goes away before it has the request's id can never come back for the answer.
        let mut guard = AbandonGuard { hub: self, request: Some(id) };
        let decided = self.send(|reply| Message::Await {
            client: client.clone(),
            path: path.clone(),
            request: id,
            reply,
        });
        let polled = tokio::time::timeout(wait, decided).await;
        guard.request = None;
        match polled {
            Err(_) => Ok(Start::Pending(id)),
            Ok(answer) => match answer?? {
                Polled::Waiting => Ok(Start::Pending(id)),
                Polled::Allowed(id, view) => Ok(Start::Granted(id, view)),
                Polled::Denied(failure) => Err(failure),
            },
        }
    }

    /// Gives a grant that nobody is asked for: only for a standalone program whose owner said so.
    ///
    /// # Errors
    /// When the request itself is refused.
    pub async fn grant_without_consent(
        &self,
        client: &Client,
        path: &PathName,
        request: ControlRequest,
    ) -> Result<(GrantId, Box<GrantView>), Failure> {
        let ask = validate(request)?;
        self.send(|reply| Message::NoConsent { client: client.clone(), path: path.clone(), ask, reply })
            .await?
    }

    /// A caller gives its grant back.
    ///
    /// # Errors
    /// When there is no such grant.
    pub async fn release(
        &self,
        client: &Client,
        path: &PathName,
        grant_id: Option<&str>,
    ) -> Result<GrantView, Failure> {
        let id = grant_id.and_then(GrantId::parse);
        let view = self
            .urgent(|reply| Urgent::Release { client: client.clone(), path: path.clone(), id, reply })
            .await??;
        self.settle().await;
        Ok(view)
    }

    // Calls.

    /// Admission: key, kill switch, grant, policy, audit, in this order. Nothing else hands out a permit.
    ///
    /// # Errors
    /// The first check that fails.
    pub async fn admit(
        &self,
        call: CallRequest<'_>,
        tool: &dyn Tool,
        args: &Map<String, Value>,
    ) -> Result<Permit, Failure> {
        let spec = tool.spec();
        let call = Call {
            client: call.client.clone(),
            path: call.path.clone(),
            id: call.grant_id.and_then(GrantId::parse),
            tool: spec.name,
            changes: !spec.annotations.read_only,
            ask: tool.check(args),
            summary: bounded(tool, args),
            deadline: Instant::now() + call.limit,
        };
        self.send(|reply| Message::Admit { call: Box::new(call), reply }).await?
    }

    /// Ends a call, with what became of it.
    pub(crate) async fn finished(&self, label: GrantLabel, sequence: u64, fields: Map<String, Value>) {
        let _ = self.inner.messages.send(Message::Finished { label, sequence, fields }).await;
    }

    pub(crate) fn dropped(&self, label: GrantLabel, sequence: u64) {
        let _ = self.inner.urgent.send(Urgent::Dropped { label, sequence });
    }

    pub(crate) async fn site(
        &self,
        label: &GrantLabel,
        profile: &ProfileId,
        origin: &Origin,
    ) -> Result<(), Failure> {
        self.send(|reply| Message::Site {
            label: label.clone(),
            profile: profile.clone(),
            origin: origin.clone(),
            reply,
        })
        .await?
    }

    // The owner's doings.

    /// Ends one grant, those of a path, or all, with their cooldown.
    pub async fn kill(&self, which: Which, reason: EndReason, by: &'static str) -> Ended {
        let ended = self.urgent(|reply| Urgent::Kill { which, reason, by, reply }).await;
        let grants = ended.unwrap_or_default();
        Ended { grants, acknowledged: self.settle().await }
    }

    /// Ends grants without waiting for what comes of it: for places that may not wait.
    pub fn kill_soon(&self, which: Which, reason: EndReason, by: &'static str) {
        let (reply, _) = oneshot::channel();
        let _ = self.inner.urgent.send(Urgent::Kill { which, reason, by, reply });
    }

    /// Disables everything without waiting for what comes of it.
    pub fn disable_soon(&self, by: &'static str) {
        self.make_switch_file();
        let (reply, _) = oneshot::channel();
        let _ = self.inner.urgent.send(Urgent::Disable { by, reply });
    }

    fn make_switch_file(&self) {
        if let Err(error) = self.ports().switch.disable() {
            tracing::error!(%error, "the file DISABLED cannot be made; everything is disabled in memory");
        }
    }

    /// Disables everything. `by` says where: `page`, `command`, `popup`, `file`.
    pub async fn disable(&self, by: &'static str) -> Ended {
        // The file first: it holds even if everything after it fails.
        self.make_switch_file();
        let grants = self.urgent(|reply| Urgent::Disable { by, reply }).await.unwrap_or_default();
        Ended { grants, acknowledged: self.settle().await }
    }

    /// Enables control again.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub async fn enable(&self, by: &'static str) -> std::io::Result<()> {
        self.ports().switch.enable()?;
        let _ = self.urgent(|reply| Urgent::Enable { by, reply }).await;
        Ok(())
    }

    /// Has to be called when the file `DISABLED` came or went.
    pub fn switch_changed(&self) {
        let _ = self.inner.urgent.send(Urgent::SwitchChanged);
    }

    /// The screen was locked, or the machine slept.
    pub fn away(&self) {
        let _ = self.inner.urgent.send(Urgent::Away);
    }

    /// Other rules hold from now on.
    pub fn set_rules(&self, rules: Rules) {
        let _ = self.inner.urgent.send(Urgent::SetRules(rules));
    }

    /// Asks the owner whether settings may become weaker.
    ///
    /// # Errors
    /// When the owner does not click for it.
    pub async fn approve(&self, changes: Vec<String>) -> Result<(), Failure> {
        self.send(|reply| Message::Approve { changes, reply }).await?
    }

    /// Forgets remembered sites; gives how many.
    ///
    /// # Errors
    /// When the actor is gone.
    pub async fn forget(&self, which: Vec<Remembered>) -> Result<usize, Failure> {
        self.send(|reply| Message::Forget { which, reply }).await
    }

    /// What the status page shows.
    ///
    /// # Errors
    /// When the actor is gone.
    pub async fn status(&self) -> Result<Status, Failure> {
        self.send(|reply| Message::Status { reply }).await
    }

    /// Writes a line about something that the owner did.
    pub async fn note(&self, fields: Map<String, Value>) {
        let _ = self.inner.messages.send(Message::Note(fields)).await;
    }

    // Inside.

    async fn settle(&self) -> bool {
        let epoch: Epoch = self.inner.live.borrow().epoch;
        let capabilities = self.inner.capabilities.get().map(Vec::as_slice).unwrap_or_default();
        let all =
            futures_util::future::join_all(capabilities.iter().map(|capability| capability.settled(epoch)));
        tokio::time::timeout(SETTLE, all).await.is_ok()
    }

    async fn send<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let gone = || Failure::new(ErrorCode::Internal, "the hub is shutting down");
        self.inner.messages.send(message(reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    async fn urgent<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Urgent) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let gone = || Failure::new(ErrorCode::Internal, "the hub is shutting down");
        self.inner.urgent.send(message(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

impl ToolAsk {
    pub(crate) fn is_empty(&self) -> bool {
        self.target.is_empty() && self.text.is_empty()
    }
}

struct AbandonGuard<'a> {
    hub: &'a Hub,
    request: Option<RequestId>,
}

impl Drop for AbandonGuard<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            let _ = self.hub.inner.urgent.send(Urgent::Abandon(request));
        }
    }
}

/// What the audit keeps of the arguments: of those that the tool knows, and never more than a few hundred characters.
fn bounded(tool: &dyn Tool, args: &Map<String, Value>) -> Map<String, Value> {
    let known = tool.spec().input.get("properties").and_then(Value::as_object);
    let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
    let (known, unknown): (Vec<_>, Vec<_>) = args.iter().partition(|(name, _)| is_known(name));
    let known: Map<String, Value> =
        known.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut kept = tool.summary(&known);
    for value in kept.values_mut() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let length = text.chars().count();
        if length > KEPT {
            *value = format!("{}… ({length} characters)", text.chars().take(KEPT).collect::<String>()).into();
        }
    }
    if !unknown.is_empty() {
        kept.insert("unknown_fields".into(), unknown.len().into());
    }
    kept
}

fn validate(request: ControlRequest) -> Result<ControlAsk, Failure> {
    let purpose = Purpose::parse(&request.purpose).map_err(|error| Failure {
        field: Some("purpose".into()),
        allowed: Some("one or two sentences, at most 280 characters".into()),
        ..Failure::new(ErrorCode::BadPurpose, error.to_string())
    })?;
    let caller = match request.caller.as_deref() {
        None | Some("") => None,
        Some(text) => {
            let long =
                || Failure::argument("caller", "the caller's label is too long", "at most 60 characters");
            Some(Caller::parse(text).ok_or_else(long)?)
        }
    };
    if request.sites.len() > consentry_gate::MAX_SITES
        || request.sites.iter().any(|site| site.len() > MAX_SITE)
    {
        let message = format!("{} sites are named", request.sites.len());
        let allowed = format!("at most {} sites of at most {MAX_SITE} characters", consentry_gate::MAX_SITES);
        return Err(Failure::argument("sites", message, allowed));
    }
    let site = |(at, text): (usize, &String)| {
        parse_site(text).map_err(|error| {
            let allowed = "a host such as example.com, or an origin such as http://localhost:8080";
            Failure::argument(format!("sites[{at}]"), error.to_string(), allowed)
        })
    };
    let sites = request.sites.iter().enumerate().map(site).collect::<Result<Vec<_>, _>>()?;
    Ok(ControlAsk { purpose, caller, minutes: request.minutes, sites })
}
