//! Admission and everything around it, with a scripted owner.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use consentry_core::{
    Annotations, CallRequest, Client, ControlRequest, Hub, KeyKind, KeyRecord, KeyRing, Permit, Start, Tool,
    ToolAsk, ToolOutput, ToolSpec, Via, digest,
};
use consentry_gate::{Answer, EndReason, PathRules, Rules, Switch, Which};
use consentry_test_support::fakes::Fakes;
use consentry_wire::site::Origin;
use consentry_wire::{ErrorCode, Failure, PathName, ProfileId};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(45);

struct Scene {
    hub: Hub,
    fakes: Fakes,
    client: Client,
    _stop: tokio_util::sync::DropGuard,
}

fn key(name: &str) -> KeyRecord {
    KeyRecord { name: name.parse().unwrap(), digest: digest(name), kind: KeyKind::Named, approved: true }
}

impl Scene {
    fn new() -> Self {
        let mut rules = PathRules::default();
        rules.switches.insert("evaluate_script".into(), Switch::Ask);
        let rules = Rules { paths: BTreeMap::from([(PathName::browser(), rules)]) };
        let fakes = Fakes::default();
        let stop = CancellationToken::new();
        let keys = KeyRing(vec![key("agent"), key("other")]);
        let (hub, actor) = Hub::start(fakes.ports(), rules, keys, Vec::new(), stop.clone());
        tokio::spawn(actor);
        let client = hub.identify(&PathName::browser(), "agent", Via::Local).unwrap();
        Self { hub, fakes, client, _stop: stop.drop_guard() }
    }

    async fn ask(&self, wait: Duration) -> Result<Start, Failure> {
        let request = ControlRequest { purpose: "Read the invoices.".into(), ..ControlRequest::default() };
        self.hub.request_control(&self.client, &PathName::browser(), request, wait).await
    }

    async fn grant(&self) -> String {
        self.fakes.owner.will(Answer::Allow);
        let Ok(Start::Granted(id, _)) = self.ask(LONG).await else { panic!("not granted") };
        id.reveal()
    }

    async fn admit(&self, grant_id: Option<&str>, tool: &dyn Tool) -> Result<Permit, Failure> {
        let path = PathName::browser();
        let call =
            CallRequest { client: &self.client, path: &path, grant_id, limit: Duration::from_secs(30) };
        self.hub.admit(call, tool, &Map::new()).await
    }
}

struct Named(ToolSpec);

#[async_trait]
impl Tool for Named {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    fn check(&self, _: &Map<String, Value>) -> Result<ToolAsk, Failure> {
        Ok(ToolAsk { target: "https://example.com".into(), text: "document.title".into(), site: None })
    }
    fn summary(&self, _: &Map<String, Value>) -> Map<String, Value> {
        Map::new()
    }
    async fn call(&self, _: &Permit, _: Map<String, Value>) -> Result<ToolOutput, Failure> {
        Err(Failure::new(ErrorCode::Internal, "not called here"))
    }
}

fn tool(name: &'static str) -> Named {
    let annotations =
        Annotations { read_only: false, destructive: false, idempotent: false, open_world: true };
    Named(ToolSpec { name, title: "", description: "", input: Map::new(), output: Map::new(), annotations })
}

