use consentry_wire::document::DocumentId;
use consentry_wire::frame::{StopBy, TabInfo};
use consentry_wire::held::{Request, Touch, Verdict};
use consentry_wire::site::{Origin, SiteScope};
use consentry_wire::{Outcome, PathName};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const PORTS: HubPorts = HubPorts { mcp: 7311, control: 7312 };
const TAB: u32 = 5;

fn at(ms: f64) -> Moment {
    Moment { steady: ms, wall: 1e12 + ms }
}

fn label(text: &str) -> GrantLabel {
    text.parse().unwrap()
}

fn only(addresses: &[&str]) -> SiteScope {
    SiteScope::Only(addresses.iter().map(|address| Origin::parse(address).unwrap().site()).collect())
}

fn grant(name: &str, sites: SiteScope, expires_in_ms: u64) -> GrantState {
    GrantState {
        label: label(name),
        path: PathName::browser(),
        client: "claude-code".into(),
        purpose: "Read.".into(),
        sites,
        expires_in_ms,
    }
}

fn state(epoch: u64, grants: Vec<GrantState>) -> State {
    State { epoch: Epoch(epoch), disabled: false, grants }
}

/// A guard with one grant for a.test that holds a tab there.
fn holding() -> Guard {
    let mut guard = Guard::default();
    guard.welcome(PORTS);
    guard.state(state(1, vec![grant("ABCD", only(&["https://a.test/"]), 600_000)]), at(0.0)).unwrap();
    guard.hold(&label("ABCD"), TAB);
    commit(&mut guard, "M", "L1", "https://a.test/", None);
    context(&mut guard, 1, "M");
    guard
}

fn commit(guard: &mut Guard, frame: &str, loader: &str, url: &str, parent: Option<&str>) -> Verdict {
    let frame = json!({"id": frame, "loaderId": loader, "url": url, "parentId": parent});
    guard.event(TAB, None, "Page.frameNavigated", &json!({ "frame": frame }))
}

fn context(guard: &mut Guard, id: i64, frame: &str) {
    let event = json!({"context": {"id": id, "uniqueId": format!("u{id}"), "name": "",
        "auxData": {"isDefault": true, "frameId": frame}}});
    guard.event(TAB, None, "Runtime.executionContextCreated", &event);
}

