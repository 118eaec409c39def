//! The one actor that owns the gate.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use consentry_gate::{
    Admitted, ControlAsk, DialogId, Effect, EndReason, Fresh, Gate, GrantId, GrantView, KeyName, Moment, Now,
    Polled, Question, QuestionKind, Remembered, RequestId, Rules, Shown, SiteVerdict, ToolVerdict, Which,
};
use consentry_wire::site::Origin;
use consentry_wire::{ErrorCode, Failure, GrantLabel, PathName, ProfileId};
use rand::RngExt as _;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::capability::{Site, ToolAsk};
use crate::handle::Hub;
use crate::keys::Client;
use crate::knocks::Knocks;
use crate::live::{Live, LiveGrant, Status};
use crate::permit::{Cancellations, Permit};
use crate::ports::{DialogReport, Record, Reply, Weight};

/// How often the switch is looked at and everybody is told again what is allowed.
const SWEEP: Duration = Duration::from_secs(2);
/// Calls that one grant may have running.
const MAX_IN_FLIGHT: u32 = 64;

/// One call that wants to be admitted.
pub(crate) struct Call {
    pub(crate) client: Client,
    pub(crate) path: PathName,
    pub(crate) id: Option<GrantId>,
    pub(crate) tool: &'static str,
    pub(crate) changes: bool,
    /// What the owner would be shown, or what is wrong with the arguments.
    pub(crate) ask: Result<ToolAsk, Failure>,
    pub(crate) summary: Map<String, Value>,
    pub(crate) deadline: Instant,
}

/// What can wait its turn.
pub(crate) enum Message {
    Request {
        client: Client,
        path: PathName,
        ask: ControlAsk,
        reply: Reply<Result<RequestId, Failure>>,
    },
    NoConsent {
        client: Client,
        path: PathName,
        ask: ControlAsk,
        reply: Reply<Result<(GrantId, Box<GrantView>), Failure>>,
    },
    Await {
        client: Client,
        path: PathName,
        request: RequestId,
        reply: Reply<Result<Polled, Failure>>,
    },
    Admit {
        call: Box<Call>,
        reply: Reply<Result<Permit, Failure>>,
    },
    Site {
        label: GrantLabel,
        profile: ProfileId,
        origin: Origin,
        reply: Reply<Result<(), Failure>>,
    },
    Approve {
        changes: Vec<String>,
        reply: Reply<Result<(), Failure>>,
    },
    Finished {
        label: GrantLabel,
        sequence: u64,
        fields: Map<String, Value>,
    },
    Forget {
        which: Vec<Remembered>,
        reply: Reply<usize>,
    },
    Status {
        reply: Reply<Status>,
    },
    Note(Map<String, Value>),
}