fn code<T>(result: Result<T, Failure>) -> ErrorCode {
    result.map(drop).unwrap_err().code
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_without_a_grant_and_every_call_has_its_line_first() {
    let scene = Scene::new();
    let read = tool("read_page");
    assert_eq!(code(scene.admit(None, &read).await), ErrorCode::NoGrant);
    assert_eq!(code(scene.admit(Some("made up"), &read).await), ErrorCode::NoGrant);
    assert!(scene.fakes.audit.of("call").is_empty());

    let id = scene.grant().await;
    let permit = scene.admit(Some(&id), &read).await.unwrap();
    assert!(permit.check().is_ok());
    assert_eq!(scene.fakes.audit.of("call").len(), 1);
    let sequence = permit.sequence();
    permit.finish(json!({"code": "ok"}).as_object().unwrap().clone()).await;
    scene.hub.status().await.unwrap();
    assert_eq!(scene.fakes.audit.of("outcome")[0].fields["of"], json!(sequence));
    let everything = format!("{:?}", scene.fakes.audit.lines());
    assert!(!everything.contains(&id), "a grant's secret is nobody's to read");
}

#[tokio::test(start_paused = true)]
async fn an_audit_that_cannot_be_written_refuses_calls_and_requests_but_not_kill_and_disable() {
    let scene = Scene::new();
    let id = scene.grant().await;
    scene.fakes.audit.set_broken(true);
    assert_eq!(code(scene.admit(Some(&id), &tool("read_page")).await), ErrorCode::AuditUnavailable);
    assert_eq!(code(scene.ask(LONG).await), ErrorCode::AuditUnavailable);
    assert!(scene.hub.status().await.unwrap().audit_failure.is_some());
    assert_eq!(scene.hub.kill(Which::All, EndReason::Killed, "page").await.grants, 1);
    scene.hub.disable("page").await;
    assert!(scene.hub.status().await.unwrap().live.disabled);
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_decision_cannot_be_written_never_lives() {
    let scene = Scene::new();
    let asking = scene.ask(LONG);
    tokio::pin!(asking);
    tokio::select! {
        biased;
        _ = &mut asking => panic!("nobody has answered"),
        () = tokio::time::sleep(Duration::from_millis(100)) => {}
    }
    scene.fakes.audit.set_broken(true);
    scene.fakes.owner.will(Answer::Allow);
    assert_eq!(code(asking.await), ErrorCode::AuditUnavailable);
    assert!(scene.hub.status().await.unwrap().live.grants.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kill_reaches_a_call_that_runs() {
    let scene = Scene::new();
    let id = scene.grant().await;
    let permit = scene.admit(Some(&id), &tool("click_element")).await.unwrap();
    let work = permit.during(std::future::pending::<()>());
    tokio::pin!(work);
    tokio::select! {
        biased;
        _ = &mut work => panic!("it ended by itself"),
        () = tokio::time::sleep(Duration::from_millis(10)) => {}
    }
    let killed = scene.hub.kill(Which::All, EndReason::Killed, "page");
    let (ended, outcome) = tokio::join!(killed, work);
    let failure = outcome.unwrap_err();
    assert_eq!(ended.grants, 1);
    assert_eq!((failure.code, failure.outcome), (ErrorCode::GrantEnded, consentry_wire::Outcome::MaybeDone));
    assert_eq!(code(permit.check()), ErrorCode::GrantEnded);
}

/// A disk can be slow: whoever ends a grant does not wait for the line about it.
#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_before_the_line_about_its_end_is_written() {
    for ending in 0..3 {
        let scene = Scene::new();
        let id = scene.grant().await;
        let permit = scene.admit(Some(&id), &tool("click_element")).await.unwrap();
        scene.fakes.audit.watch(permit.cancelled());
        match ending {
            0 => assert_eq!(scene.hub.kill(Which::All, EndReason::Killed, "page").await.grants, 1),
            1 => assert_eq!(scene.hub.disable("page").await.grants, 1),
            _ => {
                scene.fakes.switch.set(true);
                scene.hub.switch_changed();
                permit.cancelled().cancelled().await;
            }
        }
        assert_eq!(scene.fakes.audit.while_running(), Vec::<&str>::new(), "{ending}");
        assert_eq!(scene.fakes.audit.of("end").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_file_alone_stops_a_call_before_its_next_send_and_ends_every_grant_within_two_seconds() {
    let scene = Scene::new();
    let id = scene.grant().await;
    let permit = scene.admit(Some(&id), &tool("click_element")).await.unwrap();
    scene.fakes.switch.set(true);
    assert_eq!(code(permit.check()), ErrorCode::Disabled);
    tokio::time::timeout(Duration::from_secs(3), permit.cancelled().cancelled()).await.unwrap();
    assert_eq!(code(scene.admit(Some(&id), &tool("read_page")).await), ErrorCode::Disabled);
    scene.fakes.switch.set(false);
    scene.hub.switch_changed();
    assert_eq!(code(scene.admit(Some(&id), &tool("read_page")).await), ErrorCode::NoGrant);
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_is_thrown_while_the_dialog_stands_makes_allow_a_denial() {
    let scene = Scene::new();
    let asking = scene.ask(LONG);
    tokio::pin!(asking);
    tokio::select! {
        biased;
        _ = &mut asking => panic!("nobody has answered"),
        () = tokio::time::sleep(Duration::from_millis(100)) => {}
    }
    scene.fakes.switch.set(true);
    scene.fakes.owner.will(Answer::Allow);
    assert_eq!(code(asking.await), ErrorCode::Disabled);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_pending_and_can_be_resumed() {
    let scene = Scene::new();
    let Ok(Start::Pending(request)) = scene.ask(Duration::from_secs(5)).await else { panic!() };
    assert_eq!(scene.fakes.owner.standing(), 1, "the dialog stays for the caller who comes back");
    scene.fakes.owner.will(Answer::Allow);
    let again = ControlRequest { request_id: Some(request.0), ..ControlRequest::default() };
    let resumed = scene.hub.request_control(&scene.client, &PathName::browser(), again, LONG).await;
    assert!(matches!(resumed, Ok(Start::Granted(..))));
    assert_eq!(scene.fakes.owner.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_takes_its_dialog_with_it() {
    let scene = Scene::new();
    let asked = tokio::time::timeout(Duration::from_secs(1), scene.ask(LONG)).await;
    assert!(asked.is_err());
    scene.hub.status().await.unwrap();
    tokio::task::yield_now().await;
    assert!(scene.hub.status().await.unwrap().on_screen.is_none());
    assert_eq!(scene.fakes.owner.standing(), 0);
}

#[tokio::test(start_paused = true)]
async fn revoking_a_key_ends_its_grants_and_its_dialog() {
    let scene = Scene::new();
    let id = scene.grant().await;
    let permit = scene.admit(Some(&id), &tool("read_page")).await.unwrap();
    scene.hub.set_keys(KeyRing(vec![key("other")]));
    permit.cancelled().cancelled().await;
    assert_eq!(code(scene.admit(Some(&id), &tool("read_page")).await), ErrorCode::Unauthorized);
    assert_eq!(code(scene.ask(LONG).await), ErrorCode::Unauthorized);
}

#[tokio::test(start_paused = true)]
async fn a_switched_tool_shows_its_full_text_and_waits_for_the_click() {
    let scene = Scene::new();
    let id = scene.grant().await;
    let evaluate = tool("evaluate_script");
    for (answer, expected) in [
        (Answer::Reject, Some(ErrorCode::Rejected)),
        (Answer::TimedOut, Some(ErrorCode::TimedOut)),
        (Answer::Allow, None),
        (Answer::AllowForGrant, None),
    ] {
        scene.fakes.owner.will(answer);
        let admitted = scene.admit(Some(&id), &evaluate).await;
        assert_eq!(admitted.err().map(|failure| failure.code), expected, "{answer:?}");
    }
    let shown = scene.fakes.owner.seen().len();
    assert!(scene.admit(Some(&id), &evaluate).await.is_ok());
    assert_eq!(scene.fakes.owner.seen().len(), shown, "allowed for the grant: not asked again");
    assert!(format!("{:?}", scene.fakes.owner.seen()).contains("document.title"));
}

#[tokio::test(start_paused = true)]
async fn a_site_is_asked_about_once_and_kept() {
    let scene = Scene::new();
    let id = scene.grant().await;
    let permit = scene.admit(Some(&id), &tool("read_page")).await.unwrap();
    let profile: ProfileId = "k3x9".parse().unwrap();
    let origin = Origin::parse("https://shop.example.com/").unwrap();
    assert!(!permit.covers(&profile, &origin));
    scene.fakes.owner.will(Answer::Allow);
    permit.site(&profile, &origin).await.unwrap();
    assert!(permit.covers(&profile, &origin));
    assert_eq!(scene.fakes.memory.kept().len(), 1);
    permit.site(&profile, &origin).await.unwrap();
    let elsewhere = Origin::parse("https://example.net/").unwrap();
    scene.fakes.owner.will(Answer::Reject);
    assert_eq!(code(permit.site(&profile, &elsewhere).await), ErrorCode::SiteNotAllowed);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_waits_for_leaves_the_screen() {
    let scene = Scene::new();
    let id = scene.grant().await;
    let admitted =
        tokio::time::timeout(Duration::from_secs(1), scene.admit(Some(&id), &tool("evaluate_script"))).await;
    assert!(admitted.is_err());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(scene.fakes.owner.standing(), 0);
    assert_eq!(scene.hub.status().await.unwrap().live.grants[0].view.in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn time_that_the_machine_slept_counts() {
    let scene = Scene::new();
    let id = scene.grant().await;
    scene.fakes.clock.sleep(31 * 60_000);
    assert_eq!(code(scene.admit(Some(&id), &tool("read_page")).await), ErrorCode::NoGrant);
    assert!(scene.fakes.notifier.seen().contains(&"ended browser Expired".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_no_longer_counts_as_running() {
    let scene = Scene::new();
    let id = scene.grant().await;
    drop(scene.admit(Some(&id), &tool("read_page")).await.unwrap());
    let status = scene.hub.status().await.unwrap();
    assert_eq!(status.live.grants[0].view.in_flight, 0);
    assert_eq!(scene.fakes.audit.of("outcome")[0].fields["code"], json!("cancelled"));
}

#[tokio::test(start_paused = true)]
async fn sixty_four_calls_run_at_once_and_the_next_is_busy() {
    let scene = Scene::new();
    let id = scene.grant().await;
    let mut running = Vec::new();
    for _ in 0..64 {
        running.push(scene.admit(Some(&id), &tool("read_page")).await.unwrap());
    }
    assert_eq!(code(scene.admit(Some(&id), &tool("read_page")).await), ErrorCode::Busy);
    running.pop();
    scene.hub.status().await.unwrap();
    assert!(scene.admit(Some(&id), &tool("read_page")).await.is_ok());
}