fn document(frame: &str, loader: &str) -> DocumentId {
    DocumentId { frame: frame.into(), loader: loader.into() }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn evaluate(context: &str) -> (&'static str, Map<String, Value>) {
    ("Runtime.evaluate", object(json!({"expression": "1", "uniqueContextId": context, "timeout": 10})))
}

fn verdict(
    guard: &Guard,
    (method, params): (&str, Map<String, Value>),
    bound: Option<&DocumentId>,
    now: f64,
) -> Result<command::Ticket, ErrorCode> {
    let request = Request { session: None, method, params: &params, document: bound };
    guard.may_send(&label("ABCD"), TAB, &request, at(now)).map_err(|failure| failure.code)
}

fn refusal(
    guard: &Guard,
    command: (&str, Map<String, Value>),
    bound: Option<&DocumentId>,
) -> Option<ErrorCode> {
    verdict(guard, command, bound, 0.0).err()
}

fn facts(url: &str) -> TabFacts {
    TabFacts { id: TAB, url: url.into(), title: "Title".into(), ..TabFacts::default() }
}

fn touch(guard: &Guard, tab: &TabFacts, touch: Touch) -> Option<ErrorCode> {
    guard.may_touch(&label("ABCD"), tab, touch, at(0.0)).err().map(|failure| failure.code)
}

#[test]
fn a_command_passes_for_the_document_that_its_frame_holds() {
    let mut guard = holding();
    let here = document("M", "L1");
    let ticket = verdict(&guard, evaluate("u1"), Some(&here), 0.0).unwrap();
    assert_eq!(guard.may_answer(&ticket, at(0.0)), Ok(()));
    assert_eq!(refusal(&guard, evaluate("u1"), None), Some(ErrorCode::InvalidArgument));
    assert_eq!(refusal(&guard, evaluate("u9"), Some(&here)), Some(ErrorCode::DocumentChanged));
    let earlier = document("M", "L0");
    assert_eq!(refusal(&guard, evaluate("u1"), Some(&earlier)), Some(ErrorCode::DocumentChanged));

    commit(&mut guard, "M", "L2", "https://a.test/2", None);
    let late = guard.may_answer(&ticket, at(0.0)).unwrap_err();
    assert_eq!((late.code, late.outcome), (ErrorCode::DocumentChanged, Outcome::MaybeDone));
    assert_eq!(refusal(&guard, evaluate("u1"), Some(&here)), Some(ErrorCode::DocumentChanged));
}

#[test]
fn methods_and_parameters_off_the_list_are_refused_before_anything_else() {
    let guard = holding();
    for method in ["Network.getAllCookies", "Page.navigate", "Runtime.terminateExecution"] {
        assert_eq!(refusal(&guard, (method, Map::new()), None), Some(ErrorCode::MethodNotAllowed));
    }
}

#[test]
fn a_site_that_is_not_allowed_is_neither_read_nor_acted_upon() {
    let mut guard = holding();
    commit(&mut guard, "C", "L1", "https://ads.test/", Some("M"));
    context(&mut guard, 2, "C");
    let frame = document("C", "L1");
    assert_eq!(refusal(&guard, evaluate("u2"), Some(&frame)), Some(ErrorCode::SiteNotAllowed));
    commit(&mut guard, "M", "L2", "https://b.test/", None);
    let top = document("M", "L2");
    let key = || ("Input.insertText", object(json!({"text": "a"})));
    let picture = || ("Page.captureScreenshot", Map::new());
    assert_eq!(refusal(&guard, key(), Some(&top)), Some(ErrorCode::SiteNotAllowed));
    assert_eq!(refusal(&guard, picture(), Some(&top)), Some(ErrorCode::SiteNotAllowed));
    let dialog = ("Page.handleJavaScriptDialog", object(json!({"accept": true})));
    assert_eq!(refusal(&guard, dialog, None), Some(ErrorCode::SiteNotAllowed));
}

/// Typing and clicking reach the whole tab, so a frame of an allowed site in a foreign page is not enough.
#[test]
fn input_wants_the_tabs_own_document_covered_too() {
    let mut guard = holding();
    commit(&mut guard, "M", "L2", "https://b.test/", None);
    commit(&mut guard, "C", "L1", "https://a.test/", Some("M"));
    context(&mut guard, 3, "C");
    let frame = document("C", "L1");
    assert!(verdict(&guard, evaluate("u3"), Some(&frame), 0.0).is_ok());
    let key = ("Input.insertText", object(json!({"text": "a"})));
    assert_eq!(refusal(&guard, key, Some(&frame)), Some(ErrorCode::SiteNotAllowed));
}

#[test]
fn a_command_cannot_reach_another_frame_than_the_one_it_names() {
    let mut guard = holding();
    commit(&mut guard, "C", "L1", "https://a.test/frame", Some("M"));
    context(&mut guard, 2, "C");
    let (top, frame) = (document("M", "L1"), document("C", "L1"));
    let function = |object_id: &str| {
        let params = json!({"functionDeclaration": "f", "objectId": object_id, "returnByValue": true});
        ("Runtime.callFunctionOn", object(params))
    };
    assert!(verdict(&guard, function("-77.1.4"), Some(&top), 0.0).is_ok());
    for other in ["-77.2.4", "-77.3.4", "nonsense", "1.1"] {
        assert_eq!(refusal(&guard, function(other), Some(&top)), Some(ErrorCode::DocumentChanged), "{other}");
    }
    let resolve = |context: i64| {
        ("DOM.resolveNode", object(json!({"backendNodeId": 1, "executionContextId": context})))
    };
    assert!(verdict(&guard, resolve(2), Some(&frame), 0.0).is_ok());
    assert_eq!(refusal(&guard, resolve(1), Some(&frame)), Some(ErrorCode::DocumentChanged));
    let world = |frame: &str| {
        ("Page.createIsolatedWorld", object(json!({"frameId": frame, "worldName": "consentry"})))
    };
    assert!(verdict(&guard, world("M"), Some(&top), 0.0).is_ok());
    assert_eq!(refusal(&guard, world("C"), Some(&top)), Some(ErrorCode::DocumentChanged));
    let picture = ("Page.captureScreenshot", Map::new());
    assert_eq!(refusal(&guard, picture, Some(&frame)), Some(ErrorCode::DocumentChanged));
    assert_eq!(refusal(&guard, evaluate("u2"), Some(&top)), Some(ErrorCode::DocumentChanged));
}

#[test]
fn a_session_is_used_only_while_it_lives() {
    let mut guard = holding();
    let attached = json!({"sessionId": "S", "targetInfo": {"type": "iframe", "targetId": "C"}});
    let child = guard.event(TAB, None, "Target.attachedToTarget", &attached);
    assert_eq!(child, Verdict::SetUp("S".into()));
    let tree = json!({"frameTree": {"frame": {"id": "C", "loaderId": "L1", "url": "https://a.test/c",
        "parentId": "M"}}});
    assert_eq!(guard.seed(TAB, Some("S"), &tree), Verdict::Pass);
    let enable = |session| {
        let params = Map::new();
        let request =
            Request { session: Some(session), method: "Page.enable", params: &params, document: None };
        guard.may_send(&label("ABCD"), TAB, &request, at(0.0)).is_ok()
    };
    assert!(enable("S") && !enable("T"));
    assert_eq!(guard.event(TAB, Some("T"), "Page.loadEventFired", &json!({})), Verdict::Drop);
    let worker = json!({"sessionId": "W", "targetInfo": {"type": "worker", "targetId": "W"}});
    assert_eq!(guard.event(TAB, None, "Target.attachedToTarget", &worker), Verdict::Drop);
    guard.event(TAB, None, "Target.detachedFromTarget", &json!({"sessionId": "S"}));
    let text = object(json!({"text": "a"}));
    let bound = document("C", "L1");
    let request =
        Request { session: None, method: "Input.insertText", params: &text, document: Some(&bound) };
    assert!(guard.may_send(&label("ABCD"), TAB, &request, at(0.0)).is_err());
}

#[test]
fn a_tab_that_goes_where_nobody_may_drive_it_is_let_go_of() {
    for address in ["http://localhost:7312/", "file:///etc/passwd", "chrome://settings/", "data:text/html,x"]
    {
        assert_eq!(commit(&mut holding(), "M", "L9", address, None), Verdict::LetGo, "{address}");
    }
    let mut guard = holding();
    assert_eq!(commit(&mut guard, "C", "L1", "http://127.0.0.1:7312/", Some("M")), Verdict::LetGo);
    assert_eq!(commit(&mut guard, "D", "L1", "chrome-extension://abc/frame.html", Some("M")), Verdict::Pass);
    // A page that could not be loaded stays held, so that the caller can go elsewhere; nothing covers it.
    let failed = json!({"frame": {"id": "M", "loaderId": "L3", "url": "chrome-error://chromewebdata/",
        "unreachableUrl": "https://a.test/"}});
    assert_eq!(guard.event(TAB, None, "Page.frameNavigated", &failed), Verdict::Pass);
    let key = ("Input.insertText", object(json!({"text": "a"})));
    assert_eq!(refusal(&guard, key, Some(&document("M", "L3"))), Some(ErrorCode::ForbiddenPage));
}

#[test]
fn an_empty_page_belongs_to_whoever_made_it() {
    let mut guard = holding();
    let world = || ("Page.createIsolatedWorld", object(json!({"frameId": "C", "worldName": "consentry"})));
    let owner = |guard: &mut Guard, origin: &str| {
        let event = json!({"context": {"id": 9, "uniqueId": "u9", "name": "", "origin": origin,
            "auxData": {"isDefault": true, "frameId": "C"}}});
        guard.event(TAB, None, "Runtime.executionContextCreated", &event)
    };
    for (loader, origin, expected) in [
        ("L1", "https://a.test", None),
        ("L2", "https://b.test", Some(ErrorCode::SiteNotAllowed)),
        ("L3", "://", Some(ErrorCode::ForbiddenPage)),
    ] {
        commit(&mut guard, "C", loader, "about:srcdoc", Some("M"));
        let frame = document("C", loader);
        assert_eq!(refusal(&guard, world(), Some(&frame)), Some(ErrorCode::ForbiddenPage), "not known yet");
        assert_eq!(owner(&mut guard, origin), Verdict::Pass);
        assert_eq!(refusal(&guard, world(), Some(&frame)), expected, "{origin}");
    }
    // What a script says of itself never stands against the address of its frame.
    commit(&mut guard, "C", "L4", "https://b.test/", Some("M"));
    owner(&mut guard, "https://a.test");
    assert_eq!(refusal(&guard, world(), Some(&document("C", "L4"))), Some(ErrorCode::SiteNotAllowed));
    assert_eq!(owner(&mut guard, "http://localhost:7312"), Verdict::LetGo);
}

#[test]
fn tabs_are_touched_only_within_the_sites_and_never_on_the_way_to_a_forbidden_page() {
    let mut guard = holding();
    assert_eq!(touch(&guard, &facts("https://a.test/x"), Touch::Use), None);
    assert_eq!(touch(&guard, &facts("https://b.test/x"), Touch::Use), Some(ErrorCode::SiteNotAllowed));
    assert_eq!(touch(&guard, &facts("https://b.test/x"), Touch::Move), None);
    assert_eq!(guard.closing(&label("ABCD"), TAB), Touch::Move);
    guard.opened(&label("ABCD"), TAB);
    assert_eq!(guard.closing(&label("ABCD"), TAB), Touch::CloseOwn);
    assert_eq!(guard.closing(&label("EFGH"), TAB), Touch::Move);
    assert_eq!(touch(&guard, &facts("http://127.0.0.1:7312/"), Touch::CloseOwn), None);
    assert_eq!(touch(&guard, &facts("chrome://settings"), Touch::Move), Some(ErrorCode::ForbiddenPage));
    let going = TabFacts { pending_url: "http://localhost:7312/".into(), ..facts("https://a.test/") };
    assert_eq!(touch(&guard, &going, Touch::Use), Some(ErrorCode::ForbiddenPage));
    let hidden = TabFacts { incognito: true, ..facts("https://a.test/") };
    assert_eq!(touch(&guard, &hidden, Touch::Use), Some(ErrorCode::UnknownTab));
    let open = |url| guard.may_open(&label("ABCD"), url, at(0.0)).err().map(|failure| failure.code);
    assert_eq!(open("https://a.test/"), None);
    assert_eq!(open("https://b.test/"), Some(ErrorCode::SiteNotAllowed));
    assert_eq!(open("javascript:alert(1)"), Some(ErrorCode::ForbiddenPage));
}

#[test]
fn a_list_shows_no_more_than_a_host_of_what_is_not_allowed() {
    let guard = holding();
    let tabs = [
        "https://a.test/private?x=1",
        "https://b.test/private?x=1",
        "chrome://settings/passwords",
        "http://127.0.0.1:7312/secret",
    ];
    let mut all: Vec<TabFacts> = tabs.iter().map(|url| facts(url)).collect();
    all.push(TabFacts { incognito: true, ..facts("https://a.test/") });
    let list = guard.list(&label("ABCD"), all, at(0.0)).unwrap();
    let seen: Vec<(&str, &str)> =
        list.iter().map(|TabInfo { url, title, .. }| (url.as_str(), title.as_str())).collect();
    let expected =
        [("https://a.test/private?x=1", "Title"), ("https://b.test", ""), ("chrome:", ""), ("http:", "")];
    assert_eq!(seen, expected);
}

#[test]
fn an_older_state_is_refused_and_the_same_one_refreshes() {
    let mut guard = holding();
    assert_eq!(guard.state(state(0, Vec::new()), at(1.0)), Err(OldState));
    let same = state(1, vec![grant("ABCD", only(&["https://a.test/"]), 600_000)]);
    assert_eq!(guard.state(same, at(5000.0)), Ok(Ended::default()));
    assert!(guard.may_run(&label("ABCD"), at(10_000.0)).is_ok());
    let gone = guard.state(state(2, Vec::new()), at(10_000.0)).unwrap();
    assert_eq!(gone, Ended { grants: vec![label("ABCD")], tabs: vec![TAB] });
    assert!(!guard.is_held(TAB));
}

#[test]
fn a_grant_ends_with_its_time_with_silence_and_with_either_clock() {
    let ended = |now| {
        let guard = holding();
        guard.may_run(&label("ABCD"), now).is_err()
    };
    assert!(!ended(at(5999.0)) && ended(at(6000.0)));
    assert!(ended(Moment { steady: 0.0, wall: 1e12 + 6000.0 }), "the machine slept");
    assert!(ended(Moment { steady: 6000.0, wall: 0.0 }), "the clock was set back");
    let mut guard = Guard::default();
    guard.welcome(PORTS);
    guard.state(state(1, vec![grant("ABCD", SiteScope::Any, 500)]), at(0.0)).unwrap();
    assert_eq!(guard.expire(at(499.0)), Ended::default());
    assert_eq!(guard.expire(at(500.0)).grants, [label("ABCD")]);
}

#[test]
fn a_tab_is_held_until_its_last_holder_lets_go() {
    let mut guard = Guard::default();
    guard.welcome(PORTS);
    let both = || vec![grant("ABCD", SiteScope::Any, 600_000), grant("WXYZ", SiteScope::Any, 600_000)];
    guard.state(state(1, both()), at(0.0)).unwrap();
    assert!(guard.hold(&label("ABCD"), TAB) && !guard.hold(&label("WXYZ"), TAB));
    let one = state(2, vec![grant("WXYZ", SiteScope::Any, 600_000)]);
    let ended = guard.state(one, at(1.0)).unwrap();
    assert_eq!(ended, Ended { grants: vec![label("ABCD")], tabs: Vec::new() });
    assert!(guard.release(&label("WXYZ"), TAB));
}

/// A state that was under way when the owner pressed Stop must not bring the grants back.
#[test]
fn after_stop_nothing_comes_back_before_the_hub_knows() {
    let mut guard = holding();
    let stop = Halt::Stop(StopBy::Popup);
    assert_eq!(guard.halt(stop).tabs, [TAB]);
    let stale = || state(1, vec![grant("ABCD", SiteScope::Any, 600_000)]);
    guard.state(stale(), at(1.0)).unwrap();
    assert!(guard.may_run(&label("ABCD"), at(1.0)).is_err());
    // The hub went away before it heard: the next one is told.
    guard.forget();
    assert_eq!(guard.welcome(PORTS), Some(stop));
    guard.state(stale(), at(1.0)).unwrap();
    assert!(guard.may_run(&label("ABCD"), at(1.0)).is_err() && guard.is_halted());
    guard.state(state(2, vec![grant("EFGH", SiteScope::Any, 600_000)]), at(1.0)).unwrap();
    assert!(guard.may_run(&label("EFGH"), at(1.0)).is_ok() && !guard.is_halted());
    assert_eq!(guard.welcome(PORTS), None);
}

#[test]
fn a_hub_that_is_lost_leaves_nothing() {
    let mut guard = holding();
    assert_eq!(guard.forget(), Ended { grants: vec![label("ABCD")], tabs: vec![TAB] });
    assert_eq!(refusal(&guard, evaluate("u1"), Some(&document("M", "L1"))), Some(ErrorCode::NoGrant));
    // Another hub counts its epochs anew.
    guard.welcome(PORTS);
    assert!(guard.state(state(0, Vec::new()), at(1.0)).is_ok());
}

/// What the model below remembers: which grants live until when, who holds the tab, what it shows.
#[derive(Debug, Default)]
struct Model {
    linked: bool,
    epoch: Option<u64>,
    heard: f64,
    grants: Vec<(usize, usize, f64)>,
    holders: Vec<usize>,
    frames: [Option<(u32, usize)>; 2],
}

const SITES: [&str; 3] = ["https://a.test/", "https://b.test/", "http://localhost:8080/"];
const NAMES: [&str; 3] = ["AAAA", "BBBB", "CCCC"];
const FRAMES: [&str; 2] = ["M", "C"];

#[derive(Debug, Clone)]
enum Step {
    Welcome,
    Forget,
    State { epoch: u64, grants: Vec<(usize, usize, u64)> },
    Wait(f64),
    Hold(usize),
    Release(usize),
    Commit { frame: usize, site: usize },
    Halt,
    Call { grant: usize, frame: usize, loader: u32, context_of: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let grants = proptest::collection::vec((0..3usize, 0..4usize, 1..20_000u64), 0..3);
    prop_oneof![
        2 => Just(Step::Welcome),
        1 => Just(Step::Forget),
        4 => (0..6u64, grants).prop_map(|(epoch, grants)| Step::State { epoch, grants }),
        3 => (0.0..4_000.0).prop_map(Step::Wait),
        4 => (0..3usize).prop_map(Step::Hold),
        1 => (0..3usize).prop_map(Step::Release),
        4 => (0..2usize, 0..3usize).prop_map(|(frame, site)| Step::Commit { frame, site }),
        1 => Just(Step::Halt),
        8 => (0..3usize, 0..2usize, 0..8u32, 0..2usize).prop_map(|(grant, frame, loader, context_of)| {
            Step::Call { grant, frame, loader, context_of }
        }),
    ]
}

impl Model {
    fn live(&self, grant: usize, now: f64) -> Option<usize> {
        let (_, site, ms) = self.grants.iter().find(|(name, ..)| *name == grant)?;
        let age = now - self.heard;
        (self.linked && age < STATE_LIFE_MS && age < *ms).then_some(*site)
    }

    fn allows(&self, grant: usize, frame: usize, loader: u32, context_of: usize, now: f64) -> bool {
        let covered = |site: usize, shown: usize| site == shown || site == 3;
        self.live(grant, now).is_some_and(|site| {
            self.holders.contains(&grant)
                && context_of == frame
                && self.frames[frame].is_some_and(|(now, shown)| now == loader && covered(site, shown))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// In whatever order states, navigations, stops and calls come, a call passes only with a live grant that
    /// holds the tab and covers the document that the frame shows at that moment.
    #[test]
    fn no_call_passes_without_a_live_grant_for_the_document(steps in proptest::collection::vec(step(), 1..80)) {
        let (mut guard, mut model) = (Guard::default(), Model::default());
        let (mut now, mut loader) = (0.0, 0);
        for step in steps {
            match step {
                Step::Welcome => { guard.welcome(PORTS); model.linked = true; model.epoch = None; }
                Step::Forget => {
                    guard.forget();
                    model.linked = false;
                    model.epoch = None;
                    model.grants.clear();
                    model.holders.clear();
                }
                Step::State { epoch, grants } => {
                    let wire = grants.iter().map(|(name, site, ms)| {
                        let sites = SITES.get(*site).map_or(SiteScope::Any, |site| only(&[site]));
                        grant(NAMES[*name], sites, *ms)
                    });
                    let old = !model.linked || model.epoch.is_some_and(|last| epoch < last);
                    prop_assert_eq!(guard.state(state(epoch, wire.collect()), at(now)).is_err(), old);
                    if !old {
                        model.epoch = Some(epoch);
                        model.heard = now;
                        // After a stop the guard may allow less than the model, and never more.
                        model.grants = grants.iter().map(|(name, site, ms)| (*name, *site, *ms as f64)).collect();
                        model.grants.reverse();
                        let grants = model.grants.clone();
                        model.holders.retain(|holder| grants.iter().any(|(name, ..)| name == holder));
                    }
                }
                Step::Wait(ms) => {
                    now += ms;
                    guard.expire(at(now));
                    let live: Vec<usize> = (0..3).filter(|grant| model.live(*grant, now).is_some()).collect();
                    model.holders.retain(|holder| live.contains(holder));
                    model.grants.retain(|(name, ..)| live.contains(name));
                }
                Step::Hold(name) => {
                    if guard.may_run(&label(NAMES[name]), at(now)).is_ok() {
                        prop_assert!(model.live(name, now).is_some());
                        guard.hold(&label(NAMES[name]), TAB);
                        model.holders.push(name);
                    }
                }
                Step::Release(name) => {
                    guard.release(&label(NAMES[name]), TAB);
                    model.holders.retain(|holder| *holder != name);
                }
                Step::Commit { frame, site } => {
                    loader = (loader + 1) % 8;
                    let parent = (frame == 1).then_some("M");
                    let verdict = commit(&mut guard, FRAMES[frame], &loader.to_string(), SITES[site], parent);
                    if verdict == Verdict::Pass {
                        context(&mut guard, frame as i64, FRAMES[frame]);
                        model.frames[frame] = Some((loader, site));
                        if frame == 0 {
                            model.frames[1] = None;
                        }
                    }
                }
                Step::Halt => {
                    guard.halt(Halt::DisableAll);
                    model.grants.clear();
                    model.holders.clear();
                }
                Step::Call { grant, frame, loader, context_of } => {
                    let (method, params) = evaluate(&format!("u{context_of}"));
                    let bound = document(FRAMES[frame], &loader.to_string());
                    let request =
                        Request { session: None, method, params: &params, document: Some(&bound) };
                    let verdict = guard.may_send(&label(NAMES[grant]), TAB, &request, at(now));
                    if let Ok(ticket) = verdict {
                        prop_assert!(model.allows(grant, frame, loader, context_of, now), "{:?}", model);
                        prop_assert!(guard.may_answer(&ticket, at(now)).is_ok());
                    }
                }
            }
        }
    }
}

/// The property above would hold of a guard that refuses everything: this one shows that calls do pass in it.
#[test]
fn the_models_calls_do_pass() {
    let guard = holding();
    assert!(verdict(&guard, evaluate("u1"), Some(&document("M", "L1")), 0.0).is_ok());
}