/// What never waits behind a caller's messages: everything that ends something.
pub(crate) enum Urgent {
    Release { client: Client, path: PathName, id: Option<GrantId>, reply: Reply<Result<GrantView, Failure>> },
    Kill { which: Which, reason: EndReason, by: &'static str, reply: Reply<usize> },
    Disable { by: &'static str, reply: Reply<usize> },
    Enable { by: &'static str, reply: Reply<()> },
    SwitchChanged,
    Away,
    Revoke(KeyName),
    SetRules(Rules),
    Abandon(RequestId),
    Dropped { label: GrantLabel, sequence: u64 },
}

/// Somebody who waits for the decision about a request for control.
struct Decider {
    key: KeyName,
    path: PathName,
    reply: Reply<Result<Polled, Failure>>,
}

/// Somebody who waits for the answer to a question.
enum Waiter {
    Admit { call: Box<Call>, admitted: Admitted, reply: Reply<Result<Permit, Failure>> },
    Plain(Reply<Result<(), Failure>>),
}

impl Waiter {
    fn gone(&self) -> bool {
        match self {
            Waiter::Admit { reply, .. } => reply.is_closed(),
            Waiter::Plain(reply) => reply.is_closed(),
        }
    }
}

pub(crate) struct Actor {
    hub: Hub,
    gate: Gate,
    live: watch::Sender<Live>,
    changes: Arc<watch::Sender<u64>>,
    cancellations: Cancellations,
    dialogs: JoinSet<(DialogId, DialogReport)>,
    dialog_tasks: HashMap<DialogId, tokio::task::AbortHandle>,
    deciding: HashMap<RequestId, Vec<Decider>>,
    waiting: HashMap<DialogId, Vec<Waiter>>,
    audit_failure: Option<String>,
    last_sweep: Moment,
    summaries: HashMap<GrantLabel, Summary>,
    knocks: Knocks,
}

/// What a grant did so far, for the line that ends it.
#[derive(Default)]
struct Summary {
    tools: BTreeMap<String, u64>,
    targets: BTreeSet<String>,
}

/// Targets that a summary names.
const MAX_TARGETS: usize = 50;

impl Actor {
    pub(crate) fn new(
        hub: Hub,
        rules: Rules,
        remembered: Vec<Remembered>,
        live: watch::Sender<Live>,
        changes: Arc<watch::Sender<u64>>,
    ) -> Self {
        Self {
            hub,
            gate: Gate::new(rules, remembered),
            live,
            changes,
            cancellations: HashMap::new(),
            dialogs: JoinSet::new(),
            dialog_tasks: HashMap::new(),
            deciding: HashMap::new(),
            waiting: HashMap::new(),
            audit_failure: None,
            last_sweep: Moment::default(),
            summaries: HashMap::new(),
            knocks: Knocks::default(),
        }
    }

    pub(crate) async fn run(
        mut self,
        mut messages: mpsc::Receiver<Message>,
        mut urgent: mpsc::UnboundedReceiver<Urgent>,
        stop: CancellationToken,
    ) {
        self.look_at_the_switch();
        self.apply();
        loop {
            let tick = self.next_tick();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(message) = urgent.recv() => self.urgent(message),
                Some(done) = self.dialogs.join_next(), if !self.dialogs.is_empty() => {
                    // A task that was withdrawn ends with an error that says nothing new.
                    if let Ok((dialog, report)) = done {
                        self.dialog_closed(dialog, report);
                    }
                }
                () = tokio::time::sleep(tick) => self.tick(),
                Some(message) = messages.recv() => self.message(message),
            }
            self.apply();
        }
        let now = self.now();
        self.gate.end(now, EndReason::Shutdown, |_| true);
        self.apply();
        self.dialogs.shutdown().await;
    }

    fn now(&self) -> Now {
        self.hub.ports().clock.now()
    }

    fn next_tick(&self) -> Duration {
        let now = self.now().moment;
        let due = self.gate.next_tick().map_or(SWEEP, |at| Duration::from_millis(at.since(now)));
        let sweep = Duration::from_millis(self.last_sweep.after(SWEEP).since(now));
        due.min(sweep)
    }

    fn tick(&mut self) {
        let now = self.now();
        self.gate.tick(now);
        if now.moment.since(self.last_sweep) >= SWEEP.as_millis() as u64 {
            self.last_sweep = now.moment;
            self.look_at_the_switch();
            self.forget_waiters();
            self.push();
        }
    }

    fn look_at_the_switch(&mut self) {
        let disabled = self.hub.ports().switch.disabled();
        let now = self.now();
        if disabled && !self.gate.snapshot().disabled {
            self.gate.disable(now);
            self.end_now();
            self.owner("disable", "file", json!({}));
        } else if !disabled && self.gate.snapshot().disabled {
            self.gate.enable();
            self.owner("enable", "file", json!({}));
        }
    }

    // Messages.

    fn urgent(&mut self, message: Urgent) {
        let now = self.now();
        match message {
            Urgent::Release { client, path, id, reply } => {
                let _ = reply.send(self.gate.release(now, client.name(), &path, id.as_ref()));
            }
            Urgent::Kill { which, reason, by, reply } => {
                let ended = self.gate.kill(now, reason, &which);
                self.end_now();
                self.owner("kill", by, json!({ "grants": ended }));
                self.apply();
                let _ = reply.send(ended);
            }
            Urgent::Disable { by, reply } => {
                let ended = self.gate.snapshot().grants.len();
                self.gate.disable(now);
                self.end_now();
                self.owner("disable", by, json!({ "grants": ended }));
                self.apply();
                let _ = reply.send(ended);
            }
            Urgent::Enable { by, reply } => {
                self.gate.enable();
                self.owner("enable", by, json!({}));
                self.apply();
                let _ = reply.send(());
            }
            Urgent::SwitchChanged => self.look_at_the_switch(),
            Urgent::Away => self.gate.away(now),
            Urgent::Revoke(key) => {
                self.gate.revoke(now, &key);
                self.end_now();
                self.owner("revoke", "keys", json!({ "key": key }));
            }
            Urgent::SetRules(rules) => self.gate.set_rules(now, rules),
            Urgent::Abandon(request) => self.gate.abandon(now, request),
            Urgent::Dropped { label, sequence } => {
                self.gate.finished(now, &label);
                let fields = [("of", json!(sequence)), ("grant", json!(label)), ("code", json!("cancelled"))];
                self.append(Record::new("outcome", fields), Weight::Light);
            }
        }
    }

    fn message(&mut self, message: Message) {
        let now = self.now();
        match message {
            Message::Request { client, path, ask, reply } => {
                let _ = reply.send(self.request(now, &client, &path, ask));
            }
            Message::NoConsent { client, path, ask, reply } => {
                let _ = reply.send(self.no_consent(now, &client, &path, ask));
            }
            Message::Await { client, path, request, reply } => {
                match self.gate.poll(now, client.name(), &path, request) {
                    Ok(Polled::Waiting) => {
                        let decider = Decider { key: client.name().clone(), path, reply };
                        self.deciding.entry(request).or_default().push(decider);
                    }
                    other => {
                        let _ = reply.send(other);
                    }
                }
            }
            Message::Admit { call, reply } => self.admit(now, call, reply),
            Message::Site { label, profile, origin, reply } => {
                self.site(now, &label, profile, &origin, reply);
            }
            Message::Approve { changes, reply } => {
                self.ask(now, None, QuestionKind::Weaken { changes }, Waiter::Plain(reply));
            }
            Message::Finished { label, sequence, fields } => {
                self.gate.finished(now, &label);
                self.summarise(&label, &fields);
                let mut record = Record::new("outcome", [("of", json!(sequence)), ("grant", json!(label))]);
                record.fields.extend(fields);
                self.append(record, Weight::Light);
                self.changed();
            }
            Message::Forget { which, reply } => {
                let forgotten = self.gate.forget(|remembered| which.contains(remembered));
                self.owner("forget_sites", "owner", json!({ "sites": forgotten }));
                self.keep_sites();
                let _ = reply.send(forgotten);
            }
            Message::Status { reply } => {
                let _ = reply.send(self.status());
            }
            Message::Note(fields) => {
                self.append(Record { kind: "owner", fields }, Weight::Decision);
                self.changed();
            }
        }
    }

    fn summarise(&mut self, label: &GrantLabel, fields: &Map<String, Value>) {
        let Some(summary) = self.summaries.get_mut(label) else { return };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        *summary.tools.entry(text("tool").unwrap_or_default()).or_default() += 1;
        if summary.targets.len() < MAX_TARGETS {
            summary.targets.extend(text("target").filter(|target| !target.is_empty()));
        }
    }

    fn fresh() -> Fresh {
        let mut rng = rand::rng();
        Fresh { id: GrantId::new(rng.random()), label_seed: rng.random() }
    }

    fn request(
        &mut self,
        now: Now,
        client: &Client,
        path: &PathName,
        ask: ControlAsk,
    ) -> Result<RequestId, Failure> {
        self.key_still_holds(client)?;
        self.look_at_the_switch();
        let mut record = Record::new(
            "request",
            [
                ("path", json!(path)),
                ("key", json!(client.name())),
                ("caller", json!(ask.caller.as_ref().map(|caller| caller.as_str()))),
                ("purpose", json!(ask.purpose.as_str())),
                ("minutes", json!(ask.minutes)),
                ("sites", json!(ask.sites.iter().map(ToString::to_string).collect::<Vec<_>>())),
            ],
        );
        let asked = self.gate.request(now, client.name(), path, ask, Self::fresh());
        let outcome = asked.as_ref().map_or_else(|failure| failure.code.as_str(), |_| "asked");
        record.fields.insert("outcome".into(), json!(outcome));
        if asked.is_err() && !self.is_written(now, client.name(), &mut record) {
            return asked;
        }
        if self.append(record, Weight::Light).is_none() {
            if let Ok(request) = asked {
                self.gate.abandon(now, request);
            }
            return Err(self.no_audit());
        }
        asked
    }

    fn no_consent(
        &mut self,
        now: Now,
        client: &Client,
        path: &PathName,
        ask: ControlAsk,
    ) -> Result<(GrantId, Box<GrantView>), Failure> {
        self.key_still_holds(client)?;
        self.look_at_the_switch();
        let fresh = Self::fresh();
        let id = fresh.id.clone();
        let label = self.gate.start_without_consent(now, client.name(), path, ask, fresh)?;
        self.apply();
        let view = self.gate.snapshot().grants.into_iter().find(|grant| grant.label == label);
        view.map(|view| (id, Box::new(view))).ok_or_else(|| self.no_audit())
    }

    /// The one order of checks.
    fn admit(&mut self, now: Now, call: Box<Call>, reply: Reply<Result<Permit, Failure>>) {
        let admitted = match self.checks(now, &call) {
            Ok(admitted) => admitted,
            Err(failure) => {
                // Whoever knocks without a grant is written down too, but owes nobody a line before an effect.
                self.append_refusal(now, &call, None, &failure);
                let _ = reply.send(Err(failure));
                return;
            }
        };
        let ask = match &call.ask {
            Ok(ask) => ask.clone(),
            Err(failure) => return self.refuse(now, &call, &admitted, failure.clone(), reply),
        };
        match self.gate.tool(&admitted.label, call.tool, call.changes) {
            ToolVerdict::Allowed => {
                let _ = reply.send(self.permit(&call, &admitted, None));
            }
            ToolVerdict::Off => {
                let message = format!("the owner switched {} off", call.tool);
                self.refuse(now, &call, &admitted, Failure::new(ErrorCode::Forbidden, message), reply);
            }
            ToolVerdict::Ask if ask.site == Some(Site::Unknown) => {
                let message = "the owner is asked about this tool, and cannot be shown the site before the tab was read";
                let failure =
                    Failure::new(ErrorCode::NotActionable, message).next("call read_page on the tab first");
                self.refuse(now, &call, &admitted, failure, reply);
            }
            ToolVerdict::Ask => {
                let text =
                    if ask.is_empty() { Value::Object(call.summary.clone()).to_string() } else { ask.text };
                let kind = QuestionKind::Tool {
                    tool: call.tool.to_owned(),
                    target: ask.target,
                    text,
                    for_grant: call.tool != "computer_use",
                };
                let label = admitted.label.clone();
                self.ask(now, Some(&label), kind, Waiter::Admit { call, admitted, reply });
            }
        }
    }

    fn checks(&mut self, now: Now, call: &Call) -> Result<Admitted, Failure> {
        self.key_still_holds(&call.client)?;
        self.look_at_the_switch();
        let admitted = self.gate.admit(now, call.client.name(), &call.path, call.id.as_ref(), call.tool)?;
        let running = self.gate.snapshot().grants.into_iter().find(|grant| grant.label == admitted.label);
        if running.is_some_and(|grant| grant.in_flight > MAX_IN_FLIGHT) {
            self.gate.finished(now, &admitted.label);
            return Err(Failure::new(
                ErrorCode::Busy,
                format!("the grant has {MAX_IN_FLIGHT} calls running"),
            ));
        }
        Ok(admitted)
    }

    fn refuse(
        &mut self,
        now: Now,
        call: &Call,
        admitted: &Admitted,
        failure: Failure,
        reply: Reply<Result<Permit, Failure>>,
    ) {
        self.gate.finished(now, &admitted.label);
        self.append_refusal(now, call, Some(&admitted.label), &failure);
        let _ = reply.send(Err(failure));
    }

    fn append_refusal(&mut self, now: Now, call: &Call, grant: Option<&GrantLabel>, failure: &Failure) {
        let mut record = refusal(call, grant, failure);
        if self.is_written(now, call.client.name(), &mut record) {
            self.append(record, Weight::Light);
        }
    }

    /// Whether a refusal of this key is still written, which then says how many before it were not.
    fn is_written(&mut self, now: Now, key: &KeyName, record: &mut Record) -> bool {
        let Some(unwritten) = self.knocks.refused(key, now.moment) else { return false };
        if unwritten > 0 {
            record.fields.insert("unwritten_before".into(), json!(unwritten));
        }
        true
    }

    fn key_still_holds(&self, client: &Client) -> Result<(), Failure> {
        if self.hub.holds(client) {
            Ok(())
        } else {
            Err(Failure::new(ErrorCode::Unauthorized, "the key was revoked"))
        }
    }

    /// The last two steps: the audit line, then the permit.
    fn permit(&mut self, call: &Call, admitted: &Admitted, asked: Option<String>) -> Result<Permit, Failure> {
        let Some(cancel) = self.cancellations.get(&admitted.label).cloned() else {
            return Err(Failure::new(ErrorCode::GrantEnded, "the grant has ended"));
        };
        let mut record = Record::new(
            "call",
            [
                ("path", json!(call.path)),
                ("key", json!(call.client.name())),
                ("grant", json!(admitted.label)),
                ("tool", json!(call.tool)),
            ],
        );
        record.fields.insert("args".into(), Value::Object(call.summary.clone()));
        let Some(sequence) = self.append(record, Weight::Light) else {
            let now = self.now();
            self.gate.finished(now, &admitted.label);
            return Err(self.no_audit());
        };
        let left = Duration::from_millis(admitted.expires.since(self.now().moment));
        self.changed();
        Ok(Permit {
            hub: self.hub.clone(),
            label: admitted.label.clone(),
            path: call.path.clone(),
            key: call.client.name().clone(),
            epoch: admitted.epoch,
            deadline: call.deadline.min(Instant::now() + left),
            cancel: cancel.child_token(),
            sequence,
            asked,
            finished: false,
        })
    }

    fn site(
        &mut self,
        now: Now,
        label: &GrantLabel,
        profile: ProfileId,
        origin: &Origin,
        reply: Reply<Result<(), Failure>>,
    ) {
        match self.gate.site(now, label, &profile, origin) {
            SiteVerdict::Allowed => {
                let _ = reply.send(Ok(()));
            }
            SiteVerdict::Declined { retry_after_ms } => {
                let message = format!("the owner declined {}", origin.site());
                let failure = Failure::new(ErrorCode::SiteNotAllowed, message).retry_after(retry_after_ms);
                let _ = reply.send(Err(failure));
            }
            SiteVerdict::Ask(site) => {
                let kind = QuestionKind::Site { site, profile };
                self.ask(now, Some(label), kind, Waiter::Plain(reply));
            }
        }
    }

    fn ask(&mut self, now: Now, grant: Option<&GrantLabel>, kind: QuestionKind, waiter: Waiter) {
        let asked = self.gate.ask(now, grant, kind);
        match (asked, waiter) {
            (Ok(dialog), waiter) => self.waiting.entry(dialog).or_default().push(waiter),
            (Err(failure), Waiter::Plain(reply)) => {
                let _ = reply.send(Err(failure));
            }
            (Err(failure), Waiter::Admit { admitted, reply, .. }) => {
                self.gate.finished(now, &admitted.label);
                let _ = reply.send(Err(failure));
            }
        }
    }

    /// Takes from the screen what nobody waits for any more.
    fn forget_waiters(&mut self) {
        let now = self.now();
        let gone: Vec<DialogId> = self
            .waiting
            .iter()
            .filter(|(_, all)| all.iter().all(Waiter::gone))
            .map(|(dialog, _)| *dialog)
            .collect();
        for dialog in gone {
            self.gate.withdraw(now, dialog);
            for waiter in self.waiting.remove(&dialog).unwrap_or_default() {
                if let Waiter::Admit { admitted, .. } = waiter {
                    self.gate.finished(now, &admitted.label);
                }
            }
        }
        self.deciding.retain(|_, waiters| {
            waiters.retain(|decider| !decider.reply.is_closed());
            !waiters.is_empty()
        });
    }

    fn dialog_closed(&mut self, dialog: DialogId, report: DialogReport) {
        self.dialog_tasks.remove(&dialog);
        for note in &report.notes {
            tracing::info!(dialog = dialog.0, note, "dialog");
        }
        if report.notes.iter().any(|note| note.starts_with("ignored")) {
            let fields = [("dialog", json!(dialog.0)), ("notes", json!(report.notes))];
            self.append(Record::new("ignored_clicks", fields), Weight::Light);
        }
        // The switch may have been thrown while the dialog stood.
        self.look_at_the_switch();
        let now = self.now();
        self.gate.answer(now, dialog, report.answer);
    }

    // Effects.

    /// Calls of grants that ended stop, and browsers hear of it, before the owner's doing is written down: a disk can be
    /// slow.
    fn end_now(&mut self) {
        self.cancel_ended();
        self.push();
    }

    fn cancel_ended(&mut self) {
        let live: Vec<GrantLabel> =
            self.gate.snapshot().grants.into_iter().map(|grant| grant.label).collect();
        self.cancellations.retain(|label, cancel| {
            let lives = live.contains(label);
            if !lives {
                cancel.cancel();
            }
            lives
        });
    }

    fn apply(&mut self) {
        loop {
            let effects = self.gate.take_effects();
            if effects.is_empty() {
                return;
            }
            // Whatever ended stops before anybody is told anything else.
            self.cancel_ended();
            for effect in effects {
                self.effect(effect);
            }
            self.changed();
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Show(shown) => self.show(shown),
            Effect::Withdraw(dialog) => {
                if let Some(task) = self.dialog_tasks.remove(&dialog) {
                    task.abort();
                }
            }
            Effect::Decided { request, key, path, outcome } => self.decided(request, &key, &path, &outcome),
            Effect::Settled { dialog, question, allowed } => self.settled(dialog, &question, allowed),
            Effect::Remember(_) => self.keep_sites(),
            Effect::Started(grant) => self.started(&grant),
            Effect::Ended(grant, reason) => self.ended(&grant, reason),
            Effect::Push(_) => self.push(),
        }
    }

    fn show(&mut self, shown: Shown) {
        let dialog = shown.dialog;
        let screen = Arc::clone(&self.hub.ports().dialog);
        let task = self.dialogs.spawn(async move { (dialog, screen.ask(shown).await) });
        self.dialog_tasks.insert(dialog, task);
    }

    fn decided(
        &mut self,
        request: RequestId,
        key: &KeyName,
        path: &PathName,
        outcome: &Result<GrantLabel, ErrorCode>,
    ) {
        if let Err(code) = outcome {
            let fields = [("path", json!(path)), ("key", json!(key)), ("outcome", json!(code))];
            self.append(Record::new("decision", fields), Weight::Decision);
        }
        let now = self.now();
        for Decider { key, path, reply } in self.deciding.remove(&request).unwrap_or_default() {
            let polled = self.gate.poll(now, &key, &path, request);
            let polled = match (&self.audit_failure, polled) {
                // The grant ended before it began, because its line could not be written.
                (Some(_), Err(failure) | Ok(Polled::Denied(failure)))
                    if matches!(failure.code, ErrorCode::GrantEnded | ErrorCode::UnknownRequest) =>
                {
                    Err(self.no_audit())
                }
                (_, polled) => polled,
            };
            let _ = reply.send(polled);
        }
    }

    fn settled(&mut self, dialog: DialogId, question: &Question, allowed: Result<(), ErrorCode>) {
        let waiters = self.waiting.remove(&dialog).unwrap_or_default();
        let outcome = allowed.as_ref().map_or_else(|code| code.as_str(), |()| "allowed");
        let (kind, about) = match &question.kind {
            QuestionKind::Site { site, profile } => {
                ("site", json!({ "site": site.to_string(), "profile": profile }))
            }
            QuestionKind::Tool { tool, target, .. } => ("tool", json!({ "tool": tool, "target": target })),
            QuestionKind::Weaken { changes } => ("weaken", json!({ "changes": changes })),
        };
        let fields = [
            ("path", json!(question.asker.as_ref().map(|asker| &asker.path))),
            ("key", json!(question.asker.as_ref().map(|asker| &asker.key))),
            ("grant", json!(question.grant())),
            ("question", json!(kind)),
            ("about", about),
            ("outcome", json!(outcome)),
        ];
        let written = self.append(Record::new("decision", fields), Weight::Decision).is_some();
        let now = self.now();
        for waiter in waiters {
            let refused = match (&allowed, written) {
                (Err(code), _) => Some(question_refused(&question.kind, *code)),
                (Ok(()), false) => Some(self.no_audit()),
                (Ok(()), true) => None,
            };
            match (waiter, refused) {
                (Waiter::Plain(reply), refused) => {
                    let _ = reply.send(refused.map_or(Ok(()), Err));
                }
                (Waiter::Admit { call, admitted, reply }, None) => {
                    let asked = match call.ask.as_ref().ok().and_then(|ask| ask.site.clone()) {
                        Some(Site::Known(origin)) => Some(origin),
                        Some(Site::Unknown) | None => None,
                    };
                    let _ = reply.send(self.permit(&call, &admitted, asked));
                }
                (Waiter::Admit { call, admitted, reply }, Some(failure)) => {
                    self.gate.finished(now, &admitted.label);
                    self.append(refusal(&call, Some(&admitted.label), &failure), Weight::Light);
                    let _ = reply.send(Err(failure));
                }
            }
        }
    }

    fn started(&mut self, grant: &GrantView) {
        let fields = [
            ("path", json!(grant.path)),
            ("key", json!(grant.key)),
            ("outcome", json!(grant.decision)),
            ("grant", json!(grant.label)),
            ("minutes", json!(grant.expires.since(grant.started) / 60_000)),
            ("purpose", json!(grant.purpose)),
            ("caller", json!(grant.caller)),
            ("sites", json!(grant.sites.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ];
        if self.append(Record::new("decision", fields), Weight::Decision).is_none() {
            let now = self.now();
            let label = grant.label.clone();
            self.gate.end(now, EndReason::AuditFailed, |grant| grant.label == label);
            return;
        }
        self.summaries.insert(grant.label.clone(), Summary::default());
        self.cancellations.insert(grant.label.clone(), Arc::new(CancellationToken::new()));
        self.hub.ports().notifier.started(grant);
    }

    fn ended(&mut self, grant: &GrantView, reason: EndReason) {
        let lived = self.now().moment.since(grant.started) / 1000;
        let summary = self.summaries.remove(&grant.label).unwrap_or_default();
        let fields = [
            ("tools", json!(summary.tools)),
            ("targets", json!(summary.targets)),
            ("path", json!(grant.path)),
            ("key", json!(grant.key)),
            ("grant", json!(grant.label)),
            ("reason", json!(reason)),
            ("calls", json!(grant.calls)),
            ("seconds", json!(lived)),
        ];
        self.append(Record::new("end", fields), Weight::Light);
        self.hub.ports().notifier.ended(grant, reason);
    }

    fn push(&mut self) {
        let snapshot = self.gate.snapshot();
        let rules = self.gate.rules();
        let grants = snapshot
            .grants
            .into_iter()
            .map(|view| {
                let ours = |r: &&Remembered| r.path == view.path && r.key == view.key;
                let remembered = self.gate.remembered().iter().filter(ours).cloned().collect();
                let rule = rules.paths.get(&view.path).map(|rules| rules.sites).unwrap_or_default();
                LiveGrant { view, rule, remembered }
            })
            .collect();
        // Sent even when nothing changed: peers take silence for a hub that is gone.
        let at = self.now().moment;
        self.live.send_replace(Live { epoch: snapshot.epoch, at, disabled: snapshot.disabled, grants });
    }

    fn status(&mut self) -> Status {
        let now = self.now();
        self.gate.tick(now);
        self.apply();
        self.push();
        let snapshot = self.gate.snapshot();
        Status {
            live: self.live.borrow().clone(),
            on_screen: snapshot.on_screen,
            waiting: snapshot.waiting,
            remembered: self.gate.remembered().to_vec(),
            audit_failure: self.audit_failure.clone(),
        }
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn keep_sites(&self) {
        if let Err(error) = self.hub.ports().memory.keep(self.gate.remembered()) {
            tracing::error!(%error, "the remembered sites cannot be kept; they hold until the hub ends");
        }
    }

    // The audit.

    fn owner(&mut self, what: &'static str, by: &'static str, more: Value) {
        let mut record = Record::new("owner", [("did", json!(what)), ("by", json!(by))]);
        if let Value::Object(more) = more {
            record.fields.extend(more);
        }
        self.append(record, Weight::Decision);
    }

    fn append(&mut self, record: Record, weight: Weight) -> Option<u64> {
        match self.hub.ports().audit.append(record, weight) {
            Ok(sequence) => {
                if self.audit_failure.take().is_some() {
                    tracing::info!("the audit can be written again");
                }
                Some(sequence)
            }
            Err(error) => {
                let text =
                    std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
                if self.audit_failure.is_none() {
                    tracing::error!(cause = text, "the audit cannot be written; calls are refused");
                }
                self.audit_failure = Some(format!("{error}{text}"));
                None
            }
        }
    }

    fn no_audit(&self) -> Failure {
        let text = self.audit_failure.clone().unwrap_or_else(|| "the audit cannot be written".to_owned());
        Failure::new(ErrorCode::AuditUnavailable, text)
    }
}

fn refusal(call: &Call, grant: Option<&GrantLabel>, failure: &Failure) -> Record {
    Record::new(
        "refused",
        [
            ("grant", json!(grant)),
            ("path", json!(call.path)),
            ("key", json!(call.client.name())),
            ("tool", json!(call.tool)),
            ("code", json!(failure.code)),
        ],
    )
}

fn question_refused(kind: &QuestionKind, code: ErrorCode) -> Failure {
    match (kind, code) {
        (QuestionKind::Site { site, .. }, ErrorCode::Rejected | ErrorCode::TimedOut) => {
            let why = if code == ErrorCode::TimedOut {
                "nobody answered whether"
            } else {
                "the owner declined that"
            };
            Failure::new(ErrorCode::SiteNotAllowed, format!("{why} {site} may be used"))
        }
        (QuestionKind::Tool { tool, .. }, ErrorCode::Rejected) => {
            Failure::new(code, format!("the owner declined this call of {tool}"))
        }
        (QuestionKind::Weaken { .. }, ErrorCode::Rejected) => {
            Failure::new(code, "the owner keeps the stricter settings")
        }
        _ => Failure::new(code, "the question was not answered with yes"),
    }
}
